//! The differences of a member's API server from a control plane's: its pods run, its volume claims are bound.

use std::sync::Arc;

use apimachinery::extent::TooLarge;
use apimachinery::field::ErrorList;
use apimachinery::meta::Time;
use apimachinery::resource::{Column, MetadataChecks, RequestContext, Resource, Strategy};
use apimachinery::schema::TypeOf;
use apimachinery::{Object, Status, names};
use apiserver::Admission;
use apiserver::admit::plugins::{self, SwitchError, Switches};
use kubernetes_api::services::Ranges;
use serde_json::{Value, json};
use world::World;

use crate::metrics_api;

/// The component name of the member's own controllers.
pub(crate) const COMPONENT: &str = "member";
const USER: &str = "system:member";

/// The built-in kinds as a member serves them.
pub(crate) fn resources() -> Vec<Resource> {
    let mut resources = kubernetes_api::resources();
    for resource in &mut resources {
        let named = &resource.info.resource;
        let kind = match (named.group.as_str(), named.kind.as_str()) {
            ("", "Pod") => Special::Pod,
            ("", "PersistentVolumeClaim") => Special::Claim,
            _ => continue,
        };
        resource.strategy = Arc::new(Own { inner: Arc::clone(&resource.strategy), kind });
    }
    if let Some(strategy) = resources.first().map(|resource| Arc::clone(&resource.strategy)) {
        resources.extend(metrics_api::resources(&strategy));
    }
    resources
}

/// kube-apiserver's admission plugins, except those that depend on controllers a member does not have: no controller
/// reports that a node is ready or that storage is no longer in use.
pub(crate) fn admission(world: &World) -> Result<Vec<Arc<dyn Admission>>, SwitchError> {
    let without = ["TaintNodesByCondition", "StorageObjectInUseProtection"].map(str::to_owned);
    plugins::built_in(Ranges::default(), world, &Switches { enable: Vec::new(), disable: without.into() })
}

#[derive(Clone, Copy)]
enum Special {
    /// The usual strategy with two shortcuts for the member's own controllers: a pod may be created together with its
    /// status, and a status that nominates a node binds the pod to it.
    Pod,
    /// Bound at creation: there is no storage to wait for.
    Claim,
}

/// A built-in kind with its special strategy.
struct Own {
    inner: Arc<dyn Strategy>,
    kind: Special,
}

impl Strategy for Own {
    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        self.inner.default(object)
    }

    fn served_form(&self, stored: &Object) -> Result<Option<Object>, Status> {
        self.inner.served_form(stored)
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), Status> {
        self.inner.to_stored(object)
    }

    fn type_in(&self, api_version: &str) -> Option<&TypeOf> {
        self.inner.type_in(api_version)
    }

    fn convert_for_owners(&self, object: &mut Value, api_version: &str) -> Result<(), String> {
        self.inner.convert_for_owners(object, api_version)
    }

    fn prepare_create(&self, context: &RequestContext, object: &mut Value) {
        let sent = object["status"].take();
        self.inner.prepare_create(context, object);
        match self.kind {
            // The server's defaults are kept if no other value is set: the class is never changed later.
            Special::Pod if context.user == USER => {
                if let (Some(status), Value::Object(sent)) =
                    (object.get_mut("status").and_then(Value::as_object_mut), sent)
                {
                    status.extend(sent);
                }
            }
            Special::Pod => {}
            Special::Claim => {
                let spec = &object["spec"];
                object["status"] = json!({"phase": "Bound", "accessModes": spec["accessModes"],
                    "capacity": spec["resources"]["requests"]});
            }
        }
    }

    fn prepare_update(&self, context: &RequestContext, old: &Value, object: &mut Value) {
        self.inner.prepare_update(context, old, object);
        let unbound = object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        if matches!(self.kind, Special::Pod)
            && context.user == USER
            && context.subresource == "status"
            && unbound
            && let Some(node) = object
                .get_mut("status")
                .and_then(Value::as_object_mut)
                .and_then(|status| status.remove("nominatedNodeName"))
        {
            object["spec"]["nodeName"] = node;
        }
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        self.inner.validate_create(object)
    }

    fn validate_update(&self, context: &RequestContext, old: &Value, object: &Value) -> ErrorList {
        self.inner.validate_update(context, old, object)
    }

    fn name_rule(&self) -> names::NameRule {
        self.inner.name_rule()
    }

    fn metadata_checks(&self) -> MetadataChecks {
        self.inner.metadata_checks()
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        self.inner.status_metadata()
    }

    fn check_update(&self, context: &RequestContext, old: &Value, object: &Value) -> (ErrorList, Vec<String>) {
        self.inner.check_update(context, old, object)
    }

    fn warnings(&self, context: &RequestContext, old: Option<&Value>, object: &Value) -> Vec<String> {
        self.inner.warnings(context, old, object)
    }

    fn has_generation(&self) -> bool {
        self.inner.has_generation()
    }

    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        self.inner.raises_generation(old, new)
    }

    fn allows_unconditional_update(&self) -> bool {
        self.inner.allows_unconditional_update()
    }

    fn allows_create_on_update(&self) -> bool {
        self.inner.allows_create_on_update()
    }

    fn default_propagation(&self) -> &'static str {
        self.inner.default_propagation()
    }

    fn grace_seconds(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        self.inner.grace_seconds(object, requested)
    }

    fn columns(&self) -> Vec<Column> {
        self.inner.columns()
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        self.inner.cells(object, now)
    }

    fn write_row(&self, object: &Object, now: Time, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        self.inner.write_row(object, now, out)
    }
}
