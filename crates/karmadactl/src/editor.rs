//! A temporary file in the user's editor.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{self, Error};

/// A new file that no other user can read; `name` is part of its name.
///
/// # Errors
/// Naming the file.
pub fn temporary(name: &str, extension: &str, text: &str) -> Result<PathBuf, Error> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let name = name.replace('/', "-");
    let mut attempt = 0;
    loop {
        let file = format!("karmadactl-{name}-{}{attempt:02}.{extension}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = match created {
            // An earlier attempt of this process, or another process of this number.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                attempt += 1;
                continue;
            }
            Err(error) => Err(error),
            Ok(mut file) => file.write_all(text.as_bytes()),
        };
        return match written {
            Ok(()) => Ok(path),
            Err(error) => Err(Error::message(format!("open {}: {}", path.display(), error::of_file(&error)))),
        };
    }
}

/// A text as the user has edited it, and the file that has it.
///
/// # Errors
/// As [`open`]; and when the file cannot be read.
pub async fn edited(extension: &str, text: &str) -> Result<(String, PathBuf), Error> {
    let file = temporary("edit", extension, text)?;
    open(&file).await?;
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok((text, file)),
        Err(error) => Err(Error::message(format!("open {}: {}", file.display(), error::of_file(&error)))),
    }
}

/// The program and its arguments: words, unless quotes require a shell.
fn command(editor: &str, shell: Option<&str>, file: &Path) -> Command {
    let is_quoted = editor.contains(' ') && editor.contains(['"', '\'', '\\']);
    let mut command;
    if is_quoted {
        command = Command::new(shell.unwrap_or("/bin/bash"));
        command.arg("-c").arg(format!("{editor} {file:?}"));
    } else {
        let mut words = editor.split(' ');
        command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg(file);
    }
    command
}

/// Waits for the editor that the environment names.
///
/// # Errors
/// When it cannot be started or ends with a failure.
pub async fn open(file: &Path) -> Result<(), Error> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let editor = ["KUBE_EDITOR", "EDITOR"].into_iter().find_map(variable).unwrap_or_else(|| "vi".to_owned());
    let mut command = command(&editor, variable("SHELL").as_deref(), file);
    // As kubectl: only a name that is looked up can be unknown.
    let program = command.get_program().as_encoded_bytes();
    let is_name = !program.is_empty() && !program.contains(&b'/');
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Err(error)) if is_name && error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::message(format!("unable to launch the editor {editor:?}")))
        }
        Ok(_) => Err(Error::message(format!("there was a problem with the editor {editor:?}"))),
        Err(error) => Err(Error::message(format!("waiting for the editor: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_are_words_or_lines_of_a_shell() {
        let check = |editor: &str, expected: &[&str]| {
            let command = command(editor, Some("/bin/sh"), Path::new("/f"));
            let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
            assert_eq!(words, expected, "{editor}");
        };
        check("vi", &["vi", "/f"]);
        check("code --wait", &["code", "--wait", "/f"]);
        check("\"/my editor\" -x", &["/bin/sh", "-c", "\"/my editor\" -x \"/f\""]);
        check("sed -i s/a/\\ b/", &["/bin/sh", "-c", "sed -i s/a/\\ b/ \"/f\""]);
    }
}
