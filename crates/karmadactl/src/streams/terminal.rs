//! The user's terminal: raw while a command runs in it, its size, and the standard input as messages.

use std::io::{IsTerminal as _, Read as _};

use rustix::termios::{OptionalActions, Termios};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Sender;

use super::session::Input;

/// Whether the standard input is a terminal.
pub fn is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Raw mode, until this is dropped.
pub struct Raw(Termios);

impl Raw {
    /// `None` if the standard input is not a terminal or refuses.
    pub fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = rustix::termios::tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Sends the terminal's size now and whenever it changes.
pub fn follow_size(sender: Sender<Input>) {
    tokio::spawn(async move {
        let Ok(mut changes) = signal(SignalKind::window_change()) else { return };
        loop {
            let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) else { return };
            if sender.send(Input::Size(size.ws_col, size.ws_row)).await.is_err() || changes.recv().await.is_none() {
                return;
            }
        }
    });
}

/// Sends the standard input until it ends. It has a separate thread, because a read may never return; the thread ends
/// with the process.
pub fn follow_input(sender: Sender<Input>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let input = match std::io::stdin().read(&mut buffer) {
                Ok(0) | Err(_) => Input::End,
                Ok(length) => Input::Bytes(buffer[..length].to_vec()),
            };
            let is_end = matches!(input, Input::End);
            if sender.blocking_send(input).is_err() || is_end {
                return;
            }
        }
    });
}
