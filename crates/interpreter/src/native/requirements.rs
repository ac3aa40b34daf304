//! The requirements of one pod of a template.

use std::collections::BTreeMap;

use apimachinery::quantity::{Format, Quantity as Amount};
use karmada_api::kubernetes::{Quantity, ResourceList};
use karmada_api::work::v1alpha2::{Component, NodeClaim, ReplicaRequirements};
use serde::Deserialize;
use serde_json::Value;

use crate::tree::{at, list};

/// The requirements of a pod template (or a Pod); `None` if it has none. The error names the malformed field.
pub fn replica_requirements(template: &Value) -> Result<Option<ReplicaRequirements>, String> {
    let spec = &template["spec"];
    let node_claim = node_claim(spec)?;
    let resource_request = printed(template_request(spec)?);
    if node_claim.is_none() && resource_request.is_empty() {
        return Ok(None);
    }
    Ok(Some(ReplicaRequirements { node_claim, resource_request, ..ReplicaRequirements::default() }))
}

fn decode<T: for<'de> Deserialize<'de> + Default>(value: &Value, what: &str) -> Result<T, String> {
    if value.is_null() {
        return Ok(T::default());
    }
    T::deserialize(value).map_err(|error| format!("{what}: {error}"))
}

fn node_claim(spec: &Value) -> Result<Option<NodeClaim>, String> {
    let affinity = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let claim = NodeClaim {
        hard_node_affinity: decode(at(spec, &affinity), "required node affinity")?,
        node_selector: decode(&spec["nodeSelector"], "nodeSelector")?,
        tolerations: decode(&spec["tolerations"], "tolerations")?,
    };
    Ok((claim != NodeClaim::default()).then_some(claim))
}

type Amounts = BTreeMap<String, Amount>;

/// What one pod of a template requests, as upstream counts it: the sum over its containers, or the largest init container
/// if that is more, plus the overhead. Limits replace requests, as the API server's defaulting does. The error names the
/// malformed field.
fn template_request(spec: &Value) -> Result<Amounts, String> {
    let request = |container: &Value| -> Result<Amounts, String> {
        let mut request = amounts(&container["resources"]["limits"])?;
        request.extend(amounts(&container["resources"]["requests"])?);
        Ok(request)
    };
    let mut total = Amounts::new();
    for container in list(spec, &["containers"]) {
        add_amounts(&mut total, &request(container)?);
    }
    for container in list(spec, &["initContainers"]) {
        raise(&mut total, request(container)?);
    }
    with_overhead(total, spec)
}

/// What a pod requests of its node, as kube-scheduler counts it: init containers run one after the other before the
/// containers, except that those that restart always (sidecars) run beside everything that starts after them; what the pod
/// requests as a whole replaces the sum. The error names the malformed field.
pub fn pod_request(spec: &Value) -> Result<BTreeMap<String, Amount>, String> {
    let request = |container: &Value| amounts(&container["resources"]["requests"]);
    let mut total = Amounts::new();
    for container in list(spec, &["containers"]) {
        add_amounts(&mut total, &request(container)?);
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in list(spec, &["initContainers"]) {
        let own = request(container)?;
        let mut together = sidecars.clone();
        add_amounts(&mut together, &own);
        if container["restartPolicy"] == "Always" {
            add_amounts(&mut total, &own);
            sidecars.clone_from(&together);
        }
        raise(&mut starting, together);
    }
    raise(&mut total, starting);
    let whole = amounts(&spec["resources"]["requests"])?;
    let is_shared = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    total.extend(whole.into_iter().filter(|(name, _)| is_shared(name)));
    with_overhead(total, spec)
}

/// Adds amounts by their names.
pub fn add_amounts(sum: &mut BTreeMap<String, Amount>, more: &BTreeMap<String, Amount>) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(known) => *known = *known + *amount,
            None => {
                sum.insert(name.clone(), *amount);
            }
        }
    }
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, amount) in others {
        let known = amounts.entry(name).or_insert(amount);
        *known = amount.max(*known);
    }
}

/// Adds the overhead. Only counted resources with a positive request are kept.
fn with_overhead(mut total: Amounts, spec: &Value) -> Result<Amounts, String> {
    add_amounts(&mut total, &amounts(&spec["overhead"])?);
    total.retain(|name, amount| !amount.is_zero() && counted(name));
    Ok(total)
}

/// Quantities in the format of their resource.
pub fn printed(amounts: BTreeMap<String, Amount>) -> ResourceList {
    amounts
        .into_iter()
        .map(|(name, amount)| {
            let text = canonical(&name, amount);
            (name, Quantity(text))
        })
        .collect()
}

/// Reads a resource list from a document; an absent one is empty.
pub fn amounts(resources: &Value) -> Result<BTreeMap<String, Amount>, String> {
    let listed: ResourceList = decode(resources, "resources")?;
    listed
        .into_iter()
        .map(|(name, quantity)| match quantity.as_str().parse() {
            Ok(amount) => Ok((name, amount)),
            Err(error) => Err(format!("{name}: {:?}: {error}", quantity.as_str())),
        })
        .collect()
}

/// Checks the quantities of a script or a webhook and prints them in the canonical form. Admission stores a new binding
/// with that form, so another one would rewrite the binding after its creation. The error names the malformed quantity.
pub fn normalize(resources: &mut ResourceList) -> Result<(), String> {
    for (name, quantity) in resources {
        let text = quantity.as_str();
        let amount: Amount = text.parse().map_err(|error| format!("{name}: {text:?}: {error}"))?;
        *quantity = Quantity(amount.to_string());
    }
    Ok(())
}

/// Components whose requirements are normalized.
pub fn normalized(mut components: Vec<Component>) -> Result<Vec<Component>, String> {
    let mut all = components.iter_mut().filter_map(|it| it.replica_requirements.as_mut());
    all.try_for_each(|requirements| normalize(&mut requirements.resource_request))?;
    Ok(components)
}

/// The resources that schedulers count: the native ones and those with a domain.
fn counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || (name.contains('/') && !name.starts_with("requests."))
}

fn canonical(name: &str, amount: Amount) -> String {
    match name {
        "cpu" => Amount::from_milli(amount.milli_value(), Format::DecimalSi).to_string(),
        "memory" | "ephemeral-storage" => Amount::new(amount.value(), Format::BinarySi).to_string(),
        _ if name.starts_with("hugepages-") => Amount::new(amount.value(), Format::BinarySi).to_string(),
        _ => Amount::new(amount.value(), Format::DecimalSi).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(spec: Value) -> String {
        let request = printed(template_request(&spec).unwrap());
        request.iter().map(|(name, q)| format!("{name}={}", q.as_str())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn requests() {
        let one = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        assert_eq!(
            request(json!({"containers": [one(json!({"memory": "1Gi"}), json!({"cpu": 1}))]})),
            "cpu=1 memory=1Gi"
        );
        assert_eq!(
            request(json!({
                "containers": [one(json!({"cpu": "100m"}), json!({})), one(json!({"cpu": "200m", "example.com/gpu": "2"}), json!({}))],
                "initContainers": [one(json!({"cpu": "250m", "memory": "1Mi"}), json!({}))],
                "overhead": {"cpu": "10m"},
            })),
            "cpu=310m example.com/gpu=2 memory=1Mi"
        );
        assert_eq!(
            request(json!({"containers": [one(
                json!({"cpu": "0.5", "memory": "1000Mi", "hugepages-2Mi": "4096Ki", "ephemeral-storage": "1024Mi", "example.com/x": "2k"}),
                json!({"cpu": "2", "example.com/y": "1"}))]})),
            "cpu=500m ephemeral-storage=1Gi example.com/x=2k example.com/y=1 hugepages-2Mi=4Mi memory=1000Mi"
        );
        // A sidecar's init container is not distinguished.
        assert_eq!(
            request(json!({"containers": [one(json!({"cpu": "1"}), json!({}))],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]})),
            "cpu=1"
        );
        assert_eq!(request(json!({"containers": [one(json!({"cpu": "0", "widgets": "3"}), json!({}))]})), "");
        // The names of requests in quotas.
        assert_eq!(request(json!({"containers": [one(json!({"requests.example.com/gpu": "1"}), json!({}))]})), "");
        let malformed = json!({"containers": [one(json!({"cpu": "much"}), json!({}))]});
        assert!(template_request(&malformed).is_err());
    }

    #[test]
    fn requests_of_running_pods() {
        let of = |requests: Value| json!({"resources": {"requests": requests}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (spec, expected) in [
            (json!({"containers": [of(json!({"cpu": "1"})), of(json!({"cpu": "500m"}))]}), "cpu=1500m"),
            (json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}), ""),
            (json!({"containers": [of(json!({"cpu": "1"}))], "initContainers": [of(json!({"cpu": "2"}))]}), "cpu=2"),
            (json!({"containers": [of(json!({"cpu": "1"}))], "initContainers": [sidecar("300m")]}), "cpu=1300m"),
            // An init container runs beside the sidecars before it.
            (
                json!({"containers": [of(json!({"cpu": "1"}))],
                    "initContainers": [sidecar("200m"), of(json!({"cpu": "1", "memory": "1Gi"})), sidecar("100m")]}),
                "cpu=1300m memory=1Gi",
            ),
            (
                json!({"containers": [of(json!({"cpu": "1"}))],
                    "initContainers": [sidecar("200m"), of(json!({"cpu": "2"})), sidecar("100m")]}),
                "cpu=2200m",
            ),
            // Requests of the pod as a whole.
            (
                json!({"containers": [of(json!({"cpu": "1", "example.com/gpu": "1"}))], "overhead": {"cpu": "10m"},
                    "resources": {"requests": {"cpu": "3", "memory": "2Gi", "example.com/gpu": "5"}}}),
                "cpu=3010m example.com/gpu=1 memory=2Gi",
            ),
        ] {
            let request = printed(pod_request(&spec).unwrap());
            let text: Vec<String> = request.iter().map(|(name, q)| format!("{name}={}", q.as_str())).collect();
            assert_eq!(text.join(" "), expected, "{spec}");
        }
        assert!(pod_request(&json!({"containers": [of(json!({"cpu": "much"}))]})).is_err());
    }

    #[test]
    fn quantities_of_scripts() {
        let normal = |text: &str| {
            let mut resources = ResourceList::from([("memory".to_owned(), text.into())]);
            normalize(&mut resources).map(|()| resources["memory"].as_str().to_owned())
        };
        for (text, expected) in [
            ("1408.000000Mi", "1408Mi"),
            ("1.5Gi", "1536Mi"),
            ("1433.600000Mi", "1503238553600m"),
            ("0.5Ki", "512"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("0.50", "500m"),
            ("0.1", "100m"),
            ("2000m", "2"),
            ("3000", "3k"),
            ("104857600", "104857600"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(normal("much").unwrap_err().starts_with("memory: \"much\": "));
    }

    #[test]
    fn node_claims() {
        let pod = json!({"spec": {"containers": [{}], "nodeSelector": {"disk": "ssd"}}});
        let requirements = replica_requirements(&pod).unwrap().unwrap();
        assert_eq!(requirements.node_claim.unwrap().node_selector["disk"], "ssd");
        assert_eq!(replica_requirements(&json!({"spec": {"containers": [{}]}})).unwrap(), None);
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]});
        for (spec, expected) in [
            (json!({"tolerations": []}), false),
            (json!({"tolerations": [{"operator": "Exists"}]}), true),
            (json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}), false),
            (json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}), true),
        ] {
            let requirements = replica_requirements(&json!({"spec": spec})).unwrap();
            assert_eq!(requirements.is_some_and(|it| it.node_claim.is_some()), expected, "{spec}");
        }
    }
}
