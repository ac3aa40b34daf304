//! Finds the kubeconfig of a process by client-go's rules, and reads the chosen context.
//!
//! The order: exactly the file of a flag, if it is set; the merged files of `$KUBECONFIG`; for a user's command
//! `~/.kube/config`; the service account of the pod.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::config::document::{Cluster, Document, DocumentError, User};
use crate::config::{self, Config, Names};
use crate::{Client, Error, Result};

/// client-go's message when no kubeconfig is configured anywhere.
const INCOMPLETE: &str = "Missing or incomplete configuration info.  Please point to an existing, complete config \
                          file:\n  1. Via the command-line flag --kubeconfig\n  2. Via the KUBECONFIG environment \
                          variable\n  3. In your home directory as ~/.kube/config";

/// The locations of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The name of a flag such as `--kubeconfig`, and its file.
    explicit: Option<(&'static str, PathBuf)>,
    /// `$KUBECONFIG`.
    listed: Vec<PathBuf>,
    home: Option<PathBuf>,
    pod: bool,
}

impl Places {
    /// For a component, which never uses `~/.kube/config`: `file` if the flag is set, otherwise the environment.
    pub fn of_component(flag: &'static str, file: Option<PathBuf>) -> Self {
        Self { home: None, ..Self::of_user(flag, file) }
    }

    /// For a user's command: `file` if the flag is set, otherwise the environment and the home directory.
    pub fn of_user(flag: &'static str, file: Option<PathBuf>) -> Self {
        Self::from_environment(flag, file, |name| std::env::var_os(name))
    }

    /// Exactly this file.
    pub fn file(path: &Path) -> Self {
        Self { explicit: Some(("", path.to_owned())), ..Self::default() }
    }

    fn from_environment(
        flag: &'static str,
        file: Option<PathBuf>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut listed: Vec<PathBuf> = Vec::new();
        let variable_of_files = set("KUBECONFIG");
        for path in variable_of_files.iter().flat_map(std::env::split_paths) {
            if !path.as_os_str().is_empty() && !listed.contains(&path) {
                listed.push(path);
            }
        }
        Self {
            explicit: file.filter(|file| !file.as_os_str().is_empty()).map(|file| (flag, file)),
            listed,
            // A list without files is a list.
            home: set("HOME")
                .filter(|_| variable_of_files.is_none())
                .map(|home| PathBuf::from(home).join(".kube/config")),
            pod: set("KUBERNETES_SERVICE_HOST").is_some() && set("KUBERNETES_SERVICE_PORT").is_some(),
        }
    }

    /// The files that are configured for a component, readable or not.
    pub fn files(&self) -> Vec<PathBuf> {
        self.explicit.as_ref().map_or_else(|| self.listed.clone(), |(_, file)| vec![file.clone()])
    }

    /// The files whose changes concern a component: [`Places::files`], and the certificates, keys and authorities that
    /// the context names. Token files are read again by each connection.
    pub fn followed(&self, context: Option<&str>) -> Vec<PathBuf> {
        let facts = self.read().ok().flatten().and_then(|kubeconfig| kubeconfig.facts(context).ok());
        let named = facts.iter().flat_map(|facts| {
            let User { client_certificate, client_key, .. } = &facts.credentials;
            [&facts.settings.certificate_authority, client_certificate, client_key]
        });
        let named = named.flatten().filter(|file| !file.is_empty()).map(PathBuf::from);
        self.files().into_iter().chain(named).collect()
    }

    /// Whether any file is configured, readable or not.
    pub fn any(&self) -> bool {
        self.explicit.is_some() || !self.listed.is_empty() || self.pod
    }

    /// Reads the first configured location; `None` means the service account of the pod.
    ///
    /// # Errors
    /// [`Error::Config`] naming the files when none is configured or one cannot be read.
    pub fn read(&self) -> Result<Option<Kubeconfig>> {
        if let Some((flag, file)) = &self.explicit {
            let of = if flag.is_empty() { String::new() } else { format!(" of {flag}") };
            let document = Document::read(file).map_err(|error| unreadable(file, &of, &error))?;
            return Ok(Some(Kubeconfig { document, files: vec![file.clone()], missing: Vec::new() }));
        }
        let of = if self.listed.is_empty() { "" } else { " of $KUBECONFIG" };
        let files = if self.listed.is_empty() { self.home.as_slice() } else { &self.listed };
        let mut found = Kubeconfig::default();
        for file in files {
            match Document::read(file) {
                Ok(document) => found.add(file, document),
                Err(DocumentError::Unreadable(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                    found.missing.push(file.clone());
                }
                Err(error) => return Err(unreadable(file, of, &error)),
            }
        }
        match (found.files.as_slice(), self.pod, found.missing.as_slice()) {
            ([_, ..], _, _) => Ok(Some(found)),
            ([], true, _) => Ok(None),
            ([], false, missing) if !self.listed.is_empty() => {
                let exist = if missing.len() == 1 { "does not exist" } else { "do not exist" };
                Err(Error::Config(format!("kubeconfig {}{of} {exist}", named(missing))))
            }
            ([], false, _) => Err(Error::Config(INCOMPLETE.into())),
        }
    }

    /// Connects with the named context, or with the current one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file, and the existing contexts if the named one does not exist.
    pub async fn connect(&self, context: Option<&str>) -> Result<Connection> {
        let Some(kubeconfig) = self.read()? else {
            let config = in_the_pod()?;
            let facts = Facts::in_the_pod(&config);
            return Ok(Connection { client: Client::from_config(&config)?, facts, missing: Vec::new() });
        };
        let facts = kubeconfig.facts(context)?;
        let client = Client::from_config(&kubeconfig.config(context)?)
            .map_err(|e| Error::Config(format!("{}, context {:?}: {e}", facts.place, facts.context)))?;
        Ok(Connection { client, facts, missing: kubeconfig.missing })
    }

    /// A client of the server that the current context names, and the path of the server's URL apart: a webhook is
    /// reached at exactly that path. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`Places::connect`]; a kubeconfig is required.
    pub async fn connect_to_webhook(&self) -> Result<(Client, String)> {
        let kubeconfig = self.read()?.ok_or_else(|| Error::Config(INCOMPLETE.into()))?;
        let mut config = kubeconfig.config(None)?;
        let path = config.server.path_and_query().map_or("/", |it| it.as_str()).to_owned();
        let mut parts = config.server.into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        config.server = http::Uri::from_parts(parts).map_err(|error| Error::Config(error.to_string()))?;
        Ok((Client::from_config(&config)?, path))
    }
}

fn unreadable(file: &Path, of: &str, error: &DocumentError) -> Error {
    let file = file.display();
    Error::Config(match error {
        DocumentError::Unreadable(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("kubeconfig {file}{of} does not exist")
        }
        DocumentError::Unreadable(error) => format!("kubeconfig {file}{of} cannot be read: {error}"),
        DocumentError::Malformed(why) => format!("kubeconfig {file}{of} is malformed: {why}"),
    })
}

fn in_the_pod() -> Result<Config> {
    Config::in_the_pod().map_err(|why| Error::Config(format!("in the pod: {why}")))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn named(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// One kubeconfig, or several merged ones: for each name the first file that defines it counts.
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    document: Document,
    files: Vec<PathBuf>,
    missing: Vec<PathBuf>,
}

impl Kubeconfig {
    /// The kubeconfig of a text.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub(crate) fn of_text(text: &str) -> Result<Self> {
        let document = Document::parse(text).map_err(|error| Error::Config(format!("kubeconfig: {error}")))?;
        Ok(Self { document, ..Self::default() })
    }

    fn add(&mut self, file: &Path, mut document: Document) {
        // For client-go an empty name means no current context.
        document.current_context = document.current_context.filter(|name| !name.is_empty());
        self.document = std::mem::take(&mut self.document).merge(document);
        self.files.push(file.to_owned());
    }

    /// The location of the kubeconfig in messages.
    fn place(&self) -> String {
        if self.files.is_empty() { "kubeconfig".into() } else { format!("kubeconfig {}", named(&self.files)) }
    }

    /// The facts about the named context, or about the current one.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file, and the existing contexts if the named one does not exist.
    pub fn facts(&self, context: Option<&str>) -> Result<Facts> {
        let place = self.place();
        let contexts: Vec<String> = self.document.contexts.iter().map(|it| it.name.clone()).collect();
        let bad = |why: String| Err(Error::Config(why));
        let among = match contexts.as_slice() {
            [] => "it has no contexts".to_owned(),
            several => format!("its contexts: {}", several.join(", ")),
        };
        let Some(name) = self.chosen(context) else { return bad(format!("{place} has no current context; {among}")) };
        let found = self.document.contexts.iter().find(|it| it.name == name).and_then(|it| it.context.as_ref());
        let Some(found) = found else { return bad(format!("context {name:?} does not exist in {place}; {among}")) };
        let cluster = self.document.clusters.iter().find(|it| it.name == found.cluster);
        let Some(cluster) = cluster.and_then(|it| it.cluster.as_ref()) else {
            return bad(format!("context {name:?} of {place} names cluster {:?}, which does not exist", found.cluster));
        };
        let user = found.user.clone().unwrap_or_default();
        let credentials = self.document.users.iter().find(|it| it.name == user);
        Ok(Facts {
            place,
            context: name.to_owned(),
            contexts,
            cluster: found.cluster.clone(),
            namespace: found.namespace.clone().filter(|name| !name.is_empty()),
            user,
            credentials: credentials.and_then(|it| it.user.clone()).unwrap_or_default(),
            settings: cluster.clone(),
        })
    }

    fn chosen<'a>(&'a self, context: Option<&'a str>) -> Option<&'a str> {
        context.or(self.document.current_context.as_deref()).filter(|name| !name.is_empty())
    }

    pub(crate) fn config(&self, context: Option<&str>) -> Result<Config> {
        self.config_at(context, None)
    }

    /// The configuration of a context, with another address of its server.
    fn config_at(&self, context: Option<&str>, server: Option<&str>) -> Result<Config> {
        let mut facts = self.facts(context)?;
        if let Some(server) = server {
            facts.settings.server = Some(server.to_owned());
        }
        let names = Names { cluster: &facts.cluster, user: &facts.user };
        let config = Config::of(&facts.settings, &facts.credentials, &names, facts.namespace.as_deref(), variable);
        config.map_err(|why| Error::Config(format!("{}: {why}", facts.place)))
    }
}

/// A client and its source.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The context that it uses.
    pub facts: Facts,
    /// Files of `$KUBECONFIG` that do not exist, while others do.
    pub missing: Vec<PathBuf>,
}

/// The facts about a context of a kubeconfig. Their debug form omits the credentials.
#[derive(Clone)]
pub struct Facts {
    /// `kubeconfig FILE`, or the service account of a pod.
    pub place: String,
    /// The context's name.
    pub context: String,
    /// All contexts of the kubeconfig.
    pub contexts: Vec<String>,
    /// The name of the context's cluster.
    pub cluster: String,
    /// The name of the context's user.
    pub user: String,
    /// The context's namespace.
    pub namespace: Option<String>,
    credentials: User,
    settings: Cluster,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Facts({}, {})", self.place, self.context)
    }
}

impl Facts {
    fn in_the_pod(config: &Config) -> Self {
        Self {
            place: "the service account of this pod".into(),
            context: String::new(),
            contexts: Vec::new(),
            cluster: String::new(),
            user: String::new(),
            namespace: Some(config.namespace.clone()),
            // The service account's token.
            credentials: User { token_file: Some(String::new()), ..User::default() },
            settings: Cluster { server: Some(config.server.to_string()), ..Cluster::default() },
        }
    }

    /// `https://host:port[/path]`
    pub fn server(&self) -> &str {
        self.settings.server.as_deref().unwrap_or_default()
    }

    /// Whether the server's certificate is not verified.
    pub fn skips_verification(&self) -> bool {
        self.settings.insecure_skip_tls_verify == Some(true)
    }

    /// The authorities, in PEM, that the server's certificate is verified with; `None` for those of the machine.
    pub fn authority(&self) -> Option<Vec<u8>> {
        config::authority(&self.settings).ok().flatten()
    }

    /// The proxy's URL.
    pub fn proxy_url(&self) -> Option<&str> {
        self.settings.proxy_url.as_deref().filter(|url| !url.is_empty())
    }

    /// Whether requests carry credentials.
    pub fn has_credentials(&self) -> bool {
        let User { username, token, token_file, client_certificate, client_certificate_data, exec, .. } =
            &self.credentials;
        let texts = [username, token_file, client_certificate, client_certificate_data];
        texts.into_iter().any(Option::is_some)
            || token.is_some()
            || exec.is_some()
            || self.credentials.auth_provider.is_some()
    }

    /// When the client certificate expires, in seconds since 1970; `None` without a readable certificate.
    pub fn certificate_ends(&self) -> Option<i64> {
        let User { client_certificate_data: data, client_certificate: file, .. } = &self.credentials;
        let pem = match (data, file) {
            (Some(data), _) => config::decoded(data).ok()?,
            (None, Some(file)) => std::fs::read(file).ok()?,
            (None, None) => return None,
        };
        let first = CertificateDer::from_pem_slice(&pem).ok()?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&first).ok()?;
        Some(parsed.validity().not_after.timestamp())
    }
}

/// The configuration of upstream's `--kubeconfig` and `--master`: the kubeconfig with the given address instead of its
/// own; without a kubeconfig only the address.
pub(crate) fn of_flags(places: &Places, server: Option<&str>) -> Result<Config> {
    let at = server.map(|server| server.parse().map_err(|e: http::uri::InvalidUri| bad_server(server, &e)));
    let at: Option<http::Uri> = at.transpose()?;
    let configured = places.explicit.is_some() || !places.listed.is_empty();
    if let (Some(at), false) = (&at, configured) {
        return Ok(Config::new(at.clone()));
    }
    match places.read()? {
        Some(kubeconfig) => kubeconfig.config_at(None, server),
        None => {
            let config = in_the_pod()?;
            Ok(Config { server: at.unwrap_or(config.server.clone()), ..config })
        }
    }
}

fn bad_server(server: &str, why: &dyn Display) -> Error {
    Error::Config(format!("server {server:?}: {why}"))
}

#[cfg(test)]
mod tests;
