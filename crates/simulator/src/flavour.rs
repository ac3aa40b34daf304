//! What a member's API server does differently from a control plane's: its pods can be bound and run.

use std::sync::Arc;

use apimachinery::field::ErrorList;
use apimachinery::meta::Time;
use apimachinery::resource::{Column, RequestContext, Resource, Strategy};
use apimachinery::{Object, Status};
use serde_json::Value;

/// The component under which the member's own controllers write.
pub(crate) const COMPONENT: &str = "member";
const USER: &str = "system:member";

/// Pods whose deletion names no grace get this many seconds, as the API defaults say.
const GRACE: i64 = 30;

/// The built-in kinds, as a member serves them.
pub(crate) fn resources() -> Vec<Resource> {
    let mut resources = kubernetes_api::resources();
    for resource in &mut resources {
        let named = &resource.info.resource;
        if named.group.is_empty() && named.kind == "Pod" {
            resource.strategy = Arc::new(Pods(Arc::clone(&resource.strategy)));
        }
    }
    resources
}

/// Pods as any API server has them, and two short cuts for the member's own controllers: a pod may be created together
/// with its status, and a status that nominates a node binds the pod to it.
struct Pods(Arc<dyn Strategy>);

impl Strategy for Pods {
    fn default(&self, object: &mut Value) {
        self.0.default(object);
    }

    fn served_form(&self, stored: &Object) -> Result<Option<Object>, Status> {
        self.0.served_form(stored)
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), Status> {
        self.0.to_stored(object)
    }

    fn prepare_create(&self, context: &RequestContext, object: &mut Value) {
        let status = (context.user == USER).then(|| object["status"].take());
        self.0.prepare_create(context, object);
        object["status"] = status.filter(Value::is_object).unwrap_or_else(|| serde_json::json!({"phase": "Pending"}));
    }

    fn prepare_update(&self, context: &RequestContext, old: &Value, object: &mut Value) {
        self.0.prepare_update(context, old, object);
        let unbound = object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        if context.user == USER
            && context.subresource == "status"
            && unbound
            && let Some(node) = object["status"].as_object_mut().and_then(|status| status.remove("nominatedNodeName"))
        {
            object["spec"]["nodeName"] = node;
        }
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        self.0.validate_create(object)
    }

    fn validate_update(&self, context: &RequestContext, old: &Value, object: &Value) -> ErrorList {
        self.0.validate_update(context, old, object)
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        self.0.warnings(object)
    }

    fn has_generation(&self) -> bool {
        self.0.has_generation()
    }

    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        self.0.raises_generation(old, new)
    }

    fn allows_unconditional_update(&self) -> bool {
        self.0.allows_unconditional_update()
    }

    fn allows_create_on_update(&self) -> bool {
        self.0.allows_create_on_update()
    }

    fn default_propagation(&self) -> &'static str {
        self.0.default_propagation()
    }

    /// A pod that is on no node, or has ended, goes at once.
    fn grace_seconds(&self, object: &Value) -> Option<i64> {
        let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !bound || ended {
            return Some(0);
        }
        Some(object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(GRACE))
    }

    fn columns(&self) -> Vec<Column> {
        self.0.columns()
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        self.0.cells(object, now)
    }
}
