//! How far long work is: one line on the standard error, drawn over and over, on a terminal only.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts steps until it is dropped, which clears the line.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: usize,
    done: AtomicUsize,
    draws: bool,
}

impl Progress {
    /// The progress of `total` steps of `what`, such as "Reading clusters". A single step prints nothing.
    pub fn new(what: &'static str, total: usize) -> Self {
        let draws = total > 1 && std::io::stderr().is_terminal();
        let progress = Self { what, total, done: AtomicUsize::new(0), draws };
        progress.draw(0);
        progress
    }

    pub fn step(&self) {
        self.draw(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn draw(&self, done: usize) {
        if self.draws {
            // A closed terminal needs no progress.
            let _ = std::io::stderr().write_all(line(self.what, done, self.total).as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.draws {
            let _ = std::io::stderr().write_all(CLEAR.as_bytes());
        }
    }
}

/// Back to the start of the line, which is erased.
const CLEAR: &str = "\r\u{1b}[K";

fn line(what: &str, done: usize, total: usize) -> String {
    format!("{CLEAR}{what}: {done}/{total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_drawn_over_the_one_before() {
        assert_eq!(line("Reading clusters", 3, 100), "\r\u{1b}[KReading clusters: 3/100");
    }
}
