//! Resource quotas: the usage of an object, the quotas that count it, and the check against their limits.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::quantity::{Format, Quantity};
use serde_json::{Map, Value};

use super::{amounts, containers, limits, list, text};

pub type Amounts = BTreeMap<String, Quantity>;

/// Resources whose objects quotas count by name also without the prefix `count/`.
const NAMED: [&str; 7] =
    ["pods", "services", "persistentvolumeclaims", "configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

fn add(sum: &mut Amounts, name: impl Into<String>, amount: Quantity) {
    let name = name.into();
    let whole = sum.get(&name).map_or(amount, |before| *before + amount);
    sum.insert(name, whole);
}

/// The name under which quotas count objects of a resource: `count/deployments.apps`.
fn count_name(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

/// The resources to count for these limits, as group and plural.
pub fn counted(hard: &Map<String, Value>) -> BTreeSet<(String, String)> {
    hard.keys().filter_map(|name| source(name)).collect()
}

fn source(name: &str) -> Option<(String, String)> {
    let core = |plural: &str| Some((String::new(), plural.to_owned()));
    if let Some(counted) = name.strip_prefix("count/") {
        return match counted.split_once('.') {
            Some((plural, group)) => Some((group.to_owned(), plural.to_owned())),
            None => core(counted),
        };
    }
    if NAMED.contains(&name) {
        return core(name);
    }
    if name.starts_with("services.") {
        return core("services");
    }
    if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") {
        return core("persistentvolumeclaims");
    }
    let compute = matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || ["requests.", "limits.", "hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    compute.then(|| ("".to_owned(), "pods".to_owned()))
}

/// The usage of an object.
pub fn usage(group: &str, plural: &str, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    add(&mut used, count_name(group, plural), one());
    if !group.is_empty() {
        return used;
    }
    match plural {
        "pods" if is_finished(object) => return used,
        "pods" => pod(object, &mut used),
        "services" => service(object, &mut used),
        "persistentvolumeclaims" => claim(object, &mut used),
        _ => {}
    }
    if NAMED.contains(&plural) {
        add(&mut used, plural, one());
    }
    used
}

/// A finished pod uses no resources.
fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

fn pod(pod: &Value, used: &mut Amounts) {
    for (name, amount) in limits::total(&pod["spec"], "requests") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            add(used, name.clone(), amount);
        }
        add(used, format!("requests.{name}"), amount);
    }
    for (name, amount) in limits::total(&pod["spec"], "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            add(used, format!("limits.{name}"), amount);
        }
    }
}

fn service(service: &Value, used: &mut Amounts) {
    let spec = &service["spec"];
    let counted = |ports: usize| Quantity::new(ports as i64, Format::DecimalSi);
    let ports = || list(&spec["ports"]);
    match text(spec, "type") {
        "NodePort" => add(used, "services.nodeports", counted(ports().count())),
        "LoadBalancer" => {
            add(used, "services.loadbalancers", one());
            let requested = |port: &&Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
            let count = match spec["allocateLoadBalancerNodePorts"] == false {
                true => ports().filter(requested).count(),
                false => ports().count(),
            };
            add(used, "services.nodeports", counted(count));
        }
        _ => {}
    }
}

fn claim(claim: &Value, used: &mut Amounts) {
    let storage = |amounts_of: &Value| {
        let found = amounts(amounts_of).find(|(name, _)| *name == "storage");
        found.map(|(_, size)| size)
    };
    // After a failed expansion the request may be smaller than the volume.
    let size = storage(&claim["spec"]["resources"]["requests"])
        .map(|size| storage(&claim["status"]["allocatedResources"]).map_or(size, |allocated| size.max(allocated)));
    // The annotation is older than the field, and takes precedence.
    let annotated = claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    let class = annotated.unwrap_or_else(|| text(&claim["spec"], "storageClassName"));
    if let Some(size) = size {
        add(used, "requests.storage", size);
        if !class.is_empty() {
            add(used, format!("{class}.storageclass.storage.k8s.io/requests.storage"), size);
        }
    }
    if !class.is_empty() {
        add(used, format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one());
    }
}

/// Whether a quota counts this object. Quotas with scopes count only pods and claims.
pub fn matches(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = list(&spec["scopes"]).filter_map(Value::as_str);
    let selectors: Vec<&Value> = list(&spec["scopeSelector"]["matchExpressions"]).collect();
    let mut scopes = scopes.peekable();
    if scopes.peek().is_none() && selectors.is_empty() {
        return true;
    }
    match (group, plural) {
        ("", "pods") => {
            scopes.all(|scope| in_scope(scope, object))
                && selectors.into_iter().all(|selector| is_selected(selector, object))
        }
        ("", "persistentvolumeclaims") => {
            let classes = attributes_classes(object);
            scopes.all(|scope| scope == ATTRIBUTES_CLASS && !classes.is_empty())
                && selectors.into_iter().all(|selector| are_selected(selector, &classes))
        }
        _ => false,
    }
}

/// The only scope of claims.
const ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";

/// The volume attributes classes of a claim: current, requested and target.
fn attributes_classes(claim: &Value) -> BTreeSet<&str> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let named = [
        text(spec, "volumeAttributesClassName"),
        text(status, "currentVolumeAttributesClassName"),
        text(&status["modifyVolumeStatus"], "targetVolumeAttributesClassName"),
    ];
    named.into_iter().filter(|name| !name.is_empty()).collect()
}

fn are_selected(selector: &Value, classes: &BTreeSet<&str>) -> bool {
    if text(selector, "scopeName") != ATTRIBUTES_CLASS {
        return false;
    }
    let named = |class: &&str| list(&selector["values"]).any(|value| value == *class);
    match text(selector, "operator") {
        "In" => classes.iter().any(named),
        "NotIn" => classes.is_empty() || classes.iter().any(|class| !named(class)),
        "Exists" => !classes.is_empty(),
        "DoesNotExist" => classes.is_empty(),
        _ => false,
    }
}

fn in_scope(scope: &str, pod: &Value) -> bool {
    let spec = &pod["spec"];
    match scope {
        "Terminating" => spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0),
        "NotTerminating" => !in_scope("Terminating", pod),
        "BestEffort" => crate::pods::qos_class(spec) == "BestEffort",
        "NotBestEffort" => !in_scope("BestEffort", pod),
        "PriorityClass" => !text(spec, "priorityClassName").is_empty(),
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
            let affinity = &spec["affinity"][kind];
            let preferred = list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]);
            let terms = list(&affinity["requiredDuringSchedulingIgnoredDuringExecution"])
                .chain(preferred.map(|preferred| &preferred["podAffinityTerm"]));
            terms
                .into_iter()
                .any(|term| list(&term["namespaces"]).next().is_some() || term["namespaceSelector"].is_object())
        }),
        _ => false,
    }
}

fn is_selected(selector: &Value, pod: &Value) -> bool {
    let scope = text(selector, "scopeName");
    if scope != "PriorityClass" {
        return match text(selector, "operator") {
            "DoesNotExist" => !in_scope(scope, pod),
            _ => in_scope(scope, pod),
        };
    }
    let class = text(&pod["spec"], "priorityClassName");
    let named = || list(&selector["values"]).any(|value| value == class);
    match text(selector, "operator") {
        "In" => named(),
        "NotIn" => !named(),
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        _ => false,
    }
}

/// The usage of a quota's resources by these objects, in the form of `status.used`.
pub fn recount<'o>(quota: &Value, objects: impl Iterator<Item = (&'o str, &'o str, &'o Value)>) -> Map<String, Value> {
    let mut used = Amounts::new();
    for (group, plural, object) in objects.filter(|(group, plural, object)| matches(quota, group, plural, object)) {
        for (name, amount) in usage(group, plural, object) {
            add(&mut used, name, amount);
        }
    }
    let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
    hard.map(|(name, _)| (name.clone(), used.get(name).map_or_else(|| "0".to_owned(), ToString::to_string).into()))
        .collect()
}

/// A quota of compute resources requires every container to set requests or limits for them, unless the pod has its own.
fn missing_resources(hard: &Map<String, Value>, pod: &Value) -> Option<String> {
    const DEMANDED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    if ["requests", "limits"].iter().any(|part| !limits::of_pod(&pod["spec"], part).is_empty()) {
        return None;
    }
    let missing = DEMANDED.iter().filter(|name| hard.contains_key(**name)).filter_map(|name| {
        let (part, resource) = match name.split_once('.') {
            Some(("limits", resource)) => ("limits", resource),
            Some((_, resource)) => ("requests", resource),
            None => ("requests", *name),
        };
        let silent = containers(&pod["spec"]).filter(|(_, container)| container["resources"][part][resource].is_null());
        let names: BTreeSet<&str> = silent.map(|(_, container)| text(container, "name")).collect();
        (!names.is_empty()).then(|| format!("{name} for: {}", names.into_iter().collect::<Vec<_>>().join(",")))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

/// The quota's `status.used` after a write; `None` if the quota does not count the object or its usage does not grow.
/// Limits are read from the status: a quota that its controller has not processed limits nothing.
///
/// # Errors
/// The exceeded limits, with upstream's text.
pub fn charge(
    quota: &Value,
    group: &str,
    plural: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<Option<Map<String, Value>>, String> {
    let name = text(&quota["metadata"], "name");
    let Some(hard) = quota["status"]["hard"].as_object() else { return Ok(None) };
    if !matches(quota, group, plural, new) {
        return Ok(None);
    }
    if group.is_empty()
        && plural == "pods"
        && old.is_none()
        && let Some(why) = missing_resources(hard, new)
    {
        return Err(format!("failed quota: {name}: {why}"));
    }
    let more = increase(quota, hard, (group, plural), old, new);
    if more.is_empty() {
        return Ok(None);
    }
    let in_use: Amounts = amounts(&quota["status"]["used"]).map(|(name, amount)| (name.to_owned(), amount)).collect();
    let unknown: Vec<&str> = more.keys().filter(|name| !in_use.contains_key(*name)).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(format!("status unknown for quota: {name}, resources: {}", unknown.join(",")));
    }
    let limits: Amounts =
        hard.iter().filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect();
    let exceeded: Vec<&String> = more
        .iter()
        .filter(|(name, delta)| limits.get(*name).is_some_and(|most| in_use[*name] + **delta > *most))
        .map(|(name, _)| name)
        .collect();
    if !exceeded.is_empty() {
        let shown = |amounts: &Amounts| -> String {
            let pairs: Vec<String> =
                exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?))).collect();
            pairs.join(",")
        };
        return Err(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            shown(&more),
            shown(&in_use),
            shown(&limits)
        ));
    }
    let mut used = quota["status"]["used"].as_object().cloned().unwrap_or_default();
    for (name, delta) in more {
        let whole = in_use[&name] + delta;
        used.insert(name, whole.to_string().into());
    }
    Ok(Some(used))
}

/// The growth of the usage of each limited resource. An object that enters the quota's scope adds its whole usage.
fn increase(
    quota: &Value,
    hard: &Map<String, Value>,
    (group, plural): (&str, &str),
    old: Option<&Value>,
    new: &Value,
) -> Amounts {
    let counted = old.filter(|old| matches(quota, group, plural, old));
    let before = counted.map(|old| usage(group, plural, old)).unwrap_or_default();
    let now = usage(group, plural, new).into_iter().filter(|(name, _)| hard.contains_key(name));
    let deltas = now.map(|(name, amount)| {
        let delta = before.get(&name).map_or(amount, |before| amount - *before);
        (name, delta)
    });
    deltas.filter(|(_, delta)| !delta.is_zero() && !delta.is_negative()).collect()
}

/// Reverts the usage that [`charge`] added for an object that was not stored; `None` if it added none.
pub fn refund(
    quota: &Value,
    group: &str,
    plural: &str,
    old: Option<&Value>,
    new: &Value,
) -> Option<Map<String, Value>> {
    let hard = quota["status"]["hard"].as_object()?;
    if !matches(quota, group, plural, new) {
        return None;
    }
    let charged = increase(quota, hard, (group, plural), old, new);
    let mut used = quota["status"]["used"].as_object()?.clone();
    let before = used.clone();
    for (name, delta) in charged {
        let in_use = used.get(&name).and_then(Value::as_str).and_then(|text| text.parse::<Quantity>().ok());
        // A recount since then has already removed it.
        if let Some(left) = in_use.map(|in_use| in_use - delta).filter(|left| !left.is_negative()) {
            used.insert(name, left.to_string().into());
        }
    }
    (used != before).then_some(used)
}

#[cfg(test)]
mod tests;
