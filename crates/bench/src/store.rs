//! The store beside a measured server: the embedded one, which is part of its process, or an etcd of its own.

use anyhow::Context as _;

use crate::figures::line;
use crate::process::{self, Usage};

/// Where the objects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    #[default]
    Embedded,
    /// Debian's package, with its default settings and on the same machine.
    Etcd,
}

/// A started store; it ends when this is dropped.
pub struct Backend(Option<(etcd::process::Process, tempfile::TempDir)>);

/// etcd's defaults, instead of the fast elections that tests need.
const FLAGS: &[&str] = &["--heartbeat-interval=100", "--election-timeout=1000"];

impl Backend {
    pub fn start(engine: Engine) -> anyhow::Result<Self> {
        if engine == Engine::Embedded {
            return Ok(Self(None));
        }
        let directory = tempfile::tempdir().context("creating a data directory for etcd")?;
        let started = etcd::process::Process::start(directory.path(), FLAGS);
        Ok(Self(Some((started.context("starting etcd; install etcd-server")?, directory))))
    }

    /// The flags of a server on it.
    pub fn flags(&self) -> Vec<String> {
        self.0.iter().map(|(etcd, _)| format!("--etcd-servers={}", etcd.url())).collect()
    }

    /// The usage of its process; `None` if it is part of the server's.
    pub fn usage(&self) -> anyhow::Result<Option<Usage>> {
        self.0.as_ref().map(|(etcd, _)| process::usage(etcd.id())).transpose()
    }

    pub fn memory(&self, when: &str) -> anyhow::Result<()> {
        let Some((etcd, _)) = &self.0 else { return Ok(()) };
        let (now, most) = process::resident_mib(etcd.id())?;
        line(&format!("{when}: RSS of etcd, now / most (MiB)"), format!("{now:.1} / {most:.1}"));
        Ok(())
    }
}
