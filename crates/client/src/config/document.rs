//! The file format of kubeconfigs: <https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/>. Only fields that
//! connections use are read.

use std::collections::BTreeMap;
use std::path::Path;

use apimachinery::meta::null_as_default;
use apimachinery::yaml;
use serde::Deserialize;

/// A text that debug output omits.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Document {
    #[serde(rename = "apiVersion")]
    pub api_version: Option<String>,
    pub kind: Option<String>,
    #[serde(rename = "current-context")]
    pub current_context: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub contexts: Vec<NamedContext>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub clusters: Vec<NamedCluster>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub users: Vec<NamedUser>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NamedContext {
    pub name: String,
    pub context: Option<Context>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Context {
    pub cluster: String,
    pub user: Option<String>,
    pub namespace: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NamedCluster {
    pub name: String,
    pub cluster: Option<Cluster>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Cluster {
    pub server: Option<String>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub certificate_authority: Option<String>,
    /// PEM in base64.
    pub certificate_authority_data: Option<String>,
    pub proxy_url: Option<String>,
    pub tls_server_name: Option<String>,
    pub disable_compression: Option<bool>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub extensions: Vec<Extension>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Extension {
    pub name: String,
    pub extension: serde_json::Value,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NamedUser {
    pub name: String,
    pub user: Option<User>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct User {
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    pub token_file: Option<String>,
    pub client_certificate: Option<String>,
    /// PEM in base64.
    pub client_certificate_data: Option<String>,
    pub client_key: Option<String>,
    /// PEM in base64.
    pub client_key_data: Option<Secret>,
    #[serde(rename = "as")]
    pub impersonate: Option<String>,
    #[serde(rename = "as-uid")]
    pub impersonate_uid: Option<String>,
    #[serde(rename = "as-groups", default, deserialize_with = "null_as_default")]
    pub impersonate_groups: Vec<String>,
    #[serde(rename = "as-user-extra", default, deserialize_with = "null_as_default")]
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    pub auth_provider: Option<AuthProvider>,
    pub exec: Option<Exec>,
}

/// A provider of tokens inside the client; of these only `oidc` still exists.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AuthProvider {
    pub name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub config: BTreeMap<String, Secret>,
}

/// A program that prints credentials.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Exec {
    pub api_version: Option<String>,
    pub command: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub env: Vec<Variable>,
    pub install_hint: Option<String>,
    pub interactive_mode: Option<InteractiveMode>,
    #[serde(default)]
    pub provide_cluster_info: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Variable {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: Secret,
}

/// Whether the program may read from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum InteractiveMode {
    #[serde(rename = "")]
    Unset,
    Never,
    IfAvailable,
    Always,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("{0}")]
    Unreadable(#[source] std::io::Error),
    #[error("{0}")]
    Malformed(String),
}

/// The error of a document whose fields have other types, without the text that was found: it may be a token.
pub(crate) fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.find(" string \""), text.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => format!("{} string{}", &text[..start], &text[end + 1..]),
        _ => text,
    }
}

impl Document {
    /// Reads a file. Relative paths in it are relative to its folder.
    pub(crate) fn read(file: &Path) -> Result<Self, DocumentError> {
        let bytes = std::fs::read(file).map_err(DocumentError::Unreadable)?;
        let mut document = Self::parse(&text(bytes).map_err(DocumentError::Unreadable)?)?;
        if let Some(folder) = file.parent() {
            document.resolve(folder);
        }
        Ok(document)
    }

    /// Parses YAML. As for client-go, the first document counts.
    pub(crate) fn parse(text: &str) -> Result<Self, DocumentError> {
        let bad = |why: String| DocumentError::Malformed(why);
        let (documents, error) = yaml::documents_before_error(text.as_bytes());
        let value = match (documents.into_iter().next(), error) {
            (None | Some(serde_json::Value::Null), None) => return Ok(Self::default()),
            (Some(value), _) => value,
            (None, Some(error)) => return Err(bad(error.to_string())),
        };
        let document = Self::deserialize(value).map_err(|error| bad(without_value(&error)))?;
        let is = |found: &Option<String>, expected: &str| {
            found.as_deref().is_none_or(|found| found.is_empty() || found == expected)
        };
        if !(is(&document.api_version, "v1") && is(&document.kind, "Config")) {
            let (version, kind) = (document.api_version.unwrap_or_default(), document.kind.unwrap_or_default());
            return Err(bad(format!("no kind {kind:?} is registered for version {version:?}")));
        }
        // client-go's message shows both, with their tokens.
        for (list, repeated) in [
            ("contexts", repeated(&document.contexts, |it| &it.name)),
            ("clusters", repeated(&document.clusters, |it| &it.name)),
            ("users", repeated(&document.users, |it| &it.name)),
        ] {
            if let Some(name) = repeated {
                return Err(bad(format!("duplicate name {name:?} in {list}")));
            }
        }
        Ok(document)
    }

    /// Adds what `next` has under other names.
    pub(crate) fn merge(mut self, next: Self) -> Self {
        self.current_context = self.current_context.or(next.current_context);
        add_new(&mut self.contexts, next.contexts, |it| &it.name);
        add_new(&mut self.clusters, next.clusters, |it| &it.name);
        add_new(&mut self.users, next.users, |it| &it.name);
        self
    }

    fn resolve(&mut self, folder: &Path) {
        let resolve = |path: &mut Option<String>| {
            if let Some(path) = path.as_mut().filter(|path| !path.is_empty())
                && let Some(resolved) = folder.join(&*path).to_str()
            {
                *path = resolved.to_owned();
            }
        };
        for cluster in self.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            resolve(&mut cluster.certificate_authority);
        }
        for user in self.users.iter_mut().filter_map(|named| named.user.as_mut()) {
            for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
                resolve(path);
            }
            // A bare name is searched for in $PATH.
            if let Some(exec) = &mut user.exec
                && exec.command.as_ref().is_some_and(|command| command.contains(std::path::MAIN_SEPARATOR))
            {
                resolve(&mut exec.command);
            }
        }
    }
}

fn repeated<'a, T>(list: &'a [T], name: impl Fn(&'a T) -> &'a String) -> Option<&'a String> {
    let mut seen = std::collections::BTreeSet::new();
    list.iter().map(name).find(|name| !seen.insert(*name))
}

fn add_new<T>(known: &mut Vec<T>, next: Vec<T>, name: impl Fn(&T) -> &String) {
    let before = known.len();
    for item in next {
        if !known[..before].iter().any(|it| name(it) == name(&item)) {
            known.push(item);
        }
    }
}

/// The text of a file in UTF-8 or, as Windows' tools write it, in UTF-16 with a mark.
fn text(bytes: Vec<u8>) -> std::io::Result<String> {
    let bad = || std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8");
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks(2).map(|pair| <[u8; 2]>::try_from(pair).map(unit));
        let units: Result<Vec<u16>, _> = units.collect();
        String::from_utf16(&units.map_err(|_| bad())?).map_err(|_| bad())
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(|_| bad()),
        _ => String::from_utf8(bytes).map_err(|_| bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let yaml = "clusters: [{name: c, cluster: {certificate-authority: ca.crt}}]\nusers:\n\
            - {name: a, user: {client-certificate: sub/a.crt, client-key: /abs/a.key, tokenFile: ''}}\n\
            - {name: b, user: {exec: {command: ./plugin}}}\n- {name: d, user: {exec: {command: aws}}}\n- {name: e}\n";
        std::fs::write(&file, yaml).expect("written");
        let document = Document::read(&file).expect("a document");
        let here = |name: &str| Some(folder.path().join(name).to_string_lossy().into_owned());
        let user = |name: &str| document.users.iter().find(|it| it.name == name).and_then(|it| it.user.clone());
        let cluster = document.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.certificate_authority, here("ca.crt"));
        let a = user("a").expect("a user");
        assert_eq!((a.client_certificate, a.client_key), (here("sub/a.crt"), Some("/abs/a.key".into())));
        assert_eq!(a.token_file.as_deref(), Some(""));
        let command = |name: &str| user(name).and_then(|user| user.exec?.command);
        assert_eq!((command("b"), command("d")), (here("./plugin"), Some("aws".into())));
        assert!(user("e").is_none());
    }

    #[test]
    fn encodings_of_windows_are_read() {
        let yaml = "current-context: \u{fc}\n";
        let units: Vec<u16> = yaml.encode_utf16().collect();
        let little: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(units.iter().flat_map(|unit| unit.to_le_bytes())).collect();
        let big: Vec<u8> = [0xfe, 0xff].into_iter().chain(units.iter().flat_map(|unit| unit.to_be_bytes())).collect();
        let marked = [b"\xef\xbb\xbf", yaml.as_bytes()].concat();
        for bytes in [yaml.as_bytes().to_vec(), marked, little.clone(), big] {
            let document = Document::parse(&text(bytes).expect("text")).expect("a document");
            assert_eq!(document.current_context.as_deref(), Some("\u{fc}"));
        }
        for bytes in [little[..little.len() - 1].to_vec(), vec![0xff, 0xfe, 0, 0xd8], vec![0xfc, b'\n']] {
            text(bytes).expect_err("not text");
        }
    }

    #[test]
    fn the_first_document_counts_and_secrets_are_not_printed() {
        let yaml = "current-context: a\nusers: [{name: u, user: {token: first, password: secret}}]\n---\n\
            current-context: b\nclusters: null\nusers: [{name: u, user: {token: second}}, {name: v}]\n---\n{";
        let document = Document::parse(yaml).expect("a document");
        assert_eq!(document.current_context.as_deref(), Some("a"));
        let names: Vec<&str> = document.users.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["u"]);
        let printed = format!("{document:?}");
        assert!(!printed.contains("first") && !printed.contains("secret"), "{printed}");
        let error = Document::parse("users: [{name: u, user: {token: [hidden]}}]").expect_err("malformed");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }

    #[test]
    fn other_kinds_types_and_repeated_names_are_refused() {
        let check = |yaml: &str, expected: &str| {
            let found = Document::parse(yaml).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(found.starts_with(expected) && (!expected.is_empty() || found.is_empty()), "{yaml}: {found}");
        };
        check("apiVersion: v1\nkind: Config\npreferences: {colors: true}\nunknown: {x: 1}", "");
        check("kind: ''\napiVersion: null\nclusters: null", "");
        check("kind: Foo", "no kind \"Foo\" is registered for version \"\"");
        check("apiVersion: v2\nkind: Config", "no kind \"Config\" is registered for version \"v2\"");
        check("apiVersion: 1", "invalid type");
        check("clusters: [{name: a, cluster: {disable-compression: x}}]", "invalid type");
        let twice = "users: [{name: u, user: {token: hidden}}, {name: u}]";
        check(twice, "duplicate name \"u\" in users");
        check("contexts: [{name: c}, {name: c}]", "duplicate name \"c\" in contexts");
    }
}
