//! What a data directory holds: the store, the certificates, and the kubeconfig of its administrator.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pki::kubeconfig::User;
use pki::{Directory, Kubeconfig, ServerNames};
use world::World;

use crate::reach::Listen;

/// A data directory, opened.
pub struct DataDir {
    root: PathBuf,
    pub pki: Directory,
    /// What clients verify the server by, in PEM: the authority of the directory, and behind it what the operator's own
    /// certificate brings.
    pub trust: String,
}

impl DataDir {
    /// Makes what is missing and takes up what is there. `names` are further DNS names and addresses by which
    /// clients reach the server.
    pub fn open(root: &Path, names: &[String], world: &World) -> anyhow::Result<Self> {
        std::fs::create_dir_all(root).with_context(|| format!("creating the data directory {}", root.display()))?;
        let server_names = ServerNames::api_server("karmada-apiserver", names);
        let pki = Directory::open(&root.join("pki"), &server_names, world)
            .with_context(|| format!("opening the certificates under {}", root.join("pki").display()))?;
        let trust = pki.authority.certificate().to_owned();
        Ok(Self { root: root.to_owned(), pki, trust })
    }

    /// As [`DataDir::open`], for a server that clients reach as `listen` has it.
    pub fn open_for(root: &Path, listen: &Listen, world: &World) -> anyhow::Result<Self> {
        let mut data = Self::open(root, &listen.certified(), world)?;
        if let Some(own) = &listen.certificate {
            data.trust.push_str(&own.names.anchors);
        }
        Ok(data)
    }

    /// Where the store of a data directory is kept.
    pub fn store(root: &Path) -> PathBuf {
        root.join("store")
    }

    /// The port in a kubeconfig of the directory, which is that of the last start; none before the first one.
    pub fn last_port(root: &Path, kubeconfig: &str) -> Option<u16> {
        let text = std::fs::read(root.join(kubeconfig)).ok()?;
        let config = apimachinery::yaml::to_json_value(&text).ok()?;
        let server = config.pointer("/clusters/0/cluster/server")?.as_str()?;
        server.rsplit_once(':')?.1.parse().ok()
    }

    /// Writes the administrator's kubeconfig; the URL may differ from one start to the next.
    pub fn write_kubeconfig(&self, listen: &Listen) -> anyhow::Result<PathBuf> {
        let user = User::with_certificate(&self.pki.admin);
        let cluster = &listen.cluster;
        let mut config = Kubeconfig::new(cluster, &listen.url(), &self.trust, cluster, user);
        if let Some(name) = listen.server_name() {
            config = config.with_server_name(&name);
        }
        let path = self.root.join(&listen.kubeconfig);
        let text = config.to_yaml().context("encoding the kubeconfig")?;
        pki::files::replace(&path, text.as_bytes(), pki::files::Access::Private)
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}
