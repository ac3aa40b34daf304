//! A sample manifest of every kind, with every documented feature: accepted by strict decoding, by the schema and by
//! admission, and read back with the defaults.

use std::collections::BTreeMap;
use std::path::Path;

use apiextensions::{defaulting, structural, validation};
use apimachinery::schema::TypeOf;
use apimachinery::{strict, yaml};
use karmada_api::admission::{self, Operation, Options, Request};
use serde_json::{Value, json};

/// A kind with its type and resource.
pub struct Kind {
    pub group: String,
    pub kind: String,
    validator: validation::Validator,
}

impl Kind {
    fn type_of(&self) -> &TypeOf {
        self.validator.type_of()
    }

    pub fn validate(&self, object: &Value) -> Vec<String> {
        self.validator.validate(object).iter().map(ToString::to_string).collect()
    }
}

/// The write path of a server before its store: defaults, mutating rules, schema, validating rules.
pub fn admit(kind: &Kind, operation: Operation, old: Option<&Value>, object: &mut Value) -> Result<(), String> {
    let mut write = object.clone();
    defaulting::default(&mut write, kind.type_of()).expect("few defaults");
    with_request(kind, operation, old, object, |request| admission::mutate(request, &mut write))?;
    // Null fields are dropped before storage.
    defaulting::default(&mut write, kind.type_of()).expect("few defaults");
    let wrong = kind.validate(&write);
    *object = write;
    if !wrong.is_empty() {
        return Err(format!("schema: {}", wrong.join(", ")));
    }
    validate(kind, operation, old, object)
}

pub fn validate(kind: &Kind, operation: Operation, old: Option<&Value>, object: &Value) -> Result<(), String> {
    with_request(kind, operation, old, object, |request| admission::validate(request, object))
}

pub fn with_request<T>(
    kind: &Kind,
    operation: Operation,
    old: Option<&Value>,
    object: &Value,
    run: impl FnOnce(&Request<'_>) -> Result<T, admission::Denied>,
) -> Result<T, String> {
    let other = json!({"metadata": {"name": "theirs"}, "spec": {"target": {"apiVersion": "example.com/v1", "kind": "Database"},
        "customizations": {"retention": {"luaScript": "x"}, "dependencyInterpretation": {"luaScript": "x"}}}});
    let request = Request {
        operation,
        group: &kind.group,
        kind: &kind.kind,
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default(),
        old,
        uuid: "uuid",
        customizations: &[other],
        options: Options {
            multiple_pod_templates: true,
            compile_script: Some(|script| {
                if script.contains('(') && !script.contains(')') { Err("unexpected (".to_owned()) } else { Ok(()) }
            }),
            ..Options::default()
        },
    };
    run(&request).map_err(|denied| denied.to_string())
}

/// Every custom kind by its lower-case name; of bindings the stored version.
pub fn kinds() -> BTreeMap<String, Kind> {
    let custom = karmada_api::crds().into_iter().map(|crd| {
        let spec = &crd["spec"];
        let version = spec["versions"].as_array().unwrap().iter().find(|it| it["storage"] == true).unwrap();
        let type_ = structural::compile(Some(&version["schema"]["openAPIV3Schema"]), None);
        (spec["group"].as_str().unwrap().to_owned(), spec["names"]["kind"].as_str().unwrap().to_owned(), type_)
    });
    // A kind that cannot be listed is a path and not an object.
    let objects = karmada_api::resources(None).into_iter().filter(|it| it.info.verbs.iter().any(|verb| verb == "list"));
    let native = objects.map(|resource| {
        let named = &resource.info.resource;
        (named.group.to_string(), named.kind.to_string(), resource.info.schema.clone())
    });
    custom
        .chain(native)
        .map(|(group, kind, type_)| {
            (kind.to_lowercase(), Kind { group, kind, validator: validation::Validator::new(type_) })
        })
        .collect()
}

pub fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format!("{name}.yaml"));
    yaml::to_json_value(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

#[test]
fn every_kind_has_a_sample_that_is_accepted_and_survives() {
    for (name, kind) in kinds() {
        if name == "theirs" {
            continue;
        }
        let mut sample = read(&name);
        if kind.kind == "ResourceInterpreterCustomization" {
            // The existing customization has the same kind.
            sample["spec"]["target"]["kind"] = json!("Archive");
        }
        let text = serde_json::to_vec(&sample).unwrap();
        let (_, unknown) = strict::decode(&text, kind.type_of()).unwrap();
        assert_eq!(unknown, Vec::<String>::new(), "{name}");
        let mut stored = sample.clone();
        assert_eq!(admit(&kind, Operation::Create, None, &mut stored), Ok(()), "{name}");
        let mut again = stored.clone();
        assert_eq!(admit(&kind, Operation::Update, Some(&stored), &mut again), Ok(()), "{name}");
        assert_eq!(again, stored, "{name}: admission settles");
    }
}

#[test]
fn documented_defaults_are_read_back() {
    let kinds = kinds();
    for (name, pointer, expected) in [
        ("propagationpolicy", "/spec/schedulerName", json!("default-scheduler")),
        ("propagationpolicy", "/spec/failover/application/purgeMode", json!("Gracefully")),
        ("clusterpropagationpolicy", "/spec/conflictResolution", json!("Abort")),
        ("clusterpropagationpolicy", "/spec/preemption", json!("Never")),
        ("clusterpropagationpolicy", "/spec/priority", json!(0)),
        ("clusterpropagationpolicy", "/spec/placement/replicaScheduling/replicaSchedulingType", json!("Divided")),
        ("resourcebinding", "/spec/conflictResolution", json!("Abort")),
        ("cronfederatedhpa", "/spec/rules/0/successfulHistoryLimit", json!(3)),
        ("cronfederatedhpa", "/spec/rules/0/failedHistoryLimit", json!(3)),
        ("cronfederatedhpa", "/spec/rules/0/suspend", json!(false)),
    ] {
        let mut object = read(name);
        admit(&kinds[name], Operation::Create, None, &mut object).unwrap();
        assert_eq!(object.pointer(pointer), Some(&expected), "{name} {pointer}");
    }
    let mut bare = json!({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}],
        "failover": {"application": {"decisionConditions": {}}}, "propagateDeps": true}});
    admit(&kinds["propagationpolicy"], Operation::Create, None, &mut bare).unwrap();
    assert_eq!(bare["spec"]["failover"]["application"]["decisionConditions"]["tolerationSeconds"], 300);
    assert_eq!(bare["spec"]["placement"], json!({}));
}
