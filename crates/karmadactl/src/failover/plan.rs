//! `failover plan CLUSTER`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use apimachinery::meta::{Condition, Time};
use client::Client;
use jiff::Timestamp;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{conditions, taints};
use karmada_api::kubernetes::Taint;
use karmada_api::policy::v1alpha1::{ClusterPurgeMode, ClusterTaintPolicy};
use karmada_api::scope::Binding;
use propagation::failover::brake;
use propagation::failover::by_taint::{self, Options};
use propagation::status::set_condition;
use scheduling::Gates;
use scheduling::evacuation::{BindingForecast, Departure, Outcome, evacuate};
use serde_json::{Value, json};
use world::World;

use super::FailoverArgs;
use crate::error::Error;
use crate::placement::source::{clusters, each_binding};
use crate::reading::list;
use crate::resume::Form;
use crate::table::{Layout, printable};
use crate::{Context, evictions};

pub async fn run(context: &Context, args: &FailoverArgs, name: &str) -> Result<(), Error> {
    let form = Form::parse(args.output.as_deref())?;
    let purge_mode = match args.purge_mode.as_str() {
        "Gracefully" => ClusterPurgeMode::Gracefully,
        "Directly" => ClusterPurgeMode::Directly,
        other => return Err(Error::Flag(format!("--purge-mode must be 'Gracefully' or 'Directly', not {other:?}"))),
    };
    let client = context.control_plane().await?;
    let all = clusters(&client).await?;
    let Some(cluster) = all.iter().find(|it| it.metadata.name == name) else {
        return Err(Error::message(format!(
            "cluster {name} does not exist; `kubectl get clusters` lists those that do"
        )));
    };
    let now = World::system().now();
    let taints = match args.taint.as_slice() {
        [] => {
            let decode = |object: &Arc<apimachinery::Object>| ClusterTaintPolicy::from_object(object);
            let policies = list(&client, &ClusterTaintPolicy::api_resource(), None, decode).await?;
            of_a_dead_cluster(cluster, &policies, now)
        }
        texts => with(cluster, texts, now)?,
    };
    let bindings = in_cluster(&client, name).await?;
    let options = Options { purge_mode, keeps_state: true };
    let departure = Departure { cluster: name, taints: &taints, options, now };
    let forecasts = evacuate(&bindings, &all, departure, &Gates::default());
    let off = evictions::off(&client).await;
    let preview = Preview { cluster, all: &all, taints: &taints, forecasts: &forecasts, off };
    match form {
        Form::Text => context.print(&preview.text(args.limit, context.columns())),
        _ => context.print(&form.encode(&preview.value())?),
    }
    Ok(())
}

/// The table of the workloads that would leave a cluster with these taints, with the defaults of `failover plan`. A
/// NoExecute taint without a time counts as added now.
pub async fn with_taints(
    context: &Context,
    client: &Client,
    name: &str,
    mut taints: Vec<Taint>,
) -> Result<String, Error> {
    let all = clusters(client).await?;
    let Some(cluster) = all.iter().find(|it| it.metadata.name == name) else {
        return Err(Error::message(format!("cluster {name} has been deleted meanwhile")));
    };
    let now = World::system().now();
    for taint in taints.iter_mut().filter(|taint| taint.effect == taints::NO_EXECUTE) {
        taint.time_added.get_or_insert(Time::new(now));
    }
    let bindings = in_cluster(client, name).await?;
    let options = Options { purge_mode: ClusterPurgeMode::Gracefully, keeps_state: true };
    let departure = Departure { cluster: name, taints: &taints, options, now };
    let forecasts = evacuate(&bindings, &all, departure, &Gates::default());
    let preview = Preview { cluster, all: &all, taints: &taints, forecasts: &forecasts, off: None };
    Ok(preview.text(super::LIMIT, context.columns()))
}

/// The bindings of both scopes in a cluster. Other bindings are not kept in memory.
async fn in_cluster(client: &Client, cluster: &str) -> Result<Vec<Binding>, Error> {
    let mut bindings = Vec::new();
    each_binding(client, |binding| {
        if binding.spec.clusters.iter().any(|target| target.name == cluster) {
            bindings.push(binding);
        }
    })
    .await?;
    Ok(bindings)
}

/// The taints that a cluster has once it is not ready.
pub fn of_a_dead_cluster(cluster: &Cluster, policies: &[ClusterTaintPolicy], now: Timestamp) -> Vec<Taint> {
    let mut dead = cluster.clone();
    let ready = Condition { type_: conditions::READY.to_owned(), status: "False".to_owned(), ..Condition::default() };
    set_condition(&mut dead.status.conditions, ready, Time::new(now));
    propagation::taints::by_policies(&dead, policies, Time::new(now)).unwrap_or(dead.spec.taints)
}

/// The taints of a cluster, with additional ones in the form KEY, KEY=VALUE, KEY:NoExecute or KEY=VALUE:NoExecute.
///
/// # Errors
/// A taint without a key, or with another effect.
pub fn with(cluster: &Cluster, texts: &[String], now: Timestamp) -> Result<Vec<Taint>, Error> {
    let mut all = cluster.spec.taints.clone();
    for text in texts {
        let (name, effect) = text.rsplit_once(':').unwrap_or((text, taints::NO_EXECUTE));
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        if effect != taints::NO_EXECUTE || key.is_empty() {
            return Err(Error::Flag(format!(
                "--taint: {text:?} is not KEY[=VALUE][:NoExecute]; no other effect evicts"
            )));
        }
        all.retain(|taint| taint.key != key || taint.effect != effect);
        let (key, value, effect) = (key.to_owned(), value.to_owned(), effect.to_owned());
        all.push(Taint { key, value, effect, time_added: Some(Time::new(now)) });
    }
    Ok(all)
}

struct Preview<'a> {
    cluster: &'a Cluster,
    all: &'a [Arc<Cluster>],
    taints: &'a [Taint],
    forecasts: &'a [BindingForecast<'a>],
    /// Why no taint evicts now, if that is known.
    off: Option<String>,
}

#[derive(Default)]
struct Counts {
    moves: usize,
    unplaced: usize,
    stays: usize,
    /// Replicas, or workloads without replicas, by cluster.
    receivers: BTreeMap<String, i64>,
}

impl Preview<'_> {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for forecast in self.forecasts {
            match (&forecast.outcome, forecast.outcome.targets()) {
                (Outcome::Stays(_), _) => counts.stays += 1,
                (Outcome::Leaves { report: Some(_), .. }, None) => counts.unplaced += 1,
                (Outcome::Leaves { .. }, targets) => {
                    counts.moves += 1;
                    for target in targets.into_iter().flatten() {
                        let had = forecast.binding.spec.clusters.iter().find(|it| it.name == target.name);
                        let more = target.replicas - had.map_or(0, |had| had.replicas);
                        *counts.receivers.entry(target.name.clone()).or_default() += i64::from(more);
                    }
                }
            }
        }
        counts.receivers.retain(|_, replicas| *replicas > 0);
        counts
    }

    /// The reasons that would delay the evictions.
    fn notes(&self) -> Vec<String> {
        let name = &self.cluster.metadata.name;
        let mut notes = Vec::new();
        if let Some(why) = &self.off {
            notes.push(format!("Nothing leaves yet: {why}"));
        }
        if by_taint::evicting(self.taints).next().is_none() {
            notes.push(format!(
                "Nothing would leave {name} if it died: no ClusterTaintPolicy gives it a NoExecute taint then. Plan for another \
                 taint with --taint KEY"
            ));
        }
        if let Some(since) = brake::paused_since(self.cluster) {
            notes.push(format!(
                "Evictions from {name} are paused since {since}; release them with `karmadactl failover release {name}`"
            ));
        }
        if !self.all.iter().any(|it| it.metadata.name != *name && it.is_ready()) {
            notes.push("Nothing leaves while no other cluster is ready".to_owned());
        }
        notes
    }

    fn text(&self, limit: usize, columns: Option<usize>) -> String {
        let Counts { moves, unplaced, stays, receivers } = self.counts();
        let shown: Vec<String> = by_taint::evicting(self.taints).map(taint).collect();
        let mut text =
            format!("Cluster {} with the taints {}\n", self.cluster.metadata.name, or_none(&shown.join(", ")));
        let _ = writeln!(text, "{moves} workloads would move, {unplaced} would find no place, {stays} would stay");
        let receivers: Vec<String> = receivers.iter().map(|(name, replicas)| format!("{name} {replicas}")).collect();
        if !receivers.is_empty() {
            let _ = writeln!(text, "Replicas that other clusters would receive: {}", receivers.join(", "));
        }
        for note in self.notes() {
            let _ = writeln!(text, "{note}");
        }
        if self.forecasts.is_empty() {
            return text;
        }
        let most = if limit == 0 { usize::MAX } else { limit };
        let heading = ["WORKLOAD", "PRIORITY", "LEAVES", "NOW", "THEN", "REASON"].map(str::to_owned).to_vec();
        let mut layout = Layout::fitting(columns, &heading);
        let lines: Vec<Vec<String>> =
            std::iter::once(heading).chain(self.forecasts.iter().take(most).map(row)).collect();
        text.push('\n');
        text.push_str(&layout.render(&lines));
        if let Some(more) = self.forecasts.len().checked_sub(most).filter(|more| *more > 0) {
            let _ = writeln!(text, "... and {more} more; print all with --limit 0 or -o json");
        }
        text
    }

    fn value(&self) -> Value {
        let Counts { moves, unplaced, stays, receivers } = self.counts();
        json!({
            "cluster": self.cluster.metadata.name,
            "taints": by_taint::evicting(self.taints).collect::<Vec<_>>(),
            "summary": {"moves": moves, "unplaced": unplaced, "stays": stays, "receivers": receivers},
            "notes": self.notes(),
            "items": self.forecasts.iter().map(item).collect::<Vec<_>>(),
        })
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

fn taint(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

/// `Deployment shop/web`.
fn workload(binding: &Binding) -> String {
    let resource = &binding.spec.resource;
    match resource.namespace.as_str() {
        "" => format!("{} {}", resource.kind, resource.name),
        namespace => format!("{} {namespace}/{}", resource.kind, resource.name),
    }
}

fn row(forecast: &BindingForecast<'_>) -> Vec<String> {
    let now: Vec<String> =
        forecast.binding.spec.clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    let (leaves, then, reason) = match &forecast.outcome {
        Outcome::Stays(why) => ("no".to_owned(), "-".to_owned(), why.clone()),
        Outcome::Leaves { after, message, report } => {
            let leaves = if after.is_zero() { "now".to_owned() } else { format!("in {}s", after.as_secs()) };
            match (report, forecast.outcome.targets()) {
                (None, _) => (leaves, "-".to_owned(), "follows the workload that requires it".to_owned()),
                (Some(report), Some(_)) => (leaves, report.result(), message.clone()),
                (Some(report), None) => (leaves, "no place".to_owned(), shortage(report)),
            }
        }
    };
    let row = [workload(forecast.binding), forecast.priority.to_string(), leaves, now.join(" "), then, reason];
    row.map(|cell| printable(&cell)).to_vec()
}

fn shortage(report: &scheduling::report::Report) -> String {
    match report.shortage {
        Some(it) => {
            format!(
                "{}: {} wanted, room for {} in {} clusters",
                report.result(),
                it.required,
                it.available,
                it.clusters
            )
        }
        None => report.result(),
    }
}

fn item(forecast: &BindingForecast<'_>) -> Value {
    let resource = &forecast.binding.spec.resource;
    let mut value = json!({
        "workload": {"apiVersion": resource.api_version, "kind": resource.kind, "namespace": resource.namespace, "name": resource.name},
        "priority": forecast.priority,
        "now": forecast.binding.spec.clusters,
    });
    match &forecast.outcome {
        Outcome::Stays(why) => {
            value["outcome"] = "Stays".into();
            value["reason"] = why.as_str().into();
        }
        Outcome::Leaves { after, message, report } => {
            let targets = forecast.outcome.targets();
            let outcome = match (targets, report) {
                (None, Some(_)) => "Unplaced",
                _ => "Moves",
            };
            value["outcome"] = outcome.into();
            value["afterSeconds"] = after.as_secs().into();
            value["reason"] = message.as_str().into();
            value["then"] = json!(targets);
            if let Some(report) = report {
                value["schedule"] = report.to_value();
            }
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::scope::Scope;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn cluster(spec: Value) -> Cluster {
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": spec, "status": status})).expect("a cluster")
    }

    fn shown(taints: &[Taint]) -> String {
        taints.iter().map(taint).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn taints_of_a_plan() {
        let tainted =
            cluster(json!({"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}]}));
        for (texts, expected) in [
            (&["c"][..], Ok("a:NoExecute b:NoSchedule c:NoExecute")),
            (&["c=1:NoExecute", "a=2"], Ok("b:NoSchedule c=1:NoExecute a=2:NoExecute")),
            (
                &["c:NoSchedule"],
                Err("--taint: \"c:NoSchedule\" is not KEY[=VALUE][:NoExecute]; no other effect evicts"),
            ),
            (&["=x"], Err("--taint: \"=x\" is not KEY[=VALUE][:NoExecute]; no other effect evicts")),
        ] {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            let found = with(&tainted, &texts, now()).map(|taints| shown(&taints)).map_err(|error| error.render());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{texts:?}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, _) => panic!("{texts:?}: {found:?}"),
            }
        }
        let policy = json!({"metadata": {"name": "p"}, "spec": {"taints": [{"key": "away", "effect": "NoExecute"}],
            "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]}});
        let policy: ClusterTaintPolicy = serde_json::from_value(policy).expect("a policy");
        assert_eq!(shown(&of_a_dead_cluster(&tainted, &[policy], now())), "a:NoExecute b:NoSchedule away:NoExecute");
        assert_eq!(shown(&of_a_dead_cluster(&tainted, &[], now())), "a:NoExecute b:NoSchedule");
    }

    #[test]
    fn a_long_plan_is_cut_in_a_table() {
        let bindings: Vec<Binding> = (0..3)
            .map(|n| {
                let wire = json!({"metadata": {"name": format!("web-{n}"), "namespace": "shop"}, "spec": {
                    "clusters": [{"name": "m1", "replicas": 2}],
                    "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": format!("web-{n}")}}});
                Binding::from_value(Scope::Namespaced, &wire).expect("a binding")
            })
            .collect();
        let here = cluster(json!({"taints": [{"key": "a", "effect": "NoExecute"}]}));
        let all = [Arc::new(here.clone())];
        let options = Options { purge_mode: ClusterPurgeMode::Gracefully, keeps_state: true };
        let departure = Departure { cluster: "m1", taints: &here.spec.taints, options, now: now() };
        let forecasts = evacuate(&bindings, &all, departure, &Gates::default());
        let preview =
            Preview { cluster: &here, all: &all, taints: &here.spec.taints, forecasts: &forecasts, off: None };
        let expected = "Cluster m1 with the taints a:NoExecute\n\
            0 workloads would move, 0 would find no place, 3 would stay\n\
            Nothing leaves while no other cluster is ready\n\n\
            WORKLOAD                PRIORITY   LEAVES   NOW    THEN   REASON\n\
            Deployment shop/web-0   0          no       m1:2   -      its tolerations are unknown: the scheduler has not recorded a placement\n\
            Deployment shop/web-1   0          no       m1:2   -      its tolerations are unknown: the scheduler has not recorded a placement\n\
            ... and 1 more; print all with --limit 0 or -o json\n";
        assert_eq!(preview.text(2, None), expected);
        assert!(!preview.text(0, None).contains("more"));
        assert_eq!(preview.value()["items"].as_array().map(Vec::len), Some(3));
        assert_eq!(preview.value()["summary"]["stays"], 3);
        let off = Preview { off: Some("no flag".to_owned()), ..preview };
        assert!(off.text(2, None).contains("3 would stay\nNothing leaves yet: no flag\nNothing leaves while"));
    }
}
