use std::sync::Arc;

use apimachinery::meta::Time;
use jiff::Timestamp;
use karmada_api::config::v1alpha1::ResourceInterpreterWebhookConfiguration;

use super::*;
use crate::lua::Budget;
use crate::webhook::{Conversation, Hooks};
use crate::{Interpreter, shipped};

fn engine() -> Engine {
    Engine::new(Arc::new(|| Timestamp::UNIX_EPOCH), Budget::default())
}

/// A customization named `name` for Widgets, with these scripts by field.
fn customization(name: &str, scripts: &[(&str, &str)]) -> ResourceInterpreterCustomization {
    of_kind(name, "example.io/v1", "Widget", scripts)
}

fn of_kind(name: &str, api_version: &str, kind: &str, scripts: &[(&str, &str)]) -> ResourceInterpreterCustomization {
    let rules: serde_json::Map<String, Value> =
        scripts.iter().map(|(field, script)| ((*field).to_owned(), json!({"luaScript": script}))).collect();
    serde_json::from_value(json!({"metadata": {"name": name},
        "spec": {"target": {"apiVersion": api_version, "kind": kind}, "customizations": rules}}))
    .expect("a customization")
}

fn scripts(customizations: &[ResourceInterpreterCustomization]) -> Scripts {
    Scripts::of_customizations(engine(), customizations)
}

fn widget() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"n": 2, "map": {}, "list": [], "items": [{"env": []}]}})
}

/// The result of a function with this body for a Widget.
fn answer(field: &str, body: &str) -> Result<Value, String> {
    let (function, arguments) = match field {
        "replicaResource" => ("GetReplicas", "o"),
        "componentResource" => ("GetComponents", "o"),
        "replicaRevision" => ("ReviseReplica", "o, n"),
        "retention" => ("Retain", "o, there"),
        "statusAggregation" => ("AggregateStatus", "o, items"),
        "statusReflection" => ("ReflectStatus", "o"),
        "healthInterpretation" => ("InterpretHealth", "o"),
        "dependencyInterpretation" => ("GetDependencies", "o"),
        other => panic!("no field {other}"),
    };
    let source = format!("function {function}({arguments}) {body} end");
    let layer = scripts(&[customization("c", &[(field, &source)])]);
    let mut object = widget();
    let answered = match field {
        "replicaResource" => layer.get_replicas(&object).map(|(n, needs)| json!([n, needs])),
        "componentResource" => layer.get_components(&object).map(|it| json!(it)),
        "replicaRevision" => layer.revise_replica(&mut object, 7).map(|()| object["spec"].take()),
        "retention" => {
            let mut there = widget();
            there["spec"] = json!({"theirs": 1, "kept": {}, "list": {}});
            layer.retain(&mut object, &there).map(|()| object["spec"].take())
        }
        "statusAggregation" => {
            let items = serde_json::from_value(json!([
                {"clusterName": "m1", "applied": true, "health": "Healthy", "status": {"n": 1}},
                {"clusterName": "m2", "appliedMessage": "no"},
            ]));
            let items: Vec<AggregatedStatusItem> = items.expect("items");
            layer.aggregate_status(&mut object, &items, Time::new(Timestamp::UNIX_EPOCH)).map(|()| object)
        }
        "statusReflection" => layer.reflect_status(&object).map(|it| json!(it)),
        "healthInterpretation" => layer.interpret_health(&object).map(|it| json!(it)),
        _ => layer.get_dependencies(&object).map(|it| json!(it)),
    };
    answered.map_err(|error| error.to_string())
}

/// Scripts written for upstream return early if there is nothing to aggregate.
#[test]
fn no_items_are_nil() {
    let source =
        "function AggregateStatus(o, items) if items == nil then return o end o.status = {n = #items} return o end";
    let layer = scripts(&[customization("c", &[("statusAggregation", source)])]);
    let mut object = widget();
    object["status"] = json!({"n": 5});
    let before = object.clone();
    layer.aggregate_status(&mut object, &[], Time::new(Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(object, before);
    layer.aggregate_status(&mut object, &[AggregatedStatusItem::default()], Time::new(Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(object["status"], json!({"n": 1}));
}

#[test]
fn results_of_functions_are_validated() {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": name});
    let mut folded = widget();
    folded["status"] = json!({"n": 2, "first": "m1 true Healthy 1 nil", "second": "m2 nil nil nil no"});
    let mut bare = widget();
    bare["status"] = json!({"n": 1});
    for (field, body, expected) in [
        ("replicaResource", "return o.spec.n * 2", Ok(json!([4, null]))),
        ("replicaResource", "return 2.9, nil", Ok(json!([2, null]))),
        (
            "replicaResource",
            "return 1, {resourceRequest = {cpu = 1, memory = '1Gi'}, nodeClaim = {nodeSelector = {disk = 'ssd'}}}",
            Ok(
                json!([1, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}, "nodeClaim": {"nodeSelector": {"disk": "ssd"}}}]),
            ),
        ),
        ("replicaResource", "return '2'", Err("result type string is not number")),
        ("replicaResource", "return nil", Err("result type nil is not number")),
        ("replicaResource", "return 2, 'much'", Err("expect the returned requires type is table but got string")),
        ("replicaResource", "return 1, {resourceRequest = {cpu = 'much'}}", Err("cpu: \"much\": ")),
        (
            "replicaResource",
            "return 1, {resourceRequest = {memory = '1.5Gi'}}",
            Ok(json!([1, {"resourceRequest": {"memory": "1536Mi"}}])),
        ),
        (
            "componentResource",
            "return {{name = 'a', replicas = 1, replicaRequirements = {resourceRequest = {memory = '1.5Gi'}}}}",
            Ok(json!([{"name": "a", "replicas": 1, "replicaRequirements": {"resourceRequest": {"memory": "1536Mi"}}}])),
        ),
        (
            "componentResource",
            "return {{name = 'a', replicaRequirements = {resourceRequest = {cpu = 'much'}}}}",
            Err("cpu: \"much\": "),
        ),
        ("componentResource", "return nil", Ok(json!([]))),
        ("componentResource", "return {}", Ok(json!([]))),
        ("componentResource", "return {{name = 'a', replicas = 3}}", Ok(json!([{"name": "a", "replicas": 3}]))),
        ("componentResource", "return 3", Err("type is table but got number")),
        (
            "replicaRevision",
            "o.spec.n = n o.spec.new = {} return o",
            Ok(json!({"n": 7, "map": {}, "list": [], "items": [{"env": []}]})),
        ),
        ("replicaRevision", "return nil", Err("type is table but got nil")),
        ("replicaRevision", "return n", Err("type is table but got number")),
        // An empty value in either object is empty in the result; an object, if they differ.
        (
            "retention",
            "o.spec.theirs = there.spec.theirs o.spec.kept = {} return o",
            Ok(json!({"n": 2, "map": {}, "list": {}, "items": [{"env": []}], "theirs": 1, "kept": {}})),
        ),
        ("retention", "return true", Err("type is table but got boolean")),
        (
            "statusAggregation",
            "local function show(it) return it.clusterName .. ' ' .. tostring(it.applied) .. ' ' .. tostring(it.health) .. ' ' \
                .. tostring(it.status and it.status.n) .. ' ' .. tostring(it.appliedMessage) end \
             return {status = {n = #items, first = show(items[1]), second = show(items[2]), none = {}}}",
            Ok(folded),
        ),
        ("statusAggregation", "o.status = {n = 1} o.spec.n = 9 return o", Ok(bare)),
        ("statusAggregation", "o.status = nil return o", Ok(widget())),
        ("statusAggregation", "o.status = 'x' return o", Err("the status in the result is not an object but a string")),
        ("statusAggregation", "o.status = {1} return o", Err("the status in the result is not an object but a table")),
        ("statusAggregation", "return {metadata = {}}", Err("the result is not the object, and it has no status")),
        ("statusAggregation", "return nil", Err("type is table but got nil")),
        ("statusReflection", "return {}", Ok(json!({}))),
        ("statusReflection", "return {a = 1, empty = {}}", Ok(json!({"a": 1}))),
        ("statusReflection", "return nil", Err("type is table but got nil")),
        ("statusReflection", "return o.status", Err("type is table but got nil")),
        ("healthInterpretation", "return true", Ok(json!(true))),
        ("healthInterpretation", "return o.spec.n > 2", Ok(json!(false))),
        ("healthInterpretation", "return nil", Err("type is boolean but got nil")),
        ("healthInterpretation", "return 1", Err("type is boolean but got number")),
        ("dependencyInterpretation", "return {}", Ok(json!([]))),
        (
            "dependencyInterpretation",
            "return {{apiVersion = 'v1', kind = 'ConfigMap', namespace = 'ns', name = 'b'}, \
                {apiVersion = 'v1', kind = 'ConfigMap', namespace = 'ns', name = 'a'}}",
            Ok(json!([map("a"), map("b")])),
        ),
        ("dependencyInterpretation", "return nil", Err("type is table but got nil")),
        ("dependencyInterpretation", "return {{kind = 'ConfigMap', name = 'a'}}", Err("required apiVersion")),
        ("dependencyInterpretation", "return {{apiVersion = 'v1', name = 'a'}}", Err("required kind")),
        ("dependencyInterpretation", "return {{apiVersion = 'v1', kind = 'ConfigMap'}}", Err("name and labelSelector")),
        (
            "dependencyInterpretation",
            "return {{apiVersion = 'v1', kind = 'ConfigMap', labelSelector = {matchExpressions = {{key = 'a', operator = 'Near'}}}}}",
            Err("labelSelector that is not valid"),
        ),
    ] {
        match (answer(field, body), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{field}: {body}"),
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{field}: {body}: {got}"),
            (got, expected) => panic!("{field}: {body}: {got:?}, not {expected:?}"),
        }
    }
}

/// For each operation the first name with a script counts; dependencies are the union of all.
#[test]
fn several_customizations_of_a_kind() {
    let needs = |name: &str| {
        format!(
            "function GetDependencies(o) return {{{{apiVersion = 'v1', kind = 'Secret', namespace = 'ns', name = '{name}'}}, \
             {{apiVersion = 'v1', kind = 'ConfigMap', namespace = 'ns', name = 'shared'}}}} end"
        )
    };
    let (of_a, of_b) = (needs("from-a"), needs("from-b"));
    let layer = scripts(&[
        customization(
            "b",
            &[
                ("replicaResource", "function GetReplicas() return 2 end"),
                ("healthInterpretation", "function InterpretHealth() return false end"),
                ("dependencyInterpretation", &of_b),
            ],
        ),
        customization(
            "a",
            &[
                ("replicaResource", "function GetReplicas() return 1 end"),
                ("healthInterpretation", ""),
                ("dependencyInterpretation", &of_a),
            ],
        ),
        customization("c", &[("replicaResource", "function GetReplicas( return 3 end")]),
    ]);
    assert_eq!(layer.get_replicas(&widget()), Ok((1, None)));
    assert_eq!(layer.interpret_health(&widget()), Ok(false));
    let names: Vec<String> = layer.get_dependencies(&widget()).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["shared", "from-a", "from-b"]);
    let mut other = widget();
    other["apiVersion"] = json!("example.io/v2");
    assert!(!layer.enabled("example.io/v2", "Widget", Operation::InterpretReplica));
    assert!(layer.get_replicas(&other).is_err());
}

/// A customization precedes a webhook, a webhook precedes the shipped customizations, and these precede the built-in
/// kinds: for the operations that each supports, and with its errors.
#[test]
fn layers_in_their_order() {
    let of_shipped = ("apps.kruise.io/v1alpha1", "CloneSet");
    let rules = json!([
        {"operations": ["InterpretReplica", "InterpretHealth"], "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"]},
        {"operations": ["InterpretHealth"], "apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "kinds": ["CloneSet"]},
    ]);
    let configuration: ResourceInterpreterWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "x"}, "webhooks": [{"name": "hook.example.io", "clientConfig": {"url": "https://x"},
            "interpreterContextVersions": ["v1alpha1"], "rules": rules}]}))
    .unwrap();
    let custom = [
        of_kind(
            "c",
            "apps/v1",
            "Deployment",
            &[("healthInterpretation", "function InterpretHealth() return true end")],
        ),
        of_kind("d", "apps/v1", "StatefulSet", &[("replicaResource", "function GetReplicas() error('broken') end")]),
        of_kind("f", "apps/v1", "ReplicaSet", &[("replicaResource", "function GetReplicas() return -5 end")]),
        of_kind("e", of_shipped.0, of_shipped.1, &[("replicaResource", "function GetReplicas() return 40 end")]),
    ];
    let conversation = Arc::new(Conversation::new(Arc::new(Hooks::of_configurations([&configuration]))));
    let interpreter = Interpreter::with_layers(vec![
        Arc::new(scripts(&custom)),
        conversation.clone(),
        Arc::new(shipped::layer(engine())),
    ]);
    let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "generation": 1}, "spec": {"replicas": 3}});
    let calls = || conversation.take_questions().len();

    // The customization; no webhook is called.
    assert_eq!(interpreter.interpret_health(&object("apps/v1", "Deployment")), Ok(true));
    assert_eq!(calls(), 0);
    // The webhook, not the built-in kind.
    assert!(interpreter.get_replicas(&object("apps/v1", "Deployment")).is_err());
    assert_eq!(calls(), 1);
    // The built-in kind, for operations without another layer.
    let mut deployment = object("apps/v1", "Deployment");
    interpreter.revise_replica(&mut deployment, 9).unwrap();
    assert_eq!((&deployment["spec"]["replicas"], calls()), (&json!(9), 0));
    // An error is final, although a built-in rule has a result.
    let error = interpreter.get_replicas(&object("apps/v1", "StatefulSet")).unwrap_err().to_string();
    assert!(error.contains("broken"), "{error}");
    let error = interpreter.get_replicas(&object("apps/v1", "ReplicaSet")).unwrap_err().to_string();
    assert!(error.contains("the number of replicas is negative: -5"), "{error}");
    // The webhook, not the shipped customization; the customization, not the shipped one; the shipped one.
    assert!(interpreter.interpret_health(&object(of_shipped.0, of_shipped.1)).is_err());
    assert_eq!(calls(), 1);
    assert_eq!(interpreter.get_replicas(&object(of_shipped.0, of_shipped.1)), Ok((40, None)));
    let mut shipped = object(of_shipped.0, of_shipped.1);
    interpreter.revise_replica(&mut shipped, 5).unwrap();
    assert_eq!((&shipped["spec"]["replicas"], calls()), (&json!(5), 0));
    // No layer returns components of a built-in kind, and all kinds have a status.
    assert!(!interpreter.enabled("apps/v1", "Deployment", Operation::InterpretComponent));
    assert!(interpreter.get_components(&object("apps/v1", "Deployment")).is_err());
    assert!(interpreter.enabled("any.example.io/v1", "Thing", Operation::InterpretStatus));
    assert!(
        !interpreter.enabled("apps/v2", "Deployment", Operation::InterpretReplica),
        "kinds are distinguished by version"
    );
}

#[test]
fn a_result_for_another_object_is_an_error() {
    let object = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ns"}});
    for (change, fits) in [
        ("o.metadata.labels = {a = 'b'}", true),
        ("o.metadata.name = 'other'", false),
        ("o.metadata.namespace = nil", false),
        ("o.kind = 'Other'", false),
        ("o.apiVersion = 'apps/v2'", false),
        ("o = seen or {}", false),
    ] {
        let functions =
            ["ReviseReplica(o)", "Retain(o, seen)"].map(|it| format!("function {it} {change} return o end"));
        let [revision, retention] = functions.each_ref().map(String::as_str);
        let custom = of_kind("c", "apps/v1", "Deployment", &[("replicaRevision", revision), ("retention", retention)]);
        let interpreter = Interpreter::with_layers(vec![Arc::new(scripts(&[custom]))]);
        let (mut revised, mut retained) = (object("web"), object("web"));
        let answers =
            [interpreter.revise_replica(&mut revised, 1), interpreter.retain(&mut retained, &object("elsewhere"))];
        for answer in answers {
            match answer {
                Ok(()) => assert!(fits, "{change}"),
                Err(error) => assert!(!fits && error.to_string().contains("another object"), "{change}: {error}"),
            }
        }
    }
}
