//! Pod-level resources, and their consistency with those of the containers.

use std::collections::BTreeMap;

use apimachinery::field::{Error, ErrorList};
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::resources::amount;
use super::{Object, forbidden, invalid, list, object};
use crate::pods::has_pod_level;

/// Supported pod-level resources; upstream lists `hugepages-` for all page sizes.
const SUPPORTED: [&str; 3] = ["cpu", "hugepages-", "memory"];

/// `at` is the path of the pod-level resources, which are already validated by their type.
pub(super) fn whole(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(resources) = object(spec, "resources") else { return };
    if resources.contains_key("claims") {
        forbidden(errors, &at.child("claims"), "claims cannot be set for Resources at pod-level");
    }
    for part in ["limits", "requests"] {
        let at = at.child(part);
        for name in object(resources, part).into_iter().flat_map(Object::keys) {
            if !has_pod_level(name) {
                errors.push(Error::not_supported(&at.key(name).path(), name.as_str(), &SUPPORTED));
            }
        }
    }
    requests_suffice(spec, resources, at, errors);
    limits_suffice(spec, resources, at, errors);
}

fn requests_suffice(spec: &Object, resources: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = object(resources, "requests");
    let at = at.child("requests");
    for (name, needed) in needed(spec, "requests").into_iter().filter(|(name, _)| has_pod_level(name)) {
        let requested = specified.and_then(|specified| amount(specified.get(name)?)).unwrap_or_default();
        if needed > requested {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            invalid(errors, &at.key(name), &requested.to_string().into(), &detail);
        }
    }
}

fn limits_suffice(spec: &Object, resources: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(limits) = object(resources, "limits") else { return };
    let list_at = at.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, value) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let (Some(limit), Some(whole)) = (amount(value), limits.get(name).and_then(amount)) else { continue };
            if limit > whole {
                let at = list_at.index(index);
                let at = at.key(name);
                let detail = format!("must be less than or equal to pod limits of {whole}");
                invalid(errors, &at.child("limits"), &limit.to_string().into(), &detail);
            }
        }
    }
}

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

fn amounts<'a>(container: &'a Value, part: &str) -> impl Iterator<Item = (&'a str, Quantity)> {
    let amounts = container["resources"][part].as_object();
    amounts.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), amount(value)?)))
}

fn add<'a>(amounts: &mut Amounts<'a>, more: impl Iterator<Item = (&'a str, Quantity)>) {
    for (name, more) in more {
        let sum = amounts.entry(name).or_default();
        *sum = *sum + more;
    }
}

/// The maximum concurrent requests or limits of a pod's containers: the sum of those that keep running, or one init
/// container with the sidecars started before it.
pub(crate) fn needed<'a>(spec: &'a Object, part: &str) -> Amounts<'a> {
    let mut running = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut running, amounts(container, part));
    }
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let mut now = beside.clone();
        add(&mut now, amounts(container, part));
        if container["restartPolicy"] == "Always" {
            beside = now.clone();
        }
        for (name, amount) in now {
            let known = most.entry(name).or_default();
            *known = (*known).max(amount);
        }
    }
    add(&mut running, beside.into_iter());
    for (name, amount) in most {
        let known = running.entry(name).or_default();
        *known = (*known).max(amount);
    }
    running
}
