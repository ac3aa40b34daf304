//! Copies collected EndpointSlices to the consumers of their MultiClusterService.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Event, EventRecorder, Informer, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::{conditions, events, finalizers, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::names;
use karmada_api::networking::v1alpha1::MultiClusterService;
use karmada_api::work::v1alpha1::Work;
use multicluster::claimed::{self, Range};
use multicluster::collected::{self, Change, Collectors, Demand};
use multicluster::dispatched::{self, Input, Plan};
use parking_lot::Mutex;

use super::{WORKERS, clusters, is_outdated, slice_works, status, together};
use crate::Context;
use crate::absence::certain;
use crate::error::{Error, Result, all, decoded};

const NAME: &str = "endpointslice-dispatch-controller";

struct Controller {
    context: Context,
    informer: Informer,
    recorder: EventRecorder,
    /// The consumers without EndpointSlices that were reported last, by MultiClusterService.
    incompatible: Mutex<BTreeMap<ObjectKey, Vec<String>>>,
}

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.multi_cluster_service {
        return;
    }
    slice_works::index(&context);
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&MultiClusterService::api_resource());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if event.changes_generation() {
            keys.add(event.object().key());
        }
    });
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        let old = match event {
            // Statuses are written to these Works, too.
            Event::Updated { old, new } if !changes(old, new) => return,
            Event::Updated { old, .. } => Some(old),
            Event::Added { .. } | Event::Deleted(_) => None,
        };
        old.into_iter().chain([event.object()]).filter_map(|work| service_of(work)).for_each(|key| keys.add(key));
    });
    let (keys, all_services) = (queue.clone(), informer.clone());
    clusters::on_change(&context, move |_| all_services.cache().keys().into_iter().for_each(|key| keys.add(key)));
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    let recorder = context.recorder.for_component(NAME);
    let controller = Arc::new(Controller { context, informer, recorder, incompatible: Mutex::default() });
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

fn changes(old: &Object, new: &Object) -> bool {
    old.generation() != new.generation()
        || old.is_deleting() != new.is_deleting()
        || old.labels() != new.labels()
        || old.finalizers() != new.finalizers()
        || old.annotations() != new.annotations()
}

/// The MultiClusterService that a Work concerns.
fn service_of(work: &Object) -> Option<ObjectKey> {
    let collected = || slice_works::collected_service(work).filter(|_| slice_works::is_of_multi_cluster(work));
    slice_works::dispatched_service(work).or_else(collected)
}

impl Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next> {
        let object = self.informer.cache().get(key);
        let service = object.as_ref().map(|it| decoded(it.key(), MultiClusterService::from_object(it))).transpose()?;
        let exists = object.as_ref().is_some_and(|it| !it.is_deleting());
        let active = service.filter(|service| exists && claimed::is_cross_cluster(service));
        let mut sources = slice_works::collected(&self.context, key)?;
        sources.retain(concerns);
        let mut copies = slice_works::dispatched(&self.context, key)?;
        copies.retain(|copy| copy.metadata.deletion_timestamp.is_none());
        let range = active.as_ref().map(|service| Range::of(service, &clusters::existing(&self.context)));
        let plan = dispatched::plan(&Input {
            service: key,
            range: range.as_ref(),
            sources: &sources,
            copies: &copies,
            consumer: &|name| clusters::consumer(&self.context, name),
            is_taken: &|namespace, name| {
                self.context.written_works.get(&ObjectKey::namespaced(namespace, name)).is_some()
            },
        });
        let outcome = self.execute(key, object.as_ref(), &plan).await;
        let Some((service, object)) = active.as_ref().zip(object.as_ref()) else {
            self.incompatible.lock().remove(key);
            outcome?;
            return self.end(key, &sources).await;
        };
        self.report_incompatible(key, object, &plan.incompatible);
        // Without slices there is nothing to report.
        if !sources.is_empty() || !plan.is_empty() || status::has(service, conditions::ENDPOINT_SLICE_DISPATCHED) {
            self.report(object, &plan, &outcome).await?;
        }
        outcome.map(|()| Next::Done)
    }

    async fn report(&self, object: &Arc<Object>, plan: &Plan, outcome: &Result<()>) -> Result<()> {
        if let Err(error) = outcome
            && (is_outdated(error) || matches!(error, Error::Wait(_)))
        {
            // A newer state is reconciled again.
            return Ok(());
        }
        let text = outcome.as_ref().map(|_| ()).map_err(ToString::to_string);
        let condition = claimed::slices_dispatched(text.as_ref().err().map(String::as_str), object.generation());
        let changed = status::set(&self.context, object, condition).await?;
        let wrote = !plan.creates.is_empty() || !plan.deletes.is_empty();
        match text {
            Ok(()) if changed || wrote => {
                self.recorder.normal(&**object, events::DISPATCH_ENDPOINT_SLICE_SUCCEED, claimed::SLICES_DISPATCHED);
            }
            Err(why) if changed => self.recorder.warning(&**object, events::DISPATCH_ENDPOINT_SLICE_FAILED, why),
            _ => {}
        }
        Ok(())
    }

    fn report_incompatible(&self, key: &ObjectKey, object: &Arc<Object>, clusters: &[String]) {
        let before = self.incompatible.lock().insert(key.clone(), clusters.to_vec()).unwrap_or_default();
        for cluster in clusters.iter().filter(|cluster| !before.contains(cluster)) {
            let message = format!("Consumer cluster {cluster} does not support EndpointSlice");
            self.recorder.warning(&**object, events::API_INCOMPATIBLE, message);
        }
    }

    async fn execute(&self, key: &ObjectKey, object: Option<&Arc<Object>>, plan: &Plan) -> Result<()> {
        let context = &self.context;
        let nameless = |what: &String| Error::Several(vec![format!("no name is free for EndpointSlice {what}")]);
        let mut errors: Vec<Error> = plan.nameless.iter().map(nameless).collect();
        for work in &plan.creates {
            errors.extend(slice_works::create(context, work).await.err());
        }
        for work in &plan.updates {
            errors.extend(slice_works::update(context, work).await.err());
        }
        if !plan.deletes.is_empty() {
            self.confirm(key, object).await?;
        }
        for work in &plan.deletes {
            errors.extend(slice_works::delete(context, work).await.err());
        }
        together(errors)?;
        for work in &plan.released {
            // A later write may require it again.
            let found = context.written_works.get(&work.key());
            if let Some(object) = found.filter(|it| it.is_deleting() || !is_active(it)) {
                slice_works::release(context, &object, finalizers::MCS_ENDPOINT_SLICE_DISPATCH).await?;
            }
        }
        Ok(())
    }

    /// Confirms with the server that the plan is based on its current state.
    async fn confirm(&self, key: &ObjectKey, object: Option<&Arc<Object>>) -> Result<()> {
        let live = certain(&self.context.client, &MultiClusterService::api_resource(), key).await?;
        let state = |it: &Object| (it.uid().to_owned(), it.generation(), it.is_deleting());
        match live.as_deref().map(state) == object.map(|it| state(it)) {
            true => Ok(()),
            false => Err(Error::Wait(format!("MultiClusterService {key} is newer than the cache; its slices stay"))),
        }
    }

    /// Takes an ended MultiClusterService off the collected Works, also where the agent that collected them does not
    /// run.
    async fn end(&self, key: &ObjectKey, sources: &[Work]) -> Result<Next> {
        let mut by_cluster: BTreeMap<&str, Vec<Work>> = BTreeMap::new();
        for work in sources.iter().filter(|it| it.metadata.deletion_timestamp.is_none() && Collectors::of(it).service) {
            let cluster = names::cluster_of_namespace(&work.metadata.namespace);
            cluster.into_iter().for_each(|cluster| by_cluster.entry(cluster).or_default().push(work.clone()));
        }
        if by_cluster.is_empty() {
            return Ok(Next::Done);
        }
        self.confirm(key, self.informer.cache().get(key).as_ref()).await?;
        let mut errors = Vec::new();
        for (cluster, works) in by_cluster {
            let cluster = ClusterName::from(cluster);
            let input = collected::Input {
                cluster: &cluster,
                service: key,
                export: Demand::Unknown,
                multi_cluster: Demand::Ended,
                slices: None,
                works: &works,
            };
            let is_taken = |name: &str| self.context.written_works.get(&WorkKey::new(&cluster, name)).is_some();
            for change in collected::plan(input, is_taken) {
                let written = match change {
                    Change::Create(_) => continue,
                    Change::Update { work, .. } => slice_works::update(&self.context, &work).await,
                    Change::Delete { work, .. } => slice_works::delete(&self.context, &work).await,
                };
                errors.extend(written.err().map(|error| error.to_string()));
            }
        }
        all(errors).map(|()| Next::Done)
    }
}

/// Whether a MultiClusterService has collected the slice of a Work.
fn is_active(work: &Object) -> bool {
    work.label(labels::ENDPOINT_SLICE_MANAGED_BY).is_some_and(|by| Collectors::parse(by).service)
}

/// Whether a collected Work is, or was, of a MultiClusterService.
fn concerns(work: &Work) -> bool {
    let has_finalizer =
        work.metadata.finalizers.iter().any(|finalizer| finalizer == finalizers::MCS_ENDPOINT_SLICE_DISPATCH);
    has_finalizer || Collectors::of(work).service
}
