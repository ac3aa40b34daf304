//! Nodes, storage, quotas, bindings of roles, and the cluster's own configuration.

use std::collections::BTreeSet;

use apimachinery::age::human_duration;
use serde_json::Value;

use crate::admission::classes::{INGRESS_DEFAULT, STORAGE_DEFAULT};

use super::{Function, condition, function, joined, list};

pub(super) const FUNCTIONS: &[Function] = &[
    function("api_available", &[".status"], |object, _| api_available(&object["status"]).into()),
    function("api_service", &[".spec.service"], |object, _| api_service(&object["spec"]["service"]).into()),
    function("bound_accounts", &[".subjects"], |object, _| subjects(object, "ServiceAccount").into()),
    function("bound_groups", &[".subjects"], |object, _| subjects(object, "Group").into()),
    function("bound_role", &[".roleRef"], |object, _| bound_role(&object["roleRef"]).into()),
    function("bound_users", &[".subjects"], |object, _| subjects(object, "User").into()),
    function("claim_capacity", &[".spec.volumeName", ".status.capacity"], |object, _| {
        of_bound(object, |claim| claim["status"]["capacity"]["storage"].as_str().unwrap_or("0").to_owned()).into()
    }),
    function("claim_modes", &[".spec.volumeName", ".status.accessModes"], |object, _| {
        of_bound(object, |claim| modes(&claim["status"]["accessModes"])).into()
    }),
    function(
        "claim_state",
        &[".metadata.deletionTimestamp", ".status.allocation", ".status.reservedFor"],
        |object, _| claim_state(object).into(),
    ),
    function("component_error", &[".conditions"], |object, _| healthy(object, "error").into()),
    function("component_health", &[".conditions"], |object, _| component_health(object).into()),
    function("component_message", &[".conditions"], |object, _| healthy(object, "message").into()),
    function("dangling", &[".status"], |object, _| {
        condition(&object["status"], "Dangling")
            .map_or_else(|| "?".to_owned(), |dangling| text(&dangling["status"]))
            .into()
    }),
    function("driver_modes", &[".spec.volumeLifecycleModes"], |object, _| {
        joined(list(&object["spec"]["volumeLifecycleModes"]).filter_map(Value::as_str), "<none>").into()
    }),
    function("expands", &[".allowVolumeExpansion"], |object, _| (object["allowVolumeExpansion"] == true).into()),
    function("node_external", &[".status.addresses"], |object, _| address(object, "ExternalIP").into()),
    function("node_internal", &[".status.addresses"], |object, _| address(object, "InternalIP").into()),
    function("node_roles", &[".metadata.labels"], |object, _| roles(&object["metadata"]["labels"]).into()),
    function("node_status", &[".spec.unschedulable", ".status.conditions"], |object, _| node_status(object).into()),
    function("parameter_kind", &[".spec.paramKind"], |object, _| parameter_kind(&object["spec"]["paramKind"]).into()),
    function("parameter_ref", &[".spec.paramRef"], |object, _| parameter_ref(&object["spec"]["paramRef"]).into()),
    function("quota_limits", &[".status"], |object, _| quota(object, true).into()),
    function("quota_requests", &[".status"], |object, _| quota(object, false).into()),
    function("request_condition", &[".status"], |object, _| request_condition(&object["status"]).into()),
    function("requested_duration", &[".spec.expirationSeconds"], |object, _| {
        let seconds = object["spec"]["expirationSeconds"].as_i64();
        seconds.map_or_else(|| "<none>".to_owned(), human_duration).into()
    }),
    function("ingress_class", &[".metadata.annotations", ".metadata.name"], |object, _| {
        class_name(&object["metadata"], &INGRESS_DEFAULT).into()
    }),
    function("storage_class", &[".metadata.annotations", ".metadata.name"], |object, _| {
        class_name(&object["metadata"], &STORAGE_DEFAULT).into()
    }),
    function("token_audiences", &[".spec.tokenRequests"], |object, _| {
        joined(list(&object["spec"]["tokenRequests"]).filter_map(|request| request["audience"].as_str()), "<unset>")
            .into()
    }),
    function("volume_class", &[".metadata.annotations", ".spec.storageClassName"], |object, _| {
        volume_class(object).into()
    }),
    function("volume_claim", &[".spec.claimRef"], |object, _| volume_claim(&object["spec"]["claimRef"]).into()),
    function("volume_modes", &[".spec.accessModes"], |object, _| modes(&object["spec"]["accessModes"]).into()),
    function("volume_phase", &[".metadata.deletionTimestamp", ".status.phase"], |object, _| {
        volume_phase(object).into()
    }),
];

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn node_status(node: &Value) -> String {
    let ready = condition(&node["status"], "Ready").map(|ready| ready["status"] == "True");
    let state = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{state}{cordoned}")
}

fn roles(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.as_str(),
        None => None,
    });
    joined(roles.filter(|role| !role.is_empty()).collect::<BTreeSet<_>>().into_iter(), "<none>")
}

/// A text of the condition `Healthy` of a ComponentStatus.
fn healthy<'a>(component: &'a Value, field: &str) -> &'a str {
    let found = condition(component, "Healthy").and_then(|condition| condition[field].as_str());
    found.unwrap_or_default()
}

fn component_health(component: &Value) -> &'static str {
    match healthy(component, "status") {
        "True" => "Healthy",
        "False" => "Unhealthy",
        _ => "Unknown",
    }
}

fn address(node: &Value, type_: &str) -> String {
    let found = list(&node["status"]["addresses"]).find(|address| address["type"] == type_);
    found.and_then(|address| address["address"].as_str()).unwrap_or("<none>").to_owned()
}

fn modes(modes: &Value) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let present = known.iter().filter(|(name, _)| list(modes).any(|mode| mode == name));
    joined(present.map(|(_, short)| short), "")
}

/// A value of a claim that is shown only once it is bound.
fn of_bound(claim: &Value, of: impl Fn(&Value) -> String) -> String {
    if claim["spec"]["volumeName"].as_str().unwrap_or_default().is_empty() { String::new() } else { of(claim) }
}

/// The class of a claim or a volume; the older annotation takes precedence.
fn volume_class(object: &Value) -> String {
    let old = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    text(if old.is_string() { old } else { &object["spec"]["storageClassName"] })
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim["metadata"]["deletionTimestamp"].is_string();
    let mut states = Vec::from_iter(deleted.then_some("deleted"));
    if claim["status"]["allocation"].is_null() {
        states.extend((!deleted).then_some("pending"));
    } else {
        states.push("allocated");
        states.extend(list(&claim["status"]["reservedFor"]).next().map(|_| "reserved"));
    }
    states.join(",")
}

fn volume_phase(object: &Value) -> String {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    text(&object["status"]["phase"])
}

fn volume_claim(claim: &Value) -> String {
    if claim.is_null() {
        return String::new();
    }
    format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
}

/// The name of a class, marked if an annotation makes it the default.
fn class_name(metadata: &Value, defaults: &[&str]) -> String {
    let annotations = &metadata["annotations"];
    let default = defaults.iter().any(|name| annotations[*name] == "true");
    format!("{}{}", text(&metadata["name"]), if default { " (default)" } else { "" })
}

/// Used and limit, such as `requests.cpu: 1/2`.
fn quota(object: &Value, limits: bool) -> String {
    let (hard, used) = (object["status"]["hard"].as_object(), &object["status"]["used"]);
    let parts = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits") == limits);
    let parts = parts.map(|(name, amount)| {
        format!("{name}: {}/{}", used[name].as_str().unwrap_or("0"), amount.as_str().unwrap_or_default())
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn bound_role(role: &Value) -> String {
    format!("{}/{}", text(&role["kind"]), text(&role["name"]))
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = list(&binding["subjects"]).filter(|subject| subject["kind"] == kind);
    let names = subjects.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
        _ => text(&subject["name"]),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn request_condition(status: &Value) -> String {
    let mut words = Vec::new();
    let mut denied = false;
    let mut approved = false;
    for condition in list(&status["conditions"]) {
        match condition["type"].as_str().unwrap_or_default() {
            "Approved" => approved = true,
            "Denied" => denied = true,
            "Failed" => words.push("Failed"),
            _ => {}
        }
    }
    words.insert(
        0,
        if denied {
            "Denied"
        } else if approved {
            "Approved"
        } else {
            "Pending"
        },
    );
    if !text(&status["certificate"]).is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn api_service(service: &Value) -> String {
    if service.is_null() {
        return "Local".to_owned();
    }
    format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
}

fn api_available(status: &Value) -> String {
    match condition(status, "Available") {
        Some(available) if available["status"] == "True" => "True".to_owned(),
        Some(available) => format!("{} ({})", text(&available["status"]), text(&available["reason"])),
        None => "Unknown".to_owned(),
    }
}

fn parameter_kind(kind: &Value) -> String {
    if kind.is_null() {
        return "<unset>".to_owned();
    }
    format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
}

fn parameter_ref(reference: &Value) -> String {
    if reference.is_null() {
        return "<unset>".to_owned();
    }
    match (text(&reference["namespace"]), text(&reference["name"])) {
        (namespace, name) if namespace.is_empty() => {
            if name.is_empty() {
                "*".to_owned()
            } else {
                name
            }
        }
        (namespace, name) if name.is_empty() => format!("{namespace}/*"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
