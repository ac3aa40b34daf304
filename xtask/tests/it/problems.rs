//! Random scheduling problems: the properties of every decision.

use std::collections::BTreeSet;

use karmada_api::policy::v1alpha1::SpreadField;
use scheduling::{Gates, Problem, Snapshot, Strategy, decide, explain};
use xtask::problems::{SchedulingProblem, generate};
use xtask::solve::{parse, report, summary};

fn check(seed: u64, problem: &SchedulingProblem) {
    let snapshot = Snapshot::of_clusters(problem.clusters.iter().cloned());
    let input = Problem::of(&problem.binding).unwrap();
    let gates = Gates::default();
    let (decision, verdicts) = explain(&input, &snapshot, &gates);
    assert_eq!(decide(&input, &snapshot, &gates), decision, "seed {seed}: explaining changes nothing");
    let Ok(targets) = &decision.clusters else {
        let upstream = decide(&input, &snapshot, &Gates { repair_regions: false, ..gates });
        assert!(upstream.clusters.is_err(), "seed {seed}: repairing makes nothing worse");
        return;
    };
    let names: BTreeSet<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names.len(), targets.len(), "seed {seed}: each cluster once");
    let required = i64::from(problem.binding.spec.replicas);
    let workload = required > 0 || problem.binding.spec.replica_requirements.is_some();
    let strategy = Strategy::of(input.placement);
    let sum: i64 = targets.iter().map(|target| i64::from(target.replicas)).sum();
    if workload && strategy.is_divided() {
        assert_eq!(sum, required, "seed {seed}: all replicas have a place");
    }
    let by_capacity = matches!(strategy, Strategy::DynamicWeight | Strategy::Aggregated);
    for target in targets {
        let verdict = verdicts.iter().find(|verdict| verdict.cluster == target.name).unwrap();
        assert!(verdict.selected && verdict.rejected_by.is_none(), "seed {seed}: {} passed", target.name);
        let numbers = verdict.numbers.unwrap();
        if workload && by_capacity {
            assert!(i64::from(target.replicas) <= numbers.available, "seed {seed}: {} has the room", target.name);
        }
    }
    let counts = strategy != Strategy::StaticWeight;
    let bound = input.placement.spread_constraints.iter().find(|it| it.spread_by_field == Some(SpreadField::Cluster));
    let regions = input.placement.spread_constraints.iter().any(|it| it.spread_by_field == Some(SpreadField::Region));
    if let Some(bound) = bound.filter(|_| counts && !regions) {
        assert!(targets.len() as i64 <= bound.max_groups, "seed {seed}: no more clusters than allowed");
    }
}

#[test]
fn decisions_have_their_properties() {
    let mut solved = 0;
    for seed in 0..4000 {
        let problem = generate(seed, 12);
        check(seed, &problem);
        let scheduled = scheduling::decide(
            &Problem::of(&problem.binding).unwrap(),
            &Snapshot::of_clusters(problem.clusters.iter().cloned()),
            &Gates::default(),
        );
        solved += usize::from(scheduled.clusters.is_ok());
    }
    assert!((1500..3900).contains(&solved), "{solved} of 4000 have a solution");
}

#[test]
fn printed_problems_can_be_parsed() {
    for seed in 0..20 {
        let problem = generate(seed, 6);
        let again = parse(problem.to_yaml().unwrap().as_bytes()).unwrap();
        assert_eq!(summary(&problem), summary(&again), "seed {seed}");
        let report = report(&again, &Gates::default()).unwrap();
        assert!(report.contains(&summary(&problem)), "{report}");
    }
}

#[test]
fn invalid_files() {
    for (text, expected) in [
        ("kind: Cluster\nmetadata: {name: a}", "there is no binding"),
        ("kind: Pod", "a document of kind \"Pod\": Cluster, ResourceBinding or ClusterResourceBinding is wanted"),
        ("kind: ResourceBinding", "the binding has no spec.placement"),
        ("a: [", "reading YAML"),
    ] {
        assert_eq!(parse(text.as_bytes()).err().map(|error| error.to_string()).as_deref(), Some(expected));
    }
}

#[test]
fn documents_of_cases_are_the_same_for_the_same_seed_and_can_be_solved() {
    let document = xtask::cases::generate(7, 400, 8, false);
    assert_eq!(document, xtask::cases::generate(7, 400, 8, false));
    assert_ne!(document, xtask::cases::generate(8, 400, 8, false));
    let mut solved = document.clone();
    scheduling::cases::solve(&mut solved, &Gates::upstream()).unwrap();
    let mut again = solved.clone();
    scheduling::cases::solve(&mut again, &Gates::upstream()).unwrap();
    assert_eq!(again, solved, "what is expected already plays no part");
    let cases = solved["assign"].as_array().unwrap();
    assert_eq!(cases.len(), 400);
    let good = cases.iter().filter(|case| case["expect"].get("result").is_some()).count();
    assert!((150..390).contains(&good), "{good} of 400 have a result");
}

#[test]
fn results_of_odd_cases_add_up() {
    let mut document = xtask::cases::generate(1, 2000, 9, true);
    scheduling::cases::solve(&mut document, &Gates::upstream()).unwrap();
    let mut placed = 0;
    for case in document["assign"].as_array().unwrap() {
        let expect = &case["expect"];
        assert!(expect.get("result").is_some() != expect.get("error").is_some(), "{case}");
        let Some(result) = expect["result"].as_array() else { continue };
        let replicas = case["replicas"].as_i64().unwrap();
        let each: Vec<i64> = result.iter().map(|it| it[1].as_i64().unwrap()).collect();
        let divided = !matches!(case["strategy"].as_str(), Some("none" | "Duplicated"));
        assert!(!divided || each.iter().sum::<i64>() == replicas, "{case}");
        assert!(each.iter().all(|share| (0..=replicas).contains(share)), "{case}");
        placed += usize::from(!each.is_empty());
    }
    assert!((500..1900).contains(&placed), "{placed} of 2000 have a place");
}
