//! Reports the EndpointSlices of Services that are exported, or that a MultiClusterService provides, as Works: in the
//! control plane for members in push mode, in the agent for its own member.
//!
//! ServiceExport Works and the Works of MultiClusterServices select the Services. Both mechanisms run here, each with a
//! separate queue, and do not change each other's Works.

use std::fmt;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::multicluster::v1alpha1::ServiceExport;
use karmada_api::names;
use karmada_api::networking::v1alpha1::MultiClusterService;
use karmada_api::work::v1alpha1::Work;
use multicluster::collected::{self, Change, Collectors, Demand, Input, Proof};
use propagation::status::is_applied;
use serde_json::Value;

use super::follow::Followed;
use super::{WORKERS, slice_works, slices};
use crate::absence::certain;
use crate::error::{Error, Result, all, decoded};
use crate::members::Member;
use crate::{Context, identity};

/// The mechanism that selects the Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Export,
    MultiCluster,
}

impl Mechanism {
    fn controller(self) -> &'static str {
        match self {
            Self::Export => "service-export-controller",
            Self::MultiCluster => "endpointslice-collect-controller",
        }
    }

    /// The slices that are followed in members. Those that Karmada wrote there are not among them.
    fn selector(self) -> String {
        let managed_by = labels::KUBERNETES_SLICE_MANAGED_BY;
        match self {
            Self::Export => {
                format!(
                    "{managed_by} notin ({},{})",
                    labels::SLICE_MANAGED_BY_DISPATCH,
                    labels::SLICE_MANAGED_BY_IMPORT
                )
            }
            Self::MultiCluster => format!("{managed_by}=endpointslice-controller.k8s.io"),
        }
    }

    /// The kind of the object whose Work selects a Service; both have the Service's name.
    fn kind(self) -> &'static str {
        match self {
            Self::Export => ServiceExport::KIND,
            Self::MultiCluster => MultiClusterService::KIND,
        }
    }

    fn has_collected(self, work: &Work) -> bool {
        let by = Collectors::of(work);
        match self {
            Self::Export => by.export,
            Self::MultiCluster => by.service,
        }
    }

    /// The Service that a Work selects.
    fn selected(self, work: &Object) -> Option<ObjectKey> {
        match self {
            Self::Export => {
                let binding = work.annotation(annotations::BINDING_NAME)?;
                let name = binding.strip_suffix("-serviceexport")?;
                Some(ObjectKey::namespaced(work.annotation(annotations::BINDING_NAMESPACE)?, name))
            }
            Self::MultiCluster => {
                work.label(labels::MULTI_CLUSTER_SERVICE_ID)?;
                selected_by_manifest(work)
            }
        }
    }
}

/// The MultiClusterService in a Work, which has the name of its Service.
pub(super) fn selected_by_manifest(work: &Object) -> Option<ObjectKey> {
    let work = Work::from_object(work).ok()?;
    let manifest = multicluster::manifest(&work).ok()?;
    let text = |field: &str| manifest["metadata"][field].as_str();
    (manifest["kind"] == MultiClusterService::KIND).then_some(())?;
    Some(ObjectKey::namespaced(text("namespace")?, text("name")?))
}

/// A Service in a member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cluster: ClusterName,
    service: ObjectKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of cluster {}", self.service, self.cluster)
    }
}

impl Key {
    /// The subject of a Work: the Service that it selects, or that of its slice.
    fn of(work: &Object, mechanism: Mechanism) -> Option<Self> {
        let service = slice_works::collected_service(work).or_else(|| mechanism.selected(work))?;
        Some(Self { cluster: ClusterName::from(WorkKey::of(work)?.cluster()), service })
    }

    /// The Work by which the mechanism selects the Service.
    fn source(&self, mechanism: Mechanism) -> WorkKey {
        let namespace = self.service.namespace().unwrap_or_default();
        WorkKey::new(&self.cluster, names::work_name(mechanism.kind(), self.service.name(), namespace))
    }
}

struct Collector {
    context: Context,
    mechanism: Mechanism,
    queue: Arc<WorkQueue<Key>>,
    followed: Followed,
}

pub(crate) async fn run_exports(context: Context) {
    run(context, Mechanism::Export).await;
}

pub(crate) async fn run_collection(context: Context) {
    if context.settings.gates.multi_cluster_service {
        run(context, Mechanism::MultiCluster).await;
    }
}

async fn run(context: Context, mechanism: Mechanism) {
    slice_works::index(&context);
    if !context.synced().await {
        return;
    }
    let queue: Arc<WorkQueue<Key>> = context.queue();
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        let old = match event {
            Event::Updated { old, .. } => Some(old),
            Event::Added { .. } | Event::Deleted(_) => None,
        };
        old.into_iter()
            .chain([event.object()])
            .filter_map(|work| Key::of(work, mechanism))
            .for_each(|key| keys.add(key));
    });
    let stop = context.stop.clone();
    let collector = Arc::new(Collector {
        context: context.clone(),
        mechanism,
        queue: queue.clone(),
        followed: Followed::default(),
    });
    let watching = Arc::downgrade(&collector);
    super::clusters::on_change(&context, move |cluster| {
        if let Some(collector) = watching.upgrade() {
            collector.enqueue_all(cluster);
        }
    });
    let watching = Arc::downgrade(&collector);
    context.members.on_reconnect(move |member, _| {
        if let Some(collector) = watching.upgrade() {
            collector.enqueue_all(&member.name);
        }
    });
    run_workers(Controller::from(mechanism.controller()), queue, WORKERS, stop, move |key| {
        let collector = collector.clone();
        async move { collector.reconcile(&key).await }
    })
    .await;
}

impl Collector {
    /// All Services of a cluster that may be concerned.
    fn enqueue_all(&self, cluster: &ClusterName) {
        if self.context.clusters.get(cluster).is_none_or(|it| !self.context.serves(&it)) {
            self.followed.end_cluster(cluster);
            return;
        }
        let works = self.context.works.cache().list(Some(&cluster.execution_namespace()));
        works.iter().filter_map(|work| Key::of(work, self.mechanism)).for_each(|key| self.queue.add(key));
    }

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let serves = |cluster: &Arc<Cluster>| self.context.serves(cluster);
        let Some(cluster) = self.context.clusters.get(&key.cluster).filter(serves) else {
            self.followed.end_cluster(&key.cluster);
            return Ok(Next::Done);
        };
        // The Works of a cluster that leaves go with their namespace.
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        let demand = self.demand(key)?;
        let mut works = self.works(key)?;
        let has_collected = works.iter().any(|work| self.mechanism.has_collected(work));
        let slices = match demand {
            Demand::Ended => {
                self.followed.end(&key.cluster, &key.service);
                None
            }
            Demand::Unknown if !has_collected => return Ok(Next::Done),
            Demand::Active | Demand::Unknown => self.slices(key, &cluster).await?,
        };
        // Works of the other mechanism alone matter where this one requires their slices, too.
        let names: Vec<&str> = slices.iter().flatten().filter_map(|slice| slice["metadata"]["name"].as_str()).collect();
        works.retain(|work| {
            let shares = multicluster::slice_name(work).is_some_and(|name| names.contains(&name.as_str()));
            shares || self.mechanism.has_collected(work)
        });
        let (export, multi_cluster) = match self.mechanism {
            Mechanism::Export => (demand, Demand::Unknown),
            Mechanism::MultiCluster => (Demand::Unknown, demand),
        };
        let (cluster, service) = (&key.cluster, &key.service);
        let input = Input { cluster, service, export, multi_cluster, slices: slices.as_deref(), works: &works };
        let changes =
            collected::plan(input, |name| self.context.written_works.get(&WorkKey::new(cluster, name)).is_some());
        let mut errors = Vec::new();
        for change in changes {
            errors.extend(self.execute(key, change).await.err().map(|error| error.to_string()));
        }
        all(errors).map(|()| Next::Done)
    }

    /// Whether the Work exists by which the mechanism selects the Service. It counts as ended only with that Work.
    fn demand(&self, key: &Key) -> Result<Demand> {
        let Some(source) = self.context.works.cache().get(&key.source(self.mechanism)) else {
            return Ok(Demand::Ended);
        };
        if source.is_deleting() {
            return Ok(Demand::Ended);
        }
        if self.mechanism == Mechanism::MultiCluster {
            return Ok(Demand::Active);
        }
        let work = decoded(source.key(), Work::from_object(&source))?;
        Ok(if is_applied(&work) { Demand::Active } else { Demand::Unknown })
    }

    /// The Works with slices of the Service that were collected in the member.
    fn works(&self, key: &Key) -> Result<Vec<Work>> {
        let namespace = key.cluster.execution_namespace();
        let mut works = slice_works::collected(&self.context, &key.service)?;
        works.retain(|work| work.metadata.namespace == namespace && work.metadata.deletion_timestamp.is_none());
        Ok(works)
    }

    /// The slices in the member; `None` while they are not known.
    async fn slices(&self, key: &Key, cluster: &Cluster) -> Result<Option<Vec<Value>>> {
        if !cluster.is_ready() {
            return Ok(None);
        }
        let member = identity::writable(&self.context, cluster).await?;
        let (queue, of) = (self.queue.clone(), key.clone());
        let note = move |service: &str| {
            let service = ObjectKey::namespaced(of.service.namespace().unwrap_or_default(), service);
            queue.add(Key { cluster: of.cluster.clone(), service });
        };
        let informer = self.followed.start(&member, &key.service, &self.mechanism.selector(), note);
        if !informer.has_synced() {
            return Ok(None);
        }
        let found = informer.cache().by_index(labels::KUBERNETES_SERVICE_NAME, key.service.name());
        found.iter().map(|slice| decoded(slice.key(), slice.to_value())).collect::<Result<Vec<Value>>>().map(Some)
    }

    async fn execute(&self, key: &Key, change: Change) -> Result<()> {
        match change {
            Change::Create(work) => slice_works::create(&self.context, &work).await,
            Change::Update { work, takes_off } => {
                if takes_off {
                    self.confirm_end(key).await?;
                }
                slice_works::update(&self.context, &work).await
            }
            Change::Delete { work, proof } => {
                match proof {
                    Proof::Ended => self.confirm_end(key).await?,
                    Proof::SliceGone(slice) => self.confirm_gone(key, &slice).await?,
                    Proof::Double => {}
                }
                slice_works::delete(&self.context, &work).await
            }
        }
    }

    /// Confirms with the server that the Work that selected the Service was deleted.
    async fn confirm_end(&self, key: &Key) -> Result<()> {
        let source = key.source(self.mechanism);
        match certain(&self.context.client, &Work::api_resource(), &source).await? {
            Some(live) if !live.is_deleting() => {
                Err(Error::Wait(format!("work {source} exists, and the cache lags; slices of {key:?} stay")))
            }
            _ => Ok(()),
        }
    }

    /// The member confirms that it has no such slice of the Service.
    async fn confirm_gone(&self, key: &Key, slice: &ObjectKey) -> Result<()> {
        let cluster = self.context.clusters.get(&key.cluster);
        let cluster = cluster.ok_or_else(|| Error::Wait(format!("cluster {} does not exist", key.cluster)))?;
        let member: Arc<Member> = identity::writable(&self.context, &cluster).await?;
        let live = certain(&member.client, &slices(), slice).await?;
        let is_there = live.is_some_and(|live| live.label(labels::KUBERNETES_SERVICE_NAME) == Some(key.service.name()));
        match is_there {
            true => Err(Error::Wait(format!("cluster {} has EndpointSlice {slice}, and the cache lags", key.cluster))),
            false => Ok(()),
        }
    }
}
