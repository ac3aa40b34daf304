//! The scale subresource: `autoscaling/v1` Scale as a view of two fields of the object. It is read, patched, applied
//! and printed like every kind; only the object is stored.

use std::sync::{Arc, LazyLock};

use apimachinery::field::{Error as FieldError, Path};
use apimachinery::meta::LabelSelector;
use apimachinery::object::ObjectTree as _;
use apimachinery::resource::{Resource, Subresource};
use apimachinery::selector::Selector;
use apimachinery::{GroupVersionKind, Object, Status, managed_fields};
use http::StatusCode;
use serde_json::{Value, json};
use transport::{Body, Response};

use super::ownership::Proposal;
use super::patch::{APPLY, Patch};
use super::scale_owners::{self, Replicas};
use super::{Call, Kind};
use crate::errors;
use crate::request::options::{FieldValidation, Write};
use crate::wire::body;
use crate::wire::warnings;

static NAMESPACED: LazyLock<Option<Resource>> = LazyLock::new(|| kubernetes_api::scale(true));
static CLUSTER: LazyLock<Option<Resource>> = LazyLock::new(|| kubernetes_api::scale(false));

/// The paths of a kind's replicas and selector.
struct Paths<'r> {
    replicas: &'r str,
    current: &'r str,
    selector: Option<&'r str>,
}

/// The requested change of the Scale.
enum Change {
    Replace(Value),
    Patch(Patch, FieldValidation),
    Apply { configuration: Value, force: bool },
}

impl Call<'_> {
    pub(super) async fn scale(&self, body: Body) -> Result<Response, Status> {
        let described = if self.resource.info.resource.namespaced { &*NAMESPACED } else { &*CLUSTER };
        let described = described.as_ref().ok_or_else(super::no_such_resource)?;
        let scale = self.facade(described);
        if self.info.verb == "get" {
            self.stored().catch_up().await?;
            let stored = self.cache().get(&self.key())?.ok_or_else(|| self.not_found(&self.info.name))?;
            let served = self.served(stored).await?;
            let shown = self.scale_of(&served)?;
            if shown["spec"]["replicas"].is_null() {
                let why = format!("the spec replicas field {:?} does not exist", self.scale_paths()?.replicas);
                return Err(Status::internal(why));
            }
            return scale.shown(shown);
        }
        let is_apply = body::media_type(self.headers) == APPLY;
        let (write, owners) = match self.info.verb {
            "update" => (Write::Update, "update"),
            _ if is_apply => (Write::Apply, "apply"),
            _ => (Write::Patch, "patch"),
        };
        // The patch types depend on the resource.
        let form = if write == Write::Patch { Some(self.patch_form()?) } else { None };
        let options = self.write_options(write)?;
        let validation = options.field_validation;
        let mut warnings = Vec::new();
        let change = match (form, owners) {
            (Some(form), _) => Change::Patch(self.read_patch(body, form, validation).await?, validation),
            (None, "update") => {
                let (mut requested, found) = scale.object(body, validation).await?;
                warnings = found;
                scale.require_name(&requested)?;
                scale.check_name(&mut requested)?;
                scale.check_namespace(&mut requested)?;
                Change::Replace(requested)
            }
            (None, _) => {
                let (mut configuration, found) = scale.read_configuration(body, validation).await?;
                warnings = found;
                scale.check_name(&mut configuration)?;
                scale.check_namespace(&mut configuration.clone())?;
                Change::Apply { configuration, force: options.force }
            }
        };
        let findings = parking_lot::Mutex::new(warnings);
        let changed = self
            .modify(&self.key(), options.dry_run, |live| {
                let (mut object, found) = self.rescaled(&scale, &live.with_owners(), &change)?;
                findings.lock().extend(found);
                let owners = managed_fields::Owners::take(&mut object).map_err(Status::internal)?;
                Ok(Proposal { object, owners: Some(owners) })
            })
            .await?;
        let mut response = scale.shown(self.scale_of(&changed.object)?)?;
        warnings::warn(&mut response, &findings.into_inner());
        Ok(response)
    }

    /// This request, as if the Scale, or another resource, were its own.
    pub(crate) fn facade<'f>(&'f self, described: &'f Resource) -> Call<'f> {
        Call {
            server: self.server,
            info: self.info,
            resource: described,
            kind: &Kind::ORDINARY,
            user: self.user,
            headers: self.headers,
            shared: false,
            seat: self.seat,
            wire: self.wire,
            with_status: false,
            draft: self.draft,
            new_objects: None,
            accepted: self.accepted,
            now: self.now,
            api_version: described.info.resource.api_version(),
            cache: Default::default(),
            notes: Default::default(),
        }
    }

    fn shown(&self, mut scale: Value) -> Result<Response, Status> {
        if let Some(metadata) = scale.metadata_mut() {
            metadata.remove("managedFields");
        }
        // Zero is the field's omitted value.
        let spec = scale.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec.filter(|spec| spec.get("replicas") == Some(&json!(0))) {
            spec.remove("replicas");
        }
        let object = Object::from_value(&scale).map_err(errors::document)?;
        self.reply(StatusCode::OK, &Arc::new(object))
    }

    /// The object with the replicas of the changed Scale.
    fn rescaled(&self, scale: &Call<'_>, old: &Value, change: &Change) -> Result<(Value, Vec<String>), Status> {
        let paths = self.scale_paths()?;
        let owned = Replicas { path: paths.replicas, api_version: &self.api_version };
        let object = Object::from_value(old).map_err(errors::document)?;
        let mut was = self.scale_of(&object)?;
        scale_owners::show(old, &mut was, &owned);
        let (mut requested, findings) = match change {
            Change::Replace(requested) => {
                let mut requested = requested.clone();
                // Zero replicas are omitted.
                if requested["spec"]["replicas"].is_null() && !was["spec"]["replicas"].is_null() {
                    requested["spec"]["replicas"] = 0.into();
                }
                (requested, Vec::new())
            }
            Change::Patch(patch, validation) => scale.outcome(patch, &was, *validation)?,
            Change::Apply { configuration, force } => {
                let merged = scale.as_manager(|context| {
                    managed_fields::apply(Some(&was), configuration, context, *force, &scale.resource.info.schema)
                });
                let mut merged = merged.map_err(|e| e.to_status())?;
                merged["metadata"]["resourceVersion"] = configuration["metadata"]["resourceVersion"].clone();
                (scale.patched(merged, |merged, wrong| wrong.invalid(merged))?, Vec::new())
            }
        };
        self.check(&was, &requested, &paths)?;
        if !matches!(change, Change::Apply { .. }) {
            let schema = &scale.resource.info.schema;
            scale.as_manager(|context| managed_fields::update(Some(&was), &mut requested, context, schema));
        }
        let mut new = old.clone();
        set(&mut new, paths.replicas, requested["spec"]["replicas"].as_i64().unwrap_or(0).into())?;
        scale_owners::transfer(&requested, &mut new, &owned);
        new["metadata"]["resourceVersion"] = requested["metadata"]["resourceVersion"].clone();
        Ok((new, findings))
    }

    /// Whether a Scale may be changed to the requested one.
    fn check(&self, was: &Value, requested: &Value, paths: &Paths<'_>) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        let replicas = &requested["spec"]["replicas"];
        if was["spec"]["replicas"].is_null() && replicas.is_null() {
            let why = format!("the spec replicas field {:?} cannot be empty", paths.replicas);
            return Err(Status::bad_request(why));
        }
        // Of a custom resource, the field behind it is validated.
        let validated = replicas.as_i64().filter(|_| !self.resource.info.custom);
        if let Some(negative) = validated.filter(|replicas| *replicas < 0) {
            let path = Path::new("spec").child("replicas");
            let error = FieldError::invalid(&path, negative, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", &self.info.name, &[error]));
        }
        let (precondition, found) = (&requested["metadata"]["uid"], &was["metadata"]["uid"]);
        match (precondition.as_str().filter(|uid| !uid.is_empty()), found.as_str()) {
            (Some(precondition), Some(found)) if precondition != found => {
                let why =
                    format!("Precondition failed: UID in precondition: {precondition}, UID in object meta: {found}");
                Err(Status::conflict(&named.group, &format!("{}/scale", named.plural), &self.info.name, &why))
            }
            _ => Ok(()),
        }
    }

    fn scale_paths(&self) -> Result<Paths<'_>, Status> {
        let found = self.resource.info.subresources.iter().find_map(|subresource| match subresource {
            Subresource::Scale { spec_replicas, status_replicas, label_selector } => {
                Some(Paths { replicas: spec_replicas, current: status_replicas, selector: label_selector.as_deref() })
            }
            _ => None,
        });
        found.ok_or_else(super::no_such_resource)
    }

    pub(super) fn scale_kind() -> GroupVersionKind {
        GroupVersionKind::new("autoscaling", "v1", "Scale")
    }

    /// Gives an object the replicas of its changed Scale.
    pub(super) fn put_replicas(&self, scale: &Value, object: &mut Value) -> Result<(), Status> {
        set(object, self.scale_paths()?.replicas, scale["spec"]["replicas"].clone())
    }

    /// Without replicas for a custom resource that lacks them.
    pub(super) fn scale_of(&self, object: &Object) -> Result<Value, Status> {
        let paths = self.scale_paths()?;
        let tree = object.to_value().map_err(errors::document)?;
        let mut metadata = json!({});
        for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = tree["metadata"].get(name) {
                metadata[name] = value.clone();
            }
        }
        let mut status = json!({"replicas": lookup(&tree, paths.current).as_i64().unwrap_or(0)});
        let selector = paths.selector.map(|path| selector_text(lookup(&tree, path)));
        if let Some(text) = selector.filter(|text| !text.is_empty()) {
            status["selector"] = text.into();
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {}, "status": status,
        });
        if let Some(replicas) = lookup(&tree, paths.replicas).as_i64() {
            scale["spec"]["replicas"] = replicas.into();
        }
        Ok(scale)
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}

fn lookup<'a>(tree: &'a Value, path: &str) -> &'a Value {
    parts(path).fold(tree, |at, part| &at[part])
}

/// Sets a value, creating missing objects on its path.
fn set(tree: &mut Value, path: &str, value: Value) -> Result<(), Status> {
    let mut at = tree;
    for part in parts(path) {
        if at.is_null() {
            *at = json!({});
        }
        let Some(map) = at.as_object_mut() else {
            return Err(Status::internal(format!("value cannot be set at {path}: {part} is below something else")));
        };
        at = map.entry(part).or_insert(Value::Null);
    }
    *at = value;
    Ok(())
}

/// A selector as text: already text, a LabelSelector, or a plain map.
fn selector_text(selector: &Value) -> String {
    if let Value::String(text) = selector {
        return text.clone();
    }
    let is_labels = |map: &serde_json::Map<String, Value>| map.values().all(Value::is_string);
    let selector = match selector {
        Value::Object(map) if is_labels(map) => json!({"matchLabels": map}),
        other => other.clone(),
    };
    let parsed = serde_json::from_value::<LabelSelector>(selector).ok();
    parsed.and_then(|parsed| Selector::from_label_selector(&parsed).ok()).map_or_else(String::new, |s| s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_shown_as_text() {
        for (selector, expected) in [
            (json!("a=b"), "a=b"),
            (json!({"b": "c", "a": "b"}), "a=b,b=c"),
            (json!({"matchLabels": {"a": "b"}}), "a=b"),
            (json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}), "k in (x,y)"),
            (json!(null), ""),
        ] {
            assert_eq!(selector_text(&selector), expected, "{selector}");
        }
    }

    #[test]
    fn missing_parents_are_created_but_not_below_strings() {
        let mut tree = json!({"spec": {"text": "x"}});
        set(&mut tree, ".spec.a.b", 3.into()).expect("a new place");
        assert_eq!(tree["spec"]["a"]["b"], 3);
        assert!(set(&mut tree, ".spec.text.b", 3.into()).is_err());
    }
}
