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

/// Separates the clusters from the taints that follow them. The order of the checks is upstream's.
fn parse(args: &[String]) -> Result<Request, Error> {
    let refused = |text: String| Err(Error::message(text));
    let is_taint = |arg: &str| arg.contains('=') || arg.contains(':') || arg.ends_with('-');
    let first = args.iter().position(|arg| is_taint(arg)).unwrap_or(args.len());
    let (resources, specs) = args.split_at(first);
    if let Some(spec) = specs.iter().find(|spec| !is_taint(spec)) {
        return refused(format!("all resources must be specified before taint changes: {spec}"));
    }
    let Some((type_, clusters)) = resources.split_first() else {
        return refused("one or more resources must be specified as <resource> <name>".into());
    };
    if specs.is_empty() {
        return refused("at least one taint update is required".into());
    }
    let mut request = Request { clusters: clusters.to_vec(), ..Request::default() };
    for spec in specs {
        match spec.strip_suffix('-') {
            Some(spec) => request.removed.push(taint(spec)?),
            None => {
                let taint = addition(spec, &request.set)?;
                request.set.push(taint);
            }
        }
    }
    let type_ = type_.to_lowercase();
    if !matches!(type_.as_str(), "cluster" | "clusters") {
        return refused(format!("invalid resource type {type_}, only [\"cluster\" \"clusters\"] are supported"));
    }
    let both = request.set.iter().flat_map(|taint| {
        let removes = |it: &&Taint| it.key == taint.key && (it.effect.is_empty() || it.effect == taint.effect);
        request.removed.iter().filter(removes).map(|it| json!({ &it.key: it.effect }).to_string())
    });
    let both: Vec<String> = both.collect();
    if !both.is_empty() {
        let both = both.join(", ");
        return refused(format!("can not both modify and remove the following taint(s) in the same command: {both}"));
    }
    if clusters.is_empty() {
        return refused("at least one resource name must be specified".into());
    }
    Ok(request)
}

/// A taint to set, which needs an effect and differs from those before it.
fn addition(spec: &str, before: &[Taint]) -> Result<Taint, Error> {
    let taint = taint(spec)?;
    if taint.effect.is_empty() {
        return Err(Error::message(format!("invalid taint spec: {spec}")));
    }
    if before.iter().any(|it| it.key == taint.key && it.effect == taint.effect) {
        let Taint { key, value, effect } = &taint;
        return Err(Error::message(format!(
            "duplicated taints with the same key and effect: {{{key} {value} {effect} <nil>}}"
        )));
    }
    Ok(taint)
}

/// `KEY`, `KEY:EFFECT` or `KEY=VALUE:EFFECT`
fn taint(spec: &str) -> Result<Taint, Error> {
    let invalid = |why: &[String]| {
        let comma = if why.is_empty() { "" } else { ", " };
        Error::message(format!("invalid taint spec: {spec}{comma}{}", why.join("; ")))
    };
    let parts: Vec<&str> = spec.split(':').collect();
    let (key, value, effect) = match parts.as_slice() {
        [key] => (*key, "", ""),
        [pair, effect] => {
            known_effect(effect)?;
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if value.contains('=') {
                return Err(invalid(&[]));
            }
            (key, value, *effect)
        }
        _ => return Err(invalid(&[])),
    };
    for wrong in [apimachinery::names::is_label_value(value), apimachinery::names::is_qualified_name(key)] {
        if !wrong.is_empty() {
            return Err(invalid(&wrong));
        }
    }
    Ok(Taint { key: key.into(), value: value.into(), effect: effect.into() })
}

fn known_effect(effect: &str) -> Result<(), Error> {
    if EFFECTS.contains(&effect) {
        return Ok(());
    }
    Err(Error::message(format!("invalid taint effect: {effect}, unsupported taint effect")))
}

/// The taints afterwards, the new ones first, and how the message names the change.
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
    let mut after: Vec<Value> = request.set.iter().map(written).collect();
    after.extend(taints.iter().filter(|value| !request.set.iter().any(|taint| is(value, taint))).cloned());
    let adds = after.len() != taints.len();
    let mut absent = Vec::new();
    for taint in &request.removed {
        let before = after.len();
        after.retain(|value| !is(value, taint));
        if after.len() == before {
            let effect = if taint.effect.is_empty() { String::new() } else { format!(":{}", taint.effect) };
            absent.push(format!("taint \"{}{effect}\" not found", taint.key));
        }
    }
    match absent.as_slice() {
        [] => {}
        [only] => return Err(Error::message(only)),
        several => return Err(Error::message(format!("[{}]", several.join(", ")))),
    }
    let operation = match (adds, request.removed.is_empty()) {
        _ if overwrite => "modified",
        (true, false) => "modified",
        (true, true) => "tainted",
        (false, _) => "untainted",
    };
    Ok((after, operation))
}

fn written(taint: &Taint) -> Value {
    let mut value = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        value["value"] = taint.value.as_str().into();
    }
    value
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
        check("cluster m1 b=2:NoSchedule", "tainted b=2:NoSchedule a=1:NoSchedule a=null:NoExecute");
        check("clusters m1 a:NoSchedule-", "untainted a=null:NoExecute");
        check("cluster m1 a=9:NoSchedule-", "untainted a=null:NoExecute");
        check("cluster m1 a-", "untainted ");
        check("cluster m1 a=2:NoSchedule --overwrite", "modified a=2:NoSchedule a=null:NoExecute");
        check("cluster m1 b:NoExecute a:NoExecute-", "modified b=null:NoExecute a=1:NoSchedule");
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
        check("Cluster m1 b=2:NoSchedule --overwrite", "modified b=2:NoSchedule a=1:NoSchedule a=null:NoExecute");
        check("cluster m1 y- z:NoSchedule-", "[taint \"y\" not found, taint \"z:NoSchedule\" not found]");
        check("a=1:NoSchedule", "one or more resources must be specified as <resource> <name>");
        check(
            "cluster m1 b=1:NoSchedule b=2:NoSchedule",
            "duplicated taints with the same key and effect: {b 2 NoSchedule <nil>}",
        );
        check("cluster m1 a:b:NoSchedule", "invalid taint spec: a:b:NoSchedule");
        check("cluster m1 a=b=c:NoSchedule", "invalid taint spec: a=b=c:NoSchedule");
        check("cluster m1 a", "at least one taint update is required");
        check(
            "cluster m1 a=1:NoSchedule a=1:NoExecute a-",
            "can not both modify and remove the following taint(s) in the same command: {\"a\":\"\"}, {\"a\":\"\"}",
        );
        check("cluster m1 a=1:NoSchedule s", "all resources must be specified before taint changes: s");
    }
}
