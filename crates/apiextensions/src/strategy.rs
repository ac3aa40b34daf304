//! A custom resource as the API server serves it: one [`Resource`] for each served version of a definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::extent::TooLarge;
use apimachinery::field::ErrorList;
use apimachinery::gvk::ApiResource;
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::raw_json::Places;
use apimachinery::resource::{Column, RequestContext, Resource, ResourceInfo, Strategy, Subresource};
use apimachinery::schema::TypeOf;
use apimachinery::versions::compare_versions;
use apimachinery::{Object, Status};
use serde_json::Value;

use crate::columns::{Shown, cell, columns};
use crate::definition::{CustomResourceDefinition, Names, Scale, Version};
use crate::scaled::errors as scale_errors;
use crate::validation::Validator;
use crate::{defaulting, pruning, structural, zeros};

/// Converts between the versions of one custom resource inside this process.
pub trait Converter: Send + Sync {
    /// Converts `object` to `to_version`, a version's name without its group. Only `apiVersion`, labels, annotations
    /// and fields outside metadata may change.
    ///
    /// # Errors
    /// The message of a failed conversion.
    fn convert(&self, object: &mut Value, to_version: &str) -> Result<(), String>;
}

/// The inputs of a compilation besides the definition.
#[derive(Clone, Default)]
pub struct Compilation<'a> {
    /// The type of `metadata`, which apply needs for its lists; without it metadata is opaque.
    pub object_meta: Option<&'a TypeOf>,
    /// `None` is conversion strategy None: only `apiVersion` changes.
    pub converter: Option<Arc<dyn Converter>>,
    /// Objects last written before this revision may lack defaults of the present schema.
    pub schema_revision: u64,
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources of a definition, one for each served version, under its accepted names.
pub fn resources(crd: &CustomResourceDefinition, compilation: &Compilation<'_>) -> Vec<Resource> {
    let Some(storage) = crd.storage_version() else { return Vec::new() };
    let versions = crd.spec.versions.iter();
    let types = versions.map(|version| (version.name.clone(), Typed::of(version, compilation))).collect();
    let types = Arc::new(types);
    let served = crd.spec.versions.iter().filter(|version| version.served);
    served.map(|version| resource(crd, version, storage, compilation, &types)).collect()
}

/// The schema of one version.
struct Typed {
    type_: TypeOf,
    has_defaults: bool,
}

impl Typed {
    fn of(version: &Version, compilation: &Compilation<'_>) -> Self {
        let type_ = structural::compile(version.json_schema(), compilation.object_meta);
        Self { has_defaults: defaulting::has_defaults(&type_), type_ }
    }

    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        defaulting::prune_and_default(object, &self.type_)
    }
}

fn resource(
    crd: &CustomResourceDefinition,
    version: &Version,
    storage: &Version,
    compilation: &Compilation<'_>,
    types: &Arc<BTreeMap<String, Typed>>,
) -> Resource {
    let names = served_names(crd);
    let schema =
        types.get(&version.name).map_or_else(|| Typed::of(version, compilation).type_, |typed| typed.type_.clone());
    let info = ResourceInfo {
        resource: ApiResource {
            group: crd.spec.group.clone(),
            version: version.name.clone(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
            namespaced: crd.spec.scope == "Namespaced",
        },
        singular: names.singular.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        verbs: VERBS.map(str::to_owned).to_vec(),
        subresources: subresources(version),
        selectable_fields: version.selectable_paths(),
        custom: true,
        schema: schema.clone(),
    };
    let strategy = CustomStrategy {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        storage: storage.name.clone(),
        storage_is_served: storage.served,
        api_version: format!("{}/{}", crd.spec.group, version.name),
        has_status: version.has_status(),
        types: Arc::clone(types),
        scale: version.scale().cloned(),
        warning: deprecation(crd, version),
        shown: Shown::of(columns(version)),
        schema_revision: compilation.schema_revision,
        converter: compilation.converter.clone(),
        crd_name: crd.metadata.name.clone(),
        validator: Validator::new(schema),
    };
    Resource { info: Arc::new(info), strategy: Arc::new(strategy) }
}

fn served_names(crd: &CustomResourceDefinition) -> &Names {
    if crd.status.accepted_names.plural.is_empty() { &crd.spec.names } else { &crd.status.accepted_names }
}

fn subresources(version: &Version) -> Vec<Subresource> {
    let status = version.has_status().then_some(Subresource::Status);
    let scale = version.scale().map(|scale| Subresource::Scale {
        spec_replicas: scale.spec_replicas_path.clone(),
        status_replicas: scale.status_replicas_path.clone(),
        label_selector: scale.label_selector_path.clone().filter(|path| !path.is_empty()),
    });
    status.into_iter().chain(scale).collect()
}

/// The definition's own words, or which version to use instead: the best that is preferred to this one.
fn deprecation(crd: &CustomResourceDefinition, version: &Version) -> Option<String> {
    let named = |name: &str| format!("{}/{name} {}", crd.spec.group, crd.spec.names.kind);
    let text = || {
        let better =
            crd.spec.versions.iter().filter(|other| {
                other.served && !other.deprecated && compare_versions(&other.name, &version.name).is_lt()
            });
        match better.min_by(|a, b| compare_versions(&a.name, &b.name)) {
            Some(better) => format!("{} is deprecated; use {}", named(&version.name), named(&better.name)),
            None => format!("{} is deprecated", named(&version.name)),
        }
    };
    version.deprecated.then(|| version.deprecation_warning.clone().unwrap_or_else(text))
}

/// The strategy of one served version of a custom resource, derived from its definition.
struct CustomStrategy {
    crd_name: String,
    group: String,
    version: String,
    storage: String,
    storage_is_served: bool,
    api_version: String,
    has_status: bool,
    /// The types of all versions, served and not served.
    types: Arc<BTreeMap<String, Typed>>,
    scale: Option<Scale>,
    warning: Option<String>,
    shown: Shown,
    schema_revision: u64,
    converter: Option<Arc<dyn Converter>>,
    validator: Validator,
}

impl CustomStrategy {
    fn convert(&self, object: &mut Value, to: &str) -> Result<(), Status> {
        if let Some(converter) = &self.converter {
            converter
                .convert(object, to)
                .map_err(|why| Status::internal(format!("conversion of {} to {to} failed: {why}", self.crd_name)))?;
        }
        object["apiVersion"] = Value::from(format!("{}/{to}", self.group));
        Ok(())
    }
}

impl CustomStrategy {
    /// Whether a stored object is in this version, which is the stored one, and was written under this schema.
    fn is_as_written(&self, stored: &Object) -> bool {
        stored.api_version() == self.api_version
            && self.version == self.storage
            && stored.resource_version().parse::<u64>().is_ok_and(|written| written >= self.schema_revision)
    }
}

/// The fields whose change raises the generation.
fn counted(object: &Value, has_status: bool) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(move |(name, _)| name.as_str() != "metadata" && !(has_status && name.as_str() == "status"))
}

impl Strategy for CustomStrategy {
    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        if let Some(metadata) = object.metadata_mut() {
            zeros::omit_in_metadata(metadata);
        }
        defaulting::prune_and_default(object, self.validator.type_of())
    }

    fn storage_version(&self) -> Option<&str> {
        self.storage_is_served.then_some(self.storage.as_str())
    }

    /// An object that is in this version and was written under this schema is served as stored, without decoding.
    fn served_form(&self, stored: &Object) -> Result<Option<Object>, Status> {
        let current = stored.api_version() == self.api_version;
        let outdated = || stored.resource_version().parse::<u64>().is_ok_and(|written| written < self.schema_revision);
        // Defaults are those of the version in which the object was written, for reads in every version.
        let written_in = stored.api_version().rsplit('/').next().and_then(|version| self.types.get(version));
        let written_in = written_in.filter(|typed| typed.has_defaults && outdated());
        if current && written_in.is_none() {
            return Ok(None);
        }
        let mut object = stored.to_value().map_err(Status::internal)?;
        if let Some(typed) = written_in {
            typed.default(&mut object)?;
        }
        if !current {
            self.convert(&mut object, &self.version)?;
            pruning::drop_unspecified(&mut object, self.validator.type_of());
        }
        Object::from_value(&object).map(Some).map_err(Status::internal)
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), Status> {
        if self.version == self.storage {
            return Ok(());
        }
        self.convert(object, &self.storage)?;
        if let Some(typed) = self.types.get(&self.storage) {
            typed.default(object)?;
        }
        Ok(())
    }

    fn type_in(&self, api_version: &str) -> Option<&TypeOf> {
        let (group, version) = api_version.split_once('/')?;
        let typed = self.types.get(version).filter(|_| group == self.group)?;
        Some(&typed.type_)
    }

    fn convert_for_owners(&self, object: &mut Value, api_version: &str) -> Result<(), String> {
        let type_ = self.type_in(api_version).ok_or_else(|| format!("there is no version {api_version}"))?;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if let Some(converter) = &self.converter {
            converter.convert(object, version)?;
        }
        object["apiVersion"] = Value::from(api_version);
        pruning::drop_unspecified(object, type_);
        Ok(())
    }

    fn prepare_create(&self, _context: &RequestContext, object: &mut Value) {
        if let (true, Some(map)) = (self.has_status, object.as_object_mut()) {
            map.remove("status");
        }
        // The same walk has succeeded with a status, so that there is room for the defaults.
        if self.has_status && defaulting::has_default(self.validator.type_of(), "status") {
            let _ = defaulting::default(object, self.validator.type_of());
        }
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        let of_scale = self.scale.iter().flat_map(|scale| scale_errors(scale, None, object)).collect();
        self.validator.validate_beside(object, of_scale)
    }

    fn validate_update(&self, context: &RequestContext, old: &Value, object: &Value) -> ErrorList {
        self.check_update(context, old, object).0
    }

    fn check_update(&self, _context: &RequestContext, old: &Value, object: &Value) -> (ErrorList, Vec<String>) {
        let of_scale = self.scale.iter().flat_map(|scale| scale_errors(scale, Some(old), object)).collect();
        self.validator.validate_update(old, object, of_scale)
    }

    fn validate_unchanged(&self, object: &Value) -> ErrorList {
        self.validator.validate_unchanged(object)
    }

    /// A schema can restrict only names in metadata; transition rules apply to the rest as well.
    fn metadata_is_independent(&self, stored: &Object) -> bool {
        self.is_as_written(stored) && !self.validator.compares()
    }

    fn validate_status(&self, stored: &Object, old: &Value, new: &Value) -> Option<ErrorList> {
        if !self.has_status || !self.is_as_written(stored) {
            return None;
        }
        let mut errors = self.validator.validate_member("status", old, new)?;
        errors.extend(self.scale.iter().flat_map(|scale| scale_errors(scale, Some(old), new)));
        Some(errors)
    }

    fn deprecation(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Everything except metadata counts; the status too, unless it has a separate endpoint.
    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        !counted(old, self.has_status).eq(counted(new, self.has_status))
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        std::iter::once(Column::of_names())
            .chain(self.shown.columns.iter().map(|prepared| prepared.column.clone()))
            .collect()
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        let cells = self.shown.columns.iter().map(|prepared| {
            let found = prepared.path.find(object).into_iter().next();
            found.map_or(Value::Null, |value| cell(&prepared.column.type_, value, now))
        });
        std::iter::once(name).chain(cells).collect()
    }

    fn write_row(&self, object: &Object, now: Time, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let Shown { paths, places, .. } = &self.shown;
        let mut found = Places::new();
        let json = object.json();
        paths.find(&json, &mut found);
        let part = paths.tree(&json, &found, places)?;
        out.extend_from_slice(b"\"cells\":");
        serde_json::to_writer(out, &self.cells(&part, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compiled() -> Vec<Resource> {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [
                        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]},
                {"name": "v2", "served": true, "storage": false, "deprecated": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v3", "served": false, "storage": false}]}});
        let crd = CustomResourceDefinition::from_value(&crd).expect("a definition");
        resources(&crd, &Compilation { schema_revision: 10, ..Compilation::default() })
    }

    #[test]
    fn rows_show_the_printer_columns() {
        let strategy = &compiled()[0].strategy;
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"replicas": 2}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let now = Time::new(jiff::Timestamp::from_second(90).expect("in range"));
        assert_eq!(json!(strategy.cells(&object, now)), json!(["a", "True", 2, "90s"]));
        assert_eq!(json!(strategy.cells(&json!({"metadata": {"name": "a"}}), now)), json!(["a", null, null, null]));
        assert_eq!(strategy.columns().len(), 4);
        for object in [object, json!({"metadata": {"name": "a"}, "status": {"conditions": 7}, "spec": null})] {
            let stored = Object::from_value(&object).expect("an object");
            let mut row = Vec::new();
            strategy.write_row(&stored, now, &mut row).expect("a row");
            let cells = format!("\"cells\":{}", Value::from(strategy.cells(&object, now)));
            assert_eq!(String::from_utf8_lossy(&row), cells);
        }
        let plain = &compiled()[1].strategy;
        assert_eq!(plain.columns().iter().map(|c| c.name.clone()).collect::<Vec<_>>(), ["Name", "Age"]);
    }

    #[test]
    fn stored_objects_are_converted_only_when_they_must_be() {
        let resources = compiled();
        let [v1, v2] = resources.as_slice() else { panic!("two versions are served") };
        let stored = |rv: &str| {
            Object::from_value(&json!({"apiVersion": "g.example/v1", "kind": "Widget",
                "metadata": {"name": "a", "resourceVersion": rv}, "spec": {}}))
            .expect("valid")
        };
        assert!(v1.strategy.served_form(&stored("11")).expect("no converter").is_none());
        let older = v1.strategy.served_form(&stored("9")).expect("no converter").expect("older than the schema");
        assert_eq!(older.to_value().expect("valid")["spec"]["replicas"], 1);
        let other = v2.strategy.served_form(&stored("11")).expect("no converter").expect("another version");
        assert_eq!(other.api_version(), "g.example/v2");
        let mut object = other.to_value().expect("valid");
        v2.strategy.to_stored(&mut object).expect("no converter");
        assert_eq!(object["apiVersion"], "g.example/v1");
        assert_eq!(v2.strategy.deprecation(), Some("g.example/v2 Widget is deprecated"));
    }

    #[test]
    fn status_has_its_own_endpoint_only_where_declared() {
        let resources = compiled();
        let (old, new) = (json!({"spec": {}, "status": {"a": 1}}), json!({"spec": {}, "status": {"a": 2}}));
        assert!(!resources[0].strategy.raises_generation(&old, &new));
        assert!(resources[1].strategy.raises_generation(&old, &new));
    }
}
