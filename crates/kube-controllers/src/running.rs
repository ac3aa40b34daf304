//! Running controllers: their readiness and their end.

use std::convert::Infallible;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::context::Context;

/// A controller holds it until its caches are synced, or until it has no work.
pub struct Starting(#[expect(dead_code, reason = "dropping it is the signal")] mpsc::Sender<Infallible>);

/// Runs a controller until the context's token is cancelled.
pub type Start = fn(Context, Starting) -> BoxFuture<'static, ()>;

/// The started controllers.
pub struct Running {
    starting: mpsc::Receiver<Infallible>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(context: &Context, chosen: impl Iterator<Item = Start>) -> Self {
        let (sender, starting) = mpsc::channel(1);
        let mut tasks: Vec<_> =
            chosen.map(|start| tokio::spawn(start(context.clone(), Starting(sender.clone())))).collect();
        let (world, stop) = (context.informers.world().clone(), context.stop.clone());
        tasks.push(tokio::spawn(world.observe_steps(stop.cancelled_owned())));
        Self { starting, tasks }
    }

    /// Waits until the caches of every controller are synced, or it has stopped.
    pub async fn synced(&mut self) {
        while self.starting.recv().await.is_some() {}
    }

    /// Waits until every controller has ended, which is after their token was cancelled and the passes under way are
    /// over.
    pub async fn ended(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(err = %error, "Controller panicked; report this");
            }
        }
    }
}
