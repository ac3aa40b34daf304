//! A value that tasks wait for.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A changing value that tasks wait for. Waiters are woken in the order in which they started to wait, so that
/// simulations are reproducible: `tokio::sync::watch` wakes them in an unseeded order.
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

    /// Changes the value; waiters check it again if `change` returns true.
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        if change(&mut self.value.lock()) {
            self.changed.notify_waiters();
        }
    }

    /// Returns the first observed value that is `enough`; intermediate values may be missed.
    pub async fn wait_for(&self, mut enough: impl FnMut(&T) -> bool) -> T {
        loop {
            // Created before the check, so that a change after it is not missed.
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
    async fn the_longest_waiter_is_woken_first() {
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
