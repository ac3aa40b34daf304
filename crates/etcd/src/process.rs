//! An etcd of one member for tests: Debian's package `etcd-server`, on free ports, with its data in a directory of its own.
//! It is killed when it is dropped. Not for production.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{Endpoint, Layout, Options, SettingsError};

/// A running etcd.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
    tls: bool,
}

impl Process {
    /// Starts etcd in `data_dir`, on a free port, and waits until it serves clients.
    ///
    /// # Errors
    /// When etcd is not installed, or ends.
    pub fn start(data_dir: &Path, flags: &[&str]) -> std::io::Result<Self> {
        Self::start_at(data_dir, "127.0.0.1:0", flags)
    }

    /// Starts etcd at an address: of one that was killed.
    ///
    /// # Errors
    /// When etcd is not installed, or ends.
    pub fn start_at(data_dir: &Path, address: &str, flags: &[&str]) -> std::io::Result<Self> {
        let tls = flags.iter().any(|flag| flag.starts_with("--cert-file"));
        let url = format!("{}://{address}", if tls { "https" } else { "http" });
        let mut child = Command::new("etcd")
            .args(["--name", "one", "--logger", "zap", "--heartbeat-interval", "10", "--election-timeout", "100"])
            // It is alone in its cluster, so the address of its peers is never used.
            .args(["--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:1"])
            .args(["--initial-cluster", "one=http://127.0.0.1:1", "--listen-client-urls", &url])
            .args(["--advertise-client-urls", &url, "--data-dir"])
            .arg(data_dir)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines = child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        // Reads for as long as etcd writes, which it could not do into a full pipe.
        std::thread::spawn(move || {
            let mut last = String::new();
            for line in lines {
                if let Some(address) = client_address(&line) {
                    let _ = sender.try_send(Ok(address));
                }
                last = line;
            }
            let _ = sender.try_send(Err(last));
        });
        match receiver.recv() {
            Ok(Ok(address)) => Ok(Self { child, address, tls }),
            Ok(Err(last)) => Err(std::io::Error::other(format!("etcd ended: {last}"))),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// Where it serves clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its client URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Options for it, without compactions.
    ///
    /// # Errors
    /// Never: the URL is one.
    pub fn options(&self, layout: Layout) -> Result<Options, SettingsError> {
        let endpoint: Endpoint = self.url().parse()?;
        Ok(Options { compaction: None, ..Options::new(vec![endpoint], layout) })
    }

    /// Its process, for signals.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power failure would, without losing what the system holds of its files.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// From the line that etcd writes once it serves clients.
fn client_address(line: &str) -> Option<SocketAddr> {
    if !line.contains("\"serving client traffic") {
        return None;
    }
    let (_, rest) = line.split_once("\"address\":\"")?;
    rest.split('"').next()?.parse().ok()
}
