//! A temporary file in the user's editor.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// A new file that no other user can read; `name` is part of its name.
///
/// # Errors
/// Naming the file.
pub fn temporary(name: &str, extension: &str, text: &str) -> Result<PathBuf, Error> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let name = name.replace('/', "-");
    let path = std::env::temp_dir().join(format!("karmadactl-{name}-{}.{extension}", std::process::id()));
    let failed = |error: std::io::Error| Error::message(format!("{}: {error}", path.display()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(path)
}

/// Waits for the editor that the environment names.
///
/// # Errors
/// When it cannot be started or ends with a failure.
pub async fn open(file: &Path) -> Result<(), Error> {
    let named = ["KUBE_EDITOR", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|text| !text.is_empty());
    let editor = named.unwrap_or_else(|| "vi".into());
    let mut command = std::process::Command::new("sh");
    // The variable may contain arguments, so a shell evaluates it; the file name is a separate argument.
    command.arg("-c").arg({
        let mut line = editor.clone();
        line.push(" \"$0\"");
        line
    });
    command.arg(file);
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(_)) => Err(Error::message(format!("there was a problem with the editor {editor:?}"))),
        Ok(Err(error)) => Err(Error::message(format!("the editor {editor:?} cannot be started: {error}"))),
        Err(error) => Err(Error::message(format!("waiting for the editor: {error}"))),
    }
}
