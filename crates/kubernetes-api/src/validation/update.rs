//! Validation of updates: immutable fields.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, Path, in_order};
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::annotations::{APPARMOR, MIRROR};
use super::table::{Node, Refusal, Rule};
use super::{
    addresses, autoscaling, config, devices, events, items, network, persistent_volumes, policies, services, storage,
    webhooks,
};

/// Compares the old and the new object; the list holds the errors found so far.
pub(super) type Compare = fn(&Value, &Value, &mut ErrorList);

pub(super) fn named(name: &str) -> Option<Compare> {
    Some(match name {
        "autoscaler" => autoscaling::autoscaler_update,
        "claim" => claim,
        "csi_driver" => csi_driver,
        "csi_node" => storage::csi_node_update,
        "event" => events::update,
        "immutable_data" => config::update,
        "ingress" => network::ingress_update,
        "ip_address" => addresses::update_address,
        "job" => job,
        "node" => node,
        "pod" => pod,
        "quota" => quota,
        "persistent_volume" => persistent_volumes::update,
        "service" => services::update,
        "service_ranges" => addresses::update_ranges,
        "slice" => devices::slice_update,
        "spec_stays" => devices::spec_stays,
        "stateful_set" => stateful_set,
        "validating_policy" => policies::validating_policy_update,
        "webhooks" => webhooks::update,
        _ => return None,
    })
}

/// Runs a kind's rules about changes.
pub(super) fn compare(node: &Node, old: &Value, new: &Value, errors: &mut ErrorList) {
    for rule in &node.rules {
        match rule {
            Rule::Compare(function) => function(old, new, errors),
            Rule::Fixed { path, refusal } => fixed(path, refusal, old, new, errors),
            _ => {}
        }
    }
}

fn fixed(path: &[&str], refusal: &Refusal, old: &Value, new: &Value, errors: &mut ErrorList) {
    let find = |object| path.iter().try_fold(object, |at: &Value, name| at.get(*name));
    let (was, is) = (find(old), find(new));
    if was == is {
        return;
    }
    let (at, is) = (path.iter().fold(Path::root(), |at, name| at.child(name)), is.cloned().unwrap_or_default());
    let role = (path == ["roleRef"]).then(|| {
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| &is[field]);
        format!(r#"{{"APIGroup":{group},"Kind":{kind},"Name":{name}}}"#)
    });
    let shown_as = is.clone();
    let mut error = match refusal {
        Refusal::Immutable => Error::invalid(&at, is, "field is immutable"),
        Refusal::Invalid(text) => Error::invalid(&at, is, *text),
        Refusal::Forbidden(text) => Error::forbidden(&at, *text),
    };
    // Upstream prints the fields of its own structs, and selectors in declaration order.
    let selector = path.last().is_some_and(|name| *name == "selector").then(|| in_order(&shown_as, &["matchLabels"]));
    error.shown = role.or(selector);
    errors.push(error);
}

/// `new` with the mutable fields of `old`; remaining differences are errors.
fn without(new: &Value, old: &Value, mutable: &[&str]) -> Value {
    let mut rest = new.clone();
    for field in mutable {
        match (rest.as_object_mut(), old.get(*field)) {
            (Some(map), Some(value)) => drop(map.insert((*field).to_owned(), value.clone())),
            (Some(map), None) => drop(map.remove(*field)),
            (None, _) => {}
        }
    }
    rest
}

fn stateful_set(old: &Value, new: &Value, errors: &mut ErrorList) {
    let mutable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if without(&new["spec"], &old["spec"], &mutable) != old["spec"] {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(Error::forbidden(&Path::new("spec"), detail));
    }
}

/// Upstream's `field is immutable`.
fn stays(old: &Value, new: &Value, at: &Path, errors: &mut ErrorList) {
    if old != new {
        errors.push(Error::invalid(at, new.clone(), "field is immutable"));
    }
}

fn job(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    let count = path.child("completions");
    if is["completionMode"] != "Indexed" {
        stays(&was["completions"], &is["completions"], &count, errors);
    } else if was["completions"] != is["completions"]
        && is["completions"].is_i64()
        && is["completions"] != is["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(Error::invalid(&count, is["completions"].clone(), detail));
    }
    stays(&was["selector"], &is["selector"], &path.child("selector"), errors);
    job_template(old, is, &path.child("template"), errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        let before = errors.len();
        stays(&was[field], &is[field], &path.child(field), errors);
        let shape = if field == "podFailurePolicy" { "FailurePolicy" } else { "SuccessPolicy" };
        if field.ends_with("Policy")
            && let Some(error) = errors.split_off(before).pop()
        {
            errors.push(error.shown_as(super::internal::shown(shape, &is[field])));
        }
    }
}

/// Whether a job is suspended and has no pods: it never began, or its controller has deleted them.
fn is_suspended(job: &Value) -> bool {
    let status = &job["status"];
    let is_marked = || {
        let is_mark = |condition: &Value| condition["type"] == "Suspended" && condition["status"] == "True";
        items(status, "conditions").iter().any(is_mark)
    };
    let is_idle = status["active"].as_i64().unwrap_or(0) == 0;
    job["spec"]["suspend"] == true && is_idle && (status["startTime"].is_null() || is_marked())
}

/// Gives containers the resources that they had.
fn keep_resources(was: &Value, is: &mut Value) {
    for field in ["containers", "initContainers"] {
        let after = is.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        for (before, after) in items(was, field).iter().zip(after) {
            let Some(after) = after.as_object_mut() else { continue };
            match before.get("resources") {
                Some(resources) => drop(after.insert("resources".into(), resources.clone())),
                None => drop(after.remove("resources")),
            }
        }
    }
}

/// The template stays, but a suspended job may still be sent elsewhere, and its containers may get other resources.
fn job_template(old: &Value, spec: &Value, at: &Path, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"]["template"], &spec["template"]);
    let mut rest = is.clone();
    if is_suspended(old) {
        rest["spec"] = without(&is["spec"], &was["spec"], &["nodeSelector", "tolerations", "schedulingGates"]);
        keep_resources(&was["spec"], &mut rest["spec"]);
        rest["metadata"] = without(&is["metadata"], &was["metadata"], &["annotations", "labels"]);
        let affinity = without(&is["spec"]["affinity"], &was["spec"]["affinity"], &["nodeAffinity"]);
        let none = |affinity: &Value| affinity.as_object().is_none_or(serde_json::Map::is_empty);
        if !(none(&affinity) && none(&without(&was["spec"]["affinity"], &Value::Null, &["nodeAffinity"]))) {
            rest["spec"]["affinity"] = affinity;
        } else if let Some(map) = rest.get_mut("spec").and_then(Value::as_object_mut) {
            match was["spec"].get("affinity") {
                Some(affinity) => drop(map.insert("affinity".into(), affinity.clone())),
                None => drop(map.remove("affinity")),
            }
        }
    }
    if rest != *was {
        let shown = super::internal::pod_template(is);
        errors.push(Error::invalid(at, is.clone(), "field is immutable").shown_as(shown));
    }
}

/// Annotations that the server sets at creation are immutable.
pub(super) fn pod_annotations(old: &Value, new: &Value, errors: &mut ErrorList) {
    let annotations = |pod: &Value| pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let (before, after) = (annotations(old), annotations(new));
    let path = Path::new("metadata").child("annotations");
    let mut refuse = |key: &str, how: &str| {
        let what = match key {
            MIRROR => "mirror pod annotation",
            _ if key.starts_with(APPARMOR) => "AppArmor annotations",
            _ => return,
        };
        errors.push(Error::forbidden(&path.key(key), format!("may not {how} {what}")));
    };
    for key in before.iter().filter(|(key, value)| after.get(*key) != Some(value)).map(|(key, _)| key) {
        refuse(key, "remove or update");
    }
    for key in after.keys().filter(|key| !before.contains_key(*key)) {
        refuse(key, "add");
    }
}

/// Containers that debug a pod stay as they were added.
pub(super) fn ephemeral_containers(old: &Value, new: &Value, errors: &mut ErrorList) {
    pod_annotations(old, new, errors);
    if old["metadata"]["annotations"].get(MIRROR).is_some() {
        *errors = vec![Error::forbidden(&Path::new(""), "static pods do not support ephemeral containers")];
        return;
    }
    let path = Path::new("spec").child("ephemeralContainers");
    for before in items(&old["spec"], "ephemeralContainers") {
        let name = before["name"].as_str().unwrap_or_default();
        let after = items(&new["spec"], "ephemeralContainers").iter().find(|container| container["name"] == name);
        let how = match after {
            None => "removed\n",
            Some(after) if after != before => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {} may not be {how}", Value::from(name));
        errors.push(Error::forbidden(&path, detail));
    }
}

/// Mutable fields of a pod: images, the active deadline, additions to tolerations, removals of scheduling gates, and a
/// negative grace period, to 1.
fn pod(old: &Value, new: &Value, errors: &mut ErrorList) {
    pod_annotations(old, new, errors);
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    let mut rest = is.clone();
    for field in ["containers", "initContainers"] {
        let before = was[field].as_array().map_or(&[][..], Vec::as_slice);
        let after = is[field].as_array().map_or(&[][..], Vec::as_slice);
        let at = path.child(field);
        if before.len() != after.len() {
            return errors.push(Error::forbidden(&at, "pod updates may not add or remove containers"));
        }
        for (index, container) in after.iter().enumerate() {
            let image = container["image"].as_str().unwrap_or_default();
            let at = at.index(index).child("image");
            if image.is_empty() {
                errors.push(Error::required(&at, ""));
            }
            if image.trim() != image {
                errors.push(Error::invalid(&at, image, "must not have leading or trailing whitespace"));
            }
            if let Some(now) = rest[field].get_mut(index).and_then(Value::as_object_mut) {
                match before[index].get("image") {
                    Some(image) => drop(now.insert("image".into(), image.clone())),
                    None => drop(now.remove("image")),
                }
            }
        }
    }
    if !deadline(was, is, &path.child("activeDeadlineSeconds"), errors) {
        return;
    }
    rest = without(&rest, was, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
    only_added_tolerations(was, is, &path.child("tolerations"), errors);
    only_removed_gates(was, is, &path.child("schedulingGates"), errors);
    let negative = was["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    if negative && is["terminationGracePeriodSeconds"] == 1 {
        rest = without(&rest, was, &["terminationGracePeriodSeconds"]);
    }
    if !items(was, "schedulingGates").is_empty() {
        rest = gated(was, is, &rest, &path, errors);
    }
    if rest != *was {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                      existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                      previously negative)";
        errors.push(Error::forbidden(&path, detail));
    }
}

/// Returns whether to continue the comparison.
fn deadline(was: &Value, is: &Value, at: &Path, errors: &mut ErrorList) -> bool {
    let of = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    match (of(was), of(is)) {
        (_, Some(now)) if now < 0 || now > i64::from(i32::MAX) => {
            let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
            errors.push(Error::invalid(at, now, detail));
            false
        }
        (Some(before), Some(now)) if before < now => {
            errors.push(Error::invalid(at, now, "must be less than or equal to previous value"));
            false
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(Error::invalid(at, Value::Null, detail));
            true
        }
        _ => true,
    }
}

fn only_added_tolerations(was: &Value, is: &Value, at: &Path, errors: &mut ErrorList) {
    let bare = |toleration: &Value| without(toleration, &Value::Null, &["tolerationSeconds"]);
    let after: HashSet<Value> = items(is, "tolerations").iter().map(bare).collect();
    if !items(was, "tolerations").iter().all(|toleration| after.contains(&bare(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(at, detail));
    }
}

fn only_removed_gates(was: &Value, is: &Value, at: &Path, errors: &mut ErrorList) {
    let before: HashSet<&Value> = items(was, "schedulingGates").iter().map(|gate| &gate["name"]).collect();
    for (index, gate) in items(is, "schedulingGates").iter().enumerate() {
        if !before.contains(&gate["name"]) {
            let name = gate["name"].as_str().unwrap_or_default();
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(Error::forbidden(&at.index(index).child("name"), detail));
        }
    }
}

/// A pod with scheduling gates may get stricter node selection: more node labels, and more terms of its required node
/// affinity.
fn gated(was: &Value, is: &Value, rest: &Value, path: &Path, errors: &mut ErrorList) -> Value {
    let (before, after) = (&was["nodeSelector"], &is["nodeSelector"]);
    let kept = before.as_object().into_iter().flatten().all(|(key, value)| after.get(key) == Some(value));
    if before != after && !kept {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(Error::invalid(&path.child("nodeSelector"), after.clone(), detail));
    }
    narrowed(was, is, path, errors);
    let mut rest = without(rest, was, &["nodeSelector"]);
    let affinity = without(&is["affinity"], &was["affinity"], &["nodeAffinity"]);
    let none = affinity.as_object().is_none_or(serde_json::Map::is_empty);
    match rest.as_object_mut() {
        Some(map) if none && was["affinity"].is_null() => drop(map.remove("affinity")),
        Some(map) => drop(map.insert("affinity".into(), affinity)),
        None => {}
    }
    rest
}

/// A pod with scheduling gates may get stricter node selection terms.
fn narrowed(was: &Value, is: &Value, path: &Path, errors: &mut ErrorList) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |spec: &Value| spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].clone();
    let (before, after) = (terms(was), terms(is));
    let list = |terms: &Value| terms.as_array().cloned().unwrap_or_default();
    let (old, new) = (list(&before), list(&after));
    let at = path.child("affinity").child("nodeAffinity").child(REQUIRED).child("nodeSelectorTerms");
    let shown = |value: &Value| super::internal::shown("NodeSelectorTerm", value);
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(Error::invalid(&at, Value::Null, detail).shown_as(shown(&after)));
    }
    for (index, (old, new)) in old.iter().zip(&new).enumerate() {
        let none = |term: &Value| ["matchExpressions", "matchFields"].iter().all(|part| items(term, part).is_empty());
        let grown = |part: &str| items(new, part).starts_with(items(old, part));
        if none(old) && !none(new) || !grown("matchExpressions") || !grown("matchFields") {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(Error::invalid(&at.index(index), Value::Null, detail).shown_as(shown(new)));
        }
    }
}

/// The annotation that named the class of a claim before there was a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A bound claim may grow, or revert a failed expansion; other fields are immutable, except those set by a controller
/// or the default class.
fn claim(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let mut mutable = Vec::new();
    if was["volumeName"].as_str().unwrap_or_default().is_empty() {
        mutable.push("volumeName");
    }
    let annotated = |claim: &Value| claim["metadata"]["annotations"][CLASS].clone();
    let (annotation, unset) = (annotated(old), was["storageClassName"].is_null() && is["storageClassName"].is_string());
    let upgraded =
        unset && annotation == is["storageClassName"] && [&Value::Null, &annotation].contains(&&annotated(new));
    if unset && (annotation.is_null() || annotation == is["storageClassName"]) {
        mutable.push("storageClassName");
    }
    let mut rest = without(is, was, &mutable);
    let bound = new["status"]["phase"] == "Bound";
    if bound && is["resources"]["requests"].is_object() {
        rest["resources"]["requests"] =
            without(&is["resources"]["requests"], &was["resources"]["requests"], &["storage"]);
    }
    if bound && !is["volumeAttributesClassName"].is_null() {
        rest = without(&rest, was, &["volumeAttributesClassName"]);
    }
    if rest != *was {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                      claims";
        errors.push(Error::forbidden(&Path::new("spec"), detail));
    }
    let size =
        |value: &Value| value["storage"].as_str().and_then(|text| text.parse::<Quantity>().ok()).unwrap_or_default();
    let (before, after) = (size(&was["resources"]["requests"]), size(&is["resources"]["requests"]));
    if after < before && after <= size(&old["status"]["capacity"]) {
        let at = Path::new("spec").child("resources").child("requests").child("storage");
        errors.push(Error::forbidden(&at, "field can not be less than status.capacity"));
    }
    if annotation != annotated(new) && !upgraded {
        let at = Path::new("metadata").child("annotations").child(CLASS);
        errors.push(Error::invalid(&at, annotated(new).as_str().unwrap_or_default(), "field is immutable"));
    }
    // Upstream leaves `spec` out of this path.
    stays(&was["volumeMode"], &is["volumeMode"], &Path::new("volumeMode"), errors);
    let (before, after) = (&was["volumeAttributesClassName"], &is["volumeAttributesClassName"]);
    if !before.is_null() && before != after {
        let what = if after.is_null() { "nil" } else { "an empty string" };
        if after.is_null() || *after == "" {
            let at = Path::new("spec").child("volumeAttributesClassName");
            errors.push(Error::forbidden(&at, format!("update from non-nil value to {what} is forbidden")));
        }
    }
}

fn quota(old: &Value, new: &Value, errors: &mut ErrorList) {
    let scopes = |quota: &Value| -> HashSet<Value> { items(&quota["spec"], "scopes").iter().cloned().collect() };
    if scopes(old) != scopes(new) {
        let at = Path::new("spec").child("scopes");
        errors.push(Error::invalid(&at, new["spec"]["scopes"].clone(), "field is immutable"));
    }
}

/// Fields of a node that are immutable once they are set.
fn node(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    for (field, shown) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let specified =
            !matches!(&was[field], Value::Null) && was[field] != "" && was[field] != Value::Array(Vec::new());
        if specified && was[field] != is[field] {
            let detail = format!("node updates may not change {shown} except from \"\" to valid");
            errors.push(Error::forbidden(&path.child(field), detail));
        }
    }
    if was["externalID"] != is["externalID"] {
        errors.push(Error::forbidden(&path.child("externalID"), "may not be updated"));
    }
}

fn csi_driver(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    // Upstream's name for the first is not the field's.
    stays(&was["attachRequired"], &is["attachRequired"], &path.child("attachedRequired"), errors);
    stays(&was["volumeLifecycleModes"], &is["volumeLifecycleModes"], &path.child("volumeLifecycleModes"), errors);
}
