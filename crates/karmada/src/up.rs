//! The whole control plane in one process: the API server and every component beside it.

use std::sync::Arc;

use anyhow::Context as _;
use client::Client;
use controllers::{Connector, Settings};
use interpreter::Interpreter;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::apiserver::{self, Opened, Running};

#[derive(Clone, Debug)]
pub struct Options {
    pub server: apiserver::Options,
    /// As `--controllers`: which controllers run, all by default.
    pub controllers: Vec<String>,
}

/// A control plane at work.
pub struct ControlPlane {
    pub running: Running,
    pub context: controllers::Context,
    /// With every right.
    pub client: Client,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl ControlPlane {
    /// Answers once the socket accepts; `/readyz` turns to 200 when the components' caches are complete.
    pub async fn start(options: &Options, connector: Connector, world: &World) -> anyhow::Result<Self> {
        let opened = apiserver::open(&options.server, world).await?;
        let ready = opened.server.shared().health.ready_gate("controllers");
        let stop = CancellationToken::new();
        let context = context(&opened, connector, world, &stop);
        let tasks = controllers::start(&context, &options.controllers).context("--controllers")?;
        let client = opened.client("karmada");
        let running = opened.listen(&options.server).await?;
        let synced = context.clone();
        tokio::spawn(async move { ready.set(synced.synced().await) });
        Ok(Self { running, context, client, stop, tasks })
    }

    /// Waits until `/readyz` answers 200.
    pub async fn ready(&self) -> bool {
        self.context.synced().await
    }

    /// Ends the components, then the server; what was begun is taken up again at the next start.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        for task in self.tasks {
            // A component that panicked has said so already; the store must be closed all the same.
            let _ = task.await;
        }
        self.running.stop().await
    }
}

fn context(opened: &Opened, connector: Connector, world: &World, stop: &CancellationToken) -> controllers::Context {
    let client = opened.client("karmada-controller-manager").with_user_agent("karmada-controller-manager");
    controllers::Context::new(client, world.clone(), Interpreter::default(), connector, Settings::default(), stop.clone())
}

/// Every member is reached over the network.
pub fn no_members_in_process() -> Connector {
    Arc::new(|_| None)
}
