//! The file of `--admission-control-config-file`: an `AdmissionConfiguration`, whose plugins may have credentials for
//! webhooks, and defaults and exemptions of the Pod Security Standards. A configuration that would have no effect is
//! refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use apimachinery::configuration::{ConfigurationError, FileKind};
use apimachinery::yaml;
use apiserver::admit::plugins;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::ClientIdentity;
use client::webhooks::{Credential, Credentials, Token};
use serde::Deserialize;
use serde_json::Value;

const VERSION: &str = "apiserver.config.k8s.io/v1";
const DOCUMENT: FileKind =
    FileKind { api_versions: &[VERSION, "apiserver.k8s.io/v1alpha1"], kind: "AdmissionConfiguration" };
const OF_WEBHOOKS: FileKind = FileKind { api_versions: &[VERSION], kind: "WebhookAdmissionConfiguration" };
/// The older name of [`OF_WEBHOOKS`].
const OLD_OF_WEBHOOKS: FileKind =
    FileKind { api_versions: &["apiserver.config.k8s.io/v1alpha1"], kind: "WebhookAdmission" };
const MUTATING: &str = "MutatingAdmissionWebhook";
const VALIDATING: &str = "ValidatingAdmissionWebhook";
const POD_SECURITY: &str = "PodSecurity";

/// The configurations of the plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Credentials for mutating webhooks.
    pub mutating: Credentials,
    /// Credentials for validating webhooks.
    pub validating: Credentials,
    /// The Pod Security Standards.
    pub pod_security: plugins::PodSecurityConfiguration,
}

/// Why a configuration cannot be used. The message names the plugin and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl From<ConfigurationError> for Refused {
    fn from(error: ConfigurationError) -> Self {
        Self(error.to_string())
    }
}

/// Reads a file that a configuration names.
pub type Read<'r> = &'r dyn Fn(&Path) -> Result<Vec<u8>, String>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    plugins: Option<Vec<Plugin>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    #[serde(default)]
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    configuration: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfWebhooks {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    kube_config_file: String,
}

impl Configuration {
    /// The configuration in the file at `path`. Relative paths in it begin at its directory.
    ///
    /// # Errors
    /// Its first field that cannot be used.
    pub fn read(path: &Path, read: Read<'_>) -> Result<Self, Refused> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let document: Document = decoded(DOCUMENT.read(&read(path).map_err(Refused)?)?)?;
        let mut configuration = Self::default();
        let mut known: Vec<String> = Vec::new();
        for plugin in document.plugins.unwrap_or_default() {
            let name = plugin.name.clone();
            let at = |refused: Refused| Refused(format!("plugin {name:?}: {refused}"));
            if known.contains(&plugin.name) {
                return Err(at(Refused("is listed twice".to_owned())));
            }
            known.push(plugin.name.clone());
            let content = plugin.content(directory, read).map_err(at)?;
            match plugin.name.as_str() {
                MUTATING => configuration.mutating = of_webhooks(content, directory, read).map_err(at)?,
                VALIDATING => configuration.validating = of_webhooks(content, directory, read).map_err(at)?,
                POD_SECURITY => {
                    let read = plugins::PodSecurityConfiguration::read(&content);
                    configuration.pod_security = read.map_err(Refused::from).map_err(at)?;
                }
                other if !plugins::is_known(other) => {
                    return Err(at(Refused("is unknown; check the spelling".to_owned())));
                }
                _ if is_empty(&content) => {}
                _ => {
                    let why = "its configuration is not part of this version; leave the plugin out of the file";
                    return Err(at(Refused(why.to_owned())));
                }
            }
        }
        Ok(configuration)
    }
}

impl Plugin {
    /// The configuration, from its own file if it has one.
    fn content(&self, directory: &Path, read: Read<'_>) -> Result<Value, Refused> {
        if self.path.is_empty() {
            return Ok(self.configuration.clone());
        }
        if !self.configuration.is_null() {
            return Err(Refused("has both path and configuration; remove one".to_owned()));
        }
        file(&read(&directory.join(&self.path)).map_err(Refused)?)
    }
}

/// Whether a configuration has only its kind.
fn is_empty(content: &Value) -> bool {
    let mut fields = content.as_object().into_iter().flatten();
    !content.is_array() && fields.all(|(name, _)| matches!(name.as_str(), "apiVersion" | "kind"))
}

fn decoded<T: serde::de::DeserializeOwned>(tree: Value) -> Result<T, Refused> {
    serde_json::from_value(tree).map_err(|error| ConfigurationError::undecodable(error).into())
}

/// A file whose kind is not known before.
fn file(content: &[u8]) -> Result<Value, Refused> {
    let (tree, repeated) = yaml::to_json_value_warned(content).map_err(ConfigurationError::undecodable)?;
    if repeated.is_empty() { Ok(tree) } else { Err(ConfigurationError::Undecodable(repeated.join(", ")).into()) }
}

fn of_webhooks(content: Value, directory: &Path, read: Read<'_>) -> Result<Credentials, Refused> {
    if is_empty(&content) {
        return Ok(Credentials::default());
    }
    let kind = if content["kind"] == OLD_OF_WEBHOOKS.kind { OLD_OF_WEBHOOKS } else { OF_WEBHOOKS };
    kind.check(&content)?;
    let of_kind: OfWebhooks = decoded(content)?;
    if of_kind.kube_config_file.is_empty() {
        return Ok(Credentials::default());
    }
    let file = directory.join(&of_kind.kube_config_file);
    let at = |refused: Refused| Refused(format!("kubeConfigFile {}: {refused}", file.display()));
    let document = self::file(&read(&file).map_err(Refused)?).map_err(at)?;
    let directory = file.parent().map(Path::to_owned).unwrap_or_default();
    credentials(&document, &|path: &Path| read(&directory.join(path))).map_err(at)
}

/// The users of a kubeconfig by their names, and the user of its current context.
fn credentials(kubeconfig: &Value, read: Read<'_>) -> Result<Credentials, Refused> {
    let mut credentials = Credentials::default();
    for user in kubeconfig["users"].as_array().into_iter().flatten() {
        let name = user["name"].as_str().unwrap_or_default();
        let credential = credential(&user["user"], read).map_err(|why| Refused(format!("user {name:?}: {why}")))?;
        credentials.named.insert(name.to_owned(), credential);
    }
    let current = kubeconfig["current-context"].as_str().filter(|name| !name.is_empty());
    let mut contexts = kubeconfig["contexts"].as_array().into_iter().flatten();
    let current = current.and_then(|name| contexts.find(|context| context["name"] == name));
    let user = current.and_then(|context| context["context"]["user"].as_str());
    if let Some(credential) = user.and_then(|name| credentials.named.get(name)) {
        credentials.others = credential.clone();
    }
    Ok(credentials)
}

fn credential(user: &Value, read: Read<'_>) -> Result<Credential, Refused> {
    for field in ["exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid", "as-user-extra"] {
        if !user[field].is_null() && user[field] != "" {
            return Err(Refused(format!("{field} is not part of this version; give a certificate or a token")));
        }
    }
    let text = |field: &str| user[field].as_str().filter(|text| !text.is_empty());
    let utf8 =
        |bytes: Vec<u8>, field: &str| String::from_utf8(bytes).map_err(|_| Refused(format!("{field} is not PEM")));
    let pem = |field: &str| -> Result<Option<String>, Refused> {
        if let Some(data) = text(&format!("{field}-data")) {
            let decoded = STANDARD.decode(data).map_err(|error| Refused(format!("{field}-data: {error}")))?;
            return utf8(decoded, field).map(Some);
        }
        let Some(path) = text(field) else { return Ok(None) };
        utf8(read(&PathBuf::from(path)).map_err(Refused)?, field).map(Some)
    };
    let identity = match (pem("client-certificate")?, pem("client-key")?) {
        (Some(certificate), Some(key)) => Some(Arc::new(ClientIdentity { certificate, key })),
        (None, None) => None,
        (Some(_), None) => return Err(Refused("client-certificate needs client-key".to_owned())),
        (None, Some(_)) => return Err(Refused("client-key needs client-certificate".to_owned())),
    };
    let token = match (text("token"), text("tokenFile")) {
        (Some(token), _) => Some(token.to_owned()),
        (None, Some(path)) => Some(utf8(read(&PathBuf::from(path)).map_err(Refused)?, "tokenFile")?),
        (None, None) => None,
    };
    Ok(Credential { identity, token: token.map(|token| Token(token.trim().to_owned())) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const KUBECONFIG: &str = "
users:
- name: 'hook.ns.svc'
  user: {client-certificate-data: Y2VydA==, client-key: hook.key}
- name: '*'
  user: {tokenFile: tokens/other}
- name: fallback
  user: {token: t}
contexts:
- {name: c, context: {user: fallback}}
current-context: c
";

    fn read(documents: &[(&str, &str)]) -> Result<Configuration, String> {
        let mut files: BTreeMap<PathBuf, String> =
            documents.iter().map(|(name, text)| (Path::new("/etc/k").join(name), (*text).to_owned())).collect();
        for (name, text) in [("hooks/users", KUBECONFIG), ("hooks/hook.key", "key"), ("hooks/tokens/other", "secret\n")]
        {
            files.insert(Path::new("/etc/k").join(name), text.to_owned());
        }
        let found = |path: &Path| match files.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => Err(format!("cannot read {}", path.display())),
        };
        Configuration::read(Path::new("/etc/k/admission.yaml"), &found).map_err(|refused| refused.to_string())
    }

    fn of_plugins(plugins: &str) -> Result<Configuration, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{plugins}");
        read(&[("admission.yaml", &text)])
    }

    fn webhook(name: &str, file: &str) -> String {
        format!(
            "- name: {name}\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, \
             kind: WebhookAdmissionConfiguration, kubeConfigFile: {file}}}\n"
        )
    }

    fn pod_security(fields: &str) -> String {
        format!(
            "- name: PodSecurity\n  configuration: {{apiVersion: pod-security.admission.config.k8s.io/v1, \
             kind: PodSecurityConfiguration, {fields}}}\n"
        )
    }

    #[test]
    fn pod_security_has_defaults_and_exemptions() {
        let found = of_plugins(&pod_security("defaults: {enforce: baseline}, exemptions: {namespaces: [kube-system]}"));
        let found = found.expect("a configuration").pod_security;
        assert_eq!(found.defaults.enforce.to_string(), "baseline:latest");
        assert_eq!(found.exemptions.namespaces, ["kube-system"]);
    }

    #[test]
    fn webhooks_have_the_users_of_a_kubeconfig() {
        let found = of_plugins(&webhook(VALIDATING, "hooks/users")).expect("a configuration");
        assert_eq!(found.mutating, Credentials::default());
        let named = &found.validating.named;
        let identity = named["hook.ns.svc"].identity.as_ref().expect("a certificate");
        assert_eq!((identity.certificate.as_str(), identity.key.as_str()), ("cert", "key"));
        assert_eq!(named["*"].token, Some(Token("secret".into())));
        assert_eq!(found.validating.others.token, Some(Token("t".into())));
        let elsewhere = [
            (
                "admission.yaml",
                "{apiVersion: apiserver.k8s.io/v1alpha1, kind: AdmissionConfiguration, plugins: [{name: MutatingAdmissionWebhook, path: m.yaml}]}",
            ),
            (
                "m.yaml",
                "{apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission, kubeConfigFile: /etc/k/hooks/users}",
            ),
        ];
        assert_eq!(read(&elsewhere).expect("a configuration").mutating, found.validating);
    }

    #[test]
    fn invalid_plugin_configurations_are_rejected() {
        for (plugins, expected) in [
            (webhook(MUTATING, "none"), "plugin \"MutatingAdmissionWebhook\": cannot read /etc/k/none"),
            (webhook(MUTATING, "hooks/hook.key"), ""),
            (format!("{0}{0}", webhook(MUTATING, "hooks/users")), "is listed twice"),
            ("- {name: Nope}\n".into(), "plugin \"Nope\": is unknown; check the spelling"),
            ("- {name: PodSecurity}\n".into(), ""),
            ("- {name: Priority, configuration: {apiVersion: a, kind: b}}\n".into(), ""),
            (
                "- {name: Priority, configuration: {defaults: {}}}\n".into(),
                "its configuration is not part of this version",
            ),
            (
                "- {name: PodSecurity, configuration: {apiVersion: a, kind: b}}\n".into(),
                "plugin \"PodSecurity\": it is a b, not an pod-security.admission.config.k8s.io/v1 \
                 PodSecurityConfiguration",
            ),
            (pod_security("defaults: {enforce: x}"), "plugin \"PodSecurity\": defaults.enforce: Invalid value: \"x\""),
            ("- {name: ResourceQuota, path: absent}\n".into(), "cannot read /etc/k/absent"),
            ("- {name: PodSecurity, configuration: {}, path: a}\n".into(), "has both path and configuration"),
            ("- {name: PodSecurity, more: 1}\n".into(), "unknown field `more`"),
            (
                "- {name: ValidatingAdmissionWebhook, configuration: {kind: X, kubeConfigFile: a}}\n".into(),
                "it is  X, not an apiserver.config.k8s.io/v1 WebhookAdmissionConfiguration",
            ),
        ] {
            let found = of_plugins(&plugins).err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{plugins}: {found}");
        }
        for (user, expected) in [
            ("{exec: {command: a}}", "user \"u\": exec is not part of this version"),
            ("{username: a, password: b}", "username is not part of this version"),
            ("{client-certificate: hooks/users}", "client-certificate needs client-key"),
            ("{client-certificate-data: '!', client-key: hooks/hook.key}", "client-certificate-data: Invalid symbol"),
            ("{tokenFile: absent}", "cannot read /etc/k/absent"),
        ] {
            let kubeconfig = format!("users:\n- {{name: u, user: {user}}}\n");
            let admission = format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{}",
                webhook(MUTATING, "users")
            );
            let found = read(&[("admission.yaml", &admission), ("users", &kubeconfig)]).err().unwrap_or_default();
            assert!(found.contains(expected), "{user}: {found}");
        }
        let other = read(&[("admission.yaml", "{apiVersion: v1, kind: List}")]).expect_err("another kind");
        assert_eq!(other, "it is v1 List, not an apiserver.config.k8s.io/v1 AdmissionConfiguration");
        let repeated = of_plugins("- {name: PodSecurity, name: PodSecurity}\n").expect_err("a repeated field");
        assert!(repeated.contains("name"), "{repeated}");
    }
}
