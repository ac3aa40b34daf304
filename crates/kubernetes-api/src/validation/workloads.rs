//! Everything that makes pods from a template.

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use super::at::At;
use super::checks::{percent, selector_of, supported};
use super::table::Function;
use super::{Object, forbidden, invalid, object, pods, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("controller_spec", controller_spec),
    ("cron_job", cron_job),
    ("daemon_set_spec", daemon_set_spec),
    ("deployment_spec", deployment_spec),
    ("job_spec", job_spec),
    ("replica_set_spec", replica_set_spec),
    ("stateful_set_spec", stateful_set_spec),
];

/// The selector of a workload and the labels it has to find; `kind` is how the refusal calls the workload.
fn selector(spec: &Object, kind: &str, at: &At<'_>, errors: &mut ErrorList) {
    let at_selector = at.child("selector");
    let Some(value) = spec.get("selector") else {
        required(errors, &at_selector, "");
        // No selector finds nothing.
        return finds_template(spec, |_| false, at, errors);
    };
    if value["matchLabels"].is_null() && value["matchExpressions"].is_null() {
        invalid(errors, &at_selector, value, &format!("empty selector is invalid for {kind}"));
    }
    match selector_of(value) {
        None => invalid(errors, &at_selector, value, "invalid label selector"),
        Some(selector) => finds_template(spec, |labels| selector.matches_with(|key| labels[key].as_str()), at, errors),
    }
}

fn finds_template(spec: &Object, finds: impl Fn(&Value) -> bool, at: &At<'_>, errors: &mut ErrorList) {
    let labels = spec.get("template").map_or(&Value::Null, |template| &template["metadata"]["labels"]);
    if !finds(labels) {
        let (template, metadata) = (at.child("template"), "metadata");
        let at = template.child(metadata);
        invalid(errors, &at.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

/// Pods of these workloads are always restarted, and not ended by a deadline.
fn lasting_pods(spec: &Object, kind: &str, at: &At<'_>, errors: &mut ErrorList) {
    let Some(pod) = object(spec, "template").and_then(|template| object(template, "spec")) else { return };
    let at = at.child("template");
    let at = at.child("spec");
    if let Some(policy) = pod.get("restartPolicy")
        && ["Never", "OnFailure"].iter().any(|other| policy == *other)
    {
        supported(policy, &["Always"], &at.child("restartPolicy"), errors);
    }
    if pod.contains_key("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        forbidden(errors, &at.child("activeDeadlineSeconds"), &detail);
    }
}

fn is_zero_share(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value == 0 || percent(value) == Some(0))
}

fn at_most_all(value: Option<&Value>, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(value) = value
        && percent(value).is_some_and(|share| share > 100)
    {
        invalid(errors, at, value, "must not be greater than 100%");
    }
}

fn deployment_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "deployment", at, errors);
    lasting_pods(spec, "ReplicaSet", at, errors);
    if let Some(deadline) = spec.get("progressDeadlineSeconds").and_then(Value::as_i64) {
        let ready = spec.get("minReadySeconds").and_then(Value::as_i64).unwrap_or(0);
        if deadline >= 0 && deadline <= ready {
            let value = Value::from(deadline);
            invalid(errors, &at.child("progressDeadlineSeconds"), &value, "must be greater than minReadySeconds");
        }
    }
    let Some(strategy) = object(spec, "strategy") else { return };
    let at = at.child("strategy");
    let at_rolling = at.child("rollingUpdate");
    match (text(strategy, "type"), object(strategy, "rollingUpdate")) {
        ("Recreate", Some(_)) => {
            forbidden(errors, &at_rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("RollingUpdate", None) => required(errors, &at_rolling, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(rolling)) => {
            let at_unavailable = at_rolling.child("maxUnavailable");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            if is_zero_share(unavailable) && is_zero_share(surge) {
                let value = unavailable.unwrap_or(&Value::Null);
                invalid(errors, &at_unavailable, value, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(unavailable, &at_unavailable, errors);
        }
        _ => {}
    }
}

fn replica_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "deployment", at, errors);
    lasting_pods(spec, "ReplicaSet", at, errors);
}

fn stateful_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "statefulset", at, errors);
    lasting_pods(spec, "StatefulSet", at, errors);
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        invalid(errors, &at.child("podManagementPolicy"), &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let Some(strategy) = object(spec, "updateStrategy") else { return };
    let type_ = text(strategy, "type");
    if !matches!(type_, "RollingUpdate" | "OnDelete") {
        let rolling = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
        // Upstream shows the fields of its own struct.
        let shown = format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, Value::from(type_));
        let value = Value::Object(strategy.clone());
        let error = Error::invalid(&at.child("updateStrategy").path(), value, "must be 'RollingUpdate' or 'OnDelete'");
        return errors.push(error.shown_as(shown));
    }
    if text(strategy, "type") == "OnDelete" && strategy.contains_key("rollingUpdate") {
        let at = at.child("updateStrategy");
        let value = strategy["rollingUpdate"].clone();
        invalid(errors, &at.child("rollingUpdate"), &value, "only allowed for updateStrategy 'RollingUpdate'");
    }
}

/// Template mounts may name the claims of a stateful set; the pod's own checks do not know them. The claims themselves are
/// judged when one is made of them.
pub(super) fn forgive_claims(object: &Value, errors: &mut ErrorList) {
    let Some(claims) = object["spec"]["volumeClaimTemplates"].as_array() else { return };
    pods::unknown_mounts(errors, claims);
    errors.retain(|error| !error.path.as_str().starts_with("spec.volumeClaimTemplates["));
}

/// Brings the complaints about a workload into the order in which upstream looks at its fields. In a template the labels
/// come first, and last what this kind of workload does not allow.
pub(super) fn in_upstreams_order(definition: &str, errors: &mut ErrorList) {
    let fields: &[&str] = match definition {
        "io.k8s.api.apps.v1.Deployment" => &[
            "replicas",
            "selector",
            "template",
            "strategy",
            "minReadySeconds",
            "revisionHistoryLimit",
            "progressDeadlineSeconds",
        ],
        "io.k8s.api.apps.v1.ReplicaSet" => &["replicas", "minReadySeconds", "selector", "template"],
        "io.k8s.api.apps.v1.DaemonSet" => {
            &["selector", "template", "minReadySeconds", "updateStrategy", "revisionHistoryLimit"]
        }
        "io.k8s.api.apps.v1.StatefulSet" => &[
            "podManagementPolicy",
            "updateStrategy",
            "replicas",
            "minReadySeconds",
            "ordinals",
            "selector",
            "template",
        ],
        _ => return,
    };
    errors.sort_by_key(|error| {
        let path = error.path.as_str().strip_prefix("spec.").unwrap_or_default();
        let field = path.split(['.', '[']).next().unwrap_or_default();
        let place = fields.iter().position(|known| *known == field).unwrap_or(fields.len());
        let within = match path {
            "template.metadata.labels" => 0,
            "template.spec.restartPolicy" | "template.spec.activeDeadlineSeconds" => 2,
            _ => 1,
        };
        (place, within)
    });
}

fn daemon_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "daemonset", at, errors);
    lasting_pods(spec, "DaemonSet", at, errors);
    let Some(rolling) = object(spec, "updateStrategy").and_then(|strategy| object(strategy, "rollingUpdate")) else {
        return;
    };
    let at = at.child("updateStrategy");
    let at = at.child("rollingUpdate");
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    match (is_zero_share(unavailable), is_zero_share(surge)) {
        (true, true) => required(errors, &at.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        (false, false) => {
            let value = surge.unwrap_or(&Value::Null);
            invalid(errors, &at.child("maxSurge"), value, "may not be set when maxUnavailable is non-zero");
        }
        _ => {}
    }
    at_most_all(unavailable, &at.child("maxUnavailable"), errors);
    at_most_all(surge, &at.child("maxSurge"), errors);
}

fn controller_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_selector = at.child("selector");
    match object(spec, "selector").filter(|selector| !selector.is_empty()) {
        None => required(errors, &at_selector, ""),
        Some(wanted) => {
            finds_template(spec, |labels| wanted.iter().all(|(key, value)| labels[key] == *value), at, errors)
        }
    }
    if !spec.contains_key("template") {
        required(errors, &at.child("template"), "");
    }
    lasting_pods(spec, "ReplicationController", at, errors);
}

fn job_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(value) = spec.get("selector") {
        match selector_of(value) {
            None => invalid(errors, &at.child("selector"), value, "invalid label selector"),
            Some(selector) => {
                finds_template(spec, |labels| selector.matches_with(|key| labels[key].as_str()), at, errors);
            }
        }
    }
    let indexed = text(spec, "completionMode") == "Indexed";
    if indexed && !spec.contains_key("completions") {
        required(errors, &at.child("completions"), "when completion mode is Indexed");
    }
    if !indexed && spec.contains_key("backoffLimitPerIndex") {
        let at = at.child("backoffLimitPerIndex");
        invalid(errors, &at, &spec["backoffLimitPerIndex"], "requires indexed completion mode");
    }
    let Some(pod) = object(spec, "template").and_then(|template| object(template, "spec")) else { return };
    let at = at.child("template");
    let at = at.child("spec");
    let at = at.child("restartPolicy");
    match text(pod, "restartPolicy") {
        "" | "Always" => required(errors, &at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.contains_key("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            invalid(errors, &at, &"OnFailure".into(), detail);
        }
        _ => {}
    }
}

fn cron_job(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let schedule = text(spec, "schedule");
    let at_schedule = at.child("schedule");
    if schedule.contains("TZ=") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        return invalid(errors, &at_schedule, &schedule.into(), detail);
    }
    if !schedule.is_empty()
        && let Err(detail) = crate::cron::check(schedule)
    {
        invalid(errors, &at_schedule, &schedule.into(), &detail);
    }
    if let Some(zone) = spec.get("timeZone") {
        let at = at.child("timeZone");
        match zone.as_str().unwrap_or_default() {
            "" => invalid(errors, &at, zone, "timeZone must be nil or non-empty string"),
            name if name.eq_ignore_ascii_case("local") => {
                invalid(
                    errors,
                    &at,
                    zone,
                    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                );
            }
            // Which zones there are is known where schedules are carried out; here only what none can be called.
            name if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b)) => {
                invalid(errors, &at, zone, &format!("unknown time zone {name}"));
            }
            _ => {}
        }
    }
    let manual = spec.get("jobTemplate").is_some_and(|template| template["spec"]["manualSelector"] == true);
    if manual {
        let at = at.child("jobTemplate");
        let at = at.child("spec");
        errors.push(Error::not_supported(&at.child("manualSelector").path(), true, &["nil", "false"]));
    }
}
