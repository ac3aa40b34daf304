//! etcd for tests: Debian's package `etcd-server`, alone or as a cluster ([`cluster`]), on free ports, with its data in
//! directories of its own. It is killed when it is dropped. Not for production.

pub mod authentication;
pub mod clock;
pub mod cluster;
pub mod network;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use crate::connection::Connections;
use crate::failure::{Access, Failure};
use crate::tls::Tls;
use crate::{Certificates, Endpoint, Layout, Options, SettingsError, wire};

/// A running etcd.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
    tls: bool,
}

/// An etcd that has been started and does not serve clients yet.
struct Starting {
    process: Process,
    /// Its addresses for peers and for clients, in this order, or its last line.
    lines: Receiver<Result<Serving, String>>,
}

/// A line about an address.
enum Serving {
    Peers(SocketAddr),
    Clients(SocketAddr),
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
        // It is alone in its cluster, so the address of its peers is never used.
        let alone = [
            "--name=one",
            "--heartbeat-interval=10",
            "--election-timeout=100",
            "--initial-advertise-peer-urls=http://127.0.0.1:1",
            "--initial-cluster=one=http://127.0.0.1:1",
        ];
        let advertised = format!("--advertise-client-urls={url}");
        let flags = [&alone[..], &[&advertised], flags].concat();
        Starting::spawn(data_dir, &url, tls, &flags)?.ready()
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

    /// Ends the alarm NOSPACE, as `etcdctl alarm disarm` does.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn disarm(&self) -> std::io::Result<()> {
        let endpoint = self.url().parse().map_err(std::io::Error::other)?;
        let tls = Tls::new(&Certificates::default(), None).map_err(std::io::Error::other)?;
        let connections = Connections::new(vec![endpoint], tls, Duration::from_secs(10));
        let failed = |failure: Failure| std::io::Error::other(failure.message);
        let all = wire::AlarmRequest::default();
        let raised: wire::AlarmResponse = connections.request(wire::ALARM, all, Access::Write).await.map_err(failed)?;
        for wire::AlarmMember { member_id, alarm } in raised.alarms {
            let end = wire::AlarmRequest { action: wire::ALARM_DEACTIVATE, member_id, alarm };
            let _: wire::AlarmResponse = connections.request(wire::ALARM, end, Access::Write).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Its process, for signals.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `-STOP`.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn signal(&self, signal: &str) -> std::io::Result<()> {
        let sent = Command::new("kill").args([signal, &self.id().to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err(std::io::Error::other(format!("kill {signal} failed"))) }
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

impl Starting {
    fn spawn(data_dir: &Path, client_url: &str, tls: bool, flags: &[&str]) -> std::io::Result<Self> {
        let mut child = Command::new("etcd")
            .args(["--logger", "zap", "--listen-peer-urls", "http://127.0.0.1:0"])
            .args(["--listen-client-urls", client_url, "--data-dir"])
            .arg(data_dir)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines = child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let (sender, receiver) = sync_channel(3);
        // Reads for as long as etcd writes, which it could not do into a full pipe.
        std::thread::spawn(move || {
            let mut last = String::new();
            for line in lines {
                if let Some(serving) = serving(&line) {
                    let _ = sender.try_send(Ok(serving));
                }
                last = line;
            }
            let _ = sender.try_send(Err(last));
        });
        let process = Process { child, address: SocketAddr::from(([0, 0, 0, 0], 0)), tls };
        Ok(Self { process, lines: receiver })
    }

    fn next(&self) -> std::io::Result<Serving> {
        match self.lines.recv() {
            Ok(Ok(serving)) => Ok(serving),
            Ok(Err(last)) => Err(std::io::Error::other(format!("etcd ended: {last}"))),
            Err(error) => Err(std::io::Error::other(error)),
        }
    }

    /// Where its peers reach it.
    fn peers(&self) -> std::io::Result<SocketAddr> {
        match self.next()? {
            Serving::Peers(address) => Ok(address),
            Serving::Clients(_) => Err(std::io::Error::other("etcd serves clients and no peers")),
        }
    }

    fn ready(mut self) -> std::io::Result<Process> {
        loop {
            if let Serving::Clients(address) = self.next()? {
                self.process.address = address;
                return Ok(self.process);
            }
        }
    }
}

/// From the lines that etcd writes once it serves.
fn serving(line: &str) -> Option<Serving> {
    let (_, rest) = line.split_once("\"msg\":\"serving ")?;
    let (_, address) = rest.split_once("\"address\":\"")?;
    let address = address.split('"').next()?.parse().ok()?;
    match rest {
        _ if rest.starts_with("client traffic") => Some(Serving::Clients(address)),
        _ if rest.starts_with("peer traffic") => Some(Serving::Peers(address)),
        _ => None,
    }
}
