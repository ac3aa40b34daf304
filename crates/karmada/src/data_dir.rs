//! The data directory: the store, the certificates, and the kubeconfig of its administrator.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pki::kubeconfig::User;
use pki::{Directory, KeyPairPem, Kubeconfig, ServerNames};
use world::World;

use crate::certificates::Keys;
use crate::reach::Listen;
use crate::service_accounts::ServiceAccounts;

/// The directory of the keys and certificates in a data directory.
pub const KEYS: &str = "pki";

/// A data directory, opened.
pub struct DataDir {
    root: PathBuf,
    /// The state at the start.
    pub pki: Directory,
    /// The parts of the server that use the keys; they follow later changes.
    pub keys: Keys,
    names: ServerNames,
    /// The authorities of client certificates, in PEM.
    pub client_authorities: String,
}

impl DataDir {
    /// Creates missing files and reads existing ones. `names` are further DNS names and addresses of the server. Only
    /// the owner can read created files.
    pub fn open(root: &Path, names: &[String], world: &World) -> anyhow::Result<Self> {
        Self::open_with(root, names, ("", ""), ServiceAccounts::default(), world)
    }

    fn open_with(
        root: &Path,
        names: &[String],
        (anchors, clients): (&str, &str),
        tokens: ServiceAccounts,
        world: &World,
    ) -> anyhow::Result<Self> {
        make(root).with_context(|| format!("creating the data directory {}", root.display()))?;
        let server_names = ServerNames::api_server("karmada-apiserver", names);
        let pki = Directory::open(&root.join(KEYS), &server_names, world)
            .with_context(|| format!("opening the certificates under {}", root.join(KEYS).display()))?;
        let client_authorities = format!("{}{clients}", pki.trusted);
        let keys = Keys::new(&pki, &format!("{}{anchors}", pki.trusted), &client_authorities, tokens)?;
        Ok(Self { root: root.to_owned(), pki, keys, names: server_names, client_authorities })
    }

    /// As [`DataDir::open`], with the addresses of `listen` and keys for service account tokens.
    pub fn open_for(root: &Path, listen: &Listen, tokens: ServiceAccounts, world: &World) -> anyhow::Result<Self> {
        let clients = listen.client_authorities()?;
        Self::open_with(root, &listen.certified(), (anchors(listen), &clients), tokens, world)
    }

    /// The names in the certificate that is issued for the server.
    pub fn names(&self) -> &ServerNames {
        &self.names
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of the store in a data directory.
    pub fn store(root: &Path) -> PathBuf {
        root.join("store")
    }

    /// The port in a kubeconfig of the directory, from the last start; `None` before the first one.
    pub fn last_port(root: &Path, kubeconfig: &str) -> Option<u16> {
        let text = std::fs::read(root.join(kubeconfig)).ok()?;
        let config = apimachinery::yaml::to_json_value(&text).ok()?;
        let server = config.pointer("/clusters/0/cluster/server")?.as_str()?;
        server.rsplit_once(':')?.1.parse().ok()
    }

    /// Whether a server has run here before. The store is created before the certificates, so with certificates that a
    /// server issued it must exist. An authority alone may be the operator's, placed there before the first start.
    pub fn is_used(root: &Path) -> bool {
        let has = |name: &str| root.join(KEYS).join(name).exists();
        has("ca.crt") && pki::directory::ISSUED.iter().any(|name| has(name))
    }

    /// Whether a server has run here, and no file of a store is here: the objects of a server with `--etcd-servers` are
    /// in etcd.
    pub fn lacks_store(root: &Path) -> bool {
        let has = |name: &str| Self::store(root).join(name).exists();
        Self::is_used(root) && !["store.sqlite", "store.mark"].into_iter().any(has)
    }

    /// Writes the administrator's kubeconfig; the URL may differ from one start to the next.
    pub fn write_kubeconfig(&self, listen: &Listen) -> anyhow::Result<PathBuf> {
        write_kubeconfig(&self.root, listen, &self.pki.admin, &self.keys.root_ca.get())
    }
}

/// The certificates behind the operator's own one, in PEM.
fn anchors(listen: &Listen) -> &str {
    listen.certificate.as_ref().map_or("", |own| &own.names.anchors)
}

/// The authorities that clients verify the server with, in PEM: those of the directory, followed by the chain of the
/// operator's certificate.
pub fn trust(pki: &Directory, listen: &Listen) -> String {
    format!("{}{}", pki.trusted, anchors(listen))
}

/// Writes the administrator's kubeconfig. A file with the same content is not rewritten: a start needs no disk space
/// for it.
pub fn write_kubeconfig(root: &Path, listen: &Listen, admin: &KeyPairPem, trust: &str) -> anyhow::Result<PathBuf> {
    let cluster = &listen.cluster;
    let mut config = Kubeconfig::new(cluster, &listen.url(), trust, cluster, User::with_certificate(admin));
    if let Some(name) = listen.server_name() {
        config = config.with_server_name(&name);
    }
    let path = root.join(&listen.kubeconfig);
    let text = config.to_yaml().context("encoding the kubeconfig")?;
    if pki::files::read(&path).is_ok_and(|present| present.as_deref() == Some(&text)) {
        return Ok(path);
    }
    pki::files::replace(&path, text.as_bytes(), pki::files::Access::Private)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
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

    #[test]
    fn an_authority_of_the_operator_is_no_trace_of_a_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let (keys, world) = (dir.path().join(KEYS), World::system());
        let (_, authority) = pki::Authority::generate("corporate ca", &world).expect("an authority");
        std::fs::create_dir(&keys).expect("a directory");
        std::fs::write(keys.join("ca.crt"), &authority.certificate).expect("a file");
        std::fs::write(keys.join("ca.key"), &authority.key).expect("a file");
        assert!(!DataDir::is_used(dir.path()));
        let data = DataDir::open(dir.path(), &[], &world).expect("a data directory");
        assert_eq!(data.pki.authority.certificate(), authority.certificate);
        assert!(DataDir::is_used(dir.path()));
    }
}
