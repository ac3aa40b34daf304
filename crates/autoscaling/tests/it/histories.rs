//! Random histories against a slow model: it created the pods, so it has the expected state of each; it keeps
//! everything forever, and shares no structure with the crate.

use std::collections::BTreeMap;

use autoscaling::Settings;
use autoscaling::history::History;
use autoscaling::plan::{Input, decide};
use autoscaling::reading::{Answer, Member, Phase, Pod, Ready, Sample, Series};
use autoscaling::spec::Spec;
use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::case::{at, pod, spec, usage};

/// How a pod counts for cpu; for other metrics a starting one counts with its sample.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Ready,
    Starting,
    Pending,
    Missing,
    Deleted,
}

#[derive(Debug)]
struct ModelPod {
    kind: Kind,
    cpu: i64,
    memory: i64,
    custom: i64,
}

/// One step: the members' replicas with their pods, and the total of an object in each.
#[derive(Debug)]
struct Step {
    now: i64,
    members: Vec<(i32, Vec<ModelPod>, i64)>,
    lost: bool,
}

fn step(rng: &mut StdRng, now: i64, replicas: i32, count: usize, divided: bool, load: i64) -> Step {
    let members = (0..count).map(|index| {
        let share = if divided { (replicas + index as i32) / count as i32 } else { replicas };
        let pods = (0..share).map(|_| ModelPod {
            kind: match rng.random_range(0..12) {
                0 => Kind::Starting,
                1 => Kind::Pending,
                2 => Kind::Missing,
                3 => Kind::Deleted,
                _ => Kind::Ready,
            },
            cpu: load + rng.random_range(0..20),
            memory: (load + rng.random_range(0..20)) * 1000,
            custom: load * 10 + rng.random_range(0..100),
        });
        (share, pods.collect(), load * rng.random_range(1..100))
    });
    let members = members.collect();
    Step { now, members, lost: rng.random_range(0..15) == 0 }
}

fn pod_of(model: &ModelPod, name: &str, now: i64) -> Pod {
    let mut it = pod(name, now);
    match model.kind {
        Kind::Ready | Kind::Missing => {}
        Kind::Starting => {
            it.started = Some(at(now - 20));
            it.ready = Some(Ready { status: Some(false), since: at(now - 20) });
        }
        Kind::Pending => {
            it.phase = Phase::Pending;
            it.ready = None;
        }
        Kind::Deleted => it.is_deleting = true,
    }
    it
}

fn readings(step: &Step, metrics: &[Value]) -> Vec<Member> {
    let member = |(index, (replicas, pods, total)): (usize, &(i32, Vec<ModelPod>, i64))| {
        let name = |pod: usize| format!("p{pod}");
        let has_sample = |kind| !matches!(kind, Kind::Missing | Kind::Pending);
        let sampled = || pods.iter().enumerate().filter(move |(_, pod)| has_sample(pod.kind));
        let usage = sampled().map(|(index, pod)| usage(&name(index), step.now, pod.cpu, pod.memory)).collect();
        let sample = |value| Sample { value, at: at(step.now), window: SignedDuration::from_secs(60) };
        let mut answer = Answer {
            desired: *replicas,
            observed: *replicas,
            selector: "app=web".to_owned(),
            pods: pods.iter().enumerate().map(|(index, pod)| pod_of(pod, &name(index), step.now)).collect(),
            usage: Some(Ok(usage)),
            series: BTreeMap::new(),
        };
        for (index, metric) in metrics.iter().enumerate() {
            let series = match metric["type"].as_str() {
                Some("Object" | "External") => Series::Total(Some(*total)),
                _ => Series::Pods(sampled().map(|(index, pod)| (name(index), sample(pod.custom))).collect()),
            };
            answer.series.insert(index, Ok(series));
        }
        Member { cluster: format!("m{index}"), answer: Ok(answer) }
    };
    let mut members: Vec<Member> = step.members.iter().enumerate().map(member).collect();
    if step.lost {
        members.push(Member { cluster: "lost".to_owned(), answer: Err("timed out".to_owned()) });
    }
    members
}

fn random_metric(rng: &mut StdRng) -> Value {
    let resource =
        |name: &str, target: Value| json!({"type": "Resource", "resource": {"name": name, "target": target}});
    match rng.random_range(0..6) {
        0 => resource("cpu", json!({"averageUtilization": rng.random_range(20..150)})),
        1 => resource("memory", json!({"averageUtilization": rng.random_range(20..150)})),
        2 => resource("cpu", json!({"averageValue": format!("{}m", rng.random_range(10..120))})),
        3 => json!({"type": "Pods", "pods": {"metric": {"name": "hits"},
            "target": {"averageValue": format!("{}m", rng.random_range(100..1500))}}}),
        _ => random_total(rng),
    }
}

/// A metric with one value for each member.
fn random_total(rng: &mut StdRng) -> Value {
    let value = format!("{}m", rng.random_range(500..9000));
    let target = if rng.random() { json!({"value": value}) } else { json!({"averageValue": value}) };
    if rng.random() {
        return json!({"type": "External", "external": {"metric": {"name": "jobs"}, "target": target}});
    }
    json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "web"},
        "metric": {"name": "hits"}, "target": target}})
}

fn random_rules(rng: &mut StdRng) -> Value {
    let policy = |rng: &mut StdRng| {
        let type_ = if rng.random() { "Pods" } else { "Percent" };
        json!({"type": type_, "value": rng.random_range(1..120), "periodSeconds": rng.random_range(1..10) * 15})
    };
    let count = rng.random_range(1..3);
    let policies: Vec<Value> = (0..count).map(|_| policy(rng)).collect();
    let select = ["Max", "Min", "Disabled"][rng.random_range(0..10usize).saturating_sub(7)];
    json!({"policies": policies, "selectPolicy": select, "stabilizationWindowSeconds": rng.random_range(0..8) * 15})
}

fn random_spec(rng: &mut StdRng) -> Value {
    let count = rng.random_range(1..4);
    let mut metrics: Vec<Value> = (0..count).map(|_| random_metric(rng)).collect();
    let min = rng.random_range(0..4);
    let is_total = |metric: &Value| matches!(metric["type"].as_str(), Some("Object" | "External"));
    if min == 0 && !metrics.iter().any(is_total) {
        metrics.push(random_total(rng));
    }
    // Pods of a workload with zero replicas have no values, so another metric would fail.
    if min == 0 && rng.random_range(0..3) > 0 {
        metrics.retain(is_total);
    }
    let mut spec = json!({"minReplicas": min, "maxReplicas": rng.random_range(4..40), "metrics": metrics});
    if rng.random() {
        spec["behavior"] = json!({"scaleUp": random_rules(rng), "scaleDown": random_rules(rng)});
    }
    spec
}

/// The slow model.
#[derive(Default)]
struct Model {
    recommendations: Vec<(i64, i32)>,
    /// Time and signed change.
    changes: Vec<(i64, i32)>,
}

fn quantity(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.strip_suffix('m')).expect("milli").parse().expect("a number")
}

impl Model {
    /// The replicas of one metric; `None` if it fails.
    fn metric(metric: &Value, step: &Step, current: i32, calibration: f64) -> Option<i32> {
        let source = metric.as_object()?.values().find(|it| it.is_object())?;
        let target = &source["target"];
        let all = || step.members.iter().flat_map(|(_, pods, _)| pods);
        let near = |ratio: f64| (1.0 - ratio).abs() <= 0.1;
        if matches!(metric["type"].as_str(), Some("Object" | "External")) {
            let total: i64 = step.members.iter().map(|it| it.2).sum();
            if current == 0 {
                let target = target.get("value").unwrap_or(&target["averageValue"]);
                return Some((total as f64 / quantity(target) as f64).ceil() as i32);
            }
            if let Some(value) = target.get("value") {
                let ratio = total as f64 / quantity(value) as f64;
                if all().next().is_none() && !near(ratio) {
                    return None;
                }
                // A starting pod and one that is deleted or without a sample differ in readiness.
                let ready = all().filter(|pod| matches!(pod.kind, Kind::Ready | Kind::Missing | Kind::Deleted)).count();
                let scaled = (ratio * ready as f64 / calibration).ceil() as i32;
                return Some(if near(ratio) { current } else { scaled.max(i32::from(total > 0)) });
            }
            let average = quantity(&target["averageValue"]) as f64;
            let observed: i32 = step.members.iter().map(|it| it.0).sum();
            let stays = near(total as f64 / (average * f64::from(observed)));
            return Some(if stays { current } else { (total as f64 / average / calibration).ceil() as i32 });
        }
        let is_cpu = source["name"] == "cpu";
        let value = |pod: &ModelPod| match source["name"].as_str() {
            Some("cpu") => pod.cpu,
            Some(_) => pod.memory,
            None => pod.custom,
        };
        let request = if is_cpu { 100 } else { 100_000 };
        let percent = target["averageUtilization"].as_i64();
        let unready = |kind| kind == Kind::Pending || (kind == Kind::Starting && is_cpu);
        let counted: Vec<i64> = all()
            .filter(|pod| !unready(pod.kind) && !matches!(pod.kind, Kind::Missing | Kind::Deleted))
            .map(value)
            .collect();
        let ratio = |values: &[i64]| {
            let (sum, count) = (values.iter().sum::<i64>(), values.len() as i64);
            match percent {
                Some(percent) => (sum * 100 / (request * count)) as f64 / percent as f64,
                None => (sum / count) as f64 / quantity(&target["averageValue"]) as f64,
            }
        };
        if counted.is_empty() {
            return None;
        }
        let first = ratio(&counted);
        let mut values = counted.clone();
        for pod in all() {
            if pod.kind == Kind::Missing && first > 1.0 {
                values.push(0);
            } else if pod.kind == Kind::Missing && first < 1.0 {
                values.push(match percent {
                    Some(percent) => request * percent.max(100) / 100,
                    None => quantity(&target["averageValue"]),
                });
            } else if unready(pod.kind) && first > 1.0 {
                values.push(0);
            }
        }
        let second = ratio(&values);
        let turned = (first < 1.0) != (second < 1.0) && (first > 1.0) != (second > 1.0) && second != 1.0;
        if near(second) || turned {
            return Some(current);
        }
        let replicas = (second * values.len() as f64 / calibration).ceil() as i32;
        // With assumed values the direction of the change must be that of the ratio.
        let assumed = values.len() > counted.len() || all().any(|pod| pod.kind == Kind::Missing);
        if assumed && ((second < 1.0 && replicas > current) || (second > 1.0 && replicas < current)) {
            return Some(current);
        }
        Some(replicas)
    }

    fn limit(&self, rules: &Value, now: i64, current: i32, up: bool) -> i32 {
        let limits: Vec<i32> = rules["policies"]
            .as_array()
            .expect("policies")
            .iter()
            .map(|policy| {
                let period = policy["periodSeconds"].as_i64().expect("seconds");
                let change: i32 =
                    self.changes.iter().filter(|(at, _)| *at > now - period).map(|(_, change)| change).sum();
                let start = f64::from(current - change);
                let value = policy["value"].as_f64().expect("a value");
                match (policy["type"] == "Pods", up) {
                    (true, true) => (start + value) as i32,
                    (true, false) => (start - value) as i32,
                    (false, true) => (start * (1.0 + value / 100.0)).ceil() as i32,
                    (false, false) => (start * (1.0 - value / 100.0)) as i32,
                }
            })
            .collect();
        let most = match rules["selectPolicy"].as_str() {
            Some("Disabled") => return current,
            Some("Min") => !up,
            _ => up,
        };
        let limit = if most { limits.iter().max() } else { limits.iter().min() };
        let limit = *limit.expect("a policy");
        if up { limit.max(current) } else { limit.min(current) }
    }

    fn decide(&mut self, spec: &Value, step: &Step, current: i32) -> Option<i32> {
        let bound = |name: &str| spec[name].as_i64().expect("a bound") as i32;
        let (min, max) = (bound("minReplicas"), bound("maxReplicas"));
        let now = step.now;
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }

        if current == 0 && min > 0 {
            return Some(0);
        }
        if current > max {
            return Some(max);
        }
        if current < min {
            return Some(min);
        }
        let sum = step.members.iter().map(|it| it.0).sum::<i32>();
        let calibration = if current == 0 { 1.0 } else { f64::from(sum) / f64::from(current) };
        let metrics = spec["metrics"].as_array().expect("metrics");
        let proposals: Vec<Option<i32>> =
            metrics.iter().map(|metric| Self::metric(metric, step, current, calibration)).collect();
        let highest = proposals.iter().flatten().max().copied();
        let mut proposed = highest.filter(|it| proposals.iter().all(Option::is_some) || *it >= current)?;
        if step.lost {
            proposed = proposed.max(current);
        }
        let seconds = |direction: &str| spec["behavior"][direction]["stabilizationWindowSeconds"].as_i64();
        let recent = |from: i64| self.recommendations.iter().filter(move |(at, _)| *at > from).map(|(_, it)| *it);
        let desired = if spec["behavior"].is_object() {
            let low = recent(now - seconds("scaleUp").expect("a window")).chain([proposed]).min().expect("one");
            let high = recent(now - seconds("scaleDown").expect("a window")).chain([proposed]).max().expect("one");
            let stable = current.max(low).min(high);
            if stable > current {
                stable.min(max).min(self.limit(&spec["behavior"]["scaleUp"], now, current, true))
            } else if stable < current {
                stable.max(min).max(self.limit(&spec["behavior"]["scaleDown"], now, current, false))
            } else {
                stable
            }
        } else {
            // This window includes its first moment.
            let stable = recent(now - 301).chain([proposed]).max().expect("one");
            if stable < min { min } else { stable.min(max).min((current * 2).max(4)) }
        };
        self.recommendations.push((now, proposed));
        Some(desired)
    }
}

/// Returns how often replicas grew, shrank, failed, left zero and became zero.
fn play(seed: u64) -> [usize; 5] {
    let mut rng = StdRng::seed_from_u64(seed);
    let value = random_spec(&mut rng);
    let spec: Spec = spec(value.clone());
    let metrics = value["metrics"].as_array().expect("metrics").clone();
    let settings = Settings::default();
    let (mut history, mut model) = (History::default(), Model::default());
    let (count, divided) = (rng.random_range(1..4usize), rng.random());
    let mut replicas = rng.random_range(0..8);
    let (mut now, mut load) = (1_000_000, rng.random_range(0..200));
    let mut seen = [0; 5];
    for _ in 0..60 {
        now += [15, 15, 15, 15, 60, 300][rng.random_range(0..6usize)];
        if rng.random_range(0..6) == 0 {
            load = if rng.random_range(0..4) == 0 { 0 } else { rng.random_range(1..250) };
        }
        let step = step(&mut rng, now, replicas, count, divided, load);
        let members = readings(&step, &metrics);
        let input = Input {
            namespace: "default",
            spec: &spec,
            settings: &settings,
            now: at(now),
            replicas,
            members: &members,
            competing: &[],
        };
        let expected = model.decide(&value, &step, replicas);
        if let Some(desired) = expected.filter(|desired| *desired != replicas && value["behavior"].is_object()) {
            model.changes.push((now, desired - replicas));
        }
        let plan = decide(&input, &mut history).expect("a plan");
        assert_eq!(plan.desired, expected, "SEED={seed} at {now}\n{value}\n{step:#?}\n{plan}");
        match plan.desired {
            None => seen[2] += 1,
            Some(desired) => {
                seen[usize::from(desired < replicas)] += usize::from(desired != replicas);
                seen[3] += usize::from(replicas == 0 && desired > 0);
                seen[4] += usize::from(replicas > 0 && desired == 0);
                history.scaled(spec.behavior.as_ref(), at(now), replicas, desired);
                replicas = desired;
            }
        }
    }
    seen
}

#[test]
fn histories_equal_the_model() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(500),
    };
    // A third of the histories has failures of readings.
    let least = seeds.clone().count() / 5;
    let mut seen = [0; 5];
    for seed in seeds {
        let of_seed = play(seed);
        seen.iter_mut().zip(of_seed).for_each(|(sum, count)| *sum += count);
    }
    // A quarter of them may scale to zero.
    let enough = |(kind, count): (usize, &usize)| *count >= if kind < 3 { least } else { least / 2 };
    assert!(seen.iter().enumerate().all(enough), "growth, shrinkage, failures, from zero, to zero: {seen:?}");
}
