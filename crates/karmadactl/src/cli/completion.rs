//! `completion`: a shell script that queries this program for candidates, see [`super::candidates`].

use crate::error::Error;

/// The hidden command that the scripts call.
pub const COMMAND: &str = "__complete";

/// The script for the shell that the arguments name. As a plugin of kubectl the program is the file `kubectl-karmada`.
pub fn script(program: &str, arguments: &[String]) -> Result<String, Error> {
    let template = match arguments {
        [] => return Err(Error::usage("Shell not specified.")),
        [shell] => match shell.as_str() {
            "bash" => BASH,
            "zsh" => ZSH,
            "fish" => FISH,
            "powershell" => POWERSHELL,
            other => return Err(Error::usage(format!("Unsupported shell type {other:?}."))),
        },
        _ => return Err(Error::usage("Too many arguments. Expected only the shell type.")),
    };
    let program = program.replace(' ', "-");
    Ok(template
        .replace("FUNCTION", &program.replace('-', "_"))
        .replace("PROGRAM", &program)
        .replace("COMMAND", COMMAND))
}

/// Candidates as kubectl reads them of its plugins: the last line has the directive, 0 for files and 4 for none.
pub fn for_kubectl(lines: &str) -> String {
    match lines.strip_suffix(":files\n") {
        Some(others) => format!("{others}:0\n"),
        None => format!("{lines}:4\n"),
    }
}

/// Bash splits words at `=` and `:`, so candidates contain only the part after the last of them.
const BASH: &str = r#"# bash completion for PROGRAM
_FUNCTION_complete() {
    local current="${COMP_WORDS[COMP_CWORD]}" line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            COMPREPLY+=($(compgen -f -- "${current#=}"))
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <("${COMP_WORDS[0]}" COMMAND "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ( ${COMPREPLY[0]} == *= || ${COMPREPLY[0]} == */ ) ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _FUNCTION_complete PROGRAM
"#;

const ZSH: &str = r#"#compdef PROGRAM
# zsh completion for PROGRAM
_FUNCTION() {
    local line files=0
    local -a candidates
    for line in "${(@f)$("${words[1]}" COMMAND "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ "$line" == ":files" ]]; then
            files=1
        elif [[ -n "$line" ]]; then
            line="${line//:/\\:}"
            candidates+=("${line/$'\t'/:}")
        fi
    done
    (( files )) && _files
    (( ${#candidates} )) && _describe -V 'PROGRAM' candidates
}
if [ "$funcstack[1]" = "_FUNCTION" ]; then
    _FUNCTION
else
    compdef _FUNCTION PROGRAM
fi
"#;

const FISH: &str = r#"# fish completion for PROGRAM
function __FUNCTION_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    for line in ($tokens[1] COMMAND $tokens[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c PROGRAM -f -k -a '(__FUNCTION_complete)'
"#;

const POWERSHELL: &str = r#"# PowerShell completion for PROGRAM
Register-ArgumentCompleter -Native -CommandName 'PROGRAM' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '""' }
    & $commandAst.CommandElements[0].ToString() COMMAND @words 2>$null | Where-Object { $_ -ne ':files' } | ForEach-Object {
        $parts = $_ -split "`t", 2
        $help = if ($parts.Length -gt 1) { $parts[1] } else { $parts[0] }
        [System.Management.Automation.CompletionResult]::new($parts[0], $parts[0], 'ParameterValue', $help)
    }
}
"#;
