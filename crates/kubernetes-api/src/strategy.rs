//! One strategy for all built-in kinds. Kind-specific behavior is data and small functions in other modules: defaults,
//! preparation, validation, columns, and habits.

use apimachinery::extent::TooLarge;
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::meta::Time;
use apimachinery::names::NameRule;
use apimachinery::resource::{Column, MetadataChecks, RequestContext, ResourceInfo, Strategy};
use apimachinery::schema::TypeOf;
use apimachinery::{Object, Status};
use serde_json::{Map, Value};

use crate::conversion::Conversion;
use crate::types::schema_for;
use crate::{columns, defaults, habits, pods, prepare, validation, warnings};

/// Strategy of a built-in kind, from its description.
#[derive(Clone, Debug)]
pub(crate) struct BuiltIn {
    group: String,
    kind: String,
    resets_status: bool,
    type_: TypeOf,
    conversion: Option<Conversion>,
    /// The `apiVersion` and the type of the other form of a kind that has two.
    other_form: Option<(String, TypeOf)>,
    generation_of: Option<&'static [&'static str]>,
    metadata_of_generation: Option<&'static str>,
    prepare_create: Option<prepare::Create>,
    prepare_update: Option<prepare::Update>,
    prepare_status: Option<prepare::Update>,
}

impl BuiltIn {
    pub(crate) fn new(info: &ResourceInfo) -> Self {
        let (group, kind) = (info.resource.group.as_str(), info.resource.kind.as_str());
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            // Kubelets register nodes together with their status.
            resets_status: info.has_status() && kind != "Node",
            type_: info.schema.clone(),
            conversion: Conversion::of(&info.resource),
            other_form: Conversion::other_form(&info.resource)
                .and_then(|kind| Some((kind.api_version(), schema_for(&kind)?))),
            generation_of: habits::generation_of(group, kind),
            metadata_of_generation: habits::metadata_of_generation(group, kind),
            prepare_create: prepare::for_create(group, kind),
            prepare_update: prepare::for_update(group, kind),
            prepare_status: prepare::for_status(group, kind),
        }
    }
}

/// Whether upstream still decodes a version that is no longer served, such as `policy/v1beta1`: objects of an adopted etcd
/// may have owners in one. It counts as the form in which the kind is stored.
fn is_former_version(group: &str, api_version: &str) -> bool {
    let version = api_version.strip_prefix(group).and_then(|rest| rest.strip_prefix('/'));
    version.is_some_and(|version| version.contains("alpha") || version.contains("beta"))
}

/// The labels or annotations of an object; an empty map is the same as none.
fn entries<'o>(object: &'o Value, field: &str) -> Option<&'o Map<String, Value>> {
    object["metadata"][field].as_object().filter(|entries| !entries.is_empty())
}

impl Strategy for BuiltIn {
    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        defaults::apply(self.type_.root, object);
        if let Some(conversion) = self.conversion {
            conversion.default(object);
        }
        if self.kind == "DaemonSet" && self.group == "apps" {
            prepare::begin_template_generation(object);
        }
        Ok(())
    }

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

    fn type_in(&self, api_version: &str) -> Option<&TypeOf> {
        if is_former_version(&self.group, api_version) {
            let stored = self.other_form.as_ref().filter(|_| self.conversion.is_some());
            return Some(stored.map_or(&self.type_, |(_, type_)| type_));
        }
        self.other_form.as_ref().filter(|(version, _)| version == api_version).map(|(_, type_)| type_)
    }

    fn convert_for_owners(&self, object: &mut Value, api_version: &str) -> Result<(), String> {
        Conversion::between(object, &self.kind, api_version);
        Ok(())
    }

    fn prepare_create(&self, context: &RequestContext, object: &mut Value) {
        if self.resets_status
            && let Some(fields) = object.as_object_mut()
        {
            match defaults::initial_status(self.type_.root) {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        }
        if let Some(prepare) = self.prepare_create {
            prepare(context, object);
        }
    }

    fn prepare_update(&self, context: &RequestContext, old: &Value, object: &mut Value) {
        // Other endpoints change only their own part.
        if let Some(prepare) = self.prepare_status.filter(|_| context.subresource == "status") {
            prepare(context, old, object);
        }
        if let Some(prepare) = self.prepare_update.filter(|_| context.subresource.is_empty()) {
            prepare(context, old, object);
        }
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        let mut errors = validation::create(self.type_.root, object);
        if self.group.is_empty() && self.kind == "Pod" {
            new_pod(&object["spec"], &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &RequestContext, old: &Value, object: &Value) -> ErrorList {
        if matches!(context.subresource.as_str(), "status" | "approval") {
            return validation::status::update(&self.group, &self.kind, old, object);
        }
        validation::update(self.type_.root, &context.subresource, old, object)
    }

    fn validate_status(&self, _stored: &Object, old: &Value, new: &Value) -> Option<ErrorList> {
        let validates_status_only = self.conversion.is_none() && habits::has_status_alone(&self.group, &self.kind);
        validates_status_only.then(|| validation::status::update(&self.group, &self.kind, old, new))
    }

    fn metadata_is_independent(&self, _stored: &Object) -> bool {
        self.conversion.is_none()
            && self.prepare_update.is_none()
            && habits::has_metadata_alone(&self.group, &self.kind)
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        habits::status_metadata(&self.group, &self.kind)
    }

    fn warnings(&self, context: &RequestContext, old: Option<&Value>, object: &Value) -> Vec<String> {
        let (group, kind, subresource) = (&*self.group, &*self.kind, &*context.subresource);
        warnings::of(&warnings::Written { group, kind, subresource, old, object })
    }

    fn name_rule(&self) -> NameRule {
        habits::name_rule(&self.group, &self.kind)
    }

    fn metadata_checks(&self) -> MetadataChecks {
        habits::metadata_checks(&self.group, &self.kind)
    }

    fn has_generation(&self) -> bool {
        self.generation_of.is_some()
    }

    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        let differs = |part: &&str| old.get(*part) != new.get(*part);
        self.generation_of.is_some_and(|parts| parts.iter().any(differs))
            || self.metadata_of_generation.is_some_and(|field| entries(old, field) != entries(new, field))
    }

    fn allows_unconditional_update(&self) -> bool {
        !habits::requires_version(&self.group, &self.kind)
    }

    fn allows_create_on_update(&self) -> bool {
        habits::creates_on_update(&self.group, &self.kind)
    }

    fn default_propagation(&self) -> &'static str {
        if habits::orphans(&self.group, &self.kind) { "Orphan" } else { "Background" }
    }

    fn grace_seconds(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        let is_pod = self.group.is_empty() && self.kind == "Pod";
        is_pod.then(|| pods::grace_seconds(object, requested))
    }

    fn returns_deleted(&self) -> bool {
        habits::returns_deleted(&self.group, &self.kind)
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&self.group, &self.kind)
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        columns::cells(&self.group, &self.kind, object, now)
    }

    fn row_rank(&self) -> Option<fn(&Value) -> i64> {
        columns::row_rank(&self.group, &self.kind)
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        columns::row_conditions(&self.group, &self.kind, object)
    }

    fn write_row(&self, object: &Object, now: Time, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        columns::write_row(&self.group, &self.kind, &object.json(), now, out)
    }
}

/// Fields that a new pod may not have: ephemeral containers, and a node while it has scheduling gates.
fn new_pod(spec: &Value, errors: &mut ErrorList) {
    let has = |field: &str| spec[field].as_array().is_some_and(|list| !list.is_empty());
    let path = Path::new("spec");
    if has("ephemeralContainers") {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if has("schedulingGates") && spec["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), detail));
    }
}
