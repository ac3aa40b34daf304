//! `KARMADA_EXTERNAL_DIFF` and `KUBECTL_EXTERNAL_DIFF`: another program compares two directories, as kubectl lets it.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Compared;
use crate::error::Error;

/// The program and its arguments, if one is named.
pub fn named() -> Option<Vec<String>> {
    let names = ["KARMADA_EXTERNAL_DIFF", "KUBECTL_EXTERNAL_DIFF"];
    let line = names.iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.trim().is_empty()))?;
    Some(line.split_whitespace().map(str::to_owned).collect())
}

/// Runs the program on a directory with the live objects and one with the desired objects. Returns whether it found
/// differences.
pub async fn run(command: &[String], compared: &[Compared]) -> Result<bool, Error> {
    let directories = [Directory::new("LIVE")?, Directory::new("MERGED")?];
    for it in compared {
        directories[0].write(&it.name(), &it.before)?;
        directories[1].write(&it.name(), &it.after)?;
    }
    let Some((program, arguments)) = command.split_first() else { return Ok(false) };
    let mut child = std::process::Command::new(program);
    child.args(arguments).args(directories.iter().map(|it| it.0.as_path()));
    let ended = tokio::task::spawn_blocking(move || child.status()).await;
    match ended.map(|ended| ended.map(|status| status.code())) {
        Ok(Ok(Some(0))) => Ok(false),
        Ok(Ok(Some(1))) => Ok(true),
        Ok(Ok(code)) => {
            let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            Err(Error::message(format!("{program:?} ended with {code}")))
        }
        Ok(Err(error)) => Err(Error::message(format!("{program:?} cannot be started: {error}"))),
        Err(error) => Err(Error::message(format!("waiting for {program:?}: {error}"))),
    }
}

/// A directory that no other user can read, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Result<Self, Error> {
        let mut number = 0;
        loop {
            let path = std::env::temp_dir().join(format!("{name}-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(error) => return Err(Error::message(format!("creating {}: {error}", path.display()))),
            }
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let path: &Path = &self.0.join(name);
        let failed = |error: std::io::Error| Error::message(format!("writing {}: {error}", path.display()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that remain are in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
