//! The state shared by the controllers of one process: one cache per kind, the members, the event recorder.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use apimachinery::{ApiResource, Object, merge_patch};
use client::{Client, Fence, Mapper, Patch, PatchOptions};
use controller_runtime::{Backlog, EventRecorder, Informer, InformerSet, Overlay, Selection, WorkQueue};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{Cluster, SyncMode};
use karmada_api::config::v1alpha1::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration};
use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::scope::{Binding, Override, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::readiness::Thresholds;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::absence::certain;
use crate::cert_rotation::Rotation;
use crate::definitions::Definitions;
use crate::error::{Result, decode};
use crate::execution::Engine;
use crate::failover::{Brake, Eviction, History};
use crate::gates::Gates;
use crate::interpreting::Interpreting;
use crate::journal::{self, Journal};
use crate::lease::{Monitoring, Renewal};
use crate::lost_works::Awaited;
use crate::members::{Connector, Members};
use crate::metrics::Metrics;
use crate::ownership::BY_ID;
use crate::resume::Resume;
use crate::scaling::Scaling;
use crate::skip::Skip;
use crate::stores::Store;
use crate::unrendered::Unrendered;

#[derive(Clone, Debug)]
pub struct Settings {
    pub skip: Skip,
    /// `--cluster-status-update-frequency`
    pub status_frequency: Duration,
    pub thresholds: Thresholds,
    /// `--cluster-api-qps`; 0 is no limit. Upstream's default is 40 with a burst of 60.
    pub member_qps: f64,
    pub member_burst: u32,
    /// `--allow-http-member-endpoints`: members are also reached over plain HTTP.
    pub allow_http_endpoints: bool,
    /// Concurrent passes over templates, over bindings, and over the Works of each member. Upstream's default is 5 for
    /// each; here a pass is a task, not a thread, and 64 keep a member busy that responds within 10 ms.
    pub workers: usize,
    pub gates: Gates,
    pub renewal: Renewal,
    pub rotation: Rotation,
    pub monitoring: Monitoring,
    pub eviction: Eviction,
    /// `--federated-resource-quota-sync-period`
    pub quota_sync_period: Duration,
    /// `--horizontal-pod-autoscaler-*`
    pub scaling: Scaling,
    /// The API server changes quotas in the transactions of bindings, so the controllers only count them.
    pub quotas_are_joint: bool,
    /// `--enable-cluster-resource-modeling`: nodes and pods of members are followed and summed up.
    pub sums: bool,
    /// How long several changes of status are collected into one write.
    pub settle: Duration,
    /// The registry of the controllers' metrics.
    pub metrics: ::metrics::Registry,
    /// The fence of this process, where it was elected: it covers the writes to members. The client of the control plane
    /// has its own.
    pub fence: Option<Fence>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            skip: Skip::default(),
            status_frequency: Duration::from_secs(10),
            thresholds: Thresholds::default(),
            member_qps: 0.0,
            member_burst: 60,
            allow_http_endpoints: false,
            workers: 64,
            gates: Gates::default(),
            renewal: Renewal::default(),
            rotation: Rotation::default(),
            monitoring: Monitoring::default(),
            eviction: Eviction::default(),
            quota_sync_period: Duration::from_secs(300),
            scaling: Scaling::default(),
            quotas_are_joint: false,
            sums: true,
            settle: Duration::from_millis(100),
            metrics: ::metrics::Registry::default(),
            fence: None,
        }
    }
}

/// The decision that a binding is created with, where the scheduler of this process runs before its creation.
pub struct FirstDecision {
    /// The result and the status, as a merge patch of the new binding.
    pub patch: Value,
    /// Called with the created binding.
    pub created: OnCreated,
}

/// Called once with the created object.
pub type OnCreated = Box<dyn FnOnce(&Object) + Send>;

/// Decides about a binding that is about to be created; `None` leaves it to the scheduler.
pub type DecideFirst = Arc<dyn Fn(&Binding) -> Option<FirstDecision> + Send + Sync>;

/// The writes of one controller to bindings of either scope. The controller passes their events to
/// [`Overlay::observe`].
#[derive(Clone)]
pub(crate) struct BindingOverlays([Overlay; 2]);

impl BindingOverlays {
    pub(crate) fn of(&self, scope: Scope) -> &Overlay {
        let [namespaced, cluster] = &self.0;
        match scope {
            Scope::Namespaced => namespaced,
            Scope::Cluster => cluster,
        }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

/// The shared state of a [`Context`]; its parts are for this crate's controllers.
pub struct Shared {
    pub(crate) client: Client,
    pub(crate) control: InformerSet,
    pub(crate) mapper: Mapper,
    pub(crate) members: Members,
    pub(crate) interpreting: Interpreting,
    pub(crate) world: World,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
    pub(crate) policies: Store<Policy>,
    pub(crate) overrides: Store<Override>,
    pub(crate) clusters: Store<Cluster, ClusterName>,
    /// The Clusters of this process: all, or the agent's own.
    pub(crate) cluster_informer: Informer,
    pub(crate) works: Informer,
    /// Works as the controllers of bindings wrote them.
    pub(crate) written_works: Overlay,
    /// Works with the statuses that this process wrote.
    pub(crate) reported_works: Overlay,
    /// The cluster whose agent this process is.
    pub(crate) agent_of: Option<ClusterName>,
    /// The UID of the control plane's namespace kube-system.
    pub(crate) own_uid: tokio::sync::OnceCell<Option<String>>,
    pub(crate) recorder: EventRecorder,
    pub(crate) engine: Engine,
    pub(crate) resume: Resume,
    pub(crate) journal: Journal,
    pub(crate) brake: Brake,
    pub(crate) history: History,
    /// How many keys wait for dispatch to members.
    backlog: Backlog,
    /// Bindings whose Works are to be rendered, where that is done in this process.
    pub(crate) rendering: OnceLock<Arc<WorkQueue<BindingKey>>>,
    pub(crate) unrendered: Unrendered,
    pub(crate) awaited_works: Awaited,
    first_decisions: OnceLock<DecideFirst>,
    pub(crate) definitions: Definitions,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Object,
    Status,
}

/// For each key that waits for each worker, status is collected for one more [`Settings::settle`], but for no more than
/// this many.
const LONGEST_SETTLE: usize = 10;

impl std::ops::Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Context {
    /// `client` reaches the control plane; everything started stops with `stop`. Must be called inside a tokio runtime.
    pub fn new(
        client: Client,
        world: World,
        connector: Connector,
        settings: Settings,
        stop: CancellationToken,
    ) -> Self {
        Self::of(client, world, connector, settings, stop, None)
    }

    /// For the agent of one cluster, which `own` connects to. From the control plane it reads the cluster, its Works
    /// and the interpreter configurations, the only objects that an agent may read. Must be called inside a tokio
    /// runtime.
    pub fn agent(
        client: Client,
        world: World,
        (cluster, member): (String, Client),
        settings: Settings,
        stop: CancellationToken,
    ) -> Self {
        Self::of(client, world, Arc::new(|_| None), settings, stop, Some((ClusterName::from(&cluster), member)))
    }

    fn of(
        client: Client,
        world: World,
        connector: Connector,
        settings: Settings,
        stop: CancellationToken,
        own: Option<(ClusterName, Client)>,
    ) -> Self {
        let control = InformerSet::until(client.clone(), world.clone(), stop.clone());
        let both = |resource: fn(Scope) -> ApiResource| match own {
            None => Scope::ALL.map(|scope| control.informer(&resource(scope))).to_vec(),
            Some(_) => Vec::new(),
        };
        let (policies, overrides) = (both(Policy::api_resource), both(Override::api_resource));
        let bindings = both(Binding::api_resource);
        let (of_cluster, of_works) = match &own {
            None => Default::default(),
            Some((cluster, _)) => (
                Selection { field_selector: Some(format!("metadata.name={cluster}")), ..Selection::default() },
                Selection { namespace: Some(cluster.execution_namespace()), ..Selection::default() },
            ),
        };
        let cluster_informer = control.selected(&Cluster::api_resource(), of_cluster);
        let clusters = Store::of_clusters(&cluster_informer, decode);
        cluster_informer.subscribe(journal::clusters(clusters.clone()));
        let works = control.selected(&Work::api_resource(), of_works);
        for scope in Scope::ALL {
            works.cache().add_label_index(scope.binding_id_label());
            bindings.iter().for_each(|it| it.cache().add_label_index(scope.policy_id_label()));
        }
        for (scope, bindings) in Scope::ALL.into_iter().zip(&bindings) {
            bindings.cache().add_label_index_as(BY_ID, scope.binding_id_label());
        }
        let interpreting = Interpreting::follow(&control, connector.clone(), &world, &settings);
        let agent_of = own.as_ref().map(|(cluster, _)| cluster.clone());
        let members = match own {
            None => Members::new(control.clone(), clusters.clone(), connector, world.clone(), &settings, stop.clone()),
            Some(own) => Members::single(control.clone(), own, world.clone(), &settings, stop.clone()),
        };
        let component = if agent_of.is_some() { "karmada-agent" } else { "karmada-controller-manager" };
        let recorder = EventRecorder::start(client.clone(), world.clone(), component, stop.clone());
        Self(Arc::new(Shared {
            mapper: Mapper::new(client.clone()),
            policies: Store::follow(&policies.iter().collect::<Vec<_>>(), Policy::decode),
            overrides: Store::follow(&overrides.iter().collect::<Vec<_>>(), Override::decode),
            clusters,
            cluster_informer,
            agent_of,
            own_uid: tokio::sync::OnceCell::new(),
            written_works: Overlay::following(&works),
            reported_works: Overlay::new(&works),
            works,
            members,
            recorder,
            engine: Engine::default(),
            resume: Resume::default(),
            journal: Journal::default(),
            brake: Brake::default(),
            history: History::default(),
            backlog: Backlog::default(),
            rendering: OnceLock::new(),
            unrendered: Unrendered::default(),
            awaited_works: Awaited::default(),
            first_decisions: OnceLock::new(),
            definitions: Definitions::default(),
            interpreting,
            client,
            control,
            world,
            metrics: Metrics::new(settings.metrics.clone()),
            settings,
            stop,
        }))
    }

    /// For members of the context itself: a clone would keep both alive forever.
    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(weak: &Weak<Shared>) -> Option<Self> {
        weak.upgrade().map(Self)
    }

    pub(crate) fn bindings(&self, scope: Scope) -> Informer {
        self.control.informer(&Binding::api_resource(scope))
    }

    /// Has bindings created with their first result, by the scheduler of this process. Later calls have no effect.
    pub fn decide_first_with(&self, decide: DecideFirst) {
        let _ = self.first_decisions.set(decide);
    }

    /// The first decision about a binding, if the scheduler makes it in this process and the server takes both in one
    /// write.
    pub(crate) fn first_decision(&self, binding: &Binding) -> Option<FirstDecision> {
        let decide = self.first_decisions.get().filter(|_| self.client.is_in_process())?;
        decide(binding)
    }

    /// An overlay for the writes of one controller to bindings.
    pub(crate) fn binding_overlays(&self) -> BindingOverlays {
        BindingOverlays(Scope::ALL.map(|scope| Overlay::new(&self.bindings(scope))))
    }

    /// A queue for a controller's keys.
    pub(crate) fn queue<K: Ord + Clone>(&self) -> Arc<WorkQueue<K>> {
        Arc::new(self.new_queue())
    }

    fn new_queue<K: Ord + Clone>(&self) -> WorkQueue<K> {
        if self.settings.gates.priority_queue { WorkQueue::new() } else { WorkQueue::without_priorities() }
    }

    /// A queue of dispatches to members: while it is long, status aggregation is delayed.
    pub(crate) fn dispatch_queue<K: Ord + Clone>(&self) -> Arc<WorkQueue<K>> {
        Arc::new(self.new_queue().counted_in(&self.backlog))
    }

    /// How long status changes are collected into one write. Longer while many keys wait for dispatch, which users wait
    /// for and which changes the status again, and while members roll out so much that each rollout would be reported
    /// in parts.
    pub(crate) fn settle(&self) -> Duration {
        let factor = 1 + self.backlog.waiting() / self.settings.workers.max(1) + self.engine.rollouts();
        self.settings.settle * u32::try_from(factor.min(LONGEST_SETTLE)).unwrap_or(1)
    }

    /// Whether a cluster's objects and status are this process's business: those of agents are theirs.
    pub(crate) fn serves(&self, cluster: &Cluster) -> bool {
        match &self.agent_of {
            None => cluster.spec.sync_mode != SyncMode::Pull,
            Some(own) => cluster.metadata.name == *own,
        }
    }

    /// The time as the API writes it.
    pub(crate) fn now(&self) -> apimachinery::meta::Time {
        apimachinery::meta::Time::new(self.world.now())
    }

    /// The server's current state of a cached object, if it is still the same one: a cache that is behind has objects
    /// that were deleted, and others of the same name must not be affected.
    pub(crate) async fn live(&self, resource: &ApiResource, cached: &Object) -> Result<Option<Arc<Object>>> {
        let key = cached.key();
        let live = certain(&self.client, resource, &key).await?;
        Ok(live.filter(|live| live.uid() == cached.uid()))
    }

    /// Changes an object of the control plane by a merge patch. An agent has the right to update its objects and not to
    /// patch them: it sends the whole cached object, with the change.
    pub(crate) async fn change(
        &self,
        resource: &ApiResource,
        cached: &Object,
        change: Value,
        part: Part,
    ) -> client::Result<Arc<Object>> {
        if self.agent_of.is_none() {
            let options = match part {
                Part::Object => PatchOptions::default(),
                Part::Status => PatchOptions::status(),
            };
            return self.client.patch_draft(resource, &cached.key(), Patch::Merge(change), &options).await;
        }
        // The cache holds the server's response, which is JSON.
        let mut tree = cached.to_value().unwrap_or_default();
        merge_patch::apply(&mut tree, &change);
        match part {
            Part::Object => self.client.update(resource, &tree).await,
            Part::Status => self.client.update_status(resource, &tree).await,
        }
    }

    pub fn members(&self) -> &Members {
        &self.0.members
    }

    /// The caches of the control plane, for others in the same process.
    pub fn informers(&self) -> &InformerSet {
        &self.0.control
    }

    pub fn mapper(&self) -> &Mapper {
        &self.0.mapper
    }

    /// Waits until the caches that every controller reads are complete. False when stopped before.
    pub async fn synced(&self) -> bool {
        let mut informers = vec![
            self.works.clone(),
            self.cluster_informer.clone(),
            self.control.informer(&ResourceInterpreterCustomization::api_resource()),
            self.control.informer(&ResourceInterpreterWebhookConfiguration::api_resource()),
        ];
        let scopes = if self.agent_of.is_none() { &Scope::ALL[..] } else { &[] };
        for scope in scopes.iter().copied() {
            for resource in [Policy::api_resource(scope), Override::api_resource(scope), Binding::api_resource(scope)] {
                informers.push(self.control.informer(&resource));
            }
        }
        for informer in informers {
            if !informer.synced().await {
                return false;
            }
        }
        true
    }
}
