//! Random objects of every built-in type: fields as the schema has them, with content that is mostly wrong.

use apimachinery::schema::{Schema, Type, TypeOf};
use serde_json::{Map, Value, json};

/// A linear congruential generator: tests must not depend on how a library draws (constants of Knuth's MMIX).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).expect("below a usize")
    }

    pub fn text(&mut self) -> String {
        let words =
            ["a", "b-c", "ü", "x/y", "0", "true", "1e3", "~", "- a", "a: b", "\"q\"", "#", "a\nb", "null", "0x1", "="];
        words[self.below(words.len())].to_owned()
    }
}

/// Fields below this level are omitted; otherwise lists and recursive types would have no end.
const DEPTH: usize = 9;

/// A random value of a type. Zeros and empty values are avoided, because some fields omit them.
pub fn any(dice: &mut Dice, type_: &TypeOf, depth: usize) -> Option<Value> {
    let node = type_.node();
    let short = node.definition.as_deref().unwrap_or_default().rsplit('.').next().unwrap_or_default();
    Some(match short {
        "Quantity" => ["1", "100m", "2Gi", "3k", "1500m"][dice.below(5)].into(),
        "Time" => "2026-01-02T03:04:05Z".into(),
        "MicroTime" => "2026-01-02T03:04:05.678901Z".into(),
        "IntOrString" => {
            if dice.below(2) == 0 {
                8080.into()
            } else {
                "25%".into()
            }
        }
        "FieldsV1" => json!({"f:data": {"f:k": {}}}),
        "RawExtension" => json!({"kind": "X", "apiVersion": "v1", "a": [1, {"b": dice.text()}]}),
        "JSON" => json!({"a": dice.text()}),
        // In OpenAPI, this name is used for a duration, an alias of string, and a union.
        "Duration" => "1h0m0s".into(),
        "JSONSchemaPropsOrBool" => true.into(),
        "JSONSchemaPropsOrArray" => json!({"type": "string"}),
        "JSONSchemaPropsOrStringArray" => json!(["a"]),
        _ => return structure(dice, type_, node, depth),
    })
}

fn structure(dice: &mut Dice, type_: &TypeOf, node: &Schema, depth: usize) -> Option<Value> {
    Some(match node.type_ {
        Type::String if node.format.as_deref() == Some("byte") => "AAEC".into(),
        Type::String => dice.text().into(),
        Type::Integer => (1 + dice.below(1000)).into(),
        Type::Number => 1.5.into(),
        Type::Boolean => true.into(),
        _ if depth >= DEPTH => return None,
        Type::Array => {
            let items = type_.at(node.items?);
            let list: Vec<Value> = (0..1 + dice.below(2)).filter_map(|_| any(dice, &items, depth + 1)).collect();
            (!list.is_empty()).then_some(list)?.into()
        }
        Type::Object | Type::Any => {
            let mut map = Map::new();
            if let Some(values) = node.additional_properties {
                let value = any(dice, &type_.at(values), depth + 1)?;
                map.insert(dice.text(), value);
            }
            // An object inside an object has no type and kind in protobuf; those of the whole are in the envelope.
            let object = node.properties.contains_key("metadata");
            for (name, property) in &node.properties {
                if depth > 0 && dice.below(3) == 0 || object && matches!(&**name, "apiVersion" | "kind") {
                    continue;
                }
                if let Some(value) = any(dice, &type_.at(property.schema), depth + 1) {
                    map.insert(name.to_string(), value);
                }
            }
            (!map.is_empty()).then_some(map)?.into()
        }
    })
}
