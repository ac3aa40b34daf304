//! Follows registries, Clusters and connections to members; starts and ends services and their sources.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionKind};
use client::{Client, MapError, Mapper};
use controller_runtime::{Event, Informer, InformerSet, Involved};
use controllers::Member;
use futures::future::{BoxFuture, join_all};
use karmada_api::ApiType;
use karmada_api::search::v1alpha1::ResourceRegistry;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::document::index_of;
use super::pending::Pending;
use super::report::{Report, Reports};
use super::service::Service;
use super::source::{Place, Source};
use super::wanted::{Backend, Wanted, wanted};
use super::{Context, access};
use crate::opensearch::writer::Writer;

/// Changes are gathered for this long: Clusters report their status often.
const GATHER: Duration = Duration::from_secs(1);
/// The pause after a failed pass, and the interval in which new connections to members are noticed.
const CHECK: Duration = Duration::from_secs(10);
/// Without registries that name a service, only a change of one is of interest.
const IDLE: Duration = Duration::from_secs(24 * 3600);

pub(super) struct Following {
    context: Context,
    reports: Reports,
    registries: Informer,
    control: InformerSet,
    mapper: Mapper,
    services: BTreeMap<Backend, Running>,
    subscriptions: HashMap<Place, Subscription>,
    /// The kinds that are reported as unknown, by registry.
    unknown: HashSet<(String, GroupVersionKind)>,
    stop: CancellationToken,
}

/// A service that is written to.
struct Running {
    pending: Arc<Pending>,
    report: Report,
    sources: BTreeMap<Place, Arc<Source>>,
    stop: CancellationToken,
}

/// The handler of an informer of a member.
struct Subscription {
    member: Arc<Member>,
    informer: Informer,
    targets: Targets,
}

/// Where changes are reported.
type Targets = Arc<RwLock<Vec<(Arc<Pending>, Arc<Source>)>>>;

impl Following {
    pub fn new(context: Context, reports: Reports, stop: CancellationToken) -> Self {
        let informers = |client: &Client| InformerSet::until(client.clone(), context.world.clone(), stop.child_token());
        Self {
            registries: informers(&context.registries).informer(&ResourceRegistry::api_resource()),
            control: informers(&context.control),
            mapper: Mapper::new(context.control.clone()),
            context,
            reports,
            services: BTreeMap::new(),
            subscriptions: HashMap::new(),
            unknown: HashSet::new(),
            stop,
        }
    }

    pub async fn run(mut self) {
        let (changed, is_active) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let (of_registry, of_cluster, active) = (changed.clone(), changed.clone(), is_active.clone());
        self.registries.subscribe(move |_| of_registry.notify_one());
        let clusters = self.context.members.clusters();
        clusters.subscribe(move |_| {
            if active.load(Ordering::Relaxed) {
                of_cluster.notify_one();
            }
        });
        // Unknown registries and Clusters are not absent ones.
        if !self.registries.synced().await || !clusters.synced().await {
            return;
        }
        loop {
            let next = self.pass().await;
            is_active.store(next < IDLE, Ordering::Relaxed);
            tokio::select! {
                () = changed.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Returns the pause until the next pass, unless something changes.
    async fn pass(&mut self) -> Duration {
        let (mut registries, mut involved) = (Vec::new(), HashMap::new());
        for object in self.registries.cache().list(None) {
            match ResourceRegistry::from_object(&object) {
                Ok(registry) if Backend::of(&registry).is_some() => {
                    involved.insert(registry.metadata.name.clone(), Involved::from(&*object));
                    registries.push(registry);
                }
                Ok(_) => {}
                // What it selects is unknown, so nothing ends because of it.
                Err(error) => {
                    tracing::warn!(registry = object.name(), err = %error, "ResourceRegistry cannot be read");
                    return CHECK;
                }
            }
        }
        if registries.is_empty() && self.services.is_empty() {
            return IDLE;
        }
        let Some(resources) = self.resources(&registries, &involved).await else { return CHECK };
        let clusters = self.context.members.all_clusters();
        self.subscriptions.retain(|place, _| clusters.iter().any(|it| it.metadata.name == place.cluster));
        let wanted = wanted(&registries, &clusters, |selector| {
            resources.get(&GroupVersionKind::from_api_version(&selector.api_version, &selector.kind).ok()?).cloned()
        });
        self.end_services(&wanted);
        let mut connected = HashMap::new();
        for (backend, wanted) in wanted {
            let of_backend = wanted.registries.iter().filter_map(|name| involved.get(name).cloned()).collect();
            self.start_service(&backend, of_backend);
            self.follow_places(&backend, wanted, &mut connected).await;
        }
        if self.services.is_empty() { IDLE } else { CHECK }
    }

    /// The resources of all selectors; `None` if discovery failed.
    async fn resources(
        &mut self,
        registries: &[ResourceRegistry],
        involved: &HashMap<String, Involved>,
    ) -> Option<HashMap<GroupVersionKind, ApiResource>> {
        let mut resources = HashMap::new();
        let mut unknown = HashSet::new();
        for registry in registries {
            for selector in &registry.spec.resource_selectors {
                let Ok(gvk) = GroupVersionKind::from_api_version(&selector.api_version, &selector.kind) else {
                    continue;
                };
                match self.mapper.resource(&gvk).await {
                    Ok(resource) => {
                        resources.insert(gvk, resource);
                    }
                    Err(MapError::NoMatch(_)) => {
                        let key = (registry.metadata.name.clone(), gvk);
                        if !self.unknown.contains(&key) {
                            let of = involved.get(&key.0).cloned().into_iter().collect::<Vec<_>>();
                            let message = format!(
                                "The control plane does not serve kind {} of {}: its objects are not written to \
                                 OpenSearch; create its CustomResourceDefinition",
                                selector.kind, selector.api_version
                            );
                            self.reports.warn(&of, "OpenSearchUnknownKind", &message);
                        }
                        unknown.insert(key);
                    }
                    Err(error @ MapError::Discovery { .. }) => {
                        tracing::debug!(err = %error, "Resources for OpenSearch are not known");
                        return None;
                    }
                }
            }
        }
        self.unknown = unknown;
        Some(resources)
    }

    fn end_services(&mut self, wanted: &BTreeMap<Backend, Wanted>) {
        let ended: Vec<Backend> = self.services.keys().filter(|it| !wanted.contains_key(*it)).cloned().collect();
        for backend in ended {
            if let Some(running) = self.services.remove(&backend) {
                running.stop.cancel();
                let places: Vec<Place> = running.sources.keys().cloned().collect();
                places.iter().for_each(|place| self.unsubscribe(place, &running.pending));
            }
            if let Some(secret) =
                backend.secret.filter(|it| self.services.keys().all(|b| b.secret.as_ref() != Some(it)))
            {
                access::forget(&self.control, &secret);
            }
        }
    }

    fn start_service(&mut self, backend: &Backend, registries: Vec<Involved>) {
        if let Some(running) = self.services.get(backend) {
            return running.report.registries_are(registries);
        }
        let pending = Arc::new(Pending::default());
        let (report, stop) = (self.reports.of(&pending, registries), self.stop.child_token());
        let (sender, receiver) = watch::channel(None);
        let service = Service::new(backend.addresses.clone(), Arc::new(Client::from_endpoint));
        let writer = Writer::new(service, receiver, pending.clone(), report.clone(), self.context.world.clone());
        let access = access::follow(self.control.clone(), backend.clone(), report.clone(), sender);
        let ends = stop.clone();
        let tasks: [BoxFuture<'static, ()>; 2] = [Box::pin(access), Box::pin(writer.run())];
        tokio::spawn(async move { ends.run_until_cancelled(join_all(tasks)).await });
        let running = Running { pending, report, sources: BTreeMap::new(), stop };
        self.services.insert(backend.clone(), running);
    }

    async fn follow_places(
        &mut self,
        backend: &Backend,
        wanted: Wanted,
        connected: &mut HashMap<String, Option<Arc<Member>>>,
    ) {
        let Some(running) = self.services.get(backend) else { return };
        let pending = running.pending.clone();
        let ended: Vec<Place> = running.sources.keys().filter(|it| !wanted.places.contains_key(*it)).cloned().collect();
        for place in ended {
            pending.remove(&place);
            self.unsubscribe(&place, &pending);
            self.services.get_mut(backend).and_then(|running| running.sources.remove(&place));
        }
        for (place, namespaces) in wanted.places {
            if !connected.contains_key(&place.cluster) {
                connected.insert(place.cluster.clone(), self.connected(&place.cluster).await);
            }
            // A member that is not reachable now keeps its source.
            let Some(Some(member)) = connected.get(&place.cluster) else { continue };
            let subscription = self.subscription(&place, member);
            let (informer, targets) = (subscription.informer.clone(), subscription.targets.clone());
            let Some(running) = self.services.get_mut(backend) else { return };
            let known = running.sources.get(&place);
            let follows = |source: &&Arc<Source>| targets.read().iter().any(|(_, it)| Arc::ptr_eq(it, source));
            if let Some(source) = known.filter(follows) {
                if source.select(&namespaces) {
                    pending.unknown(source);
                }
                continue;
            }
            let Some(index) = index_of(&place.resource.kind) else { continue };
            let source = Arc::new(Source::new(place.clone(), index, Arc::new(informer), namespaces));
            // Before it is compared, so that no change between is missed.
            targets.write().push((pending.clone(), source.clone()));
            pending.add(&source);
            running.sources.insert(place, source);
        }
    }

    /// The connection to a member that is ready, or was before.
    async fn connected(&self, cluster: &str) -> Option<Arc<Member>> {
        let members = &self.context.members;
        let is_ready = members.known(cluster).is_some_and(|it| it.is_ready());
        if !is_ready && members.read_connection(cluster).is_none() {
            return None;
        }
        members.reading(cluster).await.ok()
    }

    /// The handler for a resource of a member, on its present connection.
    fn subscription(&mut self, place: &Place, member: &Arc<Member>) -> &Subscription {
        let is_current = |it: &Subscription| Arc::ptr_eq(&it.member, member);
        if !self.subscriptions.get(place).is_some_and(is_current) {
            let informer = member.informers.informer(&place.resource);
            let targets = Targets::default();
            let changed = targets.clone();
            informer.subscribe(move |event| {
                for (pending, source) in &*changed.read() {
                    // A recreated object has another document.
                    if let Event::Updated { old, new } = event
                        && old.uid() != new.uid()
                    {
                        pending.mark(source, old);
                    }
                    if source.selects(event.object()) {
                        pending.mark(source, event.object());
                    }
                }
            });
            let (synced, waiting) = (informer.clone(), Arc::downgrade(&targets));
            tokio::spawn(async move {
                synced.synced().await;
                if let Some(targets) = waiting.upgrade() {
                    targets.read().iter().for_each(|(pending, _)| pending.wake());
                }
            });
            let subscription = Subscription { member: member.clone(), informer, targets };
            self.subscriptions.insert(place.clone(), subscription);
        }
        &self.subscriptions[place]
    }

    fn unsubscribe(&self, place: &Place, pending: &Arc<Pending>) {
        if let Some(subscription) = self.subscriptions.get(place) {
            subscription.targets.write().retain(|(of, _)| !Arc::ptr_eq(of, pending));
        }
    }
}
