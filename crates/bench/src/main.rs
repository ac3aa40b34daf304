//! Measurements that need processes. They report figures and never fail on them. `cargo xtask bench` runs this program
//! from a release build, so that the load itself costs little.

mod abuse;
mod apiserver;
mod cli;
mod failover;
mod figures;
mod fleet;
mod handlers;
mod process;
mod propagation;
mod seen;
mod store;

use clap::Parser;

/// The binary's own allocator, so that [`handlers`] measures with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Measure", long_about = None)]
enum Bench {
    /// Loads the API server alone, over TLS, and measures every verb.
    Apiserver(apiserver::Args),
    /// Loads the API server as one greedy client and measures what another user notices.
    Abuse(abuse::Args),
    /// The greedy client, a process of its own.
    #[command(hide = true)]
    AbuseLoad(abuse::load::Args),
    /// Measures the processor time of each command of karmadactl to its first request.
    Cli(cli::Args),
    /// Kills a member with workloads in it and measures the parts of their move.
    Failover(failover::Args),
    /// Runs the API server's handlers in this process, without sockets and disk.
    Handlers(handlers::Args),
    /// Propagates Deployments to members and measures how fast, and at what cost.
    Propagation(propagation::Args),
}

fn main() -> anyhow::Result<()> {
    use tokio::runtime::Builder;
    let bench = Bench::parse();
    // Handlers are measured on one thread.
    let one = matches!(bench, Bench::Handlers(_));
    let mut builder = if one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()?.block_on(async {
        match bench {
            Bench::Apiserver(args) => apiserver::run(args).await,
            Bench::Abuse(args) => abuse::run(args).await,
            Bench::AbuseLoad(args) => abuse::load::run(args).await,
            Bench::Cli(args) => cli::run(args).await,
            Bench::Failover(args) => failover::run(args).await,
            Bench::Handlers(args) => handlers::run(args).await,
            Bench::Propagation(args) => propagation::run(args).await,
        }
    })
}
