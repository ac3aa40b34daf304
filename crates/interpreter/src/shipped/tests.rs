use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::yaml;
use jiff::Timestamp;
use karmada_api::work::v1alpha2::AggregatedStatusItem;
use serde_json::{Value, json};

use super::*;
use crate::lua::Budget;
use crate::{Error, Layer};

/// The second file holds fields that are absent, empty or outdated.
const CASES: [&str; 2] = [include_str!("cases.yaml"), include_str!("more.yaml")];

fn cases() -> Vec<Value> {
    let read = |text: &str| yaml::to_json_value(text.as_bytes()).expect("the cases are YAML");
    CASES.iter().flat_map(|text| read(text).as_array().expect("a list").clone()).collect()
}

fn engine() -> Engine {
    Engine::new(Arc::new(|| Timestamp::UNIX_EPOCH), Budget::default())
}

/// The result as a document.
fn call(layer: &Scripts, operation: Operation, mut object: Value, with: &Value) -> Result<Value, Error> {
    use serde_json::from_value;

    Ok(match operation {
        Operation::InterpretReplica => {
            let (replicas, requirements) = layer.get_replicas(&object)?;
            json!({"replicas": replicas, "requirements": requirements})
        }
        Operation::InterpretComponent => json!(layer.get_components(&object)?),
        Operation::ReviseReplica => {
            layer.revise_replica(&mut object, with.as_i64().expect("a number") as i32)?;
            object
        }
        Operation::Retain => {
            layer.retain(&mut object, with)?;
            object
        }
        Operation::AggregateStatus => {
            let items: Vec<AggregatedStatusItem> = from_value(with.clone()).expect("items");
            layer.aggregate_status(&mut object, &items, Time::new(Timestamp::UNIX_EPOCH))?;
            object["status"].take()
        }
        Operation::InterpretStatus => json!(layer.reflect_status(&object)?),
        Operation::InterpretHealth => json!(layer.interpret_health(&object)?),
        Operation::InterpretDependency => {
            let found = layer.get_dependencies(&object)?;
            found.iter().map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name)).collect()
        }
    })
}

#[test]
fn every_operation_of_every_kind() {
    let layer = layer(engine());
    let mut covered = BTreeSet::new();
    let mut failures = Vec::new();
    for case in cases() {
        let operation = Operation::ALL.into_iter().find(|it| case["op"] == it.function()).expect("an operation");
        for kind in case["for"].as_array().expect("kinds").iter().filter_map(Value::as_str) {
            let (api_version, name) = kind.split_once(' ').expect("apiVersion and kind");
            let mut object = case["object"].clone();
            let mut expected = case["result"].clone();
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(name);
            if matches!(operation, Operation::ReviseReplica | Operation::Retain) {
                expected["apiVersion"] = json!(api_version);
                expected["kind"] = json!(name);
            }
            if object["metadata"].is_null() && operation == Operation::AggregateStatus {
                object["metadata"] = json!({"name": "x"});
            }
            covered.insert(format!("{kind} {}", operation.function()));
            match call(&layer, operation, object, &case["with"]) {
                Ok(got) if got == expected => {}
                got => failures.push(format!("{kind} {}\n  want {expected}\n  got  {got:?}", operation.function())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let missing: Vec<_> = SHIPPED
        .iter()
        .flat_map(|it| it.operations().map(move |op| format!("{} {} {}", it.api_version, it.kind, op.function())))
        .filter(|it| !covered.contains(it))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn every_script_compiles() {
    for shipped in SHIPPED {
        assert!(shipped.operations().count() > 0, "{}", shipped.kind);
        engine().compile(shipped.source).unwrap_or_else(|error| panic!("{}: {error}", shipped.kind));
    }
}

/// No script loops, exhausts its memory, returns a table twice, leaves gaps in a list or returns a status that is not an
/// object; a failed aggregation leaves the template unchanged.
#[test]
fn documents_of_unusual_shapes() {
    let layer = layer(engine());
    for case in cases() {
        let operation = Operation::ALL.into_iter().find(|it| case["op"] == it.function()).expect("an operation");
        let kind = case["for"][0].as_str().and_then(|kind| kind.split_once(' ')).expect("a kind");
        crate::shapes::distorted(&case["object"], &mut |object| {
            // The API server validates the metadata.
            let mut object = object.clone();
            if object.is_object() {
                object["metadata"] = case["object"]["metadata"].clone();
                unusual(&layer, operation, kind, object, &case["with"]);
            }
        });
        crate::shapes::distorted(&case["with"], &mut |with| {
            unusual(&layer, operation, kind, case["object"].clone(), with);
        });
    }
}

fn unusual(layer: &Scripts, operation: Operation, kind: (&str, &str), mut object: Value, with: &Value) {
    object["apiVersion"] = json!(kind.0);
    object["kind"] = json!(kind.1);
    let result = match operation {
        Operation::ReviseReplica if !with.is_i64() => return,
        Operation::AggregateStatus => {
            let Ok(items) = serde_json::from_value::<Vec<AggregatedStatusItem>>(with.clone()) else { return };
            let before = object.clone();
            let result = layer.aggregate_status(&mut object, &items, Time::new(Timestamp::UNIX_EPOCH));
            let status = &object["status"];
            assert!(if result.is_ok() { status.is_object() || status.is_null() } else { object == before }, "{object}");
            result
        }
        operation => call(layer, operation, object, with).map(drop),
    };
    let error = result.map_or_else(|error| error.to_string(), |()| String::new());
    for fault in ["deadline", "not enough memory", "recursively nested", "sparse array"] {
        assert!(!error.contains(fault), "{kind:?} {error} {with}");
    }
}
