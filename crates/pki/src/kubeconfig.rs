//! Kubeconfig documents with embedded credentials, for one server and one user.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::authority::KeyPairPem;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    pub kind: String,
    pub clusters: Vec<NamedCluster>,
    pub contexts: Vec<NamedContext>,
    pub current_context: String,
    #[serde(default)]
    pub preferences: Preferences,
    pub users: Vec<NamedUser>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preferences {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCluster {
    pub name: String,
    pub cluster: Cluster,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// PEM, encoded in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub certificate_authority_data: String,
    pub server: String,
    /// The name in the server's certificate, if it is not the host of `server`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_server_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedContext {
    pub name: String,
    pub context: Context,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub cluster: String,
    pub user: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedUser {
    pub name: String,
    pub user: User,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct User {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_certificate_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_key_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl User {
    pub fn with_certificate(pair: &KeyPairPem) -> Self {
        Self {
            client_certificate_data: STANDARD.encode(&pair.certificate),
            client_key_data: STANDARD.encode(&pair.key),
            ..Self::default()
        }
    }

    pub fn with_token(token: impl Into<String>) -> Self {
        Self { token: token.into(), ..Self::default() }
    }
}

impl Kubeconfig {
    /// One cluster, one user and one context, all named after the cluster (the user `NAME-USER`, as in kubeadm).
    pub fn new(cluster: &str, server: &str, authority_pem: &str, user_name: &str, user: User) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Config".into(),
            clusters: vec![NamedCluster {
                name: cluster.into(),
                cluster: Cluster {
                    certificate_authority_data: STANDARD.encode(authority_pem),
                    server: server.into(),
                    tls_server_name: String::new(),
                },
            }],
            contexts: vec![NamedContext {
                name: cluster.into(),
                context: Context { cluster: cluster.into(), user: user_name.into() },
            }],
            current_context: cluster.into(),
            preferences: Preferences::default(),
            users: vec![NamedUser { name: user_name.into(), user }],
        }
    }

    /// Clients verify the server's certificate with this name instead of the host of its URL.
    pub fn with_server_name(mut self, name: &str) -> Self {
        for cluster in &mut self.clusters {
            name.clone_into(&mut cluster.cluster.tls_server_name);
        }
        self
    }

    /// The file as kubectl writes it: keys are sorted, and each credential is on one line, which scripts read with `grep`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn to_yaml(&self) -> Result<String, Error> {
        let tree = serde_json::to_value(self).map_err(|error| Error::Kubeconfig(error.to_string()))?;
        Ok(apimachinery::yaml::to_string(&tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_has_each_credential_on_one_line() {
        let user = User { client_certificate_data: "Y2Vy".repeat(400), ..User::with_token("t".repeat(2_000)) };
        let config = Kubeconfig::new("c", "https://127.0.0.1:6443", &"authority ".repeat(200), "u", user);
        let text = config.to_yaml().expect("YAML");
        let line = |key: &str| {
            let found = text.lines().filter_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "));
            found.collect::<Vec<_>>()
        };
        let ca = &config.clusters[0].cluster.certificate_authority_data;
        assert_eq!(line("certificate-authority-data"), [ca.as_str()]);
        assert_eq!(line("client-certificate-data"), ["Y2Vy".repeat(400)]);
        assert_eq!(line("token"), ["t".repeat(2_000)]);
        assert_eq!(line("server"), ["https://127.0.0.1:6443"]);
        assert!(text.starts_with("apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: "), "{text}");
    }
}
