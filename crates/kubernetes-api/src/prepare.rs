//! Server-populated fields, set before validation: derived values, and fields that clients may not set.

use apimachinery::object::ObjectTree as _;
use apimachinery::resource::RequestContext;
use serde_json::{Map, Value, json};

use crate::services;

mod claims;
mod pods;

type Object = Map<String, Value>;
pub(crate) type Create = fn(&RequestContext, &mut Value);
pub(crate) type Update = fn(&RequestContext, &Value, &mut Value);

pub(crate) fn for_create(group: &str, kind: &str) -> Option<Create> {
    Some(match (group, kind) {
        ("", "Node") => |_, node| drop_configuration(node),
        ("", "PersistentVolume") => |context, volume| date_phase(context, volume),
        ("", "PersistentVolumeClaim") => |_, claim| claims::normalize(&Value::Null, claim),
        ("", "Pod") => pods::create,
        ("", "Service") => |_, service| services::normalize(service),
        ("", "ServiceAccount") => |_, account| name_secrets(account),
        ("apiregistration.k8s.io", "APIService") => |context, service| set_local_condition(context, service),
        ("apps", "DaemonSet") => |_, set| set_template_generation(set, "1"),
        ("batch", "Job") => |_, job| name_job_pods(job),
        ("discovery.k8s.io", "EndpointSlice") => |_, slice| drop_topology(&Value::Null, slice),
        ("resource.k8s.io", "ResourceSlice") => |context, slice| date_taints(context, slice),
        _ => return None,
    })
}

pub(crate) fn for_update(group: &str, kind: &str) -> Option<Update> {
    Some(match (group, kind) {
        ("", "PersistentVolumeClaim") => |_, old, claim| claims::normalize(old, claim),
        ("", "Service") => |_, old, service| services::carry_over(old, service),
        ("", "ServiceAccount") => |_, _, account| name_secrets(account),
        ("apps", "DaemonSet") => |_, old, set| count_templates(old, set),
        ("batch", "Job") => |_, _, job| label_job(job),
        ("discovery.k8s.io", "EndpointSlice") => |_, old, slice| drop_topology(old, slice),
        ("resource.k8s.io", "ResourceSlice") => |context, _, slice| date_taints(context, slice),
        _ => return None,
    })
}

/// The same for `/status`.
pub(crate) fn for_status(group: &str, kind: &str) -> Option<Update> {
    Some(match (group, kind) {
        ("", "PersistentVolume") => date_new_phase,
        ("", "Pod") => |_, old, pod| pods::keep(old, pod),
        ("apps", "DaemonSet") => |_, old, set| set_template_generation(set, template_generation(old)),
        _ => return None,
    })
}

/// The object in a member, created if it is absent.
fn made<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let map = value.as_object_mut()?;
    Some(map.entry(name).or_insert_with(|| Value::Object(Object::new())))
}

/// Drops the deprecated reference to a kubelet's configuration.
fn drop_configuration(node: &mut Value) {
    for part in [("spec", "configSource"), ("status", "config")] {
        if let Some(map) = node.get_mut(part.0).and_then(Value::as_object_mut) {
            map.remove(part.1);
        }
    }
}

/// Sets the time of the volume's phase to now.
fn date_phase(context: &RequestContext, volume: &mut Value) {
    if let Some(Value::Object(status)) = made(volume, "status") {
        status.insert("lastPhaseTransitionTime".into(), context.now.to_string().into());
    }
}

/// A changed volume phase without a transition time gets the current time; an unchanged phase keeps the stored time.
fn date_new_phase(context: &RequestContext, old: &Value, volume: &mut Value) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let (was, is) = (&old["status"], &volume["status"]);
    if was["phase"] != is["phase"] {
        if is[SINCE].is_null() || is[SINCE] == was[SINCE] {
            date_phase(context, volume);
        }
    } else if is[SINCE].is_null()
        && let Some(since) = was.get(SINCE).cloned()
        && let Some(Value::Object(status)) = made(volume, "status")
    {
        status.insert(SINCE.into(), since);
    }
}

/// Reduces the secrets of a service account to their names.
fn name_secrets(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|field, _| field == "name");
        }
    }
}

/// Marks an APIService that this server itself serves as available (condition `Available`, reason `Local`).
fn set_local_condition(context: &RequestContext, service: &mut Value) {
    if service["spec"]["service"].is_object() {
        return;
    }
    let condition = json!({
        "type": "Available", "status": "True", "lastTransitionTime": context.now.to_string(),
        "reason": "Local", "message": "Local APIServices are always available",
    });
    if let Some(Value::Object(status)) = made(service, "status") {
        status.insert("conditions".into(), json!([condition]));
    }
}

/// Drops the deprecated topology fields of endpoints, which `nodeName` and `zone` replace. In an existing slice, a node
/// name that is set only there is kept.
fn drop_topology(old: &Value, slice: &mut Value) {
    const NODE: &str = "kubernetes.io/hostname";
    if !old.is_null() && old["endpoints"] == slice["endpoints"] {
        return;
    }
    let node = |endpoint: &Value| endpoint["deprecatedTopology"][NODE].as_str().map(str::to_owned);
    let known: Vec<String> = old["endpoints"].as_array().into_iter().flatten().filter_map(node).collect();
    for endpoint in slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let named = node(endpoint).filter(|name| known.contains(name));
        let Some(endpoint) = endpoint.as_object_mut() else { continue };
        endpoint.remove("deprecatedTopology");
        if let Some(name) = named {
            endpoint.entry("nodeName").or_insert_with(|| name.into());
        }
    }
}

/// Sets the labels and the selector by which a job finds its pods: its uid and name. Values set by the client stay and
/// are refused by validation.
fn name_job_pods(job: &mut Value) {
    let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (uid, name) = (text("uid"), text("name"));
    if job["spec"]["manualSelector"] != true {
        let labels = [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ];
        let template = made(job, "spec").and_then(|spec| made(spec, "template"));
        let found = template.and_then(|template| made(template, "metadata")).and_then(|meta| made(meta, "labels"));
        if let Some(Value::Object(found)) = found {
            for (key, value) in labels {
                found.entry(key).or_insert_with(|| value.as_str().into());
            }
        }
        let selector = made(job, "spec").and_then(|spec| made(spec, "selector"));
        if let Some(Value::Object(selected)) = selector.and_then(|selector| made(selector, "matchLabels")) {
            selected.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
        }
    }
    label_job(job);
}

/// Without labels, a job gets the labels of its template, also when an update removes the last one.
fn label_job(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let own = job["metadata"]["labels"].as_object().is_some_and(|labels| !labels.is_empty());
    if let Some(metadata) = job.metadata_mut().filter(|_| labels.is_object() && !own) {
        metadata.insert("labels".into(), labels);
    }
}

/// Deprecated annotation that old clients use to distinguish the templates of a daemon set.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(set: &mut Value, generation: &str) {
    if let Some(Value::Object(annotations)) = made(set, "metadata").and_then(|metadata| made(metadata, "annotations")) {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.into());
    }
}

/// Upstream's internal type holds this annotation as a field, so every write sets it.
pub(crate) fn begin_template_generation(set: &mut Value) {
    if set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().is_none_or(|text| text.parse::<i64>().is_err()) {
        set_template_generation(set, "0");
    }
}

fn template_generation(set: &Value) -> &str {
    set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().unwrap_or("0")
}

fn count_templates(old: &Value, set: &mut Value) {
    let before: i64 = template_generation(old).parse().unwrap_or(0);
    let changed = old["spec"]["template"] != set["spec"]["template"];
    set_template_generation(set, &(before + i64::from(changed)).to_string());
}

/// Sets the time of taints without `timeAdded`.
fn date_taints(context: &RequestContext, slice: &mut Value) {
    let devices = slice["spec"].get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten();
    let taints = devices.filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    for taint in taints.filter_map(Value::as_object_mut).filter(|taint| !taint.contains_key("timeAdded")) {
        taint.insert("timeAdded".into(), context.now.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_labelled() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}});
        name_job_pods(&mut job);
        let labels = json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
            "controller-uid": "u", "job-name": "j"});
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
        let manual = json!({"metadata": {"name": "j", "labels": {"a": "b"}}, "spec": {"manualSelector": true}});
        let mut same = manual.clone();
        name_job_pods(&mut same);
        assert_eq!(same, manual);
    }

    fn context(subresource: &str) -> RequestContext {
        RequestContext {
            now: apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
            user: String::new(),
            groups: Vec::new(),
            subresource: subresource.to_owned(),
            dry_run: false,
        }
    }

    #[test]
    fn a_written_status_keeps_the_number_of_the_template() {
        let context = context("status");
        let write = for_status("apps", "DaemonSet").expect("a rule for daemon sets");
        let mut old = json!({});
        set_template_generation(&mut old, "3");
        let mut new = json!({"status": {"numberReady": 1}});
        begin_template_generation(&mut new);
        write(&context, &old, &mut new);
        assert_eq!(new["metadata"], old["metadata"]);
    }

    #[test]
    fn jobs_without_labels_get_those_of_their_template() {
        let context = context("");
        let update = for_update("batch", "Job").expect("a rule for jobs");
        let old =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"metadata": {"labels": {"c": "d"}}}}});
        let mut new = old.clone();
        update(&context, &old, &mut new);
        assert_eq!(new, old);
        new["metadata"] = json!({"name": "j"});
        update(&context, &old, &mut new);
        assert_eq!(new["metadata"], json!({"name": "j", "labels": {"c": "d"}}));
    }

    #[test]
    fn daemon_sets_count_their_templates() {
        let mut old = json!({"spec": {"template": 1}});
        set_template_generation(&mut old, "1");
        let mut new = old.clone();
        count_templates(&old, &mut new);
        assert_eq!(new, old);
        new["spec"]["template"] = 2.into();
        count_templates(&old, &mut new);
        assert_eq!(new["metadata"]["annotations"][TEMPLATE_GENERATION], "2");
    }
}
