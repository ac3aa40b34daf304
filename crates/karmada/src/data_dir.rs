//! What a data directory holds: the store, the certificates, and the kubeconfig of its administrator.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pki::kubeconfig::User;
use pki::{Directory, Kubeconfig, ServerNames};
use world::World;

/// A data directory, opened.
pub struct DataDir {
    root: PathBuf,
    pub pki: Directory,
}

impl DataDir {
    /// Makes what is missing and takes up what is there. `names` are further DNS names and addresses by which
    /// clients reach the server.
    pub fn open(root: &Path, names: &[String], world: &World) -> anyhow::Result<Self> {
        std::fs::create_dir_all(root).with_context(|| format!("creating the data directory {}", root.display()))?;
        let server_names = ServerNames::api_server("karmada-apiserver", names);
        let pki = Directory::open(&root.join("pki"), &server_names, world)
            .with_context(|| format!("opening the certificates under {}", root.join("pki").display()))?;
        Ok(Self { root: root.to_owned(), pki })
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

    /// Writes the administrator's kubeconfig for a server URL; the port may differ from one start to the next.
    pub fn write_kubeconfig(&self, file: &str, cluster: &str, server: &str) -> anyhow::Result<PathBuf> {
        let user = User::with_certificate(&self.pki.admin);
        let config = Kubeconfig::new(cluster, server, self.pki.authority.certificate(), cluster, user);
        let path = self.root.join(file);
        let text = config.to_yaml().context("encoding the kubeconfig")?;
        pki::files::replace(&path, text.as_bytes(), pki::files::Access::Private)
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}
