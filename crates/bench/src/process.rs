//! A measured process of this machine: its usage by Linux's `/proc`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

/// The usage of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Sent to the disk, or to be sent.
    pub written_bytes: u64,
}

impl Usage {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// Killed when dropped.
pub struct Process {
    child: Child,
    pub kubeconfig: PathBuf,
}

impl Process {
    /// Starts the binary and waits for its first line, which all commands of it print when they are ready.
    pub fn start(binary: &Path, args: &[&str], data_dir: &Path, kubeconfig: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(args).arg("--data-dir").arg(data_dir).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", binary.display()))?;
        let stdout = child.stdout.take().context("the output of the process")?;
        let mut first = String::new();
        BufReader::new(stdout).read_line(&mut first).context("reading the output of the process")?;
        let process = Self { child, kubeconfig: data_dir.join(kubeconfig) };
        if first.is_empty() {
            bail!("{} {} ended before it was ready", binary.display(), args.join(" "));
        }
        Ok(process)
    }

    /// Kills it, as a failing machine would, and starts it again with the same arguments.
    pub fn restart(&mut self, binary: &Path, args: &[&str], data_dir: &Path) -> anyhow::Result<()> {
        self.child.kill().context("killing the process")?;
        self.child.wait().context("waiting for the process")?;
        let name = self.kubeconfig.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        *self = Self::start(binary, args, data_dir, &name)?;
        Ok(())
    }

    pub fn usage(&self) -> anyhow::Result<Usage> {
        usage(self.child.id())
    }

    /// Seconds of CPU in user and kernel mode so far.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        Ok(self.usage()?.cpu_seconds)
    }

    /// Resident memory now, and the most it has been, in MiB.
    pub fn resident_mib(&self) -> anyhow::Result<(f64, f64)> {
        resident_mib(self.child.id())
    }

    /// Resets the peak of resident memory to the current value.
    pub fn reset_peak(&self) -> anyhow::Result<()> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(&path, "5").with_context(|| format!("writing {path}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The usage of a process so far.
pub fn usage(id: u32) -> anyhow::Result<Usage> {
    let written = proc(id, "io")?.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
    let stat = proc(id, "stat")?;
    // Fields 14 and 15 of proc_pid_stat(5), counted after the command name, which may contain any character.
    let fields = stat.rsplit_once(')').context("reading stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    let ticks: f64 = ticks.sum::<Result<f64, _>>().context("reading stat")?;
    // USER_HZ is 100 on every architecture Rust's standard library runs on Linux with.
    Ok(Usage { cpu_seconds: ticks / 100.0, written_bytes: written.context("reading io")? })
}

/// Resident memory of a process now, and the most it has been, in MiB.
pub fn resident_mib(id: u32) -> anyhow::Result<(f64, f64)> {
    let status = proc(id, "status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
    };
    field("VmRSS").zip(field("VmHWM")).context("reading status")
}

fn proc(id: u32, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{id}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))
}
