//! What an update may not change.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::table::{Node, Refusal, Rule};
use super::{config, machinery, services};

/// Looks at the object before and after.
pub(super) type Compare = fn(&Value, &Value, &mut ErrorList);

pub(super) fn named(name: &str) -> Option<Compare> {
    Some(match name {
        "claim" => claim,
        "immutable_data" => config::update,
        "job" => job,
        "pod" => pod,
        "persistent_volume" => machinery::volume_update,
        "service" => services::update,
        "stateful_set" => stateful_set,
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
    let mut error = match refusal {
        Refusal::Immutable => Error::invalid(&at, is, "field is immutable"),
        Refusal::Invalid(text) => Error::invalid(&at, is, *text),
        Refusal::Forbidden(text) => Error::forbidden(&at, *text),
    };
    // Upstream shows the fields of its own struct.
    error.shown = role;
    errors.push(error);
}

/// `new` with what may change taken from `old`; what then differs may not.
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

fn job(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    // A job that has not begun may still be placed elsewhere.
    let waiting = was["suspend"] == true && old["status"]["startTime"].is_null();
    if !waiting && was["template"] != is["template"] {
        errors.push(Error::invalid(&path.child("template"), is["template"].clone(), "field is immutable"));
    }
    let elastic = is["completionMode"] == "Indexed" && is["completions"] == is["parallelism"];
    if was["completions"] != is["completions"] && !elastic {
        errors.push(Error::invalid(&path.child("completions"), is["completions"].clone(), "field is immutable"));
    }
}

/// Images, deadlines and more tolerations: the rest of a pod is as it was born.
fn pod(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let path = Path::new("spec");
    let mut rest = without(is, was, &["activeDeadlineSeconds"]);
    for field in ["containers", "initContainers"] {
        let before = was[field].as_array().map_or(&[][..], Vec::as_slice);
        let after = rest[field].as_array().map_or(0, Vec::len);
        if before.len() != after {
            let detail = "pod updates may not add or remove containers";
            return errors.push(Error::forbidden(&path.child(field), detail));
        }
        for (index, container) in before.iter().enumerate() {
            if let Some(now) = rest[field].get_mut(index).and_then(Value::as_object_mut) {
                now.insert("image".into(), container["image"].clone());
            }
        }
    }
    let items = |spec: &Value, field: &str| -> HashSet<Value> {
        spec[field].as_array().into_iter().flatten().cloned().collect()
    };
    if items(was, "tolerations").is_subset(&items(is, "tolerations")) {
        rest = without(&rest, was, &["tolerations"]);
    }
    if items(is, "schedulingGates").is_subset(&items(was, "schedulingGates")) {
        rest = without(&rest, was, &["schedulingGates"]);
    }
    if was["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        rest = without(&rest, was, &["terminationGracePeriodSeconds"]);
    }
    if rest != *was {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                      existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                      previously negative)";
        errors.push(Error::forbidden(&path, detail));
    }
}

/// A claim grows; otherwise it stays, once it has a volume.
fn claim(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"], &new["spec"]);
    let mut mutable = vec!["resources", "volumeAttributesClassName"];
    if was["volumeName"].is_null() {
        mutable.extend(["volumeName", "storageClassName"]);
    }
    if without(is, was, &mutable) != *was {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                      claims";
        errors.push(Error::forbidden(&Path::new("spec"), detail));
    }
}
