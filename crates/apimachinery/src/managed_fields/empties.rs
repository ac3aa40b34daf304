//! Ownership of values without content (null, empty maps and lists) and of items that share a key. Expectations are the
//! results of apimachinery's managedfields 1.36 for the same histories.

use serde_json::{Value, json};

use super::tests::{Server, cm, conflict};

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
}

fn container(container: Value) -> Value {
    deployment(json!({"template": {"spec": {"containers": [container]}}}))
}

#[test]
fn a_null_takes_over_an_unset_field() {
    let mut server = Server::deployments();
    server.apply("m1", deployment(json!({"paused": null})), false).expect("applies");
    assert_eq!(server.live.as_ref().expect("live")["spec"], json!({}), "unset, but owned");
    assert_eq!(
        conflict(server.apply("m2", deployment(json!({"paused": null})), false)),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.paused"
    );
    server.apply("m2", deployment(json!({"paused": null})), true).expect("applies");
    assert_eq!(server.owners(), [r#"m2 Apply@03Z {"f:spec":{"f:paused":{}}}"#]);
}

#[test]
fn a_null_conflicts_with_the_owner_of_an_empty_value() {
    let mut server = Server::deployments();
    server.apply("m1", container(json!({"name": "c", "resources": {}})), false).expect("applies");
    assert_eq!(
        conflict(server.apply("m2", container(json!({"name": "c", "resources": null})), false)),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.template.spec.containers[name=\"c\"].resources"
    );
}

#[test]
fn a_printed_null_is_changed_by_a_list() {
    let mut server = Server::deployments();
    server.apply("m1", container(json!({"name": "c", "args": ["x"]})), false).expect("applies");
    // The content of a list that its Go struct prints as null was lost when it was stored.
    server.live.as_mut().expect("live")["spec"]["template"]["spec"]["containers"][0]["args"] = Value::Null;
    assert_eq!(
        conflict(server.apply("m2", container(json!({"name": "c", "args": ["y"]})), false)),
        "Apply failed with 1 conflict: conflict with \"m1\": .spec.template.spec.containers[name=\"c\"].args"
    );
}

#[test]
fn a_map_that_lost_its_content_keeps_its_owners() {
    let mut server = Server::config_maps();
    server.merge("upd", cm(json!({"y": "1"})));
    server.apply("m1", cm(json!({"x": "1"})), false).expect("applies");
    server.merge("upd", json!({"data": {"y": null}}));
    server.apply("m1", cm(json!({})), false).expect("applies");
    assert_eq!(server.owners(), [r#"m1 Apply@04Z {"f:data":{}}"#, r#"upd Update@03Z {"f:data":{}}"#]);
}

#[test]
fn items_that_begin_or_cease_to_share_a_key_are_added() {
    let mut server = Server::deployments();
    let env = |names: &[(&str, &str)]| -> Value {
        names.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let set = |server: &mut Server, manager: &str, env: Value| {
        server.update(manager, "", |object| *object = container(json!({"name": "c", "env": env})));
        server.owners()
    };
    set(&mut server, "m1", env(&[("A", "1")]));
    let begins = set(&mut server, "m2", env(&[("A", "1"), ("A", "2")]));
    assert_eq!(
        begins[1],
        r#"m2 Update@02Z {"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:env":{"k:{\"name\":\"A\"}":{}}}}}}}}"#
    );
    let ceases = set(&mut server, "m3", env(&[("A", "1")]));
    assert_eq!(
        ceases[1],
        r#"m3 Update@03Z {"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}}"#
    );
}

#[test]
fn conflicts_list_the_members_of_a_level_first_and_applies_before_updates() {
    let mut server = Server::deployments();
    let pod = |text: &str| {
        deployment(json!({"template": {"spec": {"containers": [{"name": "c", "image": text}], "dnsPolicy": text}}}))
    };
    server.apply("m", pod("x"), false).expect("applies");
    server.merge("m", json!({"spec": {"replicas": 1}}));
    server.update("m", "scale", |object| object["spec"]["paused"] = true.into());
    let mut patch = pod("y");
    patch["spec"]["replicas"] = 2.into();
    patch["spec"]["paused"] = false.into();
    assert_eq!(
        conflict(server.apply("n", patch, false)),
        "Apply failed with 4 conflicts: conflicts with \"m\":\n- .spec.template.spec.dnsPolicy\n\
         - .spec.template.spec.containers[name=\"c\"].image\nconflicts with \"m\" with subresource \"scale\" using apps/v1:\n\
         - .spec.paused\nconflicts with \"m\" using apps/v1:\n- .spec.replicas"
    );
}
