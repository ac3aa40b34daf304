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
    /// clients reach the server. What is made is readable by its owner alone.
    pub fn open(root: &Path, names: &[String], world: &World) -> anyhow::Result<Self> {
        make(root).with_context(|| format!("creating the data directory {}", root.display()))?;
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

    pub fn root(&self) -> &Path {
        &self.root
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

    /// Whether a server has run here before. Its store is made before its certificates: where these are, that must be.
    pub fn is_used(root: &Path) -> bool {
        root.join("pki").join("ca.crt").exists()
    }

    /// Writes the administrator's kubeconfig; the URL may differ from one start to the next. A file with the same content
    /// stays: a start needs no space on the disk for it.
    pub fn write_kubeconfig(&self, listen: &Listen) -> anyhow::Result<PathBuf> {
        let user = User::with_certificate(&self.pki.admin);
        let cluster = &listen.cluster;
        let mut config = Kubeconfig::new(cluster, &listen.url(), &self.trust, cluster, user);
        if let Some(name) = listen.server_name() {
            config = config.with_server_name(&name);
        }
        let path = self.root.join(&listen.kubeconfig);
        let text = config.to_yaml().context("encoding the kubeconfig")?;
        if pki::files::read(&path).is_ok_and(|present| present.as_deref() == Some(&text)) {
            return Ok(path);
        }
        pki::files::replace(&path, text.as_bytes(), pki::files::Access::Private)
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

fn make(root: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_private_and_an_equal_kubeconfig_stays() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("data");
        let world = World::system();
        assert!(!DataDir::is_used(&root));
        let data = DataDir::open(&root, &[], &world).expect("a data directory");
        assert!(DataDir::is_used(&root));
        for path in [root.clone(), root.join("pki")] {
            let mode = std::fs::metadata(&path).expect("it exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
        let write = |port: u16| {
            let listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), port, "karmada");
            let path = data.write_kubeconfig(&listen).expect("a kubeconfig");
            std::fs::metadata(path).expect("it exists").ino()
        };
        let first = write(1);
        assert_eq!(write(1), first, "not written again");
        assert_ne!(write(2), first);
    }
}
