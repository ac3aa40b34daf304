//! Ownership over whole requests. Expectations are the responses of a kube-apiserver 1.36 to the same requests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::TypeOf;
use crate::test_schemas::{config_map, deployment};

/// An object and the requests that change it, each a second later than the one before.
pub(super) struct Server {
    type_: TypeOf,
    version: &'static str,
    pub live: Option<Value>,
    clock: i64,
}

impl Server {
    pub fn config_maps() -> Self {
        Self { type_: config_map(), version: "v1", live: None, clock: 0 }
    }

    pub fn deployments() -> Self {
        Self { type_: deployment(), version: "apps/v1", ..Self::config_maps() }
    }

    fn context<'a>(&mut self, manager: &'a str, subresource: &'a str, reset: &'a FieldSet) -> ManagerContext<'a> {
        self.clock += 1;
        let (reset_fields, now) = (reset, Time::new(jiff::Timestamp::from_second(self.clock).expect("in range")));
        ManagerContext { manager, api_version: self.version, subresource, now, reset_fields, versions: ONE_VERSION }
    }

    pub fn apply(&mut self, manager: &str, patch: Value, force: bool) -> Result<&Value, ApplyError> {
        let context = self.context(manager, "", &NO_FIELDS);
        let result = apply(self.live.as_ref(), &patch, &context, force, &self.type_)?;
        Ok(self.live.insert(result))
    }

    pub fn update(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) {
        let mut new = self.live.clone().unwrap_or_else(|| json!({}));
        change(&mut new);
        let context = self.context(manager, subresource, &NO_FIELDS);
        update(self.live.as_ref(), &mut new, &context, &self.type_);
        self.live = Some(new);
    }

    pub fn merge(&mut self, manager: &str, patch: Value) {
        self.update(manager, "", |object| crate::merge_patch::apply(object, &patch));
    }

    /// `MANAGER OPERATION[/SUBRESOURCE][@TIME] FIELDS` for each entry.
    pub fn owners(&self) -> Vec<String> {
        let entries = self.live.as_ref().and_then(|o| o["metadata"]["managedFields"].as_array());
        let text = |entry: &Value, key: &str, before: &str| {
            entry[key]
                .as_str()
                .map(|t| format!("{before}{}", t.trim_start_matches("1970-01-01T00:00:")))
                .unwrap_or_default()
        };
        entries
            .into_iter()
            .flatten()
            .map(|e| {
                format!(
                    "{} {}{}{} {}",
                    text(e, "manager", ""),
                    text(e, "operation", ""),
                    text(e, "subresource", "/"),
                    text(e, "time", "@"),
                    e["fieldsV1"]
                )
            })
            .collect()
    }
}

pub(super) fn cm(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[track_caller]
pub(super) fn conflict(result: Result<&Value, ApplyError>) -> String {
    match result {
        Err(error @ ApplyError::Conflicts(_)) => error.to_string(),
        other => panic!("no conflict: {other:?}"),
    }
}

#[test]
fn ownership_of_fields_moves_between_managers() {
    let mut server = Server::config_maps();
    let apply = |server: &mut Server, manager: &str, data: Value, force| {
        server.apply(manager, cm(data), force).map(drop).expect("applies");
        server.owners()
    };
    assert_eq!(
        apply(&mut server, "m1", json!({"x": "1", "y": "1"}), false),
        [r#"m1 Apply@01Z {"f:data":{"f:x":{},"f:y":{}}}"#]
    );
    assert_eq!(
        apply(&mut server, "m1", json!({"x": "1", "y": "1"}), false),
        [r#"m1 Apply@01Z {"f:data":{"f:x":{},"f:y":{}}}"#]
    );
    assert_eq!(apply(&mut server, "m1", json!({"x": "1"}), false), [r#"m1 Apply@03Z {"f:data":{"f:x":{}}}"#]);
    assert_eq!(server.live.as_ref().expect("live")["data"], json!({"x": "1"}));
    assert_eq!(
        apply(&mut server, "m2", json!({"x": "1"}), false),
        [r#"m2 Apply {"f:data":{"f:x":{}}}"#, r#"m1 Apply@03Z {"f:data":{"f:x":{}}}"#]
    );
    assert_eq!(
        conflict(server.apply("m3", cm(json!({"x": "2"})), false)),
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.x\nconflicts with \"m2\":\n- .data.x"
    );
    assert_eq!(apply(&mut server, "m3", json!({"x": "2"}), true), [r#"m3 Apply@06Z {"f:data":{"f:x":{}}}"#]);
    server
        .apply("m1", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}), false)
        .map(drop)
        .expect("applies");
    assert_eq!(server.owners(), [r#"m3 Apply@06Z {"f:data":{"f:x":{}}}"#]);
    server.merge("upd", json!({"data": {"x": "9"}}));
    assert_eq!(server.owners(), [r#"upd Update@08Z {"f:data":{"f:x":{}}}"#]);
    assert_eq!(
        conflict(server.apply("m3", cm(json!({"x": "2", "z": "1"})), false)),
        "Apply failed with 1 conflict: conflict with \"upd\" using v1: .data.x"
    );
    // Removed owners stay removed until the next apply, which adds one owner of everything.
    server.merge("upd", json!({"metadata": {"managedFields": [{}]}}));
    assert!(server.owners().is_empty());
    server.merge("late", json!({"data": {"late": "1"}}));
    assert!(server.owners().is_empty());
    assert_eq!(
        conflict(server.apply("m4", cm(json!({"x": "77"})), false)),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
}

#[test]
fn null_releases_only_applied_fields() {
    let mut server = Server::config_maps();
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}, "data": {"k": "v"}});
    server.apply("a", labelled(json!({"own": "1"})), false).expect("applied");
    server.merge("b", labelled(json!({"other": "1"})));
    let left = server.apply("a", labelled(Value::Null), false).expect("no conflict");
    assert_eq!(left["metadata"]["labels"], json!({"other": "1"}));
    assert!(
        server.owners()[0].ends_with(r#"{"f:data":{"f:k":{}},"f:metadata":{"f:labels":{}}}"#),
        "{:?}",
        server.owners()
    );
    server.apply("a", json!({"data": null}), false).expect("applied");
    assert!(server.live.as_ref().is_some_and(|live| live["data"].is_null()), "it had no other owner");
}

#[test]
fn refused_configurations() {
    let mut server = Server::config_maps();
    let mut bogus = cm(json!({}));
    bogus["bogus"] = json!(1);
    let error = server.apply("m", bogus, false).map(drop).expect_err("unknown field");
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema"
    );
    let error = server.apply("m", cm(json!({"n": 80})), false).map(drop).expect_err("a number for a string");
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data.n: expected string, got &value.valueUnstructured{Value:80}"
    );
    let mut owned = cm(json!({}));
    owned["metadata"]["managedFields"] = json!([{}]);
    assert_eq!(server.apply("m", owned, false).map(drop), Err(ApplyError::ManagedFieldsSet));
    let mut server = Server::deployments();
    let twice = deploy(json!([{"name": "a", "image": "i1"}, {"name": "a", "image": "i2"}]));
    let error = server.apply("m", twice, false).map(drop).expect_err("duplicate");
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name=\"a\"]"
    );
    let at = ".spec.template.spec.containers";
    for (containers, expected) in [
        (
            json!([{"name": "a", "env": [{"value": "v"}]}]),
            format!(
                "{at}[name=\"a\"].env: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't \
             have default values for any key fields)"
            ),
        ),
        (
            json!([{"name": "a"}, 7]),
            format!("{at}: element 1: associative list with keys may not have non-map elements"),
        ),
        (json!([null]), format!("{at}: element 0: associative list with keys may not have a null element")),
        (
            json!([{"name": "a", "image": 1, "imagge": 2, "zone": 3}, {"name": "b", "args": [1]}]),
            format!(
                "errors:\n  {at}[name=\"a\"].image: expected string, got &value.valueUnstructured{{Value:1}}\n  \
                 {at}[name=\"a\"].imagge: field not declared in schema\n  \
                 {at}[name=\"b\"].args[0]: expected string, got &value.valueUnstructured{{Value:1}}"
            ),
        ),
    ] {
        let error = server.apply("m", deploy(containers.clone()), false).map(drop).expect_err("ill typed").to_string();
        let text = error.strip_prefix("failed to create typed patch object (/d; apps/v1, Kind=Deployment): ");
        assert_eq!(text, Some(expected.as_str()), "{containers}");
    }
    // A required string that is absent is printed as empty; validation reports it.
    let applied = server.apply("m", deploy(json!([{"image": "i"}])), false).expect("well typed");
    assert_eq!(applied["spec"]["template"]["spec"]["containers"][0]["image"], "i");
}

fn deploy(containers: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": containers}}}})
}

fn full(containers: Value) -> Value {
    let mut object = deploy(containers);
    object["spec"]["replicas"] = json!(2);
    object["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
    object["spec"]["template"]["metadata"] = json!({"labels": {"app": "x"}});
    object
}

#[test]
fn a_deployment_is_shared() {
    let mut server = Server::deployments();
    let one =
        json!([{"name": "a", "image": "i1", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}]}]);
    server.apply("m1", full(one), false).map(drop).expect("applies");
    // Fields added by defaulting have no owner.
    let live = server.live.as_mut().expect("live");
    live["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    live["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
    let m1 = r#"m1 Apply@01Z {"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:env":{"k:{\"name\":\"E\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}"#;
    assert_eq!(server.owners(), [m1]);
    server
        .apply("m2", deploy(json!([{"name": "a", "env": [{"name": "F", "value": "2"}]}])), false)
        .map(drop)
        .expect("applies");
    server
        .apply("m5", deploy(json!([{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}])), false)
        .map(drop)
        .expect("applies");
    let containers =
        |server: &Server| server.live.as_ref().expect("live")["spec"]["template"]["spec"]["containers"].clone();
    let ports = json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]);
    assert_eq!(
        containers(&server),
        json!([{"name": "a", "image": "i1", "ports": ports, "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]}])
    );
    // The first manager gives up its variable; the second's stays.
    let fewer = || full(json!([{"name": "a", "image": "i1", "ports": [{"containerPort": 80}]}]));
    server.apply("m1", fewer(), false).map(drop).expect("applies");
    assert_eq!(containers(&server)[0]["env"], json!([{"name": "F", "value": "2"}]));
    assert_eq!(server.live.as_ref().expect("live")["spec"]["strategy"]["type"], "RollingUpdate");

    server.update("scaler", "scale", |object| object["spec"]["replicas"] = json!(5));
    assert_eq!(
        conflict(server.apply("m1", fewer(), false)),
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
    let mut without = fewer();
    without["spec"].as_object_mut().expect("a map").remove("replicas");
    server.apply("m1", without, false).map(drop).expect("applies");
    assert_eq!(server.live.as_ref().expect("live")["spec"]["replicas"], 5);
    let mut other = deploy(json!([]));
    other["spec"] = json!({"selector": {"matchLabels": {"b": "c"}}});
    assert_eq!(
        conflict(server.apply("mat", other, false)),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.selector"
    );
    let meta = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "finalizers": ["a.b/c"],
        "labels": {"q": "1"}, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u1"}]}});
    server.apply("mf", meta, false).map(drop).expect("applies");
    let mf = r#"{"f:metadata":{"f:finalizers":{"v:\"a.b/c\"":{}},"f:labels":{"f:q":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}}}"#;
    assert!(server.owners().iter().any(|o| o.starts_with("mf Apply") && o.ends_with(mf)), "{:?}", server.owners());
    // A null is owned and unsets.
    let mut null = deploy(json!([]));
    null["spec"] = json!({"paused": null});
    server.apply("mn", null, false).map(drop).expect("applies");
    assert!(server.owners().iter().any(|o| o.starts_with("mn Apply") && o.ends_with(r#"{"f:spec":{"f:paused":{}}}"#)));
    assert_eq!(server.live.as_ref().expect("live")["spec"].get("paused"), None);
}

#[test]
fn a_create_owns_the_fields_that_go_encodes() {
    let mut server = Server::deployments();
    server.update("kubectl-create", "", |object| {
        *object =
            full(json!([{"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]));
        object["metadata"]["labels"] = json!({"app": "x"});
        object["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
        object["spec"]["template"]["spec"]["securityContext"] = json!({});
        object["status"] = json!({});
    });
    assert_eq!(
        server.owners(),
        [concat!(
            r#"kubectl-create Update@01Z {"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"#,
            r#""f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},"#,
            r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"nginx\"}":"#,
            r#"{".":{},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":"#,
            r#"{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}},"f:securityContext":{}}}}}"#
        )]
    );
    // Removing a field removes it from its owner; status through its own endpoint makes its own entry.
    server.update("c", "status", |object| {
        object["status"] = json!({"replicas": 1, "conditions": [{"type": "A", "status": "True"}]})
    });
    let status = r#"c Update/status@02Z {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"A\"}":{".":{},"f:status":{},"f:type":{}}},"f:replicas":{}}}"#;
    assert_eq!(server.owners()[1], status);
    server.merge("c", json!({"spec": {"replicas": null}}));
    assert!(!server.owners()[0].contains("replicas"), "{:?}", server.owners());
}

#[test]
fn moving_from_client_side_apply() {
    let annotation = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n";
    let mut server = Server::config_maps();
    server.update("kubectl-client-side-apply", "", |object| {
        *object = cm(json!({"a": "1", "b": "2"}));
        object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    });
    server.apply("kubectl", cm(json!({"a": "<2>"})), false).map(drop).expect("kubectl takes over from itself");
    let live = server.live.as_ref().expect("live");
    assert_eq!(live["data"], json!({"a": "<2>", "b": "2"}));
    assert_eq!(
        live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    assert_eq!(
        server.owners(),
        [
            r#"kubectl Apply@02Z {"f:data":{"f:a":{}}}"#,
            r#"kubectl-client-side-apply Update@01Z {"f:data":{".":{},"f:b":{}},"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}}}"#
        ]
    );
}

#[test]
fn update_entries_are_bounded_and_times_ignored() {
    let mut server = Server::config_maps();
    for n in 0..30 {
        server.merge(&format!("m{n:02}"), json!({"data": {format!("k{n:02}"): "1"}}));
    }
    let owners = server.owners();
    assert_eq!(owners.len(), 10);
    let keys: usize = owners.iter().map(|owner| owner.matches("f:k").count()).sum();
    assert_eq!((keys, owners.iter().filter(|o| o.starts_with("ancient-changes")).count()), (30, 1));

    let old = server.live.clone().expect("live");
    let mut new = old.clone();
    new["metadata"]["managedFields"][3]["time"] = json!("2030-01-01T00:00:00Z");
    keep_old_times(&old, &mut new);
    assert_eq!(new, old);
    new["data"]["z"] = json!("1");
    new["metadata"]["managedFields"][3]["time"] = json!("2030-01-01T00:00:00Z");
    keep_old_times(&old, &mut new);
    assert_eq!(new["metadata"]["managedFields"][3]["time"], "2030-01-01T00:00:00Z");
}

/// From kubernetes' integration tests of apply: managers renamed to one name are merged; the last apply counts.
#[test]
fn entries_of_one_manager_are_merged() {
    let mut server = Server::config_maps();
    let labelled = |label: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {label: "x"}}});
    server.apply("one", labelled("a"), false).expect("applied");
    server.apply("two", labelled("b"), false).expect("applied");
    server.update("anyone", "", |object| {
        for entry in object["metadata"]["managedFields"].as_array_mut().expect("two entries") {
            entry["manager"] = "both".into();
        }
    });
    assert_eq!(server.owners(), [r#"both Apply@02Z {"f:metadata":{"f:labels":{"f:b":{}}}}"#]);
    server.update("anyone", "", |object| object["metadata"]["managedFields"] = json!([]));
    assert_eq!(server.owners(), [""; 0]);
}

#[test]
fn applied_items_keep_the_patchs_order() {
    for (live, patch, expected) in [
        ("a b c", "c a", "b c a"),
        ("a b c", "x", "a b c x"),
        ("a b c", "b x", "a b c x"),
        ("a x b", "b a", "x b a"),
        ("", "b a", "b a"),
        ("a b", "a n b", "a n b"),
    ] {
        let list = |names: &str| -> Value {
            let items: Vec<Value> = names.split_whitespace().map(|n| json!({"name": n})).collect();
            deploy(Value::Array(items))
        };
        let type_ = deployment();
        let mut result = list(live);
        merge::merge(&mut result, &list(patch), place::Place::root(&type_), 0);
        let containers = result["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = containers.iter().filter_map(|c| c["name"].as_str()).collect();
        assert_eq!(names.join(" "), expected, "{live} + {patch}");
    }
}

fn any_deployment() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[A-C]", "[xy]", 0..3)
        .prop_map(|m| m.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>());
    let containers = prop::collection::btree_map("[abc]", (env, "[ij]"), 0..3).prop_map(|m| {
        m.into_iter().map(|(name, (env, image))| json!({"name": name, "image": image, "env": env})).collect::<Vec<_>>()
    });
    let labels = prop::collection::btree_map("[k-m]", "[xy]", 0..3);
    (containers, labels, prop::option::of(0..3)).prop_map(|(containers, labels, replicas)| {
        let mut object = deploy(containers.into());
        object["metadata"]["labels"] = json!(labels);
        object["metadata"]["finalizers"] = labels.keys().map(|k| format!("{k}/f")).collect();
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = json!(replicas);
        }
        object
    })
}

proptest! {
    #[test]
    fn applying_the_read_object_changes_no_value(first in any_deployment(), second in any_deployment()) {
        let mut server = Server::deployments();
        server.merge("writer", first);
        server.apply("m", second, true).map(drop).expect("force applies");
        let before = server.live.clone().expect("live");
        let mut read = before.clone();
        entries::remove(&mut read);
        let mut after = server.apply("reader", read.clone(), false).expect("no conflict").clone();
        entries::remove(&mut after);
        prop_assert_eq!(after, read);
    }

    #[test]
    fn apply_sets_applied_fields_and_removes_dropped_ones(first in any_deployment(), second in any_deployment()) {
        let mut server = Server::deployments();
        server.apply("m", first, false).map(drop).expect("applies");
        server.apply("m", second.clone(), false).map(drop).expect("applies");
        let mut only = Server::deployments();
        only.apply("m", second, false).map(drop).expect("applies");
        let spec = |server: &Server| {
            let mut spec = server.live.clone().expect("live");
            entries::remove(&mut spec);
            spec
        };
        // Lists and maps that became empty may be removed or stay empty.
        prop_assert_eq!(without_empty(spec(&server)), without_empty(spec(&only)));
    }

    #[test]
    fn a_repeated_update_changes_nothing(first in any_deployment(), second in any_deployment()) {
        let mut server = Server::deployments();
        server.merge("a", first);
        server.merge("b", second.clone());
        let before = server.live.clone();
        server.merge("b", second);
        prop_assert_eq!(&server.live, &before);
    }
}

fn without_empty(value: Value) -> Value {
    let is_empty = |v: &Value| v.as_object().is_some_and(|m| m.is_empty()) || v.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(map) => {
            map.into_iter().map(|(k, v)| (k, without_empty(v))).filter(|(_, v)| !is_empty(v)).collect()
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

#[test]
#[ignore = "a measurement, for release builds"]
#[allow(clippy::disallowed_methods, reason = "it measures real time")]
fn measure_an_update() {
    let container = |n: usize| {
        let env: Vec<Value> = (0..8).map(|e| json!({"name": format!("E{e}"), "value": "some value"})).collect();
        json!({"name": format!("c{n}"), "image": "registry/image:tag", "imagePullPolicy": "Always", "resources": {"limits": {"cpu": "1"}},
            "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": env})
    };
    let mut server = Server::deployments();
    server.merge("creator", full(json!([container(0), container(1)])));
    server.update("controller", "status", |o| {
        o["status"] = json!({"replicas": 1, "conditions": [{"type": "A", "status": "True"}]})
    });
    let old = server.live.clone().expect("live");
    let rounds = 10_000u32;
    let context = server.context("scaler", "", &NO_FIELDS);
    let started = std::time::Instant::now();
    for n in 0..rounds {
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(n + 10);
        update(Some(&old), &mut new, &context, &server.type_);
        std::hint::black_box(&new);
    }
    let whole = started.elapsed() / rounds;
    let started = std::time::Instant::now();
    for _ in 0..rounds {
        std::hint::black_box(old.clone());
    }
    println!("update with the clone of the object: {whole:?}, the clone alone: {:?}", started.elapsed() / rounds);
}
