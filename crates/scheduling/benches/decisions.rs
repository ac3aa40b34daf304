//! Decisions per second of processor time, over fleets of 10 to 5,000 clusters with models, labels and fifty APIs each,
//! for each strategy with and without spread constraints. Argument: the milliseconds per row. `runs CLUSTERS KIND RUNS`
//! makes RUNS decisions and prints nothing: with two values of RUNS, the difference of valgrind's `total heap usage`
//! gives the allocations of one decision.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use scheduling::{Gates, Problem, Snapshot, decide, needed};
use serde_json::{Value, json};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    if arguments.next_if(|argument| argument == "runs").is_some() {
        let mut number = || arguments.next().and_then(|nanos| nanos.parse().ok()).expect("CLUSTERS KIND RUNS");
        return repeat(number(), number(), number());
    }
    let time = Duration::from_millis(arguments.next().and_then(|nanos| nanos.parse().ok()).unwrap_or(500));
    println!("{:<44}{:>10}{:>12}", "decisions/s of one core", "clusters", "per second");
    for count in [10, 100, 1000, 5000] {
        let clusters: Vec<Arc<Cluster>> = (0..count).map(cluster).collect();
        let snapshot = Snapshot::of_clusters(clusters.iter().cloned());
        let mut total = Duration::ZERO;
        let kinds = kinds();
        for (name, spec) in &kinds {
            let binding = binding(spec);
            let problem = Problem::of(&binding).expect("it has a placement");
            let once = measure(time, || {
                assert!(decide(&problem, &snapshot, &Gates::default()).clusters.is_ok(), "{name}");
            });
            row(name, count, once);
            total += once;
            if *name == EVERYDAY {
                both_cores(name, time, &problem, &snapshot);
            }
        }
        row("all of these, as often each", count, total / u32::try_from(kinds.len()).expect("few kinds"));
        let settled = binding(&kinds[1].1);
        let nothing = measure(time, || assert!(needed(&settled, &snapshot, &Gates::default()).is_some()));
        row("is a decision needed", count, nothing);
        let parse = measure(time, || assert!(!Snapshot::of_clusters(clusters.iter().cloned()).is_empty()));
        row("snapshot, all clusters changed", count, parse);
        let members: Vec<_> = snapshot.members().to_vec();
        let reuse = measure(time, || assert!(!Snapshot::new(members.iter().cloned()).is_empty()));
        row("snapshot, clusters as they were", count, reuse);
    }
}

fn repeat(clusters: usize, kind: usize, runs: usize) {
    let snapshot = Snapshot::of_clusters((0..clusters).map(cluster));
    let binding = binding(&kinds()[kind].1);
    let problem = Problem::of(&binding).expect("it has a placement");
    for _ in 0..runs {
        assert!(decide(&problem, &snapshot, &Gates::default()).clusters.is_ok());
    }
}

/// The most common kind of binding.
const EVERYDAY: &str = "all clusters, dynamic weights";

/// Two threads over one snapshot. The rate counts both threads' decisions over the time of the slower one.
fn both_cores(name: &str, time: Duration, problem: &Problem<'_>, snapshot: &Snapshot) {
    let spec = problem.spec;
    let run = || {
        let binding = Binding { spec: spec.clone(), ..binding(&json!({})) };
        let problem = Problem::of(&binding).expect("it has a placement");
        measure(time, || assert!(decide(&problem, snapshot, &Gates::default()).clusters.is_ok()))
    };
    let [first, second] =
        std::thread::scope(|scope| [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().expect("no panic")));
    row(&format!("{name}, two threads"), snapshot.len(), first.max(second) / 2);
}

fn row(name: &str, clusters: usize, once: Duration) {
    println!("{name:<44}{clusters:>10}{:>12.0}", 1.0 / once.as_secs_f64());
}

/// The mean processor time of one run: other processes do not count.
fn measure(time: Duration, mut run: impl FnMut()) -> Duration {
    run();
    let (begin, mut runs) = (processor_time(), 0_u32);
    loop {
        (0..8).for_each(|_| run());
        runs += 8;
        let used = processor_time() - begin;
        if used >= time {
            return used / runs;
        }
    }
}

/// The processor time of this thread.
#[allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock where Linux offers no thread clock"
)]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn cluster(index: usize) -> Arc<Cluster> {
    let apis: Vec<Value> = (0..10)
        .map(|group| {
            let resources: Vec<Value> =
                (0..5).map(|kind| json!({"name": format!("things{kind}"), "kind": format!("Thing{kind}")})).collect();
            json!({"groupVersion": format!("group{group}.example.com/v1"), "resources": resources})
        })
        .chain([json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]})])
        .collect();
    let grades: Vec<Value> =
        (0..9).map(|grade| json!({"grade": grade, "count": (index * 7 + grade * 3) % 11})).collect();
    let value = json!({
        "metadata": {
            "name": format!("member-{index:04}"),
            "labels": {"env": (["prod", "test"][index % 2]), "tier": (["gold", "silver", "bronze"][index % 3]), "team": format!("t{}", index % 20)},
        },
        "spec": {
            "syncMode": "Push",
            "provider": (["aws", "gcp"][index % 2]),
            "region": format!("region-{}", index % 12),
            "zones": [format!("zone-{}", index % 36)],
            "resourceModels": karmada_api::cluster::default_models(),
            "taints": if index % 10 == 9 { json!([{"key": "maintenance", "effect": "NoSchedule"}]) } else { json!([]) },
        },
        "status": {
            "apiEnablements": apis,
            "resourceSummary": {
                "allocatable": {"cpu": format!("{}", 200 + index % 300), "memory": "4Ti", "pods": "11000", "ephemeral-storage": "9Ti"},
                "allocated": {"cpu": format!("{}m", 1500 + index * 13 % 90_000), "memory": "100Gi", "pods": format!("{}", index % 500)},
                "allocatableModelings": grades,
            },
        },
    });
    Arc::new(serde_json::from_value(value).expect("a cluster"))
}

/// A name and a spec for each way to schedule.
fn kinds() -> Vec<(&'static str, Value)> {
    let divided =
        |preference: &str| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    let mut dynamic = divided("Weighted");
    dynamic["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"});
    let mut fixed = divided("Weighted");
    let weights: Vec<Value> = [("gold", 3), ("silver", 2), ("bronze", 1)]
        .map(|(tier, weight)| json!({"targetCluster": {"labelSelector": {"matchLabels": {"tier": tier}}}, "weight": weight}))
        .into();
    fixed["weightPreference"] = json!({"staticWeightList": weights});
    let clusters = |least: i64, most: i64| json!({"spreadByField": "cluster", "minGroups": least, "maxGroups": most});
    let regions = |least: i64, most: i64| json!({"spreadByField": "region", "minGroups": least, "maxGroups": most});
    let overflow = json!({"affinityName": "own", "labelSelector": {"matchLabels": {"team": "t3"}},
        "overflowAffinities": [{"affinityName": "others", "labelSelector": {"matchLabels": {"env": "prod"}}}]});
    let prod = json!({"labelSelector": {"matchLabels": {"env": "prod"}}});
    vec![
        (
            "named clusters, duplicated",
            json!({"placement": {"clusterAffinity": {"clusterNames": ["member-0001", "member-0002"]}}}),
        ),
        ("all clusters, duplicated", json!({"placement": {}})),
        ("labels, static weights", json!({"placement": {"clusterAffinity": prod, "replicaScheduling": fixed}})),
        ("all clusters, dynamic weights", json!({"placement": {"replicaScheduling": dynamic}, "replicas": 500})),
        (
            "all clusters, dynamic, 1 to 10 clusters",
            json!({"placement": {"replicaScheduling": dynamic, "spreadConstraints": [clusters(1, 10)]}, "replicas": 50}),
        ),
        (
            "all clusters, duplicated, 2 regions",
            json!({"placement": {"spreadConstraints": [regions(2, 2), clusters(2, 4)]}, "replicas": 5}),
        ),
        (
            "labels, aggregated",
            json!({"placement": {"clusterAffinity": prod, "replicaScheduling": divided("Aggregated")}, "replicas": 50}),
        ),
        (
            "labels, aggregated, 1 to 10 clusters",
            json!({"placement": {"clusterAffinity": prod, "replicaScheduling": divided("Aggregated"), "spreadConstraints": [clusters(1, 10)]}, "replicas": 50, "clusters": [{"name": "member-0004", "replicas": 20}]}),
        ),
        (
            "2 to 3 regions, 3 to 6 clusters, dynamic",
            json!({"placement": {"replicaScheduling": dynamic, "spreadConstraints": [regions(2, 3), clusters(3, 6)]}, "replicas": 50}),
        ),
        (
            "overflow tiers, dynamic",
            json!({"placement": {"clusterAffinities": [overflow], "replicaScheduling": dynamic}, "replicas": 50}),
        ),
    ]
}

fn binding(spec: &Value) -> Binding {
    let mut binding = json!({"metadata": {"name": "nginx-deployment", "namespace": "default"}, "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default", "uid": "4858ca61-3ff8-4095-8267-f3d059d8074c"},
        "replicas": 4,
        "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "512Mi"}},
    }});
    if let (Some(target), Some(more)) = (binding["spec"].as_object_mut(), spec.as_object()) {
        target.extend(more.clone());
    }
    Binding::from_value(Scope::Namespaced, &binding).expect("a binding")
}
