//! The next step for the user: a change to make, or an event to wait for.

use std::collections::BTreeSet;

use apimachinery::ObjectKey;
use karmada_api::constants::{labels, reasons, templates};
use karmada_api::policy::v1alpha1::ActivationPreference;
use karmada_api::scope::{Binding, Policy, Scope};
use propagation::retain::reports_conflict;
use scheduling::report::Report;

use super::explanation::{Scheduling, unknown_names};
use super::failing::Failing;
use super::live::{Live, Template};
use super::places::{Obstacle, Row};
use super::selecting::{Selection, near_misses};

/// The maximum number of steps; the most important are first.
const STEPS: usize = 4;

/// At least one step. `rows` are those of the binding.
pub fn advise(
    live: &Live,
    selection: &Selection<'_>,
    binding: Option<(&Binding, &Scheduling)>,
    rows: &[Row],
    report: Option<&Report>,
) -> Vec<String> {
    let mut steps = Vec::new();
    match binding {
        None => steps.push(unbound(live, selection)),
        Some((binding, scheduling)) => {
            if live.template == Template::Missing && *scheduling != Scheduling::Deleting {
                let name = binding_name(binding);
                steps.push(format!(
                    "the workload was deleted and left its copies: create it again, or remove them with: kubectl delete {name}"
                ));
            }
            steps.extend(of_scheduling(binding, scheduling));
            steps.extend(of_names(live));
            match scheduling {
                Scheduling::Failed { reason, .. } if reason == reasons::QUOTA_EXCEEDED => steps.push(of_quota(binding)),
                Scheduling::Failed { .. } => steps.extend(of_rejections(live, rows, report)),
                _ => {}
            }
            steps.extend(of_targets(live, binding, rows));
            let is_decided = matches!(scheduling, Scheduling::Scheduled | Scheduling::Waiting { .. });
            if let Some(failing) = stalled(live, rows).filter(|_| is_decided) {
                let (reason, consequence) = (&failing.reason, failing.consequence());
                steps.insert(0, format!("correct the cause named by the event {reason}: until then {consequence}"));
            }
        }
    }
    if steps.is_empty() {
        steps.push("nothing to do, it is where it is to be".to_owned());
    }
    steps.truncate(STEPS);
    steps
}

/// The failure that keeps the last change from the Works, unless the state of a target cluster names it already.
pub fn stalled<'l>(live: &'l Live, rows: &[Row]) -> Option<&'l Failing> {
    let is_named = rows.iter().any(|row| row.is_target && matches!(row.obstacle, Some(Obstacle::NotApplied(_))));
    live.failing.as_ref().filter(|_| !is_named)
}

/// `resourcebinding web-deployment -n shop`
fn binding_name(binding: &Binding) -> String {
    let kind = Binding::kind(binding.scope).to_lowercase();
    format!("{kind} {}{}", binding.metadata.name, in_namespace(&binding.metadata.namespace))
}

fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") }
}

/// Namespaces that policies cannot reach, by the defaults of the control plane.
fn is_reserved(namespace: &str) -> bool {
    namespace.starts_with("kube-")
        || namespace == "karmada-system"
        || namespace == "karmada-cluster"
        || namespace.starts_with("karmada-es-")
}

fn unbound(live: &Live, selection: &Selection<'_>) -> String {
    let workload = &live.workload;
    if let Template::Found(tree) = &live.template {
        if !tree["metadata"]["deletionTimestamp"].is_null() {
            return "nothing to do, the workload is being deleted".to_owned();
        }
        if live.is_never_propagated() {
            return format!("nothing to do: objects of kind {} stay in the control plane", workload.kind);
        }
        if is_reserved(&workload.namespace) {
            return format!(
                "move the workload to another namespace: those of {} are never propagated",
                workload.namespace
            );
        }
        if templates::is_of_api_server(&workload.kind, &workload.namespace, &workload.name) {
            return "nothing to do: each API server writes this object for itself, so it is never propagated"
                .to_owned();
        }
        if let Some(by) = tree["metadata"]["labels"][labels::CLAIMED_BY].as_str().filter(|by| !by.is_empty()) {
            return format!(
                "policies leave it alone because of its label {}={by}; {by} propagates it",
                labels::CLAIMED_BY
            );
        }
    }
    match selection.best {
        None => unselected(live, !near_misses(live, selection).is_empty()),
        Some(policy) => ineffective(live, selection, policy),
    }
}

/// `is_near`: some policy nearly selects it.
fn unselected(live: &Live, is_near: bool) -> String {
    let it = &live.workload;
    let correct = if is_near { "correct the policy above, or " } else { "" };
    let policy = match it.namespace.as_str() {
        "" => "a ClusterPropagationPolicy".to_owned(),
        namespace => format!("a PropagationPolicy in namespace {namespace}"),
    };
    format!(
        "{correct}create {policy} whose spec.resourceSelectors have apiVersion {}, kind {} and name {}",
        it.api_version, it.kind, it.name
    )
}

fn ineffective(live: &Live, selection: &Selection<'_>, policy: &Policy) -> String {
    let name = selection.name_of(policy);
    let at = |name: &String| ObjectKey::namespaced(policy.metadata.namespace.as_str(), name.as_str());
    let missing: Vec<&String> = policy
        .spec
        .dependent_overrides
        .iter()
        .filter(|name| !live.overrides.iter().any(|it| it.key() == at(name)))
        .collect();
    if let Some(missing) = missing.first() {
        let kind = if policy.scope == Scope::Cluster { "ClusterOverridePolicy" } else { "OverridePolicy" };
        return format!("create the {kind} {}: {name} waits for it (spec.dependentOverrides)", at(missing));
    }
    if policy.spec.activation_preference == Some(ActivationPreference::Lazy) {
        return format!(
            "change the workload: {name} has activationPreference Lazy and takes effect with its next change"
        );
    }
    if !live.warnings.is_empty() {
        return "correct what the warning names; it is retried automatically".to_owned();
    }
    let it = &live.workload;
    format!(
        "repeat this in a few seconds; if nothing changes, see whether the controllers of the control plane run: kubectl get \
         events{} --field-selector involvedObject.name={}",
        in_namespace(&it.namespace),
        it.name
    )
}

fn of_scheduling(binding: &Binding, scheduling: &Scheduling) -> Option<String> {
    Some(match scheduling {
        Scheduling::Deleting => "nothing to do, its copies are being removed".to_owned(),
        Scheduling::OtherScheduler(name) => {
            format!("run the scheduler {name:?}, or remove spec.schedulerName from the policy")
        }
        Scheduling::Suspended => format!(
            "resume scheduling: kubectl patch {} --type=merge -p '{{\"spec\":{{\"suspension\":{{\"scheduling\":false}}}}}}'",
            binding_name(binding)
        ),
        Scheduling::Released => {
            "create a policy that selects it, or delete the workload to remove its copies".to_owned()
        }
        Scheduling::Follows(requirers) if binding.spec.required_by.iter().all(|it| it.clusters.is_empty()) => {
            let first = requirers.first().map(String::as_str).unwrap_or_default();
            let (namespace, name) = first.split_once('/').unwrap_or_default();
            format!("see why what needs it is nowhere: karmadactl explain-placement {name}{}", in_namespace(namespace))
        }
        Scheduling::Waiting { .. } => {
            "repeat this in a few seconds; if nothing changes, see whether the scheduler of the control plane runs"
                .to_owned()
        }
        Scheduling::Follows(_) | Scheduling::Failed { .. } | Scheduling::Scheduled => return None,
    })
}

fn of_quota(binding: &Binding) -> String {
    let within = in_namespace(&binding.spec.resource.namespace);
    format!(
        "raise the quota or lower the replicas: kubectl get federatedresourcequotas{within}; the scheduler retries automatically"
    )
}

fn of_names(live: &Live) -> Option<String> {
    let unknown = unknown_names(live);
    let first = unknown.first()?;
    let known: Vec<&str> = live.clusters.iter().map(|cluster| cluster.metadata.name.as_str()).take(10).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Some(format!(
        "correct the cluster names in the policy (there are: {known}), or join the missing: karmadactl join {first} \
         --cluster-kubeconfig=FILE"
    ))
}

/// Clusters that the policy permits and another filter rejects.
fn of_rejections(live: &Live, rows: &[Row], report: Option<&Report>) -> Vec<String> {
    let with = |obstacle: &Obstacle| -> Vec<&str> {
        let is_out = |row: &&Row| !row.is_target && row.obstacle.as_ref() == Some(obstacle);
        rows.iter().filter(is_out).map(|row| row.cluster.as_str()).take(5).collect()
    };
    let mut steps = Vec::new();
    let cordoned = with(&Obstacle::Cordoned);
    steps.extend(
        cordoned.first().map(|name| format!("let it back into {}: karmadactl uncordon {name}", cordoned.join(", "))),
    );
    steps.extend(not_ready(&with(&Obstacle::NotReady)));
    let tainted = with(&Obstacle::Tainted);
    if !tainted.is_empty() {
        let names = tainted.join(", ");
        steps.push(format!(
            "tolerate the taints of {names} in spec.placement.clusterTolerations of the policy, or remove them"
        ));
    }
    let unserved = with(&Obstacle::NotServed);
    if !unserved.is_empty() {
        let (it, names) = (&live.workload, unserved.join(", "));
        let how = match it.api_version.contains('.') {
            true => "propagate its CustomResourceDefinition to them with a ClusterPropagationPolicy",
            false => "a newer version of Kubernetes is needed there",
        };
        steps.push(format!("make {} {} available in {names}: {how}", it.api_version, it.kind));
    }
    if !with(&Obstacle::NotSpread).is_empty() {
        steps.push("set spec.provider, spec.region or spec.zones of the clusters, or relax spec.placement.spreadConstraints of the policy".to_owned());
    }
    if let Some(shortage) = report.and_then(|report| report.shortage) {
        let (required, available) = (shortage.required, shortage.available.max(0));
        steps.push(format!(
            "lower the replicas or their resource requests, or add nodes: {required} wanted, the clusters that the policy admits \
             have room for {available}"
        ));
    } else if !with(&Obstacle::NoRoom).is_empty() {
        steps.push("lower the replicas or their resource requests, or add nodes".to_owned());
    }
    if steps.is_empty() && unknown_names(live).is_empty() {
        steps.push(
            "correct spec.placement of the policy: its clusterAffinity and spreadConstraints leave no choice"
                .to_owned(),
        );
    }
    steps
}

fn not_ready(names: &[&str]) -> Option<String> {
    // The Cluster has no reason; `doctor` calls the member.
    (!names.is_empty()).then(|| format!("see why {} does not answer: karmadactl doctor", names.join(", ")))
}

/// The problems in the workload's target clusters.
fn of_targets(live: &Live, binding: &Binding, rows: &[Row]) -> Vec<String> {
    let targets = || rows.iter().filter(|row| row.is_target);
    let with = |obstacle: &Obstacle| -> Vec<&str> {
        targets()
            .filter(|row| row.obstacle.as_ref() == Some(obstacle))
            .map(|row| row.cluster.as_str())
            .take(5)
            .collect()
    };
    let it = &live.workload;
    let mut steps = Vec::new();
    let refused = |conflict: bool| -> BTreeSet<&str> {
        let is_one = |row: &&Row| match &row.obstacle {
            Some(Obstacle::NotApplied(message)) => reports_conflict(message) == conflict,
            _ => false,
        };
        targets().filter(is_one).map(|row| row.cluster.as_str()).collect()
    };
    let (failed, taken) = (refused(false), refused(true));
    if !taken.is_empty() {
        steps.push(format!(
            "{} has an object of this name that Karmada does not manage: delete it there, or take it over with \
             spec.conflictResolution: Overwrite in the policy",
            taken.into_iter().collect::<Vec<_>>().join(", "),
        ));
    }
    let held = with(&Obstacle::ResumePending);
    if let Some(first) = held.first() {
        steps.push(format!(
            "confirm what changes in {}, which is newer than the store: karmadactl resume {first} --dry-run",
            held.join(", ")
        ));
    }
    if let Some(first) = failed.first() {
        steps.push(format!(
            "correct the cause named for {}; it is retried automatically. More: kubectl describe {} and kubectl get works -n karmada-es-{first}",
            failed.iter().copied().collect::<Vec<_>>().join(", "),
            binding_name(binding)
        ));
    }
    let suspended = with(&Obstacle::Suspended);
    if !suspended.is_empty() {
        steps.push(format!("resume dispatching to {}: remove spec.suspension from the policy", suspended.join(", ")));
    }
    steps.extend(not_ready(&with(&Obstacle::NotReady)));
    if let Some(first) = with(&Obstacle::NoSuchCluster).first() {
        steps.push(format!("wait: it is moved away from {first}, which has left the control plane"));
    }
    if let Some(first) = with(&Obstacle::Unhealthy).first() {
        steps.push(format!(
            "look at it in {first}: karmadactl get {} {}{} --operation-scope=members --clusters={first}",
            it.kind.to_lowercase(),
            it.name,
            in_namespace(&it.namespace)
        ));
    }
    if steps.is_empty() && !with(&Obstacle::InFlight).is_empty() {
        steps.push("repeat this in a few seconds: it is being applied".to_owned());
    }
    steps
}
