//! Usage and limits of quotas.

use serde_json::json;

use super::*;

fn quota(hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn pod(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
}

#[test]
fn usage_is_computed_per_kind() {
    let shown = |group: &str, plural: &str, object: Value| -> Vec<String> {
        usage(group, plural, &object).iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    };
    assert_eq!(
        shown("", "pods", pod(json!({"cpu": "100m", "example.com/gpu": "1"}))),
        ["count/pods=1", "cpu=100m", "pods=1", "requests.cpu=100m", "requests.example.com/gpu=1"]
    );
    let mut done = pod(json!({"cpu": "1"}));
    done["status"]["phase"] = "Succeeded".into();
    assert_eq!(shown("", "pods", done), ["count/pods=1"]);
    assert_eq!(
        shown("", "services", json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}})),
        ["count/services=1", "services=1", "services.loadbalancers=1", "services.nodeports=2"]
    );
    let spec = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{}, {"nodePort": 3}]});
    assert_eq!(
        shown("", "services", json!({ "spec": spec })),
        ["count/services=1", "services=1", "services.loadbalancers=1", "services.nodeports=1"]
    );
    let expanding = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        "spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}}});
    assert_eq!(
        shown("", "persistentvolumeclaims", expanding),
        [
            "count/persistentvolumeclaims=1",
            "old.storageclass.storage.k8s.io/persistentvolumeclaims=1",
            "old.storageclass.storage.k8s.io/requests.storage=2Gi",
            "persistentvolumeclaims=1",
            "requests.storage=2Gi"
        ]
    );
    let claim = json!({"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}});
    assert!(
        shown("", "persistentvolumeclaims", claim)
            .contains(&"s.storageclass.storage.k8s.io/requests.storage=1Gi".to_owned())
    );
    assert_eq!(shown("apps", "deployments", json!({})), ["count/deployments.apps=1"]);
}

#[test]
fn exceeded_quotas_get_upstreams_messages() {
    let used = |quota: Value, object: &Value| charge(&quota, "", "pods", None, object);
    let fits = used(
        quota(json!({"pods": "2", "cpu": "1"}), json!({"pods": "1", "cpu": "900m"})),
        &pod(json!({"cpu": "100m"})),
    );
    assert_eq!(fits, Ok(json!({"pods": "2", "cpu": "1"}).as_object().cloned()));
    for (quota, expected) in [
        (
            quota(json!({"pods": "1"}), json!({"pods": "1"})),
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (
            quota(json!({"requests.cpu": "1", "pods": "5"}), json!({"requests.cpu": "950m", "pods": "1"})),
            "exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=950m, limited: requests.cpu=1",
        ),
        (
            quota(json!({"limits.memory": "1Gi", "memory": "1Gi"}), json!({})),
            "failed quota: q: must specify limits.memory for: c; memory for: c",
        ),
        (quota(json!({"pods": "1"}), json!({})), "status unknown for quota: q, resources: pods"),
    ] {
        assert_eq!(used(quota, &pod(json!({"cpu": "100m"}))), Err(expected.to_owned()));
    }
    assert_eq!(used(json!({"spec": {"hard": {"pods": "0"}}}), &pod(json!({}))), Ok(None), "not counted yet");
}

#[test]
fn resources_of_the_pod_stand_for_those_of_containers() {
    let quota = quota(json!({"cpu": "3"}), json!({"cpu": "1"}));
    let mut silent = pod(json!({}));
    assert!(charge(&quota, "", "pods", None, &silent).is_err());
    silent["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(charge(&quota, "", "pods", None, &silent), Ok(json!({"cpu": "2"}).as_object().cloned()));
}

#[test]
fn scopes_choose_pods() {
    let scoped = |scopes: Value| json!({"spec": {"scopes": scopes}});
    let best_effort = pod(json!({}));
    assert!(matches(&scoped(json!(["BestEffort", "NotTerminating"])), "", "pods", &best_effort));
    assert!(!matches(&scoped(json!(["NotBestEffort"])), "", "pods", &best_effort));
    assert!(!matches(&scoped(json!(["BestEffort"])), "", "services", &json!({})));
    let selector = json!({"spec": {"scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
    ]}}});
    let mut high = pod(json!({}));
    high["spec"]["priorityClassName"] = "high".into();
    assert!(matches(&selector, "", "pods", &high) && !matches(&selector, "", "pods", &best_effort));
}

#[test]
fn claims_are_chosen_by_the_classes_they_name() {
    let claim = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let (plain, gold) = (claim(json!({}), json!({})), json!({"volumeAttributesClassName": "gold"}));
    let changing = claim(json!({}), json!({"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}}));
    let former = claim(gold.clone(), json!({"currentVolumeAttributesClassName": "silver"}));
    let gold = claim(gold, json!({}));
    for (operator, chosen) in [
        ("In", [false, true, true, true]),
        ("NotIn", [true, false, false, true]),
        ("Exists", [false, true, true, true]),
        ("DoesNotExist", [true, false, false, false]),
    ] {
        let selector = json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": ["gold"]});
        let quota = json!({"spec": {"scopeSelector": {"matchExpressions": [selector]}}});
        let found = [&plain, &gold, &changing, &former].map(|it| matches(&quota, "", "persistentvolumeclaims", it));
        assert_eq!(found, chosen, "{operator}");
    }
    let scoped = json!({"spec": {"scopes": ["VolumeAttributesClass"]}});
    assert!(matches(&scoped, "", "persistentvolumeclaims", &gold));
    assert!(!matches(&scoped, "", "persistentvolumeclaims", &plain) && !matches(&scoped, "", "pods", &gold));
}

#[test]
fn objects_that_enter_a_scope_are_charged_in_full() {
    let mut terminating = quota(json!({"pods": "1"}), json!({"pods": "0"}));
    terminating["spec"]["scopes"] = json!(["Terminating"]);
    let before = pod(json!({}));
    let mut after = before.clone();
    after["spec"]["activeDeadlineSeconds"] = 60.into();
    let charged = charge(&terminating, "", "pods", Some(&before), &after);
    assert_eq!(charged, Ok(json!({"pods": "1"}).as_object().cloned()));
    assert_eq!(charge(&terminating, "", "pods", Some(&after), &after), Ok(None));
}

#[test]
fn a_recount_names_every_limit() {
    let quota = quota(json!({"pods": "5", "cpu": "2", "count/jobs.batch": "1"}), json!({}));
    let pods = [pod(json!({"cpu": "1"})), pod(json!({"cpu": "250m"}))];
    let used = recount(&quota, pods.iter().map(|pod| ("", "pods", pod)));
    assert_eq!(Value::Object(used), json!({"pods": "2", "cpu": "1250m", "count/jobs.batch": "0"}));
    let hard = json!({"pods": "5", "requests.cpu": "1", "count/jobs.batch": "1", "services.nodeports": "1"});
    let sources = counted(hard.as_object().expect("a map"));
    let named: Vec<&str> = sources.iter().map(|(_, plural)| plural.as_str()).collect();
    assert_eq!(named, ["pods", "services", "jobs"]);
}
