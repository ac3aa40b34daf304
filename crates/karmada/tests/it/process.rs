//! A `karmada` process of a test: started on port 0, ended with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub struct Karmada {
    child: Child,
    kubeconfig: PathBuf,
}

impl Karmada {
    /// Starts `karmada apiserver` and waits until it says that it is ready.
    pub fn apiserver(data_dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(["apiserver", "--secure-port", "0", "--data-dir"])
            .arg(data_dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("a piped stdout");
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(first.starts_with("The API server is ready on https://"), "unexpected first line: {first:?}");
        // Nobody reads on: the rest is three short lines, far less than the pipe holds.
        Self { child, kubeconfig: data_dir.join("karmada-apiserver.config") }
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

    /// The standard output of a kubectl command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {args:?} failed\n{out}{err}");
        out.into_owned()
    }

    /// The standard error of a kubectl command that must fail.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(!output.status.success(), "kubectl {args:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Ends the process as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }
}

impl Drop for Karmada {
    fn drop(&mut self) {
        // The test may have ended it already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
