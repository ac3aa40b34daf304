//! Resolves the pod and the containers of a command: POD, or TYPE/NAME of an owner of pods.

use apimachinery::selector::Selector;
use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions};
use http::Method;
use serde_json::Value;

use crate::error::Error;
use crate::get::targets;
use crate::{Context, answers, objects, requests};

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

pub fn resource() -> ApiResource {
    ApiResource::namespaced("", "v1", "Pod", "pods")
}

/// The pods of `named`: itself, or those that a workload selects, by name.
///
/// # Errors
/// When the object does not exist, selects no pods, or has an unsupported kind.
pub async fn named(context: &Context, client: &Client, namespace: &str, named: &str) -> Result<Vec<Value>, Error> {
    let (type_, name) = named.split_once('/').unwrap_or(("pods", named));
    if matches!(type_, "pod" | "pods" | "po") {
        let key = ObjectKey::namespaced(namespace, name);
        let pod = requests::get_named(context, client, &resource(), &key, None).await;
        return pod.map(|pod| vec![pod]).map_err(Error::client(format!("get pod {name}")));
    }
    match selection(context, client, namespace, named).await? {
        Some(selector) => selected(context, client, namespace, &selector).await,
        None => Ok(Vec::new()),
    }
}

/// The selector of the pods that TYPE/NAME owns; `None` for a pod.
///
/// # Errors
/// When the object does not exist, or is not known to own pods.
pub async fn selection(
    context: &Context,
    client: &Client,
    namespace: &str,
    named: &str,
) -> Result<Option<String>, Error> {
    let (type_, name) = named.split_once('/').unwrap_or(("pods", named));
    if matches!(type_, "pod" | "pods" | "po") {
        return Ok(None);
    }
    let discovery = objects::discovery(client).await?;
    let found = targets::resolve(type_, &discovery.resources);
    let Some(known) = found.first() else { return Err(objects::unknown_type(type_)) };
    let key = ObjectKey::namespaced(namespace, name);
    let owner = requests::get_named(context, client, &known.resource, &key, None).await;
    let owner = owner.map_err(Error::client(format!("get {named}")))?;
    let Some(selector) = selector(&owner) else {
        let kind = &known.resource.kind;
        return Err(Error::message(format!("cannot get the logs or attach to {kind} {name}: it selects no pods")));
    };
    Ok(Some(selector))
}

/// The selector of a workload, or of a Service.
fn selector(owner: &Value) -> Option<String> {
    let spec = &owner["spec"]["selector"];
    if let Some(labels) = spec.as_object().filter(|labels| !labels.is_empty() && labels.values().all(Value::is_string))
    {
        let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        return Some(pairs.collect::<Vec<_>>().join(","));
    }
    let selector = serde_json::from_value(spec.clone()).ok()?;
    let selector = Selector::from_label_selector(&selector).ok().filter(|selector| !selector.is_everything())?;
    Some(selector.to_string())
}

/// The pods that a selector matches, those that run first.
///
/// # Errors
/// When pods cannot be listed.
pub async fn selected(
    context: &Context,
    client: &Client,
    namespace: &str,
    selector: &str,
) -> Result<Vec<Value>, Error> {
    let options = ListOptions::labels(selector);
    let path = options.path(&resource(), Some(namespace));
    let listed = requests::send(context, client, Method::GET, &path, None).await;
    let mut list = listed.map_err(Error::client("list pods"))?;
    let mut pods = answers::take_items(&mut list).unwrap_or_default();
    sort(&mut pods);
    Ok(pods)
}

/// Those that run first, by name.
pub fn sort(pods: &mut [Value]) {
    pods.sort_by_key(|pod| (pod["status"]["phase"] != "Running", pod["metadata"]["name"].to_string()));
}

/// The name of a pod.
pub fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

/// The names of a pod's containers, those that start it included.
pub fn containers(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let lists = [&spec["containers"], &spec["initContainers"], &spec["ephemeralContainers"]];
    lists
        .into_iter()
        .flat_map(|list| list.as_array().into_iter().flatten())
        .filter_map(|it| it["name"].as_str())
        .collect()
}

/// The container that is named, or the pod's default one, of which the user is informed.
///
/// # Errors
/// When the pod has no such container.
pub fn container<'p>(context: &Context, pod: &'p Value, container_name: &str, quiet: bool) -> Result<&'p str, Error> {
    let known = containers(pod);
    if !container_name.is_empty() {
        let found = known.iter().find(|name| **name == container_name).copied();
        return found.ok_or_else(|| {
            Error::message(format!(
                "container {container_name} is not valid for pod {} out of: {}",
                name(pod),
                known.join(", ")
            ))
        });
    }
    let annotated = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str();
    let default = annotated
        .and_then(|container_name| known.iter().find(|name| **name == container_name))
        .or_else(|| known.first());
    let Some(default) = default.copied() else {
        return Err(Error::message(format!("pod {} has no containers", name(pod))));
    };
    if known.len() > 1 && annotated.is_none() && !quiet {
        context.log(&format!("Defaulted container {default:?} out of: {}\n", listed(pod)));
    }
    Ok(default)
}

/// The containers as kubectl lists them: `a, b, c (ephem), d (init)`.
fn listed(pod: &Value) -> String {
    let lists = [("containers", ""), ("ephemeralContainers", " (ephem)"), ("initContainers", " (init)")];
    let names = lists.into_iter().flat_map(|(list, suffix)| {
        let names = pod["spec"][list].as_array().into_iter().flatten().filter_map(|it| it["name"].as_str());
        names.map(move |name| format!("{name}{suffix}"))
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Whether the container was started with a terminal.
pub fn has_terminal(pod: &Value, container: &str) -> bool {
    let lists = ["containers", "initContainers", "ephemeralContainers"].map(|list| pod["spec"][list].as_array());
    lists.into_iter().flatten().flatten().any(|it| it["name"] == container && it["tty"] == true)
}

/// Whether the container is an ephemeral one, which is not restarted.
pub fn is_ephemeral(pod: &Value, container: &str) -> bool {
    pod["spec"]["ephemeralContainers"].as_array().into_iter().flatten().any(|it| it["name"] == container)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_select_pods() {
        let service = json!({"spec": {"selector": {"a": "b", "c": "d"}}});
        assert_eq!(selector(&service).as_deref(), Some("a=b,c=d"));
        let deployment = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        assert_eq!(selector(&deployment).as_deref(), Some("a=b"));
        assert_eq!(selector(&json!({"data": {}})), None);
    }

    #[test]
    fn containers_are_chosen_as_kubectl_chooses() {
        let context = Context::default();
        let pod = json!({"metadata": {"name": "p", "annotations": {DEFAULT_CONTAINER: "b"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}],
            "ephemeralContainers": [{"name": "e", "tty": true}]}});
        assert_eq!(container(&context, &pod, "", true).expect("the default"), "b");
        assert_eq!(container(&context, &pod, "i", true).expect("named"), "i");
        let refused = container(&context, &pod, "nope", true).expect_err("unknown").to_string();
        assert_eq!(refused, "container nope is not valid for pod p out of: a, b, i, e");
        assert_eq!(listed(&pod), "a, b, e (ephem), i (init)");
        assert!(has_terminal(&pod, "e") && !has_terminal(&pod, "a"));
        assert!(is_ephemeral(&pod, "e") && !is_ephemeral(&pod, "i"));
    }
}
