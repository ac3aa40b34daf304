//! Everything that makes pods from a template.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::{percent, selector_of, supported};
use super::table::Function;
use super::{Object, forbidden, internal, invalid, list, object, pods, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("controller_spec", controller_spec),
    ("cron_job", cron_job),
    ("job_selector", job_selector),
    ("daemon_set_spec", daemon_set_spec),
    ("deployment_spec", deployment_spec),
    ("job_spec", job_spec),
    ("exit_codes", exit_codes),
    ("failure_rule", failure_rule),
    ("replica_set_spec", replica_set_spec),
    ("rolling_stateful_set", rolling_stateful_set),
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
    if !update_type(strategy, &["Recreate", "RollingUpdate"], &["MaxUnavailable", "MaxSurge"], &at, errors) {
        return;
    }
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

/// Whether the type of a strategy is one of those. Upstream shows the fields of its own structs, the rolling update's in the
/// order given.
fn update_type(strategy: &Object, known: &[&str], rolling: &[&str], at: &At<'_>, errors: &mut ErrorList) -> bool {
    let type_ = text(strategy, "type");
    if known.contains(&type_) {
        return true;
    }
    let parts = object(strategy, "rollingUpdate").map(|update| {
        let part = |name: &&str| {
            let field = format!("{}{}", name[..1].to_lowercase(), &name[1..]);
            format!("{}:{}", Value::from(*name), update.get(&field).unwrap_or(&Value::Null))
        };
        format!("{{{}}}", rolling.iter().map(part).collect::<Vec<_>>().join(","))
    });
    let parts = parts.unwrap_or_else(|| "null".to_owned());
    let shown = format!(r#"{{"Type":{},"RollingUpdate":{parts}}}"#, Value::from(type_));
    let error = Error::not_supported(&at.path(), Value::Object(strategy.clone()), known);
    errors.push(error.shown_as(shown));
    false
}

/// A partition may wait for all pods, a share of them may not be none.
fn rolling_stateful_set(rolling: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let value = rolling.get("maxUnavailable");
    let at = at.child("maxUnavailable");
    if let Some(value) = value.filter(|value| is_zero_share(Some(value))) {
        invalid(errors, &at, value, "cannot be 0");
    }
    at_most_all(value, &at, errors);
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

fn daemon_set_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    selector(spec, "daemonset", at, errors);
    lasting_pods(spec, "DaemonSet", at, errors);
    let Some(strategy) = object(spec, "updateStrategy") else { return };
    let at = at.child("updateStrategy");
    if !update_type(strategy, &["RollingUpdate", "OnDelete"], &["MaxUnavailable", "MaxSurge"], &at, errors)
        || strategy["type"] == "OnDelete"
    {
        return;
    }
    let at = at.child("rollingUpdate");
    let Some(rolling) = object(strategy, "rollingUpdate") else { return required(errors, &at, "") };
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

/// A job finds its pods by a label with its uid, unless its owner says to have thought of something else.
fn job_selector(job: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(spec) = object(job, "spec") else { return };
    let at = at.child("spec");
    let selector = spec.get("selector").filter(|selector| selector.is_object());
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        if selector.is_none() {
            required(errors, &at.child("selector"), "");
        }
        return;
    }
    let metadata = object(job, "metadata");
    let part = |name: &str| metadata.map_or("", |metadata| text(metadata, name));
    let (uid, name, nothing) = (part("uid"), part("name"), Value::Null);
    let Some(selector) = selector.filter(|_| !uid.is_empty()) else { return };
    let labels = spec.get("template").map_or(&nothing, |template| &template["metadata"]["labels"]);
    let at_template = at.child("template");
    let at_metadata = at_template.child("metadata");
    let at_labels = at_metadata.child("labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, value) in expected {
        let detail = format!("must be '{value}'");
        match labels[key].as_str() {
            Some(found) if found == value => {}
            Some(_) => invalid(errors, &at_labels.key(key), labels, &detail),
            None => required(errors, &at_labels.key(key), &detail),
        }
    }
    let wanted = |key: &str| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    if selector_of(selector).is_some_and(|selector| !selector.matches_with(wanted)) {
        invalid(errors, &at.child("selector"), selector, "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(selector) = spec.get("selector").and_then(selector_of) {
        finds_template(spec, |labels| selector.matches_with(|key| labels[key].as_str()), at, errors);
    }
    indexes(spec, at, errors);
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        manager_path(manager, &at.child("managedBy"), errors);
    }
    policies(spec, at, errors);
    let Some(pod) = object(spec, "template").and_then(|template| object(template, "spec")) else { return };
    let at = at.child("template");
    let at = at.child("spec");
    let at = at.child("restartPolicy");
    match text(pod, "restartPolicy") {
        "" | "Always" => required(errors, &at, "valid values: \"OnFailure\", \"Never\""),
        other @ ("OnFailure" | "Never") if other == "Never" || !spec.contains_key("podFailurePolicy") => {}
        other if !matches!(other, "OnFailure" | "Never") => {
            supported(&other.into(), &["OnFailure", "Never"], &at, errors);
        }
        "OnFailure" if spec.contains_key("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            invalid(errors, &at, &"OnFailure".into(), detail);
        }
        _ => {}
    }
}

fn manager_path(manager: &str, at: &At<'_>, errors: &mut ErrorList) {
    const LONGEST: usize = 63;
    match manager.split_once('/') {
        _ if manager.is_empty() => required(errors, at, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for complaint in names::is_dns1123_subdomain(host) {
                invalid(errors, at, &host.into(), &complaint);
            }
        }
        _ => invalid(errors, at, &manager.into(), "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if manager.len() > LONGEST {
        errors.push(Error::too_long(&at.path(), LONGEST));
    }
}

/// Pods of a job with indexes, at once; what is remembered of them has to fit into an object.
const MAX_INDEXED: i64 = 100_000;
const MAX_FAILED_OF_MANY: i64 = 10_000;

fn indexes(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    let (completions, parallelism, failed) = (number("completions"), number("parallelism"), number("maxFailedIndexes"));
    let per_index = number("backoffLimitPerIndex");
    let (at_parallel, at_failed) = (at.child("parallelism"), at.child("maxFailedIndexes"));
    if failed.is_some() && per_index.is_none() {
        required(errors, &at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let mut at_most = |value: Option<i64>, most: i64, at: &At<'_>, rest: &str| {
        if let Some(value) = value.filter(|value| *value > most) {
            invalid(errors, at, &value.into(), &format!("must be less than or equal to {rest}"));
        }
    };
    if text(spec, "completionMode") == "Indexed" {
        at_most(parallelism, MAX_INDEXED, &at_parallel, &format!("{MAX_INDEXED} when completion mode is Indexed"));
        at_most(failed, completions.unwrap_or(i64::MAX), &at_failed, "completions");
        at_most(failed, MAX_INDEXED, &at_failed, &MAX_INDEXED.to_string());
        if completions.is_some_and(|count| count > MAX_INDEXED) && per_index.is_some() {
            let rest = format!(
                "{MAX_FAILED_OF_MANY} when completions are above {MAX_INDEXED} and used with backoff limit per index"
            );
            at_most(parallelism, MAX_FAILED_OF_MANY, &at_parallel, &rest);
            at_most(failed, MAX_FAILED_OF_MANY, &at_failed, &rest);
            if failed.is_none() {
                required(errors, &at_failed, &format!("must be specified when completions is above {MAX_INDEXED}"));
            }
        }
        if completions.is_none() {
            required(errors, &at.child("completions"), "when completion mode is Indexed");
        }
        return;
    }
    for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
        if let Some(value) = value.filter(|_| matches!(text(spec, "completionMode"), "" | "NonIndexed")) {
            invalid(errors, &at.child(field), &value.into(), "requires indexed completion mode");
        }
    }
}

fn policies(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let failures = object(spec, "podFailurePolicy");
    let replacement = spec.get("podReplacementPolicy");
    if let Some(policy) = replacement {
        let known: &[&str] = if failures.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        supported(policy, known, &at.child("podReplacementPolicy"), errors);
    }
    if let Some(policy) = spec.get("successPolicy").filter(|_| text(spec, "completionMode") != "Indexed") {
        let shown = internal::shown("SuccessPolicy", policy);
        let detail = "requires indexed completion mode";
        errors.push(Error::invalid(&at.child("successPolicy").path(), Value::Null, detail).shown_as(shown));
    }
    let Some(failures) = failures else { return };
    let at_policy = at.child("podFailurePolicy");
    let at_rules = at_policy.child("rules");
    for (index, rule) in list(failures, "rules").iter().enumerate() {
        let at = at_rules.index(index);
        if rule["action"] == "FailIndex" && !spec.contains_key("backoffLimitPerIndex") {
            let detail = "requires the backoffLimitPerIndex to be set";
            invalid(errors, &at.child("action"), &"FailIndex".into(), detail);
        }
        let Some(name) = rule["onExitCodes"]["containerName"].as_str() else { continue };
        let pod = spec.get("template").map_or(&Value::Null, |template| &template["spec"]);
        let named =
            |field: &str| pod[field].as_array().into_iter().flatten().any(|container| container["name"] == name);
        if !named("containers") && !named("initContainers") {
            let detail = "must be one of the container or initContainer names in the pod template";
            let at = at.child("onExitCodes");
            invalid(errors, &at.child("containerName"), &name.into(), detail);
        }
    }
}

/// Upstream leaves out the value of a rule.
fn failure_rule(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_action = at.child("action");
    match text(rule, "action") {
        "" => required(errors, &at_action, r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
        action => supported(&action.into(), &["Count", "FailIndex", "FailJob", "Ignore"], &at_action, errors),
    }
    let detail = match (rule.contains_key("onExitCodes"), list(rule, "onPodConditions").is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(Error::without_value(&at.path(), detail));
}

fn exit_codes(codes: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let values = list(codes, "values");
    let at_values = at.child("values");
    let whole = if values.is_empty() { Value::Null } else { Value::from(values.to_vec()) };
    if values.is_empty() {
        invalid(errors, &at_values, &whole, "at least one value is required");
    }
    let mut seen = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let at = at_values.index(index);
        if text(codes, "operator") == "In" && value == 0 {
            invalid(errors, &at, value, "must not be 0 for the In operator");
        }
        if seen.contains(&value) {
            errors.push(Error::duplicate(&at.path(), value.clone()));
        }
        seen.push(value);
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        invalid(errors, &at_values, &whole, "must be ordered");
    }
}

fn cron_job(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let schedule = text(spec, "schedule");
    let at_schedule = at.child("schedule");
    // The library upstream uses takes a zone at the start.
    let rest = schedule.strip_prefix("CRON_").unwrap_or(schedule);
    let times =
        rest.strip_prefix("TZ=").and_then(|rest| rest.split_once(' ')).map_or(schedule, |(_, times)| times.trim());
    if !schedule.is_empty()
        && let Err(detail) = crate::cron::check(times)
    {
        invalid(errors, &at_schedule, &schedule.into(), &detail);
    }
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        invalid(errors, &at_schedule, &schedule.into(), detail);
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
    if let Some(selector) =
        spec.get("jobTemplate").map(|template| &template["spec"]["selector"]).filter(|s| !s.is_null())
    {
        let at = at.child("jobTemplate");
        let at = at.child("spec");
        invalid(errors, &at.child("selector"), selector, "`selector` will be auto-generated");
    }
    let manual = spec.get("jobTemplate").is_some_and(|template| template["spec"]["manualSelector"] == true);
    if manual {
        let at = at.child("jobTemplate");
        let at = at.child("spec");
        errors.push(Error::not_supported(&at.child("manualSelector").path(), true, &["nil", "false"]));
    }
}
