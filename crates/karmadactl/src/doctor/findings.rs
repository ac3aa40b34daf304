//! From facts to findings. Pure: the same facts give the same findings, the worst first.

use serde::Serialize;
use serde_json::Value;

use super::facts::{Facts, Member, Probe, Problem, Request, Sample, Skew, Stuck};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// As `karmada certs check`.
const CERTIFICATE_WARNING: i64 = 30 * DAY;
/// A server warns such clients with each answer.
const CLIENT_CERTIFICATE_WARNING: i64 = 7 * DAY;
/// Leases and back-offs bear this much.
const SKEW_WARNING: f64 = 10.0;
/// Tokens and certificates of this age are refused by servers whose clocks are behind.
const SKEW_ERROR: f64 = 300.0;
/// Keys in a queue: at some hundred a second, ten seconds of work.
const DEEP_QUEUE: f64 = 1000.0;
/// One pass of a controller takes milliseconds, and some seconds while a member is slow.
const LONG_PASS: f64 = 300.0;
/// An agent renews every ten seconds or so; four misses make it unknown.
const OLD_LEASE: i64 = 2 * MINUTE;
/// Scheduling and applying take seconds.
const PATIENCE: i64 = 2 * MINUTE;
/// Cascading deletion over slow members takes minutes.
const LONG_DELETION: i64 = 10 * MINUTE;
const OLD_REQUEST: i64 = 5 * MINUTE;
/// Backups are daily where they are scheduled.
const OLD_BACKUP: i64 = 2 * DAY;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Info,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// `cluster member1`, `control plane`, `resourcebinding shop/web-deployment`
    pub object: String,
    pub problem: String,
    pub evidence: String,
    /// A command, or what to do where none does it.
    pub next: String,
}

fn finding(
    severity: Severity,
    object: &str,
    problem: &str,
    evidence: impl Into<String>,
    next: impl Into<String>,
) -> Finding {
    Finding {
        severity,
        object: object.to_owned(),
        problem: problem.to_owned(),
        evidence: evidence.into(),
        next: next.into(),
    }
}

/// All findings; `program` is how the user calls this one.
pub fn findings(facts: &Facts, program: &str) -> Vec<Finding> {
    let mut found = control_plane(facts);
    found.extend(facts.members.iter().flat_map(|it| member(it, facts, program)));
    found.extend(facts.objects.iter().filter_map(|it| stuck(it, facts.now, program)));
    found.extend(facts.requests.iter().filter_map(|it| request(it, facts.now)));
    found.extend(facts.unread.iter().map(|(what, why)| {
        finding(Severity::Info, what, "it was not checked", why.clone(), "Repeat it as a user who may read it")
    }));
    // A stable sort: within a severity the order above.
    found.sort_by_key(|it| it.severity);
    found
}

const CONTROL: &str = "control plane";

fn control_plane(facts: &Facts) -> Vec<Finding> {
    let control = &facts.control;
    let mut found = Vec::new();
    for check in &control.failed_checks {
        let next = match check.starts_with("storage-integrity") {
            true => "karmada store verify",
            false => "kubectl get --raw '/readyz?verbose'",
        };
        found.push(finding(Severity::Error, CONTROL, "a health check fails", check.clone(), next));
    }
    found.extend(control.metrics.iter().filter_map(|sample| measured(sample, facts.now)));
    if let Some(ends) = control.client_certificate_ends {
        let next = "Copy the kubeconfig of the control plane again; a running server renews its own file";
        let object = "your kubeconfig";
        found.extend(expiry(object, "the client certificate", ends, facts.now, CLIENT_CERTIFICATE_WARNING, next));
    }
    found.extend(clock(CONTROL, control.skew));
    found
}

/// What a metric gives away.
fn measured(sample: &Sample, now: i64) -> Option<Finding> {
    let controller = || format!("controller {}", sample.label("name"));
    let time = sample.value as i64;
    match sample.name.as_str() {
        "karmada_certificate_expiration_timestamp_seconds" => {
            let name = sample.label("certificate");
            let next = "karmada certs check; karmada certs renew";
            expiry(CONTROL, &format!("certificate {name}"), time, now, CERTIFICATE_WARNING, next)
        }
        "karmada_store_damaged" if sample.value > 0.0 => {
            let evidence = format!("{} damaged places since the start", sample.value);
            let problem = "the store is damaged";
            Some(finding(Severity::Error, CONTROL, problem, evidence, "karmada store verify"))
        }
        "karmada_store_backup_last_success_timestamp_seconds" if time > 0 && now - time > OLD_BACKUP => {
            let evidence = format!("the last one was taken {} ago", ago(now - time));
            let next = "Read the log of the server for the reason, and the metric karmada_store_backups_total";
            Some(finding(Severity::Warning, CONTROL, "the backups are old", evidence, next))
        }
        "workqueue_depth" if sample.value > DEEP_QUEUE => {
            let next = "kubectl get --raw /metrics | grep workqueue_";
            let evidence = format!("{} keys wait", sample.value);
            Some(finding(Severity::Warning, &controller(), "the queue is long", evidence, next))
        }
        "workqueue_longest_running_processor_seconds" if sample.value > LONG_PASS => {
            let evidence = format!("one pass has been running for {}", ago(time));
            let next = "Read the log of the server: a member or a webhook may not answer";
            Some(finding(Severity::Warning, &controller(), "one of its passes does not end", evidence, next))
        }
        _ => None,
    }
}

fn expiry(object: &str, what: &str, ends: i64, now: i64, early: i64, next: &str) -> Option<Finding> {
    let left = ends - now;
    if left > early {
        return None;
    }
    Some(match left <= 0 {
        true => {
            let evidence = format!("it expired {} ago", ago(-left));
            finding(Severity::Error, object, &format!("{what} has expired"), evidence, next)
        }
        false => {
            let evidence = format!("it expires in {}", ago(left));
            finding(Severity::Warning, object, &format!("{what} expires soon"), evidence, next)
        }
    })
}

/// A clock that differs by more than the measurement can be wrong.
fn clock(object: &str, skew: Option<Skew>) -> Option<Finding> {
    let skew = skew?;
    let off = skew.seconds.abs() - skew.tolerance;
    if off < SKEW_WARNING {
        return None;
    }
    let severity = if off < SKEW_ERROR { Severity::Warning } else { Severity::Error };
    let side = if skew.seconds > 0.0 { "ahead of" } else { "behind" };
    let evidence = format!("it is {:.0} s {side} this machine, within {:.0} s", skew.seconds.abs(), skew.tolerance);
    let next = "Compare with a time server on both machines: timedatectl status";
    Some(finding(severity, object, "the clock differs", evidence, next))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == type_)
}

fn member(member: &Member, facts: &Facts, program: &str) -> Vec<Finding> {
    let cluster = &member.object;
    let name = text(&cluster["metadata"]["name"]);
    let object = format!("cluster {name}");
    let mut found = Vec::new();
    let mut add = |severity, problem: &str, evidence: String, next: String| {
        found.push(finding(severity, &object, problem, evidence, next));
    };
    let describe = format!("{program} describe cluster {name}");
    let ready = condition(cluster, "Ready");
    if ready.is_none_or(|it| it["status"] != "True") {
        let evidence = ready.map_or_else(
            || "it has no condition Ready yet".to_owned(),
            |it| format!("Ready is {}: {}: {}", text(&it["status"]), text(&it["reason"]), text(&it["message"])),
        );
        add(Severity::Error, "it is not ready", evidence, describe.clone());
    }
    let is_pull = cluster["spec"]["syncMode"] == "Pull";
    if let Some(age) = member.renewed.map(|at| facts.now - at).filter(|age| *age > OLD_LEASE) {
        let evidence = format!("the Lease {name} in karmada-cluster was renewed {} ago", ago(age));
        let next = format!("Check that the agent runs in {name}: kubectl -n karmada-system get pods");
        add(Severity::Error, "its agent does not report", evidence, next);
    }
    match &member.probe {
        Some(Err(why)) => {
            let severity = if is_pull { Severity::Warning } else { Severity::Error };
            let next = match is_pull {
                true => format!("Its Works arrive without the proxy; logs, exec and get need it: {describe}"),
                false => describe.clone(),
            };
            add(severity, "the proxy does not reach it", why.clone(), next);
        }
        Some(Ok(Probe { version, .. })) => {
            let known = text(&cluster["status"]["kubernetesVersion"]);
            if !known.is_empty() && !version.is_empty() && known != version {
                let evidence = format!("the server reports {version}, the status {known}");
                add(Severity::Info, "its status names another version", evidence, describe.clone());
            }
        }
        None => {}
    }
    if condition(cluster, "ResumePending").is_some_and(|it| it["status"] == "True") {
        let evidence = "it is newer than the store of the control plane: nothing is written there".to_owned();
        let next = format!("{program} resume {name} --dry-run");
        add(Severity::Warning, "it is held until a person confirms", evidence, next);
    }
    if condition(cluster, "EvictionsPaused").is_some_and(|it| it["status"] == "True") {
        let evidence = "too many clusters turned unhealthy at once".to_owned();
        let next = format!("{program} failover plan {name}; {program} failover release {name}");
        add(Severity::Warning, "evictions are paused", evidence, next);
    }
    let taints = cluster["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    // Those of the control plane's own group follow from what is found above.
    let by_hand = |taint: &&Value| {
        (taint["effect"] == "NoExecute" || taint["effect"] == "NoSchedule")
            && !text(&taint["key"]).starts_with("cluster.karmada.io/")
    };
    for taint in taints.iter().filter(by_hand) {
        let shown = match text(&taint["value"]) {
            "" => format!("{}:{}", text(&taint["key"]), text(&taint["effect"])),
            value => format!("{}={value}:{}", text(&taint["key"]), text(&taint["effect"])),
        };
        let problem = if taint["effect"] == "NoExecute" { "workloads leave it" } else { "it takes no new workloads" };
        let next = format!("{program} taint clusters {name} {}:{}-", text(&taint["key"]), text(&taint["effect"]));
        add(Severity::Info, problem, format!("it has the taint {shown}"), next);
    }
    let probe = member.probe.as_ref().and_then(|it| it.as_ref().ok());
    found.extend(clock(&object, probe.and_then(|it| it.skew)));
    found
}

fn stuck(it: &Stuck, now: i64, program: &str) -> Option<Finding> {
    let age = now - it.since;
    let least = if matches!(it.problem, Problem::Deleting(_)) { LONG_DELETION } else { PATIENCE };
    if age < least {
        return None;
    }
    let place = if it.namespace.is_empty() { it.name.clone() } else { format!("{}/{}", it.namespace, it.name) };
    let object = format!("{} {place}", it.kind);
    let within = if it.namespace.is_empty() { String::new() } else { format!(" -n {}", it.namespace) };
    let describe = format!("{program} describe {} {}{within}", it.kind, it.name);
    let since = format!("for {}", ago(age));
    Some(match &it.problem {
        Problem::Deleting(finalizers) => {
            let evidence = match finalizers.is_empty() {
                true => format!("{since}, without finalizers"),
                false => format!("{since}, with the finalizers {}", finalizers.join(", ")),
            };
            finding(Severity::Warning, &object, "its deletion does not end", evidence, describe)
        }
        Problem::Unscheduled(why) => {
            finding(Severity::Error, &object, "it is not scheduled", format!("{since}: {why}"), describe)
        }
        Problem::Unseen => {
            let next = "Check that the scheduler runs: kubectl get lease -A | grep karmada-scheduler";
            finding(Severity::Error, &object, "the scheduler has not processed it", since, next)
        }
        Problem::NotApplied(why) => {
            finding(Severity::Error, &object, "it is not applied in its cluster", format!("{since}: {why}"), describe)
        }
    })
}

fn request(request: &Request, now: i64) -> Option<Finding> {
    let age = now - request.since;
    let object = format!("certificatesigningrequest {}", request.name);
    let evidence = format!("{} waits for its certificate for {}", request.user, ago(age));
    let next = format!("kubectl certificate approve {} (or deny)", request.name);
    let problem = "it is neither approved nor denied";
    (age >= OLD_REQUEST).then(|| finding(Severity::Warning, &object, problem, evidence, next))
}

/// `3m20s`, as ages in tables.
fn ago(seconds: i64) -> String {
    apimachinery::age::human_duration(seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn nothing_is_wrong() {
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
    fn the_control_plane() {
        let ends =
            sample("karmada_certificate_expiration_timestamp_seconds", ("certificate", "ca"), 1_800_000_000 - 3600);
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
                "error control plane: a health check fails (storage-integrity failed) -> karmada store verify",
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
        check(
            with(json!({"spec": {"taints": [{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}]}})),
            &[],
        );
        let probed = |probe: Result<Probe, String>, mode: &str, expected: &[&str]| {
            let object = cluster(json!({"spec": {"syncMode": mode}}));
            check(
                |facts| facts.members = vec![Member { object, renewed: Some(NOW - 300), probe: Some(probe) }],
                expected,
            );
        };
        let silent = "error cluster m1: its agent does not report (the Lease m1 in karmada-cluster was renewed 5m ago) -> Check that the agent runs in m1: kubectl -n karmada-system get pods";
        probed(
            Err("no route".into()),
            "Push",
            &[silent, "error cluster m1: the proxy does not reach it (no route) -> karmadactl describe cluster m1"],
        );
        probed(
            Err("no route".into()),
            "Pull",
            &[
                silent,
                "warning cluster m1: the proxy does not reach it (no route) -> Its Works arrive without the proxy; logs, exec and get need it: karmadactl describe cluster m1",
            ],
        );
        let skew = Some(Skew { seconds: 30.0, tolerance: 1.0 });
        probed(
            Ok(Probe { version: "v1.31.0".into(), skew }),
            "Push",
            &[
                silent,
                "warning cluster m1: the clock differs (it is 30 s ahead of this machine, within 1 s) -> Compare with a time server on both machines: timedatectl status",
                "info cluster m1: its status names another version (the server reports v1.31.0, the status v1.30.0) -> karmadactl describe cluster m1",
            ],
        );
    }

    #[test]
    fn stuck_objects() {
        let one = |problem: Problem, since: i64, expected: &[&str]| {
            let stuck = Stuck { kind: "work".into(), namespace: "n".into(), name: "w".into(), problem, since };
            check(|facts| facts.objects = vec![stuck], expected);
        };
        one(Problem::NotApplied("denied".into()), NOW - 60, &[]);
        one(
            Problem::NotApplied("denied".into()),
            NOW - 240,
            &["error work n/w: it is not applied in its cluster (for 4m: denied) -> karmadactl describe work w -n n"],
        );
        one(Problem::Deleting(vec!["f".into()]), NOW - 240, &[]);
        one(
            Problem::Deleting(vec!["f".into()]),
            NOW - 7200,
            &[
                "warning work n/w: its deletion does not end (for 120m, with the finalizers f) -> karmadactl describe work w -n n",
            ],
        );
        one(
            Problem::Unscheduled("no room".into()),
            NOW - 240,
            &["error work n/w: it is not scheduled (for 4m: no room) -> karmadactl describe work w -n n"],
        );
        check(
            |facts| facts.requests = vec![Request { name: "r".into(), user: "u".into(), since: NOW - 600 }],
            &[
                "warning certificatesigningrequest r: it is neither approved nor denied (u waits for its certificate for 10m) -> kubectl certificate approve r (or deny)",
            ],
        );
        check(
            |facts| facts.unread = vec![("metrics".into(), "forbidden".into())],
            &["info metrics: it was not checked (forbidden) -> Repeat it as a user who may read it"],
        );
    }
}
