//! Rules of CronFederatedHPA over time, and their histories.

use autoscaling::cron::rules::{Applied, Jobs, Run, applied, bounds_patch, status};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use karmada_api::autoscaling::v1alpha1::{CronFederatedHPASpec, CronFederatedHPAStatus};
use serde_json::{Value, json};

fn spec(rules: &[Value]) -> CronFederatedHPASpec {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    serde_json::from_value(json!({"scaleTargetRef": target, "rules": rules})).expect("a spec")
}

fn time(text: &str) -> Timestamp {
    format!("2026-11-21T{text}Z").parse().expect("a time")
}

fn turn(jobs: &mut Jobs, spec: &CronFederatedHPASpec, now: &str) -> String {
    let turn = jobs.turn(spec, time(now), &TimeZone::UTC);
    let due: Vec<String> = turn.due.iter().map(|due| format!("{}@{}", due.rule.name, due.at.strftime("%T"))).collect();
    let failed: Vec<String> = turn.failed.iter().map(|(rule, error)| format!("{rule}: {error}")).collect();
    let next = jobs.next().map(|next| next.strftime("%T").to_string()).unwrap_or_default();
    format!("{} [{}] next {next}", due.join(" "), failed.join("; "))
}

#[test]
fn rules_run_when_they_are_due() {
    let (a, b) = (json!({"name": "a", "schedule": "*/5 * * * *"}), json!({"name": "b", "schedule": "1 * * * *"}));
    let mut jobs = Jobs::default();
    let both = spec(&[a.clone(), b.clone()]);
    assert_eq!(turn(&mut jobs, &both, "00:00:30"), " [] next 00:01:00");
    assert_eq!(turn(&mut jobs, &both, "00:00:59"), " [] next 00:01:00", "early");
    assert_eq!(turn(&mut jobs, &both, "00:01:00"), "b@00:01:00 [] next 00:05:00");
    assert_eq!(turn(&mut jobs, &both, "00:01:00"), " [] next 00:05:00", "once");
    // Late: once for all that were missed, in the order of the last times, so that the values that apply now stay.
    assert_eq!(turn(&mut jobs, &both, "01:17:00"), "b@01:01:00 a@01:15:00 [] next 01:20:00");
    // A changed rule starts from now; the others are not affected.
    let changed = json!({"name": "a", "schedule": "*/30 * * * *"});
    assert_eq!(turn(&mut jobs, &spec(&[changed, b.clone()]), "01:21:00"), " [] next 01:30:00");
    // Suspended and removed rules have no next time.
    let suspended = json!({"name": "a", "schedule": "*/30 * * * *", "suspend": true});
    assert_eq!(turn(&mut jobs, &spec(&[suspended]), "01:22:00"), " [] next ");
    // A rule that cannot be scheduled is reported once and stops no other.
    let wrong = json!({"name": "w", "schedule": "bad"});
    let zone = json!({"name": "z", "schedule": "0 8 * * *", "timeZone": "Asia/Tokyo"});
    let mixed = spec(&[wrong, zone]);
    let failed = "w: expected 5 to 7 fields, found 1: \"bad\"";
    assert_eq!(turn(&mut jobs, &mixed, "01:23:00"), format!(" [{failed}] next 23:00:00"));
    assert_eq!(turn(&mut jobs, &mixed, "01:24:00"), " [] next 23:00:00");
}

#[test]
fn rules_follow_a_clock_that_is_set_back() {
    let spec = spec(&[json!({"name": "a", "schedule": "0 * * * *"})]);
    let mut jobs = Jobs::default();
    turn(&mut jobs, &spec, "20:30:00");
    assert_eq!(turn(&mut jobs, &spec, "21:00:00"), "a@21:00:00 [] next 22:00:00");
    assert_eq!(turn(&mut jobs, &spec, "19:59:00"), " [] next 22:00:00", "not again for a time that has passed");
    assert_eq!(turn(&mut jobs, &spec, "22:00:00"), "a@22:00:00 [] next 23:00:00");
    assert_eq!(turn(&mut jobs, &spec, "03:10:00"), " [] next 04:00:00", "the clock was wrong");
    assert_eq!(turn(&mut jobs, &spec, "04:00:00"), "a@04:00:00 [] next 05:00:00");
}

#[test]
fn a_changed_target_resets_the_schedule() {
    let mut jobs = Jobs::default();
    let mut spec = spec(&[json!({"name": "a", "schedule": "*/5 * * * *"})]);
    turn(&mut jobs, &spec, "00:00:00");
    spec.scale_target_ref.name = "other".to_owned();
    assert_eq!(turn(&mut jobs, &spec, "00:07:00"), " [] next 00:10:00", "nothing was missed for it");
}

#[test]
fn execution_histories_are_bounded() {
    let rule = json!({"name": "a", "schedule": "*/5 * * * *", "successfulHistoryLimit": 2, "failedHistoryLimit": 0});
    let suspended = json!({"name": "s", "schedule": "*/5 * * * *", "suspend": true});
    let spec = spec(&[rule, suspended]);
    let mut jobs = Jobs::default();
    jobs.turn(&spec, time("00:11:00"), &TimeZone::UTC);
    let run =
        |second: &str, result| Run { rule: "a".to_owned(), scheduled: time(second), executed: time(second), result };
    let runs = [
        run("00:00:00", Ok(Applied::Replicas(1))),
        run("00:05:00", Ok(Applied::Bounds { min: Some(2), max: None })),
        run("00:06:00", Err("no".to_owned())),
        run("00:10:00", Ok(Applied::Replicas(3))),
    ];
    let old = json!({"executionHistories": [{"ruleName": "gone"}, {"ruleName": "s", "nextExecutionTime": "2026-11-21T00:00:00Z"}]});
    let old: CronFederatedHPAStatus = serde_json::from_value(old).expect("a status");
    let status = serde_json::to_value(status(&spec, &old, &jobs, &runs)).expect("json");
    let time = |minute| format!("2026-11-21T00:{minute}:00Z");
    assert_eq!(
        status,
        json!({"executionHistories": [
        {"ruleName": "a", "nextExecutionTime": time("15"), "successfulExecutions": [
            {"appliedReplicas": 3, "scheduleTime": time("10"), "executionTime": time("10")},
            {"appliedMinReplicas": 2, "scheduleTime": time("05"), "executionTime": time("05")}]},
        {"ruleName": "s"}]})
    );
}

#[test]
fn rules_scale_their_targets() {
    let mut spec = spec(&[json!({"name": "a", "schedule": "", "targetReplicas": 4})]);
    let rule = spec.rules[0].clone();
    assert_eq!(applied(&spec.scale_target_ref, &rule), Ok(Applied::Replicas(4)));
    spec.scale_target_ref.api_version = "autoscaling.karmada.io/v1alpha1".to_owned();
    spec.scale_target_ref.kind = "FederatedHPA".to_owned();
    assert!(applied(&spec.scale_target_ref, &rule).is_err());
    let rows = [
        (Some(1), 10, (Some(5), None), Ok(Some(json!({"spec": {"minReplicas": 5}})))),
        (None, 10, (Some(5), Some(20)), Ok(Some(json!({"spec": {"minReplicas": 5, "maxReplicas": 20}})))),
        (Some(5), 10, (Some(5), Some(10)), Ok(None)),
        (Some(1), 4, (Some(5), None), Err("minReplicas would be 5 and maxReplicas 4; set both in the rule".to_owned())),
    ];
    for (min, max, bounds, expected) in rows {
        assert_eq!(bounds_patch(min, max, bounds), expected);
    }
}
