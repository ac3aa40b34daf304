//! The usage of bindings, and whether the FederatedResourceQuotas of their namespace allow it (feature gate
//! FederatedQuotaEnforcement).
//!
//! Our API server writes a quota in the transaction of the binding ([`balance`]), so that `status.overallUsed` equals
//! the sum over the stored bindings at every revision. A webhook cannot: it charges growth before the binding is stored
//! ([`charge`]), and a controller releases usage that was freed or never stored.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Object;
use apimachinery::meta::Time;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::autoscaling::{is_extended, list, quantity, text};
use super::{Denied, Request};

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// A quota's new `status.overallUsed`.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// The quota's namespace.
    pub namespace: String,
    /// The quota's name.
    pub name: String,
    /// The new `status.overallUsed`.
    pub overall_used: Value,
}

/// The usage of stored bindings, by resource.
pub fn total<'a>(bindings: impl IntoIterator<Item = &'a Value>) -> Amounts {
    let mut sum = Amounts::new();
    for (name, amount) in bindings.into_iter().flat_map(usage) {
        add(&mut sum, &name, amount);
    }
    sum
}

/// The part of `total` that a quota limits, as its `status.overallUsed`.
pub fn overall_used(quota: &Value, total: &Amounts) -> Value {
    let overall = amounts(&quota["spec"]["overall"]);
    let limited = |(name, amount): &(&String, &Quantity)| {
        overall.contains_key(*name) && is_counted(name) && **amount > Quantity::ZERO
    };
    let entries = total.iter().filter(limited).map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(entries.collect())
}

/// The fields of a binding that usage is computed from; its status may be large.
///
/// # Errors
/// When the specification cannot be decoded.
pub fn outline(binding: &Object) -> Result<Value, serde_json::Error> {
    let spec = binding.member("spec").map(|spec| serde_json::from_slice::<Value>(&spec)).transpose()?;
    let metadata = json!({"namespace": binding.namespace(), "name": binding.name()});
    Ok(json!({"metadata": metadata, "spec": spec}))
}

/// The `status.overallUsed` of a quota after a count of all bindings. Without `may_lower` no quantity decreases: a
/// webhook may have charged for a binding that is not stored yet.
pub fn recounted(quota: &Value, total: &Amounts, may_lower: bool) -> Value {
    let mut counted = total.clone();
    if !may_lower {
        for (name, charged) in amounts(&quota["status"]["overallUsed"]) {
            let slot = counted.entry(name).or_insert(Quantity::ZERO);
            *slot = charged.max(*slot);
        }
    }
    overall_used(quota, &counted)
}

/// The field manager of charges that a webhook writes.
pub const CHARGING_MANAGER: &str = "karmada-webhook";

/// When a webhook last charged a quota.
pub fn charged_at(quota: &Value) -> Option<Time> {
    let entries = list(&quota["metadata"]["managedFields"]).iter();
    let of_webhook = entries.filter(|it| it["manager"] == CHARGING_MANAGER && it["subresource"] == "status");
    of_webhook
        .filter_map(|it| serde_json::from_value(it["time"].clone()).ok())
        .max_by_key(|time: &Time| time.timestamp())
}

/// Whether the usage of every limited resource has been counted: `status.overall` has the limits that `overallUsed`
/// belongs to.
pub fn is_counted_fully(quota: &Value) -> bool {
    let known = amounts(&quota["status"]["overall"]);
    amounts(&quota["spec"]["overall"]).keys().all(|name| !is_counted(name) || known.contains_key(name))
}

/// Returns a quota after a binding of its namespace changed from `old` to `new` (`None`: no binding); `None` if the
/// quota is unchanged. `all` returns the usage of all bindings before the change; it is called for a quota that has not
/// been counted.
///
/// # Errors
/// [`Denied::QuotaExceeded`] if the binding uses more of a resource than before, and more than is available;
/// [`Denied::Failed`] for a binding with negative usage; the error of `all`.
pub fn balance(
    quota: &Value,
    old: Option<&Value>,
    new: Option<&Value>,
    all: impl FnOnce() -> Result<Amounts, Denied>,
) -> Result<Option<Value>, Denied> {
    if let Some(why) = new.and_then(negative) {
        return Err(Denied::Failed(why));
    }
    let overall = amounts(&quota["spec"]["overall"]);
    let mut delta = new.map(usage).unwrap_or_default();
    for (name, amount) in old.map(usage).unwrap_or_default() {
        add(&mut delta, &name, Quantity::ZERO - amount);
    }
    delta.retain(|name, amount| !amount.is_zero() && overall.contains_key(name));
    if delta.is_empty() {
        return Ok(None);
    }
    let is_counted_fully = is_counted_fully(quota);
    let mut used = if is_counted_fully { amounts(&quota["status"]["overallUsed"]) } else { all()? };
    for (name, amount) in &delta {
        add(&mut used, name, *amount);
    }
    check(quota, &overall, &delta, &used)?;
    let mut quota = quota.clone();
    quota["status"]["overallUsed"] = overall_used(&quota, &used);
    if !is_counted_fully {
        quota["status"]["overall"] = quota["spec"]["overall"].clone();
    }
    Ok(Some(quota))
}

/// The first resource whose usage increases beyond the limit.
fn check(quota: &Value, overall: &Amounts, delta: &Amounts, used: &Amounts) -> Result<(), Denied> {
    let (namespace, name) = (text(&quota["metadata"], "namespace"), text(&quota["metadata"], "name"));
    for (resource, _) in delta.iter().filter(|(name, amount)| **amount > Quantity::ZERO && is_counted(name)) {
        if let (Some(sum), Some(limit)) = (used.get(resource), overall.get(resource))
            && sum > limit
        {
            return Err(Denied::QuotaExceeded(format!(
                "FederatedResourceQuota({namespace}/{name}) exceeded for resource {resource}: requested sum {sum}, \
                 limit {limit}."
            )));
        }
    }
    Ok(())
}

/// Why a request does not affect quotas, as upstream's message; `None` if it changes the binding's usage.
///
/// # Errors
/// [`Denied::Failed`] for a binding with negative usage.
pub fn unaffected(request: &Request<'_>, binding: &Value) -> Result<Option<&'static str>, Denied> {
    match request.old {
        None if list(&binding["spec"]["clusters"]).is_empty() => {
            return Ok(Some("ResourceBinding not yet scheduled for Create operation."));
        }
        Some(old) if !is_affected(old, binding) => return Ok(Some("No quota relevant fields changed.")),
        _ => {}
    }
    for binding in std::iter::once(binding).chain(request.old) {
        negative(binding).map_or(Ok(()), |why| Err(Denied::Failed(why)))?;
    }
    let none = "No effective resource quantity delta for ResourceBinding, skipping quota validation.";
    Ok(delta(request.old, binding).is_empty().then_some(none))
}

/// The error of a binding with negative usage.
fn negative(binding: &Value) -> Option<String> {
    let metadata = &binding["metadata"];
    let name = format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"));
    let request = request_of(binding);
    if request.is_empty() || list(&binding["spec"]["clusters"]).is_empty() {
        return None;
    }
    match replicas(binding) {
        0 => return None,
        count if count < 0 => {
            return Some(format!("total replicas in clusters cannot be negative for RB {name}: {count}"));
        }
        _ => {}
    }
    let (resource, amount) = request.iter().find(|(_, amount)| amount.is_negative())?;
    Some(format!("resource request for {resource} in RB {name} has a negative value: {amount}"))
}

/// The message for a binding that the quotas of its namespace allow, which is upstream's.
pub fn allowed(namespace: &str, name: &str, charges: &[Charge]) -> String {
    let passed = |charge: &Charge| format!("Quota check passed for FRQ {}/{}.", charge.namespace, charge.name);
    let mut parts =
        vec![format!("All relevant FederatedResourceQuota checks passed for ResourceBinding {namespace}/{name}.")];
    parts.extend(charges.iter().map(passed));
    parts.push(match charges.len() {
        0 => "No FRQs required update.".to_owned(),
        count => format!("{count} FRQ(s) updated."),
    });
    parts.join(" ")
}

/// The charges for the growth of a binding, one for each quota of the namespace that limits it, in their order. The
/// controller releases freed usage once the new state is stored.
///
/// # Errors
/// [`Denied::QuotaExceeded`] for the first limit that would be exceeded.
pub fn charge(request: &Request<'_>, binding: &Value, quotas: &[Value]) -> Result<Vec<Charge>, Denied> {
    let growth: Amounts =
        delta(request.old, binding).into_iter().filter(|(_, amount)| *amount > Quantity::ZERO).collect();
    let mut charges = Vec::new();
    for quota in quotas {
        let overall = amounts(&quota["spec"]["overall"]);
        let relevant: Amounts = growth
            .iter()
            .filter(|(name, _)| overall.contains_key(*name))
            .map(|(name, it)| (name.clone(), *it))
            .collect();
        if relevant.is_empty() {
            continue;
        }
        let mut used = amounts(&quota["status"]["overallUsed"]);
        for (name, amount) in &relevant {
            add(&mut used, name, *amount);
        }
        check(quota, &overall, &relevant, &used)?;
        charges.push(Charge {
            namespace: text(&quota["metadata"], "namespace").to_owned(),
            name: text(&quota["metadata"], "name").to_owned(),
            overall_used: overall_used(quota, &used),
        });
    }
    Ok(charges)
}

/// The resources that usage is computed for; a quota for another resource is never charged.
fn is_counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || is_extended(name)
}

fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flat_map(Map::iter);
    entries.filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?))).collect()
}

fn add(sum: &mut Amounts, name: &str, amount: Quantity) {
    let slot = sum.entry(name.to_owned()).or_insert(Quantity::ZERO);
    *slot = *slot + amount;
}

/// The difference in usage between the new and the old state, without zeros.
fn delta(old: Option<&Value>, new: &Value) -> Amounts {
    match old {
        None if list(&new["spec"]["clusters"]).is_empty() => return Amounts::new(),
        Some(old) if !is_affected(old, new) => return Amounts::new(),
        _ => {}
    }
    let mut delta = usage(new);
    for (name, amount) in old.map(usage).unwrap_or_default() {
        add(&mut delta, &name, Quantity::ZERO - amount);
    }
    delta.retain(|_, amount| !amount.is_zero());
    delta
}

/// Whether an update changes a field that usage is computed from.
fn is_affected(old: &Value, new: &Value) -> bool {
    let names = |binding: &Value| -> BTreeSet<String> {
        list(&binding["spec"]["clusters"]).iter().map(|it| text(it, "name").to_owned()).collect()
    };
    let components = |binding: &Value| -> Vec<(i64, Option<Amounts>)> {
        let each = list(&binding["spec"]["components"]).iter();
        each.map(|it| {
            let needs = &it["replicaRequirements"];
            (it["replicas"].as_i64().unwrap_or_default(), needs.is_object().then(|| amounts(&needs["resourceRequest"])))
        })
        .collect()
    };
    let (before, after) = (components(old), components(new));
    request_of(old) != request_of(new)
        || replicas(old) != replicas(new)
        || before != after
        || (!(before.is_empty() && after.is_empty()) && names(old) != names(new))
}

fn request_of(binding: &Value) -> Amounts {
    amounts(&binding["spec"]["replicaRequirements"]["resourceRequest"])
}

/// Over all clusters.
fn replicas(binding: &Value) -> i64 {
    let each = list(&binding["spec"]["clusters"]).iter().map(|it| it["replicas"].as_i64().unwrap_or_default());
    each.fold(0, i64::saturating_add)
}

/// A binding with negative usage, which only a server without the gate stores, counts as one without a result.
fn usage(binding: &Value) -> Amounts {
    let mut sum = Amounts::new();
    if negative(binding).is_some() {
        return sum;
    }
    let components = list(&binding["spec"]["components"]);
    if components.is_empty() {
        let count = replicas(binding);
        for (name, amount) in request_of(binding) {
            add(&mut sum, &name, amount.times(count));
        }
    }
    let clusters = i64::try_from(list(&binding["spec"]["clusters"]).len()).unwrap_or(i64::MAX);
    for component in components {
        let count = component["replicas"].as_i64().unwrap_or_default().saturating_mul(clusters);
        for (name, amount) in amounts(&component["replicaRequirements"]["resourceRequest"]) {
            add(&mut sum, &name, amount.times(count));
        }
    }
    sum.retain(|_, amount| !amount.is_zero());
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Operation, Options};
    use super::*;

    fn binding(cpu: &str, replicas: &[i64]) -> Value {
        let clusters: Vec<Value> =
            replicas.iter().enumerate().map(|(n, count)| json!({"name": format!("m{n}"), "replicas": count})).collect();
        json!({"spec": {"clusters": clusters, "replicaRequirements": {"resourceRequest": {"cpu": cpu, "foo": "1"}}}})
    }

    fn quota(limit: &str, used: &str) -> Value {
        json!({"metadata": {"namespace": "ns", "name": "q"}, "spec": {"overall": {"cpu": limit}}, "status": {"overallUsed": {"cpu": used}}})
    }

    fn request(old: Option<&Value>) -> Request<'_> {
        Request {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            group: "work.karmada.io",
            kind: "ResourceBinding",
            namespace: "ns",
            old,
            uuid: "",
            customizations: &[],
            options: Options::default(),
        }
    }

    #[test]
    fn unaffected_requests() {
        let named = |mut binding: Value| {
            binding["metadata"] = json!({"namespace": "ns", "name": "b"});
            binding
        };
        for (old, new, expected) in [
            (None, binding("1", &[]), Ok(Some("ResourceBinding not yet scheduled for Create operation."))),
            (None, binding("1", &[2]), Ok(None)),
            (Some(binding("1", &[2])), binding("1", &[2]), Ok(Some("No quota relevant fields changed."))),
            (
                Some(binding("1", &[0])),
                binding("2", &[0]),
                Ok(Some("No effective resource quantity delta for ResourceBinding, skipping quota validation.")),
            ),
            (None, binding("1", &[2, -3]), Err("total replicas in clusters cannot be negative for RB ns/b: -1")),
            (None, binding("-1", &[2]), Err("resource request for cpu in RB ns/b has a negative value: -1")),
        ] {
            let old = old.map(named);
            let request = request(old.as_ref());
            let found = unaffected(&request, &named(new)).map_err(|denied| denied.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        let charge = Charge { namespace: "ns".into(), name: "q".into(), overall_used: json!({}) };
        let all = "All relevant FederatedResourceQuota checks passed for ResourceBinding ns/b.";
        assert_eq!(allowed("ns", "b", &[]), format!("{all} No FRQs required update."));
        assert_eq!(allowed("ns", "b", &[charge]), format!("{all} Quota check passed for FRQ ns/q. 1 FRQ(s) updated."));
    }

    #[test]
    fn growing_bindings_are_charged() {
        let components = |replicas: i64, clusters: &[&str]| {
            let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"clusters": clusters, "components": [{"name": "a", "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}]}})
        };
        let exceeded = "FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 6, limit 5.";
        for (what, old, new, quota, expected) in [
            ("created without a result", None, binding("1", &[]), quota("5", "0"), Ok(None)),
            ("created", None, binding("500m", &[2, 3]), quota("5", "1"), Ok(Some("3500m"))),
            ("created with components", None, components(2, &["m1", "m2"]), quota("5", "0"), Ok(Some("4"))),
            (
                "one cluster more",
                Some(components(2, &["m1"])),
                components(2, &["m1", "m2"]),
                quota("9", "2"),
                Ok(Some("4")),
            ),
            ("too much", None, binding("1", &[3]), quota("5", "3"), Err(exceeded)),
            ("moved", Some(binding("1", &[3, 0])), binding("1", &[0, 3]), quota("1", "3"), Ok(None)),
            (
                "fewer, while the limit is exceeded: given back once stored",
                Some(binding("1", &[4])),
                binding("1", &[3]),
                quota("2", "4"),
                Ok(None),
            ),
            ("back to nothing", Some(binding("1", &[4])), binding("1", &[0]), quota("2", "4"), Ok(None)),
        ] {
            let request = request(old.as_ref());
            let found = charge(&request, &new, &[quota]);
            let found = found.map(|charges| charges.first().map(|it| text(&it.overall_used, "cpu").to_owned()));
            let found = found.map_err(|denied| denied.to_string());
            assert_eq!(found, expected.map(|it| it.map(str::to_owned)).map_err(str::to_owned), "{what}");
        }
    }
    #[test]
    fn balances() {
        let counted = |limit: &str, used: &str| {
            json!({"metadata": {"namespace": "ns", "name": "q"}, "spec": {"overall": {"cpu": limit}},
                   "status": {"overall": {"cpu": limit}, "overallUsed": {"cpu": used}}})
        };
        let uncounted = |limit: &str| quota(limit, "77");
        let exceeded = "FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 6, limit 5.";
        let one = |replicas: i64| Some(binding("1", &[replicas]));
        for (what, old, new, quota, expected) in [
            ("created", None, one(2), counted("5", "1"), Ok(Some("3"))),
            ("created without a result", None, Some(binding("1", &[])), counted("5", "1"), Ok(None)),
            ("the last share", None, one(2), counted("5", "3"), Ok(Some("5"))),
            ("too much", None, one(3), counted("5", "3"), Err(exceeded)),
            ("grown", one(1), one(3), counted("5", "3"), Ok(Some("5"))),
            ("shrunk", one(3), one(1), counted("5", "5"), Ok(Some("3"))),
            ("shrunk over the limit", one(9), one(8), counted("5", "9"), Ok(Some("8"))),
            ("moved", Some(binding("1", &[3, 0])), Some(binding("1", &[0, 3])), counted("1", "3"), Ok(None)),
            ("unscheduled", one(3), Some(binding("1", &[])), counted("5", "3"), Ok(Some(""))),
            ("removed", one(3), None, counted("5", "5"), Ok(Some("2"))),
            ("removed, the last one", one(3), None, counted("5", "3"), Ok(Some(""))),
            ("never counted: all bindings are", None, one(2), uncounted("9"), Ok(Some("6"))),
            ("never counted, too much", None, one(2), uncounted("5"), Err(exceeded)),
            ("never counted, removed", one(3), None, uncounted("5"), Ok(Some("1"))),
        ] {
            let all = || Ok(total([&binding("2", &[1, 1])]));
            let found = balance(&quota, old.as_ref(), new.as_ref(), all);
            let used = |quota: Value| {
                assert!(is_counted_fully(&quota), "{what}");
                text(&quota["status"]["overallUsed"], "cpu").to_owned()
            };
            let found = found.map(|quota| quota.map(used)).map_err(|denied| denied.to_string());
            assert_eq!(found, expected.map(|it| it.map(str::to_owned)).map_err(str::to_owned), "{what}");
        }
        let less = binding("-1", &[2]);
        let refused = balance(&counted("5", "0"), None, Some(&less), || Ok(Amounts::new()));
        assert!(matches!(refused, Err(Denied::Failed(_))));
        assert_eq!(total([&less, &binding("1", &[2]), &binding("500m", &[1])])["cpu"].to_string(), "2500m");
    }

    #[test]
    fn recounts() {
        let quota = json!({"spec": {"overall": {"cpu": "5", "limits.cpu": "1"}}, "status": {"overall": {"cpu": "5"}}});
        assert!(is_counted_fully(&quota));
        assert!(!is_counted_fully(&json!({"spec": {"overall": {"cpu": "5"}}})));
        let total = total([&binding("1", &[2])]);
        assert_eq!(overall_used(&quota, &total), json!({"cpu": "2"}));
        let charged =
            json!({"spec": {"overall": {"cpu": "5", "memory": "1Gi"}}, "status": {"overallUsed": {"cpu": "3"}}});
        for (may_lower, total, expected) in [
            (true, json!({"cpu": "2"}), json!({"cpu": "2"})),
            (false, json!({"cpu": "2"}), json!({"cpu": "3"})),
            (false, json!({}), json!({"cpu": "3"})),
            (true, json!({}), json!({})),
            (false, json!({"cpu": "4", "memory": "1Mi"}), json!({"cpu": "4", "memory": "1Mi"})),
        ] {
            assert_eq!(recounted(&charged, &amounts(&total), may_lower), expected, "{may_lower} {total}");
        }
        let entry = |manager: &str, subresource: &str, second: u8| json!({"manager": manager, "subresource": subresource, "time": format!("2026-11-21T10:00:0{second}Z")});
        let managed = json!({"metadata": {"managedFields": [entry("karmada-webhook", "status", 1),
            entry("karmada-webhook", "status", 4), entry("kubectl", "status", 6), entry("karmada-webhook", "", 8)]}});
        assert_eq!(charged_at(&managed).map(|it| it.to_string()).as_deref(), Some("2026-11-21T10:00:04Z"));
        assert_eq!(charged_at(&charged), None);
    }
}
