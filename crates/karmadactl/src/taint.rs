//! `taint`: taints of clusters, set and removed.

use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::error::Error;
use crate::{Context, cluster_taints, evictions, failover};

#[derive(Args)]
pub struct TaintArgs {
    /// CLUSTER NAME, then KEY=VALUE:EFFECT to set and KEY:EFFECT- or KEY- to remove
    args: Vec<String>,
    /// Change nothing; with a NoExecute taint, print the workloads that would move and where.
    #[arg(long)]
    dry_run: bool,
    /// Replace taints that exist.
    #[arg(long)]
    overwrite: bool,
}

/// A taint to set, or to remove; an empty effect removes every taint of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

/// The parsed arguments.
#[derive(Clone, Debug, Default, PartialEq)]
struct Request {
    clusters: Vec<String>,
    set: Vec<Taint>,
    removed: Vec<Taint>,
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn run<'a>(context: &'a Context, args: &'a TaintArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let request = parse(&args.args)?;
        let client = context.control_plane().await?;
        let mut errors = Vec::new();
        for name in &request.clusters {
            match one(context, &client, name, &request, args).await {
                Ok((operation, plan)) => {
                    context.print(&format!("cluster/{name} {operation}\n"));
                    context.print(&plan);
                }
                Err(error) => errors.push(error),
            }
        }
        Error::of_all(errors)
    })
}

/// How the message names the change, and the plan of a dry run.
async fn one(
    context: &Context,
    client: &Client,
    name: &str,
    request: &Request,
    args: &TaintArgs,
) -> Result<(&'static str, String), Error> {
    let evicts = request.set.iter().any(|taint| taint.effect == "NoExecute");
    let planned = |taints: &[Value]| {
        let (after, operation) = plan(name, taints, request, args.overwrite)?;
        Ok((Some(after), operation))
    };
    let (after, operation) = cluster_taints::change(context, client, name, args.dry_run, planned).await?;
    if !evicts {
        return Ok((operation, String::new()));
    }
    if let Some(why) = evictions::off(client).await {
        context.log(&format!("Warning: NoExecute evicts nothing from cluster {name}: {why}\n"));
        return Ok((operation, String::new()));
    }
    context.log(&format!(
        "Warning: NoExecute evicts from cluster {name} the workloads whose policies do not tolerate the taint\n"
    ));
    if !args.dry_run {
        return Ok((operation, String::new()));
    }
    let planned = serde_json::from_value(json!(after));
    let planned =
        planned.map_err(|error| Error::message(format!("cluster {name}: its taints cannot be read: {error}")))?;
    Ok((operation, failover::plan::with_taints(context, client, name, planned).await?))
}

/// Separates the clusters from the taints that follow them.
fn parse(args: &[String]) -> Result<Request, Error> {
    let refused = |text: String| Err(Error::message(text));
    let is_taint = |arg: &str| arg.contains('=') || arg.contains(':') || arg.ends_with('-');
    let Some((type_, rest)) = args.split_first() else {
        return refused("one or more resources must be specified as <resource> <name>".into());
    };
    if !matches!(type_.as_str(), "cluster" | "clusters") {
        return refused(format!("invalid resource type {type_}, only [\"cluster\" \"clusters\"] are supported"));
    }
    let first = rest.iter().position(|arg| is_taint(arg)).unwrap_or(rest.len());
    let (clusters, specs) = rest.split_at(first);
    let mut request = Request { clusters: clusters.to_vec(), ..Request::default() };
    for spec in specs {
        if !is_taint(spec) {
            return refused(format!("all resources must be specified before taint changes: {spec}"));
        }
        match spec.strip_suffix('-') {
            Some(spec) => request.removed.push(removal(spec)?),
            None => request.set.push(addition(spec)?),
        }
    }
    if clusters.is_empty() {
        return refused("at least one resource name must be specified".into());
    }
    if specs.is_empty() {
        return refused("at least one taint update is required".into());
    }
    let both = request.set.iter().find(|taint| {
        request.removed.iter().any(|it| it.key == taint.key && (it.effect.is_empty() || it.effect == taint.effect))
    });
    if let Some(taint) = both {
        return refused(format!(
            "can not both modify and remove the following taint(s) in the same command: {}",
            json!({ &taint.key: "" })
        ));
    }
    Ok(request)
}

fn addition(spec: &str) -> Result<Taint, Error> {
    let (pair, effect) = spec.split_once(':').ok_or_else(|| Error::message(format!("invalid taint spec: {spec}")))?;
    known_effect(effect)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let mut wrong = apimachinery::names::is_qualified_name(key);
    wrong.extend(apimachinery::names::is_label_value(value));
    match wrong.first() {
        Some(why) => Err(Error::message(format!("invalid taint spec: {spec}, {why}"))),
        None => Ok(Taint { key: key.into(), value: value.into(), effect: effect.into() }),
    }
}

/// `KEY`, `KEY:EFFECT` or `KEY=VALUE:EFFECT`, whose value is ignored.
fn removal(spec: &str) -> Result<Taint, Error> {
    let (pair, effect) = spec.split_once(':').unwrap_or((spec, ""));
    if !effect.is_empty() {
        known_effect(effect)?;
    }
    let key = pair.split('=').next().unwrap_or_default();
    Ok(Taint { key: key.into(), value: String::new(), effect: effect.into() })
}

fn known_effect(effect: &str) -> Result<(), Error> {
    if EFFECTS.contains(&effect) {
        return Ok(());
    }
    Err(Error::message(format!("invalid taint effect: {effect}, unsupported taint effect")))
}

/// The taints afterwards, and how the message names the change.
fn plan(name: &str, taints: &[Value], request: &Request, overwrite: bool) -> Result<(Vec<Value>, &'static str), Error> {
    let is = |value: &Value, taint: &Taint| {
        value["key"] == *taint.key && (taint.effect.is_empty() || value["effect"] == *taint.effect)
    };
    let taken: Vec<&str> = request
        .set
        .iter()
        .filter(|taint| taints.iter().any(|value| is(value, taint)))
        .map(|taint| taint.key.as_str())
        .collect();
    if !taken.is_empty() && !overwrite {
        return Err(Error::message(format!(
            "cluster {name} already has {} taint(s) with same effect(s) and --overwrite is false",
            taken.join(",")
        )));
    }
    let mut after: Vec<Value> = taints.to_vec();
    for taint in &request.removed {
        let before = after.len();
        after.retain(|value| !is(value, taint));
        if after.len() == before {
            let effect = if taint.effect.is_empty() { String::new() } else { format!(":{}", taint.effect) };
            return Err(Error::message(format!("taint \"{}{effect}\" not found", taint.key)));
        }
    }
    for taint in &request.set {
        after.retain(|value| !is(value, taint));
        let mut value = json!({"key": taint.key, "effect": taint.effect});
        if !taint.value.is_empty() {
            value["value"] = taint.value.as_str().into();
        }
        after.push(value);
    }
    let operation = match (request.set.is_empty(), request.removed.is_empty(), taken.is_empty()) {
        (true, ..) => "untainted",
        (false, true, true) => "tainted",
        _ => "modified",
    };
    Ok((after, operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &str, expected: &str) {
        let words: Vec<String> = args.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let taints =
            [json!({"key": "a", "value": "1", "effect": "NoSchedule"}), json!({"key": "a", "effect": "NoExecute"})];
        let overwrite = words.contains(&"--overwrite".to_owned());
        let words: Vec<String> = words.into_iter().filter(|word| word != "--overwrite").collect();
        let planned = parse(&words).and_then(|request| plan("m1", &taints, &request, overwrite));
        let shown = match planned {
            Ok((after, operation)) => {
                let of = |t: &Value| format!("{}={}:{}", t["key"], t["value"], t["effect"]).replace('"', "");
                format!("{operation} {}", after.iter().map(of).collect::<Vec<_>>().join(" "))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{args}");
    }

    #[test]
    fn taints_are_planned_as_upstream_plans_them() {
        check("cluster m1 b=2:NoSchedule", "tainted a=1:NoSchedule a=null:NoExecute b=2:NoSchedule");
        check("clusters m1 a:NoSchedule-", "untainted a=null:NoExecute");
        check("cluster m1 a=9:NoSchedule-", "untainted a=null:NoExecute");
        check("cluster m1 a-", "untainted ");
        check("cluster m1 a=2:NoSchedule --overwrite", "modified a=null:NoExecute a=2:NoSchedule");
        check("cluster m1 b:NoExecute a:NoExecute-", "modified a=1:NoSchedule b=null:NoExecute");
        check(
            "cluster m1 a=2:NoSchedule",
            "cluster m1 already has a taint(s) with same effect(s) and --overwrite is false",
        );
        check("cluster m1 z:NoSchedule-", "taint \"z:NoSchedule\" not found");
        check("cluster m1", "at least one taint update is required");
        check("cluster a=1:NoSchedule", "at least one resource name must be specified");
        check("nodes n a=1:NoSchedule", "invalid resource type nodes, only [\"cluster\" \"clusters\"] are supported");
        check("cluster m1 a=1:Bogus", "invalid taint effect: Bogus, unsupported taint effect");
        check(
            "cluster m1 a=1:NoSchedule a-",
            "can not both modify and remove the following taint(s) in the same command: {\"a\":\"\"}",
        );
        check("cluster m1 a=1:NoSchedule s", "all resources must be specified before taint changes: s");
    }
}
