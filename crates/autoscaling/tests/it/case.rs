//! Members with pods, in a short notation.

use std::collections::BTreeMap;

use autoscaling::Settings;
use autoscaling::history::History;
use autoscaling::plan::{Input, Plan, decide};
use autoscaling::reading::{Answer, Member, Phase, Pod, Ready, Sample, Series, Usage};
use autoscaling::spec::Spec;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The time of a case.
pub const NOW: i64 = 1_000_000;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

pub fn spec(value: Value) -> Spec {
    Spec::of(&serde_json::from_value(value).expect("a spec")).expect("decodable")
}

/// A pod that has been ready for an hour, with a request of 100m cpu and 100 bytes.
pub fn pod(name: &str, now: i64) -> Pod {
    let requests = BTreeMap::from([("cpu".to_owned(), 100), ("memory".to_owned(), 100_000)]);
    Pod {
        name: name.to_owned(),
        phase: Phase::Running,
        started: Some(at(now - 3600)),
        ready: Some(Ready { status: Some(true), since: at(now - 3590) }),
        containers: vec![("app".to_owned(), requests)],
        ..Pod::default()
    }
}

/// The usage of its container in thousandths.
pub fn usage(name: &str, now: i64, cpu: i64, memory: i64) -> Usage {
    let containers = vec![("app".to_owned(), BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)]))];
    Usage { pod: name.to_owned(), at: at(now), window: SignedDuration::from_secs(15), containers }
}

/// `m1=3: 10 ? u - | m2=1: 20 | m3!lost`: the replicas of each member's scale, then its pods: a value in thousandths,
/// `?` without a sample, `u` not ready, `d` being deleted. The values are cpu usage and those of the first custom
/// metric.
pub fn members(text: &str) -> Vec<Member> {
    text.split('|').map(|part| member(part.trim())).collect()
}

fn member(text: &str) -> Member {
    if let Some((cluster, error)) = text.split_once('!') {
        return Member { cluster: cluster.to_owned(), answer: Err(error.to_owned()) };
    }
    let (head, pods) = text.split_once(':').expect("NAME=REPLICAS: PODS");
    let (cluster, replicas) = head.split_once('=').expect("NAME=REPLICAS");
    let mut answer = Answer {
        desired: replicas.parse().expect("replicas"),
        observed: replicas.parse().expect("replicas"),
        selector: "app=web".to_owned(),
        ..Answer::default()
    };
    let (mut usages, mut samples) = (Vec::new(), BTreeMap::new());
    for (index, word) in pods.split_whitespace().enumerate() {
        let mut it = pod(&format!("p{index}"), NOW);
        match word {
            "?" => {}
            "u" => {
                it.phase = Phase::Pending;
                it.ready = None;
            }
            "d" => it.is_deleting = true,
            value => {
                let value = value.parse().expect("a value");
                usages.push(usage(&it.name, NOW, value, value * 1000));
                samples.insert(it.name.clone(), Sample { value, at: at(NOW), window: SignedDuration::from_secs(60) });
            }
        }
        answer.pods.push(it);
    }
    answer.usage = Some(Ok(usages));
    answer.series.insert(0, Ok(Series::Pods(samples)));
    Member { cluster: cluster.to_owned(), answer: Ok(answer) }
}

/// The decision for a workload with these replicas.
pub fn plan(spec: &Spec, replicas: i32, members: &[Member], history: &mut History) -> Plan {
    let settings = Settings::default();
    let input =
        Input { namespace: "default", spec, settings: &settings, now: at(NOW), replicas, members, competing: &[] };
    decide(&input, history).expect("an answer of a member")
}
