//! The page of a FederatedHPA: the decision that the controller would make now, and the metrics it is based on.
//!
//! The controller keeps recent recommendations in its memory. The page decides without them, and takes from the conditions
//! of the status whether they hold the change back.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey};
use autoscaling::Settings;
use autoscaling::conditions::Obstacle;
use autoscaling::history::History;
use autoscaling::plan::{Input, Plan, decide};
use autoscaling::reading::Member;
use autoscaling::spec::Spec;
use client::{Client, Mapper};
use futures::future::BoxFuture;
use jiff::Timestamp;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::{FederatedHPA, HorizontalPodAutoscalerCondition};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use readings::{Connect, Direct, Kinds, Readings, Request};
use serde_json::Value;

use super::capacity;
use super::page::Page;
use crate::error::Error;
use crate::servers;

/// The inputs of a page.
pub struct Facts {
    hpa: FederatedHPA,
    spec: Spec,
    replicas: i32,
    members: Vec<Member>,
    /// Clusters of the binding that are not ready.
    not_ready: Vec<String>,
    /// The target's binding and all clusters, for the prediction of capacity.
    binding: Option<Binding>,
    clusters: Vec<Arc<Cluster>>,
    /// Why the members could not be read.
    obstacle: Option<Obstacle>,
    now: Timestamp,
}

/// Members through the control plane, with the user's own rights.
struct Proxied {
    control: Client,
    mapper: Mapper,
}

impl Connect for Proxied {
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Client, String>> {
        Box::pin(async move { Ok(servers::member(&self.control, cluster)) })
    }
}

impl Kinds for Proxied {
    fn resource<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<ApiResource>> {
        Box::pin(async move { self.mapper.resource(kind).await.ok() })
    }
}

/// Reads a FederatedHPA, its target, and the target in the members.
///
/// # Errors
/// When the FederatedHPA cannot be read; other errors are part of the page.
pub async fn read(client: &Client, key: &ObjectKey, now: Timestamp) -> Result<Facts, Error> {
    let object = client.get(&FederatedHPA::api_resource(), key).await;
    let object = object.map_err(Error::client(format!("get federatedhpa {key}")))?;
    let unreadable =
        |error: &dyn std::fmt::Display| Error::message(format!("FederatedHPA {key} cannot be read: {error}"));
    let hpa = FederatedHPA::from_object(&object).map_err(|error| unreadable(&error))?;
    let spec = Spec::of(&hpa.spec).map_err(|error| unreadable(&error))?;
    let mut facts = Facts {
        hpa,
        spec,
        replicas: 0,
        members: Vec::new(),
        not_ready: Vec::new(),
        binding: None,
        clusters: Vec::new(),
        obstacle: None,
        now,
    };
    if let Err(obstacle) = read_members(client, &mut facts).await {
        facts.obstacle = Some(obstacle);
    }
    Ok(facts)
}

async fn read_members(client: &Client, facts: &mut Facts) -> Result<(), Obstacle> {
    let (reference, namespace) = (&facts.hpa.spec.scale_target_ref, facts.hpa.metadata.namespace.as_str());
    let target = |error: &dyn std::fmt::Display| Obstacle::Target(error.to_string());
    let kind = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind);
    let kind = kind.map_err(|error| target(&error))?;
    let mapper = Mapper::new(client.clone());
    let resource = mapper.resource(&kind).await.map_err(|error| target(&error))?;
    let key = ObjectKey::namespaced(namespace, reference.name.as_str());
    let template = client.get(&resource, &key).await.map_err(|error| target(&error))?;
    let binding = binding(client, &names::binding_name(&reference.kind, &reference.name), &template).await?;
    let unknown = |error: Error| Obstacle::Clusters(error.to_string());
    facts.clusters = crate::placement::source::clusters(client).await.map_err(unknown)?;
    let is_ready = |name: &str| facts.clusters.iter().any(|it| it.metadata.name == name && it.is_ready());
    let targets = binding.spec.clusters.iter().map(|target| target.name.clone());
    let (ready, not_ready): (Vec<String>, Vec<String>) = targets.partition(|name| is_ready(name));
    facts.not_ready = not_ready;
    facts.binding = Some(binding);
    if ready.is_empty() {
        return Err(Obstacle::unready(!facts.not_ready.is_empty()));
    }
    let scale = readings::scale(client, &resource, &key).await;
    let scale = scale.map_err(|error| Obstacle::Scale(error.to_string()))?;
    facts.replicas = i32::try_from(scale["spec"]["replicas"].as_i64().unwrap_or(0)).unwrap_or(0);
    let direct = Direct::new(Proxied { control: client.clone(), mapper });
    let request = Request { resource: &resource, key: &key, clusters: &ready, spec: &facts.spec };
    facts.members = direct.read(request).await;
    Ok(())
}

/// The target's binding.
async fn binding(client: &Client, name: &str, template: &Object) -> Result<Binding, Obstacle> {
    let key = ObjectKey::namespaced(template.namespace().unwrap_or_default(), name);
    let found = client.get_opt(&Binding::api_resource(Scope::Namespaced), &key).await;
    let found = found.map_err(|error| Obstacle::Binding(error.to_string()))?;
    let is_claimed = Scope::ALL.into_iter().any(|scope| template.label(scope.policy_id_label()).is_some());
    let unbound = || Obstacle::unbound(!template.labels().is_empty(), is_claimed);
    let binding =
        Binding::decode(&*found.ok_or_else(unbound)?).map_err(|error| Obstacle::Binding(error.to_string()))?;
    if binding.spec.resource.uid != template.uid() {
        return Err(unbound());
    }
    Ok(binding)
}

/// The page.
pub fn page(facts: &Facts) -> Page {
    let hpa = &facts.hpa;
    let target = &hpa.spec.scale_target_ref;
    let subject = format!("FederatedHPA {}/{}", hpa.metadata.namespace, hpa.metadata.name);
    let mut page = Page { subject, ..Page::default() };
    let settings = Settings::default();
    let input = Input {
        namespace: &hpa.metadata.namespace,
        spec: &facts.spec,
        settings: &settings,
        now: facts.now,
        replicas: facts.replicas,
        members: &facts.members,
        competing: &[],
    };
    let plan = match &facts.obstacle {
        Some(obstacle) => Err(obstacle.clone()),
        None => decide(&input, &mut History::outdated()),
    };
    match &plan {
        Ok(plan) => {
            page.answer = plan.answer();
            if let Some(why) = held_back(plan.current, plan.desired, &hpa.status.conditions) {
                page.answer = format!("stays at {}, later {}", plan.current, plan.answer());
                page.waiting = vec![format!("stabilization: {why}")];
            }
            page.next = vec![next(plan, &hpa.metadata.namespace, &target.kind, &target.name)];
        }
        Err(obstacle) => {
            let (condition, _) = obstacle.report();
            page.answer = condition.message;
            page.next = vec![format!("karmadactl why {}/{} -n {}", target.kind, target.name, hpa.metadata.namespace)];
        }
    }
    let bounds = format!("{} to {} replicas", facts.spec.min, facts.spec.max);
    page.lines("Target", vec![format!("{} {}, {bounds}", target.kind, target.name)]);
    if let Ok(plan) = &plan {
        evidence(&mut page, plan);
    }
    page.lines("Not ready", facts.not_ready.clone());
    if let (Ok(plan), Some(binding)) = (&plan, &facts.binding) {
        let numbers: Vec<i32> = plan.desired.into_iter().chain([facts.spec.max]).collect();
        page.lines("Capacity", capacity::lines(binding, &facts.clusters, &numbers));
    }
    let conditions = hpa.status.conditions.iter();
    page.lines(
        "Status",
        conditions.map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message)).collect(),
    );
    page
}

/// Why the controller does not make the change yet.
fn held_back(current: i32, desired: Option<i32>, conditions: &[HorizontalPodAutoscalerCondition]) -> Option<&str> {
    let reason = match desired?.cmp(&current) {
        Ordering::Less => "ScaleDownStabilized",
        Ordering::Greater => "ScaleUpStabilized",
        Ordering::Equal => return None,
    };
    conditions.iter().find(|it| it.type_ == "AbleToScale" && it.reason == reason).map(|it| it.message.as_str())
}

fn next(plan: &Plan, namespace: &str, kind: &str, name: &str) -> String {
    let failed: BTreeSet<&str> =
        plan.metrics.iter().filter_map(|it| it.outcome.as_ref().err()).map(|failure| failure.reason).collect();
    if !plan.unanswered.is_empty() || plan.desired.is_some() && failed.is_empty() {
        return format!("karmadactl why {kind}/{name} -n {namespace} shows the workload in its clusters");
    }
    "check that the clusters serve the metrics, and that the pods have requests".to_owned()
}

fn evidence(page: &mut Page, plan: &Plan) {
    page.lines("Steps", plan.steps().into_iter().collect());
    let factor = format!("the clusters have {:.2} replicas for each of the template", plan.calibration);
    page.lines("Replicas", if (plan.calibration - 1.0).abs() > 1e-9 { vec![factor] } else { Vec::new() });
    page.lines("Metrics", plan.metrics.iter().map(autoscaling::proposal::Report::line).collect());
    let mut rows = Vec::new();
    for report in &plan.metrics {
        for share in &report.shares {
            let (pods, counted) = share.pods;
            let metric = report.title.split(',').next().unwrap_or_default().to_owned();
            rows.push([metric, share.cluster.clone(), pods.to_string(), counted.to_string(), share.words()]);
        }
    }
    page.table(["METRIC", "CLUSTER", "PODS", "COUNTED", "VALUE"], rows);
    page.lines("Left out", plan.metrics.iter().flat_map(autoscaling::proposal::Report::left_out_lines).collect());
    page.lines("No answer", plan.unanswered.iter().map(|(cluster, error)| format!("{cluster}: {error}")).collect());
    if let Value::Object(facts) = plan.to_value() {
        page.facts.extend(facts);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stabilized_change_is_held_back() {
        for (current, desired, reason, expected) in [
            (4, Some(2), "ScaleDownStabilized", Some("recent")),
            (4, Some(6), "ScaleUpStabilized", Some("recent")),
            // The status is of an earlier decision.
            (4, Some(6), "ScaleDownStabilized", None),
            (4, Some(4), "ScaleDownStabilized", None),
            (4, Some(2), "ReadyForNewScale", None),
            (4, None, "ScaleDownStabilized", None),
        ] {
            let condition = json!({"type": "AbleToScale", "status": "True", "reason": reason, "message": "recent"});
            let conditions = [serde_json::from_value(condition).expect("a condition")];
            assert_eq!(held_back(current, desired, &conditions), expected, "{current} {desired:?} {reason}");
        }
    }
}
