//! Reads `data/validation.txt` into one node for each type of the built-in kinds.

use std::collections::HashMap;

use apimachinery::field::ErrorList;
use apimachinery::schema::{Schema, SchemaId};

use super::at::At;
use super::checks::Check;
use super::{
    Object, addresses, annotations, autoscaling, cluster, config, containers, devices, endpoint_slices, events,
    flow_control, jobs, machinery, network, persistent_volumes, placement, pods, policies, rbac, resources, services,
    storage, update, volumes, webhooks, windows, workloads,
};

const TABLE: &str = include_str!("../../data/validation.txt");

pub(super) type Function = fn(&Object, &At<'_>, &mut ErrorList);

pub(super) struct Node {
    pub rules: Vec<Rule>,
    /// Fields in the order of their errors.
    pub order: Vec<&'static str>,
    pub update: UpdateOrder,
    pub has_rules_below: bool,
    pub items: Option<SchemaId>,
    pub values: Option<SchemaId>,
    /// Only those with rules below, sorted by name.
    fields: Vec<(Box<str>, SchemaId)>,
}

impl Node {
    pub(super) fn field(&self, name: &str) -> Option<SchemaId> {
        let found = self.fields.binary_search_by(|(field, _)| (**field).cmp(name)).ok()?;
        Some(self.fields[found].1)
    }
}

/// The order of the comparison with the old object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UpdateOrder {
    #[default]
    Last,
    First,
    /// No other checks are run.
    Only,
}

#[derive(Default)]
struct Section {
    rules: Vec<Rule>,
    order: Vec<&'static str>,
    unvalidated: Vec<&'static str>,
    update: UpdateOrder,
}

pub(super) enum Rule {
    Field {
        name: &'static str,
        checks: Vec<Check>,
    },
    Run(Function),
    Compare(update::Compare),
    /// A dotted path that updates may not change.
    Fixed {
        path: Vec<&'static str>,
        refusal: Refusal,
    },
}

pub(super) enum Refusal {
    /// `Invalid value: ...: field is immutable`.
    Immutable,
    Invalid(&'static str),
    Forbidden(&'static str),
}

pub(super) fn read() -> Vec<Node> {
    let mut sections = sections();
    let schemas = crate::schemas();
    let mut nodes: Vec<Node> = schemas
        .iter()
        .map(|(_, schema)| {
            node(schema, schema.definition.as_deref().and_then(|name| sections.remove(name)).unwrap_or_default())
        })
        .collect();
    mark_paths_to_rules(&mut nodes);
    let reaches: Vec<bool> = nodes.iter().map(|node| node.has_rules_below).collect();
    for node in &mut nodes {
        node.fields.retain(|(_, id)| reaches[id.0 as usize]);
    }
    nodes
}

fn node(schema: &Schema, section: Section) -> Node {
    Node {
        has_rules_below: !section.rules.is_empty(),
        rules: section.rules,
        order: section.order,
        update: section.update,
        items: schema.items,
        values: schema.additional_properties,
        fields: schema
            .properties
            .iter()
            .filter(|(name, _)| !section.unvalidated.contains(&&***name))
            .map(|(name, property)| (name.clone(), property.schema))
            .collect(),
    }
}

/// Repeats until a pass marks nothing new, because types may contain themselves.
fn mark_paths_to_rules(nodes: &mut [Node]) {
    let mut changed = true;
    while changed {
        changed = false;
        for at in 0..nodes.len() {
            let node = &nodes[at];
            let mut parts = node.items.iter().chain(&node.values).chain(node.fields.iter().map(|(_, id)| id));
            if !node.has_rules_below && parts.any(|id| nodes[id.0 as usize].has_rules_below) {
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
        match line.strip_prefix(' ') {
            None if line.starts_with("io.") => line.clone_into(&mut current),
            None => current = format!("io.k8s.api.{line}"),
            Some(text) => {
                let section = sections.entry(current.clone()).or_default();
                match (text.strip_prefix("< "), text) {
                    (Some(fields), _) => section.order.extend(fields.split(' ')),
                    (None, text) if text.starts_with("! ") => section.unvalidated.extend(text[2..].split(' ')),
                    (None, "~ first") => section.update = UpdateOrder::First,
                    (None, "~ only") => section.update = UpdateOrder::Only,
                    (None, text) => section.rules.extend(rule(text)),
                }
            }
        }
    }
    sections
}

/// `None` for a line that cannot be read; a test finds those.
fn rule(text: &'static str) -> Option<Rule> {
    if let Some(name) = text.strip_prefix(": ") {
        return function(name).map(Rule::Run);
    }
    if let Some(name) = text.strip_prefix("~ ") {
        return update::named(name).map(Rule::Compare);
    }
    let (name, rest) = text.split_once(": ")?;
    if let Some(refusal) = rest.strip_prefix("fixed") {
        let refusal = match refusal.trim_start().split_once(' ') {
            None => Refusal::Immutable,
            Some(("invalid", text)) => Refusal::Invalid(text),
            Some(("forbidden", text)) => Refusal::Forbidden(text),
            Some(_) => return None,
        };
        return Some(Rule::Fixed { path: name.split('.').collect(), refusal });
    }
    let checks = rest.split(", ").map(Check::parse).collect::<Option<Vec<_>>>()?;
    Some(Rule::Field { name, checks })
}

fn function(name: &str) -> Option<Function> {
    let tables = [
        annotations::FUNCTIONS,
        containers::FUNCTIONS,
        endpoint_slices::FUNCTIONS,
        jobs::FUNCTIONS,
        persistent_volumes::FUNCTIONS,
        placement::FUNCTIONS,
        pods::FUNCTIONS,
        volumes::FUNCTIONS,
        webhooks::FUNCTIONS,
        windows::FUNCTIONS,
        workloads::FUNCTIONS,
        resources::FUNCTIONS,
        services::FUNCTIONS,
        config::FUNCTIONS,
        rbac::FUNCTIONS,
        network::FUNCTIONS,
        autoscaling::FUNCTIONS,
        cluster::FUNCTIONS,
        events::FUNCTIONS,
        machinery::FUNCTIONS,
        addresses::FUNCTIONS,
        devices::FUNCTIONS,
        flow_control::FUNCTIONS,
        policies::FUNCTIONS,
        storage::FUNCTIONS,
    ];
    tables.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        for text in TABLE.lines().filter_map(|line| line.strip_prefix(' ')) {
            let known = text.starts_with("< ")
                || text.starts_with("! ")
                || matches!(text, "~ first" | "~ only")
                || rule(text).is_some();
            assert!(known, "{text}");
        }
    }

    #[test]
    fn every_line_names_an_existing_type() {
        let schemas = crate::schemas();
        let names: HashMap<&str, &Schema> =
            schemas.iter().filter_map(|(_, schema)| Some((schema.definition.as_deref()?, schema))).collect();
        for (name, section) in sections() {
            let schema = names.get(name.as_str()).unwrap_or_else(|| panic!("{name} is no definition"));
            for rule in section.rules {
                let path = match rule {
                    Rule::Run(_) | Rule::Compare(_) => continue,
                    Rule::Field { name, .. } => vec![name],
                    Rule::Fixed { path, .. } => path,
                };
                let mut at = *schema;
                for field in &path {
                    let property = at.properties.get(field);
                    at = schemas.get(property.unwrap_or_else(|| panic!("{name}: {path:?} leads nowhere")).schema);
                }
            }
        }
    }
}
