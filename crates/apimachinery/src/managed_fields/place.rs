//! The position of a walk over a document in its schema, and the type of the container there.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::path::PathElement;
use crate::go_json::go_type;
use crate::go_print::GoPrint;
use crate::schema::{ListType, Property, Schema, SchemaId, Schemas, Type, TypeOf};

/// A node of a schema with the overrides of the property that led to it. Without a node the type is deduced: maps
/// granular, lists atomic.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    schemas: &'s Schemas,
    node: Option<&'s Schema>,
    property: Option<&'s Property>,
    root: bool,
    is_lenient: bool,
    /// See [`Schema::is_closed`]; inherited where nothing is declared.
    is_closed: bool,
    /// Whether the schema here or above preserves unknown fields, except above metadata of objects.
    preserves: bool,
}

/// Members that are structs by value wherever they are structs in the built-in API groups...
const BY_VALUE: [&str; 12] = [
    "metadata",
    "spec",
    "status",
    "template",
    "jobTemplate",
    "strategy",
    "updateStrategy",
    "resources",
    "loadBalancer",
    "conditions",
    "nodeInfo",
    "daemonEndpoints",
];

/// ...but for these.
const POINTERS: [(&str, &str); 2] = [("ReplicationControllerSpec", "template"), ("PodSpec", "resources")];

/// Other members that their Go structs always print, though the schema does not require them: definition and name.
const PRINTED: [(&str, &str); 5] = [
    ("io.k8s.api.core.v1.Event", "source"),
    ("io.k8s.api.core.v1.Event", "reportingComponent"),
    ("io.k8s.api.core.v1.Event", "reportingInstance"),
    ("io.k8s.api.events.v1.Event", "deprecatedSource"),
    ("io.k8s.api.networking.v1.NetworkPolicySpec", "podSelector"),
];

/// Other members that their Go structs print as null if they are unset: lists, maps and pointers that the schema does not
/// require, and times by value where their struct may be compared with an absent one.
const NULLS: [(&str, &str); 25] = [
    ("io.k8s.api.apps.v1.ControllerRevision", "data"),
    ("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus", "currentMetrics"),
    ("io.k8s.api.core.v1.AzureFilePersistentVolumeSource", "secretNamespace"),
    ("io.k8s.api.core.v1.ContainerImage", "names"),
    ("io.k8s.api.core.v1.Event", "eventTime"),
    ("io.k8s.api.core.v1.Event", "firstTimestamp"),
    ("io.k8s.api.core.v1.Event", "lastTimestamp"),
    ("io.k8s.api.core.v1.GRPCAction", "service"),
    ("io.k8s.api.core.v1.ProjectedVolumeSource", "sources"),
    ("io.k8s.api.core.v1.TypedLocalObjectReference", "apiGroup"),
    ("io.k8s.api.core.v1.TypedObjectReference", "apiGroup"),
    ("io.k8s.api.discovery.v1.EndpointSlice", "endpoints"),
    ("io.k8s.api.discovery.v1.EndpointSlice", "ports"),
    ("io.k8s.api.events.v1.Event", "deprecatedFirstTimestamp"),
    ("io.k8s.api.events.v1.Event", "deprecatedLastTimestamp"),
    ("io.k8s.api.events.v1.Event", "eventTime"),
    ("io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
    ("io.k8s.api.flowcontrol.v1.ResourcePolicyRule", "namespaces"),
    ("io.k8s.api.networking.v1.IngressClassParametersReference", "scope"),
    ("io.k8s.api.rbac.v1.ClusterRole", "rules"),
    ("io.k8s.api.rbac.v1.Role", "rules"),
    ("io.k8s.api.resource.v1.AllocatedDeviceStatus", "conditions"),
    ("io.k8s.api.resource.v1.CapacityRequestPolicy", "default"),
    ("io.k8s.api.resource.v1.DeviceClaim", "requests"),
    ("io.k8s.api.storage.v1.CSINodeDriver", "topologyKeys"),
];

/// How a value takes part in ownership.
pub(crate) enum Form<'v> {
    Absent,
    Null,
    /// Scalars and atomic containers: owned as a whole.
    Leaf,
    Map(&'v Map<String, Value>),
    List(&'v [Value]),
}

impl<'s> Place<'s> {
    pub fn root(type_: &'s TypeOf) -> Self {
        Self {
            schemas: &type_.schemas,
            node: Some(type_.node()),
            property: None,
            root: true,
            is_lenient: false,
            is_closed: type_.node().is_closed,
            preserves: type_.node().preserve_unknown_fields,
        }
    }

    fn at(&self, id: SchemaId, property: Option<&'s Property>) -> Self {
        let node = self.schemas.get(id);
        let is_lenient = self.is_lenient || node.of_objects.is_some();
        let preserves = self.preserves || node.preserve_unknown_fields;
        let is_closed = node.is_closed;
        Self { schemas: self.schemas, node: Some(node), property, root: false, is_lenient, is_closed, preserves }
    }

    fn deduced(&self) -> Self {
        Self { node: None, property: None, root: false, ..*self }
    }

    /// The place of a map's member, and whether the schema names that member.
    pub fn child(&self, key: &str) -> (Self, bool) {
        if let Some(property) = self.node_of_objects().and_then(|node| node.properties.get(key)) {
            let mut place = self.at(property.schema, Some(property));
            if key == "metadata" && (self.root || self.node.is_some_and(|node| node.embedded_resource)) {
                place.preserves = self.schemas.get(property.schema).preserve_unknown_fields;
            }
            // Custom resources often declare metadata as a bare object; its parts are known all the same.
            if !(self.root && key == "metadata" && place.node.is_some_and(|node| node.properties.is_empty())) {
                return (place, true);
            }
        }
        if self.root && matches!(key, "metadata" | "apiVersion" | "kind") {
            return (if key == "metadata" { metadata() } else { self.deduced() }, true);
        }
        match self.node.and_then(|node| node.additional_properties) {
            Some(id) => (self.at(id, None), false),
            None => (self.deduced(), false),
        }
    }

    /// The node of the objects here.
    fn node_of_objects(&self) -> Option<&'s Schema> {
        self.node.map(|node| node.of_objects.map_or(node, |id| self.schemas.get(id)))
    }

    /// Whether a map here may have members the schema does not name. A named type without fields is an empty struct.
    pub fn is_open(&self) -> bool {
        self.node_of_objects().is_none_or(|node| {
            node.preserve_unknown_fields
                || (node.embedded_resource && !node.is_closed)
                || node.additional_properties.is_some()
                || (node.properties.is_empty() && node.definition.is_none())
        })
    }

    /// Whether a map here may have undeclared members in an applied configuration: upstream's types inherit that unknown
    /// fields are preserved, though decoders drop them.
    pub fn accepts_undeclared(&self) -> bool {
        self.preserves || self.is_open()
    }

    /// Whether decoders keep members of a map here that the schema does not name.
    pub fn keeps_unknown(&self) -> bool {
        let is_map = || self.node_of_objects().is_some_and(|node| node.additional_properties.is_some());
        self.is_open() && (!self.is_closed || is_map())
    }

    /// Whether unknown fields are dropped without a report: upstream's strict decoder does not look into types that
    /// decode themselves.
    pub fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// Whether the schema states nothing about what is here and below.
    pub fn is_free(&self) -> bool {
        !self.root && !self.is_closed && self.node.is_none_or(Schema::is_free)
    }

    pub fn items(&self) -> Self {
        match self.node.and_then(|node| node.items.or(node.of_objects)) {
            Some(id) => self.at(id, None),
            None => self.deduced(),
        }
    }

    pub fn is_atomic_map(&self) -> bool {
        let own = self.node.is_some_and(|node| node.map_atomic);
        self.property.and_then(|property| property.map_atomic).unwrap_or(own)
    }

    pub fn list_type(&self) -> &'s ListType {
        const ATOMIC: &ListType = &ListType::Atomic;
        let own = self.node.map_or(ATOMIC, |node| &node.list_type);
        self.property.and_then(|property| property.list_type.as_ref()).unwrap_or(own)
    }

    pub fn form<'v>(&self, value: Option<&'v Value>) -> Form<'v> {
        match value {
            None => Form::Absent,
            Some(Value::Null) => Form::Null,
            Some(Value::Object(map)) if !self.is_atomic_map() => Form::Map(map),
            Some(Value::Array(items)) if *self.list_type() != ListType::Atomic => Form::List(items),
            Some(_) => Form::Leaf,
        }
    }

    /// Why a value has the wrong type here, with the messages of upstream's structured merge; they do not distinguish
    /// integers from other numbers.
    pub fn mistyped(&self, value: &Value) -> Option<String> {
        let node = self.node.filter(|node| !node.int_or_string && !node.is_quantity())?;
        let shown = GoPrint(value);
        match (node.type_, value) {
            (_, Value::Null)
            | (Type::Any, _)
            | (Type::Integer | Type::Number, Value::Number(_))
            | (Type::String, Value::String(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::Array, Value::Array(_))
            | (Type::Object, Value::Object(_)) => None,
            (Type::Integer | Type::Number, _) => {
                Some(format!("expected numeric (int or float), got {}", go_type(value)))
            }
            (Type::String, _) => Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}")),
            (Type::Boolean, _) => Some(format!("expected boolean, got &{{{shown}}}")),
            (Type::Array, _) => Some(format!("expected list, got &{{{shown}}}")),
            (Type::Object, _) => Some(format!("expected map, got &{{{shown}}}")),
        }
    }

    /// The declared type, unless the value may also be a number or a quantity.
    pub fn type_(&self) -> Option<Type> {
        self.node.filter(|node| !node.int_or_string && !node.is_quantity()).map(|node| node.type_)
    }

    /// Whether the schema does not describe this place.
    pub fn is_deduced(&self) -> bool {
        self.node.is_none()
    }

    /// Whether sets may not reach below this place.
    pub fn is_atomic(&self) -> bool {
        match self.node.map(|node| node.type_) {
            Some(Type::Array) => *self.list_type() == ListType::Atomic,
            Some(Type::Object) => self.is_atomic_map(),
            Some(Type::Any) | None => false,
            Some(_) => true,
        }
    }

    /// Whether the node is a Go struct upstream, which drops nulls and always prints its struct members. Raw JSON is not.
    pub fn is_struct(&self) -> bool {
        self.node_of_objects().is_some_and(|node| node.definition.is_some() && !node.preserve_unknown_fields)
    }

    /// Members that a Go struct prints even if they are unset: by-value structs print `{}`, required lists and maps
    /// print null. Ownership is computed with these.
    pub fn implied(&self, key: &str) -> Option<&'static Value> {
        static EMPTY: OnceLock<Value> = OnceLock::new();
        const NULL: &Value = &Value::Null;
        let node = self.node.filter(|node| node.definition.is_some())?;
        let property = node.properties.get(key)?;
        if self.is_by_value(node, key, property) {
            return Some(EMPTY.get_or_init(|| Value::Object(Map::new())));
        }
        let type_ = self.schemas.get(property.schema).type_;
        if type_ == Type::String && is_printed(node, key) {
            return zero_of(type_);
        }
        let container = matches!(type_, Type::Array | Type::Object);
        (container && is_always_printed(node, key) || is_listed(&NULLS, node, key)).then_some(NULL)
    }

    /// OpenAPI v3 gives by-value structs the default `{}`; v2 has no such default, so the few that matter are listed.
    fn is_by_value(&self, node: &Schema, key: &str, property: &Property) -> bool {
        if let Some(default) = &property.default {
            return is_empty_object(default);
        }
        let definition = node.definition.as_deref().unwrap_or_default();
        if is_printed(node, key) {
            return self.schemas.get(property.schema).type_ == Type::Object;
        }
        let schema = self.schemas.get(property.schema);
        let is_struct = schema.type_ == Type::Object && schema.definition.is_some() && !schema.properties.is_empty();
        is_struct
            && definition.starts_with("io.k8s.")
            && BY_VALUE.contains(&key)
            && !POINTERS.iter().any(|(kind, field)| *field == key && definition.rsplit('.').next() == Some(*kind))
    }

    /// Names of by-value struct members; see [`Place::implied`].
    pub fn implied_structs(&self) -> impl Iterator<Item = &'s str> {
        let this = *self;
        let node = self.node.filter(|node| node.definition.is_some());
        let properties = node.into_iter().flat_map(|node| node.properties.iter().map(move |p| (node, p)));
        properties.filter(move |(node, (name, p))| this.is_by_value(node, name, p)).map(|(_, (name, _))| &**name)
    }

    /// The element that names an item of a list here.
    pub fn item_element(&self, item: &Value) -> PathElement {
        let (ListType::Map(keys), Value::Object(map)) = (self.list_type(), item) else {
            return PathElement::Value(item.clone());
        };
        let items = self.items();
        let mut fields: Vec<(Box<str>, Value)> = keys
            .iter()
            .filter_map(|key| {
                let value = map.get(&**key).cloned().or_else(|| items.default_of(key).cloned());
                Some((key.clone(), value?))
            })
            .collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(fields)
    }

    /// As in OpenAPI v3: a scalar that a Go struct always prints has its zero value as default. v2 has no such default.
    fn default_of(&self, key: &str) -> Option<&'s Value> {
        let node = self.node?;
        let property = node.properties.get(key)?;
        let schema = self.schemas.get(property.schema);
        let default_value = property.default.as_ref().or(schema.default.as_ref());
        default_value.or_else(|| zero_of(schema.type_).filter(|_| is_always_printed(node, key)))
    }
}

fn is_printed(node: &Schema, key: &str) -> bool {
    is_listed(&PRINTED, node, key)
}

fn is_listed(fields: &[(&str, &str)], node: &Schema, key: &str) -> bool {
    let definition = node.definition.as_deref().unwrap_or_default();
    fields.iter().any(|(kind, field)| *field == key && *kind == definition)
}

/// Whether a Go struct prints this member even if it is unset.
fn is_always_printed(node: &Schema, key: &str) -> bool {
    node.definition.is_some() && node.required.iter().any(|name| &**name == key)
}

fn zero_of(type_: Type) -> Option<&'static Value> {
    const NO_TEXT: &Value = &Value::String(String::new());
    const FALSE: &Value = &Value::Bool(false);
    static ZERO: LazyLock<Value> = LazyLock::new(|| Value::from(0));
    match type_ {
        Type::String => Some(NO_TEXT),
        Type::Boolean => Some(FALSE),
        Type::Integer | Type::Number => Some(&ZERO),
        _ => None,
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// How every kind's metadata is owned: finalizers are a set, owners are found by uid and owned whole, labels and
/// annotations one by one.
fn metadata() -> Place<'static> {
    static METADATA: OnceLock<TypeOf> = OnceLock::new();
    let type_ = METADATA.get_or_init(|| {
        let mut schemas = Schemas::default();
        let text = schemas.add(Schema { type_: Type::String, ..Schema::default() });
        let texts = schemas.add(Schema { type_: Type::Object, additional_properties: Some(text), ..Schema::default() });
        let finalizers = schemas.add(Schema {
            type_: Type::Array,
            items: Some(text),
            list_type: ListType::Set,
            ..Schema::default()
        });
        let owner = schemas.add(Schema { type_: Type::Object, map_atomic: true, ..Schema::default() });
        let owners = schemas.add(Schema {
            type_: Type::Array,
            items: Some(owner),
            list_type: ListType::Map(vec!["uid".into()]),
            ..Schema::default()
        });
        let properties =
            [("annotations", texts), ("labels", texts), ("finalizers", finalizers), ("ownerReferences", owners)];
        let scalars = ["name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp"];
        let scalars = scalars.into_iter().chain(["deletionTimestamp", "selfLink"]).map(|name| (name, text));
        let any = schemas.add(Schema::default());
        let others = ["generation", "deletionGracePeriodSeconds", "managedFields"].map(|name| (name, any));
        let root = schemas.add(Schema {
            definition: Some("ObjectMeta".into()),
            type_: Type::Object,
            properties: properties
                .into_iter()
                .chain(scalars)
                .chain(others)
                .map(|(name, id)| (name.into(), Property::new(id)))
                .collect(),
            ..Schema::default()
        });
        TypeOf { schemas: schemas.into(), root }
    });
    Place { root: false, ..Place::root(type_) }
}
