//! The lines of the demonstration: appended, never redrawn, in colour where the terminal supports it.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

/// The subject of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An action of the demonstration.
    Action,
    /// An observation in the desired state.
    Good,
    /// An observation of a failure.
    Bad,
}

impl Tone {
    /// Foreground colours of ECMA-48: cyan, green, yellow.
    fn colour(self) -> &'static str {
        match self {
            Self::Action => "\x1b[36m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[33m",
        }
    }
}

pub struct Screen {
    out: Box<dyn Write + Send>,
    colour: bool,
}

impl Screen {
    /// Standard output, with colour on a terminal unless `NO_COLOR` (see <https://no-color.org>) is set or the terminal
    /// is dumb.
    pub fn stdout() -> Self {
        let set = |name: &str| std::env::var(name).unwrap_or_default();
        let terminal = std::io::stdout().is_terminal();
        Self::new(std::io::stdout(), has_colour(terminal, &set("NO_COLOR"), &set("TERM")))
    }

    pub fn new(out: impl Write + Send + 'static, colour: bool) -> Self {
        Self { out: Box::new(out), colour }
    }

    /// One line of the story, `after` its beginning.
    pub fn line(&mut self, after: Duration, tone: Tone, verb: &str, text: &str) {
        let line = rendered(after, tone, verb, text, self.colour);
        self.write(&line);
    }

    /// Text outside the story.
    pub fn text(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// A closed pipe ends the output, not the demonstration.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn has_colour(terminal: bool, no_color: &str, term: &str) -> bool {
    terminal && no_color.is_empty() && term != "dumb"
}

fn rendered(after: Duration, tone: Tone, verb: &str, text: &str, colour: bool) -> String {
    let (time, verb) = (format!("{:5.1}s", after.as_secs_f64()), format!("{verb:<8}"));
    if !colour {
        return format!("{time}  {verb}  {text}\n");
    }
    let (faint, of_tone, plain) = ("\x1b[2m", tone.colour(), "\x1b[0m");
    format!("{faint}{time}{plain}  {of_tone}{verb}{plain}  {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_that_supports_it() {
        for (terminal, no_color, term, expected) in [
            (true, "", "xterm-256color", true),
            (true, "", "", true),
            (true, "1", "xterm-256color", false),
            (true, "", "dumb", false),
            (false, "", "xterm-256color", false),
        ] {
            assert_eq!(has_colour(terminal, no_color, term), expected, "{terminal} {no_color:?} {term:?}");
        }
    }

    #[test]
    fn lines_are_aligned_and_coloured_by_tone() {
        let after = Duration::from_millis(1250);
        for (tone, colour, expected) in [
            (Tone::Action, false, "  1.2s  Joined    member1\n"),
            (Tone::Bad, false, "  1.2s  Joined    member1\n"),
            (Tone::Action, true, "\x1b[2m  1.2s\x1b[0m  \x1b[36mJoined  \x1b[0m  member1\n"),
            (Tone::Good, true, "\x1b[2m  1.2s\x1b[0m  \x1b[32mJoined  \x1b[0m  member1\n"),
            (Tone::Bad, true, "\x1b[2m  1.2s\x1b[0m  \x1b[33mJoined  \x1b[0m  member1\n"),
        ] {
            assert_eq!(rendered(after, tone, "Joined", "member1", colour), expected, "{tone:?} {colour}");
        }
    }
}
