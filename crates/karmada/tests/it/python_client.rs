//! A program in Python beside a control plane, ended with the test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running program of `tests/clients`.
pub struct Program {
    child: Child,
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that runs a program of `tests/clients`.
pub fn command(script: &str) -> Command {
    let python = std::env::var_os("KARMADA_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script));
    command
}

impl Program {
    pub fn start(script: &str, arguments: &[&OsStr]) -> Self {
        let child = command(script).args(arguments).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("Python is at hand");
        let stdout = child.stdout.take().expect("a piped stdout");
        Self { child, lines: BufReader::new(stdout).lines() }
    }
}
