//! The content of every namespace: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`. Both are created
//! for a new namespace and restored after a deletion or change.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::{CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS};
use crate::running::Starting;

/// kube-controller-manager's description of the certificate.
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// An object that every namespace contains.
struct DesiredObject {
    controller: &'static str,
    resource: &'static ApiResource,
    name: &'static str,
    /// The desired object without its namespace.
    object: Box<dyn Fn() -> Value + Send + Sync>,
    /// The top-level fields that are restored; also the description annotation, if there is one.
    kept: &'static [&'static str],
}

pub(crate) async fn run_default_accounts(context: Context, starting: Starting) {
    let desired = DesiredObject {
        controller: "serviceaccount-controller",
        resource: &SERVICE_ACCOUNTS,
        name: "default",
        object: Box::new(|| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})),
        kept: &[],
    };
    run(context, starting, desired).await;
}

pub(crate) async fn run_root_ca(context: Context, starting: Starting) {
    let Some(root) = context.settings.root_ca_pem.clone() else { return };
    let desired = DesiredObject {
        controller: "root-ca-certificate-publisher-controller",
        resource: &CONFIG_MAPS,
        name: "kube-root-ca.crt",
        object: Box::new(move || {
            let annotations = json!({"kubernetes.io/description": ROOT_CA_DESCRIPTION});
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "kube-root-ca.crt", "annotations": annotations},
                "data": {"ca.crt": &*root.get()}})
        }),
        kept: &["data"],
    };
    run(context, starting, desired).await;
}

async fn run(context: Context, starting: Starting, desired: DesiredObject) {
    let queue: Arc<WorkQueue<Box<str>>> = Arc::new(WorkQueue::new());
    let namespaces = context.informers.informer(&NAMESPACES);
    let keys = queue.clone();
    namespaces.subscribe(move |event| {
        if let Event::Added { object, .. } = event {
            keys.add(object.name().into());
        }
    });
    let informer = context.informers.informer(desired.resource);
    let (keys, name) = (queue.clone(), desired.name);
    informer.subscribe(move |event| {
        let object = event.object();
        if object.name() == name
            && !matches!(event, Event::Added { initial: false, .. })
            && let Some(namespace) = object.namespace()
        {
            keys.add(namespace.into());
        }
    });
    if !namespaces.synced().await || !informer.synced().await {
        return;
    }
    drop(starting);
    if !desired.kept.is_empty() {
        let (keys, known) = (queue.clone(), namespaces.clone());
        context.on_new_root_ca(move || known.cache().keys().iter().for_each(|key| keys.add(key.name().into())));
    }
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    let (controller, desired) = (desired.controller, Arc::new(desired));
    run_workers(controller, queue, workers, stop, move |namespace| {
        let (context, desired) = (context.clone(), desired.clone());
        async move { reconcile(&context, &desired, &namespace).await }
    })
    .await;
}

#[derive(Debug, PartialEq)]
enum Action {
    Nothing,
    Create(Value),
    /// A merge patch.
    Correct(Value),
}

/// `namespace` and `live` are from the caches.
fn plan(namespace: Option<&Object>, live: Option<&Value>, desired: &Value, kept: &[&str]) -> Action {
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_deleting()) else { return Action::Nothing };
    let Some(live) = live else {
        let mut object = desired.clone();
        object["metadata"]["namespace"] = namespace.name().into();
        return Action::Create(object);
    };
    let mut patch = json!({});
    for field in kept.iter().copied().filter(|field| live[*field] != desired[*field]) {
        patch[field] = replacement(&live[field], &desired[field]);
    }
    if let Some(description) = desired["metadata"]["annotations"].get("kubernetes.io/description")
        && live["metadata"]["annotations"].get("kubernetes.io/description").is_none()
    {
        patch["metadata"]["annotations"]["kubernetes.io/description"] = description.clone();
    }
    if patch == json!({}) { Action::Nothing } else { Action::Correct(patch) }
}

/// The merge patch that turns one map of strings into the other.
fn replacement(live: &Value, desired: &Value) -> Value {
    let mut patch = desired.clone();
    for key in live.as_object().into_iter().flat_map(|map| map.keys()) {
        if desired.get(key).is_none() {
            patch[key] = Value::Null;
        }
    }
    patch
}

async fn reconcile(context: &Context, desired: &DesiredObject, namespace: &str) -> Result<Next> {
    let key = ObjectKey::namespaced(namespace, desired.name);
    let within = context.informers.informer(&NAMESPACES).cache().get(&ObjectKey::cluster(namespace));
    let live = context.informers.informer(desired.resource).cache().get(&key);
    let tree = live.as_deref().map(|live| decoded(live, live.to_value())).transpose()?;
    let written = match plan(within.as_deref(), tree.as_ref(), &(desired.object)(), desired.kept) {
        Action::Nothing => return Ok(Next::Done),
        Action::Create(object) => context.client.create(desired.resource, &object).await,
        Action::Correct(patch) => {
            context.client.patch(desired.resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await
        }
    };
    match written {
        Ok(_) => Ok(Next::Done),
        // The caches are slightly behind; their next event queues the namespace again if needed.
        Err(error) if error.is_already_exists() || error.is_not_found() || error.is_namespace_terminating() => {
            Ok(Next::Done)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans() {
        let desired =
            json!({"metadata": {"name": "c", "annotations": {"kubernetes.io/description": "d"}}, "data": {"k": "v"}});
        let good = json!({"metadata": {"annotations": {"kubernetes.io/description": "else"}}, "data": {"k": "v"}});
        let create = json!({"metadata": {"name": "c", "namespace": "a", "annotations": {"kubernetes.io/description": "d"}},
            "data": {"k": "v"}});
        let ns = |deleted: Value| {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "deletionTimestamp": deleted}});
            Object::from_value(&object).expect("an object")
        };
        let active = ns(Value::Null);
        let leaving = ns("2026-11-21T00:00:00Z".into());
        let check = |namespace: Option<&Object>, live: Option<Value>, action: Action| {
            assert_eq!(plan(namespace, live.as_ref(), &desired, &["data"]), action, "{live:?}");
        };
        check(None, None, Action::Nothing);
        check(Some(&leaving), None, Action::Nothing);
        check(Some(&active), None, Action::Create(create));
        check(Some(&active), Some(good.clone()), Action::Nothing);
        let mut changed = good;
        changed["data"] = json!({"k": "other", "more": "x"});
        let patch = json!({"data": {"k": "v", "more": null}});
        check(Some(&active), Some(changed), Action::Correct(patch));
        let patch = json!({"metadata": {"annotations": {"kubernetes.io/description": "d"}}});
        check(Some(&active), Some(json!({"metadata": {}, "data": {"k": "v"}})), Action::Correct(patch));
    }
}
