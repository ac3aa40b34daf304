//! kube-apiserver's flags about its shutdown, its connections and its traces.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::arguments::duration;
use crate::operation::{Operation, Shutdown};

/// kube-apiserver's bound: with a higher share clients would reconnect continuously.
const MOST_GOAWAY: f64 = 0.02;

#[derive(Args)]
pub(super) struct OperationArgs {
    /// The time for which everything is served after a shutdown was requested and /readyz fails
    #[arg(long, default_value = "0s", value_parser = duration, hide_short_help = true)]
    shutdown_delay_duration: Duration,
    /// Answer requests with 429 and Retry-After once --shutdown-delay-duration is over
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", hide_short_help = true)]
    shutdown_send_retry_after: bool,
    /// The period over which watches end in a shutdown, each at a random moment
    #[arg(long, default_value = "0s", value_parser = duration, hide_short_help = true)]
    shutdown_watch_termination_grace_period: Duration,
    /// The share of HTTP/2 requests after which their client opens another connection, from 0 to 0.02; for servers
    /// behind a load balancer
    #[arg(long, default_value_t = 0.0, value_parser = chance, hide_short_help = true)]
    goaway_chance: f64,
    /// The number of concurrent streams of an HTTP/2 connection; 0 is the default, 1000
    #[arg(long, default_value_t = 0, hide_short_help = true)]
    http2_max_streams_per_connection: u32,
    /// A TracingConfiguration: the collector that receives spans of requests over OTLP, and the share of sampled
    /// requests
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    tracing_config_file: Option<PathBuf>,
}

fn chance(text: &str) -> Result<f64, String> {
    let chance = text.parse().ok().filter(|chance| (0.0..=MOST_GOAWAY).contains(chance));
    chance.ok_or_else(|| "--goaway-chance can not be less than 0 or greater than 0.02".to_owned())
}

impl From<OperationArgs> for Operation {
    fn from(args: OperationArgs) -> Self {
        Self {
            shutdown: Shutdown {
                delay: args.shutdown_delay_duration,
                refuses: args.shutdown_send_retry_after,
                watches: args.shutdown_watch_termination_grace_period,
            },
            goaway_chance: args.goaway_chance,
            streams_per_connection: Some(args.http2_max_streams_per_connection).filter(|streams| *streams > 0),
            tracing: args.tracing_config_file,
        }
    }
}
