//! Front proxies: servers in front of this one that authenticate users and name them in headers (`--requestheader-*`).

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use apiserver::auth::authn::{ClientAuthority, FrontProxy};
use apiserver::bootstrap::objects::PublishedProxies;

const AUTHORITY: &str = "--requestheader-client-ca-file";
/// The common name in the certificate of this server's own front proxy, as with kubeadm.
pub const OWN_NAME: &str = "front-proxy-client";

/// The flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The authorities of the proxies' client certificates in PEM.
    pub file: PathBuf,
    /// Common names; empty are all.
    pub names: Vec<String>,
    /// The headers with the user's name.
    pub user_headers: Vec<String>,
    /// The headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// The headers with the user's groups.
    pub group_headers: Vec<String>,
    /// The beginnings of headers with extra fields.
    pub extra_prefixes: Vec<String>,
    /// Whether aggregated servers receive a certificate of the data directory's front proxy authority, so that this one
    /// is published, too.
    pub presents_own: bool,
}

/// Front proxies and the authority that follows the file.
#[derive(Clone)]
pub struct FrontProxies {
    pub settings: Settings,
    authority: ClientAuthority,
    /// The last valid content of the file.
    bundle: String,
}

impl std::fmt::Debug for FrontProxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.settings.fmt(f)
    }
}

impl FrontProxies {
    /// Reads the authorities. `client_authorities` are those of other clients.
    ///
    /// # Errors
    /// A file that cannot be read or has no certificate; authorities of other clients without allowed names: any of
    /// these clients could act as any user.
    pub fn open(settings: Settings, client_authorities: &str) -> anyhow::Result<Self> {
        let bundle = read(&settings)?;
        let authority = ClientAuthority::from_pem(&bundle).with_context(|| attempt(&settings))?;
        let of_clients = pki::holder::certificates(client_authorities).unwrap_or_default();
        let own = pki::holder::certificates(&bundle).with_context(|| attempt(&settings))?;
        ensure!(
            !settings.names.is_empty() || !own.iter().any(|it| of_clients.contains(it)),
            "{AUTHORITY} and --client-ca-file have an authority in common, so that each of its clients could act as any \
             user; name the proxies in --requestheader-allowed-names"
        );
        Ok(Self { settings, authority, bundle })
    }

    /// Rereads the file. A valid one takes effect at once.
    ///
    /// # Errors
    /// For an invalid file; the current authorities stay in effect.
    pub fn reload(&mut self) -> anyhow::Result<()> {
        let bundle = read(&self.settings)?;
        if bundle != self.bundle {
            self.authority.replace(&bundle).with_context(|| attempt(&self.settings))?;
            self.bundle = bundle;
        }
        Ok(())
    }

    /// The authentication method.
    pub fn method(&self) -> FrontProxy {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        FrontProxy {
            user_headers: lower(&self.settings.user_headers),
            uid_headers: lower(&self.settings.uid_headers),
            group_headers: lower(&self.settings.group_headers),
            extra_prefixes: lower(&self.settings.extra_prefixes),
            ..FrontProxy::new(self.authority.clone(), self.settings.names.clone())
        }
    }

    /// The data that aggregated servers need to authenticate these proxies and this server; `own` is the authority of
    /// this server's certificates.
    pub fn published(&self, own: &str) -> PublishedProxies {
        let Settings { names, presents_own, .. } = &self.settings;
        let mut names = names.clone();
        if *presents_own && !names.is_empty() && !names.iter().any(|name| name == OWN_NAME) {
            names.push(OWN_NAME.to_owned());
        }
        PublishedProxies {
            authority: self.published_authority(own),
            names,
            user_headers: self.settings.user_headers.clone(),
            uid_headers: self.settings.uid_headers.clone(),
            group_headers: self.settings.group_headers.clone(),
            extra_prefixes: self.settings.extra_prefixes.clone(),
        }
    }

    /// The authorities that are published.
    pub fn published_authority(&self, own: &str) -> String {
        let newline = if self.bundle.ends_with('\n') { "" } else { "\n" };
        format!("{}{newline}{}", self.bundle, if self.settings.presents_own { own } else { "" })
    }
}

fn attempt(settings: &Settings) -> String {
    format!("{AUTHORITY}: reading {}", settings.file.display())
}

fn read(settings: &Settings) -> anyhow::Result<String> {
    std::fs::read_to_string(&settings.file).with_context(|| attempt(settings))
}

#[cfg(test)]
mod tests {
    use world::World;

    use super::*;

    fn settings(file: PathBuf, names: &[&str]) -> Settings {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Settings {
            file,
            names: list(names),
            user_headers: list(&["X-User"]),
            uid_headers: Vec::new(),
            group_headers: list(&["X-Group"]),
            extra_prefixes: list(&["X-Extra-"]),
            presents_own: true,
        }
    }

    #[test]
    fn an_authority_of_all_clients_needs_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("ca.crt");
        let world = World::system();
        let (authority, _) = pki::Authority::generate("front", &world).expect("an authority");
        let (other, _) = pki::Authority::generate("clients", &world).expect("an authority");
        std::fs::write(&file, authority.certificate()).expect("written");
        let open = |names: &[&str], clients: &str| FrontProxies::open(settings(file.clone(), names), clients);
        let refused = open(&[], authority.certificate()).expect_err("no names");
        assert!(refused.to_string().contains("name the proxies in --requestheader-allowed-names"), "{refused}");
        open(&[], other.certificate()).expect("another authority");
        let proxies = open(&["a"], authority.certificate()).expect("names");
        let published = proxies.published("OWN");
        assert_eq!(published.names, ["a", OWN_NAME]);
        assert_eq!(published.authority, format!("{}\nOWN", authority.certificate().trim_end()));
        assert_eq!(proxies.method().user_headers, ["x-user"]);
        assert_eq!(open(&[], "").expect("no clients").published("").names, [""; 0]);
        std::fs::write(&file, "nothing").expect("written");
        let refused = open(&["a"], "").expect_err("no certificate");
        assert!(refused.to_string().starts_with("--requestheader-client-ca-file"), "{refused:#}");
    }

    #[test]
    fn an_unusable_file_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("ca.crt");
        let world = World::system();
        let (authority, _) = pki::Authority::generate("front", &world).expect("an authority");
        std::fs::write(&file, authority.certificate()).expect("written");
        let mut proxies = FrontProxies::open(settings(file.clone(), &[]), "").expect("an authority");
        std::fs::write(&file, "nothing").expect("written");
        proxies.reload().expect_err("no certificate");
        assert!(proxies.published_authority("").contains("BEGIN CERTIFICATE"));
        let (next, _) = pki::Authority::generate("next", &world).expect("an authority");
        std::fs::write(&file, next.certificate()).expect("written");
        proxies.reload().expect("usable");
        assert_eq!(proxies.published_authority("").trim_end(), next.certificate().trim_end());
    }
}
