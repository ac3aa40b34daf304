//! Findings about objects of the pipeline and of the agents' rights.

use karmada_api::constants::reasons;
use propagation::retain::reports_conflict;

use super::{Finding, Severity, ago, finding};
use crate::doctor::facts::{Problem, Stuck, Subject};
use crate::doctor::grants::Missing;

const MINUTE: i64 = 60;
/// Scheduling and applying take seconds: a younger failure may end by itself.
const PATIENCE: i64 = 2 * MINUTE;
/// Cascading deletion over slow members takes minutes.
const LONG_DELETION: i64 = 10 * MINUTE;

pub fn stuck(it: &Stuck, now: i64, program: &str) -> Option<Finding> {
    let age = now - it.since;
    let place = place(&it.namespace, &it.name);
    let object = match &it.subject {
        None => format!("{} {place}", it.kind),
        Some(subject) => format!("{} ({} {place})", title(subject), it.kind),
    };
    let describe = format!("{program} describe {} {}{}", it.kind, it.name, within(&it.namespace));
    let explain = |kind: &str, namespace: &str, name: &str| format!("{program} why {kind}/{name}{}", within(namespace));
    // A Work may have no template in the control plane.
    let why = match &it.subject {
        Some(subject) if subject.cluster.is_empty() => explain(&subject.kind, &subject.namespace, &subject.name),
        _ => explain(&it.kind, &it.namespace, &it.name),
    };
    let since = format!("for {}", ago(age));
    // A reported failure is shown at once, and is an error when it lasts.
    let severity = if age < PATIENCE { Severity::Warning } else { Severity::Error };
    let (least, found) = match &it.problem {
        Problem::Deleting(finalizers) => {
            let evidence = match finalizers.is_empty() {
                true => format!("{since}, without finalizers"),
                false => format!("{since}, with the finalizers {}", finalizers.join(", ")),
            };
            (LONG_DELETION, finding(Severity::Warning, &object, "its deletion does not end", evidence, describe))
        }
        Problem::Unscheduled { reason, message } => {
            let next = match reason == reasons::QUOTA_EXCEEDED {
                true => format!(
                    "Raise the quota or lower the replicas: kubectl get federatedresourcequotas{}; {why}",
                    within(&it.namespace)
                ),
                false => why,
            };
            (0, finding(severity, &object, "it is not scheduled", format!("{since}: {reason}: {message}"), next))
        }
        Problem::Unseen => {
            let next = "Check that the scheduler runs: kubectl get lease -A | grep karmada-scheduler";
            (PATIENCE, finding(Severity::Error, &object, "the scheduler has not processed it", since, next))
        }
        Problem::Orphaned => (0, orphaned(it, &object)),
        Problem::NotAttempted => {
            (PATIENCE, finding(Severity::Error, &object, "no attempt to apply it has ended", since, why))
        }
        Problem::NotApplied(message) => {
            let next = match reports_conflict(message) {
                true => format!(
                    "Delete the object in the cluster, or take it over with spec.conflictResolution: Overwrite in the policy; {why}"
                ),
                false => why,
            };
            (0, finding(severity, &object, "it is not applied in its cluster", format!("{since}: {message}"), next))
        }
        Problem::Failing { reason, message } => {
            let evidence = format!("{since}: {reason}: {message}");
            (0, finding(severity, &object, "its last change has no effect", evidence, why))
        }
        // Metrics of new pods are missing at first.
        Problem::Unscalable { reason, message } => {
            let evidence = format!("{since}: {reason}: {message}");
            let problem = "it does not scale its target";
            (PATIENCE, finding(Severity::Warning, &object, problem, evidence, why))
        }
    };
    (age >= least).then_some(found)
}

fn orphaned(it: &Stuck, object: &str) -> Finding {
    let evidence = "it has no owner; Jobs are deleted alone unless the request has a propagationPolicy".to_owned();
    let next = format!(
        "Create the template again, or delete the copies in its clusters too: kubectl delete {} {}{} (preview: --dry-run=server)",
        it.kind,
        it.name,
        within(&it.namespace)
    );
    finding(Severity::Warning, object, "its template was deleted and its copies were kept", evidence, next)
}

/// `deployment shop/web in cluster m1`
fn title(subject: &Subject) -> String {
    let place = place(&subject.namespace, &subject.name);
    let within = if subject.cluster.is_empty() { String::new() } else { format!(" in cluster {}", subject.cluster) };
    format!("{} {place}{within}", subject.kind)
}

/// `shop/web`
fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn within(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") }
}

pub fn missing(it: &Missing) -> Finding {
    let Missing { cluster, key, object, is_changed } = it;
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let evidence = match is_changed {
        true => format!("it does not name the user {}", karmada_api::agents::user(cluster)),
        false => "it does not exist, and others that register created with it do".to_owned(),
    };
    let problem = format!("the agent of cluster {cluster} lacks the rights that it grants");
    // A changed binding is replaced, because its role cannot be changed.
    let verb = if *is_changed { "replace --force" } else { "create" };
    finding(
        Severity::Error,
        &format!("{kind} {key}"),
        &problem,
        evidence,
        format!("echo '{object}' | kubectl {verb} -f -"),
    )
}
