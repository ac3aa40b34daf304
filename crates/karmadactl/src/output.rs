//! The standard output of commands that run until they are interrupted. They end when its reader has gone, as in
//! `get -w | head -1`; commands that write objects do their work without a reader.

use std::io::Write as _;

use crate::error::Error;

/// The exit code that shells report for a process which SIGPIPE ends, as it ends kubectl.
const PIPE: u8 = 128 + 13;

/// The end of a command whose output is no longer read. It prints nothing.
pub fn unread() -> Error {
    Error::Coded { code: PIPE, error: Box::new(Error::Silent) }
}

/// Writes bytes, which need not be text.
///
/// # Errors
/// [`unread`], when the pipe is closed.
pub fn follow(bytes: &[u8]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(unread()),
        // Another failure, such as a full disk, ends nothing, as in kubectl.
        _ => Ok(()),
    }
}
