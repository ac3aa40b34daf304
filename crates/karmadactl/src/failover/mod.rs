//! `failover`: the workloads that would leave a cluster and their targets, past moves, and the release of paused
//! evictions.

mod history;
pub(crate) mod plan;
mod release;

use clap::Args;

use crate::Context;
use crate::error::Error;

/// Workloads of a table unless another number is requested.
const LIMIT: usize = 50;

#[derive(Args)]
pub struct FailoverArgs {
    args: Vec<String>,
    /// Plan for this taint instead of those of a failed cluster: KEY[=VALUE]; repeatable.
    #[arg(long)]
    taint: Vec<String>,
    /// Purge mode of copies whose policy has no spec.failover.cluster, as in --no-execute-taint-eviction-purge-mode.
    #[arg(long, default_value = "Gracefully")]
    purge_mode: String,
    /// Namespace of the workload whose history is printed; the kubeconfig's when absent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Workloads or moves that a table shows; 0 for all.
    #[arg(long, default_value_t = LIMIT)]
    limit: usize,
    /// Release all paused clusters.
    #[arg(long)]
    all: bool,
    /// Print the effect of release without releasing.
    #[arg(long)]
    dry_run: bool,
    /// Output format: json or yaml; a table when absent.
    #[arg(short, long)]
    output: Option<String>,
}

pub async fn run(context: &Context, args: &FailoverArgs) -> Result<(), Error> {
    let words: Vec<&str> = args.args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["plan", cluster] => plan::run(context, args, cluster).await,
        ["plan", ..] => Err(Error::arguments("plan needs the name of one cluster")),
        ["release", clusters @ ..] => release::run(context, args, clusters).await,
        ["history"] => history::run(context, args, None).await,
        ["history", word] => history::run(context, args, Some(word)).await,
        ["history", ..] => Err(Error::arguments("history takes one cluster, or one KIND/NAME")),
        [] => Err(Error::arguments("must specify plan, history or release")),
        [other, ..] => Err(Error::arguments(format!("{other:?} is not plan, history or release"))),
    }
}
