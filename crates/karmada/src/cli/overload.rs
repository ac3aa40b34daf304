//! kube-apiserver's flags that bound requests.

use std::time::Duration;

use apiserver::flow::Settings;
use clap::{ArgAction, Args};

use super::arguments::duration;

#[derive(Args)]
pub(super) struct OverloadArgs {
    /// Requests that run at once: reads. With --enable-priority-and-fairness the sum with
    /// --max-mutating-requests-inflight is the number of seats that the priority levels divide; without it 0 is no
    /// limit
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().reads, hide_short_help = true)]
    max_requests_inflight: u32,
    /// Requests that run at once: writes
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().writes, hide_short_help = true)]
    max_mutating_requests_inflight: u32,
    /// Divide the requests that run at once among users and flows as FlowSchemas and PriorityLevelConfigurations state
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", hide_short_help = true)]
    enable_priority_and_fairness: bool,
    /// The longest time of a request that is not a watch or otherwise long-running
    #[arg(long, default_value = "1m0s", value_parser = duration, hide_short_help = true)]
    request_timeout: Duration,
    /// The seconds after which a watch without a timeout ends at the earliest; it lasts for up to twice as long
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().min_request_timeout.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=31_536_000), hide_short_help = true)]
    min_request_timeout: u64,
}

impl From<OverloadArgs> for Settings {
    fn from(args: OverloadArgs) -> Self {
        Self {
            reads: args.max_requests_inflight,
            writes: args.max_mutating_requests_inflight,
            is_fair: args.enable_priority_and_fairness,
            request_timeout: args.request_timeout,
            min_request_timeout: Duration::from_secs(args.min_request_timeout),
        }
    }
}
