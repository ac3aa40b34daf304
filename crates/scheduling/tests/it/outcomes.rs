//! From errors to the condition, the queue and the events.

use karmada_api::Scope;
use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::error::{AssignError, SelectError, Step};
use scheduling::outcome::{SUCCESS, WriteError, deleting_event, outcome_of_writes, success_event};
use scheduling::{Queue, ScheduleError, outcome};

fn printed(outcome: &scheduling::Outcome) -> String {
    format!("{} {} {:?}: {}", outcome.status(), outcome.reason, outcome.queue, outcome.message)
}

#[test]
fn outcomes_of_errors() {
    let no_fit = ScheduleError::NoFit { total: 2, reasons: "2 x".to_owned() };
    let shortage: ScheduleError = AssignError::Shortage { step: Step::ScaleDown, available: -2 }.into();
    let no_room: ScheduleError = SelectError::NoRoom(3).into();
    let write = |message: &str, quota_exceeded: bool| WriteError { message: message.to_owned(), quota_exceeded };
    for (error, refused, expected) in [
        (None, vec![], format!("True Success Forget: {SUCCESS}")),
        (Some(&no_fit), vec![], "False NoClusterFit Unschedulable: 0/2 clusters are available: 2 x.".to_owned()),
        (
            Some(&shortage),
            vec![],
            "False Unschedulable Unschedulable: failed to assign replicas: failed to scale down: Clusters available \
             replicas -2 are not enough to schedule."
                .to_owned(),
        ),
        (
            Some(&no_room),
            vec![],
            "False SchedulerError Backoff: failed to select clusters: no enough resource when selecting 3 clusters"
                .to_owned(),
        ),
        (
            Some(&no_fit),
            vec![write("gone", false)],
            "False NoClusterFit Backoff: [0/2 clusters are available: 2 x., gone]".to_owned(),
        ),
        (None, vec![write("gone", false)], "False SchedulerError Backoff: gone".to_owned()),
        (None, vec![write("gone", false), write("gone", false)], "False SchedulerError Backoff: gone".to_owned()),
        (None, vec![write("a", false), write("full", true)], "False QuotaExceeded Backoff: full".to_owned()),
    ] {
        assert_eq!(printed(&outcome_of_writes(error, &refused)), expected);
    }
    assert_eq!(outcome(None).queue, Queue::Forget);
    assert!(no_room.waits_for_capacity() && shortage.waits_for_capacity() && !no_fit.waits_for_capacity());
}

#[test]
fn events() {
    let targets: Vec<TargetCluster> = [("a", 2), ("b", 1)]
        .map(|(name, replicas)| TargetCluster { name: name.to_owned(), replicas, ..TargetCluster::default() })
        .into();
    assert_eq!(success_event(Scope::Namespaced, &targets), format!("{SUCCESS} Result: {{a:2, b:1}}"));
    assert_eq!(success_event(Scope::Cluster, &targets), format!("{SUCCESS} Result {{a:2, b:1}}"));
    assert_eq!(deleting_event(Scope::Namespaced, "ns", "b"), "skip schedule deleting resourceBinding: ns/b");
    assert_eq!(deleting_event(Scope::Cluster, "", "b"), "skip schedule deleting clusterResourceBinding: b");
}
