//! From facts to findings. Pure: the same facts give the same findings, the worst first.

use serde::Serialize;
use serde_json::Value;

use super::facts::{Control, Facts, Member, Probe, Request, Sample, Skew, Validity};

mod stuck;

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
/// Keys wait milliseconds for a worker on average, and seconds in a burst.
const LONG_WAIT: f64 = 10.0;
/// Fewer waits are no average.
const WAITS: f64 = 20.0;
/// Agents renew their certificates in the last fifth of the lifetime.
const OVERDUE: i64 = 10;
/// Compaction and checkpoints copy parts of the store.
const FREE_SHARE: f64 = 0.25;
const FREE_LEAST: f64 = 512.0 * 1024.0 * 1024.0;
/// One pass of a controller takes milliseconds, and some seconds while a member is slow.
const LONG_PASS: f64 = 300.0;
/// An agent renews every ten seconds or so; four misses make it unknown.
const OLD_LEASE: i64 = 2 * MINUTE;
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
    /// A command, or an instruction if there is no command.
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
    found.extend(facts.objects.iter().filter_map(|it| stuck::stuck(it, facts.now, program)));
    found.extend(facts.missing.iter().map(stuck::missing));
    found.extend(facts.requests.iter().filter_map(|it| request(it, facts.now)));
    found.extend(facts.unread.iter().map(|(what, why)| {
        finding(
            Severity::Info,
            what,
            "it was not checked",
            why.clone(),
            "Repeat it as a user who may read it, while the server answers",
        )
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
            true => "karmada store verify; if it is sound, the server's log names the values that it cannot decrypt",
            false => "kubectl get --raw '/readyz?verbose'",
        };
        found.push(finding(Severity::Error, CONTROL, "a health check fails", check.clone(), next));
    }
    found.extend(control.metrics.iter().filter_map(|sample| measured(sample, facts.now)));
    found.extend(waits(&control.metrics));
    found.extend(disk_space(&control.metrics));
    found.extend(backups(&control.metrics));
    found.extend(leaders(control, by(control.skew, facts.now)));
    if let Some(ends) = control.client_certificate_ends {
        let next = "Copy the kubeconfig of the control plane again; a running server renews its own file";
        let object = "your kubeconfig";
        found.extend(expiry(object, "the client certificate", ends, facts.now, CLIENT_CERTIFICATE_WARNING, next));
    }
    found.extend(clock(CONTROL, control.skew));
    found
}

/// The Leases of the processes that run a part of the control plane. `karmada up` runs all of them, and needs no Lease on
/// the store in its data directory.
const PARTS: [(&str, [&str; 2]); 2] = [
    ("no process runs the controllers", ["karmada-up", "karmada-controller-manager"]),
    ("no process runs the scheduler", ["karmada-up", "karmada-scheduler"]),
];

/// Parts that a process was elected for, and that none runs now. A server that has the store in its data directory may
/// run them without a Lease, beside old Leases of the time before.
fn leaders(control: &Control, now: i64) -> Vec<Finding> {
    if value(&control.metrics, "karmada_store_size_bytes").is_some() {
        return Vec::new();
    }
    let last = |leases: [&'static str; 2]| {
        let of_part = control.leaders.iter().filter(|(name, _)| leases.contains(&name.as_str()));
        of_part.max_by_key(|(_, renewed)| *renewed)
    };
    let missing = PARTS.iter().filter_map(|(problem, leases)| Some((problem, last(*leases)?)));
    let missing = missing.filter(|(_, (_, renewed))| now - renewed > OLD_LEASE);
    let next = "Check that the process runs, and read its log: a store that refuses writes ends its Lease";
    let finding_of = |(problem, (name, renewed)): (&&str, &(String, i64))| {
        let evidence = format!("the Lease {name} in karmada-system was renewed {} ago", ago(now - renewed));
        finding(Severity::Error, CONTROL, problem, evidence, next)
    };
    missing.map(finding_of).collect()
}

fn value(metrics: &[Sample], name: &str) -> Option<f64> {
    metrics.iter().find(|sample| sample.name == name).map(|sample| sample.value)
}

/// Queues whose keys wait long for a worker, on average since the start.
fn waits(metrics: &[Sample]) -> Vec<Finding> {
    let named = |name: &'static str| metrics.iter().filter(move |sample| sample.name == name);
    let mut found = Vec::new();
    for sum in named("workqueue_queue_duration_seconds_sum") {
        let count = named("workqueue_queue_duration_seconds_count").find(|count| count.labels == sum.labels);
        let count = count.map_or(0.0, |count| count.value);
        if count < WAITS || sum.value / count < LONG_WAIT {
            continue;
        }
        let controller = format!("controller {}", sum.label("name"));
        let evidence = format!("{} on average, over {count} keys since the start", ago((sum.value / count) as i64));
        let next = "kubectl get --raw /metrics | grep -e workqueue_ -e rest_client_; a member that answers slowly holds workers";
        found.push(finding(Severity::Warning, &controller, "keys wait long in its queue", evidence, next));
    }
    found
}

/// A file system that is nearly full: writes fail once it is.
fn disk_space(metrics: &[Sample]) -> Option<Finding> {
    let size = value(metrics, "karmada_store_size_bytes")?;
    let free = value(metrics, "karmada_store_free_bytes")?;
    if free >= FREE_LEAST.max(size * FREE_SHARE) {
        return None;
    }
    let mib = |bytes: f64| (bytes / 1024.0 / 1024.0).round();
    let evidence = format!("the store has {} MiB, its file system has {} MiB left", mib(size), mib(free));
    let next = "karmada store stats shows what takes the space; free some, or move the data directory to a larger disk";
    let severity = if free < FREE_LEAST / 8.0 { Severity::Error } else { Severity::Warning };
    Some(finding(severity, CONTROL, "the store has little room left", evidence, next))
}

/// Scheduled backups of which none has succeeded since the start.
fn backups(metrics: &[Sample]) -> Option<Finding> {
    let of = |result: &str| {
        let named = |it: &&Sample| it.name == "karmada_store_backups_total" && it.label("result") == result;
        metrics.iter().find(named).map_or(0.0, |sample| sample.value)
    };
    let (errors, successes) = (of("error"), of("success"));
    if errors == 0.0 || successes > 0.0 {
        return None;
    }
    let next = "Read the log of the server for the reason: the directory of --backup-dir may be full";
    let evidence = format!("{errors} attempts have failed since the start, and none has succeeded");
    Some(finding(Severity::Warning, CONTROL, "the backups fail", evidence, next))
}

/// The finding of a metric.
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
        "karmada_etcd_quota_exceeded" if sample.value > 0.0 => {
            let evidence = format!("{} has raised the alarm NOSPACE", sample.label("storage_cluster_id"));
            let next = "Raise --quota-backend-bytes of etcd, or run etcdctl compaction REVISION and etcdctl defrag; then etcdctl alarm disarm";
            Some(finding(Severity::Error, CONTROL, "etcd refuses writes", evidence, next))
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

/// The present by another clock, in the whole seconds of Leases.
fn by(skew: Option<Skew>, now: i64) -> i64 {
    skew.map_or(now, |skew| now.saturating_add(skew.seconds.round() as i64))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == type_)
}

/// The agent renews its Lease by the clock of its cluster.
fn lease_age(member: &Member, now: i64) -> Option<i64> {
    let skew = member.probe.as_ref().and_then(|probe| probe.as_ref().ok()?.skew);
    Some(by(skew, now) - member.renewed?)
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
    let renew = format!("Store its credentials again: {program} join {name} --renew --cluster-kubeconfig=FILE");
    let is_pull = cluster["spec"]["syncMode"] == "Pull";
    if let Some((evidence, is_denied)) = unready(cluster) {
        let next = if is_denied && !is_pull { &renew } else { &describe };
        add(Severity::Error, "it is not ready", evidence, next.clone());
    }
    if let Some(age) = lease_age(member, facts.now).filter(|age| *age > OLD_LEASE) {
        let evidence = format!("the Lease {name} in karmada-cluster was renewed {} ago", ago(age));
        let next = format!("Check that the agent runs in {name}: kubectl -n karmada-system get pods");
        add(Severity::Error, "its agent does not report", evidence, next);
    }
    if let Some((severity, problem, evidence, next)) = certificate(member, name, facts.now, program) {
        add(severity, problem, evidence, next);
    }
    let has_tunnel = facts.control.tunnels.as_ref().map(|open| open.contains(name));
    match &member.probe {
        Some(Err(why)) if is_pull && has_tunnel == Some(false) => {
            let next = format!(
                "In {name}, see that the agent runs, with --enable-tunnel and a Role with create on clusters/tunnel: kubectl -n \
                 karmada-system logs deployment/karmada-agent"
            );
            add(Severity::Warning, "its tunnel is not open, so get, logs and exec do not reach it", why.clone(), next);
        }
        Some(Err(why)) if is_pull => {
            let next = format!("Its Works arrive without the proxy; logs, exec and get need it: {describe}");
            add(Severity::Warning, "the proxy does not reach it", why.clone(), next);
        }
        Some(Err(why)) => {
            let next = if is_denied(why) { &renew } else { &describe };
            let next = if why.contains(UNREADABLE) { READABLE } else { next };
            add(Severity::Error, "the proxy does not reach it", why.clone(), next.to_owned());
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
    found.extend(taints(cluster, &object, facts.control.no_evictions.as_deref(), program));
    let probe = member.probe.as_ref().and_then(|it| it.as_ref().ok());
    found.extend(clock(&object, probe.and_then(|it| it.skew)));
    found
}

/// The taints of a cluster that keep workloads away. Those of the control plane's own group are explained by other
/// findings. `no_evictions`: why NoExecute evicts nothing.
fn taints(cluster: &Value, object: &str, no_evictions: Option<&str>, program: &str) -> Vec<Finding> {
    let name = text(&cluster["metadata"]["name"]);
    let taints = cluster["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    let repels = |taint: &&Value| {
        (taint["effect"] == "NoExecute" || taint["effect"] == "NoSchedule")
            && !text(&taint["key"]).starts_with("cluster.karmada.io/")
    };
    let of = |taint: &Value| {
        let (key, effect) = (text(&taint["key"]), text(&taint["effect"]));
        let shown = match text(&taint["value"]) {
            "" => format!("{key}:{effect}"),
            value => format!("{key}={value}:{effect}"),
        };
        let (problem, evidence) = match (effect, no_evictions) {
            ("NoExecute", None) => ("workloads leave it", format!("it has the taint {shown}")),
            ("NoExecute", Some(why)) => {
                ("it takes no new workloads", format!("it has the taint {shown}, which evicts nothing: {why}"))
            }
            _ => ("it takes no new workloads", format!("it has the taint {shown}")),
        };
        let next = format!("{program} taint clusters {name} {key}:{effect}-");
        finding(Severity::Info, object, problem, evidence, next)
    };
    taints.iter().filter(repels).map(of).collect()
}

/// Upstream's error of a proxy that cannot read the Secret of the impersonator, with upstream's spelling.
const NO_IMPERSONATOR: &str = "failed to get impresonateToken";

/// The API server's error of an object that is stored and cannot be decrypted, or is damaged.
const UNREADABLE: &str = " cannot be read: ";
/// Other credentials would replace those of a Secret that becomes readable again.
const READABLE: &str = "Make the Secret readable: correct the cause in the evidence";

/// The error of a member that refuses the token of the impersonator.
const UNAUTHORIZED: &str = "Unauthorized";

/// Whether the proxy lacks credentials that the member accepts.
fn is_denied(why: &str) -> bool {
    why.contains(NO_IMPERSONATOR) || why == UNAUTHORIZED
}

/// The evidence that a cluster is not ready, and whether its credentials are missing or refused.
fn unready(cluster: &Value) -> Option<(String, bool)> {
    let Some(ready) = condition(cluster, "Ready") else {
        return Some(("it has no condition Ready yet".to_owned(), false));
    };
    let (status, reason, message) = (text(&ready["status"]), text(&ready["reason"]), text(&ready["message"]));
    let is_missing = reason == "StatusCollectionFailed" && message.starts_with("failed to create a ClusterClient");
    let is_denied = is_missing || message.contains("to Karmada's credentials");
    (status != "True").then(|| (format!("Ready is {status}: {reason}: {message}"), is_denied))
}

/// An agent's certificate that it should have renewed.
fn certificate(
    member: &Member,
    name: &str,
    now: i64,
    program: &str,
) -> Option<(Severity, &'static str, String, String)> {
    let Validity { begins, ends } = member.agent_certificate?;
    let left = ends - now;
    if left >= (ends - begins) / OVERDUE {
        return None;
    }
    let next = format!(
        "Read the agent's log in {name}, and look for its request: kubectl get certificatesigningrequests. Once it has \
         expired: {program} unregister {name}; {program} register"
    );
    Some(match left <= 0 {
        true => (Severity::Error, "its agent's certificate has expired", format!("{} ago", ago(-left)), next),
        false => {
            let evidence = format!("it expires in {} and should have been renewed", ago(left));
            (Severity::Warning, "its agent does not renew its certificate", evidence, next)
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
mod tests;
