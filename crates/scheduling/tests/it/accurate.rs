//! Tables for the accurate estimator: nodes, sets of components, quotas, unschedulable pods.

use std::time::Duration;

use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use scheduling::accurate::{
    AssumedWorkload, State, Switches, component_sets, new_replica_set, replicas, unschedulable_pods,
};
use serde_json::{Value, json};

const MOST: i64 = 2_147_483_647;

/// `2c6Gi8p a` is a node with that room and the label a; `!` has a taint, `#` is cordoned.
fn node(index: usize, text: &str) -> Value {
    let mut words = text.split(' ');
    let capacity = words.next().unwrap();
    let flags: Vec<&str> = words.collect();
    let mut labels = json!({});
    flags.iter().filter(|flag| flag.chars().all(char::is_alphanumeric)).for_each(|flag| labels[*flag] = json!("yes"));
    let mut taints = Vec::new();
    if flags.contains(&"!") {
        taints.push(json!({"key": "k", "value": "v", "effect": "NoSchedule"}));
    }
    json!({"metadata": {"name": format!("n{index}"), "labels": labels}, "status": {"allocatable": amounts(capacity, "110")},
        "spec": {"taints": taints, "unschedulable": flags.contains(&"#")}})
}

/// `1500m2Gi3p1gpu`: thousandths or whole cpus, memory, pods, GPUs.
fn amounts(text: &str, pods: &str) -> Value {
    let mut list = json!({});
    if !pods.is_empty() {
        list["pods"] = json!(pods);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
        let (number, tail) = rest.split_at(end);
        let units = [
            ("Gi", "memory"),
            ("Mi", "memory"),
            ("Ki", "memory"),
            ("gpu", "nvidia.com/gpu"),
            ("c", "cpu"),
            ("m", "cpu"),
            ("p", "pods"),
        ];
        let (unit, name) = units.into_iter().find(|(unit, _)| tail.starts_with(unit)).unwrap();
        let suffix = if matches!(unit, "c" | "p" | "gpu") { "" } else { unit };
        list[name] = json!(format!("{number}{suffix}"));
        rest = &tail[unit.len()..];
    }
    list
}

fn state(nodes: &str) -> State {
    let mut state = State::default();
    nodes
        .split(", ")
        .filter(|text| !text.is_empty())
        .enumerate()
        .for_each(|(index, text)| state.put_node(&node(index, text)));
    state
}

/// `2x 1c1Gi + 1x 3c`, each with an optional `@class`.
fn components(text: &str) -> Vec<Component> {
    let one = |item: &str| {
        let (count, request) = item.split_once("x ").unwrap();
        let (request, class) = request.split_once('@').unwrap_or((request, ""));
        let request = if request == "-" { json!({}) } else { amounts(request, "") };
        let requirements = json!({"resourceRequest": request, "priorityClassName": class});
        serde_json::from_value(
            json!({"name": "c", "replicas": count.parse::<i64>().unwrap(), "replicaRequirements": requirements}),
        )
        .unwrap()
    };
    text.split(" + ").filter(|item| !item.is_empty()).map(one).collect()
}

fn requirements(request: Value, claim: Value) -> ReplicaRequirements {
    let value = json!({"resourceRequest": request, "nodeClaim": claim, "namespace": "foo"});
    serde_json::from_value(value).unwrap()
}

#[test]
fn replicas_on_nodes() {
    let selector = |label: &str| json!({"nodeSelector": {label: "yes"}});
    let affinity = |operator: &str, key: &str, values: Value| {
        json!({"hardNodeAffinity": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]}})
    };
    let field = json!({"hardNodeAffinity": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, {}]}});
    let tolerates = |key: &str| json!({"tolerations": [{"key": key, "operator": "Exists"}]});
    let three = "2c6Gi8p a, 3c5Gi9p a b, 8c16Gi11p c";
    for (id, nodes, claim, expected) in [
        ("NR01", three, Value::Null, 12),
        ("NR02", "2c6Gi1p, 3c5Gi1p, 8c16Gi11p", Value::Null, 10),
        ("NR03", three, selector("b"), 2),
        ("NR04", three, affinity("In", "a", json!(["yes"])), 4),
        ("not in", three, affinity("NotIn", "a", json!(["yes"])), 8),
        ("does not exist", three, affinity("DoesNotExist", "a", json!([])), 8),
        ("exists", three, affinity("Exists", "b", json!([])), 2),
        ("not a number", three, affinity("Gt", "a", json!(["1"])), 0),
        ("no such operator", three, affinity("Near", "a", json!(["1"])), 0),
        ("a field, or a term without anything", three, field, 2),
        ("NR05", "2c6Gi8p !, 3c5Gi9p, 8c16Gi11p", Value::Null, 10),
        ("NR06", "2c6Gi8p !, 3c5Gi9p, 8c16Gi11p", tolerates("k"), 12),
        ("NR07", "2c6Gi8p, 3c5Gi9p, 8c16Gi11p #", Value::Null, 4),
        ("NR07 tolerated", "2c6Gi8p, 3c5Gi9p, 8c16Gi11p #", tolerates("node.kubernetes.io/unschedulable"), 12),
        ("NR08", "", Value::Null, 0),
    ] {
        let required = requirements(amounts("1c2Gi", ""), claim);
        assert_eq!(replicas(&state(nodes), Some(&required), &[], Switches::default(), &()), expected, "{id}");
    }
    assert_eq!(replicas(&state(three), None, &[], Switches::default(), &()), 28, "NR09");
}

#[test]
fn pods_use_capacity_until_they_are_deleted() {
    let mut state = state("4c8Gi10p");
    let pod = |name: &str, node: &str, cpu: &str, phase: &str| {
        json!({"metadata": {"namespace": "a", "name": name},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}]}, "status": {"phase": phase}})
    };
    let required = requirements(amounts("1c", ""), Value::Null);
    let mut fits = |change: &dyn Fn(&mut State)| {
        change(&mut state);
        replicas(&state, Some(&required), &[], Switches::default(), &())
    };
    assert_eq!(fits(&|state| state.put_pod(&pod("x", "n0", "1", "Running"))), 3);
    assert_eq!(fits(&|state| state.put_pod(&pod("x", "n0", "3", "Running"))), 1, "it was resized");
    assert_eq!(fits(&|state| state.put_pod(&pod("y", "", "3", "Pending"))), 1, "on no node");
    assert_eq!(fits(&|state| state.put_pod(&pod("y", "n0", "3", "Running"))), 0);
    assert_eq!(fits(&|state| state.put_pod(&pod("y", "n0", "3", "Succeeded"))), 1);
    assert_eq!(fits(&|state| state.remove_pod(&apimachinery::ObjectKey::namespaced("a", "x"))), 4);
    assert_eq!(fits(&|state| state.remove_node("n0")), 0);
}

#[test]
fn sets_on_nodes() {
    for (id, nodes, set, assumed, expected) in [
        ("SM01", "4c8Gi10p", "1x 1c1Gi", "", 4),
        ("SM02", "4c8Gi10p", "2x 1c1Gi", "", 2),
        ("SM03", "10c10Gi", "1x 2c2Gi + 1x 3c3Gi", "", 2),
        ("SM04", "6c6Gi, 6c6Gi", "2x 3c3Gi + 1x 2c2Gi", "", 1),
        ("SM06", "1c2Gi, 4c8Gi, 8c16Gi", "2x 500m1Gi + 1x 2c4Gi", "", 4),
        ("SM07", "1c, 1c, 1c, 1c", "1x 2c", "", 0),
        (
            "SM08",
            "1c2Gi, 1c2Gi, 3c10Gi, 3c10Gi, 3c10Gi, 3c10Gi, 3c10Gi, 3c10Gi, 4c12Gi, 4c12Gi, 4c12Gi",
            "1x 1c2Gi + 3x 3c10Gi",
            "",
            3,
        ),
        (
            "SM10",
            "1c2Gi, 1c2Gi, 1c2Gi, 1c2Gi, 2c4Gi1gpu, 2c4Gi1gpu, 2c4Gi1gpu, 4c8Gi2gpu, 4c8Gi2gpu",
            "2x 2c4Gi1gpu",
            "",
            3,
        ),
        ("SM11, which upstream finds no place for", "4c, 3c", "1x 3c + 1x 4c", "", 1),
        ("SM12", "4c8Gi10p", "1x 1c1Gi", "1x 1c1Gi", 3),
        ("SM13", "4c8Gi10p", "1x 1c1Gi", "1x 9c1Gi", 4),
        ("SM14", "4c8Gi10p", "1x 1c1Gi", "1x 3c1Gi + 1x 3c1Gi", 1),
        ("nothing but zeros", "4c8Gi10p", "0x 1c1Gi", "", MOST),
        ("no components", "4c8Gi10p", "", "", MOST),
        ("no nodes", "", "1x 1c1Gi", "", 0),
    ] {
        let assumed = AssumedWorkload { namespace: "foo".to_owned(), components: components(assumed) };
        let switches = Switches { assumed: true, ..Switches::default() };
        let sets = component_sets(&state(nodes), "foo", &components(set), &[assumed], switches, &());
        assert_eq!(sets, expected, "{id}");
    }
    let mut labelled = components("1x 1c");
    labelled[0].replica_requirements.as_mut().unwrap().node_claim =
        Some(serde_json::from_value(json!({"nodeSelector": {"a": "yes"}})).unwrap());
    assert_eq!(component_sets(&state("4c a, 4c"), "foo", &labelled, &[], Switches::default(), &()), 4, "SM15");
}

/// A quota as `hard | used | scopes`.
fn quota(state: &mut State, name: &str, text: &str) {
    let columns: Vec<&str> = text.split('|').map(str::trim).collect();
    let list = |text: &str| -> Value {
        let items = text.split(", ").filter(|item| !item.is_empty()).filter_map(|item| item.split_once(' '));
        items.map(|(name, amount)| (name.to_owned(), json!(amount))).collect::<serde_json::Map<_, _>>().into()
    };
    let scope = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        json!({"scopeName": words[0], "operator": words[1], "values": words.get(2).map(|value| vec![*value])})
    };
    let scopes = columns.get(2).copied().unwrap_or_default().split("; ").filter(|text| !text.is_empty());
    let expressions: Vec<Value> = scopes
        .map(scope)
        .map(|it| {
            let mut it = it;
            if it["values"].is_null() {
                it["values"] = json!([]);
            }
            it
        })
        .collect();
    state.put_quota(&json!({"metadata": {"namespace": "foo", "name": name},
        "spec": {"scopeSelector": {"matchExpressions": expressions}},
        "status": {"hard": list(columns[0]), "used": list(columns.get(1).copied().unwrap_or_default())}}));
}

#[test]
fn quotas() {
    for (id, quotas, request, expected) in [
        ("Q01, overdrawn", vec!["cpu 1 | cpu 1500m"], "1x 200m", 0),
        ("Q02", vec!["cpu 1 | cpu 1100m"], "1x 200m", 0),
        ("Q03, both spellings count", vec!["cpu 1, requests.cpu 4 | cpu 0, requests.cpu 0"], "1x 100m", 10),
        ("Q04", vec!["cpu 4, requests.cpu 1 | cpu 0, requests.cpu 0"], "1x 100m", 10),
        (
            "Q05, all scopes must match",
            vec!["cpu 1 | cpu 0 | PriorityClass In foo; BestEffort Exists"],
            "1x 100m@foo",
            MOST,
        ),
        ("Q06, pods count", vec!["cpu 1, pods 2 | cpu 0, pods 2"], "1x 100m", 0),
        ("pods alone", vec!["count/pods 5 | count/pods 2"], "1x -", 3),
        ("Q07", vec!["cpu 1 | cpu 1"], "1x 1Gi", MOST),
        ("Q08", vec!["cpu 1 | cpu 0", "memory 3Gi | memory 0"], "1x 100m1Gi", 3),
        ("Q09", vec!["cpu 1 | cpu 0"], "1x 0c", MOST),
        ("Q10", vec!["cpu 1 | cpu 0 | PriorityClass NotIn foo"], "1x 100m", 10),
        ("Q11", vec!["cpu 1 | cpu 0 | PriorityClass DoesNotExist"], "1x 100m", 10),
        ("Q12", vec!["cpu 1 | cpu 0 | PriorityClass Exists"], "1x 100m", MOST),
        ("another class", vec!["cpu 1 | cpu 0 | PriorityClass In bar"], "1x 100m@foo", MOST),
        ("Q13", vec!["requests.nvidia.com/gpu 5 | requests.nvidia.com/gpu 2"], "1x 1gpu", 3),
        ("Q14", vec!["limits.cpu 1 | limits.cpu 1"], "1x 100m", MOST),
        ("Q15", vec!["cpu 1 |"], "1x 100m", MOST),
        ("Q16", vec!["cpu 1 | cpu 200m"], "1x 200m", 4),
        ("Q20", vec!["memory 3Mi | memory 0"], "1x 2Mi", 1),
        ("Q21", vec!["cpu 600m, memory 3000Ki | cpu 0, memory 0"], "1x 100m500Ki", 6),
        ("Q22", vec!["cpu 600m, memory 3000Ki | cpu 0, memory 0"], "3x 50m200Ki + 2x 100m500Ki", 1),
    ] {
        let mut state = state("");
        quotas.iter().enumerate().for_each(|(index, text)| quota(&mut state, &format!("q{index}"), text));
        state.put_node(&node(0, "1000c1000Gi1000p1000gpu"));
        let nodes_only = component_sets(&state, "foo", &components(request), &[], Switches::default(), &());
        let switches = Switches { quotas: true, ..Switches::default() };
        let sets = component_sets(&state, "foo", &components(request), &[], switches, &());
        assert_eq!(sets, expected.min(nodes_only), "{id}");
        let other_namespace = component_sets(&state, "bar", &components(request), &[], switches, &());
        assert_eq!(other_namespace, nodes_only, "{id} in another namespace");
        let [component] = &components(request)[..] else { continue };
        let mut required =
            requirements(json!(component.replica_requirements.as_ref().unwrap().resource_request), Value::Null);
        required.priority_class_name.clone_from(&component.replica_requirements.as_ref().unwrap().priority_class_name);
        let without_quota = replicas(&state, Some(&required), &[], Switches::default(), &());
        assert_eq!(
            replicas(&state, Some(&required), &[], switches, &()),
            expected.min(without_quota),
            "{id} as replicas"
        );
    }
}

#[test]
fn quotas_and_assumed_workloads() {
    for (id, namespace, assumed, expected) in [
        ("Q17", "foo", "2x 200m@p", 2),
        ("Q18", "foo", "4x 200m@p", 0),
        ("Q19", "bar", "4x 200m@p", 4),
        ("Q19, another class", "foo", "4x 200m@other", 4),
    ] {
        let mut state = state("100c100Gi");
        quota(&mut state, "q", "cpu 1 | cpu 200m | PriorityClass In p");
        let assumed = AssumedWorkload { namespace: namespace.to_owned(), components: components(assumed) };
        let switches = Switches { quotas: true, assumed: true };
        let mut required = requirements(amounts("200m", ""), Value::Null);
        "p".clone_into(&mut required.priority_class_name);
        assert_eq!(replicas(&state, Some(&required), &[assumed], switches, &()), expected, "{id}");
    }
}

#[test]
fn unschedulable_pods_are_counted() {
    let template = |hash: &str, image: &str| json!({"metadata": {"labels": {"app": "a", "pod-template-hash": hash}}, "spec": {"containers": [{"image": image}]}});
    let set = |name: &str, hash: &str, image: &str, created: &str| {
        json!({"metadata": {"name": name, "uid": name, "creationTimestamp": created,
        "labels": {"app": "a"}, "ownerReferences": [{"uid": "d", "controller": true}]},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(hash, image)}})
    };
    let mut of_deployment = template("", "new");
    of_deployment["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
    let deployment = json!({"metadata": {"uid": "d"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": of_deployment}});
    let sets = [
        set("old", "1", "old", "2026-01-01T00:00:00Z"),
        set("late", "3", "new", "2026-01-03T00:00:00Z"),
        set("new", "2", "new", "2026-01-02T00:00:00Z"),
    ];
    let found = new_replica_set(&deployment, &sets).unwrap();
    assert_eq!(found["metadata"]["name"], "new");
    let pod = |owner: &str, status: &str, reason: &str, since: &str| {
        json!({"metadata": {"labels": {"app": "a"}, "ownerReferences": [{"uid": owner, "controller": true}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason, "lastTransitionTime": since}]}})
    };
    let pods = [
        pod("new", "False", "Unschedulable", "2026-01-05T00:00:00Z"),
        pod("new", "False", "Unschedulable", "2026-01-05T00:07:00Z"),
        pod("new", "False", "SchedulerError", "2026-01-05T00:00:00Z"),
        pod("new", "True", "", "2026-01-05T00:00:00Z"),
        pod("old", "False", "Unschedulable", "2026-01-05T00:00:00Z"),
    ];
    let now: jiff::Timestamp = "2026-01-05T00:10:00Z".parse().unwrap();
    let since = |at| now.duration_since(at);
    let count = |minutes: u64| unschedulable_pods(found, &pods, Duration::from_secs(60 * minutes), &since);
    assert_eq!([count(0), count(3), count(5), count(10)], [2, 1, 1, 0]);
    assert_eq!(new_replica_set(&deployment, &sets[..1]), None);
}
