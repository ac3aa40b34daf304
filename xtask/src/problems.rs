//! `cargo xtask gen-problems`: random scheduling problems, reproducible by seed: as a document of cases for `solve`, or
//! as the objects of a control plane.

use std::sync::Arc;

use clap::Args;
use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use serde_json::{Value, json};

use crate::{cases, solve};

/// Print random scheduling problems, or their solutions.
#[derive(Args)]
pub struct GenProblems {
    /// Where the first problem starts; the next has the seed after it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Most clusters of a problem.
    #[arg(long, default_value_t = 12)]
    clusters: usize,
    /// Add legal but unusual values: negative capacity, limits of zero, results on removed clusters.
    #[arg(long)]
    odd: bool,
    /// Clusters and a binding as YAML, with labels, taints and requests, instead of a document of cases.
    #[arg(long)]
    objects: bool,
    /// A line with the decision for each of the objects, instead of the problem: for comparing two builds.
    #[arg(long)]
    solve: bool,
}

impl GenProblems {
    pub fn run(&self) -> anyhow::Result<()> {
        if !self.objects && !self.solve {
            println!(
                "{}",
                serde_json::to_string_pretty(&cases::generate(self.seed, self.count, self.clusters, self.odd))?
            );
            return Ok(());
        }
        for seed in (0..self.count).map(|offset| self.seed.wrapping_add(offset)) {
            let problem = generate(seed, self.clusters);
            if self.solve {
                println!("{seed}: {}", solve::summary(&problem));
            } else {
                print!("{}", problem.to_yaml()?);
            }
        }
        Ok(())
    }
}

/// Clusters, and a binding to place on them.
pub struct SchedulingProblem {
    pub clusters: Vec<Arc<Cluster>>,
    pub binding: Binding,
}

impl SchedulingProblem {
    /// A stream of documents that [`solve`] reads.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        let clusters = self.clusters.iter().map(|cluster| serde_json::to_value(cluster.as_ref()));
        let documents: Result<Vec<Value>, _> = clusters.chain([serde_json::to_value(&self.binding)]).collect();
        let text = |document: &Value| format!("---\n{}", apimachinery::yaml::to_string(document));
        Ok(documents?.iter().map(text).collect())
    }
}

/// Steele, Lea and Flood's generator: sufficient for test data, and stable, so that a seed keeps its meaning.
pub struct SplitMix(pub u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// A problem that admission accepts, with at most this many clusters.
pub fn generate(seed: u64, most_clusters: usize) -> SchedulingProblem {
    let mut random = SplitMix(seed);
    let count = random.below(most_clusters + 1);
    let clusters: Vec<Value> = (0..count).map(|index| cluster(&mut random, index)).collect();
    let binding = binding(&mut random, count);
    let decode = |value| Arc::new(serde_json::from_value(value).expect("made of the type's own fields"));
    SchedulingProblem {
        clusters: clusters.into_iter().map(decode).collect(),
        binding: Binding::from_value(Scope::Namespaced, &binding).expect("made of the type's own fields"),
    }
}

fn name(index: usize) -> String {
    format!("m{index:03}")
}

fn cluster(random: &mut SplitMix, index: usize) -> Value {
    let serves = if random.one_in(12) { "batch/v1" } else { "apps/v1" };
    let taint = random.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
    let taints = if random.one_in(8) { json!([{"key": "k", "value": "v", "effect": taint}]) } else { json!([]) };
    let regions = ["", "eu", "us", "ap", "sa"];
    let models = random.one_in(3);
    let counts: Vec<Value> = (0..9).map(|grade| json!({"grade": grade, "count": random.below(3)})).collect();
    let mut summary = json!({
        "allocatable": {"cpu": random.below(40).to_string(), "memory": format!("{}Gi", random.below(200)), "pods": "110"},
        "allocated": {"pods": random.below(60).to_string()},
    });
    if models {
        summary["allocatableModelings"] = json!(counts);
    }
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {
            "name": name(index),
            "labels": {"env": random.pick(&["prod", "test"])},
            "deletionTimestamp": random.one_in(25).then_some("2026-01-01T00:00:00Z"),
        },
        "spec": {
            "syncMode": "Push",
            "region": random.pick(&regions),
            "provider": random.pick(&["", "p1", "p2"]),
            "zones": if random.one_in(2) { json!(["z1"]) } else { json!([]) },
            "taints": taints,
            "resourceModels": if models { karmada_api::cluster::default_models() } else { json!([]) },
        },
        "status": {
            "apiEnablements": [{"groupVersion": serves, "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": if random.one_in(15) { Value::Null } else { summary },
        },
    })
}

fn binding(random: &mut SplitMix, clusters: usize) -> Value {
    let mut targets = Vec::new();
    for index in (0..clusters + 1).filter(|_| random.one_in(4)).collect::<Vec<_>>() {
        targets.push(json!({"name": name(index), "replicas": random.below(8)}));
    }
    let evicted: Vec<Value> =
        (0..clusters).filter(|_| random.one_in(15)).map(|index| json!({"fromCluster": name(index)})).collect();
    let request = json!({"resourceRequest": {"cpu": random.pick(&["100m", "500m", "1"]), "memory": random.pick(&["64Mi", "1Gi"])}});
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "nginx-deployment", "namespace": "default"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx", "uid": format!("uid-{}", random.below(9))},
            "replicas": random.below(40),
            "replicaRequirements": if random.one_in(4) { Value::Null } else { request },
            "clusters": targets,
            "gracefulEvictionTasks": evicted,
            "rescheduleTriggeredAt": random.one_in(4).then_some("2026-01-01T00:00:01Z"),
            "placement": placement(random, clusters),
        },
        "status": {"lastScheduledTime": "2026-01-01T00:00:00Z"},
    })
}

fn placement(random: &mut SplitMix, clusters: usize) -> Value {
    let affinity = |random: &mut SplitMix| match random.below(4) {
        0 => json!({}),
        1 => json!({"labelSelector": {"matchLabels": {"env": "prod"}}}),
        2 => json!({"exclude": [name(random.below(clusters + 1))]}),
        _ => json!({"clusterNames": (0..clusters).filter(|_| random.one_in(2)).map(name).collect::<Vec<_>>()}),
    };
    let mut placement = json!({});
    let scheduling = random.below(5);
    if random.one_in(3) {
        let mut terms = Vec::new();
        for index in 0..=random.below(2) {
            let mut term = affinity(random);
            term["affinityName"] = json!(format!("t{index}"));
            if scheduling >= 3 && random.one_in(2) {
                let mut overflow = affinity(random);
                overflow["affinityName"] = json!("more");
                term["overflowAffinities"] = json!([overflow]);
            }
            terms.push(term);
        }
        placement["clusterAffinities"] = json!(terms);
    } else {
        placement["clusterAffinity"] = affinity(random);
    }
    if random.one_in(2) {
        placement["clusterTolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    placement["spreadConstraints"] = constraints(random);
    placement["replicaScheduling"] = match scheduling {
        0 => Value::Null,
        1 => json!({"replicaSchedulingType": "Duplicated"}),
        2 => {
            let weights: Vec<Value> = (0..clusters)
                .map(|index| json!({"targetCluster": {"clusterNames": [name(index)]}, "weight": 1 + random.below(5)}))
                .collect();
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weights}})
        }
        3 => {
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
        }
        _ => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
    };
    placement
}

fn constraints(random: &mut SplitMix) -> Value {
    let bounds = |random: &mut SplitMix, field: &str| {
        let least = 1 + random.below(3);
        json!({"spreadByField": field, "minGroups": least, "maxGroups": least + random.below(3)})
    };
    match random.below(4) {
        0 => json!([bounds(random, "cluster")]),
        1 => json!([bounds(random, "region"), bounds(random, "cluster")]),
        _ => json!([]),
    }
}
