//! At rest: compares Works, and objects in members, with the control plane.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use serde_json::Value;

use super::MEMBERS;
use super::kinds::Kind;
use super::read::{
    all, binding_name, condition, execution_space, is_managed, is_present, is_template, leaving, name, overwrites,
    targets, text,
};
use super::state::State;
use crate::harness::{Plane, get, namespaces};

pub async fn discrepancies(plane: &Plane, state: &State) -> Vec<String> {
    let waiting = state.spaces.iter().filter(|work| condition(work, "Applied") != "True" || !is_present(work));
    let complaint = |work: &Value| {
        let (space, conditions) = (text(work, "/metadata/namespace"), &work["status"]["conditions"]);
        format!("Work {} of a namespace in {space} is not applied, or is not removed: {conditions}", name(work))
    };
    let mut wrong = Vec::new();
    for work in waiting {
        if !is_released(plane, work).await {
            wrong.push(complaint(work));
        }
    }
    for member in MEMBERS {
        let is_demo = |work: &&Value| {
            name(manifest(work)) == "demo" && text(work, "/metadata/namespace") == execution_space(member)
        };
        if !state.spaces.iter().any(|work| is_demo(&work)) {
            wrong.push(format!("namespace demo has no Work in {member}"));
        }
        wrong.extend(works(state, member));
        wrong.extend(left_over(plane, state, member).await);
        for (binding, replicas) in desired(state, member) {
            wrong.extend(copy(plane, state, member, binding, replicas).await);
        }
    }
    wrong
}

/// Whether a namespace stayed with preserved objects when its cluster left. It is the member's since then: as any that was
/// there before, it is used, and its Work is not applied.
async fn is_released(plane: &Plane, work: &Value) -> bool {
    let member = text(work, "/metadata/namespace").trim_start_matches("karmada-es-");
    let key = ObjectKey::cluster(name(manifest(work)));
    let namespace = get(&plane.member(member), &namespaces(), &key).await;
    is_present(work) && namespace.is_some_and(|namespace| !is_managed(&namespace))
}

/// The bindings that require a copy in a member, and its replicas.
fn desired<'a>(state: &'a State, member: &str) -> Vec<(&'a Value, i64)> {
    state.bindings.iter().filter_map(|binding| Some((binding, *targets(binding).get(member)?))).collect()
}

/// One Work for each binding that requires it, and no others.
fn works(state: &State, member: &str) -> Vec<String> {
    let of = |work: &Value| binding_name(work).map(|(_, name)| name.to_owned()).unwrap_or_default();
    let mut missing: BTreeMap<String, &Value> =
        desired(state, member).into_iter().map(|(binding, _)| (name(binding).to_owned(), binding)).collect();
    let mut wrong = Vec::new();
    for work in &state.works[member] {
        let binding = of(work);
        let stays = state.bindings.iter().any(|it| name(it) == binding && leaving(it).any(|left| left == member));
        if !is_present(work) || (missing.remove(&binding).is_none() && !stays) {
            wrong.push(format!("Work {} of binding {binding} in {member} should not exist", name(work)));
        }
    }
    wrong.extend(missing.keys().map(|binding| format!("binding {binding} has no Work in {member}")));
    wrong
}

fn manifest(work: &Value) -> &Value {
    &work["spec"]["workload"]["manifests"][0]
}

/// Every managed object in a member has a Work.
async fn left_over(plane: &Plane, state: &State, member: &str) -> Vec<String> {
    let (client, mut wrong) = (plane.member(member), Vec::new());
    for kind in Kind::ALL {
        let objects = all(&client, &kind.resource(), kind.namespace()).await;
        for object in objects.iter().filter(|object| is_template(object) && is_managed(object)) {
            let holds = |work: &&Value| Kind::of(manifest(work)) == Some(kind) && name(manifest(work)) == name(object);
            if !state.works[member].iter().any(|work| holds(&work)) {
                wrong.push(format!("{kind:?} {} was left in {member}", name(object)));
            }
        }
    }
    wrong
}

/// Compares a binding's Work in a member and its object with template, division, overrides and policy.
async fn copy(plane: &Plane, state: &State, member: &str, binding: &Value, replicas: i64) -> Option<String> {
    let (kind, template) = state.template_of(binding)?;
    let what = format!("{kind:?} {} in {member}", name(template));
    let work = state.works[member].iter().find(|it| binding_name(it).is_some_and(|(_, of)| of == name(binding)))?;
    let suspension = &binding["spec"]["suspension"];
    let only = suspension["dispatchingOnClusters"]["clusterNames"].as_array().into_iter().flatten();
    let suspended = suspension["dispatching"] == true || only.into_iter().any(|cluster| cluster == member);
    if (work["spec"]["suspendDispatching"] == true) != suspended {
        return Some(format!("{what}: its Work is suspended, or not, against its binding"));
    }
    let preserve = &binding["spec"]["preserveResourcesOnDeletion"];
    if (work["spec"]["preserveResourcesOnDeletion"] == true) != (*preserve == true) {
        return Some(format!("{what}: its Work preserves it, or not, against its binding"));
    }
    // Changes of a template without a policy are ignored, except where it is a dependency.
    let required = binding["spec"]["requiredBy"].as_array().is_some_and(|list| !list.is_empty());
    let current = state.governor(kind, template).is_some() || required;
    let expected = (rendered(state, kind, template, member), template["spec"]["replicas"].as_i64().map(|_| replicas));
    let content = |object: &Value| (text(object, kind.pointer()).to_owned(), object["spec"]["replicas"].as_i64());
    if current && content(manifest(work)) != expected {
        return Some(format!("{what}: its Work has {:?}, not {expected:?}", content(manifest(work))));
    }
    if suspended {
        return None;
    }
    let Some(object) = get(&plane.member(member), &kind.resource(), &kind.key(name(template))).await else {
        return Some(format!("{what} is missing"));
    };
    if !is_managed(&object) {
        return overwrites(work).then(|| format!("{what} was not taken over"));
    }
    if condition(work, "Applied") != "True" {
        return Some(format!("{what} is there, its Work does not report it"));
    }
    let desired = content(manifest(work));
    (content(&object) != desired).then(|| format!("{what} has {:?}, not {desired:?}", content(&object)))
}

/// The value after overrides.
fn rendered(state: &State, kind: Kind, template: &Value, member: &str) -> String {
    let mut value = text(template, kind.pointer());
    for policy in &state.overrides {
        let rule = &policy["spec"]["overrideRules"][0];
        let here = text(policy, "/kind") == "ClusterOverridePolicy" || kind.is_namespaced();
        let selects = policy["spec"]["resourceSelectors"][0]["kind"] == *kind.resource().kind;
        if here && selects && rule["targetCluster"]["clusterNames"][0] == member {
            value = text(rule, "/overriders/plaintext/0/value");
        }
    }
    value.to_owned()
}
