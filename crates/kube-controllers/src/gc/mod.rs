//! The garbage collector: deletes objects with their last owner; completes foreground deletions when no dependent
//! blocks them; removes references to owners that orphan.
//!
//! The graph only selects the objects to check. Before an object is deleted, it and each of its owners are read from
//! the server. An owner counts as absent when the server returns NotFound for it, or an object with another UID. An owner
//! that cannot be read, because its kind is not served for instance, keeps the object unless its deletion was observed.

mod aggregated;
mod follow;
mod graph;
mod live;
mod verdict;

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::meta::OwnerReference;
use client::{DeleteOptions, Preconditions};
use controller_runtime::{Next, WorkQueue, run_workers};
use futures::StreamExt;
use parking_lot::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::running::Starting;
use aggregated::Aggregated;
use graph::{FOREGROUND, Graph, Node, ORPHAN, Uid, awaits_dependents, orphans_dependents, uid};
use verdict::{Owner, Verdict, verdict};
use world::Level;

/// Dependents that are orphaned concurrently.
const ORPHANED_AT_ONCE: usize = 16;

#[derive(Default)]
struct Collector {
    graph: Mutex<Graph>,
    queue: Arc<WorkQueue<Uid>>,
    /// Whether the graph is complete.
    complete: Level<bool>,
    /// The part of the graph that a server in this process does not store.
    aggregated: Aggregated,
}

pub(crate) async fn run(context: Context, starting: Starting) {
    let collector = Arc::new(Collector::default());
    let following = tokio::spawn(follow::run(context.clone(), collector.clone(), starting));
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    let queue = collector.queue.clone();
    run_workers("garbage-collector-controller", queue, workers, stop, move |uid| {
        let (context, collector) = (context.clone(), collector.clone());
        async move { collector.reconcile(&context, uid).await }
    })
    .await;
    // It ends with the same token.
    if let Err(error) = following.await {
        tracing::error!(err = %error, "Garbage collector stopped following the server; restart the process");
    }
}

impl Collector {
    async fn reconcile(&self, context: &Context, uid: Uid) -> Result<Next> {
        let Some(node) = self.graph.lock().node(uid).cloned() else { return Ok(Next::Done) };
        let resource = live::resource(context, &node.resource).await?;
        let object = live::get(context, &resource, &node.object.key()).await?;
        // An object with the same name and another UID is another object.
        let Some(object) = object.filter(|object| object.uid() == node.object.uid()) else {
            self.forget(&node.object);
            return Ok(Next::Done);
        };
        let node = Node { object, ..node };
        if orphans_dependents(&node.object) {
            self.orphan_dependents(context, &node).await
        } else if awaits_dependents(&node.object) {
            self.release(context, &node).await
        } else if node.object.is_deleting() {
            Ok(Next::Done)
        } else {
            self.check(context, &node).await
        }
    }

    /// Removes an object without an event: its resource may no longer be served, or its version may have changed.
    fn forget(&self, gone: &Object) {
        let concerned = self.graph.lock().remove(gone);
        concerned.into_iter().for_each(|uid| self.queue.add(uid));
    }

    /// Completes the deletion of an owner that nothing blocks. Its dependents were queued together with it.
    async fn release(&self, context: &Context, owner: &Node) -> Result<Next> {
        let object = &owner.object;
        let blocked = self.graph.lock().dependents(uid(object.uid())).any(|dependent| dependent.blocks(object.uid()));
        if !blocked {
            live::remove_finalizer(context, owner, FOREGROUND).await?;
        }
        Ok(Next::Done)
    }

    async fn orphan_dependents(&self, context: &Context, owner: &Node) -> Result<Next> {
        let own = owner.object.uid();
        let mut dependents = live::dependents(context, owner, &self.aggregated.resources()).await?;
        if context.client.is_in_process() {
            dependents.extend(self.graph.lock().dependents(uid(own)).cloned());
        }
        let forget = |dependent: Node| async move { live::forget_owner(context, &dependent, own).await };
        let mut forgetting =
            futures::stream::iter(dependents.into_iter().map(forget)).buffer_unordered(ORPHANED_AT_ONCE);
        while let Some(forgotten) = forgetting.next().await {
            forgotten?;
        }
        live::remove_finalizer(context, owner, ORPHAN).await?;
        Ok(Next::Done)
    }

    async fn check(&self, context: &Context, node: &Node) -> Result<Next> {
        let object = &node.object;
        let references = object.owner_references();
        let mut owners = Vec::with_capacity(references.len());
        for reference in references {
            owners.push(self.owner(context, object, reference).await?);
        }
        let (has_dependents, in_circle) = {
            let graph = self.graph.lock();
            let mut dependents = graph.dependents(uid(object.uid())).peekable();
            (dependents.peek().is_some(), dependents.any(|dependent| awaits_dependents(&dependent.object)))
        };
        match verdict(object, &owners, has_dependents) {
            Verdict::Keep => Ok(Next::Done),
            Verdict::Forget(gone) => {
                let uids: Vec<&str> = gone.iter().map(|at| references[*at].uid.as_str()).collect();
                live::forget(context, node, &uids).await?;
                Ok(Next::Done)
            }
            Verdict::Delete(policy) => {
                // Owners that wait for each other would never be deleted. The next reconcile handles the result of this
                // write.
                if in_circle && live::unblock_owners(context, node).await? {
                    self.queue.add(uid(object.uid()));
                    return Ok(Next::Done);
                }
                self.delete(context, node, policy).await
            }
        }
    }

    /// The state of one owner of an object. A definition may be deleted with the owners of its kind, or come back with
    /// another scope.
    async fn owner(&self, context: &Context, object: &Object, reference: &OwnerReference) -> Result<Owner> {
        match read_owner(context, object, reference).await {
            Ok(Some(owner)) => Ok(owner),
            _ if self.graph.lock().was_deleted(uid(&reference.uid), object.namespace()) => Ok(Owner::Absent),
            unread => unread.map(|_| Owner::Solid),
        }
    }

    /// Deletes exactly the version that was checked.
    async fn delete(&self, context: &Context, node: &Node, policy: &'static str) -> Result<Next> {
        let object = &node.object;
        let resource = live::resource(context, &node.resource).await?;
        let checked = Preconditions {
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.resource_version().to_owned()),
        };
        let options =
            DeleteOptions { propagation_policy: Some(policy), preconditions: Some(checked), ..Default::default() };
        match context.client.delete(&resource, &object.key(), &options).await {
            Ok(()) => {
                tracing::debug!(kind = resource.kind, object = %object.key(), policy, "Object was collected");
                Ok(Next::Done)
            }
            Err(error) if error.is_not_found() => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads one owner of an object from the server; `None` if the object cannot have such an owner.
async fn read_owner(context: &Context, object: &Object, reference: &OwnerReference) -> Result<Option<Owner>> {
    let unknown = |why: String| Error::Owner { object: format!("{} {}", object.kind(), object.key()), why };
    let gvk = apimachinery::GroupVersionKind::from_api_version(&reference.api_version, &reference.kind);
    let gvk = gvk.map_err(|error| unknown(error.to_string()))?;
    let resource = context.mapper.resource(&gvk).await.map_err(|error| unknown(error.to_string()))?;
    let key = match (resource.namespaced, object.namespace()) {
        (true, Some(namespace)) => apimachinery::ObjectKey::namespaced(namespace, reference.name.as_str()),
        (false, _) => apimachinery::ObjectKey::cluster(reference.name.as_str()),
        // A cluster-scoped object cannot name the namespace of its owner.
        (true, None) => return Ok(None),
    };
    Ok(Some(match live::get(context, &resource, &key).await? {
        Some(owner) if owner.uid() == reference.uid => {
            if awaits_dependents(&owner) {
                Owner::Waiting
            } else {
                Owner::Solid
            }
        }
        _ => Owner::Absent,
    }))
}
