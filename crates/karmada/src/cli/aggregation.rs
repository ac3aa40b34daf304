//! kube-apiserver's flags about aggregated API servers.

use std::path::PathBuf;

use ::aggregation::Routing;
use clap::Args;

use crate::aggregation::{Files, Settings};

#[derive(Args)]
pub(super) struct AggregationArgs {
    /// The client certificate in PEM that is presented to aggregated API servers, instead of one of the data
    /// directory's authority
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file", hide_short_help = true)]
    proxy_client_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file", hide_short_help = true)]
    proxy_client_key_file: Option<PathBuf>,
    /// Connect to the endpoints of an aggregated API server's Service instead of its cluster address
    #[arg(long, hide_short_help = true, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    enable_aggregator_routing: bool,
}

impl From<AggregationArgs> for Settings {
    fn from(args: AggregationArgs) -> Self {
        let files = args.proxy_client_cert_file.zip(args.proxy_client_key_file);
        Self {
            proxy_client: files.map(|(certificate, key)| Files { certificate, key }),
            routing: if args.enable_aggregator_routing { Routing::Endpoints } else { Routing::ClusterAddress },
            // `karmada up` changes it: the API server alone has no access to members.
            metrics: false,
        }
    }
}
