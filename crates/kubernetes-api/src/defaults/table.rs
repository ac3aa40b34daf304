//! Reads `data/defaults.txt` into one node for each type of the built-in kinds.

use std::collections::HashMap;

use apimachinery::schema::{Schema, SchemaId, Type};
use serde_json::{Map, Value};

use super::computed::{self, Computed};

const TABLE: &str = include_str!("../../data/defaults.txt");

/// Kinds of this group use only pointers, so zero never means absent.
const ZEROS_COUNT_IN: &str = "io.k8s.api.resource.";

pub(super) struct Node {
    pub shape: Shape,
    pub rules: Vec<Rule>,
    /// Whether the type or a type it contains has rules.
    pub has_rules_below: bool,
}

pub(super) enum Shape {
    /// A value without children.
    Leaf,
    Quantity,
    Time,
    MicroTime,
    Bytes,
    List(SchemaId),
    Map(SchemaId),
    /// Sorted by name.
    Struct(Vec<Field>),
}

pub(super) struct Field {
    pub name: Box<str>,
    pub schema: SchemaId,
    /// Whether zero values mean absent.
    pub omits_zero: bool,
}

pub(super) enum Rule {
    Set { path: Vec<&'static str>, value: Value, conditions: Vec<Condition> },
    Run(Computed),
}

pub(super) struct Condition {
    pub path: Vec<&'static str>,
    pub requirement: Requirement,
}

pub(super) enum Requirement {
    Present,
    Absent,
    Text(&'static str),
}

#[derive(Default)]
struct Section {
    rules: Vec<Rule>,
    keeps: Vec<&'static str>,
}

pub(super) fn read() -> Vec<Node> {
    let mut sections = sections();
    let schemas = crate::schemas();
    let nodes = schemas.iter().map(|(_, schema)| {
        let section = schema.definition.as_deref().and_then(|name| sections.remove(name)).unwrap_or_default();
        node(schema, section, |id| schemas.get(id))
    });
    let mut nodes: Vec<Node> = nodes.collect();
    mark_paths_to_rules(&mut nodes);
    nodes
}

/// Repeats until a pass marks nothing new, because types may contain themselves.
fn mark_paths_to_rules(nodes: &mut [Node]) {
    let mut changed = true;
    while changed {
        changed = false;
        for at in 0..nodes.len() {
            let below = |id: &SchemaId| nodes[id.0 as usize].has_rules_below;
            let found = match &nodes[at].shape {
                Shape::Leaf | Shape::Quantity | Shape::Time | Shape::MicroTime | Shape::Bytes => false,
                Shape::List(inner) | Shape::Map(inner) => below(inner),
                Shape::Struct(fields) => fields.iter().any(|field| below(&field.schema)),
            };
            if found && !nodes[at].has_rules_below {
                nodes[at].has_rules_below = true;
                changed = true;
            }
        }
    }
}

fn sections() -> HashMap<String, Section> {
    let mut sections: HashMap<String, Section> = HashMap::new();
    let mut current = String::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let Some(rule) = line.strip_prefix(' ') else {
            current = if line.starts_with("io.") { line.to_owned() } else { format!("io.k8s.api.{line}") };
            continue;
        };
        let section = sections.entry(current.clone()).or_default();
        if let Some(fields) = rule.strip_prefix("keep ") {
            section.keeps.extend(fields.split(' '));
        } else if let Some(name) = rule.strip_prefix(": ") {
            section.rules.extend(computed::named(name).map(Rule::Run));
        } else {
            section.rules.extend(set(rule));
        }
    }
    sections
}

/// `None` for an unreadable line; a test finds those.
fn set(rule: &'static str) -> Option<Rule> {
    let (path, rest) = rule.split_once(" = ")?;
    let (json, conditions) = rest.split_once(" if ").unwrap_or((rest, ""));
    let value = serde_json::from_str(json).ok()?;
    let conditions = conditions.split(" and ").filter(|text| !text.is_empty()).map(condition).collect();
    Some(Rule::Set { path: path.split('.').collect(), value, conditions })
}

fn condition(text: &'static str) -> Condition {
    let (path, requirement) = match (text.split_once('='), text.strip_prefix('!')) {
        (Some((path, requirement)), _) => (path, Requirement::Text(requirement)),
        (None, Some(path)) => (path, Requirement::Absent),
        (None, None) => (text, Requirement::Present),
    };
    Condition { path: path.split('.').collect(), requirement }
}

fn node<'a>(schema: &'a Schema, section: Section, get: impl Fn(SchemaId) -> &'a Schema) -> Node {
    let definition = schema.definition.as_deref().unwrap_or_default();
    let shape = if schema.preserve_unknown_fields {
        Shape::Leaf
    } else if definition.ends_with(".Quantity") {
        Shape::Quantity
    } else if definition.ends_with(".v1.Time") {
        Shape::Time
    } else if definition.ends_with(".v1.MicroTime") {
        Shape::MicroTime
    } else if schema.format.as_deref() == Some("byte") {
        Shape::Bytes
    } else if let Some(items) = schema.items {
        Shape::List(items)
    } else if let Some(values) = schema.additional_properties {
        Shape::Map(values)
    } else if schema.type_ == Type::Object {
        let keeps_all = section.keeps.contains(&"*") || definition.starts_with(ZEROS_COUNT_IN);
        let fields = schema.properties.iter().map(|(name, property)| {
            let required = schema.required.contains(name);
            let scalar = is_scalar(get(property.schema));
            let named = section.keeps.contains(&&**name);
            let kept = named || if scalar { keeps_all } else { !is_collection(get(property.schema)) };
            Field { name: name.clone(), schema: property.schema, omits_zero: !required && !kept }
        });
        Shape::Struct(fields.collect())
    } else {
        Shape::Leaf
    };
    Node { shape, has_rules_below: !section.rules.is_empty(), rules: section.rules }
}

/// Quantities and IntOrString are structs in Go, whose zero value is not omitted.
fn is_scalar(schema: &Schema) -> bool {
    let simple = matches!(schema.type_, Type::String | Type::Integer | Type::Number | Type::Boolean);
    simple && !schema.int_or_string && schema.definition.is_none()
}

fn is_collection(schema: &Schema) -> bool {
    schema.items.is_some() || schema.additional_properties.is_some()
}

/// Whether `map` satisfies the rule's conditions.
pub(super) fn holds(conditions: &[Condition], map: &Map<String, Value>) -> bool {
    conditions.iter().all(|condition| {
        let found = lookup(map, &condition.path);
        match condition.requirement {
            Requirement::Present => found.is_some(),
            Requirement::Absent => found.is_none(),
            Requirement::Text(text) => found.and_then(Value::as_str) == Some(text),
        }
    })
}

pub(super) fn lookup<'a>(map: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(map, |map, name| map.get(*name)?.as_object())?;
    parent.get(*last).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_an_existing_type() {
        let schemas = crate::schemas();
        let names: HashMap<&str, &Schema> =
            schemas.iter().filter_map(|(_, schema)| Some((schema.definition.as_deref()?, schema))).collect();
        for (name, section) in sections() {
            let schema = names.get(name.as_str()).unwrap_or_else(|| panic!("{name} is no definition"));
            for field in section.keeps {
                assert!(field == "*" || schema.properties.contains_key(field), "{name} has no {field}");
            }
            for rule in &section.rules {
                let Rule::Set { path, conditions, .. } = rule else { continue };
                for path in conditions.iter().map(|condition| &condition.path).chain([path]) {
                    let mut at = *schema;
                    for field in path {
                        let property = at.properties.get(field);
                        let property = property.unwrap_or_else(|| panic!("{name}: {path:?} leads nowhere"));
                        at = schemas.get(property.schema);
                    }
                }
            }
        }
    }

    #[test]
    fn every_line_is_read() {
        for rule in TABLE.lines().filter_map(|line| line.strip_prefix(' ')) {
            let known = match rule.strip_prefix(": ") {
                Some(name) => computed::named(name).is_some(),
                None => rule.starts_with("keep ") || set(rule).is_some(),
            };
            assert!(known, "{rule}");
        }
    }
}
