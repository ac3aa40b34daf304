//! Claims the Service of each MultiClusterService and propagates it to providers and consumers, and marks providers by
//! Works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Event, EventRecorder, Informer, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::{annotations, events, finalizers, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::networking::v1alpha1::MultiClusterService;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use multicluster::claimed::{self, Range};
use multicluster::dispatched::Consumer;
use parking_lot::Mutex;
use propagation::template::Template;
use serde_json::{Value, json};

use super::collect::selected_by_manifest;
use super::{WORKERS, clusters, is_outdated, services, slice_works, status, together};
use crate::absence::certain;
use crate::detector::is_change;
use crate::error::{During, Error, Result, decoded};
use crate::{Context, templates};

const NAME: &str = "multiclusterservice-controller";

/// The reason and the message of an event.
type Report = (&'static str, String);

struct Controller {
    context: Context,
    informer: Informer,
    recorder: EventRecorder,
    /// What was reported last about the clusters of a MultiClusterService.
    reported: Mutex<BTreeMap<ObjectKey, Vec<Report>>>,
}

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.multi_cluster_service {
        return;
    }
    slice_works::index(&context);
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&MultiClusterService::api_resource());
    subscribe(&context, &informer, &queue);
    let (keys, all_services) = (queue.clone(), informer.clone());
    clusters::on_change(&context, move |_| all_services.cache().keys().into_iter().for_each(|key| keys.add(key)));
    let of_services = context.control.informer(&services());
    if !context.synced().await || !informer.synced().await || !of_services.synced().await {
        return;
    }
    let stop = context.stop.clone();
    let recorder = context.recorder.for_component(NAME);
    let controller = Arc::new(Controller { context, informer, recorder, reported: Mutex::default() });
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

fn subscribe(context: &Context, informer: &Informer, queue: &Arc<WorkQueue<ObjectKey>>) {
    let keys = queue.clone();
    informer.subscribe(move |event| {
        let relabelled = matches!(event, Event::Updated { old, new } if old.labels() != new.labels());
        if event.changes_generation() || relabelled {
            keys.add(event.object().key());
        }
    });
    let (keys, known) = (queue.clone(), informer.clone());
    context.control.informer(&services()).subscribe(move |event| {
        let (service, is_news) = match event {
            Event::Updated { old, new } => (new, is_change(old, new)),
            Event::Added { object, .. } | Event::Deleted(object) => (object, true),
        };
        let key = service.key();
        // The MultiClusterService of a claimed Service may be deleted.
        let concerns = is_claimed(service) || known.cache().get(&key).is_some();
        if is_news && concerns {
            keys.add(key);
        }
    });
    let keys = queue.clone();
    context.bindings(Scope::Namespaced).subscribe(move |event| {
        let binding = event.object();
        if event.changes_generation()
            && binding.label(labels::BINDING_MANAGED_BY) == Some(labels::BY_MULTI_CLUSTER_SERVICE)
        {
            bound_for(binding).into_iter().for_each(|key| keys.add(key));
        }
    });
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        let work = event.object();
        let is_news = matches!(event, Event::Added { initial: true, .. } | Event::Deleted(_));
        if is_news && work.label(labels::MULTI_CLUSTER_SERVICE_ID).is_some() {
            selected_by_manifest(work).into_iter().for_each(|key| keys.add(key));
        }
    });
}

/// The MultiClusterService that a binding names.
fn bound_for(binding: &Object) -> Option<ObjectKey> {
    let namespace = binding.annotation(annotations::MULTI_CLUSTER_SERVICE_NAMESPACE)?;
    Some(ObjectKey::namespaced(namespace, binding.annotation(annotations::MULTI_CLUSTER_SERVICE_NAME)?))
}

fn is_claimed(service: &Object) -> bool {
    service.label(labels::CLAIMED_BY) == Some(labels::BY_MULTI_CLUSTER_SERVICE)
}

impl Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next> {
        let Some(object) = self.informer.cache().get(key) else {
            self.reported.lock().remove(key);
            // It was removed without its finalizer, or the cache lags.
            let resource = MultiClusterService::api_resource();
            if certain(&self.context.client, &resource, key).await?.is_none() {
                self.end(key).await?;
            }
            return Ok(Next::Done);
        };
        let service = decoded(object.key(), MultiClusterService::from_object(&object))?;
        let has_finalizer =
            service.metadata.finalizers.iter().any(|present| present == finalizers::MULTI_CLUSTER_SERVICE);
        if object.is_deleting() {
            if has_finalizer {
                self.end(key).await?;
                self.set_finalizer(&object, &service, false).await?;
            }
            return Ok(Next::Done);
        }
        if !claimed::is_cross_cluster(&service) {
            return Ok(Next::Done);
        }
        if !has_finalizer {
            self.set_finalizer(&object, &service, true).await?;
        }
        let range = Range::of(&service, &clusters::existing(&self.context));
        self.report_clusters(key, &object, &range);
        let outcome = self.sync(&object, &service, &range).await;
        if let Err(error) = &outcome
            && is_outdated(error)
        {
            // A newer state is reconciled again.
            return outcome.map(|_| Next::Done);
        }
        let text = outcome.as_ref().map(|_| ()).map_err(ToString::to_string);
        let condition = claimed::service_applied(text.as_ref().err().map(String::as_str), object.generation());
        let changed = status::set(&self.context, &object, condition).await?;
        match (&outcome, text) {
            (Ok(wrote), _) if *wrote || changed => {
                self.recorder.normal(&*object, events::SYNC_SERVICE_SUCCEED, claimed::SERVICE_APPLIED);
            }
            (Err(_), Err(why)) if changed => self.recorder.warning(&*object, events::SYNC_SERVICE_FAILED, why),
            _ => {}
        }
        match outcome {
            // The Service leads to the next pass when it is created.
            Err(Error::Wait(_)) | Ok(_) => Ok(Next::Done),
            Err(error) => Err(error),
        }
    }

    fn report_clusters(&self, key: &ObjectKey, object: &Arc<Object>, range: &Range) {
        let missing = range.missing.iter().map(|message| (events::CLUSTER_NOT_FOUND, message.clone()));
        let incompatible =
            range.providers.iter().filter(|name| self.is_incompatible(name)).map(|name| {
                (events::API_INCOMPATIBLE, format!("Provider cluster {name} does not support EndpointSlice"))
            });
        let reports: Vec<Report> = missing.chain(incompatible).collect();
        let before = self.reported.lock().insert(key.clone(), reports.clone()).unwrap_or_default();
        for (reason, message) in reports.iter().filter(|report| !before.contains(report)) {
            self.recorder.warning(&**object, reason, message.as_str());
        }
    }

    fn is_incompatible(&self, cluster: &str) -> bool {
        clusters::consumer(&self.context, cluster) == Consumer::Incompatible
    }

    /// Brings Works, Service and binding up to the MultiClusterService; returns whether anything was written.
    async fn sync(&self, object: &Arc<Object>, service: &MultiClusterService, range: &Range) -> Result<bool> {
        let wrote = self.write_works(object, service, range).await?;
        let (resource, key) = (services(), service.key());
        let template = templates::fetch(&self.context, &resource, &key).await?;
        let Some(template) = template.filter(|it| !it.is_deleting()) else {
            return Err(Error::Wait(format!(
                "services {:?} not found in namespace {:?}",
                key.name(),
                service.metadata.namespace
            )));
        };
        let mut tree = decoded(template.key(), template.to_value())?;
        let patch = claimed::claim(service, &tree);
        let claims = patch.is_some();
        if let Some(patch) = patch {
            let (patch, options) = (Patch::Merge(patch), PatchOptions::default());
            let written = self.context.client.patch(&resource, &key, &patch, &options).await;
            let written = written.during(|| format!("claiming Service {key}"))?;
            tree = decoded(written.key(), written.to_value())?;
        }
        let bound = self.write_binding(claimed::binding(service, Template(&tree), range)).await?;
        Ok(wrote || claims || bound)
    }

    async fn write_binding(&self, desired: Binding) -> Result<bool> {
        let (resource, key) = (Binding::api_resource(Scope::Namespaced), desired.key());
        let writing = || format!("writing ResourceBinding {key}");
        let client = &self.context.client;
        let Some(existing) = self.context.bindings(Scope::Namespaced).cache().get(&key) else {
            return client.create(&resource, &desired).await.map(|_| true).during(writing);
        };
        if existing.is_deleting() {
            return Err(Error::Several(vec![format!("ResourceBinding {key} is being deleted")]));
        }
        let merged = claimed::merged(&Binding::decode(&existing)?, desired);
        match merged.map_err(|error| Error::Several(vec![error.to_string()]))? {
            None => Ok(false),
            Some(merged) => client.update(&resource, &merged).await.map(|_| true).during(writing),
        }
    }

    /// Writes a Work for each provider that serves EndpointSlices, and deletes those of other clusters.
    async fn write_works(&self, object: &Arc<Object>, service: &MultiClusterService, range: &Range) -> Result<bool> {
        let tree = decoded(object.key(), object.to_value())?;
        let (mut errors, mut wrote) = (Vec::new(), false);
        for cluster in range.providers.iter().map(ClusterName::from) {
            let existing = self.work(&cluster, &service.key());
            if let Some(leaving) = existing.as_ref().filter(|it| it.is_deleting()) {
                errors.push(Error::Several(vec![format!("work {} is being deleted", leaving.key())]));
                continue;
            }
            let existing = existing.map(|it| decoded(it.key(), Work::from_object(&it))).transpose()?;
            let desired = claimed::work(service, &tree, &cluster, existing.as_ref());
            let written = match &existing {
                None if self.is_incompatible(&cluster) => continue,
                None => slice_works::create(&self.context, &desired).await,
                Some(existing) if *existing != desired => slice_works::update(&self.context, &desired).await,
                Some(_) => continue,
            };
            wrote |= written.is_ok();
            errors.extend(written.err());
        }
        together(errors)?;
        let others = self.works_beside(&service.key(), &range.providers)?;
        if others.is_empty() {
            return Ok(wrote);
        }
        let live = self.context.live(&MultiClusterService::api_resource(), object).await?;
        if live.is_none_or(|live| live.generation() != object.generation()) {
            return Err(Error::Several(vec![format!("MultiClusterService {} is newer than the cache", object.key())]));
        }
        self.delete_works(&others).await?;
        Ok(true)
    }

    /// The Work of a cluster, in its newest known state.
    fn work(&self, cluster: &ClusterName, service: &ObjectKey) -> Option<Arc<Object>> {
        self.context.written_works.get(&WorkKey::new(cluster, claimed::work_name(service)))
    }

    /// The Works of clusters that do not provide.
    fn works_beside(&self, service: &ObjectKey, providers: &BTreeSet<String>) -> Result<Vec<Work>> {
        let clusters = self.context.clusters.all();
        let others = clusters.iter().filter(|cluster| !providers.contains(&cluster.metadata.name));
        let found = others.filter_map(|cluster| self.work(&ClusterName::of(cluster), service));
        let left = found.filter(|it| !it.is_deleting() && it.label(labels::MULTI_CLUSTER_SERVICE_ID).is_some());
        left.map(|it| decoded(it.key(), Work::from_object(&it))).collect()
    }

    async fn delete_works(&self, works: &[Work]) -> Result<()> {
        let mut errors = Vec::new();
        for work in works {
            errors.extend(slice_works::delete(&self.context, work).await.err());
        }
        together(errors)
    }

    /// Removes the Works of a MultiClusterService, and releases its binding and its Service. The binding is released
    /// first, so that the claim of a policy finds it released.
    async fn end(&self, key: &ObjectKey) -> Result<()> {
        self.delete_works(&self.works_beside(key, &BTreeSet::new())?).await?;
        let mut copies = slice_works::dispatched(&self.context, key)?;
        copies.retain(|copy| copy.metadata.deletion_timestamp.is_none());
        self.delete_works(&copies).await?;
        let (resource, binding) = (Binding::api_resource(Scope::Namespaced), claimed::binding_key(key));
        self.release(&resource, &binding, |tree| claimed::release_binding(key, tree)).await?;
        self.release(&services(), key, |tree| claimed::release(key, tree)).await
    }

    /// Patches an object that exists and is claimed.
    async fn release(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        patch: impl FnOnce(&Value) -> Option<Value>,
    ) -> Result<()> {
        let Some(object) = certain(&self.context.client, resource, key).await? else { return Ok(()) };
        let tree = decoded(object.key(), object.to_value())?;
        let Some(patch) = patch(&tree).map(Patch::Merge) else { return Ok(()) };
        let released = self.context.client.patch(resource, key, &patch, &PatchOptions::default()).await;
        released.map(drop).during(|| format!("releasing {} {key}", resource.kind))
    }

    async fn set_finalizer(&self, object: &Arc<Object>, service: &MultiClusterService, holds: bool) -> Result<()> {
        let mut present = service.metadata.finalizers.clone();
        present.retain(|it| it != finalizers::MULTI_CLUSTER_SERVICE);
        if holds {
            present.push(finalizers::MULTI_CLUSTER_SERVICE.to_owned());
        }
        let version = object.resource_version();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": present, "resourceVersion": version}}));
        let (resource, key) = (MultiClusterService::api_resource(), object.key());
        match self.context.client.patch(&resource, &key, &patch, &PatchOptions::default()).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop).during(|| format!("writing the finalizer of {} {key}", resource.kind)),
        }
    }
}
