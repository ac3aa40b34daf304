use serde_json::json;

use super::*;

const OBJECT: &str = "Deployment demo/web";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).expect("a time")
}

fn deployment(replicas: i64, cpu: &str, label: Option<&str>) -> Value {
    json!({"kind": "Deployment", "metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": label}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "app", "image": "i", "resources": {"requests": {"cpu": cpu}}}, {"name": "side"}]}}}})
}

/// The owners after a manager wrote replicas at a second, and another one resources.
fn owners(replicas: &str, resources: &str) -> Value {
    let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields});
    let of_resources = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}":
        {"f:resources": {"f:requests": {"f:cpu": {}}}}}}}}});
    json!([
        entry("karmada", "2026-01-01T00:00:00Z", json!({"f:spec": {"f:replicas": {}, "f:template": {}}})),
        {"manager": replicas, "operation": "Update", "subresource": "scale", "time": "2026-01-01T00:00:01Z",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        entry(resources, "2026-01-01T00:00:01Z", of_resources),
        {"manager": "status", "operation": "Update", "subresource": "status"},
    ])
}

/// A template, the member's object, and its writers.
struct Round<'a> {
    template: Value,
    member_object: Value,
    owners: (&'a str, &'a str),
}

/// One pass of the executor: `reverted`, `left FIELD ...`, or `same`.
fn pass(contests: &mut Contests, round: &Round<'_>, second: i64) -> String {
    let Round { template, member_object, owners: (replicas, resources) } = round;
    let mut outcome = String::new();
    loop {
        let desired = contests.left_to_member(OBJECT, template, member_object).into_owned();
        if desired == *member_object {
            return if outcome.is_empty() { "same".to_owned() } else { outcome };
        }
        let owners = owners(replicas, resources);
        let drifts = drifts(&desired, member_object, &desired, &owners, "karmada-agent");
        let left = contests.leave(OBJECT, &drifts, at(second));
        if left.is_empty() {
            contests.reverted(OBJECT, drifts, at(second));
            return if outcome.is_empty() { "reverted".to_owned() } else { format!("{outcome}, reverted") };
        }
        let names = left.iter().map(|it| format!("{} of {}", it.field, it.manager));
        outcome = format!("left {}", names.collect::<Vec<_>>().join(", "));
    }
}

fn scaled<'a>(from: i64, to: i64, manager: &'a str) -> Round<'a> {
    Round {
        template: deployment(from, "1", None),
        member_object: deployment(to, "1", None),
        owners: (manager, "karmada"),
    }
}

/// The results of passes at these seconds.
fn passes(contests: &mut Contests, round: &Round<'_>, seconds: &[i64]) -> Vec<String> {
    seconds.iter().map(|second| pass(contests, round, *second)).collect()
}

#[test]
fn the_fourth_change_is_kept() {
    let contests = &mut Contests::default();
    let hpa = "kube-controller-manager";
    let outcome = passes(contests, &scaled(2, 5, hpa), &[0, 15, 30, 45, 60]);
    assert_eq!(outcome, ["reverted", "reverted", "reverted", "left spec.replicas of kube-controller-manager", "same"]);
    // Whatever it writes from now on stays, at any time.
    assert_eq!(passes(contests, &scaled(2, 9, hpa), &[75, 100_000]), ["same", "same"]);
    contests.forget(at(100_000), |_| true);
    assert_eq!(pass(contests, &scaled(2, 3, hpa), 100_000), "same");
    // A user sets other replicas.
    assert_eq!(pass(contests, &scaled(4, 3, hpa), 100_015), "reverted");
    assert!(contests.condition("m1", 1).is_none());
}

#[test]
fn single_changes_are_reverted() {
    let hpa = "keda-operator";
    let rows = [
        ("slow", scaled(2, 5, hpa), vec![0, 400, 800, 1200, 1600]),
        ("a person", scaled(2, 5, "kubectl-edit"), vec![0, 1, 2, 3, 4, 5]),
        ("a person scales", scaled(2, 5, "kubectl"), vec![0, 1, 2, 3, 4, 5]),
        ("ourselves", scaled(2, 5, "karmada"), vec![0, 1, 2, 3, 4, 5]),
        ("the agent", scaled(2, 5, "karmada-agent"), vec![0, 1, 2, 3, 4, 5]),
    ];
    for (what, round, seconds) in rows {
        let outcome = passes(&mut Contests::default(), &round, &seconds);
        assert!(outcome.iter().all(|it| it == "reverted"), "{what}: {outcome:?}");
    }
    // Two writers in turns are counted apart.
    let contests = &mut Contests::default();
    for second in 0..10 {
        let manager = if second % 2 == 0 { "a" } else { "b" };
        assert_eq!(pass(contests, &scaled(2, 5, manager), second), "reverted");
    }
}

#[test]
fn labels_decide_contests() {
    let hpa = "kube-controller-manager";
    let contests = &mut Contests::default();
    passes(contests, &scaled(2, 5, hpa), &[0, 15, 30, 45]);
    let enforced = Round {
        template: deployment(2, "1", Some("false")),
        member_object: deployment(5, "1", Some("false")),
        owners: (hpa, "karmada"),
    };
    let outcome = passes(contests, &enforced, &[60, 75, 90, 105, 120]);
    assert!(outcome.iter().all(|it| it == "reverted"), "{outcome:?}");
    // Kinds whose replicas are retained do not differ; others are contested as before.
    let retained = Round {
        template: deployment(2, "1", Some("true")),
        member_object: deployment(5, "1", Some("true")),
        owners: (hpa, "karmada"),
    };
    assert_eq!(
        passes(contests, &retained, &[0, 15, 30, 45]).join(" "),
        "reverted reverted reverted left spec.replicas of kube-controller-manager"
    );
}

#[test]
fn resources_of_containers() {
    let contests = &mut Contests::default();
    let round = Round {
        template: deployment(2, "1", None),
        member_object: deployment(5, "2", None),
        owners: ("kubectl", "vpa-updater"),
    };
    // The other client is not identified as an autoscaler.
    let outcome = passes(contests, &round, &[0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500]);
    let field = "spec.template.spec.containers[name=app].resources.requests.cpu";
    assert!(outcome[..10].iter().all(|it| it == "reverted"), "{outcome:?}");
    assert_eq!(outcome[10], format!("left {field} of vpa-updater, reverted"), "replicas are reverted still");
    let now = contests.left_to_member(OBJECT, &round.template, &round.member_object).into_owned();
    assert_eq!(now, deployment(2, "2", None));
    let message = contests.condition("m1", 7).expect("a condition").message;
    let begin =
        format!("{field} of {OBJECT} in cluster m1 is written by vpa-updater and by karmada (\"1\"): after 10 reverts");
    assert!(message.starts_with(&begin), "{message}");
}

#[test]
fn remembered_contests_are_bounded() {
    let contests = &mut Contests::default();
    for object in 0..100 {
        let round = scaled(2, 5, "hpa");
        let owners = owners("hpa", "karmada");
        let drifts = drifts(&round.template, &round.member_object, &round.template, &owners, "karmada");
        assert_eq!(drifts.len(), 1);
        for second in 0..100 {
            contests.reverted(&format!("Deployment demo/{object}"), drifts.clone(), at(second));
        }
    }
    assert_eq!(contests.0.len(), MOST);
    contests.forget(at(99), |object| object != "Deployment demo/0");
    assert_eq!(contests.0.len(), MOST - 1);
    contests.forget(at(99 + 600), |_| true);
    assert!(contests.is_empty());
}

#[test]
fn conditions_of_works_are_merged_for_a_binding() {
    assert_eq!(of_binding([].into_iter()), None);
    let condition = of_binding(["a", "b", "c", "d", "e"].into_iter()).expect("a condition");
    assert_eq!(condition.message, "a. b. c. The same in 2 more clusters");
    assert_eq!(message_of(&[condition]), Some("a. b. c. The same in 2 more clusters"));
    let settled = Condition { status: "False".to_owned(), ..super::condition("x".to_owned()) };
    assert_eq!(message_of(&[settled]), None);
}

/// A user may write a Work with any content.
#[test]
fn malformed_objects() {
    let unusual = [
        json!(null),
        json!([1]),
        json!({"spec": []}),
        json!({"spec": {"replicas": {}, "containers": {"name": 1}}}),
        json!({"spec": {"template": {"spec": {"containers": [1, {"name": 2}, {"name": "a", "resources": {"requests": 3}}]}}}}),
    ];
    for manifest in &unusual {
        for observed in &unusual {
            let drifts = drifts(manifest, observed, manifest, &json!({"x": 1}), "karmada");
            assert!(drifts.is_empty());
            let kept = Contests::default().left_to_member(OBJECT, manifest, observed).into_owned();
            assert_eq!(kept, *manifest);
        }
    }
}
