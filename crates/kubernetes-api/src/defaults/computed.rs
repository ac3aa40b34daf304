//! Defaults that depend on more than an absent field. Each function gets the object of the definition that names it.

use apimachinery::quantity::Quantity;
use base64::Engine as _;
use serde_json::{Map, Value, json};

pub(super) type Object = Map<String, Value>;
pub(super) type Computed = fn(&mut Object);

pub(super) fn named(name: &str) -> Option<Computed> {
    Some(match name {
        "claim_templates" => claim_templates,
        "controller_template" => controller_template,
        "host_network_ports" => host_network_ports,
        "image_volume" => image_volume,
        "job_counts" => job_counts,
        "limit_range_item" => limit_range_item,
        "mirror_service_account" => mirror_service_account,
        "node_allocatable" => node_allocatable,
        "node_ranges" => node_ranges,
        "pod_addresses" => pod_addresses,
        "pod_resources" => super::pod_resources::pod_resources,
        "policy_types" => policy_types,
        "pull_policy" => pull_policy,
        "requests_from_limits" => requests_from_limits,
        "scaling_behavior" => scaling_behavior,
        "service" => service,
        "round_allocated" => |status| round(status, &["allocatedResources"]),
        "round_capacity" => |object| round(object, &["allocatable", "allocatedResources", "capacity"]),
        "round_limits" => |item| round(item, &["default", "defaultRequest", "max", "maxLimitRequestRatio", "min"]),
        "round_overhead" => |spec| round(spec, &["overhead"]),
        "round_quota" => |object| round(object, &["hard", "used"]),
        "round_requirements" => |resources| round(resources, &["limits", "requests"]),
        "string_data" => string_data,
        "target_port" => target_port,
        "volume_source" => volume_source,
        _ => return None,
    })
}

fn text<'a>(map: &'a Object, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn object<'a>(map: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    map.get_mut(name)?.as_object_mut()
}

/// The field as an object, created if it is absent.
pub(super) fn made<'a>(map: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    map.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

fn objects<'a>(map: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn set_absent(map: &mut Object, name: &str, value: impl Into<Value>) {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// Synchronizes a single address with the list of all: the list begins with it. Clients may set only one of the two.
fn both_forms(map: &mut Object, one: &str, all: &str, entry: impl Fn(&str) -> Value, first: impl Fn(&Value) -> Value) {
    let single = text(map, one).to_owned();
    let begins = map.get(all).map(|list| first(&list[0])).filter(Value::is_string);
    match begins {
        Some(value) if single.is_empty() => drop(map.insert(one.to_owned(), value)),
        Some(value) if value == single.as_str() => {}
        _ if single.is_empty() => {}
        _ => drop(map.insert(all.to_owned(), json!([entry(&single)]))),
    }
}

fn node_ranges(spec: &mut Object) {
    both_forms(spec, "podCIDR", "podCIDRs", |range| range.into(), Clone::clone);
}

fn pod_addresses(status: &mut Object) {
    both_forms(status, "podIP", "podIPs", |address| json!({"ip": address}), |entry| entry["ip"].clone());
}

fn pull_policy(container: &mut Object) {
    let image = text(container, "image").to_owned();
    set_pull_policy(container, "imagePullPolicy", &image);
}

fn image_volume(volume: &mut Object) {
    let image = text(volume, "reference").to_owned();
    set_pull_policy(volume, "pullPolicy", &image);
}

/// The default pull policy: `Always` for a movable tag, otherwise `IfNotPresent`.
fn set_pull_policy(map: &mut Object, field: &str, image: &str) {
    if !map.contains_key(field) {
        let policy = if super::image::is_moving(image) { "Always" } else { "IfNotPresent" };
        map.insert(field.to_owned(), policy.into());
    }
}

/// Copies the service account to its deprecated field, and back.
fn mirror_service_account(spec: &mut Object) {
    let new = text(spec, "serviceAccountName");
    let name = if new.is_empty() { text(spec, "serviceAccount") } else { new };
    if !name.is_empty() {
        let name = Value::from(name);
        spec.insert("serviceAccount".into(), name.clone());
        spec.insert("serviceAccountName".into(), name);
    }
}

/// The default source of a volume is an empty directory.
fn volume_source(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
}

/// Requests default to limits.
fn requests_from_limits(pod: &mut Object) {
    let Some(spec) = object(pod, "spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in objects(spec, list) {
            let Some(resources) = object(container, "resources") else { continue };
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else { continue };
            let Some(requests) = made(resources, "requests") else { continue };
            for (name, limit) in limits {
                requests.entry(name).or_insert(limit);
            }
        }
    }
}

/// In the host network, the host ports of a container default to its ports.
fn host_network_ports(pod: &mut Object) {
    let Some(spec) = object(pod, "spec").filter(|spec| spec.get("hostNetwork") == Some(&Value::Bool(true))) else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in objects(spec, list) {
            for port in objects(container, "ports") {
                if let Some(number) = port.get("containerPort").cloned() {
                    set_absent(port, "hostPort", number);
                }
            }
        }
    }
}

/// The selector and labels of a replication controller default to the labels of its template.
fn controller_template(controller: &mut Object) {
    let Some(spec) = object(controller, "spec") else { return };
    let template = spec.get("template").unwrap_or(&Value::Null);
    let labels = template["metadata"]["labels"].clone();
    if labels.as_object().is_none_or(Object::is_empty) {
        return;
    }
    set_absent(spec, "selector", labels.clone());
    if let Some(metadata) = made(controller, "metadata") {
        set_absent(metadata, "labels", labels);
    }
}

/// Claim templates of a stateful set get apiVersion and kind.
fn claim_templates(set: &mut Object) {
    let Some(spec) = object(set, "spec") else { return };
    for claim in objects(spec, "volumeClaimTemplates") {
        set_absent(claim, "apiVersion", "v1");
        set_absent(claim, "kind", "PersistentVolumeClaim");
    }
}

/// `parallelism` defaults to one, as does `completions` if both are absent; per-index limits replace the default
/// back-off limit.
fn job_counts(job: &mut Object) {
    let Some(spec) = object(job, "spec") else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    set_absent(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
    set_absent(spec, "backoffLimit", limit);
}

/// Defaults that depend on the type of a service. Addresses and node ports are allocated elsewhere.
fn service(service: &mut Object) {
    let Some(spec) = object(service, "spec") else { return };
    let type_ = text(spec, "type").to_owned();
    if text(spec, "sessionAffinity") == "ClientIP" {
        let config = made(spec, "sessionAffinityConfig").and_then(|config| made(config, "clientIP"));
        if let Some(config) = config {
            set_absent(config, "timeoutSeconds", 10800);
        }
    } else {
        spec.remove("sessionAffinityConfig");
    }
    let external = matches!(type_.as_str(), "NodePort" | "LoadBalancer")
        || spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if external && type_ != "ExternalName" {
        set_absent(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(type_.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if type_ == "LoadBalancer" {
        set_absent(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn target_port(port: &mut Object) {
    let unset = port.get("targetPort").is_none_or(|target| target == 0 || target == "");
    if let Some(number) = port.get("port").filter(|_| unset).cloned() {
        port.insert("targetPort".into(), number);
    }
}

/// Merges `stringData` into `data`; only the encoded data is stored.
fn string_data(secret: &mut Object) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let Some(data) = made(secret, "data") else { return };
    for (key, value) in texts {
        let text = value.as_str().unwrap_or_default();
        data.insert(key, base64::engine::general_purpose::STANDARD.encode(text).into());
    }
}

/// A container's default limit is its maximum, its default request the default limit or the minimum.
fn limit_range_item(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(Value::Object(amounts)) = item.get(from).cloned() else { continue };
        let Some(target) = made(item, to) else { continue };
        for (name, amount) in amounts {
            target.entry(name).or_insert(amount);
        }
    }
}

/// Amounts of resources have no parts of a thousandth.
fn round(map: &mut Object, fields: &[&str]) {
    for field in fields {
        let amounts = map.get_mut(*field).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(Object::values_mut) {
            let Value::String(text) = &*amount else { continue };
            if !text.bytes().any(|byte| matches!(byte, b'n' | b'u' | b'.' | b'-')) {
                continue;
            }
            let Ok(exact) = text.parse::<Quantity>() else { continue };
            let milli = exact.milli_value();
            let rounded = Quantity::from_milli(milli, exact.format());
            if rounded != exact && milli != i64::MAX && milli != i64::MIN {
                *amount = rounded.to_string().into();
            }
        }
    }
}

/// A policy applies to ingress, and to egress if it has egress rules.
fn policy_types(policy: &mut Object) {
    let Some(spec) = object(policy, "spec") else { return };
    let types = if spec.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    set_absent(spec, "policyTypes", types);
}

/// A node's allocatable resources default to its capacity.
fn node_allocatable(status: &mut Object) {
    if let Some(capacity) = status.get("capacity").cloned() {
        set_absent(status, "allocatable", capacity);
    }
}

/// Completes partial scaling rules; absent rules stay absent.
fn scaling_behavior(autoscaler: &mut Object) {
    let Some(behavior) = object(autoscaler, "spec").and_then(|spec| object(spec, "behavior")) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = made(behavior, "scaleUp") {
        set_absent(up, "stabilizationWindowSeconds", 0);
        set_absent(up, "selectPolicy", "Max");
        set_absent(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = made(behavior, "scaleDown") {
        set_absent(down, "selectPolicy", "Max");
        set_absent(down, "policies", json!([percent]));
    }
}
