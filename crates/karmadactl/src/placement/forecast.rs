//! `schedule --dry-run`.

use interpreter::Interpreter;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use scheduling::forecast::{Forecast, Taken, after, forecast as foresee};
use scheduling::report::Report;
use scheduling::{Gates, Snapshot};
use serde_json::{Value, json};

use super::source::{Manifests, bindings, clusters, policies, snapshot};
use super::{ScheduleArgs, print};
use crate::Context;
use crate::error::Error;

/// The forecast for one workload.
struct WorkloadForecast {
    what: String,
    /// The policy that takes it, for templates.
    policy: String,
    now: String,
    then: String,
    value: Value,
}

/// Predicts the placement of templates, or of all running workloads after the removal of clusters.
pub async fn forecast(context: &Context, args: &ScheduleArgs) -> Result<(), Error> {
    let form = args.shared.form()?;
    if !args.dry_run {
        return Err(Error::message("only --dry-run is possible: it is the scheduler that schedules"));
    }
    let without = &args.shared.without_cluster;
    if args.filename.is_empty() && without.is_empty() {
        return Err(Error::message("must specify -f FILE, --without-cluster, or both"));
    }
    let mut manifests = Manifests::default();
    for path in &args.filename {
        manifests.extend(Manifests::read(path)?);
    }
    // With clusters and policies in files, no server is contacted.
    let is_offline = !manifests.clusters.is_empty();
    let mut running = std::mem::take(&mut manifests.bindings);
    if !is_offline {
        let client = context.control_plane().await?;
        manifests.clusters = clusters(&client).await?;
        let from_files: Vec<_> = manifests.policies.iter().map(|policy| (policy.scope, policy.key())).collect();
        let others = policies(&client).await?.into_iter();
        manifests.policies.extend(others.filter(|policy| !from_files.contains(&(policy.scope, policy.key()))));
        for scope in Scope::ALL {
            running.extend(bindings(&client, scope, None).await?);
        }
    }
    let default = args.namespace.clone().unwrap_or_else(|| context.namespace());
    let snapshot = snapshot(&manifests.clusters, without)?;
    // As in the scheduler's queue: by priority; earlier bindings reduce the capacity of later ones.
    let urgency = |binding: &Binding| binding.spec.schedule_priority.as_ref().map_or(0, |it| it.priority);
    running.sort_by_key(|it| (std::cmp::Reverse(urgency(it)), it.metadata.namespace.clone(), it.metadata.name.clone()));
    let mut taken = Taken::default();
    let forecasts: Vec<WorkloadForecast> = if manifests.templates.is_empty() {
        running.iter().filter_map(|binding| existing_workload(binding, &snapshot, without, &mut taken)).collect()
    } else {
        let templates = manifests.templates.iter();
        templates.map(|it| new_workload(it, &default, &manifests, &running, &snapshot, without, &mut taken)).collect()
    };
    let items: Vec<&Value> = forecasts.iter().map(|workload| &workload.value).collect();
    print(context, form, &json!({"items": items}), || shown(&forecasts));
    Ok(())
}

fn shown(forecasts: &[WorkloadForecast]) -> String {
    if forecasts.is_empty() {
        return "Nothing would change.\n".to_owned();
    }
    let head = ["WORKLOAD", "POLICY", "NOW", "THEN"].map(str::to_owned).to_vec();
    let row = |workload: &WorkloadForecast| {
        vec![workload.what.clone(), workload.policy.clone(), workload.now.clone(), workload.then.clone()]
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(forecasts.iter().map(row)).collect();
    crate::table::Layout::default().render(&lines)
}

fn places(binding: &Binding) -> String {
    let targets = binding.spec.clusters.iter().map(|it| format!("{}:{}", it.name, it.replicas));
    let targets: Vec<String> = targets.collect();
    if targets.is_empty() { "-".to_owned() } else { targets.join(" ") }
}

fn named(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// The forecast of a running binding that is rescheduled without the clusters.
fn existing_workload(
    binding: &Binding,
    snapshot: &Snapshot,
    without: &[String],
    taken: &mut Taken,
) -> Option<WorkloadForecast> {
    let hit = binding.spec.clusters.iter().any(|target| without.contains(&target.name));
    if !hit {
        return None;
    }
    let (now, resource) = (places(binding), &binding.spec.resource);
    let mut left = binding.clone();
    left.spec.clusters.retain(|target| !without.contains(&target.name));
    let report = after(taken, &left, snapshot, &Gates::default());
    // An attached workload follows the one that requires it.
    let then = report.as_ref().map_or_else(|| "follows what requires it".to_owned(), Report::result);
    let value = report.map_or_else(|| json!({"binding": {"name": binding.metadata.name}}), |report| report.to_value());
    let what = named(&resource.kind, &resource.namespace, &resource.name);
    Some(WorkloadForecast { what, policy: "-".to_owned(), now, then, value })
}

fn new_workload(
    template: &Value,
    default_namespace: &str,
    manifests: &Manifests,
    running: &[Binding],
    snapshot: &Snapshot,
    without: &[String],
    taken: &mut Taken,
) -> WorkloadForecast {
    let mut template = template.clone();
    let policies = &manifests.policies;
    let text = |template: &Value, field: &str| template["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (kind, name) = (template["kind"].as_str().unwrap_or_default().to_owned(), text(&template, "name"));
    // Only the server knows the scope of a kind; without a namespace, a namespaced policy cannot select the template.
    if text(&template, "namespace").is_empty() && !is_cluster_scoped(&kind) && template["metadata"].is_object() {
        template["metadata"]["namespace"] = default_namespace.into();
    }
    let namespace = text(&template, "namespace");
    let binding_name = names::binding_name(&kind, &name);
    let existing = running.iter().find(|it| it.metadata.namespace == namespace && it.metadata.name == binding_name);
    let existing = existing.cloned().map(|mut binding| {
        binding.spec.clusters.retain(|target| !without.contains(&target.name));
        binding
    });
    let now = existing.as_ref().map_or_else(|| "-".to_owned(), places);
    let what = named(&kind, &namespace, &name);
    let interpreter = Interpreter::default();
    let found = foresee(&template, policies, existing.as_ref(), snapshot, &interpreter, &Gates::default(), taken);
    let resource = json!({"kind": kind, "namespace": namespace, "name": name});
    match found {
        Forecast::Unclaimed => WorkloadForecast {
            what,
            policy: "none".to_owned(),
            now,
            then: "stays in the control plane: no policy selects it".to_owned(),
            value: json!({"resource": resource, "policy": null}),
        },
        Forecast::Broken { policy, error } => WorkloadForecast {
            what,
            now,
            then: error.to_string(),
            value: json!({"resource": resource, "policy": policy, "error": error.to_string()}),
            policy,
        },
        Forecast::Placed { policy, report, .. } => {
            let mut value = report.to_value();
            value["policy"] = policy.as_str().into();
            WorkloadForecast { what, policy, now, then: report.result(), value }
        }
    }
}

/// The built-in kinds without a namespace that policies are written for; a custom one is recognized by its
/// missing namespace, in a file together with a cluster policy.
fn is_cluster_scoped(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "CustomResourceDefinition"
            | "PersistentVolume"
            | "StorageClass"
            | "PriorityClass"
            | "IngressClass"
            | "ValidatingWebhookConfiguration"
            | "MutatingWebhookConfiguration"
            | "APIService"
    )
}
