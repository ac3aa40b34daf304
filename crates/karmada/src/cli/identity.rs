//! kube-apiserver's flags for users and rights from other programs, and for the encryption of stored values.

use std::path::PathBuf;
use std::time::Duration;

use ::authentication::Flags;
use ::identity::Version;
use clap::{Args, ValueEnum};

use super::arguments::duration;
use crate::identity::{Authentication, AuthorizationSettings, Encryption, Mode, Oidc, Settings, TokenWebhook, Webhook};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReviewVersion {
    V1,
    V1beta1,
}

impl From<ReviewVersion> for Version {
    fn from(version: ReviewVersion) -> Self {
        match version {
            ReviewVersion::V1 => Self::V1,
            ReviewVersion::V1beta1 => Self::V1Beta1,
        }
    }
}

/// An authorizer, by upstream's name.
fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "Node" => Ok(Mode::Node),
        "RBAC" => Ok(Mode::Rbac),
        "Webhook" => Ok(Mode::Webhook),
        "AlwaysAllow" => Ok(Mode::AlwaysAllow),
        "AlwaysDeny" => Ok(Mode::AlwaysDeny),
        "ABAC" => {
            Err("ABAC policies cannot be changed through the API and are not supported: write roles and bindings"
                .into())
        }
        other => Err(format!("{other:?} is not one of AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook")),
    }
}

#[derive(Args)]
pub(super) struct IdentityArgs {
    #[command(flatten)]
    authentication: AuthenticationArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    authorization: AuthorizationArgs,
    #[command(flatten)]
    encryption: EncryptionArgs,
}

#[derive(Args)]
struct AuthenticationArgs {
    /// Whether requests without credentials are system:anonymous; otherwise they are refused [default: true]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    anonymous_auth: Option<bool>,
    /// The audiences of the server, instead of the issuers of service account tokens
    #[arg(long, value_delimiter = ',', value_name = "AUDIENCE", hide_short_help = true)]
    api_audiences: Vec<String>,
    /// An AuthenticationConfiguration: issuers of tokens (OpenID Connect) and anonymous requests; reloaded when it
    /// changes
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// The kubeconfig of a webhook that reviews bearer tokens
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// The time for which the answers of that webhook are valid
    #[arg(long, default_value = "2m", value_parser = duration, hide_short_help = true)]
    authentication_token_webhook_cache_ttl: Duration,
    /// The version of the TokenReviews that are sent to it
    #[arg(long, default_value = "v1beta1", hide_short_help = true)]
    authentication_token_webhook_version: ReviewVersion,
}

#[derive(Args)]
struct OidcArgs {
    /// The issuer of OpenID Connect tokens; needs --oidc-client-id
    #[arg(long, value_name = "URL", hide_short_help = true)]
    oidc_issuer_url: Option<String>,
    /// The audience of its tokens
    #[arg(long, value_name = "ID", hide_short_help = true)]
    oidc_client_id: Option<String>,
    /// The claim with the user name
    #[arg(long, default_value = "sub", value_name = "CLAIM", hide_short_help = true)]
    oidc_username_claim: String,
    /// The prefix of user names; `-` for none. Without it the prefix of names other than addresses is the issuer and
    /// `#`
    #[arg(long, default_value = "", value_name = "PREFIX", allow_hyphen_values = true, hide_short_help = true)]
    oidc_username_prefix: String,
    /// The claim with the groups
    #[arg(long, default_value = "", value_name = "CLAIM", hide_short_help = true)]
    oidc_groups_claim: String,
    /// The prefix of groups
    #[arg(long, default_value = "", value_name = "PREFIX", hide_short_help = true)]
    oidc_groups_prefix: String,
    /// A claim that tokens must have; can be repeated
    #[arg(long, value_delimiter = ',', value_name = "CLAIM=VALUE", hide_short_help = true)]
    oidc_required_claim: Vec<String>,
    /// The accepted signature algorithms
    #[arg(long, value_delimiter = ',', default_value = "RS256", value_name = "ALGORITHM", hide_short_help = true)]
    oidc_signing_algs: Vec<String>,
    /// The authority of the issuer's certificate in PEM; without it the machine's authorities are trusted
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    oidc_ca_file: Option<PathBuf>,
}

#[derive(Args)]
struct AuthorizationArgs {
    /// The authorizers in order: RBAC, Webhook, Node, AlwaysAllow, AlwaysDeny [default: RBAC]
    #[arg(long, value_delimiter = ',', value_parser = mode, value_name = "MODE", hide_short_help = true)]
    authorization_mode: Vec<Mode>,
    /// An AuthorizationConfiguration, instead of the other flags of this kind; reloaded when it changes
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    authorization_config: Option<PathBuf>,
    /// The kubeconfig of the webhook of --authorization-mode=Webhook
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    authorization_webhook_config_file: Option<PathBuf>,
    /// The version of the SubjectAccessReviews that are sent to it
    #[arg(long, default_value = "v1beta1", hide_short_help = true)]
    authorization_webhook_version: ReviewVersion,
    /// The time for which its answers that allow are valid
    #[arg(long, default_value = "5m", value_parser = duration, hide_short_help = true)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// The time for which its other answers are valid
    #[arg(long, default_value = "30s", value_parser = duration, hide_short_help = true)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

#[derive(Args)]
struct EncryptionArgs {
    /// An EncryptionConfiguration: the resources that are stored encrypted, and the providers
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Reload that file when it changes
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    encryption_provider_config_automatic_reload: bool,
}

impl IdentityArgs {
    pub(super) fn settings(self) -> anyhow::Result<Settings> {
        let authentication = self.authentication;
        let webhook = authentication.authentication_token_webhook_config_file.map(|config_file| TokenWebhook {
            config_file,
            version: authentication.authentication_token_webhook_version.into(),
            lifetime: authentication.authentication_token_webhook_cache_ttl,
        });
        let encryption = self
            .encryption
            .encryption_provider_config
            .map(|file| Encryption { file, reload: self.encryption.encryption_provider_config_automatic_reload });
        Ok(Settings {
            authentication: Authentication {
                anonymous: authentication.anonymous_auth,
                audiences: authentication.api_audiences,
                oidc: self.oidc.oidc(),
                file: authentication.authentication_config,
                webhook,
            },
            authorization: self.authorization.settings(),
            encryption,
        })
    }
}

impl OidcArgs {
    fn oidc(self) -> Option<Oidc> {
        if self.oidc_issuer_url.is_none() && self.oidc_client_id.is_none() {
            return None;
        }
        let flags = Flags {
            issuer_url: self.oidc_issuer_url.unwrap_or_default(),
            client_id: self.oidc_client_id.unwrap_or_default(),
            username_claim: self.oidc_username_claim,
            username_prefix: self.oidc_username_prefix,
            groups_claim: self.oidc_groups_claim,
            groups_prefix: self.oidc_groups_prefix,
            required_claims: self.oidc_required_claim,
            signing_algs: self.oidc_signing_algs,
            certificate_authority: String::new(),
        };
        Some(Oidc { flags, ca_file: self.oidc_ca_file })
    }
}

impl AuthorizationArgs {
    fn settings(self) -> AuthorizationSettings {
        let webhook = self.authorization_webhook_config_file.map(|config_file| Webhook {
            config_file,
            version: self.authorization_webhook_version.into(),
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
        });
        AuthorizationSettings { modes: self.authorization_mode, file: self.authorization_config, webhook }
    }
}
