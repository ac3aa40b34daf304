//! A value that tasks wait for.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value that changes, and those who wait for what it becomes. They are woken in the order in which they began to wait,
/// so that a simulation is the same each time: `tokio::sync::watch` wakes them in an order that no seed governs.
#[derive(Debug, Default)]
pub struct Level<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Level<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub fn get(&self) -> T {
        self.value.lock().clone()
    }

    pub fn set(&self, value: T) {
        self.change(|now| {
            *now = value;
            true
        });
    }

    /// Those who wait look again if `change` says that there is something new to see.
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.lock()) {
            self.changed.notify_waiters();
        }
    }

    /// Answers the first value seen that is `enough`; not every value is seen.
    pub async fn wait_for(&self, mut enough: impl FnMut(&T) -> bool) -> T {
        loop {
            // Made before the look: a change after it is not missed.
            let changed = self.changed.notified();
            {
                let value = self.value.lock();
                if enough(&value) {
                    return value.clone();
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_longest_is_woken_first() {
        let (level, woken) = (Arc::new(Level::new(0)), Arc::new(Mutex::new(Vec::new())));
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let (level, woken) = (level.clone(), woken.clone());
                tokio::spawn(async move {
                    let seen = level.wait_for(|now| *now >= 2).await;
                    woken.lock().push((n, seen));
                })
            })
            .collect();
        tokio::task::yield_now().await;
        level.set(1);
        tokio::task::yield_now().await;
        assert_eq!(*woken.lock(), []);
        level.change(|now| {
            *now = 3;
            true
        });
        for waiter in waiters {
            waiter.await.expect("no panic");
        }
        assert_eq!(*woken.lock(), (0..20).map(|n| (n, 3)).collect::<Vec<_>>());
        assert_eq!(level.wait_for(|_| true).await, level.get());
    }
}
