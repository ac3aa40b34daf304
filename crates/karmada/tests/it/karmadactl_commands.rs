//! Every upstream command with a success, a refusal and a command line error: output and exit code, as `karmadactl` and
//! as a plug-in of the real kubectl. `UPDATE_TRANSCRIPTS=1` records differing output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Karmada, eventually};
use crate::transcript::{Part, Step, Transcript, normalise};

/// Commands whose only errors are mistakes in the command line.
const WITHOUT_REFUSAL: &[&str] = &["completion"];
/// Commands that need features a simulated member does not have, and those that no server rejects.
const WITHOUT_SUCCESS: &[&str] = &["logs", "exec", "attach", "top pod", "top node"];

const COMMANDS: &[&str] = &[
    "join",
    "unjoin",
    "register",
    "unregister",
    "token create",
    "token list",
    "token delete",
    "cordon",
    "uncordon",
    "taint",
    "get",
    "describe",
    "logs",
    "exec",
    "attach",
    "top pod",
    "top node",
    "apply",
    "create",
    "delete",
    "edit",
    "patch",
    "label",
    "annotate",
    "explain",
    "api-resources",
    "api-versions",
    "promote",
    "interpret",
    "completion",
    "version",
];

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/karmadactl/commands.txt")
}

fn transcript() -> Transcript {
    let text = std::fs::read_to_string(file()).expect("a readable file");
    Transcript::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file().display()))
}

fn steps(transcript: &Transcript) -> impl Iterator<Item = &Step> {
    transcript.parts.iter().filter_map(|part| match part {
        Part::Step(step) => Some(step),
        _ => None,
    })
}

#[test]
fn every_command_has_a_success_a_refusal_and_a_mistake() {
    let transcript = transcript();
    let mut missing = Vec::new();
    for name in COMMANDS {
        let is_of = |step: &&Step| {
            let words = format!("karmadactl {name} ");
            let printed = *name == "register" && step.command.starts_with("$(karmadactl token create --print-register");
            printed || format!("{} ", step.command).contains(&words)
        };
        let of: Vec<&Step> = steps(&transcript).filter(is_of).collect();
        let is_mistake = |step: &Step| step.expected.iter().any(|line| line.starts_with("See '"));
        let success = of.iter().any(|step| step.exit_code == 0) || WITHOUT_SUCCESS.contains(name);
        let refused = of.iter().any(|step| step.exit_code == 1 && !is_mistake(step));
        let refusal = refused || WITHOUT_REFUSAL.contains(name);
        let mistake = of.iter().any(|step| step.exit_code == 1 && is_mistake(step));
        if !(success && refusal && mistake) {
            missing.push((name, success, refusal, mistake));
        }
    }
    assert!(missing.is_empty(), "success, refusal, mistake: {missing:?}");
}

/// A control plane and two members that have not joined, and a directory for the commands.
struct Session {
    directory: tempfile::TempDir,
    plane: Karmada,
    members: [Karmada; 2],
}

impl Session {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let members = ["m1", "m2"].map(|name| Karmada::member(name, &directory.path().join(name)));
        let plane = Karmada::up(&directory.path().join("up"));
        for name in ["bin", "work"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory of our own");
        }
        for name in ["karmadactl", "kubectl-karmada"] {
            let link = directory.path().join("bin").join(name);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_karmada"), link).expect("a link in a directory of our own");
        }
        Self { directory, plane, members }
    }

    fn run(&self, command: &str) -> (String, i32) {
        let root = self.directory.path();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(root.join("bin")).chain(std::env::split_paths(&path));
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(root.join("work"))
            .env("PATH", std::env::join_paths(path).expect("the entries were split from one PATH"))
            .env("KUBECONFIG", self.plane.kubeconfig())
            .env("M1", self.members[0].kubeconfig())
            .env("M2", self.members[1].kubeconfig())
            .env("HOME", root)
            .output()
            .expect("there is a shell");
        let names = BTreeMap::from([
            (root.join("work").to_string_lossy().into_owned(), "$PWD".to_owned()),
            (root.to_string_lossy().into_owned(), "$ROOT".to_owned()),
        ]);
        (normalise(&String::from_utf8_lossy(&output.stdout), &names), output.status.code().unwrap_or(-1))
    }

    fn answer(&self, step: &Step) -> (String, i32) {
        if !step.eventually {
            return self.run(&step.command);
        }
        eventually(&step.command, || {
            let (output, code) = self.run(&step.command);
            if step.fits(0, &output, code) { Ok((output, code)) } else { Err(output) }
        })
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn commands_match_the_transcript() {
    let (mut transcript, session) = (transcript(), Session::start());
    let mut differences = String::new();
    for part in &mut transcript.parts {
        match part {
            Part::Comment(_) => {}
            Part::File { name, text } => {
                std::fs::write(session.directory.path().join("work").join(name), text).expect("a file of our own");
            }
            Part::Step(step) => {
                let (output, code) = session.answer(step);
                if step.fits(0, &output, code) {
                    continue;
                }
                let expected = step.expected.join("\n");
                differences.push_str(&format!(
                    "line {}: {}\n--- expected, exit code {}\n{expected}\n--- answered, exit code {code}\n{output}\n",
                    step.line, step.command, step.exit_code
                ));
                (step.expected, step.exit_code) = (output.lines().map(str::to_owned).collect(), code);
            }
        }
    }
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(file(), transcript.render()).expect("the sources are writable");
    }
    assert!(differences.is_empty(), "{differences}");
}
