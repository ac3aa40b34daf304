//! `schedule --dry-run`.

use client::Client;
use interpreter::Interpreter;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use propagation::namespaces;
use propagation::template::Template;
use scheduling::forecast::{Forecast, Taken, after, forecast as foresee};
use scheduling::report::Report;
use scheduling::{Gates, Snapshot};
use serde_json::{Value, json};

use super::source::{Manifests, bindings, clusters, policies, snapshot};
use super::{ScheduleArgs, concerned, print};
use crate::error::Error;
use crate::{Context, interpreting};

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
    let default = args.namespace.clone().unwrap_or_else(|| context.namespace());
    let mut manifests = Manifests::default();
    for path in &args.filename {
        manifests.extend(Manifests::read(path).await?);
    }
    manifests.set_namespaces(&default);
    let has_templates = !manifests.templates.is_empty();
    // With clusters in files, no server is contacted.
    let interpreter = match manifests.clusters.is_empty() {
        true => complete(&mut manifests, &context.control_plane().await?).await?,
        false => Interpreter::default(),
    };
    let running = &mut manifests.bindings;
    // As in the scheduler's queue: by priority; earlier bindings reduce the capacity of later ones.
    let urgency = |binding: &Binding| binding.spec.schedule_priority.as_ref().map_or(0, |it| it.priority);
    running.sort_by_key(|it| (std::cmp::Reverse(urgency(it)), it.metadata.namespace.clone(), it.metadata.name.clone()));
    let inputs =
        Inputs { manifests: &manifests, snapshot: snapshot(&manifests.clusters, without)?, without, interpreter };
    let mut taken = Taken::default();
    let mut forecasts: Vec<WorkloadForecast> =
        manifests.templates.iter().map(|it| inputs.of_template(it, &mut taken)).collect();
    if !has_templates {
        let is_template = |binding: &Binding| manifests.templates.iter().any(|it| is_about(binding, it));
        let others = manifests.bindings.iter().filter(|binding| !is_template(binding));
        forecasts.extend(others.filter_map(|binding| inputs.of_binding(binding, &mut taken)));
    }
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

/// Whether a binding is that of a template.
fn is_about(binding: &Binding, template: &Value) -> bool {
    let template = Template(template);
    binding.metadata.namespace == template.namespace()
        && binding.metadata.name == names::binding_name(template.kind(), template.name())
}

/// Adds the state of the server: clusters, policies, bindings, and the templates that the policies of the files concern.
async fn complete(manifests: &mut Manifests, client: &Client) -> Result<Interpreter, Error> {
    manifests.clusters = clusters(client).await?;
    for scope in Scope::ALL {
        manifests.bindings.extend(bindings(client, scope, None).await?);
    }
    let concerned = concerned::templates(client, manifests).await?;
    manifests.templates.extend(concerned);
    let from_files: Vec<_> = manifests.policies.iter().map(|policy| (policy.scope, policy.key())).collect();
    let others = policies(client).await?.into_iter();
    manifests.policies.extend(others.filter(|policy| !from_files.contains(&(policy.scope, policy.key()))));
    interpreting::interpreter(client).await
}

/// The state that forecasts start from.
struct Inputs<'a> {
    manifests: &'a Manifests,
    snapshot: Snapshot,
    without: &'a [String],
    interpreter: Interpreter,
}

impl Inputs<'_> {
    fn left(&self, binding: &Binding) -> Binding {
        let mut left = binding.clone();
        left.spec.clusters.retain(|target| !self.without.contains(&target.name));
        left
    }

    /// The forecast of a running binding that is rescheduled without the clusters.
    fn of_binding(&self, binding: &Binding, taken: &mut Taken) -> Option<WorkloadForecast> {
        let hit = binding.spec.clusters.iter().any(|target| self.without.contains(&target.name));
        if !hit {
            return None;
        }
        let (now, resource) = (places(binding), &binding.spec.resource);
        let report = after(taken, &self.left(binding), &self.snapshot, &Gates::default());
        // An attached workload follows the one that requires it.
        let then = report.as_ref().map_or_else(|| "follows what requires it".to_owned(), Report::result);
        let value =
            report.map_or_else(|| json!({"binding": {"name": binding.metadata.name}}), |report| report.to_value());
        let what = named(&resource.kind, &resource.namespace, &resource.name);
        Some(WorkloadForecast { what, policy: "-".to_owned(), now, then, value })
    }

    fn of_template(&self, tree: &Value, taken: &mut Taken) -> WorkloadForecast {
        let template = Template(tree);
        let (kind, namespace, name) = (template.kind(), template.namespace(), template.name());
        let existing = self.manifests.bindings.iter().find(|it| is_about(it, tree)).map(|it| self.left(it));
        let now = existing.as_ref().map_or_else(|| "-".to_owned(), places);
        let what = named(kind, namespace, name);
        let (policies, gates) = (&self.manifests.policies, &Gates::default());
        let found = foresee(tree, policies, existing.as_ref(), &self.snapshot, &self.interpreter, gates, taken);
        let resource = json!({"kind": kind, "namespace": namespace, "name": name});
        match found {
            Forecast::Unclaimed => WorkloadForecast {
                what,
                policy: "none".to_owned(),
                then: unclaimed(template, existing.as_ref()).to_owned(),
                now,
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
}

/// The state of a workload that no policy selects.
fn unclaimed(template: Template<'_>, existing: Option<&Binding>) -> &'static str {
    match existing {
        _ if template.kind() == "Namespace" && namespaces::is_propagated(template, |_| false) => {
            "every cluster gets it"
        }
        Some(binding) if !binding.spec.required_by.is_empty() => "follows what requires it",
        Some(binding) if !binding.spec.clusters.is_empty() => "stays in its clusters: no policy selects it",
        _ => "stays in the control plane: no policy selects it",
    }
}
