//! Facts and their findings, as rows.

use serde_json::json;

use super::*;
use crate::doctor::facts::{Problem, Stuck, Subject};

const NOW: i64 = 1_800_000_000;

fn check(change: impl FnOnce(&mut Facts), expected: &[&str]) {
    let mut facts = Facts { now: NOW, ..Facts::default() };
    change(&mut facts);
    let shown = |it: &Finding| {
        format!("{} {}: {} ({}) -> {}", it.severity.as_str(), it.object, it.problem, it.evidence, it.next)
    };
    let found: Vec<String> = findings(&facts, "karmadactl").iter().map(shown).collect();
    assert_eq!(found, expected);
}

fn cluster(more: Value) -> Value {
    let mut cluster = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
        "status": {"kubernetesVersion": "v1.30.0", "conditions": [{"type": "Ready", "status": "True"}]}});
    apimachinery::merge_patch::apply(&mut cluster, &more);
    cluster
}

fn with(more: Value) -> impl FnOnce(&mut Facts) {
    move |facts| facts.members = vec![Member { object: cluster(more), ..Member::default() }]
}

fn sample(name: &str, label: (&str, &str), value: i32) -> Sample {
    let labels = vec![(label.0.to_owned(), label.1.to_owned())];
    Sample { name: name.to_owned(), labels, value: f64::from(value) }
}

#[test]
fn a_healthy_system_has_no_findings() {
    check(|_| (), &[]);
    check(with(json!({})), &[]);
    check(
        |facts| {
            facts.control.skew = Some(Skew { seconds: -12.0, tolerance: 5.0 });
            facts.control.client_certificate_ends = Some(NOW + 8 * DAY);
            facts.control.metrics = vec![
                sample("workqueue_depth", ("name", "binding"), 1000),
                sample("karmada_store_damaged", ("", ""), 0),
            ];
        },
        &[],
    );
}

#[test]
fn backups_that_fail() {
    let taken = |errors: i32, successes: i32| {
        let of = |result: &str, count| sample("karmada_store_backups_total", ("result", result), count);
        let samples = vec![of("error", errors), of("success", successes)];
        move |facts: &mut Facts| facts.control.metrics = samples
    };
    check(taken(0, 0), &[]);
    check(taken(3, 1), &[]);
    let expected = "warning control plane: the backups fail (3 attempts have failed since the start, and none has succeeded) -> Read the log of the server for the reason: the directory of --backup-dir may be full";
    check(taken(3, 0), &[expected]);
}

#[test]
fn an_etcd_that_exceeds_its_quota() {
    let exceeded = |value| {
        let sample = sample("karmada_etcd_quota_exceeded", ("storage_cluster_id", "etcd-0"), value);
        move |facts: &mut Facts| facts.control.metrics = vec![sample]
    };
    check(exceeded(0), &[]);
    let expected = "error control plane: etcd refuses writes (etcd-0 has raised the alarm NOSPACE) -> Raise --quota-backend-bytes of etcd, or run etcdctl compaction REVISION and etcdctl defrag; then etcdctl alarm disarm";
    check(exceeded(1), &[expected]);
}

#[test]
fn parts_that_no_process_runs() {
    let leaders = |leases: &[(&str, i64)]| {
        let leases: Vec<_> = leases.iter().map(|(name, age)| ((*name).to_owned(), NOW - age)).collect();
        move |facts: &mut Facts| facts.control.leaders = leases
    };
    check(leaders(&[("karmada-up", 10), ("karmada-scheduler", 9000), ("karmada-agent-m1", 9000)]), &[]);
    let next = "Check that the process runs, and read its log: a store that refuses writes ends its Lease";
    let manager = format!(
        "error control plane: no process runs the controllers (the Lease karmada-controller-manager in karmada-system was renewed 5m ago) -> {next}"
    );
    check(leaders(&[("karmada-scheduler", 10), ("karmada-controller-manager", 300)]), &[&manager]);
    // By the clock of the control plane, which is behind, they are new.
    let behind = "error control plane: the clock differs (it is 302 s behind this machine, within 1 s) -> Compare with a time server on both machines: timedatectl status";
    let led = leaders(&[("karmada-up", 300)]);
    check(|facts| (led(facts), facts.control.skew = Some(Skew { seconds: -302.0, tolerance: 1.0 })).1, &[behind]);
    let of_up = |part: &str| {
        format!(
            "error control plane: no process runs the {part} (the Lease karmada-up in karmada-system was renewed 5m ago) -> {next}"
        )
    };
    let embedded = leaders(&[("karmada-up", 300)]);
    let store = sample("karmada_store_size_bytes", ("", ""), 1);
    check(|facts| (embedded(facts), facts.control.metrics = vec![store]).1, &[]);
    check(leaders(&[("karmada-up", 300)]), &[&of_up("controllers"), &of_up("scheduler")]);
}

#[test]
fn the_control_plane() {
    let ends = sample("karmada_certificate_expiration_timestamp_seconds", ("certificate", "ca"), 1_800_000_000 - 3600);
    check(
        |facts| {
            facts.control.failed_checks = vec!["storage-integrity failed".into(), "etcd failed".into()];
            facts.control.client_certificate_ends = Some(NOW + 3600);
            facts.control.skew = Some(Skew { seconds: -400.0, tolerance: 1.0 });
            facts.control.metrics = vec![
                ends,
                sample("karmada_store_damaged", ("", ""), 2),
                sample("workqueue_depth", ("name", "binding"), 2000),
                sample("workqueue_longest_running_processor_seconds", ("name", "work"), 301),
                sample("karmada_store_backup_last_success_timestamp_seconds", ("", ""), 1_800_000_000 - 259_200),
            ];
        },
        &[
            "error control plane: a health check fails (storage-integrity failed) -> karmada store verify; if it is sound, the server's log names the values that it cannot decrypt",
            "error control plane: a health check fails (etcd failed) -> kubectl get --raw '/readyz?verbose'",
            "error control plane: certificate ca has expired (it expired 60m ago) -> karmada certs check; karmada certs renew",
            "error control plane: the store is damaged (2 damaged places since the start) -> karmada store verify",
            "error control plane: the clock differs (it is 400 s behind this machine, within 1 s) -> Compare with a time server on both machines: timedatectl status",
            "warning controller binding: the queue is long (2000 keys wait) -> kubectl get --raw /metrics | grep workqueue_",
            "warning controller work: one of its passes does not end (one pass has been running for 5m1s) -> Read the log of the server: a member or a webhook may not answer",
            "warning control plane: the backups are old (the last one was taken 3d ago) -> Read the log of the server for the reason, and the metric karmada_store_backups_total",
            "warning your kubeconfig: the client certificate expires soon (it expires in 60m) -> Copy the kubeconfig of the control plane again; a running server renews its own file",
        ],
    );
}

#[test]
fn members() {
    let down = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "ClusterStatusUnknown", "message": "no answer"}]}});
    check(
        with(down),
        &[
            "error cluster m1: it is not ready (Ready is Unknown: ClusterStatusUnknown: no answer) -> karmadactl describe cluster m1",
        ],
    );
    for (mode, reason, message, next) in [
        ("Push", "ClusterNotReachable", "cluster is not reachable (since x)", "karmadactl describe cluster m1"),
        (
            "Push",
            "ClusterNotReachable",
            "cluster is not reachable: its API server answers 401 to Karmada's credentials (since x)",
            "Store its credentials again: karmadactl join m1 --renew --cluster-kubeconfig=FILE",
        ),
        (
            "Push",
            "StatusCollectionFailed",
            "failed to create a ClusterClient: no secret",
            "Store its credentials again: karmadactl join m1 --renew --cluster-kubeconfig=FILE",
        ),
        (
            "Pull",
            "StatusCollectionFailed",
            "failed to create a ClusterClient: no secret",
            "karmadactl describe cluster m1",
        ),
    ] {
        let ready = json!({"type": "Ready", "status": "False", "reason": reason, "message": message});
        let finding = format!("error cluster m1: it is not ready (Ready is False: {reason}: {message}) -> {next}");
        check(with(json!({"spec": {"syncMode": mode}, "status": {"conditions": [ready]}})), &[&finding]);
    }
    let held = |type_: &str| json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": type_, "status": "True"}]}});
    check(
        with(held("ResumePending")),
        &[
            "warning cluster m1: it is held until a person confirms (it is newer than the store of the control plane: nothing is written there) -> karmadactl resume m1 --dry-run",
        ],
    );
    check(
        with(held("EvictionsPaused")),
        &[
            "warning cluster m1: evictions are paused (too many clusters turned unhealthy at once) -> karmadactl failover plan m1; karmadactl failover release m1",
        ],
    );
    check(
        with(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}})),
        &[
            "info cluster m1: workloads leave it (it has the taint k=v:NoExecute) -> karmadactl taint clusters m1 k:NoExecute-",
        ],
    );
    check(with(json!({"spec": {"taints": [{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]}})), &[]);
    let tainted = with(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    check(
        |facts| {
            tainted(facts);
            facts.control.no_evictions = Some("no flag".to_owned());
        },
        &[
            "info cluster m1: it takes no new workloads (it has the taint k:NoExecute, which evicts nothing: no flag) -> karmadactl taint clusters m1 k:NoExecute-",
        ],
    );
    let probed = |probe: Result<Probe, String>, mode: &str, expected: &[&str]| {
        let object = cluster(json!({"spec": {"syncMode": mode}}));
        check(
            |facts| {
                facts.members =
                    vec![Member { object, renewed: Some(NOW - 300), probe: Some(probe), ..Member::default() }]
            },
            expected,
        );
    };
    let silent = "error cluster m1: its agent does not report (the Lease m1 in karmada-cluster was renewed 5m ago) -> Check that the agent runs in m1: kubectl -n karmada-system get pods";
    probed(
        Err("no route".into()),
        "Push",
        &[silent, "error cluster m1: the proxy does not reach it (no route) -> karmadactl describe cluster m1"],
    );
    for why in ["failed to get impresonateToken for cluster m1: no secret", "Unauthorized"] {
        let renew = format!(
            "error cluster m1: the proxy does not reach it ({why}) -> Store its credentials again: karmadactl join m1 --renew \
             --cluster-kubeconfig=FILE"
        );
        probed(Err(why.into()), "Push", &[silent, &renew]);
    }
    let unreadable = "failed to get impresonateToken for cluster m1: Internal error occurred: secrets \"m1-impersonator\" in namespace \
                      \"karmada-cluster\" cannot be read: the stored value is encrypted with \"k8s:enc:aesgcm:v1:key1:\"";
    let correct = format!(
        "error cluster m1: the proxy does not reach it ({unreadable}) -> Make the Secret readable: correct the cause in the evidence"
    );
    probed(Err(unreadable.into()), "Push", &[silent, &correct]);
    probed(
        Err("no route".into()),
        "Pull",
        &[
            silent,
            "warning cluster m1: the proxy does not reach it (no route) -> Its Works arrive without the proxy; logs, exec and get need it: karmadactl describe cluster m1",
        ],
    );
    // Its clock is behind, and by that the Lease is new.
    let skew = Some(Skew { seconds: -310.0, tolerance: 1.0 });
    let behind = "error cluster m1: the clock differs (it is 310 s behind this machine, within 1 s) -> Compare with a time server on both machines: timedatectl status";
    probed(Ok(Probe { version: "v1.30.0".into(), skew }), "Pull", &[behind]);
    let skew = Some(Skew { seconds: 30.0, tolerance: 1.0 });
    probed(
        Ok(Probe { version: "v1.31.0".into(), skew }),
        "Push",
        &[
            &silent.replace("5m ago", "5m30s ago"),
            "warning cluster m1: the clock differs (it is 30 s ahead of this machine, within 1 s) -> Compare with a time server on both machines: timedatectl status",
            "info cluster m1: its status names another version (the server reports v1.31.0, the status v1.30.0) -> karmadactl describe cluster m1",
        ],
    );
}

#[test]
fn queues_and_capacity() {
    let of = |name: &str, queue: &str, value: i32| sample(name, ("name", queue), value);
    let waited = |sum: i32, count: i32, expected: &[&str]| {
        let metrics = vec![
            of("workqueue_queue_duration_seconds_sum", "binding", sum),
            of("workqueue_queue_duration_seconds_count", "work", 1000),
            of("workqueue_queue_duration_seconds_count", "binding", count),
        ];
        check(|facts| facts.control.metrics = metrics, expected);
    };
    waited(199, 20, &[]);
    waited(1000, 19, &[]);
    waited(
        2400,
        20,
        &[
            "warning controller binding: keys wait long in its queue (2m on average, over 20 keys since the start) -> kubectl get --raw /metrics | grep -e workqueue_ -e rest_client_; a member that answers slowly holds workers",
        ],
    );
    let left = |size: f64, free: f64, expected: &[&str]| {
        let metrics = [("karmada_store_size_bytes", size), ("karmada_store_free_bytes", free)];
        let of =
            |(name, mib): (&str, f64)| Sample { name: name.to_owned(), value: mib * 1_048_576.0, labels: Vec::new() };
        check(|facts| facts.control.metrics = metrics.map(of).to_vec(), expected);
    };
    left(100.0, 512.0, &[]);
    left(8000.0, 2000.0, &[]);
    let next = "karmada store stats shows what takes the space; free some, or move the data directory to a larger disk";
    let shown = |severity: &str, size: u32, free: u32| {
        format!(
            "{severity} control plane: the store has little room left (the store has {size} MiB, its file system has {free} MiB left) -> {next}"
        )
    };
    left(8000.0, 1999.0, &[&shown("warning", 8000, 1999)]);
    left(100.0, 60.0, &[&shown("error", 100, 60)]);
}

#[test]
fn agents_of_pull_mode_members() {
    let of =
        |certificate: Option<Validity>, tunnels: Option<&[&str]>, probe: Result<Probe, String>, expected: &[&str]| {
            let object = cluster(json!({"spec": {"syncMode": "Pull"}}));
            let member = Member { object, renewed: Some(NOW), agent_certificate: certificate, probe: Some(probe) };
            let tunnels = tunnels.map(|open| open.iter().map(|name| (*name).to_owned()).collect());
            check(
                |facts| {
                    facts.control.tunnels = tunnels;
                    facts.members = vec![member];
                },
                expected,
            );
        };
    let well = || Ok(Probe { version: "v1.30.0".into(), skew: None });
    let left = |seconds: i64| Some(Validity { begins: NOW + seconds - 100 * DAY, ends: NOW + seconds });
    let next = "Read the agent's log in m1, and look for its request: kubectl get certificatesigningrequests. Once it has expired: karmadactl unregister m1; karmadactl register";
    of(left(10 * DAY), Some(&["m1"]), well(), &[]);
    of(
        left(9 * DAY),
        Some(&["m1"]),
        well(),
        &[&format!(
            "warning cluster m1: its agent does not renew its certificate (it expires in 9d and should have been renewed) -> {next}"
        )],
    );
    of(
        left(-3600),
        Some(&["m1"]),
        well(),
        &[&format!("error cluster m1: its agent's certificate has expired (60m ago) -> {next}")],
    );
    of(None, Some(&[]), well(), &[]);
    of(
        None,
        Some(&[]),
        Err("503".into()),
        &[
            "warning cluster m1: its tunnel is not open, so get, logs and exec do not reach it (503) -> In m1, see that the agent runs, with --enable-tunnel and a Role with create on clusters/tunnel: kubectl -n karmada-system logs deployment/karmada-agent",
        ],
    );
    let unreached = "warning cluster m1: the proxy does not reach it (503) -> Its Works arrive without the proxy; logs, exec and get need it: karmadactl describe cluster m1";
    of(None, None, Err("503".into()), &[unreached]);
    of(None, Some(&["m1"]), Err("503".into()), &[unreached]);
}

#[test]
fn stuck_objects() {
    let subject = |cluster: &str| {
        Some(Subject { kind: "deployment".into(), namespace: "n".into(), name: "web".into(), cluster: cluster.into() })
    };
    let one = |problem: Problem, since: i64, expected: &[&str]| {
        let (kind, cluster) = if matches!(problem, Problem::Unscheduled { .. }) { ("b", "") } else { ("work", "m1") };
        let subject = subject(cluster);
        let stuck = Stuck { kind: kind.into(), namespace: "n".into(), name: "w".into(), subject, problem, since };
        check(|facts| facts.objects = vec![stuck], expected);
    };
    one(
        Problem::NotApplied("denied".into()),
        NOW - 60,
        &[
            "warning deployment n/web in cluster m1 (work n/w): it is not applied in its cluster (for 60s: denied) -> karmadactl why work/w -n n",
        ],
    );
    let conflict = "it already exists, Karmada will not manage this resource".to_owned();
    let shown = format!(
        "error deployment n/web in cluster m1 (work n/w): it is not applied in its cluster (for 4m: {conflict}) -> Delete the \
         object in the cluster, or take it over with spec.conflictResolution: Overwrite in the policy; karmadactl why work/w -n n"
    );
    one(Problem::NotApplied(conflict), NOW - 240, &[&shown]);
    one(Problem::NotAttempted, NOW - 60, &[]);
    one(
        Problem::NotAttempted,
        NOW - 240,
        &[
            "error deployment n/web in cluster m1 (work n/w): no attempt to apply it has ended (for 4m) -> karmadactl why work/w -n n",
        ],
    );
    one(Problem::Deleting(vec!["f".into()]), NOW - 240, &[]);
    one(
        Problem::Deleting(vec!["f".into()]),
        NOW - 7200,
        &[
            "warning deployment n/web in cluster m1 (work n/w): its deletion does not end (for 120m, with the finalizers f) -> karmadactl describe work w -n n",
        ],
    );
    let unscheduled = |reason: &str| Problem::Unscheduled { reason: reason.into(), message: "no room".into() };
    one(
        unscheduled("NoClusterFit"),
        NOW - 240,
        &[
            "error deployment n/web (b n/w): it is not scheduled (for 4m: NoClusterFit: no room) -> karmadactl why deployment/web -n n",
        ],
    );
    one(
        unscheduled("QuotaExceeded"),
        NOW - 3,
        &[
            "warning deployment n/web (b n/w): it is not scheduled (for 3s: QuotaExceeded: no room) -> Raise the quota or lower the replicas: kubectl get federatedresourcequotas -n n; karmadactl why deployment/web -n n",
        ],
    );
    let failing = Problem::Failing { reason: "GetReplicasFailed".into(), message: "no answer".into() };
    let stuck = Stuck {
        kind: "deployment".into(),
        namespace: "n".into(),
        name: "web".into(),
        problem: failing,
        since: NOW - 240,
        ..Stuck::default()
    };
    check(
        |facts| facts.objects = vec![stuck],
        &[
            "error deployment n/web: its last change has no effect (for 4m: GetReplicasFailed: no answer) -> karmadactl why deployment/web -n n",
        ],
    );
    let unscalable = |since: i64, expected: &[&str]| {
        let problem = Problem::Unscalable { reason: "FailedGetResourceMetric".into(), message: "no metrics".into() };
        let (kind, namespace, name) = ("federatedhpa".into(), "n".into(), "web".into());
        let stuck = Stuck { kind, namespace, name, problem, since, ..Stuck::default() };
        check(|facts| facts.objects = vec![stuck], expected);
    };
    unscalable(NOW - 60, &[]);
    unscalable(
        NOW - 240,
        &[
            "warning federatedhpa n/web: it does not scale its target (for 4m: FailedGetResourceMetric: no metrics) -> karmadactl why federatedhpa/web -n n",
        ],
    );
    check(
        |facts| facts.requests = vec![Request { name: "r".into(), user: "u".into(), since: NOW - 600 }],
        &[
            "warning certificatesigningrequest r: it is neither approved nor denied (u waits for its certificate for 10m) -> kubectl certificate approve r (or deny)",
        ],
    );
    check(
        |facts| facts.unread = vec![("metrics".into(), "forbidden".into())],
        &[
            "info metrics: it was not checked (forbidden) -> Repeat it as a user who may read it, while the server answers",
        ],
    );
}

#[test]
fn lost_rights_are_restored_by_a_command() {
    let object = json!({"kind": "RoleBinding", "metadata": {"name": "r"}});
    let key = apimachinery::ObjectKey::namespaced("karmada-es-m1", "r");
    let missing = |is_changed: bool| {
        let (key, object) = (key.clone(), object.clone());
        vec![crate::doctor::grants::Missing { cluster: "m1".into(), key, object, is_changed }]
    };
    check(
        |facts| facts.missing = missing(false),
        &[
            "error rolebinding karmada-es-m1/r: the agent of cluster m1 lacks the rights that it grants (it does not exist, and others that register created with it do) -> echo '{\"kind\":\"RoleBinding\",\"metadata\":{\"name\":\"r\"}}' | kubectl create -f -",
        ],
    );
    check(
        |facts| facts.missing = missing(true),
        &[
            "error rolebinding karmada-es-m1/r: the agent of cluster m1 lacks the rights that it grants (it does not name the user system:karmada:agent:m1) -> echo '{\"kind\":\"RoleBinding\",\"metadata\":{\"name\":\"r\"}}' | kubectl replace --force -f -",
        ],
    );
}
