//! kube-apiserver's flags for front proxies.

use std::path::PathBuf;

use clap::Args;

use crate::front_proxies::Settings;

#[derive(Args)]
pub(super) struct FrontProxyArgs {
    /// Authorities of front proxies in PEM: their clients may name other users in headers. Reloaded when it changes
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of front proxies; by default all that the authorities signed
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_short_help = true)]
    requestheader_allowed_names: Vec<String>,
    /// The headers with the user's name
    #[arg(long, value_name = "HEADER", value_delimiter = ',', default_value = "X-Remote-User", hide_short_help = true)]
    requestheader_username_headers: Vec<String>,
    /// The headers with the user's UID
    #[arg(long, value_name = "HEADER", value_delimiter = ',', default_value = "X-Remote-Uid", hide_short_help = true)]
    requestheader_uid_headers: Vec<String>,
    /// The headers with the user's groups
    #[arg(
        long,
        value_name = "HEADER",
        value_delimiter = ',',
        default_value = "X-Remote-Group",
        hide_short_help = true
    )]
    requestheader_group_headers: Vec<String>,
    /// The beginnings of headers with extra fields
    #[arg(
        long,
        value_name = "PREFIX",
        value_delimiter = ',',
        default_value = "X-Remote-Extra-",
        hide_short_help = true
    )]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl FrontProxyArgs {
    /// The front proxies, if there are any: without authorities the other flags have no effect, as upstream.
    pub(super) fn settings(self, presents_own: bool) -> Option<Settings> {
        let named = |list: Vec<String>| list.into_iter().filter(|name| !name.is_empty()).collect();
        Some(Settings {
            file: self.requestheader_client_ca_file.filter(|file| !file.as_os_str().is_empty())?,
            names: named(self.requestheader_allowed_names),
            user_headers: named(self.requestheader_username_headers),
            uid_headers: named(self.requestheader_uid_headers),
            group_headers: named(self.requestheader_group_headers),
            extra_prefixes: named(self.requestheader_extra_headers_prefix),
            presents_own,
        })
    }
}
