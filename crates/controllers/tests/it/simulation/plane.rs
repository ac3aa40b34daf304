//! At rest: compares the control plane's objects with templates and policies, computed independently.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::MEMBERS;
use super::kinds::Kind;
use super::read::{clusters, is_present, leaving, name, targets, text};
use super::state::{State, claim, selects};

/// The discrepancies from templates and policies. `evicted` are bindings with evictions: their new clusters are the
/// scheduler's choice.
pub fn discrepancies(state: &State, evicted: &BTreeSet<String>) -> Vec<String> {
    let templates = state.templates.iter().filter_map(|(kind, template)| of_template(state, *kind, template));
    let bindings = state.bindings.iter().flat_map(|binding| {
        let placed = of_binding(state, binding, evicted.contains(name(binding)));
        placed.into_iter().chain(required(state, binding)).chain(reported(state, binding))
    });
    let repelling = state.repelling.iter().map(|cluster| format!("cluster {cluster} is ready, and tainted as if not"));
    templates.chain(bindings).chain(repelling).collect()
}

fn of_template(state: &State, kind: Kind, template: &Value) -> Option<String> {
    let what = format!("{kind:?} {}", name(template));
    if !is_present(template) {
        return Some(format!("{what} is not removed"));
    }
    let Some((group, id)) = claim(template) else {
        let policy = state.policies.iter().find(|policy| selects(policy, kind, template))?;
        return Some(format!("{what} is not claimed, though {} {} selects it", text(policy, "/kind"), name(policy)));
    };
    if let Some(problem) = unbound_dependency(state, kind, template) {
        return Some(problem);
    }
    let Some(policy) = state.claimant(template) else {
        return Some(format!("{what} is claimed by a policy that is not there: {id}"));
    };
    let Some(binding) = state.binding_of(template) else {
        return Some(format!("{what} is claimed by {} and has no binding", name(policy)));
    };
    if !selects(policy, kind, template) {
        return None;
    }
    if let Some(stronger) = state.policies.iter().find(|it| selects(it, kind, template) && preempts(it, policy)) {
        return Some(format!("{what} is claimed by {}, not by {}, which preempts", name(policy), name(stronger)));
    }
    let pointer = format!("/metadata/labels/{group}~1permanent-id");
    if text(binding, &pointer) != id {
        return Some(format!("{what}: policy {} claims it, not its binding", name(policy)));
    }
    let settings = |spec: &Value| {
        json!({"placement": spec["placement"], "conflictResolution": spec["conflictResolution"],
            "preserve": spec["preserveResourcesOnDeletion"] == true,
            "propagateDeps": kind.is_namespaced() && spec["propagateDeps"] == true,
            "dispatching": spec["suspension"]["dispatching"],
            "dispatchingOnClusters": spec["suspension"]["dispatchingOnClusters"]})
    };
    let (desired, is) = (settings(&policy["spec"]), settings(&binding["spec"]));
    (desired != is).then(|| format!("{what}: policy {} has {desired}, the binding {is}", name(policy)))
}

/// Dependencies of a Deployment without a binding.
fn unbound_dependency(state: &State, kind: Kind, template: &Value) -> Option<String> {
    let binding = state.binding_of(template).filter(|_| kind == Kind::Deployment)?;
    let placed = !clusters(&binding["spec"]["clusters"]).is_empty();
    if binding["spec"]["propagateDeps"] != true || !placed || state.governor(kind, template).is_none() {
        return None;
    }
    let needed = state.needed_by(template).filter(|needed| state.binding_of(needed).is_none())?;
    Some(format!("Deployment {} needs {}, which has no binding", name(template), name(needed)))
}

/// Whether a policy should have preempted the holder of the template.
fn preempts(policy: &Value, holder: &Value) -> bool {
    let wide = |policy: &Value| text(policy, "/kind") == "ClusterPropagationPolicy";
    let priority = |policy: &Value| policy["spec"]["priority"].as_i64().unwrap_or_default();
    let stronger = match (wide(policy), wide(holder)) {
        (false, true) => true,
        (true, false) => false,
        _ => priority(policy) > priority(holder),
    };
    policy["spec"]["preemption"] == "Always" && stronger
}

fn of_binding(state: &State, binding: &Value, evicted: bool) -> Option<String> {
    let what = format!("binding {}", name(binding));
    let Some((kind, template)) = state.template_of(binding) else {
        return Some(format!("{what} outlives its template"));
    };
    state.governor(kind, template)?;
    if binding["spec"]["suspension"]["scheduling"] == true {
        return None;
    }
    let replicas = template["spec"]["replicas"].as_i64();
    let (placement, targets) = (&binding["spec"]["placement"], clusters(&binding["spec"]["clusters"]));
    let named = placement["clusterAffinity"]["clusterNames"].as_array();
    let zone = placement["clusterAffinity"]["labelSelector"]["matchLabels"]["zone"].as_str();
    let fits = |member: &&str| {
        named.is_none_or(|names| names.iter().any(|name| name == member))
            && zone.is_none_or(|zone| state.zones.get(*member).is_some_and(|is| is == zone))
    };
    let allowed: BTreeSet<String> = MEMBERS.iter().filter(|member| fits(member)).map(|it| (*it).to_owned()).collect();
    let open: BTreeSet<String> = allowed.difference(&state.tainted).cloned().collect();
    let chosen: BTreeSet<String> = targets.keys().cloned().collect();
    let is_divided = placement["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    // Divided replicas do not move because a cluster's zone changed.
    let may_stay = zone.is_some() && is_divided && replicas.is_some();
    if !may_stay && !chosen.is_subset(&allowed) {
        return Some(format!("{what} is in {chosen:?}, not in some of {allowed:?}"));
    }
    if let Some(left) = evicted.then(|| leaving(binding).find(|cluster| chosen.contains(*cluster))).flatten() {
        return Some(format!("{what} is in {left}, which it is driven from"));
    }
    if evicted || open.is_empty() {
        return None;
    }
    match replicas {
        Some(replicas) if is_divided => {
            let sum: i64 = targets.values().sum();
            (sum != replicas).then(|| format!("{what}: {replicas} replicas over {allowed:?}: {targets:?}"))
        }
        _ => {
            let each = targets.values().all(|assigned| replicas.is_none_or(|replicas| *assigned == replicas));
            (!open.is_subset(&chosen) || !each)
                .then(|| format!("{what}: {replicas:?} replicas in each of {allowed:?}: {targets:?}"))
        }
    }
}

/// The bindings that require a binding, and the resulting fields.
fn required(state: &State, binding: &Value) -> Option<String> {
    let what = format!("binding {}", name(binding));
    let (_, template) = state.template_of(binding)?;
    let (mut sure, mut referrers, mut unsure) = (Vec::new(), Vec::new(), BTreeSet::new());
    for other in &state.bindings {
        let Some((kind, needing)) = state.template_of(other).filter(|(kind, _)| *kind == Kind::Deployment) else {
            continue;
        };
        let named = || name(other).to_owned();
        if other["spec"]["propagateDeps"] != true {
            continue;
        }
        // Changes of a template without a policy are ignored without another event.
        if state.governor(kind, needing).is_none() {
            unsure.insert(named());
        } else if state.needed_by(needing).is_some_and(|map| map["metadata"]["uid"] == template["metadata"]["uid"]) {
            let mut there = clusters(&other["spec"]["clusters"]);
            let tasks = other["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten();
            for task in tasks.filter(|task| task["purgeMode"] != "Directly") {
                let replicas = task["replicas"].as_i64().unwrap_or_default();
                there.entry(text(task, "/fromCluster").to_owned()).or_insert(replicas);
            }
            if there.is_empty() {
                unsure.insert(named());
            } else {
                sure.push((named(), there));
                referrers.push(other);
            }
        }
    }
    let snapshots = binding["spec"]["requiredBy"].as_array().into_iter().flatten();
    let mut is: Vec<_> = snapshots.map(|it| (text(it, "/name").to_owned(), clusters(&it["clusters"]))).collect();
    is.retain(|(name, there)| !unsure.contains(name) && !there.is_empty());
    is.sort();
    sure.sort();
    if is != sure {
        return Some(format!("{what} should be required by {sure:?}, not {is:?}"));
    }
    if referrers.is_empty() || !unsure.is_empty() || !binding["spec"]["placement"].is_null() {
        return None;
    }
    let some = |field: &str, value: Value| referrers.iter().any(|other| other["spec"][field] == value);
    let desired = (some("conflictResolution", json!("Overwrite")), some("preserveResourcesOnDeletion", json!(true)));
    let spec = &binding["spec"];
    let is = (spec["conflictResolution"] == "Overwrite", spec["preserveResourcesOnDeletion"] == true);
    (desired != is).then(|| format!("{what} overwrites and preserves {is:?}, not {desired:?}"))
}

/// The Works' state in the binding's status.
fn reported(state: &State, binding: &Value) -> Option<String> {
    let id = |object: &Value| {
        let labels = ["resourcebinding", "clusterresourcebinding"];
        labels.map(|group| text(object, &format!("/metadata/labels/{group}.karmada.io~1permanent-id")).to_owned())
    };
    let (mut desired, own_id) = (Vec::new(), id(binding));
    for (member, works) in &state.works {
        let made = works.iter().find(|work| is_present(work) && id(work) == own_id);
        desired.extend(made.map(|work| ((*member).to_owned(), super::read::condition(work, "Applied") == "True")));
    }
    let items = binding["status"]["aggregatedStatus"].as_array().into_iter().flatten();
    let is: Vec<(String, bool)> =
        items.map(|it| (text(it, "/clusterName").to_owned(), it["applied"] == true)).collect();
    if is != desired {
        return Some(format!("binding {} is reported as applied in {is:?}, its Works {desired:?}", name(binding)));
    }
    let there: BTreeSet<&String> = desired.iter().map(|(member, _)| member).collect();
    let mut due: BTreeSet<String> = targets(binding).into_keys().collect();
    due.extend(leaving(binding).map(str::to_owned));
    let full = !due.is_empty()
        && desired.iter().all(|(_, applied)| *applied)
        && due.iter().all(|cluster| there.contains(cluster));
    let status = super::read::condition(binding, "FullyApplied");
    (!desired.is_empty() && (status == "True") != full)
        .then(|| format!("binding {}: FullyApplied is {status:?} with {desired:?} of {due:?}", name(binding)))
}
