//! Deletes a definition after its instances, which are deleted like by a client, including finalizers.

use std::sync::Arc;
use std::time::Duration;

use apiextensions::CustomResourceDefinition;
use apiextensions::definition::{CLEANUP_FINALIZER, Condition};
use apiextensions::naming::set_condition;
use apimachinery::object::ObjectTree as _;
use apimachinery::{ApiResource, Object};
use futures::future::BoxFuture;
use serde_json::Value;
use transport::{ApiService, Identity, Request, Response};

use super::Definitions;
use crate::cache::keys;

/// Concurrent deletions for one definition.
const CONCURRENT: usize = 32;

/// The interval of checks whether instances with finalizers are deleted.
const RECHECK: Duration = Duration::from_millis(500);

/// The same, where instances cannot be read: that changes when the store is restored.
const UNREADABLE: Duration = Duration::from_secs(30);

impl Definitions {
    /// Starts the clean-up unless it is running. It runs beside the other definitions' work, in a separate task.
    pub(super) fn start_deletion(self: &Arc<Self>, crd: &CustomResourceDefinition) {
        let name = crd.metadata.name.clone();
        if !crd.metadata.finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
            || !self.deleting.lock().insert(name.clone())
        {
            return;
        }
        let this = Arc::clone(self);
        let stop = self.server.stop.clone();
        tokio::spawn(async move {
            let work = Arc::clone(&this).delete_instances(name.clone());
            let _ = stop.run_until_cancelled_owned(work).await;
            this.deleting.lock().remove(&name);
        });
    }

    async fn delete_instances(self: Arc<Self>, name: String) {
        loop {
            let Ok(Some(object)) = self.stored(&name).map(|found| found.filter(|object| object.is_deleting())) else {
                return;
            };
            let Ok(crd) = object.decode::<CustomResourceDefinition>() else { return };
            if !crd.metadata.finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
                return;
            }
            let Ok(instances) = self.instances(&crd) else {
                // An unreadable instance still exists.
                tokio::time::sleep(UNREADABLE).await;
                continue;
            };
            if instances.is_empty() {
                if self.finish(&crd, &object).await {
                    return;
                }
            } else if !self.announce(&crd, &object).await {
                self.delete_all(&crd, &instances).await;
            } else {
                continue;
            }
            tokio::time::sleep(RECHECK).await;
        }
    }

    fn instances(&self, crd: &CustomResourceDefinition) -> Result<Vec<Arc<Object>>, apimachinery::Status> {
        let place = keys::group_resource(&crd.spec.group, &crd.spec.names.plural);
        self.server.cache.resource(&place).list(None, None, 0, |_| true).map(|(instances, ..)| instances)
    }

    /// Reports the progress in the status; false if it is up to date.
    async fn announce(&self, crd: &CustomResourceDefinition, object: &Arc<Object>) -> bool {
        let message = "CustomResource deletion is in progress".to_owned();
        let condition = Condition::from(("Terminating", "True", "InstanceDeletionInProgress", message));
        let mut desired = crd.clone();
        set_condition(&mut desired.status, Some(condition), self.now());
        if desired.status == crd.status {
            return false;
        }
        if let Ok(tree) = object.to_value() {
            self.write_status(tree, &desired, object).await;
        }
        // The cache must contain it before this definition is reconciled again.
        self.server.cache.catch_up().await.is_ok()
    }

    async fn delete_all(&self, crd: &CustomResourceDefinition, instances: &[Arc<Object>]) {
        let Some(version) = crd.spec.versions.iter().find(|version| version.served) else { return };
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: version.name.clone(),
            kind: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
            namespaced: crd.spec.scope == "Namespaced",
        };
        let waiting = instances.iter().filter(|instance| !instance.is_deleting());
        let paths: Vec<String> = waiting.map(|instance| resource.object_path(&instance.key())).collect();
        for batch in paths.chunks(CONCURRENT) {
            let mut requests = tokio::task::JoinSet::new();
            for path in batch {
                requests.spawn(delete_one(self.service.clone(), path.clone()));
            }
            requests.join_all().await;
        }
        if self.server.cache.catch_up().await.is_err() {
            tracing::warn!(
                object = crd.metadata.name,
                "Instances of a deleted CustomResourceDefinition are still being deleted"
            );
        }
    }

    /// Unregisters the resource, checks for instances once more, and removes the definition's finalizer. `false`: not
    /// yet.
    async fn finish(&self, crd: &CustomResourceDefinition, object: &Arc<Object>) -> bool {
        self.unregister(&crd.metadata.name);
        if self.server.cache.catch_up().await.is_err()
            || !self.instances(crd).is_ok_and(|instances| instances.is_empty())
        {
            self.register(crd, object);
            return false;
        }
        let Ok(mut tree) = object.to_value() else { return true };
        let Some(finalizers) = tree.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) else {
            return true;
        };
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        let last = finalizers.is_empty();
        if last && let Some(metadata) = tree.metadata_mut() {
            metadata.remove("finalizers");
        }
        match self.write(&tree, object, last).await {
            Ok(done) => done,
            Err(error) => {
                tracing::warn!(object = object.name(), err = %error, "CustomResourceDefinition cannot be removed; retrying");
                false
            }
        }
    }
}

async fn delete_one(service: ApiService, path: String) {
    let request = http::Request::builder()
        .method(http::Method::DELETE)
        .uri(&path)
        .extension(Identity::system("apiextensions"))
        .body(transport::empty());
    let Ok(request): Result<Request, _> = request else { return };
    let Ok(response) = send(service, request).await;
    if !response.status().is_success() && response.status() != http::StatusCode::NOT_FOUND {
        let status = response.status().as_u16();
        tracing::warn!(path, status, "Instance of a deleted CustomResourceDefinition cannot be deleted; retrying");
    }
}

/// Boxed, because the compiler cannot prove that the service's future is `Send`.
fn send(service: ApiService, request: Request) -> BoxFuture<'static, Result<Response, std::convert::Infallible>> {
    Box::pin(tower::ServiceExt::oneshot(service, request))
}
