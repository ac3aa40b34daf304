//! Shows a block of lines that changes: in place on a terminal, and line by line, as they change, anywhere else.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

pub struct Screen {
    terminal: bool,
    shown: Vec<String>,
}

impl Screen {
    pub fn stdout() -> Self {
        Self { terminal: std::io::stdout().is_terminal(), shown: Vec::new() }
    }

    /// A line that stays.
    pub fn say(&mut self, line: &str) {
        self.shown.clear();
        write(&format!("{line}\n"));
    }

    /// The block as it is now, `after` the beginning.
    pub fn show(&mut self, block: Vec<String>, after: Duration) {
        if block == self.shown {
            return;
        }
        let text = if self.terminal { redrawn(&self.shown, &block) } else { changed(&self.shown, &block, after) };
        write(&text);
        self.shown = block;
    }
}

/// A reader that went away ends the output, not the demonstration.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Moves up over the old block, and clears each line before writing it anew (ECMA-48 CUU, EL and ED).
fn redrawn(old: &[String], new: &[String]) -> String {
    let up = if old.is_empty() { String::new() } else { format!("\x1b[{}A", old.len()) };
    let lines: String = new.iter().map(|line| format!("\x1b[2K{line}\n")).collect();
    format!("{up}{lines}\x1b[J")
}

fn changed(old: &[String], new: &[String], after: Duration) -> String {
    let is_new = |(at, line): &(usize, &String)| old.get(*at) != Some(*line);
    let seconds = after.as_secs_f64();
    new.iter().enumerate().filter(is_new).map(|(_, line)| format!("[{seconds:6.3}s] {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_terminal_is_redrawn_in_place() {
        assert_eq!(redrawn(&[], &lines("a\nb")), "\x1b[2Ka\n\x1b[2Kb\n\x1b[J");
        assert_eq!(redrawn(&lines("a\nb"), &lines("c")), "\x1b[2A\x1b[2Kc\n\x1b[J");
    }

    #[test]
    fn elsewhere_only_changed_lines_are_written() {
        let after = Duration::from_millis(1250);
        assert_eq!(changed(&lines("head\na\nb"), &lines("head\na\nc"), after), "[ 1.250s] c\n");
        assert_eq!(changed(&lines("a"), &lines("a"), after), "");
    }
}
