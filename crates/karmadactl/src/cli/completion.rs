//! `completion`: the script that completes commands and flags in a shell.

use clap::Command;
use clap_complete::Shell;

use crate::error::Error;

/// The script for the shell that the arguments name. As a plugin of kubectl the program is the file `kubectl-karmada`.
pub fn script(program: &str, mut tree: Command, arguments: &[String]) -> Result<String, Error> {
    let shell = match arguments {
        [] => return Err(Error::arguments("Shell not specified.")),
        [shell] => match shell.as_str() {
            "bash" => Shell::Bash,
            "zsh" => Shell::Zsh,
            "fish" => Shell::Fish,
            "powershell" => Shell::PowerShell,
            other => return Err(Error::arguments(format!("Unsupported shell type {other:?}."))),
        },
        _ => return Err(Error::arguments("Too many arguments. Expected only the shell type.")),
    };
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut tree, program.replace(' ', "-"), &mut bytes);
    String::from_utf8(bytes).map_err(|error| Error::message(format!("completion for {shell}: {error}")))
}
