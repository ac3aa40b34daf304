//! A page of the documentation as the steps a reader takes. The info string of a fenced block gives its kind:
//!
//! ```text
//! sh                  commands, run in the reader's shell, which keeps its variables and directory; each must succeed
//! sh background       a command that keeps running, in a terminal of its own
//! sh fails            commands of which the last one must fail
//! sh again            commands that only read, repeated until they print what is expected
//! text                what the block before prints; after `background`, what the reader waits for
//! text interrupt      the terminal of a `background` block again: its command, then `^C`
//! console             commands that the test does not run; `LIMITS` in the parent module counts them
//! ```
//!
//! A block of any other language whose first line is a comment with a file name (`# policy.yaml`) is that file.

use std::fmt::Write as _;

/// How a block of commands runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Run,
    Background,
    Fails,
    Again,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file that the reader saves.
    File {
        name: String,
        text: String,
    },
    Commands(Commands),
    /// Ctrl-C in the terminal where this command runs.
    Interrupt {
        line: usize,
        command: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// The line of the fence, from 1.
    pub line: usize,
    pub how: How,
    pub text: String,
    pub expected: Option<Expected>,
}

/// A block that shows output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The lines between the fences, from 0, in the page.
    pub lines: std::ops::Range<usize>,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub steps: Vec<Step>,
    /// How many places of the page show commands that are not run.
    pub not_run: usize,
}

impl Page {
    /// # Errors
    /// The line that breaks the conventions.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        let mut lines = text.lines().enumerate();
        let mut was_command = false;
        while let Some((at, line)) = lines.next() {
            let Some((indent, info)) = fence(line) else {
                // Consecutive lines of an indented block are one place.
                let is_command = line.starts_with("    ") && is_command(line);
                page.not_run += usize::from(is_command && !was_command);
                was_command = is_command;
                continue;
            };
            let mut content = String::new();
            let end = loop {
                let (end, line) = lines.next().ok_or_else(|| format!("line {}: the block has no end", at + 1))?;
                if fence(line).is_some() {
                    break end;
                }
                // Writing to a String cannot fail.
                let _ = writeln!(content, "{}", line.get(indent..).unwrap_or_default());
            };
            page.block(info, content, at..end)?;
        }
        Ok(page)
    }

    /// Takes a block whose fences are at both ends of `place`, lines from 0.
    fn block(&mut self, info: &str, text: String, place: std::ops::Range<usize>) -> Result<(), String> {
        let line = place.start + 1;
        let how = match info {
            "sh" => How::Run,
            "sh background" => How::Background,
            "sh fails" => How::Fails,
            "sh again" => How::Again,
            "text" => return self.expect(text, line..place.end),
            "text interrupt" => {
                let command = text.lines().next().filter(|_| text.lines().last() == Some("^C"));
                let command = command.ok_or_else(|| format!("line {line}: write the command, and `^C` at the end"))?;
                self.steps.push(Step::Interrupt { line, command: command.to_owned() });
                return Ok(());
            }
            "bash" | "shell" | "zsh" => return Err(format!("line {line}: write `sh` instead of `{info}`")),
            _ if info.starts_with("sh ") => return Err(format!("line {line}: unknown kind of block `{info}`")),
            _ => {
                self.not_run += usize::from(info == "console" || text.lines().any(is_command));
                if let Some(name) = file_name(info, &text) {
                    self.steps.push(Step::File { name: name.to_owned(), text });
                }
                return Ok(());
            }
        };
        if how == How::Again && !text.lines().all(only_reads) {
            return Err(format!("line {line}: only commands that read may be repeated"));
        }
        self.steps.push(Step::Commands(Commands { line, how, text, expected: None }));
        Ok(())
    }

    fn expect(&mut self, text: String, lines: std::ops::Range<usize>) -> Result<(), String> {
        match self.steps.last_mut() {
            Some(Step::Commands(Commands { expected: expected @ None, .. })) => {
                *expected = Some(Expected { lines, text });
                Ok(())
            }
            _ => Err(format!("line {}: no commands stand before this output", lines.start)),
        }
    }
}

/// The indent and the info string of a line that opens or closes a block.
fn fence(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start();
    Some((line.len() - rest.len(), rest.strip_prefix("```")?.trim()))
}

/// The name in a comment on the first line of a file, relative and without blanks.
fn file_name<'a>(info: &str, text: &'a str) -> Option<&'a str> {
    if info.is_empty() {
        return None;
    }
    let name = text.lines().next()?.trim_start_matches(['#', '-', '/']).trim();
    let is_name = name.contains('.') && !name.contains([' ', ':']) && !text.starts_with(name);
    let is_relative = !name.starts_with('/') && !text.starts_with("# /");
    (is_name && is_relative).then_some(name)
}

/// Whether the line is a command.
fn is_command(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("$ ");
    let word = line.split(' ').next().unwrap_or_default();
    ["kubectl", "karmada", "karmadactl", "cargo"].contains(&word)
}

/// Whether the line, or the one that it continues, only reads.
fn only_reads(line: &str) -> bool {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let command = words.find(|word| !word.starts_with('-') && *word != "karmada");
    let reads = match command {
        Some("failover") => matches!(words.next(), Some("history" | "plan")),
        command => {
            ["get", "describe", "events", "explain-placement", "why", "tree"].contains(&command.unwrap_or_default())
        }
    };
    line.starts_with("  ") || (["kubectl", "karmadactl"].contains(&program) && reads)
}

#[test]
fn a_page_is_files_and_commands_with_their_output() {
    let text = "# Title\n\n```yaml\n# a/policy.yaml\nkind: A\n```\n\n1. First:\n   ```sh\n   one\n     two\n   ```\n   prints\n   \
                ```text\n   1\n   ```\n```sh background\nkarmada up\n```\n\n    kubectl one\n    kubectl two\n\n```console\n$ \
                apt\n```\n```yaml\n# Not a name: x.\n```\n```text interrupt\nkarmada up\n^C\n```\n";
    let page = Page::parse(text).expect("a page");
    let file = Step::File { name: "a/policy.yaml".into(), text: "# a/policy.yaml\nkind: A\n".into() };
    let expected = Some(Expected { lines: 14..15, text: "1\n".into() });
    let run = Commands { line: 9, how: How::Run, text: "one\n  two\n".into(), expected };
    let background = Commands { line: 17, how: How::Background, text: "karmada up\n".into(), expected: None };
    let interrupt = Step::Interrupt { line: 30, command: "karmada up".into() };
    assert_eq!(page.steps, [file, Step::Commands(run), Step::Commands(background), interrupt]);
    assert_eq!(page.not_run, 2, "the indented block and the console");
}

#[test]
fn violations_of_the_conventions_are_errors() {
    for (text, error) in [
        ("```sh\na\n", "line 1: the block has no end"),
        ("```bash\na\n```\n", "line 1: write `sh` instead of `bash`"),
        ("```sh maybe\na\n```\n", "line 1: unknown kind of block `sh maybe`"),
        ("```sh again\nkubectl delete a\n```\n", "line 1: only commands that read may be repeated"),
        ("```text interrupt\nkarmada up\n```\n", "line 1: write the command, and `^C` at the end"),
        ("```text\na\n```\n", "line 1: no commands stand before this output"),
    ] {
        assert_eq!(Page::parse(text), Err(error.to_owned()), "{text}");
    }
}
