//! kube-apiserver's flags for service account tokens.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::arguments::duration;
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
    /// The longest lifetime of a service account token, from 1h; longer requests are shortened
    #[arg(long, value_parser = duration, hide_short_help = true)]
    service_account_max_token_expiration: Option<Duration>,
    /// Whether tokens that are requested for pods live for a year, for clients that never reload them
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    service_account_extend_token_expiration: bool,
    /// The URL of the keys in /.well-known/openid-configuration, if others do not reach them at the issuer
    #[arg(long, value_name = "URL", hide_short_help = true)]
    service_account_jwks_uri: Option<String>,
}

impl From<ServiceAccountArgs> for ServiceAccounts {
    fn from(args: ServiceAccountArgs) -> Self {
        Self {
            key_files: args.service_account_key_file,
            signing_key_file: args.service_account_signing_key_file,
            issuers: args.service_account_issuer,
            extend: args.service_account_extend_token_expiration,
            longest: args.service_account_max_token_expiration.filter(|longest| !longest.is_zero()),
            jwks_uri: args.service_account_jwks_uri,
        }
    }
}
