//! The FlowSchemas and PriorityLevelConfigurations that every API server has from its first start: the mandatory ones, and
//! those that kube-apiserver suggests. `crate::flow` puts them into effect.

use serde_json::{Value, json};

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
/// While it is true, the server updates the object's spec.
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The queuing of a limited level: queues, hand size, length of a queue. `None`: it refuses requests.
type Queuing = Option<(i64, i64, i64)>;

/// Name, concurrency shares, percent of them that may be lent, queuing.
const LIMITED: &[(&str, i64, i64, Queuing)] = &[
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6, 50))),
    ("leader-election", 10, 0, Some((16, 4, 50))),
    ("node-high", 40, 25, Some((64, 6, 50))),
    ("system", 30, 33, Some((64, 6, 50))),
    ("workload-high", 40, 50, Some((128, 6, 50))),
    ("workload-low", 100, 90, Some((128, 6, 50))),
];

/// The PriorityLevelConfigurations of a new server.
pub fn priority_levels() -> Vec<Value> {
    let level = |name: &str, spec: Value| json!({"apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration", "metadata": metadata(name), "spec": spec});
    let limited = LIMITED.iter().map(|(name, shares, lent, queuing)| {
        let response = match queuing {
            None => json!({"type": "Reject"}),
            Some((queues, hand, length)) => json!({"type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length}}),
        };
        let limits = json!({"nominalConcurrencyShares": shares, "lendablePercent": lent, "limitResponse": response});
        level(name, json!({"type": "Limited", "limited": limits}))
    });
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    std::iter::once(level("exempt", exempt)).chain(limited).collect()
}

const SYSTEM_ACCOUNTS: (&str, &str) = ("ServiceAccount", "*");
const EVERYONE: &[(&str, &str)] = &[("Group", "system:unauthenticated"), ("Group", "system:authenticated")];

/// The requests that a schema matches.
enum Requests {
    All,
    Probes,
    /// Verbs, groups, resources; of any namespace.
    Of(&'static [(&'static str, &'static str, &'static str)]),
    /// The same, and of the cluster.
    Everywhere(&'static [(&'static str, &'static str, &'static str)]),
}

struct Flow {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    /// The flow distinguisher; empty for one flow.
    by: &'static str,
    /// Service accounts are those of `kube-system`.
    subjects: &'static [(&'static str, &'static str)],
    requests: Requests,
}

const fn flow(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    by: &'static str,
    subjects: &'static [(&'static str, &'static str)],
    requests: Requests,
) -> Flow {
    Flow { name, level, precedence, by, subjects, requests }
}

const LEASES: &[(&str, &str, &str)] = &[("get,create,update", "coordination.k8s.io", "leases")];
const ENDPOINTS: &[(&str, &str, &str)] = &[("get,create,update", "", "endpoints")];
const LOCKS: &[(&str, &str, &str)] =
    &[("get,create,update", "", "endpoints,configmaps"), ("get,create,update", "coordination.k8s.io", "leases")];
const NODES: &[(&str, &str, &str)] = &[("*", "", "nodes,nodes/status"), ("*", "coordination.k8s.io", "leases")];

const CONTROLLER_MANAGER: (&str, &str) = ("User", "system:kube-controller-manager");
const SCHEDULER: (&str, &str) = ("User", "system:kube-scheduler");
const NODE_GROUP: &[(&str, &str)] = &[("Group", "system:nodes")];

const FLOWS: &[Flow] = &[
    flow("catch-all", "catch-all", 10_000, "ByUser", EVERYONE, Requests::All),
    flow(
        "endpoint-controller",
        "workload-high",
        150,
        "ByUser",
        &[
            CONTROLLER_MANAGER,
            ("ServiceAccount", "endpoint-controller"),
            ("ServiceAccount", "endpointslicemirroring-controller"),
        ],
        Requests::Of(ENDPOINTS),
    ),
    flow("exempt", "exempt", 1, "", &[("Group", "system:masters")], Requests::All),
    flow("global-default", "global-default", 9900, "ByUser", EVERYONE, Requests::All),
    flow("kube-controller-manager", "workload-high", 800, "ByNamespace", &[CONTROLLER_MANAGER], Requests::All),
    flow("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], Requests::All),
    flow("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &[SYSTEM_ACCOUNTS], Requests::All),
    flow("probes", "exempt", 2, "", EVERYONE, Requests::Probes),
    flow("service-accounts", "workload-low", 9000, "ByUser", &[("Group", "system:serviceaccounts")], Requests::All),
    flow(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &[CONTROLLER_MANAGER, SCHEDULER],
        Requests::Of(LEASES),
    ),
    flow("system-node-high", "node-high", 400, "ByUser", NODE_GROUP, Requests::Everywhere(NODES)),
    flow("system-nodes", "system", 500, "ByUser", NODE_GROUP, Requests::All),
    flow("workload-leader-election", "leader-election", 200, "ByUser", &[SYSTEM_ACCOUNTS], Requests::Of(LOCKS)),
];

/// The FlowSchemas of a new server.
pub fn flow_schemas() -> Vec<Value> {
    let schema = |flow: &Flow| {
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": flow.level}, "matchingPrecedence": flow.precedence,
            "rules": [rule(flow)],
        });
        if !flow.by.is_empty() {
            spec["distinguisherMethod"] = json!({"type": flow.by});
        }
        json!({"apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": metadata(flow.name), "spec": spec})
    };
    FLOWS.iter().map(schema).collect()
}

/// The objects whose specs are fixed.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// The merge patch that updates one of these objects at start; `None` if it is current, or if its spec belongs to the
/// administrator.
///
/// The spec of a suggested object belongs to the server while the annotation is `true`. An object without the
/// annotation belongs to the administrator if its spec was ever changed. An exempt level may have its own shares.
pub fn reconcile(live: &Value, wanted: &Value) -> Option<Value> {
    let is_mandatory = MANDATORY.iter().any(|name| live["metadata"]["name"] == *name);
    let updates = match live["metadata"]["annotations"][AUTOUPDATE].as_str() {
        _ if is_mandatory => true,
        Some("true") => true,
        Some("false") => false,
        _ => live["metadata"]["generation"] == 1,
    };
    let mut patch = json!({});
    let annotation = if updates { "true" } else { "false" };
    if live["metadata"]["annotations"][AUTOUPDATE] != annotation {
        patch["metadata"] = json!({"annotations": {AUTOUPDATE: annotation}});
    }
    let mut spec = wanted["spec"].clone();
    if spec["type"] == "Exempt" {
        spec["exempt"] = live["spec"]["exempt"].clone();
    }
    if let Some(change) = change(&live["spec"], &spec).filter(|_| updates) {
        patch["spec"] = change;
    }
    (patch != json!({})).then_some(patch)
}

/// The merge patch from one document to another.
fn change(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return (from != to).then(|| to.clone()) };
    let mut patch = serde_json::Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        if let Some(change) = change(old.get(key).unwrap_or(&Value::Null), value) {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {AUTOUPDATE: "true"}})
}

fn rule(flow: &Flow) -> Value {
    let subjects: Vec<Value> = flow
        .subjects
        .iter()
        .map(|(kind, name)| match *kind {
            "ServiceAccount" => json!({"kind": kind, "serviceAccount": {"name": name, "namespace": "kube-system"}}),
            "User" => json!({"kind": kind, "user": {"name": name}}),
            _ => json!({"kind": kind, "group": {"name": name}}),
        })
        .collect();
    let words = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
    let resources = |listed: &[(&str, &str, &str)], cluster: bool| -> Vec<Value> {
        let rule = |(verbs, groups, resources): &(&str, &str, &str)| {
            let mut rule = json!({"verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources),
                "namespaces": ["*"]});
            if cluster {
                rule["clusterScope"] = true.into();
            }
            rule
        };
        listed.iter().map(rule).collect()
    };
    match flow.requests {
        Requests::All => json!({"subjects": subjects, "resourceRules": resources(&[("*", "*", "*")], true),
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}),
        Requests::Probes => json!({"subjects": subjects,
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}),
        Requests::Of(listed) => json!({"subjects": subjects, "resourceRules": resources(listed, false)}),
        Requests::Everywhere(listed) => json!({"subjects": subjects, "resourceRules": resources(listed, true)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_kept_up_to_date_unless_they_belong_to_the_administrator() {
        let wanted = &flow_schemas()[3];
        assert_eq!(wanted["metadata"]["name"], "global-default");
        let live = |annotation: Value, generation: i64, precedence: Value| {
            let mut live = wanted.clone();
            live["metadata"]["annotations"][AUTOUPDATE] = annotation;
            live["metadata"]["generation"] = generation.into();
            live["spec"]["matchingPrecedence"] = precedence;
            live["spec"]["more"] = 1.into();
            live
        };
        let spec = json!({"matchingPrecedence": 9900, "more": null});
        let annotation = |value: &str| json!({"annotations": {AUTOUPDATE: value}});
        for (live, expected) in [
            (wanted.clone(), None),
            (live("true".into(), 5, 7.into()), Some(json!({"spec": spec}))),
            (live("false".into(), 1, 7.into()), None),
            (live(Value::Null, 1, 7.into()), Some(json!({"spec": spec, "metadata": annotation("true")}))),
            (live(Value::Null, 2, 7.into()), Some(json!({"metadata": annotation("false")}))),
        ] {
            assert_eq!(reconcile(&live, wanted), expected, "{live}");
        }
        let exempt = &priority_levels()[0];
        let mut live = exempt.clone();
        live["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        live["spec"]["exempt"]["nominalConcurrencyShares"] = 10.into();
        assert_eq!(reconcile(&live, exempt), Some(json!({"metadata": annotation("true")})));
    }

    #[test]
    fn every_flow_schema_is_valid_and_has_a_level() {
        let levels = priority_levels();
        let schemas = flow_schemas();
        assert_eq!((levels.len(), schemas.len()), (8, 13));
        let resources = kubernetes_api::resources();
        let strategy = |plural: &str| {
            resources.iter().find(|resource| resource.info.resource.plural == plural).expect("served").strategy.clone()
        };
        for schema in &schemas {
            let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
            assert!(levels.iter().any(|known| known["metadata"]["name"] == *level), "{schema}");
            assert!(strategy("flowschemas").validate_create(schema).is_empty(), "{schema}");
        }
        for level in &levels {
            assert!(strategy("prioritylevelconfigurations").validate_create(level).is_empty(), "{level}");
        }
    }
}
