//! Programs that print credentials (`users[].user.exec` of a kubeconfig), as client-go runs them:
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>.

use std::io::IsTerminal as _;
use std::process::Stdio;

use apimachinery::yaml;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Plugin;
use crate::config::document::{InteractiveMode, without_value};

const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Credentials that a program printed.
#[derive(Default)]
pub(super) struct Issued {
    pub token: Option<String>,
    /// Certificates and key, in PEM.
    pub identity: Option<(String, String)>,
    pub expires: Option<Timestamp>,
}

/// Why there are no credentials. The texts are client-go's.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("exec plugin: invalid apiVersion {0:?}")]
    Version(String),
    #[error("exec plugin: command must be specified")]
    NoCommand,
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    NoTerminal,
    #[error(
        "exec: executable {command} not found\n\nIt looks like you are trying to use a client-go credential plugin that is \
         not installed.\n\nTo learn more about this feature, consult the documentation available at:\n      \
         https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins{hint}"
    )]
    NotFound { command: String, hint: String },
    #[error("exec: executable {command}: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("exec: executable {command} failed with {status}")]
    Failed { command: String, status: String },
    #[error("decoding stdout: {0}")]
    Decode(String),
    #[error("exec plugin is configured to use API version {configured}, plugin returned version {returned}")]
    OtherVersion { configured: String, returned: String },
    #[error("exec plugin didn't return a status field")]
    NoStatus,
    #[error("exec plugin didn't return a token or cert/key pair")]
    Empty,
    #[error("exec plugin returned only certificate or key, not both")]
    Half,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Plugin {
    /// Runs the program. It is killed when the future is dropped.
    pub(super) async fn run(&self) -> Result<Issued, PluginError> {
        let version = self.exec.api_version.as_deref().unwrap_or_default();
        if !VERSIONS.contains(&version) {
            return Err(PluginError::Version(version.to_owned()));
        }
        let command = self.exec.command.as_deref().filter(|it| !it.is_empty()).ok_or(PluginError::NoCommand)?;
        let interactive = self.is_interactive()?;
        let mut program = tokio::process::Command::new(command);
        program.args(&self.exec.args).kill_on_drop(true).stderr(Stdio::inherit());
        program.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
        program.envs(self.exec.env.iter().map(|variable| (&variable.name, &variable.value.0)));
        program.env("KUBERNETES_EXEC_INFO", self.info(version, interactive).to_string());
        let output = program.output().await.map_err(|source| self.not_started(command, source))?;
        if !output.status.success() {
            let status = match output.status.code() {
                Some(code) => format!("exit code {code}"),
                None => output.status.to_string(),
            };
            return Err(PluginError::Failed { command: command.to_owned(), status });
        }
        issued(version, &output.stdout)
    }

    fn is_interactive(&self) -> Result<bool, PluginError> {
        let terminal = || std::io::stdin().is_terminal();
        match self.exec.interactive_mode {
            Some(InteractiveMode::Never) => Ok(false),
            None | Some(InteractiveMode::Unset | InteractiveMode::IfAvailable) => Ok(terminal()),
            Some(InteractiveMode::Always) if terminal() => Ok(true),
            Some(InteractiveMode::Always) => Err(PluginError::NoTerminal),
        }
    }

    fn info(&self, version: &str, interactive: bool) -> Value {
        let mut spec = json!({"interactive": interactive});
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        json!({"kind": "ExecCredential", "apiVersion": version, "spec": spec})
    }

    fn not_started(&self, command: &str, source: std::io::Error) -> PluginError {
        let command = command.to_owned();
        if source.kind() == std::io::ErrorKind::NotFound {
            let hint = self.exec.install_hint.as_deref().filter(|hint| !hint.is_empty());
            return PluginError::NotFound { command, hint: hint.map_or(String::new(), |hint| format!("\n\n{hint}")) };
        }
        PluginError::Start { command, source }
    }
}

fn issued(version: &str, stdout: &[u8]) -> Result<Issued, PluginError> {
    // client-go reads YAML, too.
    let document = yaml::to_json_value(stdout).map_err(|error| PluginError::Decode(error.to_string()))?;
    let credential = Credential::deserialize(document).map_err(|error| PluginError::Decode(without_value(&error)))?;
    let returned = credential.api_version.unwrap_or_default();
    if returned != version {
        return Err(PluginError::OtherVersion { configured: version.to_owned(), returned });
    }
    if let Some(kind) = credential.kind.filter(|kind| !kind.is_empty() && kind != "ExecCredential") {
        return Err(PluginError::Decode(format!("no kind {kind:?} is registered for version {version:?}")));
    }
    let status = credential.status.ok_or(PluginError::NoStatus)?;
    let set = |text: Option<String>| text.filter(|text| !text.is_empty());
    let bad_time = |error: jiff::Error| PluginError::Decode(format!("expirationTimestamp: {error}"));
    let expires = set(status.expiration_timestamp).map(|time| time.parse().map_err(bad_time)).transpose()?;
    let token = set(status.token);
    match (set(status.client_certificate_data), set(status.client_key_data)) {
        (None, None) if token.is_none() => Err(PluginError::Empty),
        (None, None) => Ok(Issued { token, identity: None, expires }),
        (Some(certificate), Some(key)) => Ok(Issued { token, identity: Some((certificate, key)), expires }),
        _ => Err(PluginError::Half),
    }
}
