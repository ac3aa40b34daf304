//! The tables of `tests/tables`, checked against the steps of a decision.

use std::collections::HashMap;
use std::sync::Arc;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::{AllocatableModeling, Cluster, ResourceModel, ResourceSummary};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements, TargetCluster};
use serde_json::{Value, json};

use crate::ScheduleError;
use crate::candidate::Candidate;
use crate::capacity::Capacity;
use crate::choice::{Group, choose};
use crate::decide::targets;
use crate::error::AssignError;
use crate::estimate::{Assumed, Demand, Estimator, UNLIMITED};
use crate::filter::Previous;
use crate::problem::{Gates, Problem};
use crate::select::select;
use crate::selection::Selection;
use crate::snapshot::Snapshot;

/// A cluster of a row: `m1=40/s20/t1/R1`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub name: String,
    pub allocatable: i64,
    score: i64,
    pub tier: u32,
    pub region: String,
    provider: String,
    zone: String,
    label: String,
}

fn row(text: &str) -> Row {
    let mut parts = text.split('/');
    let (name, allocatable) = parts.next().unwrap().split_once('=').unwrap();
    let mut row = Row { name: name.to_owned(), allocatable: allocatable.parse().unwrap(), ..Row::default() };
    for part in parts {
        match part.split_at(1) {
            ("s", score) => row.score = score.parse().unwrap(),
            ("t", tier) => row.tier = tier.parse().unwrap(),
            ("R", _) => row.region = part.to_owned(),
            ("P", _) => row.provider = part.to_owned(),
            ("Z", _) => row.zone = part.to_owned(),
            ("L", _) => row.label = part.to_owned(),
            _ => panic!("{text}"),
        }
    }
    row
}

fn pairs(text: &str, by: char) -> Vec<(String, i64)> {
    let pair = |item: &str| {
        let (name, number) = item.split_once(by).unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    text.split([' ', ',']).filter(|item| !item.is_empty()).map(pair).collect()
}

/// `replicaScheduling` of a strategy as rows spell it.
fn scheduling(strategy: &str) -> Value {
    let divided =
        |preference: Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    let weighted = |weights: Value| {
        let mut scheduling = divided(json!("Weighted"));
        scheduling["weightPreference"] = weights;
        scheduling
    };
    let (name, weights) = strategy.trim_end_matches(')').split_once('(').unwrap_or((strategy, ""));
    match name {
        "none" => Value::Null,
        "duplicated" => json!({"replicaSchedulingType": "Duplicated"}),
        "aggregated" => divided(json!("Aggregated")),
        "dynamic" => weighted(json!({"dynamicWeight": "AvailableReplicas"})),
        "even" => weighted(Value::Null),
        "even-empty" => weighted(json!({})),
        "unset" => divided(Value::Null),
        "static" => {
            let entry = |(names, weight): (String, i64)| json!({"targetCluster": {"clusterNames": names.split('+').collect::<Vec<_>>()}, "weight": weight});
            weighted(json!({"staticWeightList": pairs(weights, '=').into_iter().map(entry).collect::<Vec<_>>()}))
        }
        _ => panic!("{strategy}"),
    }
}

/// One row of the table of decisions.
pub(crate) struct Case {
    pub clusters: Vec<Row>,
    pub binding: Binding,
    overflow: bool,
    pub gates: Gates,
    selects: bool,
}

pub(crate) fn case(how: &str, clusters: &str, previous: &str, constraints: &str, selects: bool) -> Case {
    let mut words = how.split(' ');
    let (strategy, replicas) = (words.next().unwrap(), words.next().unwrap().parse::<i64>().unwrap());
    let flags: Vec<&str> = words.collect();
    let flag = |name: &str| flags.contains(&name);
    let uid = flags.iter().find_map(|flag| flag.strip_prefix("uid=")).unwrap_or_default();
    let constraint = |text: &str| {
        let (field, bounds) = text.split_once(' ').unwrap();
        let (least, most) = bounds.split_once("..").unwrap();
        let label = field.strip_prefix("label:");
        let field = (field != "-" && label.is_none()).then_some(field);
        json!({"spreadByField": field, "spreadByLabel": label, "minGroups": least.parse::<i64>().unwrap(), "maxGroups": most.parse::<i64>().unwrap()})
    };
    let targets: Vec<Value> =
        pairs(previous, ':').into_iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    let spec = json!({
        "resource": {"uid": uid},
        "replicas": replicas,
        "replicaRequirements": flag("requests").then(|| json!({})),
        "clusters": targets,
        "rescheduleTriggeredAt": flag("fresh").then_some("2026-01-01T00:00:01Z"),
        "placement": {
            "replicaScheduling": scheduling(strategy),
            "spreadConstraints": constraints.split(", ").filter(|text| !text.is_empty()).map(constraint).collect::<Vec<_>>(),
        },
    });
    let status = json!({"lastScheduledTime": "2026-01-01T00:00:00Z"});
    Case {
        clusters: clusters.split(' ').filter(|text| !text.is_empty()).map(row).collect(),
        binding: Binding::from_value(Scope::Namespaced, &json!({"spec": spec, "status": status})).unwrap(),
        overflow: flag("overflow"),
        gates: Gates {
            empty_workload: flag("empty"),
            repair_regions: flag("repair"),
            spread_by_all: flag("all"),
            unlimited_groups: flag("unlimited"),
            ..Gates::default()
        },
        selects,
    }
}

impl Case {
    fn snapshot(&self) -> Snapshot {
        Snapshot::of_clusters(self.clusters.iter().map(|row| {
            let mut cluster = Cluster::default();
            cluster.metadata.name.clone_from(&row.name);
            cluster.spec.region.clone_from(&row.region);
            cluster.spec.provider.clone_from(&row.provider);
            cluster.spec.zones.extend([row.zone.clone()].into_iter().filter(|zone| !zone.is_empty()));
            cluster.metadata.labels.insert("tier".to_owned(), row.label.clone());
            Arc::new(cluster)
        }))
    }

    fn candidates(&self, snapshot: &Snapshot) -> Vec<Candidate> {
        let previous = Previous::of(&self.binding.spec.clusters, snapshot);
        let candidate = |row: &Row| {
            let place = snapshot.place_of(&row.name).unwrap();
            Candidate {
                place: place as u32,
                group: snapshot.region(place),
                tier: row.tier,
                score: row.score,
                allocatable: row.allocatable,
                previous: previous.at(place as u32).unwrap_or(0),
            }
        };
        self.clusters.iter().map(candidate).collect()
    }

    /// Names of the selected clusters, and the result.
    pub fn run(&self, gates: &Gates) -> (String, Result<Vec<TargetCluster>, ScheduleError>) {
        let snapshot = self.snapshot();
        let problem = Problem::of(&self.binding).unwrap();
        let mut selected = self.candidates(&snapshot);
        if self.selects {
            let replicas = problem.spec.replicas.into();
            let selection = Selection::of(problem.placement, replicas, false, gates, &mut selected, &snapshot);
            match select(&selection, selected) {
                Ok(chosen) => selected = chosen,
                Err(error) => return (String::new(), Err(error.into())),
            }
        }
        let name = |it: &Candidate| snapshot.members()[it.place as usize].name().to_owned();
        let names: Vec<String> = selected.iter().map(name).collect();
        if selected.is_empty() {
            return (names.join(" "), Err(AssignError::NoClusters.into()));
        }
        let previous = Previous::of(&problem.spec.clusters, &snapshot);
        let result = targets(&problem, &snapshot, gates, &selected, &previous, self.overflow);
        (names.join(" "), result.map_err(ScheduleError::from))
    }
}

pub(crate) fn printed(result: &Result<Vec<TargetCluster>, ScheduleError>) -> String {
    match result {
        Ok(targets) if targets.is_empty() => "none".to_owned(),
        Ok(targets) => targets.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

/// The columns of each row that is not a comment.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| line.contains(" | ") && !line.starts_with('#')).map(|line| line.split(" | ").collect())
}

#[test]
fn decisions() {
    let table = include_str!("../../tests/tables/decisions.txt");
    let sets: HashMap<&str, &str> =
        table.lines().filter(|line| line.starts_with('@')).filter_map(|line| line.split_once(" = ")).collect();
    let mut wrong = Vec::new();
    for columns in rows(table) {
        let [id, how, clusters, previous, constraints, selected, result] = columns[..] else { panic!("{columns:?}") };
        let clusters = sets.get(clusters).copied().unwrap_or(clusters);
        let case = case(how, clusters, previous, constraints, selected != "*");
        let (names, outcome) = case.run(&case.gates);
        if (case.selects && names != selected) || printed(&outcome) != result {
            wrong.push(format!("{id}: expected {selected} -> {result}\n got {names} -> {}", printed(&outcome)));
        }
        if outcome.is_ok() {
            let gates = Gates { repair_regions: true, unlimited_groups: true, ..case.gates };
            assert_eq!(case.run(&gates), (names, outcome), "{id}: repair changes only failed decisions");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn region_choices() {
    for columns in rows(include_str!("../../tests/tables/regions.txt")) {
        let [id, groups, limits, chosen] = columns[..] else { panic!("{columns:?}") };
        let mut groups: Vec<(&str, Group)> = groups
            .split(' ')
            .filter(|text| !text.is_empty())
            .map(|text| {
                let (name, numbers) = text.split_once(':').unwrap();
                let (value, weight) = numbers.split_once('/').unwrap();
                (name, Group { value: value.parse().unwrap(), weight: weight.parse().unwrap() })
            })
            .collect();
        groups.sort_by_key(|(name, _)| *name);
        let (limits, target) = limits.split_once(' ').unwrap();
        let (least, most) = limits.split_once("..").unwrap();
        let numbers: Vec<Group> = groups.iter().map(|(_, group)| *group).collect();
        let answer = choose(&numbers, least.parse().unwrap(), most.parse().unwrap(), target.parse().unwrap());
        let names: Vec<&str> = answer.unwrap_or_default().into_iter().map(|index| groups[index].0).collect();
        assert_eq!(names.join(" "), chosen, "{id}");
    }
}

/// Inputs that take upstream up to eight seconds.
#[test]
fn many_regions() {
    for (count, value, least, most, target, expected) in
        [(24, 3, 12, 24, 36, 12), (60, 3, 3, 5, 10, 4), (40, 1, 1, 40, 6, 6), (100, 10, 1, 100, 500, 50)]
    {
        let groups: Vec<Group> = (0..count).map(|index| Group { value, weight: 1000 - index }).collect();
        let expected: Vec<usize> = (0..expected).collect();
        assert_eq!(choose(&groups, least, most, target), Some(expected), "{count}");
    }
}

/// `cpu=1,memory=2Gi` as a resource list.
fn amounts(text: &str) -> Value {
    text.split(',')
        .filter_map(|item| item.trim().split_once('='))
        .map(|(name, amount)| (name.to_owned(), json!(amount)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// `1x cpu=1 + 2x memory=1Gi` as components.
fn components(text: &str) -> Vec<Component> {
    let component = |item: &str| {
        let (replicas, request) = item.split_once('x').unwrap();
        let requirements = json!({"resourceRequest": amounts(request)});
        serde_json::from_value(json!({"name": "c", "replicas": replicas.trim().parse::<i64>().unwrap(), "replicaRequirements": requirements})).unwrap()
    };
    text.split(" + ").filter(|item| !item.trim().is_empty()).map(component).collect()
}

fn capacity(allocatable: &str, allocated: &str, allocating: &str, models: &str) -> Capacity {
    let mut cluster = Cluster::default();
    if allocatable != "absent" {
        let mut summary: ResourceSummary = serde_json::from_value(json!({
            "allocatable": amounts(allocatable),
            "allocated": amounts(allocated),
            "allocating": amounts(allocating),
        }))
        .unwrap();
        for (grade, nodes, least) in models.split(';').filter_map(|model| {
            let (head, least) = model.trim().split_once(' ')?;
            let (grade, nodes) = head.split_once('x')?;
            Some((grade.parse().unwrap(), nodes.parse().unwrap(), least))
        }) {
            let range = |(name, min): (&String, &Value)| json!({"name": name, "min": min, "max": "1Ei"});
            let ranges: Vec<Value> = amounts(least).as_object().unwrap().iter().map(range).collect();
            cluster
                .spec
                .resource_models
                .push(ResourceModel { grade, ranges: serde_json::from_value(json!(ranges)).unwrap() });
            summary.allocatable_modelings.push(AllocatableModeling { grade, count: nodes });
        }
        cluster.status.resource_summary = Some(summary);
    }
    Capacity::of(&cluster)
}

#[test]
fn estimates() {
    for columns in rows(include_str!("../../tests/tables/estimates.txt")) {
        let [id, allocatable, allocated, allocating, models, demand, assumed, answer] = columns[..] else {
            panic!("{columns:?}")
        };
        let (models, uses_models) = models.strip_prefix("off ").map_or((models, true), |models| (models, false));
        let capacity = capacity(allocatable, allocated, allocating, models);
        let workloads: Vec<Vec<Component>> = assumed.split(" & ").map(components).filter(|it| !it.is_empty()).collect();
        let sets = components(if demand.contains('x') { demand } else { "" });
        let requirements: ReplicaRequirements = serde_json::from_value(
            json!({"resourceRequest": amounts(demand.strip_prefix("each ").unwrap_or_default())}),
        )
        .unwrap();
        let demand = match demand {
            "pods" => Demand::replicas(None),
            _ if sets.is_empty() => Demand::replicas(Some(&requirements)),
            _ => Demand::Sets(&sets),
        };
        let expected: i64 = answer.parse().unwrap();
        let mut estimator = Estimator::new(demand, uses_models);
        for _ in 0..2 {
            assert_eq!(estimator.estimate(&capacity, Assumed(&workloads)), expected, "{id}");
        }
        let nothing = Estimator::new(Demand::Nothing, uses_models).estimate(&capacity, Assumed::default());
        assert_eq!(nothing, UNLIMITED, "{id}");
    }
}
