//! A `karmada` process of a test: started on port 0, ended with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Karmada {
    child: Child,
    kubeconfig: PathBuf,
}

impl Karmada {
    /// Starts `karmada apiserver` and waits until it reports that it is ready.
    pub fn apiserver(data_dir: &Path) -> Self {
        Self::apiserver_with(data_dir, &[])
    }

    /// The same with further arguments.
    pub fn apiserver_with(data_dir: &Path, more: &[&str]) -> Self {
        let args = [&["apiserver", "--secure-port", "0"], more].concat();
        Self::start(&args, data_dir, "karmada-apiserver.config", "The API server is ready on https://")
    }

    /// Starts `karmada up`.
    pub fn up(data_dir: &Path) -> Self {
        Self::up_with(data_dir, &[])
    }

    /// The same with further arguments.
    pub fn up_with(data_dir: &Path, more: &[&str]) -> Self {
        let args = [&["up", "--secure-port", "0"], more].concat();
        Self::start(&args, data_dir, "karmada-apiserver.config", "The control plane is ready on https://")
    }

    /// Starts `karmada up` beside another one on the same store, which has the Lease.
    pub fn candidate_with(data_dir: &Path, more: &[&str]) -> Self {
        let args = [&["up", "--secure-port", "0"], more].concat();
        Self::start(&args, data_dir, "karmada-apiserver.config", "The API server is ready on https://")
    }

    /// Starts `karmada up`, elected or not; `None` if it ends before it is ready.
    pub fn try_up_with(data_dir: &Path, more: &[&str]) -> Option<Self> {
        let mut child = Self::spawn(&[&["up", "--secure-port", "0"], more].concat(), data_dir);
        let mut lines = BufReader::new(child.stdout.take().expect("a piped stdout")).lines();
        match lines.next().and_then(Result::ok) {
            Some(first) if first.contains(" is ready on https://") => {
                Some(Self { child, kubeconfig: data_dir.join("karmada-apiserver.config") })
            }
            _ => {
                child.wait().expect("the process is ours");
                None
            }
        }
    }

    /// Starts `karmada member`, which takes the port of its last start again.
    pub fn member(name: &str, data_dir: &Path) -> Self {
        Self::member_with(name, data_dir, &[])
    }

    /// The same with further arguments.
    pub fn member_with(name: &str, data_dir: &Path, more: &[&str]) -> Self {
        let kubeconfig = format!("{name}.config");
        let args = [&["member", name], more].concat();
        Self::start(&args, data_dir, &kubeconfig, &format!("Member {name} is ready on https://"))
    }

    /// Starts `karmada up` without waiting.
    pub fn begin_up(data_dir: &Path) -> Child {
        Self::spawn(&["up", "--secure-port", "0"], data_dir)
    }

    fn start(args: &[&str], data_dir: &Path, kubeconfig: &str, first_line: &str) -> Self {
        let mut child = Self::spawn(args, data_dir);
        let stdout = child.stdout.take().expect("a piped stdout");
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(first.starts_with(first_line), "unexpected first line: {first:?}");
        // The remaining output is not read: it is far smaller than the pipe's buffer.
        Self { child, kubeconfig: data_dir.join(kubeconfig) }
    }

    fn spawn(args: &[&str], data_dir: &Path) -> Child {
        Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(args)
            .arg("--data-dir")
            .arg(data_dir)
            .env("KARMADA_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    pub fn kubeconfig(&self) -> &str {
        self.kubeconfig.to_str().expect("a path in UTF-8")
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.kubeconfig.parent().expect("a file has a directory"))
            .output()
            .expect("kubectl is on PATH; install it or unset KARMADA_REQUIRE_PEERS")
    }

    /// The same binary as `karmadactl`, against this server.
    pub fn karmadactl(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_karmada"))
            .arg("karmadactl")
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .expect("the binary starts")
    }

    /// The standard output of a successful kubectl command.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {args:?} failed\n{out}{err}");
        out.into_owned()
    }

    /// The standard output of a successful karmadactl command.
    pub fn karmadactl_ok(&self, args: &[&str]) -> String {
        let output = self.karmadactl(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "karmadactl {args:?} failed\n{out}{err}");
        out.into_owned()
    }

    /// The standard error of a failing kubectl command.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(!output.status.success(), "kubectl {args:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Stops the process as a service manager would; returns whether it exited with 0.
    pub fn terminate(mut self) -> bool {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill is on PATH");
        signalled.success() && self.child.wait().expect("the process is ours").success()
    }

    /// Stops the process without ending it (SIGSTOP).
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// Waits until the process has ended by itself; returns whether it exited with 0.
    pub fn ended(mut self) -> bool {
        self.child.wait().expect("the process is ours").success()
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is on PATH").success());
    }

    /// Kills the process, as a power failure would.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }
}

/// Retries until there is a result.
#[expect(clippy::disallowed_methods, reason = "other processes are watched: time is real here")]
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match attempt() {
            Ok(answer) => return answer,
            Err(last) => assert!(Instant::now() < deadline, "{what} did not come true; at last:\n{last}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Drop for Karmada {
    fn drop(&mut self) {
        // The test may have stopped it already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
