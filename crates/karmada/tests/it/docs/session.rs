//! A reader's session: a shell in a fresh directory, with the program's names on PATH, and its output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::page::{Commands, How, Step};
use super::shown;

/// The time-outs of a block and of a condition.
const PATIENCE: Duration = Duration::from_secs(100);

/// Whether pages run concurrently: on Linux, where a process may have its own network, every page has one with its own
/// ports.
pub fn has_own_network() -> bool {
    let mut command = own_network();
    let ready = command.args(["ip", "link", "set", "lo", "up"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ready.is_ok_and(|status| status.success())
}

fn own_network() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "--"]);
    command
}

pub struct Session {
    directory: tempfile::TempDir,
    shell: Child,
    stdin: ChildStdin,
    /// A line with the exit code for every block that ended.
    ended: Receiver<String>,
    jobs: Vec<Job>,
}

/// A command that runs in the background.
struct Job {
    command: String,
    /// Its process group, as `kill` takes it.
    group: String,
}

/// An error in a page.
pub struct Complaint {
    pub what: String,
    /// The output of a block that ended as expected.
    pub printed: Option<String>,
}

impl Session {
    pub fn start(own_net: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = directory.path();
        for name in ["bin", "blocks", "work"] {
            std::fs::create_dir(root.join(name)).expect("a directory of our own");
        }
        for name in ["karmada", "karmadactl", "kubectl-karmada"] {
            link(Path::new(env!("CARGO_BIN_EXE_karmada")), &root.join("bin").join(name));
        }
        // The session runs in a checkout.
        link(&super::root().join("samples"), &root.join("work/samples"));
        let mut command = if own_net { own_network() } else { Command::new("env") };
        if own_net {
            command.arg("env");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(root.join("bin")).chain(std::env::split_paths(&path));
        command
            // The tests may run where SIGINT is ignored, as in the background of a script; a terminal does not ignore
            // it.
            .args(["--default-signal=INT", "bash", "--noprofile", "--norc"])
            .current_dir(root.join("work"))
            .env("PATH", std::env::join_paths(path).expect("the entries were split from one PATH"))
            .env("HOME", root.join("work"))
            .env_remove("KUBECONFIG")
            .env_remove("KARMADACTL_OPERATION_SCOPE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0);
        let mut shell = command.spawn().expect("bash is on PATH");
        let mut stdin = shell.stdin.take().expect("a piped stdin");
        let stdout = shell.stdout.take().expect("a piped stdout");
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let network = if own_net { "ip link set lo up; " } else { "" };
        writeln!(stdin, "{network}exec 3>&1; trap 'echo $? >&3' EXIT").expect("the shell reads");
        Self { directory, shell, stdin, ended, jobs: Vec::new() }
    }

    fn block(&self, line: usize, kind: &str) -> PathBuf {
        self.directory.path().join(format!("blocks/{line}.{kind}"))
    }

    fn output(&self, line: usize) -> String {
        let text = std::fs::read(self.block(line, "out")).unwrap_or_default();
        let work = self.directory.path().join("work");
        String::from_utf8_lossy(&text).replace(&*work.to_string_lossy(), "$PWD")
    }

    /// Executes a step of the page.
    pub fn take(&mut self, step: &Step) -> Result<(), Complaint> {
        match step {
            Step::File { name, text } => {
                let path = self.directory.path().join("work").join(name);
                std::fs::create_dir_all(path.parent().expect("a file has a directory"))
                    .expect("a directory of our own");
                std::fs::write(path, text).expect("a file of our own");
                Ok(())
            }
            Step::Interrupt { command, .. } => self.interrupt(command),
            Step::Commands(commands) => {
                std::fs::write(self.block(commands.line, "sh"), &commands.text).expect("a file of our own");
                match commands.how {
                    How::Background => self.background(commands),
                    How::Again => self.again(commands),
                    How::Run | How::Fails => self.once(commands),
                }
            }
        }
    }

    /// Runs the block; returns its exit code, `None` after a time-out.
    fn run(&mut self, commands: &Commands) -> Option<i32> {
        let [script, out] = ["sh", "out"].map(|kind| self.block(commands.line, kind));
        let block = format!(". '{}' >'{}' 2>&1 </dev/null", script.display(), out.display());
        let line = match commands.how {
            How::Fails => format!("{block}; echo $? >&3"),
            How::Again => format!("(set -e; {block}); echo $? >&3"),
            // A failing command ends the block, and the shell with it.
            How::Run | How::Background => format!("set -e; {block}; set +e; echo 0 >&3"),
        };
        writeln!(self.stdin, "{line}").ok()?;
        self.ended.recv_timeout(PATIENCE).ok()?.parse().ok()
    }

    fn once(&mut self, commands: &Commands) -> Result<(), Complaint> {
        let code = self.run(commands);
        let output = self.output(commands.line);
        let is_right = code.is_some_and(|code| (code != 0) == (commands.how == How::Fails));
        if !is_right {
            let how = code.map_or_else(|| "takes too long".to_owned(), |code| format!("ends with {code}"));
            return Err(Complaint { what: format!("it {how} and prints:\n{output}"), printed: None });
        }
        shown::compare(commands, &output).map_err(|what| Complaint { what, printed: Some(output) })
    }

    fn again(&mut self, commands: &Commands) -> Result<(), Complaint> {
        wait(|| {
            let code = self.run(commands);
            let output = self.output(commands.line);
            let compared = match code {
                Some(0) => shown::compare(commands, &output),
                _ => Err(format!("it fails and prints:\n{output}")),
            };
            compared.map_err(|what| (Complaint { what, printed: Some(output) }, code.is_some()))
        })
    }

    /// Starts the command and waits for its output on the page.
    fn background(&mut self, commands: &Commands) -> Result<(), Complaint> {
        let [script, out, leader] = ["sh", "out", "pid"].map(|kind| self.block(commands.line, kind));
        let block = format!("(. '{}') >'{}' 2>&1 </dev/null", script.display(), out.display());
        // With job control the block has its own process group, as in its own terminal.
        let line = format!("set -m; {block} & echo $! >'{}'; set +m; echo 0 >&3", leader.display());
        writeln!(self.stdin, "{line}").expect("the shell reads");
        self.ended.recv_timeout(PATIENCE).expect("the shell starts a process");
        let id = std::fs::read_to_string(leader).expect("the shell wrote it");
        let job = Job { command: commands.text.trim_end().to_owned(), group: format!("-{}", id.trim()) };
        let started = wait(|| {
            let is_running = job.signal("-0");
            let output = self.output(commands.line);
            let compared = shown::compare(commands, &output);
            compared.map_err(|what| (Complaint { what, printed: Some(output) }, is_running))
        });
        self.jobs.push(job);
        started
    }

    fn interrupt(&mut self, command: &str) -> Result<(), Complaint> {
        let at = self.jobs.iter().rposition(|job| job.command == command);
        let Some(at) = at else {
            return Err(Complaint { what: format!("no block runs {command:?} in the background"), printed: None });
        };
        let job = self.jobs.remove(at);
        job.signal("-INT");
        wait(|| {
            let what = format!("{command} goes on after Ctrl-C");
            if job.signal("-0") { Err((Complaint { what, printed: None }, true)) } else { Ok(()) }
        })
    }
}

impl Job {
    /// Whether there was a process to signal.
    fn signal(&self, signal: &str) -> bool {
        let status = Command::new("kill").args([signal, "--", &self.group]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
}

/// Retries until there is no error, while another attempt can help.
#[expect(clippy::disallowed_methods, reason = "other processes are watched: time is real here")]
fn wait(mut attempt: impl FnMut() -> Result<(), (Complaint, bool)>) -> Result<(), Complaint> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err((complaint, can_change)) if !can_change || Instant::now() > deadline => return Err(complaint),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

impl Drop for Session {
    /// Ends the shell and everything it started.
    fn drop(&mut self) {
        let shell = Job { command: String::new(), group: format!("-{}", self.shell.id()) };
        // They may have exited already.
        for job in std::iter::once(shell).chain(self.jobs.drain(..)) {
            job.signal("-KILL");
        }
        let _ = self.shell.wait();
    }
}

fn link(to: &Path, at: &Path) {
    std::os::unix::fs::symlink(to, at).expect("a link in a directory of our own");
}
