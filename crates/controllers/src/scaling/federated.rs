//! FederatedHPA: reads the workload in its clusters, decides, writes the template's scale and the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey, Status};
use autoscaling::conditions::{self, Condition, Notice, Obstacle};
use autoscaling::history::History;
use autoscaling::plan::{Input, Plan, decide};
use autoscaling::spec::{Source, Spec};
use client::{Client, Patch, PatchOptions};
use controller_runtime::{EventRecorder, Next, WorkQueue, run_workers};
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::{FederatedHPA, FederatedHPAStatus};
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;
use readings::{Connect, Direct, Kinds, Readings, Request};
use serde_json::json;

use super::metrics::OfFederated;
use super::others::Others;
use super::target::{Target, locate};
use crate::error::{During, Error, Result, decoded};
use crate::member_scaling::is_claimed;
use crate::{Context, Members, metrics, templates};

/// The name of the controller, and the source of its events.
const NAME: &str = "federatedHPA-controller";
/// They wait for members most of the time; `readings` bounds the requests.
const WORKERS: usize = 64;

struct Controller {
    context: Context,
    readings: Box<dyn Readings>,
    others: Others,
    /// By key, with the UID of the FederatedHPA.
    histories: Mutex<BTreeMap<ObjectKey, (String, History)>>,
    recorder: EventRecorder,
    metrics: OfFederated,
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&FederatedHPA::api_resource());
    let controller = Arc::new(Controller {
        readings: Box::new(Direct::new(Connections::of(&context))),
        others: Others::of(&context),
        histories: Mutex::default(),
        recorder: context.recorder.for_component(NAME),
        metrics: OfFederated::new(&context.metrics.registry),
        context: context.clone(),
    });
    let keys = queue.clone();
    informer.subscribe(move |event| {
        // Its own writes of the status are no reason for a pass.
        if event.changes_generation() {
            keys.add(event.object().key());
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    })
    .await;
}

fn decode(object: &Object) -> Result<FederatedHPA> {
    decoded(object.key(), FederatedHPA::from_object(object))
}

/// The members of the control plane, as [`readings`] reads them.
struct Connections {
    members: Members,
    mapper: client::Mapper,
}

impl Connections {
    fn of(context: &Context) -> Self {
        Self { members: context.members.clone(), mapper: client::Mapper::new(context.client.clone()) }
    }
}

impl Connect for Connections {
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, std::result::Result<Client, String>> {
        Box::pin(async move {
            let member = self.members.reading(cluster).await.map_err(|error| error.to_string())?;
            Ok(member.client.clone())
        })
    }
}

impl Kinds for Connections {
    fn resource<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<ApiResource>> {
        Box::pin(async move { self.mapper.resource(kind).await.ok() })
    }
}

impl Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Next> {
        let cached = self.context.control.informer(&FederatedHPA::api_resource()).cache().get(key);
        let Some(object) = cached.filter(|it| !it.is_deleting()) else {
            self.histories.lock().remove(key);
            return Ok(Next::Done);
        };
        let started = self.context.world.now();
        let outcome = self.pass(&object).await;
        let took = self.context.world.now().duration_since(started).unsigned_abs();
        let (action, error) = match &outcome {
            Ok((action, error)) => (*action, *error),
            Err(_) => ("none", "internal"),
        };
        let result = if error == "none" { "success" } else { "error" };
        self.metrics.process.took(&[result], took);
        self.metrics.durations.took(&[action, error], took);
        self.metrics.reconciliations.increment(&[action, error]);
        outcome?;
        Ok(Next::After(self.context.settings.scaling.sync_period))
    }

    /// One decision, executed. Returns the action and the kind of error for the metrics.
    async fn pass(&self, object: &Arc<Object>) -> Result<(&'static str, &'static str)> {
        let hpa = decode(object)?;
        let spec = Spec::of(&hpa.spec).map_err(|error| Error::Wait(error.to_string()))?;
        let target = match self.target(&hpa).await {
            Ok(target) => target,
            Err(obstacle) => return self.obstructed(object, &hpa, &obstacle).await,
        };
        let (target, clusters) = target;
        let members = self.read(&spec, &target, &clusters).await;
        let competing = self.others.competing(&hpa);
        let now = self.context.world.now();
        let input = Input {
            namespace: &hpa.metadata.namespace,
            spec: &spec,
            settings: &self.context.settings.scaling.decisions,
            now,
            replicas: target.replicas(),
            members: &members,
            competing: &competing,
        };
        let mut history = self.history(&hpa);
        let mut plan = match decide(&input, &mut history) {
            Ok(plan) => plan,
            Err(obstacle) => return self.obstructed(object, &hpa, &obstacle).await,
        };
        let action = self.execute(&mut plan, &target, &spec, &mut history).await;
        self.histories.lock().insert(object.key(), (hpa.metadata.uid.clone(), history));
        tracing::debug!(controller = NAME, object = %object.key(), plan = %plan, "Decided");
        self.record(object, &plan.events);
        let generation = Some(hpa.metadata.generation);
        self.write_status(object, &hpa, plan.status(&hpa.status, generation, now)).await?;
        Ok((action, if plan.error.is_some() { "internal" } else { "none" }))
    }

    /// The history of this object; a recreated one of the same name has none.
    fn history(&self, hpa: &FederatedHPA) -> History {
        let key = ObjectKey::namespaced(hpa.metadata.namespace.as_str(), hpa.metadata.name.as_str());
        let histories = self.histories.lock();
        let known = histories.get(&key).filter(|(uid, _)| *uid == hpa.metadata.uid);
        known.map(|(_, history)| history.clone()).unwrap_or_default()
    }

    /// Writes the scale if the plan changes it.
    async fn execute(&self, plan: &mut Plan, target: &Target, spec: &Spec, history: &mut History) -> &'static str {
        let Some(desired) = plan.desired.filter(|_| plan.rescales()) else { return "none" };
        let written = target.write(&self.context, desired).await.map_err(|error| error.to_string());
        let is_written = written.is_ok();
        plan.wrote(written);
        if !is_written {
            return "none";
        }
        history.scaled(spec.behavior.as_ref(), self.context.world.now(), plan.current, desired);
        if desired > plan.current { "scale_up" } else { "scale_down" }
    }

    /// The scaled object and the ready clusters it is in.
    async fn target(&self, hpa: &FederatedHPA) -> std::result::Result<(Target, Vec<String>), Obstacle> {
        let (context, namespace) = (&self.context, hpa.metadata.namespace.as_str());
        let reference = &hpa.spec.scale_target_ref;
        let (resource, key) = locate(context, reference, namespace).await.map_err(Obstacle::Target)?;
        let object = templates::fetch(context, &resource, &key).await;
        let object = object.map_err(|error| Obstacle::Target(error.to_string()))?;
        let missing = || Status::not_found(&resource.group, &resource.plural, &reference.name).message;
        let object = object.ok_or_else(|| Obstacle::Target(missing()))?;
        let unbound = || Obstacle::unbound(!object.labels().is_empty(), is_claimed(&object));
        let named = ObjectKey::namespaced(namespace, names::binding_name(&reference.kind, &reference.name));
        let binding = context.bindings(Scope::Namespaced).cache().get(&named).ok_or_else(unbound)?;
        let binding = Binding::decode(&binding).map_err(|error| Obstacle::Binding(error.to_string()))?;
        if binding.spec.resource.uid != object.uid() {
            return Err(unbound());
        }
        let is_scheduled = !binding.spec.clusters.is_empty();
        let is_ready = |name: &str| context.clusters.get(name).is_some_and(|it| it.is_ready());
        let clusters = binding.spec.clusters.into_iter().map(|target| target.name).filter(|name| is_ready(name));
        let clusters: Vec<String> = clusters.collect();
        if clusters.is_empty() {
            return Err(Obstacle::unready(is_scheduled));
        }
        let target = Target::of(context, resource, key).await.map_err(Obstacle::Scale)?;
        Ok((target, clusters))
    }

    async fn read(&self, spec: &Spec, target: &Target, clusters: &[String]) -> Vec<autoscaling::reading::Member> {
        let started = self.context.world.now();
        let request = Request { resource: &target.resource, key: &target.key, clusters, spec };
        let members = self.readings.read(request).await;
        let took = self.context.world.now().duration_since(started).unsigned_abs();
        let complete = if members.iter().all(|member| member.answer.is_ok()) { Ok(()) } else { Err(()) };
        let mut types: Vec<&str> = spec.metrics.iter().filter_map(|metric| metric_type(&metric.source)).collect();
        types.sort_unstable();
        types.dedup();
        for type_ in types {
            self.metrics.pull.took(&[metrics::result(&complete), type_], took);
        }
        members
    }

    async fn obstructed(
        &self,
        object: &Arc<Object>,
        hpa: &FederatedHPA,
        obstacle: &Obstacle,
    ) -> Result<(&'static str, &'static str)> {
        let (condition, notice): (Condition, Notice) = obstacle.report();
        self.record(object, &[notice]);
        let mut status = hpa.status.clone();
        conditions::set(&mut status, &[condition], self.context.now());
        self.write_status(object, hpa, status).await?;
        Ok(("none", "internal"))
    }

    fn record(&self, object: &Arc<Object>, notices: &[Notice]) {
        for notice in notices {
            match notice.is_warning {
                true => self.recorder.warning(&**object, notice.reason, notice.message.as_str()),
                false => self.recorder.normal(&**object, notice.reason, notice.message.as_str()),
            }
        }
    }

    async fn write_status(&self, object: &Arc<Object>, hpa: &FederatedHPA, mut new: FederatedHPAStatus) -> Result<()> {
        let notice = self.others.report(hpa, &mut new, self.context.now());
        self.record(object, notice.as_slice());
        if hpa.status == new {
            return Ok(());
        }
        let (resource, key) = (FederatedHPA::api_resource(), object.key());
        let status = json!({"conditions": new.conditions, "currentMetrics": new.current_metrics,
            "currentReplicas": new.current_replicas, "desiredReplicas": new.desired_replicas,
            "lastScaleTime": new.last_scale_time, "observedGeneration": new.observed_generation});
        let patch = Patch::Merge(json!({"metadata": {"uid": object.uid()}, "status": status}));
        match self.context.client.patch(&resource, &key, &patch, &PatchOptions::status()).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.recorder.warning(&**object, "FailedUpdateStatus", error.to_string());
                Err(error).during(|| format!("writing the status of FederatedHPA {key}"))
            }
        }
    }
}

/// The value of the label `metricType`.
fn metric_type(source: &Source) -> Option<&'static str> {
    match source {
        Source::Resource { .. } | Source::ContainerResource { .. } => Some("ResourceMetric"),
        Source::Pods(_) => Some("RawMetric"),
        Source::Object(..) => Some("ObjectMetric"),
        Source::External(_) => Some("ExternalMetric"),
        Source::Unknown(_) => None,
    }
}
