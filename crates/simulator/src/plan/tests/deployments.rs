//! One row is a Deployment, its ReplicaSets, and the actions of a reconcile.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::plan::deployment::{self, Deployment, Owned};
use crate::plan::replica_set::ReplicaSet;
use crate::plan::{Action, Plan};

const NOW: &str = "2026-11-21T00:10:00Z";

/// A Deployment of template `new` from `replicas=4 surge=1 unavailable=1 [paused] [recreate]`.
fn deployment(text: &str) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "d", "resourceVersion": "9", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("new"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
    });
    for word in text.split(' ') {
        match word.split_once('=') {
            Some(("replicas", number)) => object["spec"]["replicas"] = number.parse::<i64>().expect("a number").into(),
            Some(("surge", amount)) => object["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = amount_of(amount),
            Some(("unavailable", amount)) => {
                object["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = amount_of(amount);
            }
            Some(("reason", reason)) => {
                object["status"]["conditions"] = json!([{"type": "Progressing", "status": "True", "reason": reason,
                    "message": "ReplicaSet \"new\"", "lastUpdateTime": "2026-11-21T00:00:00Z",
                    "lastTransitionTime": "2026-11-21T00:00:00Z"}]);
            }
            None if word == "paused" => object["spec"]["paused"] = true.into(),
            None if word == "recreate" => object["spec"]["strategy"] = json!({"type": "Recreate"}),
            other => panic!("{other:?} is not a property of a Deployment"),
        }
    }
    serde_json::from_value(object).expect("a Deployment")
}

fn amount_of(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A ReplicaSet from `name=size/available [of=desired,max]`; the one called `new` has the Deployment's template.
fn owned(text: &str, age: usize) -> Owned {
    let mut words = text.split(' ');
    let (name, sizes) = words.next().and_then(|word| word.split_once('=')).expect("name=size/available");
    let (size, available) = sizes.split_once('/').expect("size/available");
    let [size, available] = [size, available].map(|text| text.parse::<i64>().expect("a number"));
    let recorded = words.next().and_then(|word| word.strip_prefix("of=")?.split_once(','));
    let mut annotations = json!({"deployment.kubernetes.io/revision": (age + 1).to_string()});
    if let Some((desired, max)) = recorded {
        annotations["deployment.kubernetes.io/desired-replicas"] = desired.into();
        annotations["deployment.kubernetes.io/max-replicas"] = max.into();
    }
    let set = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "annotations": annotations,
            "creationTimestamp": format!("2026-11-21T00:0{age}:00Z")},
        "spec": {"replicas": size, "template": template(name)},
        "status": {"replicas": size, "readyReplicas": available, "availableReplicas": available, "observedGeneration": 1},
    });
    let pods = usize::try_from(size).unwrap_or(0);
    Owned { set: serde_json::from_value::<ReplicaSet>(set).expect("a ReplicaSet"), pods }
}

fn plan(text: &str, sets: &[&str]) -> Plan {
    let sets: Vec<Owned> = sets.iter().enumerate().map(|(age, text)| owned(text, age)).collect();
    deployment::plan(&deployment(text), &sets, NOW.parse().expect("a time"))
}

fn show(plan: &Plan) -> String {
    let row = |action: &Action| match action {
        Action::Create(_, set) => format!("create {}", set["spec"]["replicas"]),
        Action::Patch(_, key, patch) if patch["spec"]["replicas"].is_i64() => {
            format!("{}={}", key.name(), patch["spec"]["replicas"])
        }
        Action::Patch(_, key, patch) => format!("{} {}", key.name(), patch["metadata"]["annotations"]),
        Action::Delete { key, .. } => format!("delete {}", key.name()),
        Action::Status(_, body) => {
            let reasons = body["status"]["conditions"].as_array().into_iter().flatten();
            let reasons: Vec<&str> = reasons.filter_map(|condition| condition["reason"].as_str()).collect();
            format!("status {}", reasons.join(" "))
        }
        Action::Ensure(..) => "other".to_owned(),
    };
    plan.actions.iter().map(row).collect::<Vec<_>>().join(", ")
}

fn check(deployment: &str, sets: &[&str], expected: Expect) {
    expected.assert_eq(&show(&plan(deployment, sets)));
}

#[test]
fn rollouts_stay_within_surge_and_unavailability() {
    check("replicas=4 surge=1 unavailable=1", &[], expect!["create 4"]);
    check("replicas=4 surge=1 unavailable=1", &["old=4/4"], expect!["create 1"]);
    check("replicas=4 surge=1 unavailable=1", &["old=4/4", "new=1/0"], expect!["old=3"]);
    check("replicas=4 surge=1 unavailable=1", &["old=3/3", "new=1/0"], expect!["new=2"]);
    check(
        "replicas=4 surge=1 unavailable=0",
        &["old=4/4", "new=1/0"],
        expect!["status MinimumReplicasAvailable NewReplicaSetCreated"],
    );
    check("replicas=4 surge=1 unavailable=0", &["old=4/4", "new=1/1"], expect!["old=3"]);
    check("replicas=4 surge=0 unavailable=0", &["old=4/4", "new=0/0"], expect!["old=3"]);
    check("replicas=4 surge=50% unavailable=0", &["old=4/4"], expect!["create 2"]);
    check("replicas=4 surge=1 unavailable=0", &["old=4/2", "new=1/1"], expect!["old=3"]);
    check("replicas=4 surge=1 unavailable=1", &["oldest=2/0", "old=3/3", "new=0/0"], expect!["oldest=0"]);
}

#[test]
fn recreating_waits_for_the_last_old_pod() {
    check("replicas=2 recreate", &["old=2/2"], expect!["old=0"]);
    check("replicas=2 recreate", &["old=0/0"], expect!["create 2"]);
    check("replicas=2 recreate", &["old=0/0", "new=1/1"], expect!["new=2"]);
}

#[test]
fn a_change_of_size_is_shared() {
    check("replicas=6 surge=0 unavailable=1", &["new=3/3 of=3,3"], expect!["new=6"]);
    check("replicas=0 surge=1 unavailable=1", &["new=3/3 of=3,4"], expect!["new=0"]);
    check("replicas=10 surge=0 unavailable=1", &["old=4/4 of=5,5", "new=1/1 of=5,5"], expect!["old=8, new=2"]);
    check("replicas=2 surge=0 unavailable=1", &["old=4/4 of=5,5", "new=1/0 of=5,5"], expect!["old=2, new=0"]);
    check("replicas=6 surge=2 unavailable=0 paused", &["new=3/3 of=3,5"], expect!["new=6"]);
}

#[test]
fn a_restored_template_is_a_new_revision() {
    let revised = r#"new {"deployment.kubernetes.io/revision":"3","deployment.kubernetes.io/revision-history":"1"}"#;
    let found = plan("replicas=1 surge=1 unavailable=1", &["new=0/0", "old=1/1"]);
    assert_eq!(show(&found), revised);
}

#[test]
fn the_conditions_report_the_rollout() {
    let new = "new=2/2 of=2,3";
    let late = "status MinimumReplicasUnavailable ProgressDeadlineExceeded";
    let order = |text: &str| {
        let mut reasons: Vec<&str> = text.trim_start_matches("status ").split(' ').collect();
        reasons.sort_unstable();
        reasons.join(" ")
    };
    let status = |deployment: &str, sets: &[&str]| order(&show(&plan(deployment, sets)));
    assert_eq!(status("replicas=2 surge=1 unavailable=0", &[new]), "MinimumReplicasAvailable NewReplicaSetAvailable");
    let begun = "replicas=2 surge=1 unavailable=0 reason=ReplicaSetUpdated";
    assert_eq!(status(begun, &["new=2/1 of=2,3"]), "MinimumReplicasUnavailable ReplicaSetUpdated");
    let stuck = "replicas=2 surge=1 unavailable=0 reason=NewReplicaSetCreated";
    let mut deployment = deployment(stuck);
    let sets = [owned("new=2/0 of=2,3", 0)];
    deployment.status["replicas"] = 2.into();
    deployment.status["updatedReplicas"] = 2.into();
    let plan = deployment::plan(&deployment, &sets, NOW.parse().expect("a time"));
    assert_eq!(order(&show(&plan)), order(late), "ten minutes without progress");
    let early = deployment::plan(&deployment, &sets, "2026-11-21T00:09:00Z".parse().expect("a time"));
    assert_eq!(early.again, Some(std::time::Duration::from_secs(60)));
    assert_eq!(order(&show(&early)), "MinimumReplicasUnavailable NewReplicaSetCreated");
    let lost = "replicas=2 surge=1 unavailable=0 reason=NewReplicaSetAvailable";
    assert_eq!(status(lost, &["new=2/1 of=2,3"]), "MinimumReplicasUnavailable NewReplicaSetAvailable");
}

#[test]
fn replica_sets_beyond_the_history_limit_are_deleted() {
    let mut deployment = deployment("replicas=1 surge=1 unavailable=1");
    deployment.spec.revision_history_limit = Some(1);
    let sets: Vec<Owned> =
        ["a=0/0", "b=0/0", "new=1/1 of=1,2"].iter().enumerate().map(|(age, text)| owned(text, age)).collect();
    let plan = deployment::plan(&deployment, &sets, NOW.parse().expect("a time"));
    assert_eq!(show(&plan), "delete a");
}
