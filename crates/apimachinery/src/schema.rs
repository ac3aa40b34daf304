//! The type of a document: one model for built-in kinds and custom resources.
//!
//! Patches, server-side apply, unknown-field detection, pruning, defaulting, validation and OpenAPI publication all
//! walk the same graph. Nodes are in an arena, so recursive types (JSONSchemaProps) need no special handling.

mod properties;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use properties::Properties;

/// Index of a node in its [`Schemas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemaId(pub u32);

/// JSON type of a node; `Any` if the schema sets none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// No type is declared.
    #[default]
    Any,
    /// A JSON object: a struct or a map.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// `x-kubernetes-list-type`; absent means atomic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced and owned as a whole.
    #[default]
    Atomic,
    /// Scalars, each once.
    Set,
    /// The fields that together name an item (`x-kubernetes-list-map-keys`).
    Map(Vec<Box<str>>),
}

/// How a strategic merge patch treats a field (`x-kubernetes-patch-strategy`, comma separated in OpenAPI).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Items of lists, and members of maps, are merged.
    pub merge: bool,
    /// Members absent from the patch's `$retainKeys` are removed.
    pub retain_keys: bool,
    /// `x-kubernetes-patch-merge-key`.
    pub merge_key: Option<Box<str>>,
}

/// A property: the schema of its value and how patches treat it here (the same type may be merged in one place and
/// replaced in another).
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// The schema of the value.
    pub schema: SchemaId,
    /// How a strategic merge patch treats the value.
    pub patch: PatchStrategy,
    /// Overrides of the referenced node at this place; `None` leaves the node's own.
    pub list_type: Option<ListType>,
    /// Whether a map is replaced and owned as a whole.
    pub map_atomic: Option<bool>,
    /// The default here.
    pub default: Option<Value>,
}

impl Property {
    /// A property without patch directives and overrides.
    pub fn new(schema: SchemaId) -> Self {
        Self { schema, patch: PatchStrategy::default(), list_type: None, map_atomic: None, default: None }
    }
}

/// The constraints of a node beyond its type, for custom resources. Boxed: built-in kinds have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// `enum`; empty permits every value.
    pub enum_values: Vec<Value>,
    /// `minimum`
    pub minimum: Option<f64>,
    /// `maximum`
    pub maximum: Option<f64>,
    /// Whether `minimum` itself is excluded.
    pub exclusive_minimum: bool,
    /// Whether `maximum` itself is excluded.
    pub exclusive_maximum: bool,
    /// `multipleOf`
    pub multiple_of: Option<f64>,
    /// `minLength`, in Unicode characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in Unicode characters.
    pub max_length: Option<u64>,
    /// `pattern`: a regular expression.
    pub pattern: Option<String>,
    /// `minItems`
    pub min_items: Option<u64>,
    /// `maxItems`
    pub max_items: Option<u64>,
    /// `uniqueItems`
    pub unique_items: bool,
    /// `minProperties`
    pub min_properties: Option<u64>,
    /// `maxProperties`
    pub max_properties: Option<u64>,
    /// `allOf`
    pub all_of: Vec<SchemaId>,
    /// `anyOf`
    pub any_of: Vec<SchemaId>,
    /// `oneOf`
    pub one_of: Vec<SchemaId>,
    /// `not`
    pub not: Option<SchemaId>,
    /// `x-kubernetes-validations`, as written.
    pub rules: Vec<Value>,
}

/// One node of a structural schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// The OpenAPI definition of this node, e.g. `io.k8s.api.apps.v1.Deployment`; `None` for inline nodes.
    pub definition: Option<Box<str>>,
    /// The JSON type.
    pub type_: Type,
    /// `format`, such as `date-time`.
    pub format: Option<Box<str>>,
    /// `description`
    pub description: Option<Box<str>>,
    /// The fields of an object.
    pub properties: Properties,
    /// The names of required fields.
    pub required: Vec<Box<str>>,
    /// Schema of the values of a map.
    pub additional_properties: Option<SchemaId>,
    /// The schema of a list's items.
    pub items: Option<SchemaId>,
    /// How the items of a list are identified and merged.
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub map_atomic: bool,
    /// Whether null is permitted as a value.
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown_fields: bool,
    /// Whether members that are not declared are unknown even if none is declared, as in structural schemas.
    pub is_closed: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded_resource: bool,
    /// `default`
    pub default: Option<Value>,
    /// The schema of a value that is an object or a list of objects, where values of other types are permitted, too
    /// (`JSONSchemaPropsOrBool`).
    pub of_objects: Option<SchemaId>,
    /// The constraints beyond the type; `None` for built-in kinds.
    pub constraints: Option<Box<Constraints>>,
}

impl Schema {
    /// Whether this is a resource.Quantity, which may be written as a number.
    pub fn is_quantity(&self) -> bool {
        self.definition.as_deref().is_some_and(|name| name.ends_with(".Quantity"))
    }

    /// Whether the node states nothing about members and items: any are there, of any type, with or without nulls.
    pub fn is_free(&self) -> bool {
        self.properties.is_empty()
            && self.additional_properties.is_none()
            && self.items.is_none()
            && self.definition.is_none()
    }
}

/// An arena of schema nodes.
#[derive(Clone, Debug, Default)]
pub struct Schemas {
    nodes: Vec<Schema>,
    /// By node; made when first needed.
    needs: OnceLock<Box<[Needs]>>,
    /// Whether a node is an object within the object; made when first needed.
    embeds: OnceLock<bool>,
}

impl Schemas {
    /// Adds a node and returns its index.
    pub fn add(&mut self, schema: Schema) -> SchemaId {
        self.needs.take();
        self.embeds.take();
        self.nodes.push(schema);
        SchemaId((self.nodes.len() - 1) as u32)
    }

    /// Reserves a node so that recursive types can refer to it before it is known.
    pub fn reserve(&mut self) -> SchemaId {
        self.add(Schema::default())
    }

    /// Replaces a node; for recursive types, whose index is reserved before their content is known.
    pub fn set(&mut self, id: SchemaId, schema: Schema) {
        self.needs.take();
        self.embeds.take();
        self.nodes[id.0 as usize] = schema;
    }

    /// The node of an index.
    pub fn get(&self, id: SchemaId) -> &Schema {
        &self.nodes[id.0 as usize]
    }

    /// Whether an object of this node may get a member by default.
    pub fn has_default_members(&self, id: SchemaId) -> bool {
        self.needs()[id.0 as usize].members
    }

    /// Whether a value of this node, or one below it, is a list with identities or an embedded object.
    pub fn has_identities(&self, id: SchemaId) -> bool {
        self.needs()[id.0 as usize].identities
    }

    fn needs(&self) -> &[Needs] {
        self.needs.get_or_init(|| Needs::of(self))
    }

    /// Whether objects may hold others.
    pub fn has_embedded_resources(&self) -> bool {
        *self.embeds.get_or_init(|| self.nodes.iter().any(|node| node.embedded_resource))
    }

    /// All nodes with their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (SchemaId, &Schema)> {
        self.nodes.iter().enumerate().map(|(index, node)| (SchemaId(index as u32), node))
    }
}

/// The walks that values of a node require.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// One of its properties has a default.
    members: bool,
    /// See [`Schemas::has_identities`].
    identities: bool,
}

impl Needs {
    fn of(schemas: &Schemas) -> Box<[Self]> {
        let has_default =
            |property: &Property| property.default.is_some() || schemas.get(property.schema).default.is_some();
        let own = |node: &Schema| Self {
            members: node.properties.values().any(has_default),
            identities: node.embedded_resource || node.list_type != ListType::Atomic,
        };
        let mut all: Box<[Self]> = schemas.nodes.iter().map(own).collect();
        // Nodes mostly follow those they refer to, so that one round is the rule; recursive types take a few.
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (place, node) in schemas.nodes.iter().enumerate().filter(|(_, node)| !node.is_free()) {
                let below = node.properties.values().map(|property| property.schema);
                let mut below = below.chain(node.additional_properties).chain(node.items);
                if !all[place].identities && below.any(|id| all[id.0 as usize].identities) {
                    all[place].identities = true;
                    is_settled = false;
                }
            }
        }
        all
    }
}

/// The type of one kind of object: an arena (shared by many kinds) and the node to start at.
#[derive(Clone, Debug)]
pub struct TypeOf {
    /// The nodes, shared by the types of a document.
    pub schemas: Arc<Schemas>,
    /// The type's own node.
    pub root: SchemaId,
}

impl TypeOf {
    /// The type's own node.
    pub fn node(&self) -> &Schema {
        self.schemas.get(self.root)
    }

    /// The same arena, another node.
    #[must_use]
    pub fn at(&self, id: SchemaId) -> Self {
        Self { schemas: Arc::clone(&self.schemas), root: id }
    }

    /// For undeclared values: maps are granular, lists atomic.
    pub fn deduced() -> Self {
        let mut schemas = Schemas::default();
        let root = schemas.add(Schema { preserve_unknown_fields: true, ..Schema::default() });
        Self { schemas: Arc::new(schemas), root }
    }
}
