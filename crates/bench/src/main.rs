//! Measurements that need processes. They report; they never judge. `cargo xtask bench` runs this program from a release
//! build, so that the load costs little beside what it loads.

mod apiserver;
mod figures;
mod fleet;
mod process;
mod propagation;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Measure", long_about = None)]
enum Bench {
    /// Loads the API server alone, over TLS, and measures every verb.
    Apiserver(apiserver::Args),
    /// Propagates Deployments to members and measures how fast, and at what cost.
    Propagation(propagation::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Apiserver(args) => apiserver::run(args).await,
        Bench::Propagation(args) => propagation::run(args).await,
    }
}
