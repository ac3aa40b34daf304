//! Resizing of running pods: resources may change within limits, everything else is immutable.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value};

use super::annotations::MIRROR;
use super::items;

/// The errors of `pods/resize`; `validate` checks the whole pod after the change.
pub(super) fn update(old: &Value, new: &Value, validate: impl FnOnce() -> ErrorList) -> ErrorList {
    let refuse = |detail: &str| vec![Error::forbidden(&Path::new(""), detail)];
    if old["metadata"]["annotations"].get(MIRROR).is_some() {
        return refuse("static pods cannot be resized");
    }
    if old["spec"]["os"]["name"] == "windows" {
        return refuse("windows pods cannot be resized");
    }
    let mut errors = validate();
    let path = Path::new("spec");
    if crate::pods::qos_class(&old["spec"]) != crate::pods::qos_class(&new["spec"]) {
        let class = old["status"]["qosClass"].clone();
        errors.push(Error::invalid(&path, class, "Pod QOS Class may not change as a result of resizing"));
    }
    if !is_supported(old) {
        errors.push(Error::forbidden(&path, "Pod running on node without support for resize"));
    }
    for field in ["initContainers", "containers"] {
        for (index, (was, is)) in items(&old["spec"], field).iter().zip(items(&new["spec"], field)).enumerate() {
            if field == "containers" || was["restartPolicy"] == "Always" {
                removed(
                    &was["resources"],
                    &is["resources"],
                    &path.child(field).index(index).child("resources"),
                    &mut errors,
                );
            }
        }
    }
    for (was, is) in items(&old["spec"], "containers").iter().zip(items(&new["spec"], "containers")) {
        if rest(was) != rest(is) {
            errors.push(Error::forbidden(&path, "only cpu and memory resources are mutable"));
        }
    }
    for (was, is) in items(&old["spec"], "initContainers").iter().zip(items(&new["spec"], "initContainers")) {
        if was["restartPolicy"] != "Always" && was != is {
            errors.push(Error::forbidden(&path, "resources for non-sidecar init containers are immutable"));
        } else if rest(was) != rest(is) {
            let detail = "only cpu and memory resources for sidecar containers are mutable";
            errors.push(Error::forbidden(&path, detail));
        }
    }
    errors
}

/// Kubelets that support resizing report allocated resources in container statuses.
fn is_supported(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let mut running = statuses.filter(|status| status["state"]["running"].is_object());
    running.next().is_none_or(|status| status["resources"].is_object())
}

fn removed(was: &Value, is: &Value, at: &Path, errors: &mut ErrorList) {
    for part in ["requests", "limits"] {
        let mut names = was[part].as_object().into_iter().flat_map(Map::keys);
        if names.any(|name| is[part].get(name).is_none()) {
            errors.push(Error::forbidden(&at.child(part), format!("resource {part} cannot be removed")));
        }
    }
}

/// A container without the resizable quantities.
fn rest(container: &Value) -> Value {
    let mut rest = container.clone();
    if let Some(container) = rest.as_object_mut() {
        container.remove("resizePolicy");
    }
    for part in ["requests", "limits"] {
        if let Some(amounts) = rest["resources"].get_mut(part).and_then(Value::as_object_mut) {
            amounts.remove("cpu");
            amounts.remove("memory");
        }
    }
    rest
}
