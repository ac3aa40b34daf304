//! Normalizes a document as upstream's mutating webhooks do besides their rules: they decode it into a typed object and
//! encode that again. Empty optional fields are dropped, missing required fields get the type's zero value, quantities
//! get their canonical form; a value of another type is rejected with the decoder's message.
//!
//! It changes the tree along the schema of the kind, and leaves metadata and status alone.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apimachinery::go_json;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::{Denied, go_types};

/// Optional scalars for which upstream's types distinguish "absent" from "zero".
const POINTERS: &[&str] = &[
    "averageUtilization",
    "dispatching",
    "gracePeriodSeconds",
    "minReplicas",
    "preserveResourcesOnDeletion",
    "priority",
    "scheduling",
    "selectPolicy",
    "stabilizationWindowSeconds",
    "suppressDeletion",
    "suspendDispatching",
    "tolerationSeconds",
];

/// Optional objects that a typed object of a kind always has.
const ALWAYS: &[(&str, &str)] = &[
    ("ClusterPropagationPolicy", "placement"),
    ("MultiClusterService", "range"),
    ("OverridePolicy", "overriders"),
    ("PropagationPolicy", "placement"),
    ("Work", "workload"),
];

/// The schemas of `spec` of the stored versions, with group and kind, without descriptions.
static SCHEMAS: LazyLock<Vec<(String, String, Value)>> = LazyLock::new(|| {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = |mut crd: Value| {
        let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut)?;
        let stored = versions.iter_mut().find(|version| version["storage"] == true)?;
        let mut schema = stored["schema"]["openAPIV3Schema"]["properties"]["spec"].take();
        strip(&mut schema);
        Some((text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["kind"]), schema))
    };
    crate::crds().into_iter().filter_map(spec).collect()
});

/// Removes the descriptions of a schema, which are most of it.
fn strip(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("description");
    for (name, part) in schema {
        match (name.as_str(), part) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(strip),
            ("items" | "additionalProperties", part) => strip(part),
            _ => {}
        }
    }
}

/// The same, prepared for every write, by group and kind.
static SPECS: LazyLock<BTreeMap<&str, BTreeMap<&str, Node>>> = LazyLock::new(|| {
    let mut specs: BTreeMap<&str, BTreeMap<&str, Node>> = BTreeMap::new();
    for (group, kind, schema) in LazyLock::force(&SCHEMAS) {
        specs.entry(group).or_default().insert(kind, Node::of(kind, schema));
    }
    specs
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    Text,
    Bool,
    Integer,
    Number,
    Any,
}

/// A node of a schema with the properties that every write needs.
struct Node {
    schema: &'static Value,
    type_: Type,
    is_open: bool,
    is_quantity: bool,
    members: Vec<Member>,
    /// For a map's values, or a list's items.
    each: Option<Box<Self>>,
}

struct Member {
    name: &'static str,
    node: Node,
    is_required: bool,
    /// Whether a typed object always contains it.
    is_always: bool,
}

impl Node {
    /// Recursion is bounded: the schemas are part of this program.
    fn of(kind: &str, schema: &'static Value) -> Self {
        static NONE: Value = Value::Null;
        let type_ = match schema["type"].as_str() {
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::Text,
            Some("boolean") => Type::Bool,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            _ => Type::Any,
        };
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let member = |(name, child): (&'static String, &'static Value)| {
            let is_required = required.iter().any(|it| it == name);
            let is_always = is_required || ALWAYS.contains(&(kind, name));
            Member { name, node: Self::of(kind, child), is_required, is_always }
        };
        let members: Vec<Member> = schema["properties"].as_object().into_iter().flatten().map(member).collect();
        let each = match type_ {
            Type::Array => &schema["items"],
            _ if schema["properties"].is_object() => &NONE,
            _ => &schema["additionalProperties"],
        };
        Self {
            type_,
            is_open: is_open(schema),
            is_quantity: is_quantity(schema),
            members,
            each: each.is_object().then(|| Box::new(Self::of(kind, each))),
            schema,
        }
    }
}

/// Normalizes the `spec` of an object as its typed object would.
///
/// # Errors
/// The message of Go's decoder for the first value (keys in their order) of another type.
pub(super) fn respell(group: &str, kind: &str, object: &mut Value) -> Result<(), String> {
    let Some(node) = SPECS.get(group).and_then(|kinds| kinds.get(kind)) else { return Ok(()) };
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    let spec = map.entry("spec").or_insert(Value::Null);
    spell(spec, node, &mut Place { kind, path: vec!["spec"] }, false)?;
    if spec.is_null() {
        *spec = zero(kind, node.schema);
    }
    Ok(())
}

/// Adds the fields that an encoded typed object has besides: an API server drops them, but a webhook's patch contains
/// them.
pub fn encoded(kind: &str, object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    let status = match kind {
        "ResourceBinding" | "ClusterResourceBinding" | "Work" => json!({}),
        "FederatedHPA" => json!({ "currentMetrics": null, "desiredReplicas": 0 }),
        "MultiClusterService" => json!({ "loadBalancer": {} }),
        _ => Value::Null,
    };
    if !status.is_null() {
        let sent = map.entry("status").or_insert_with(|| json!({}));
        if let (Some(sent), Value::Object(zeros)) = (sent.as_object_mut(), status) {
            for (name, zero) in zeros {
                sent.entry(name).or_insert(zero);
            }
        }
    }
    let rules = object.pointer_mut("/spec/overrideRules").and_then(Value::as_array_mut);
    for overriders in rules.into_iter().flatten().filter_map(|rule| rule.get_mut("overriders")) {
        super::overrides::show_values(overriders);
    }
    if let Some(overriders) = object.pointer_mut("/spec/overriders") {
        super::overrides::show_values(overriders);
    }
}

/// Checks that an object can be decoded as its kind; for callers that did not validate it against a schema.
///
/// # Errors
/// [`Denied::Undecodable`], with the message of Go's decoder.
pub fn decodes(group: &str, kind: &str, object: &Value) -> Result<(), Denied> {
    respell(group, kind, &mut object.clone()).map_err(Denied::Undecodable)
}

/// The path of a value: the names of the fields that lead to it.
struct Place<'a> {
    kind: &'a str,
    path: Vec<&'a str>,
}

impl Place<'_> {
    /// The decoder's error for a value at this path.
    fn mismatch(&self, value: &Value, schema: &Value, is_item: bool) -> String {
        let found = match value {
            // Only numbers that do not fit are quoted.
            Value::Number(number) if expects_number(schema) => format!("number {number}"),
            other => go_json::type_name(other).to_owned(),
        };
        let holder = go_types::holder(self.kind, &self.path);
        let go_type = go_types::of(self.kind, &self.path, schema, is_item);
        let path = self.path.join(".");
        format!("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {go_type}")
    }
}

fn expects_number(schema: &Value) -> bool {
    schema["type"] == "integer" || schema["type"] == "number"
}

fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn is_quantity(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true && schema["pattern"].is_string()
}

fn spell<'a>(value: &mut Value, node: &'a Node, place: &mut Place<'a>, is_item: bool) -> Result<(), String> {
    if value.is_null() || node.is_open {
        return Ok(());
    }
    if node.is_quantity {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let amount: Quantity = text.parse().map_err(|error| format!("{error}"))?;
        *value = json!(amount.to_string());
        return Ok(());
    }
    let fits = match node.type_ {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::Text => value.is_string(),
        Type::Bool => value.is_boolean(),
        Type::Integer => fits_integer(value, node.schema),
        Type::Number => value.is_number(),
        Type::Any => true,
    };
    if !fits {
        return Err(place.mismatch(value, node.schema, is_item));
    }
    match (value, &node.each) {
        (Value::Object(map), Some(child)) if node.type_ != Type::Array => {
            for value in map.values_mut() {
                spell(value, child, place, true)?;
                if value.is_null() {
                    *value = zero(place.kind, child.schema);
                }
            }
            Ok(())
        }
        (Value::Object(map), _) => members(map, node, place),
        (Value::Array(items), Some(child)) if node.type_ == Type::Array => {
            for item in items {
                spell(item, child, place, true)?;
                if item.is_null() && !child.is_open {
                    *item = zero(place.kind, child.schema);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn fits_integer(value: &Value, schema: &Value) -> bool {
    let whole = value.as_i64().or_else(|| {
        // The API server writes 1.0 as 1 before a webhook receives it.
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15)?;
        format!("{number:.0}").parse().ok()
    });
    whole.is_some_and(|whole| schema["format"] != "int32" || i32::try_from(whole).is_ok())
}

fn members<'a>(map: &mut Map<String, Value>, node: &'a Node, place: &mut Place<'a>) -> Result<(), String> {
    for Member { name, node: child, is_required, is_always } in &node.members {
        match map.get_mut(*name) {
            Some(value) => {
                place.path.push(name);
                // After an error the path is not needed any more.
                let spelled = spell(value, child, place, false);
                place.path.pop();
                spelled?;
                let is_gone = !is_required && (value.is_null() || !child.is_open && is_left_out(name, value, place));
                if *is_required && value.is_null() && !child.is_open {
                    *value = zero(place.kind, child.schema);
                }
                if is_gone {
                    map.remove(*name);
                }
                if is_gone && *is_always && !child.is_open {
                    map.insert((*name).to_owned(), zero(place.kind, child.schema));
                }
            }
            None if *is_always && !child.is_open => {
                map.insert((*name).to_owned(), zero(place.kind, child.schema));
            }
            None => {}
        }
    }
    Ok(())
}

/// Whether an optional field is empty, and its type cannot represent that.
fn is_left_out(name: &str, value: &Value, place: &Place<'_>) -> bool {
    let counted =
        POINTERS.contains(&name) || (name == "replicas" && place.path.last() == Some(&"gracefulEvictionTasks"));
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // Typed objects are pointers; maps are not.
        Value::Object(map) => {
            map.is_empty() && matches!(name, "matchLabels" | "nodeSelector" | "resourceRequest" | "preservedLabelState")
        }
        Value::Bool(value) => !value && !counted,
        Value::String(text) => text.is_empty() && !counted,
        Value::Number(number) => number.as_f64() == Some(0.0) && !counted,
    }
}

/// The value of a required field that is absent.
fn zero(kind: &str, schema: &Value) -> Value {
    if is_quantity(schema) {
        return json!("0");
    }
    match schema["type"].as_str() {
        Some("string") => json!(""),
        Some("integer" | "number") => json!(0),
        Some("boolean") => json!(false),
        Some("object") if schema["properties"].is_object() => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let properties = schema["properties"].as_object().into_iter().flat_map(Map::iter);
            let always = properties.filter(|(name, _)| ALWAYS.contains(&(kind, name)));
            let names = required.chain(always.map(|(name, _)| name.as_str()));
            Value::Object(names.map(|name| (name.to_owned(), zero(kind, &schema["properties"][name]))).collect())
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_values_are_normalized() {
        let policy = ("policy.karmada.io", "PropagationPolicy");
        let selectors = json!([{"apiVersion": "v1", "kind": "Secret"}]);
        for ((group, kind), before, after) in [
            (
                policy,
                json!({"resourceSelectors": selectors, "propagateDeps": false, "priority": 0, "association": true,
                    "placement": {"clusterAffinities": [], "clusterAffinity": {"labelSelector": {"matchLabels": {}}},
                        "spreadConstraints": [{"minGroups": 0, "maxGroups": 2, "spreadByLabel": ""}]}}),
                json!({"resourceSelectors": selectors, "priority": 0, "association": true,
                    "placement": {"clusterAffinity": {"labelSelector": {}}, "spreadConstraints": [{"maxGroups": 2}]}}),
            ),
            (
                policy,
                json!({"resourceSelectors": [{"kind": null, "namespace": ""}], "failover": {"application": {}}}),
                json!({"resourceSelectors": [{"apiVersion": "", "kind": ""}], "placement": {},
                    "failover": {"application": {"decisionConditions": {}}}}),
            ),
            (policy, Value::Null, json!({"resourceSelectors": null, "placement": {}})),
            (
                ("policy.karmada.io", "OverridePolicy"),
                json!({"overrideRules": [], "resourceSelectors": null}),
                json!({"overriders": {}}),
            ),
            (("work.karmada.io", "Work"), json!({}), json!({"workload": {}})),
            (
                ("networking.karmada.io", "MultiClusterService"),
                json!({"types": [], "ports": [{"name": ""}]}),
                json!({"types": [], "ports": [{"port": 0}], "range": {}}),
            ),
            (
                ("work.karmada.io", "ResourceBinding"),
                json!({"resource": {"kind": "K"}, "replicas": 0, "clusters": [{"name": "m", "replicas": 0}],
                    "replicaRequirements": {"resourceRequest": {"cpu": "1000m", "memory": 1024}},
                    "gracefulEvictionTasks": [{"fromCluster": "m", "replicas": 0, "reason": "r", "producer": "p"}]}),
                json!({"resource": {"apiVersion": "", "kind": "K", "name": ""}, "clusters": [{"name": "m"}],
                    "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "1024"}},
                    "gracefulEvictionTasks": [{"fromCluster": "m", "replicas": 0, "reason": "r", "producer": "p"}]}),
            ),
        ] {
            let mut object = json!({ "spec": before });
            respell(group, kind, &mut object).unwrap();
            assert_eq!(object["spec"], after);
            let once = object.clone();
            respell(group, kind, &mut object).unwrap();
            assert_eq!(object, once);
        }
    }

    #[test]
    fn wrong_types_get_the_decoders_message() {
        let policy = "PropagationPolicy";
        for (kind, spec, expected) in [
            (policy, json!(1), "number into Go struct field PropagationPolicy.spec of type v1alpha1.PropagationSpec"),
            (
                policy,
                json!({"placement": "x"}),
                "string into Go struct field PropagationSpec.spec.placement of type v1alpha1.Placement",
            ),
            (
                policy,
                json!({"resourceSelectors": {}, "priority": "high"}),
                "string into Go struct field PropagationSpec.spec.priority of type int32",
            ),
            (
                policy,
                json!({"resourceSelectors": [1]}),
                "number into Go struct field PropagationSpec.spec.resourceSelectors of type v1alpha1.ResourceSelector",
            ),
            (
                policy,
                json!({"placement": {"clusterAffinity": {"clusterNames": [true]}}}),
                "bool into Go struct field ClusterAffinity.spec.placement.clusterAffinity.clusterNames of type string",
            ),
            (
                policy,
                json!({"placement": {"spreadConstraints": [{"maxGroups": 1.5}]}}),
                "number 1.5 into Go struct field SpreadConstraint.spec.placement.spreadConstraints.maxGroups of type int",
            ),
            (
                policy,
                json!({"placement": {"replicaScheduling": {"replicaSchedulingType": []}}}),
                "array into Go struct field \
                 ReplicaSchedulingStrategy.spec.placement.replicaScheduling.replicaSchedulingType of type \
                 v1alpha1.ReplicaSchedulingType",
            ),
            (
                "OverridePolicy",
                json!({"overrideRules": [{"overriders": {"labelsOverrider": [{"value": {"a": 1}}]}}]}),
                "number into Go struct field \
                 LabelAnnotationOverrider.spec.overrideRules.overriders.labelsOverrider.value of type string",
            ),
        ] {
            let mut object = json!({ "spec": spec });
            let refusal = respell("policy.karmada.io", kind, &mut object).unwrap_err();
            assert_eq!(refusal, format!("json: cannot unmarshal {expected}"));
        }
        let mut object = json!({"spec": {"metrics": [{"object": {"target": {"value": "abc"}}}]}});
        let refusal = respell("autoscaling.karmada.io", "FederatedHPA", &mut object).unwrap_err();
        assert!(refusal.starts_with("quantities must match the regular expression"), "{refusal}");
    }
}
