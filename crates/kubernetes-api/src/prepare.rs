//! What the server itself writes into an object before it is checked: what is derived, and what clients may not choose.

use apimachinery::resource::RequestContext;
use serde_json::{Map, Value};

use crate::{pods, services};

type Object = Map<String, Value>;
pub(crate) type Create = fn(&RequestContext, &mut Value);
pub(crate) type Update = fn(&RequestContext, &Value, &mut Value);

pub(crate) fn for_create(group: &str, kind: &str) -> Option<Create> {
    Some(match (group, kind) {
        ("", "Pod") => pod,
        ("", "Service") => |_, service| services::normalize(service),
        ("apps", "DaemonSet") => |_, set| set_template_generation(set, "1"),
        ("batch", "Job") => |_, job| name_job_pods(job),
        ("resource.k8s.io", "ResourceSlice") => |context, slice| date_taints(context, slice),
        _ => return None,
    })
}

pub(crate) fn for_update(group: &str, kind: &str) -> Option<Update> {
    Some(match (group, kind) {
        ("", "Service") => |_, old, service| services::carry_over(old, service),
        ("apps", "DaemonSet") => |_, old, set| count_templates(old, set),
        ("resource.k8s.io", "ResourceSlice") => |context, _, slice| date_taints(context, slice),
        _ => return None,
    })
}

/// The object at a place, made when nothing is there.
fn made<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let map = value.as_object_mut()?;
    Some(map.entry(name).or_insert_with(|| Value::Object(Object::new())))
}

fn pod(_context: &RequestContext, pod: &mut Value) {
    let class = pods::qos_class(&pod["spec"]);
    if let Some(Value::Object(status)) = made(pod, "status") {
        status.insert("qosClass".into(), class.into());
    }
}

/// The class of a pod never changes; a status that does not say it keeps it.
pub(crate) fn keep_class(old: &Value, pod: &mut Value) {
    let class = &old["status"]["qosClass"];
    let unsaid = pod["status"]["qosClass"].as_str().unwrap_or_default().is_empty();
    if let Some(Value::Object(status)) = made(pod, "status").filter(|_| unsaid && !class.is_null()) {
        status.insert("qosClass".into(), class.clone());
    }
}

/// The pods of a job are found by labels made of the job's uid and name. What somebody wrote there stays, to be refused.
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
        if let Some(Value::Object(wanted)) = selector.and_then(|selector| made(selector, "matchLabels")) {
            wanted.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
        }
    }
    // A job without labels of its own carries its template's.
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let own = job["metadata"]["labels"].as_object().is_some_and(|labels| !labels.is_empty());
    if let Some(metadata) = job["metadata"].as_object_mut().filter(|_| labels.is_object() && !own) {
        metadata.insert("labels".into(), labels);
    }
}

/// Clients of long ago tell the templates of a daemon set apart by it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(set: &mut Value, generation: &str) {
    if let Some(Value::Object(annotations)) = made(set, "metadata").and_then(|metadata| made(metadata, "annotations")) {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.into());
    }
}

/// The annotation of every daemon set is a field of it inside upstream's server, so whoever writes one has written it.
pub(crate) fn begin_template_generation(set: &mut Value) {
    if set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().is_none_or(|text| text.parse::<i64>().is_err()) {
        set_template_generation(set, "0");
    }
}

fn count_templates(old: &Value, set: &mut Value) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().unwrap_or("0");
    let before: i64 = before.parse().unwrap_or(0);
    let changed = old["spec"]["template"] != set["spec"]["template"];
    set_template_generation(set, &(before + i64::from(changed)).to_string());
}

/// A taint that does not say since when it is there is new.
fn date_taints(context: &RequestContext, slice: &mut Value) {
    let devices = slice["spec"].get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten();
    let taints = devices.filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    for taint in taints.filter_map(Value::as_object_mut).filter(|taint| !taint.contains_key("timeAdded")) {
        taint.insert("timeAdded".into(), context.now.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn pods_keep_their_class() {
        let old = json!({"status": {"qosClass": "Burstable", "phase": "Pending"}});
        let rows = [
            (json!({"status": {"phase": "Running"}}), json!({"status": {"phase": "Running", "qosClass": "Burstable"}})),
            (json!({"status": {"qosClass": ""}}), json!({"status": {"qosClass": "Burstable"}})),
            (json!({}), json!({"status": {"qosClass": "Burstable"}})),
            (json!({"status": {"qosClass": "Guaranteed"}}), json!({"status": {"qosClass": "Guaranteed"}})),
        ];
        for (mut pod, expected) in rows {
            keep_class(&old, &mut pod);
            assert_eq!(pod, expected);
        }
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
