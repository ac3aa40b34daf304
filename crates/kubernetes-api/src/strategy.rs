//! What all built-in kinds have in common: status belongs to its own endpoint, and some kinds keep a generation.
//! What is special about single kinds is elsewhere: defaults in [`crate::defaults`], columns in [`crate::columns`].

use apimachinery::meta::Time;
use apimachinery::resource::{Column, RequestContext, ResourceInfo, Strategy};
use apimachinery::schema::SchemaId;
use apimachinery::{Object, Status};
use serde_json::Value;

use crate::conversion::Conversion;
use crate::{columns, defaults, pods};

/// Strategy of a built-in kind, from its description.
#[derive(Clone, Debug)]
pub(crate) struct BuiltIn {
    group: String,
    kind: String,
    resets_status: bool,
    conversion: Option<Conversion>,
    type_: SchemaId,
    /// The part of the object whose change raises the generation; `None` when the kind keeps none.
    generation_of: Option<&'static str>,
}

impl BuiltIn {
    pub(crate) fn new(info: &ResourceInfo) -> Self {
        let resource = &info.resource;
        // Kubelets register nodes together with their status.
        let resets_status = info.has_status() && !matches!(resource.kind.as_str(), "Node");
        Self {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            resets_status,
            conversion: Conversion::of(resource),
            type_: info.schema.root,
            generation_of: generation_of(&resource.group, &resource.kind),
        }
    }
}

impl BuiltIn {
    fn is_pod(&self) -> bool {
        self.group.is_empty() && self.kind == "Pod"
    }
}

/// Which built-in kinds keep `metadata.generation`, and for which part of them.
fn generation_of(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            Some("webhooks")
        }
        ("", "Pod" | "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "CronJob" | "Job")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding",
        )
        | ("flowcontrol.apiserver.k8s.io", _) => Some("spec"),
        _ => None,
    }
}

impl Strategy for BuiltIn {
    fn served_form(&self, stored: &Object) -> Result<Option<Object>, Status> {
        let Some(conversion) = self.conversion else { return Ok(None) };
        let mut tree = stored.to_value().map_err(Status::internal)?;
        conversion.to_served(&mut tree);
        Object::from_value(&tree).map(Some).map_err(Status::internal)
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), Status> {
        if let Some(conversion) = self.conversion {
            conversion.to_stored(object);
        }
        Ok(())
    }

    fn default(&self, object: &mut Value) {
        defaults::apply(self.type_, object);
    }

    fn prepare_create(&self, _context: &RequestContext, object: &mut Value) {
        if self.resets_status
            && let Some(fields) = object.as_object_mut()
        {
            match defaults::initial_status(self.type_) {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        }
        if self.is_pod() {
            object["status"]["qosClass"] = pods::qos_class(&object["spec"]).into();
        }
    }

    fn grace_seconds(&self, object: &Value) -> Option<i64> {
        if self.is_pod() { pods::grace_seconds(object) } else { None }
    }

    fn has_generation(&self) -> bool {
        self.generation_of.is_some()
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&self.group, &self.kind)
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        columns::cells(&self.group, &self.kind, object, now)
    }

    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        self.generation_of.is_some_and(|part| old.get(part) != new.get(part))
    }
}
