//! The description of a served resource: names, verbs, subresources, columns, and the few things that are special
//! about its kind. One handler serves every resource from such a description.

use std::sync::Arc;

use serde_json::Value;

use crate::extent::TooLarge;
use crate::field::ErrorList;
use crate::gvk::{ApiResource, GroupVersionKind};
use crate::managed_fields::Versions;
use crate::schema::TypeOf;
use crate::{Object, Status, names};

/// Whether objects of a resource have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects have no namespace.
    Cluster,
    /// Each is in a namespace.
    Namespaced,
}

/// One column of a server-side table (`meta/v1.TableColumnDefinition`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's heading.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    pub type_: String,
    /// OpenAPI format, such as `name`; may be empty.
    pub format: String,
    /// The column's description.
    pub description: String,
    /// 0 is always shown; above 0 only with `-o wide`.
    pub priority: i32,
}

/// The description of columns with the name of an object, as Kubernetes documents `metadata.name`.
pub const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
    allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The description of columns with the age of an object, as Kubernetes documents `metadata.creationTimestamp`.
pub const CREATED_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
    guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It \
    is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
    info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Column {
    /// The column with the name of an object.
    pub fn of_names() -> Self {
        Self { format: "name".into(), ..Self::new("Name", "string").described(NAME_DESCRIPTION) }
    }

    /// A column of this heading and type that is always shown.
    pub fn new(name: &str, type_: &str) -> Self {
        Self { name: name.into(), type_: type_.into(), format: String::new(), description: String::new(), priority: 0 }
    }

    /// Sets the description of the column.
    #[must_use]
    pub fn described(mut self, description: &str) -> Self {
        self.description = description.into();
        self
    }

    /// Shows the column with `-o wide` only.
    #[must_use]
    pub fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// A subresource served besides the object itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Subresource {
    /// `status`
    Status,
    /// Dotted JSON paths such as `.spec.replicas`.
    Scale {
        /// The path of the requested replicas.
        spec_replicas: String,
        /// The path of the observed replicas.
        status_replicas: String,
        /// The path of the label selector of the pods, as a text.
        label_selector: Option<String>,
    },
    /// Implemented by code registered with the API server: its name and its discovery entry.
    Other {
        /// The subresource's name.
        name: String,
        /// The kind of its body.
        kind: GroupVersionKind,
        /// The verbs in discovery.
        verbs: Vec<String>,
    },
}

/// Everything about a resource that is data.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// The singular, in lower case.
    pub singular: String,
    /// The kind of lists, such as `DeploymentList`.
    pub list_kind: String,
    /// Short names for kubectl, such as `deploy`.
    pub short_names: Vec<String>,
    /// Categories for kubectl, such as `all`.
    pub categories: Vec<String>,
    /// The verbs in discovery.
    pub verbs: Vec<String>,
    /// The subresources of the object.
    pub subresources: Vec<Subresource>,
    /// Dotted paths that field selectors may name besides metadata.name and metadata.namespace.
    pub selectable_fields: Vec<String>,
    /// Custom resources differ from built-in kinds on the wire: no strategic patches, items carry apiVersion and kind.
    pub custom: bool,
    /// The schema of its objects.
    pub schema: TypeOf,
}

impl ResourceInfo {
    /// Whether its objects have a namespace.
    pub fn scope(&self) -> Scope {
        if self.resource.namespaced { Scope::Namespaced } else { Scope::Cluster }
    }

    /// Whether it has the subresource `status`.
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|s| matches!(s, Subresource::Status))
    }
}

/// The attributes of a request for strategies. Time and names are included, so strategies stay pure.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The moment the request was received.
    pub now: crate::meta::Time,
    /// The name of the requesting user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// `""` for the object itself, otherwise the subresource's name.
    pub subresource: String,
    /// Whether the request is a dry run.
    pub dry_run: bool,
}

/// The metadata checks that an update repeats; see [`Strategy::metadata_checks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// Immutable fields, labels, annotations and owners.
    pub changes: bool,
    /// All that holds for a new object.
    pub whole: bool,
}

/// The behaviour of a kind beyond its schema. Every method works on the decoded tree; the defaults suit a plain kind.
pub trait Strategy: Send + Sync {
    /// Sets defaults; also run on objects read from the store.
    ///
    /// # Errors
    /// If the object becomes larger than any that can be stored.
    fn default(&self, _object: &mut Value) -> Result<(), TooLarge> {
        Ok(())
    }

    /// The served form of a stored object, or `None` if it is served unchanged (always, for built-in kinds). Custom
    /// resources are converted here from the storage version, and get defaults added after the object was written. The
    /// object carries its resourceVersion.
    ///
    /// # Errors
    /// A Status when a converter fails; lists and gets then fail with it.
    fn served_form(&self, _stored: &Object) -> Result<Option<Object>, Status> {
        Ok(None)
    }

    /// The storage version of custom resources, while it is served: discovery has its digest, so that clients detect
    /// changes. Storage versions of built-in kinds are defined elsewhere.
    fn storage_version(&self) -> Option<&str> {
        None
    }

    /// The last step before a write: converts the served form to the stored one.
    ///
    /// # Errors
    /// A Status when a converter fails; nothing is then written.
    fn to_stored(&self, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// The type of another version of the kind, served or not; `None` if there is no such version.
    fn type_in(&self, _api_version: &str) -> Option<&TypeOf> {
        None
    }

    /// Converts an object of any version of the kind to another version, for its field owners.
    ///
    /// # Errors
    /// The message of a failed conversion.
    fn convert_for_owners(&self, _object: &mut Value, api_version: &str) -> Result<(), String> {
        Err(format!("there is no version {api_version}"))
    }

    /// Before a create is validated: drops fields that clients may not set, and sets server-owned fields.
    fn prepare_create(&self, _context: &RequestContext, _object: &mut Value) {}

    /// Before an update is validated. The caller has restored immutable metadata, and the part owned by the other
    /// endpoint (status on the main one, all except status on `/status`).
    fn prepare_update(&self, _context: &RequestContext, _old: &Value, _object: &mut Value) {}

    /// Errors of a new object.
    fn validate_create(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Errors of an update.
    fn validate_update(&self, _context: &RequestContext, _old: &Value, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// The errors of a write that leaves the object unchanged; called before such a write is answered without being
    /// stored.
    fn validate_unchanged(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// The errors of a new status of a stored object that is otherwise unchanged; both values hold the status alone,
    /// and the old one may lack it. `None` if validation needs the whole object, or if a write would change more than
    /// the status.
    fn validate_status(&self, _stored: &Object, _old: &Value, _new: &Value) -> Option<ErrorList> {
        None
    }

    /// Whether labels, annotations and finalizers of a stored object can change without reading the rest: neither
    /// defaults nor validation read both, and a write does not change the rest.
    fn metadata_is_independent(&self, _stored: &Object) -> bool {
        false
    }

    /// The rule for names of objects.
    fn name_rule(&self) -> names::NameRule {
        names::subdomain_rule
    }

    /// The metadata checks that the kind's own validation of an update repeats. Each repeated check is a separate cause
    /// in the response to a refused update.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { changes: true, whole: false }
    }

    /// The metadata fields that a write to `/status` may change besides the status.
    fn status_metadata(&self) -> &'static [&'static str] {
        &[]
    }

    /// The deprecation warning that each response of an outdated version carries.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// The errors of an update, and texts for `Warning` headers.
    fn check_update(&self, context: &RequestContext, old: &Value, object: &Value) -> (ErrorList, Vec<String>) {
        (self.validate_update(context, old, object), self.warnings(context, Some(old), object))
    }

    /// Texts for `Warning` headers about an accepted object; `old` is the stored one before an update.
    fn warnings(&self, _context: &RequestContext, _old: Option<&Value>, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether `metadata.generation` is maintained, beginning with 1 on create.
    fn has_generation(&self) -> bool {
        true
    }

    /// Whether the change between two trees is one that raises the generation.
    fn raises_generation(&self, old: &Value, new: &Value) -> bool {
        old.get("spec") != new.get("spec")
    }

    /// Whether PUT without a resourceVersion overwrites.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether PUT of a missing object creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// The propagation policy of a DELETE without one: `Background` or `Orphan`.
    fn default_propagation(&self) -> &'static str {
        "Background"
    }

    /// Seconds between a DELETE and the end of the object, of which the DELETE requests some; `None` for kinds without
    /// grace periods. Zero deletes at once.
    fn grace_seconds(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether a DELETE that removes the object at once returns it, not a Status.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Sets kind-specific deletion fields in an object that is deleted for the first time. Returns whether it does; the
    /// object then has its `deletionTimestamp`, and stays until its finalizers are removed.
    fn mark_deleted(&self, _now: crate::meta::Time, _object: &mut Value) -> bool {
        false
    }

    /// The columns of its table; by default the name and the creation time.
    fn columns(&self) -> Vec<Column> {
        vec![Column::of_names(), Column::new("Created At", "date").described(CREATED_DESCRIPTION)]
    }

    /// The cells of an object's row, one for each of [`Strategy::columns`]. `now` is for ages.
    fn cells(&self, object: &Value, _now: crate::meta::Time) -> Vec<Value> {
        vec![object["metadata"]["name"].clone(), object["metadata"]["creationTimestamp"].clone()]
    }

    /// The rank of an object's row in a table, lower ones first; rows of one rank keep the order of the list. `None`
    /// for a kind whose tables are in list order.
    fn row_rank(&self) -> Option<fn(&Value) -> i64> {
        None
    }

    /// The `TableRowCondition`s of an object's row.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    /// Writes the cells and the conditions of a stored object as members of a row, without the object:
    /// `"cells":[...],"conditions":[...]`, the latter if there are any. Lists have many rows, so kinds that need not
    /// decode whole objects override this with the same result.
    ///
    /// # Errors
    /// When the object cannot be decoded.
    fn write_row(&self, object: &Object, now: crate::meta::Time, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let tree = object.to_value()?;
        out.extend_from_slice(b"\"cells\":");
        serde_json::to_writer(&mut *out, &self.cells(&tree, now))?;
        write_conditions(&self.row_conditions(&tree), out)
    }
}

/// The conditions of a row, encoded as the member after its cells; empty for a row without conditions.
///
/// # Errors
/// Those of encoding.
pub fn write_conditions(conditions: &[Value], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    if conditions.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(b",\"conditions\":");
    serde_json::to_writer(out, conditions)
}

/// A plain kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainStrategy;

impl Strategy for PlainStrategy {}

/// A served resource.
#[derive(Clone)]
pub struct Resource {
    /// The resource as data.
    pub info: Arc<ResourceInfo>,
    /// The behaviour of its kind.
    pub strategy: Arc<dyn Strategy>,
}

impl Versions for Resource {
    fn type_of(&self, api_version: &str) -> Option<&TypeOf> {
        self.strategy.type_in(api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        self.strategy.convert_for_owners(&mut object, api_version)?;
        Ok(object)
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.info.resource.gvr().group_resource())
    }
}
