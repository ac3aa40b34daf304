//! kube-apiserver's flags for service account tokens, and those of its flags about proxies that are refused.

use std::path::PathBuf;

use clap::Args;

use crate::service_accounts::{ISSUER, ServiceAccounts};

#[derive(Args)]
pub(super) struct ServiceAccountArgs {
    /// A file with keys in PEM, public or private, that verify service account tokens; can be repeated. The keys of the
    /// data directory verify, too
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// The private key in PEM that signs service account tokens, instead of that of the data directory
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// The issuer of service account tokens; can be repeated: the first is that of new tokens, all are accepted
    #[arg(long, value_name = "URL", default_value = ISSUER)]
    service_account_issuer: Vec<String>,
}

impl From<ServiceAccountArgs> for ServiceAccounts {
    fn from(args: ServiceAccountArgs) -> Self {
        Self {
            key_files: args.service_account_key_file,
            signing_key_file: args.service_account_signing_key_file,
            issuers: args.service_account_issuer,
        }
    }
}

/// Flags of kube-apiserver that installers set and that would have no effect.
#[derive(Args)]
pub(super) struct InertArgs {
    #[arg(long, hide = true)]
    proxy_client_cert_file: Vec<String>,
    #[arg(long, hide = true)]
    proxy_client_key_file: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_allowed_names: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_client_ca_file: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_extra_headers_prefix: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_group_headers: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_uid_headers: Vec<String>,
    #[arg(long, hide = true)]
    requestheader_username_headers: Vec<String>,
}

impl InertArgs {
    /// # Errors
    /// With the reason, when one of them is given.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let given = [
            ("proxy-client-cert-file", &self.proxy_client_cert_file),
            ("proxy-client-key-file", &self.proxy_client_key_file),
            ("requestheader-allowed-names", &self.requestheader_allowed_names),
            ("requestheader-client-ca-file", &self.requestheader_client_ca_file),
            ("requestheader-extra-headers-prefix", &self.requestheader_extra_headers_prefix),
            ("requestheader-group-headers", &self.requestheader_group_headers),
            ("requestheader-uid-headers", &self.requestheader_uid_headers),
            ("requestheader-username-headers", &self.requestheader_username_headers),
        ];
        let Some((name, _)) = given.into_iter().find(|(_, value)| !value.is_empty()) else { return Ok(()) };
        let reason = match name.starts_with("proxy-client") {
            true => "this server forwards no request to extension API servers, so it presents no proxy certificate",
            false => "this server trusts no authenticating proxy in front of it: clients authenticate to it directly",
        };
        anyhow::bail!("--{name} has no effect here: {reason}; leave it out")
    }
}
