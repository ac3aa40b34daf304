//! Long loops in short polls.

/// Ends the poll of a task after every few steps of a loop that seldom waits for anything.
///
/// A task that a poll wakes may stay on its thread until that poll ends, and no other thread can take it. A loop over all
/// objects in one poll would therefore delay the changes of users by its whole length.
#[derive(Debug)]
pub struct ShortPolls {
    steps: usize,
    left: usize,
}

impl ShortPolls {
    /// `steps` in one poll: as many as take about a millisecond.
    pub fn of(steps: usize) -> Self {
        Self { steps, left: steps }
    }

    /// Called after each step.
    pub async fn step(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.left = self.steps;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_loop_ends_its_poll_after_some_steps() {
        let done = std::cell::Cell::new(0);
        let mut looping = Box::pin(async {
            let mut polls = ShortPolls::of(3);
            for _ in 0..10 {
                done.set(done.get() + 1);
                polls.step().await;
            }
        });
        let mut seen = Vec::new();
        while looping.as_mut().now_or_never().is_none() {
            seen.push(done.get());
        }
        assert_eq!(seen, [3, 6, 9]);
        assert_eq!(done.get(), 10);
    }
}
