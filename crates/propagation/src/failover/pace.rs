//! The pace of evictions by taints without a fixed rate: as fast as the receiving clusters report healthy copies.
//!
//! A move is in progress until its replacement is healthy, or its eviction ends otherwise. The number of moves in
//! progress is limited; each healthy replacement raises the limit by one, so it doubles with each successful round of
//! moves. Moves without capacity stay in progress, so the remaining workloads are not moved, in the order of priority.

/// The number of moves before the first replacement is healthy: up to this many workloads leave a failed cluster at
/// once.
const FIRST: usize = 512;

/// The limit on moves in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Replacements that were healthy since the last time that no move was in progress.
    replaced: usize,
}

impl Window {
    /// Whether another move may begin in addition to this many.
    pub fn allows(self, in_progress: usize) -> bool {
        in_progress < FIRST.saturating_add(self.replaced)
    }

    /// A move has ended; `left` are in progress after it.
    pub fn ended(&mut self, is_replaced: bool, left: usize) {
        self.replaced = if left == 0 { 0 } else { self.replaced.saturating_add(usize::from(is_replaced)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of moves: in each as many begin as may, and this share of those in progress is replaced at its end.
    fn rounds(all: usize, percent: usize, rounds: usize) -> Vec<usize> {
        let (mut window, mut waiting, mut moving, mut begun) = (Window::default(), all, 0, Vec::new());
        for _ in 0..rounds {
            while waiting > 0 && window.allows(moving) {
                (waiting, moving) = (waiting - 1, moving + 1);
            }
            begun.push(all - waiting);
            for _ in 0..moving * percent / 100 {
                moving -= 1;
                window.ended(true, moving);
            }
        }
        begun
    }

    #[test]
    fn the_window_follows_the_health_of_targets() {
        for (all, percent, expected) in [
            (100, 0, vec![100, 100, 100]),
            (10_000, 0, vec![512, 512, 512]),
            (10_000, 50, vec![512, 1024, 1792, 2944, 4672, 7264]),
            (10_000, 95, vec![512, 1484, 3380, 7076, 10_000]),
        ] {
            assert_eq!(rounds(all, percent, expected.len()), expected, "{all} {percent}");
        }
        // Moves that end without a healthy replacement make room for as many, and no more.
        let mut window = Window::default();
        window.ended(false, 511);
        assert!(window.allows(511) && !window.allows(512));
        window.ended(true, 511);
        assert!(window.allows(512) && !window.allows(513));
        // The next incident begins at the beginning.
        window.ended(true, 0);
        assert_eq!(window, Window::default());
    }
}
