//! Documents of scheduling cases: each case is the input of one step, and its `expect` is the result. Two schedulers
//! agree when they compute the same results. A case includes the scores and estimates of its clusters, so that it does
//! not depend on how these are computed.
//!
//! A document has up to three lists: `assign` (select clusters and divide replicas), `regions` (choose groups) and
//! `general_estimator`. All other content is not changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::{AllocatableModeling, Cluster, ResourceModel, ResourceSummary};
use karmada_api::kubernetes::ResourceList;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements, TargetCluster};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ScheduleError;
use crate::candidate::Candidate;
use crate::capacity::Capacity;
use crate::choice::{Group, choose};
use crate::decide::targets;
use crate::error::AssignError;
use crate::estimate::{Assumed, Demand, Estimator};
use crate::filter::Previous;
use crate::problem::{Gates, Problem};
use crate::select::select;
use crate::selection::Selection;
use crate::snapshot::Snapshot;

/// Why a document of cases cannot be solved.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The value of a list's key is not a list.
    #[error("{list} is not a list of cases")]
    NotAList {
        /// The list's key.
        list: &'static str,
    },
    /// A case cannot be decoded.
    #[error("reading {list}[{index}]")]
    Read {
        /// The list's key.
        list: &'static str,
        /// The case's index.
        index: usize,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// A case has an unknown strategy.
    #[error("{list}[{index}] has the unknown strategy {strategy:?}")]
    Strategy {
        /// The list's key.
        list: &'static str,
        /// The case's index.
        index: usize,
        /// The strategy as written.
        strategy: String,
    },
}

#[derive(Deserialize)]
struct AssignCase {
    strategy: String,
    replicas: i64,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    fresh: bool,
    #[serde(default)]
    has_requirements: bool,
    #[serde(default)]
    empty_propagation: bool,
    #[serde(default)]
    overflow: bool,
    #[serde(default)]
    run_select: bool,
    #[serde(default)]
    weights: Vec<Weight>,
    #[serde(default)]
    clusters: Vec<CaseCluster>,
    #[serde(default)]
    previous: Vec<(String, i32)>,
    #[serde(default)]
    spread: Vec<Spread>,
}

#[derive(Deserialize)]
struct Weight {
    clusters: Vec<String>,
    weight: i64,
}

#[derive(Deserialize)]
struct CaseCluster {
    name: String,
    allocatable: i64,
    #[serde(default)]
    score: i64,
    #[serde(default)]
    region: String,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    tier: u32,
}

#[derive(Deserialize)]
struct Spread {
    #[serde(default)]
    field: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    min: i64,
    #[serde(default)]
    max: i64,
}

#[derive(Deserialize)]
struct RegionCase {
    #[serde(default)]
    groups: Vec<CaseGroup>,
    min: usize,
    max: usize,
    target: usize,
}

#[derive(Deserialize)]
struct CaseGroup {
    name: String,
    value: usize,
    weight: i64,
}

#[derive(Deserialize)]
struct EstimateCase {
    kind: String,
    #[serde(default)]
    nosum: bool,
    #[serde(default)]
    nilreq: bool,
    #[serde(default)]
    gate: String,
    #[serde(default)]
    able: ResourceList,
    #[serde(default)]
    ated: ResourceList,
    #[serde(default)]
    ating: ResourceList,
    #[serde(default)]
    req: ResourceList,
    #[serde(default)]
    models: Vec<Model>,
    #[serde(default)]
    comps: Vec<CaseComponent>,
    #[serde(default)]
    assumed: Vec<Vec<CaseComponent>>,
}

#[derive(Deserialize)]
struct Model {
    g: u64,
    min: ResourceList,
    c: i64,
}

#[derive(Deserialize)]
struct CaseComponent {
    #[serde(default)]
    n: String,
    r: i64,
    #[serde(default)]
    q: ResourceList,
}

/// Computes the `expect` of every case.
///
/// # Errors
/// A list has the wrong type, a case cannot be decoded, or its strategy is unknown.
pub fn solve(document: &mut Value, gates: &Gates) -> Result<(), CaseError> {
    each(document, "assign", |list, index, case: AssignCase| {
        let strategy = case.strategy.clone();
        assign(case, gates).ok_or(CaseError::Strategy { list, index, strategy })
    })?;
    each(document, "regions", |_, _, case: RegionCase| Ok(regions(case)))?;
    each(document, "general_estimator", |_, _, case: EstimateCase| Ok(estimate(&case)))
}

fn each<C: serde::de::DeserializeOwned>(
    document: &mut Value,
    list: &'static str,
    solve: impl Fn(&'static str, usize, C) -> Result<Value, CaseError>,
) -> Result<(), CaseError> {
    let Some(cases) = document.get_mut(list) else { return Ok(()) };
    let cases = cases.as_array_mut().ok_or(CaseError::NotAList { list })?;
    for (index, value) in cases.iter_mut().enumerate() {
        let case = C::deserialize(&*value).map_err(|source| CaseError::Read { list, index, source })?;
        let expect = solve(list, index, case)?;
        if let Some(case) = value.as_object_mut() {
            case.insert("expect".to_owned(), expect);
        }
    }
    Ok(())
}

/// `replicaScheduling` of a strategy; `None` for an unknown one.
fn scheduling(strategy: &str, weights: &[Weight]) -> Option<Value> {
    let divided =
        |preference: Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    let weighted = |weights: Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": weights});
    let list = || -> Vec<Value> {
        let entry = |it: &Weight| json!({"targetCluster": {"clusterNames": it.clusters}, "weight": it.weight});
        weights.iter().map(entry).collect()
    };
    Some(match strategy {
        "none" => Value::Null,
        "Duplicated" => json!({"replicaSchedulingType": "Duplicated"}),
        "Aggregated" => divided(json!("Aggregated")),
        "Dynamic" => weighted(json!({"dynamicWeight": "AvailableReplicas"})),
        "Static" => weighted(json!({"staticWeightList": list()})),
        "StaticNil" => weighted(Value::Null),
        "StaticEmpty" => weighted(json!({})),
        "DividedUnset" => divided(Value::Null),
        _ => return None,
    })
}

fn assign(case: AssignCase, gates: &Gates) -> Option<Value> {
    let field = |text: &str| ["cluster", "region", "zone", "provider"].contains(&text).then(|| text.to_owned());
    let constraints: Vec<Value> = case
        .spread
        .iter()
        .map(|it| json!({"spreadByField": field(&it.field), "spreadByLabel": it.label, "minGroups": it.min, "maxGroups": it.max}))
        .collect();
    let previous: Vec<Value> =
        case.previous.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    let spec = json!({
        "resource": {"uid": case.uid},
        "replicas": case.replicas,
        "replicaRequirements": case.has_requirements.then(|| json!({})),
        "clusters": previous,
        "rescheduleTriggeredAt": case.fresh.then_some("2026-01-01T00:00:01Z"),
        "placement": {"replicaScheduling": scheduling(&case.strategy, &case.weights)?, "spreadConstraints": constraints},
    });
    let status = json!({"lastScheduledTime": "2026-01-01T00:00:00Z"});
    let binding = Binding::from_value(Scope::Namespaced, &json!({"spec": spec, "status": status})).ok()?;
    let (selected, outcome) = run(&case, &binding, gates)?;
    let mut expect = json!({});
    if let Some(selected) = selected {
        expect["selected"] = json!(selected);
    }
    match outcome {
        Ok(targets) => {
            expect["result"] = targets.iter().map(|it| json!([it.name, it.replicas])).collect::<Vec<_>>().into();
        }
        Err(error) => expect["error"] = json!(error.to_string()),
    }
    Some(expect)
}

/// The output of a case: the selected clusters unless selection failed, and the result.
type CaseResult = (Option<Vec<String>>, Result<Vec<TargetCluster>, ScheduleError>);

fn run(case: &AssignCase, binding: &Binding, gates: &Gates) -> Option<CaseResult> {
    let snapshot = Snapshot::of_clusters(case.clusters.iter().map(|input| {
        let mut cluster = Cluster::default();
        cluster.metadata.name.clone_from(&input.name);
        cluster.metadata.labels.clone_from(&input.labels);
        cluster.spec.region.clone_from(&input.region);
        cluster.spec.zones.clone_from(&input.zones);
        cluster.spec.provider.clone_from(&input.provider);
        Arc::new(cluster)
    }));
    let problem = Problem::of(binding)?;
    let gates = Gates { empty_workload: case.empty_propagation, ..*gates };
    let previous = Previous::of(&binding.spec.clusters, &snapshot);
    let candidate = |input: &CaseCluster| {
        let place = snapshot.place_of(&input.name)?;
        let number = u32::try_from(place).ok()?;
        Some(Candidate {
            place: number,
            group: snapshot.region(place),
            tier: input.tier,
            score: input.score,
            allocatable: input.allocatable,
            previous: previous.at(number).unwrap_or(0),
        })
    };
    let mut selected: Vec<Candidate> = case.clusters.iter().filter_map(candidate).collect();
    if case.run_select {
        let selection = Selection::of(problem.placement, case.replicas, false, &gates, &mut selected, &snapshot);
        selected = match select(&selection, selected) {
            Ok(chosen) => chosen,
            Err(error) => return Some((None, Err(error.into()))),
        };
    }
    let name = |it: &Candidate| snapshot.members().get(it.place as usize).map_or("", |it| it.name()).to_owned();
    let names = Some(selected.iter().map(name).collect());
    if selected.is_empty() {
        return Some((names, Err(AssignError::NoClusters.into())));
    }
    let result = targets(&problem, &snapshot, &gates, &selected, &previous, case.overflow);
    Some((names, result.map_err(ScheduleError::from)))
}

fn regions(case: RegionCase) -> Value {
    let mut groups = case.groups;
    groups.sort_by(|left, right| left.name.cmp(&right.name));
    let numbers: Vec<Group> = groups.iter().map(|it| Group { value: it.value, weight: it.weight }).collect();
    let chosen = choose(&numbers, case.min, case.max, case.target).unwrap_or_default();
    chosen.into_iter().filter_map(|index| groups.get(index)).map(|it| it.name.clone()).collect::<Vec<_>>().into()
}

fn components(input: &[CaseComponent]) -> Vec<Component> {
    let component = |it: &CaseComponent| {
        let value = json!({"name": it.n, "replicas": it.r, "replicaRequirements": {"resourceRequest": it.q}});
        serde_json::from_value(value).ok()
    };
    input.iter().filter_map(component).collect()
}

fn estimate(case: &EstimateCase) -> Value {
    let mut cluster = Cluster::default();
    if !case.nosum {
        let mut summary = ResourceSummary {
            allocatable: case.able.clone(),
            allocated: case.ated.clone(),
            allocating: case.ating.clone(),
            ..ResourceSummary::default()
        };
        for model in &case.models {
            let range = |(name, min): (&String, _)| json!({"name": name, "min": min, "max": min});
            let ranges: Vec<Value> = model.min.iter().map(range).collect();
            let ranges = serde_json::from_value(json!(ranges)).unwrap_or_default();
            cluster.spec.resource_models.push(ResourceModel { grade: model.g, ranges });
            summary.allocatable_modelings.push(AllocatableModeling { grade: model.g, count: model.c });
        }
        cluster.status.resource_summary = Some(summary);
    }
    let gate = |gate_name: &str| case.gate.split(',').any(|gate| gate.trim() == gate_name);
    let uses_models = !gate("CustomizedClusterResourceModeling=false");
    let assumed: Vec<Vec<Component>> = case.assumed.iter().map(|it| components(it)).collect();
    let requirements = ReplicaRequirements { resource_request: case.req.clone(), ..ReplicaRequirements::default() };
    let sets = components(&case.comps);
    let demand = match case.kind.as_str() {
        "sets" => Demand::Sets(&sets),
        _ if case.nilreq => Demand::replicas(None),
        _ => Demand::replicas(Some(&requirements)),
    };
    let estimator = Estimator::new(demand, uses_models);
    let mut estimator =
        if gate("SchedulingOvercommitProtection=true") { estimator } else { estimator.assuming_only_on_nodes() };
    estimator.estimate(&Capacity::of(&cluster), Assumed(&assumed)).into()
}
