//! `cargo xtask bench`: measurements that need processes. They report; they never judge.

mod apiserver;
mod figures;
mod fleet;
mod process;
mod propagation;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Bench {
    /// Loads the API server alone, over TLS, and measures every verb.
    Apiserver(apiserver::Args),
    /// Propagates Deployments to members and measures how fast, and at what cost.
    Propagation(propagation::Args),
}

impl Bench {
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Apiserver(args) => apiserver::run(args).await,
            Self::Propagation(args) => propagation::run(args).await,
        }
    }
}
