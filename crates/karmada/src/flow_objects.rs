//! The priority levels and flow schemas of kube-apiserver stay as they should be while the server runs: one that is
//! deleted is created again, and one that changes is brought up to date, unless its spec belongs to the administrator.

use std::sync::Arc;

use client::Client;
use controller_runtime::{Event, InformerSet, Next, WorkQueue, run_workers};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::bootstrap::{ensure, flow_objects};

/// Reports schemas whose priority level does not exist.
const CONDITIONS: &str = "flowschema-controller";

/// Maintains the objects until `stop`. `with_conditions` also maintains the condition `Dangling`, if no other
/// controllers run.
pub fn keep(client: Client, world: World, with_conditions: bool, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let informers = InformerSet::until(client.clone(), world, stop.clone());
        let conditions = with_conditions.then(|| {
            let settings = kube_controllers::Settings { workers: 1, ..Default::default() };
            kube_controllers::start(client.clone(), &informers, settings, &[CONDITIONS.to_owned()], stop.clone())
        });
        let queue: Arc<WorkQueue<usize>> = Arc::new(WorkQueue::new());
        let desired = Arc::new(flow_objects());
        for (place, (resource, object)) in desired.iter().enumerate() {
            let (queue, name) =
                (Arc::clone(&queue), object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            informers.informer(resource).subscribe(move |event| {
                let is_written = matches!(event, Event::Updated { .. } | Event::Deleted(_));
                if is_written && event.object().name() == name {
                    queue.add(place);
                }
            });
        }
        run_workers("priority-and-fairness-config-producer", queue, 1, stop, move |place: usize| {
            let (client, desired) = (client.clone(), Arc::clone(&desired));
            async move {
                match desired.get(place) {
                    Some((resource, object)) => ensure(&client, resource, object).await.map(|()| Next::Done),
                    None => Ok(Next::Done),
                }
            }
        })
        .await;
        if let Some(Ok(conditions)) = conditions {
            conditions.ended().await;
        }
    })
}
