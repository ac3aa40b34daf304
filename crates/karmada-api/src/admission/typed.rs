//! What a mutating webhook of upstream does to a document besides its rules: it decodes the document into a typed object
//! and encodes that again. Empty optional members go, required members that are missing come as the type's zero, amounts
//! get their canonical spelling; a value of another type is refused in the decoder's words.
//!
//! It works on the tree, along the schema of the kind, and leaves metadata and status alone.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::{Denied, go_types};

/// Optional scalars of which upstream's types tell "absent" from "zero".
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

/// The schemas of `spec`, by group and kind, of the stored versions.
static SPECS: LazyLock<BTreeMap<(String, String), Value>> = LazyLock::new(|| {
    let entry = |crd: Value| {
        let versions = crd["spec"]["versions"].as_array()?;
        let stored = versions.iter().find(|version| version["storage"] == true)?;
        let spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(((text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["kind"])), spec))
    };
    crate::crds().into_iter().filter_map(entry).collect()
});

/// Spells the `spec` of an object as its typed object would.
///
/// # Errors
/// The text of Go's decoder, about the first value (keys in their order) that is of another type.
pub(super) fn respell(group: &str, kind: &str, object: &mut Value) -> Result<(), String> {
    let Some(schema) = SPECS.get(&(group.to_owned(), kind.to_owned())) else { return Ok(()) };
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    let spec = map.entry("spec").or_insert(Value::Null);
    let place = Place { kind, path: vec!["spec"] };
    spell(spec, schema, &place)?;
    if spec.is_null() {
        *spec = zero(place.kind, schema);
    }
    Ok(())
}

/// What an encoded typed object has besides: members that an API server drops again, but that stand in a webhook's patch.
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

/// Whether an object can be read as its kind; for callers that did not check it against a schema.
///
/// # Errors
/// [`Denied::Undecodable`], with the text of Go's decoder.
pub fn decodes(group: &str, kind: &str, object: &Value) -> Result<(), Denied> {
    respell(group, kind, &mut object.clone()).map_err(Denied::Undecodable)
}

/// Where a value is: the names of the members that lead to it.
struct Place<'a> {
    kind: &'a str,
    path: Vec<&'a str>,
}

impl<'a> Place<'a> {
    fn child(&self, name: &'a str) -> Self {
        let mut path = self.path.clone();
        path.push(name);
        Self { kind: self.kind, path }
    }

    /// The decoder's complaint about a value here.
    fn mismatch(&self, value: &Value, schema: &Value, is_item: bool) -> String {
        let found = match value {
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) => format!("number {number}"),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
            Value::Null => "null".to_owned(),
        };
        // Only numbers that do not fit are quoted.
        let found = if wants_number(schema) { found } else { found.split(' ').next().unwrap_or_default().to_owned() };
        let holder = go_types::holder(self.kind, &self.path);
        let wanted = go_types::of(self.kind, &self.path, schema, is_item);
        let path = self.path.join(".");
        format!("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}")
    }
}

fn wants_number(schema: &Value) -> bool {
    schema["type"] == "integer" || schema["type"] == "number"
}

fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn is_quantity(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true && schema["pattern"].is_string()
}

fn spell<'a>(value: &mut Value, schema: &'a Value, place: &Place<'a>) -> Result<(), String> {
    spell_as(value, schema, place, false)
}

fn spell_as<'a>(value: &mut Value, schema: &'a Value, place: &Place<'a>, is_item: bool) -> Result<(), String> {
    if value.is_null() || is_open(schema) {
        return Ok(());
    }
    if is_quantity(schema) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let amount: Quantity = text.parse().map_err(|error| format!("{error}"))?;
        *value = json!(amount.to_string());
        return Ok(());
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => fits_integer(value, schema),
        Some("number") => value.is_number(),
        _ => true,
    };
    if !fits {
        return Err(place.mismatch(value, schema, is_item));
    }
    match value {
        Value::Object(map) if schema["properties"].is_object() => members(map, schema, place),
        Value::Object(map) if schema["additionalProperties"].is_object() => {
            let child = &schema["additionalProperties"];
            for value in map.values_mut() {
                spell_as(value, child, place, true)?;
                if value.is_null() {
                    *value = zero(place.kind, child);
                }
            }
            Ok(())
        }
        Value::Array(items) if schema["items"].is_object() => {
            let child = &schema["items"];
            for item in items {
                spell_as(item, child, place, true)?;
                if item.is_null() && !is_open(child) {
                    *item = zero(place.kind, child);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn fits_integer(value: &Value, schema: &Value) -> bool {
    let whole = value.as_i64().or_else(|| {
        // The API server writes 1.0 as 1 before a webhook sees it.
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15)?;
        format!("{number:.0}").parse().ok()
    });
    whole.is_some_and(|whole| schema["format"] != "int32" || i32::try_from(whole).is_ok())
}

fn members<'a>(map: &mut Map<String, Value>, schema: &'a Value, place: &Place<'a>) -> Result<(), String> {
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (name, child) in properties {
        let is_required = required.iter().any(|it| it == name);
        if let Some(value) = map.get_mut(name) {
            spell(value, child, &place.child(name))?;
            if is_required && value.is_null() && !is_open(child) {
                *value = zero(place.kind, child);
            }
            if !is_required && (value.is_null() || !is_open(child) && is_left_out(name, value, place)) {
                map.remove(name);
            }
        }
        let always = is_required || ALWAYS.contains(&(place.kind, name));
        if always && !map.contains_key(name) && !is_open(child) {
            map.insert(name.clone(), zero(place.kind, child));
        }
    }
    Ok(())
}

/// Whether an optional member is empty, and of a type that does not say so.
fn is_left_out(name: &str, value: &Value, place: &Place<'_>) -> bool {
    let counted =
        POINTERS.contains(&name) || (name == "replicas" && place.path.last() == Some(&"gracefulEvictionTasks"));
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // Objects of a type are pointed to; maps are not.
        Value::Object(map) => {
            map.is_empty() && matches!(name, "matchLabels" | "nodeSelector" | "resourceRequest" | "preservedLabelState")
        }
        Value::Bool(value) => !value && !counted,
        Value::String(text) => text.is_empty() && !counted,
        Value::Number(number) => number.as_f64() == Some(0.0) && !counted,
    }
}

/// What a member of a typed object is when nothing set it.
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
    fn what_passes_is_spelled_as_its_type_is() {
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
    fn another_type_is_refused_in_the_decoders_words() {
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
