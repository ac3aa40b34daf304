//! Every transcript of `tests/kubectl` with every available kubectl, from 1.27 on (older ones do not support the APIs
//! of the transcripts).
//!
//! `TRANSCRIPT=NAME` runs those whose name contains it, `KUBECTL_MATRIX=all` all of them with all versions instead of
//! the newest kubectl only. `UPDATE_TRANSCRIPTS=1` runs the newest kubectl only and updates the steps that differ:
//! check the difference before you commit it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::process::Karmada;
use crate::transcript::{Part, Step, Transcript, normalise};

/// The time-out of a step marked `~`.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first minor version of kubectl that the transcripts support.
const OLDEST: u32 = 27;

/// A kubectl of some version.
#[derive(Clone, Debug)]
struct Peer {
    minor: u32,
    program: PathBuf,
}

/// The kubectl on PATH, and further versions beside it (`kubectl.1.30`), the oldest first.
fn peers() -> Vec<Peer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).map(|directory| directory.join("kubectl")).collect();
    let real = on_path.iter().filter_map(|program| program.canonicalize().ok());
    let directories = real.filter_map(|program| Some(program.parent()?.to_owned()));
    let beside = directories.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    let beside = beside.map(|entry| entry.path()).filter(|path| name_of(path).starts_with("kubectl.1."));
    let mut found = BTreeMap::new();
    for program in beside.chain(on_path.iter().filter(|program| program.is_file()).cloned()) {
        if let Some(minor) = minor_of(&program).filter(|minor| *minor >= OLDEST) {
            found.entry(minor).or_insert(Peer { minor, program });
        }
    }
    found.into_values().collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The minor version of a kubectl.
pub fn minor_of(program: &Path) -> Option<u32> {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

/// The transcripts, by name.
fn transcripts() -> BTreeMap<String, Transcript> {
    let selected = std::env::var("TRANSCRIPT").unwrap_or_default();
    let files = std::fs::read_dir(directory()).expect("the directory of transcripts").flatten();
    let paths = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
    let named = paths.map(|path| (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path));
    let read = |(name, path): (String, PathBuf)| {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let transcript = Transcript::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (name, transcript)
    };
    named.filter(|(name, _)| name.contains(&selected)).map(read).collect()
}

/// One transcript with one kubectl in its own namespace.
struct Session<'a> {
    peer: &'a Peer,
    namespace: String,
    directory: tempfile::TempDir,
}

impl<'a> Session<'a> {
    fn start(name: &str, peer: &'a Peer, server: &Karmada) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory of our own");
        std::os::unix::fs::symlink(&peer.program, bin.join("kubectl")).expect("a link in a directory of our own");
        std::fs::create_dir(directory.path().join("work")).expect("a directory of our own");
        let config = std::fs::read_to_string(server.kubeconfig()).expect("the server wrote it");
        std::fs::write(directory.path().join("config"), config).expect("a file of our own");
        let session = Self { peer, namespace: format!("{name}-1-{}", peer.minor), directory };
        let begin = "kubectl config set-context --current --namespace=$NS && kubectl create namespace $NS";
        let (output, code) = session.run(begin);
        assert_eq!(code, 0, "{output}");
        session
    }

    /// The normalized output of the command, and its exit code.
    fn run(&self, command: &str) -> (String, i32) {
        let root = self.directory.path();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(root.join("bin")).chain(std::env::split_paths(&path));
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(root.join("work"))
            .env("PATH", std::env::join_paths(path).expect("the entries were split from one PATH"))
            .env("KUBECONFIG", root.join("config"))
            .env("HOME", root)
            .env("NS", &self.namespace)
            .output()
            .expect("there is a shell");
        let names = BTreeMap::from([
            (self.namespace.clone(), "$NS".to_owned()),
            (root.join("work").to_string_lossy().into_owned(), "$PWD".to_owned()),
        ]);
        let output_text = normalise(&String::from_utf8_lossy(&output.stdout), &names);
        // Newer kubectls print the namespace of a deleted object.
        let output_text = output_text.replace(" from $NS namespace", "");
        (output_text, output.status.code().unwrap_or(-1))
    }

    #[expect(clippy::disallowed_methods, reason = "another process is watched: time is real here")]
    fn answer(&self, step: &Step) -> (String, i32) {
        let deadline = Instant::now() + if step.eventually { PATIENCE } else { Duration::ZERO };
        loop {
            let (output, code) = self.run(&step.command);
            if step.fits(self.peer.minor, &output, code) || Instant::now() >= deadline {
                return (output, code);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a transcript; returns the number of executed commands, and the differences. `update` is set to the actual
    /// output.
    fn play(&self, transcript: &Transcript, mut update: Option<&mut Transcript>) -> (usize, Vec<String>) {
        let (mut ran, mut differences) = (0, Vec::new());
        for (at, part) in transcript.parts.iter().enumerate() {
            match part {
                Part::Comment(_) => {}
                Part::File { name, text } => {
                    let path = self.directory.path().join("work").join(name);
                    let parent = path.parent().expect("a file has a directory");
                    std::fs::create_dir_all(parent).expect("a directory of our own");
                    std::fs::write(path, text.replace("$NS", &self.namespace)).expect("a file of our own");
                }
                Part::Step(step) if !step.versions.has(self.peer.minor) => {}
                Part::Step(step) => {
                    ran += 1;
                    let (output, code) = self.answer(step);
                    if step.fits(self.peer.minor, &output, code) {
                        continue;
                    }
                    differences.push(self.difference(step, &output, code));
                    if let Some(Part::Step(written)) = update.as_mut().map(|update| &mut update.parts[at]) {
                        written.expected = output.lines().map(str::to_owned).collect();
                        written.exit_code = code;
                    }
                }
            }
        }
        let (output, code) = self.run("kubectl delete namespace $NS --wait=false");
        assert_eq!(code, 0, "{output}");
        (ran, differences)
    }

    fn difference(&self, step: &Step, output: &str, code: i32) -> String {
        let expected = step.expected_of(self.peer.minor).join("\n");
        let (namespace, line, command) = (&self.namespace, step.line, &step.command);
        format!(
            "{namespace} line {line}: {command}\n--- expected, exit code {}\n{expected}\n--- answered, exit code {code}\n{output}",
            step.exit_code
        )
    }
}

/// The servers that the transcripts name.
fn servers(transcripts: &BTreeMap<String, Transcript>, directory: &Path) -> BTreeMap<String, Karmada> {
    let mut servers = BTreeMap::new();
    for transcript in transcripts.values() {
        let (name, data) = (&transcript.server, directory.join(&transcript.server));
        servers.entry(name.clone()).or_insert_with(|| match name.as_str() {
            // With every controller, namespaces are initialized as in any Kubernetes cluster.
            "up" => Karmada::up_with(&data, &["--kube-controllers=*"]),
            "apiserver" => Karmada::apiserver(&data),
            "member" => Karmada::member("m1", &data),
            other => panic!("no server {other:?}; there are up, apiserver and member"),
        });
    }
    servers
}

#[test]
#[cfg_attr(old_kubectl, ignore = "no kubectl from 1.27 on is on PATH")]
fn every_transcript_with_every_kubectl() {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut peers = peers();
    assert!(!peers.is_empty(), "no kubectl from 1.{OLDEST} on is on PATH; install it or unset KARMADA_REQUIRE_PEERS");
    if update || std::env::var("KUBECTL_MATRIX").map_or(true, |which| which != "all") {
        peers.drain(..peers.len() - 1);
    }
    let transcripts = transcripts();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let servers = servers(&transcripts, directory.path());
    let pairs = transcripts.iter().flat_map(|transcript| peers.iter().map(move |peer| (transcript, peer)));
    let queue: Mutex<VecDeque<_>> = Mutex::new(pairs.collect());
    let results: Mutex<Vec<(usize, Vec<String>)>> = Mutex::default();
    let work = || {
        loop {
            let Some(((name, transcript), peer)) = queue.lock().expect("no panic").pop_front() else { return };
            let session = Session::start(name, peer, &servers[&transcript.server]);
            let mut updated =
                update.then(|| Transcript { server: transcript.server.clone(), parts: transcript.parts.clone() });
            let result = session.play(transcript, updated.as_mut());
            if let Some(updated) = updated.filter(|_| !result.1.is_empty()) {
                let path = crate::kubectl_matrix::directory().join(format!("{name}.txt"));
                std::fs::write(path, updated.render()).expect("the sources are writable");
            }
            results.lock().expect("no panic").push(result);
        }
    };
    // Two threads: a command is a process that occupies a core.
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().expect("no panic");
    let ran: usize = results.iter().map(|(ran, _)| ran).sum();
    let differences: Vec<String> = results.into_iter().flat_map(|(_, differences)| differences).collect();
    let minors: Vec<u32> = peers.iter().map(|peer| peer.minor).collect();
    println!("{ran} commands with kubectl 1.{minors:?}, {} differ", differences.len());
    assert!(differences.is_empty(), "{} of {ran} commands differ:\n{}", differences.len(), differences.join("\n"));
}
