//! Derived Services of ServiceImports.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::{DeleteOptions, Patch, PatchOptions};
use controller_runtime::{EventRecorder, Informer, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::events;
use karmada_api::multicluster::v1alpha1::ServiceImport;
use karmada_api::names;
use multicluster::derived;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{WORKERS, services};
use crate::Context;
use crate::absence::certain;
use crate::error::{During, Result, decoded};

const NAME: &str = "service-import-controller";

struct Controller {
    context: Context,
    imports: Informer,
    services: Informer,
    recorder: EventRecorder,
    /// Imports whose last pass failed.
    failed: Mutex<BTreeSet<ObjectKey>>,
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let (imports, derived) =
        (context.control.informer(&ServiceImport::api_resource()), context.control.informer(&services()));
    let keys = queue.clone();
    imports.subscribe(move |event| {
        if event.changes_generation() {
            keys.add(event.object().key());
        }
    });
    let (keys, prefix) = (queue.clone(), names::derived_service(""));
    derived.subscribe(move |event| {
        let service = event.object();
        if let Some(import) = service.name().strip_prefix(&prefix) {
            keys.add(ObjectKey::namespaced(service.namespace().unwrap_or_default(), import));
        }
    });
    if !context.synced().await || !imports.synced().await || !derived.synced().await {
        return;
    }
    let stop = context.stop.clone();
    let recorder = context.recorder.for_component(NAME);
    let controller = Arc::new(Controller { context, imports, services: derived, recorder, failed: Mutex::default() });
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next> {
        let place = ObjectKey::namespaced(key.namespace().unwrap_or_default(), names::derived_service(key.name()));
        let existing = self.services.cache().get(&place);
        let Some(object) = self.imports.cache().get(key) else {
            self.failed.lock().remove(key);
            return self.end(key, existing.as_ref()).await;
        };
        let import = decoded(object.key(), ServiceImport::from_object(&object))?;
        let Some(desired) = derived::desired(&import).filter(|_| !object.is_deleting()) else { return Ok(Next::Done) };
        let tree = existing.as_ref().map(|it| decoded(it.key(), it.to_value())).transpose()?;
        let merged = tree.as_ref().map(|tree| derived::merged(tree, &desired, key.name())).transpose();
        let merged = match merged {
            Ok(merged) => merged.map(|changed| (changed, tree.as_ref())),
            Err(unmanaged) => {
                // The end of the other Service leads to the next pass.
                self.record(&object, Err(&unmanaged.to_string()));
                return Ok(Next::Done);
            }
        };
        let written = match self.write(&place, merged, &desired).await {
            Ok((service, wrote)) => self.write_status(&service, &import).await.map(|changed| wrote || changed),
            Err(error) => Err(error),
        };
        match written {
            Ok(wrote) => {
                if self.failed.lock().remove(key) || wrote {
                    self.record(&object, Ok(&import.metadata.name));
                }
                Ok(Next::Done)
            }
            // A newer state is reconciled again.
            Err(error) if error.is_conflict() => Err(error),
            Err(error) => {
                if self.failed.lock().insert(key.clone()) {
                    self.record(&object, Err(&error.to_string()));
                }
                Err(error)
            }
        }
    }

    fn record(&self, import: &Arc<Object>, result: std::result::Result<&str, &str>) {
        match result {
            Ok(name) => {
                let message = format!("Sync derived service for serviceImport({name}) succeed.");
                self.recorder.normal(&**import, events::SYNC_DERIVED_SERVICE_SUCCEED, message);
            }
            Err(why) => self.recorder.warning(&**import, events::SYNC_DERIVED_SERVICE_FAILED, why),
        }
    }

    /// Creates or updates; `merged` is the change of an existing Service, with its state before.
    async fn write(
        &self,
        place: &ObjectKey,
        merged: Option<(Option<Value>, Option<&Value>)>,
        desired: &Value,
    ) -> Result<(Value, bool)> {
        let client = &self.context.client;
        let (written, attempt) = match merged {
            Some((None, known)) => return Ok((known.cloned().unwrap_or_default(), false)),
            Some((Some(changed), _)) => (client.update(&services(), &changed).await, "updating"),
            None => (client.create(&services(), desired).await, "creating"),
        };
        let object = written.during(|| format!("{attempt} Service {place}"))?;
        Ok((decoded(object.key(), object.to_value())?, true))
    }

    async fn write_status(&self, service: &Value, import: &ServiceImport) -> Result<bool> {
        let Some(status) = derived::status(service, import) else { return Ok(false) };
        let metadata = &service["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::namespaced(text("namespace"), text("name"));
        let patch = Patch::Merge(json!({"metadata": {"uid": metadata["uid"]}, "status": status}));
        let written = self.context.client.patch(&services(), &key, &patch, &PatchOptions::status()).await;
        written.map(|_| true).during(|| format!("writing the status of Service {key}"))
    }

    /// Deletes the Service of an import that does not exist any more. Only one that names the import as its owner is
    /// deleted.
    async fn end(&self, import: &ObjectKey, service: Option<&Arc<Object>>) -> Result<Next> {
        let Some(service) = service.filter(|it| !it.is_deleting()) else { return Ok(Next::Done) };
        if !derived::is_derived_from(&decoded(service.key(), service.to_value())?, import.name()) {
            return Ok(Next::Done);
        }
        let client = &self.context.client;
        if certain(client, &ServiceImport::api_resource(), import).await?.is_some() {
            return Ok(Next::Done);
        }
        let (key, options) = (service.key(), DeleteOptions::default().only_uid(service.uid()));
        match client.delete(&services(), &key, &options).await {
            Err(error) if !error.is_not_found() => Err(error).during(|| format!("deleting Service {key}")),
            _ => Ok(Next::Done),
        }
    }
}
