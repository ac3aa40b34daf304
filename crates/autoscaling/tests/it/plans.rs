//! Decisions, as people read them.

use autoscaling::Settings;
use autoscaling::conditions::Obstacle;
use autoscaling::history::History;
use autoscaling::plan::{Input, Plan, decide};
use autoscaling::reading::Series;
use karmada_api::autoscaling::v1alpha1::FederatedHPAStatus;
use serde_json::{Value, json};

use crate::case::{NOW, at, members, plan, spec};

fn cpu(percent: i32) -> Value {
    json!({"maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}]})
}

/// The conditions as they end up, and the events.
fn shown(plan: &Plan) -> String {
    let mut status = FederatedHPAStatus::default();
    status = plan.status(&status, None, at(NOW));
    let condition = |it: &karmada_api::autoscaling::v1alpha1::HorizontalPodAutoscalerCondition| {
        format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message)
    };
    let mut lines: Vec<String> = status.conditions.iter().map(condition).collect();
    let kind = |is_warning| if is_warning { "Warning" } else { "Normal" };
    lines.extend(plan.events.iter().map(|it| format!("{} {}: {}", kind(it.is_warning), it.reason, it.message)));
    lines.join("\n")
}

fn of(spec_: Value, replicas: i32, text: &str) -> Plan {
    plan(&spec(spec_), replicas, &members(text), &mut History::default())
}

#[test]
fn a_plan_can_be_printed() {
    let plan = of(cpu(50), 3, "m1=2: 80 100 | m2=1: u d | m3!connection refused");
    let expected = "\
scales from 3 to 4: cpu resource utilization (percentage of request) above target
  cpu, target 50% of requests: 90% (90m), proposes 4 (with assumed values for pods without a sample)
    m1: 180m of 2 of 2 pods
    m2: no value of 0 of 2 pods
    is pending: m2/p0
    is being deleted: m2/p1
  m3: no answer: connection refused
  recommended 4, after stabilization 4, desired 4
";
    assert_eq!(plan.to_string(), expected);
    assert_eq!(plan.to_value()["metrics"][0]["members"][0]["value"], "180m");
}

#[test]
fn conditions_and_events() {
    let mut up = of(cpu(50), 2, "m1=1: 100 | m2=1: 100");
    up.wrote(Ok(()));
    let name = "cpu resource utilization (percentage of request)";
    assert_eq!(
        shown(&up),
        format!(
            "AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 4\n\
             ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from {name}\n\
             ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range\n\
             Normal SuccessfulRescale: New size: 4; reason: {name} above target"
        )
    );
    let mut refused = of(cpu(50), 2, "m1=1: 100 | m2=1: 100");
    refused.wrote(Err("conflict".to_owned()));
    assert!(shown(&refused).starts_with(
        "AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the target scale: conflict\n"
    ));
    assert!(
        shown(&refused)
            .ends_with(&format!("Warning FailedRescale: New size: 4; reason: {name} above target; error: conflict"))
    );
    let failed = of(cpu(50), 2, "m1=1: ? | m2=1: u");
    assert_eq!(
        shown(&failed),
        "AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale\n\
         ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: \
         failed to get cpu utilization: unable to get metrics for resource cpu: \
         no metrics returned from resource metrics API\n\
         Warning FailedGetResourceMetric: failed to get cpu utilization: unable to get metrics for resource cpu: \
         no metrics returned from resource metrics API\n\
         Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: \
         failed to get cpu resource metric value: failed to get cpu utilization: \
         unable to get metrics for resource cpu: no metrics returned from resource metrics API"
    );
}

#[test]
fn upstreams_texts() {
    let rows = [
        // Disabled, and the bounds.
        (
            cpu(50),
            0,
            "m1=0:",
            "ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero",
        ),
        (cpu(50), 12, "m1=12: 1", "Current number of replicas above Spec.MaxReplicas"),
        (
            json!({"minReplicas": 3, "maxReplicas": 10}),
            1,
            "m1=1: 1",
            "Current number of replicas below Spec.MinReplicas",
        ),
        (cpu(50), 2, "m1=2: 50 50", "AbleToScale=True ReadyForNewScale: recommended size matches current size"),
        (
            cpu(50),
            4,
            "m1=4: 10 10 10 10",
            "AbleToScale=True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation",
        ),
        (
            cpu(10),
            1,
            "m1=1: 100",
            "ScalingLimited=True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate",
        ),
        (
            cpu(10),
            6,
            "m1=6: 100 100 100 100 100 100",
            "ScalingLimited=True TooManyReplicas: the desired replica count is more than the maximum replica count",
        ),
        (
            json!({"maxReplicas": 5, "metrics": [{"type": "Wrong"}]}),
            1,
            "m1=1: 1",
            "ScalingActive=False InvalidMetricSourceType: the HPA was unable to compute the replica count: unknown metric source type \"Wrong\"",
        ),
        (
            json!({"maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "gpu", "target": {"averageUtilization": 5}}}]}),
            1,
            "m1=1: 1",
            "unable to get metrics for resource gpu: no metrics returned from resource metrics API",
        ),
        (
            json!({"maxReplicas": 5, "metrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"averageUtilization": 50}}}]}),
            1,
            "m1=1: 100",
            "cpu container resource utilization (percentage of request)",
        ),
    ];
    for (spec, replicas, members, expected) in rows {
        let plan = of(spec, replicas, members);
        let text = format!("{}\n{}", shown(&plan), plan.reason);
        assert!(text.contains(expected), "{members} at {replicas}: {text}");
    }
}

#[test]
fn members_are_one_set_of_pods() {
    let desired = |replicas, members| of(cpu(50), replicas, members).recommended;
    assert_eq!(desired(4, "m1=2: 100 100 | m2=2: 50 50"), Some(6), "150 of 200 for each two");
    assert_eq!(desired(2, "m1=2: 100 100 | m2=2: 100 100"), Some(4), "each member has all replicas");
    assert_eq!(desired(4, "m1=2: 100 100"), Some(8), "the pods of a member that is not ready behave as the others");
    assert_eq!(desired(2, "m1=1: 0 | m2=1: 150"), Some(3), "pods of equal names are different pods");
}

#[test]
fn unknown_load_keeps_replicas() {
    let lost = of(cpu(50), 4, "m1=2: 10 10 | m2!timed out");
    assert_eq!((lost.desired, lost.recommended), (Some(4), Some(4)));
    assert!(shown(&lost).contains(
        "ScalingLimited=True MembersUnknown: the workload is not scaled down while the load in m2 is unknown"
    ));
    assert_eq!(of(cpu(50), 4, "m1=2: 100 100 | m2!timed out").desired, Some(8), "growth is not blocked");
    let hits = json!({"maxReplicas": 9, "metrics": [{"type": "Object", "object": {
        "describedObject": {"kind": "Ingress", "name": "web"}, "metric": {"name": "hits"}, "target": {"value": "100"}}}]});
    let mut both = members("m1=2: 1 1 | m2=2: 1 1");
    let mut set = |index: usize, series| {
        both[index].answer.as_mut().expect("an answer").series.insert(0, series);
        plan(&spec(hits.clone()), 4, &both, &mut History::default())
    };
    set(0, Ok(Series::Total(Some(40_000))));
    assert_eq!(set(1, Err("timed out".to_owned())).recommended, Some(4), "the object may have hits in m2");
    assert_eq!(set(1, Ok(Series::Total(None))).recommended, Some(2), "m2 does not have the object");
    let known = set(1, Ok(Series::Total(Some(160_000))));
    assert_eq!(
        (known.recommended, known.metrics[0].line()),
        (Some(8), "hits of Ingress web, target 100 in total: 200, proposes 8".to_owned())
    );
}

#[test]
fn the_highest_metric_wins_and_failures_block_shrinkage() {
    let metric = |type_: &str, field: &str, name: &str, average: &str| json!({"type": type_, field: {"name": name, "metric": {"name": name}, "target": {"averageValue": average}}});
    let two = |first: Value, second: Value| json!({"maxReplicas": 10, "metrics": [first, second]});
    let (high, low) = (metric("Resource", "resource", "cpu", "20m"), metric("Resource", "resource", "memory", "100"));
    let broken = metric("Resource", "resource", "gpu", "1");
    let both = of(two(high.clone(), low.clone()), 2, "m1=2: 40 40");
    assert_eq!((both.recommended, both.reason.as_str()), (Some(4), "cpu resource above target"));
    let partial = of(two(broken.clone(), high), 2, "m1=2: 40 40");
    assert_eq!(partial.recommended, Some(4));
    assert!(
        partial
            .error
            .expect("an error")
            .starts_with("invalid metrics (1 invalid out of 2), first error is: failed to get gpu")
    );
    let container = json!({"maxReplicas": 9, "metrics": [{"type": "ContainerResource", "containerResource":
        {"name": "gpu", "container": "app", "target": {"averageValue": "1"}}}]});
    let error = of(container, 2, "m1=2: 40 40").error.expect("an error");
    assert!(
        error.ends_with(
            "failed to get app container metric value: failed to get gpu utilization: \
             unable to get metrics for resource gpu: no metrics returned from resource metrics API"
        ),
        "{error}"
    );
    let blocked = of(two(low, broken), 2, "m1=2: 40 40");
    assert_eq!((blocked.desired, blocked.rescales()), (None, false));
    // The status keeps the previous number.
    let old = FederatedHPAStatus { desired_replicas: 7, ..FederatedHPAStatus::default() };
    assert_eq!(blocked.status(&old, None, at(NOW)).desired_replicas, 7);
}

#[test]
fn all_metrics_scale_down_after_the_window() {
    let mut history = History::default();
    let pods = members("m1=4: 10 10 10 10");
    let spec = spec(cpu(50));
    let settings = Settings::default();
    let mut at_time = |seconds: i64| {
        let input = Input {
            namespace: "d",
            spec: &spec,
            settings: &settings,
            now: at(NOW + seconds),
            replicas: 4,
            members: &pods,
            competing: &[],
        };
        decide(&input, &mut history).expect("a plan")
    };
    assert_eq!(at_time(0).desired, Some(4));
    assert_eq!(at_time(300).desired, Some(4));
    let down = at_time(301);
    assert_eq!((down.desired, down.reason.as_str()), (Some(1), "All metrics below target"));
    let status = down.status(&FederatedHPAStatus::default(), Some(3), at(NOW));
    assert_eq!(
        serde_json::to_value(&status.current_metrics).expect("json"),
        json!([{"type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "10m"}}}])
    );
    assert_eq!((status.observed_generation, status.last_scale_time.is_some()), (Some(3), true));
}

#[test]
fn missing_and_ambiguous_selectors_are_reported() {
    let mut without = members("m1=1: 10");
    without[0].answer.as_mut().expect("an answer").selector.clear();
    let plan = plan(&spec(cpu(50)), 1, &without, &mut History::default());
    assert!(shown(&plan).contains("ScalingActive=False InvalidSelector: the HPA target's scale is missing a selector"));
    assert!(shown(&plan).contains("Warning SelectorRequired: selector is required"));
    let competing = ["default/a".to_owned(), "default/b".to_owned()];
    let (spec, settings, pods) = (spec(cpu(50)), Settings::default(), members("m1=1: 10"));
    let input = Input {
        namespace: "default",
        spec: &spec,
        settings: &settings,
        now: at(NOW),
        replicas: 1,
        members: &pods,
        competing: &competing,
    };
    let plan = decide(&input, &mut History::default()).expect("a plan");
    assert!(shown(&plan).contains("ScalingActive=False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [default/a default/b]"));
}

#[test]
fn without_an_answer_there_is_no_plan() {
    let (spec, settings) = (spec(cpu(50)), Settings::default());
    let check = |text: &str| {
        let pods = members(text);
        let input = Input {
            namespace: "d",
            spec: &spec,
            settings: &settings,
            now: at(NOW),
            replicas: 2,
            members: &pods,
            competing: &[],
        };
        decide(&input, &mut History::default()).expect_err("an obstacle")
    };
    let text = "failed to get replicas in any of clusters, possibly because all of clusters are not ready";
    assert_eq!(check("m1=0:"), Obstacle::Scale(text.to_owned()));
    assert_eq!(check("m1!refused"), Obstacle::Scale(format!("{text} (m1: refused)")));
}

#[test]
fn from_zero_on_an_external_metric() {
    let external = json!({"minReplicas": 0, "maxReplicas": 9, "metrics": [{"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"averageValue": "5"}}}]});
    let mut pods = members("m1=0:");
    let mut with = |value| {
        pods[0].answer.as_mut().expect("an answer").series.insert(0, Ok(Series::Total(Some(value))));
        plan(&spec(external.clone()), 0, &pods, &mut History::default())
    };
    assert_eq!(with(0).desired, Some(0));
    let up = with(12_000);
    assert_eq!((up.desired, up.reason.as_str()), (Some(3), "external metric queue above target"));
}
