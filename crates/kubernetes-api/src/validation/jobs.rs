//! Jobs and CronJobs: completions, success and failure policies, schedules.

use apimachinery::field::{Error, ErrorList};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::at::At;
use super::checks::{selector_of, supported};
use super::table::Function;
use super::workloads::finds_template;
use super::{Object, internal, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("cron_job", cron_job),
    ("exit_codes", exit_codes),
    ("failure_rule", failure_rule),
    ("job_selector", job_selector),
    ("job_spec", job_spec),
];

/// A job selects its pods by a label with its uid, unless `manualSelector` is true.
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
    let expected_value = |key: &str| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    if selector_of(selector).is_some_and(|selector| !selector.matches_with(expected_value)) {
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
    super::network::domain_prefixed_path(manager, at, errors);
    if manager.len() > LONGEST {
        errors.push(Error::too_long(&at.path(), LONGEST));
    }
}

/// The maximum number of pods of an indexed job; their state must fit into one object.
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
    if let Some(policy) = object(spec, "successPolicy") {
        success_rules(spec, list(policy, "rules"), at, errors);
    }
    let Some(failures) = failures else { return };
    let at_policy = at.child("podFailurePolicy");
    let at_rules = at_policy.child("rules");
    at_most_items(list(failures, "rules"), MAX_RULES, &at_rules, errors);
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

/// The maximum number of rules of a policy, of condition patterns of a rule, and of exit codes of a rule.
const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_CODES: usize = 255;

fn at_most_items(items: &[Value], most: usize, at: &At<'_>, errors: &mut ErrorList) {
    if items.len() > most {
        errors.push(Error::too_many(&at.path(), items.len(), most));
    }
}

/// Rules by which a job succeeds before all of its indexes have succeeded.
fn success_rules(spec: &Object, rules: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("successPolicy");
    let at = at.child("rules");
    at_most_items(rules, MAX_RULES, &at, errors);
    let completions = spec.get("completions").and_then(Value::as_i64).unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        let (count, indexes) = (&rule["succeededCount"], &rule["succeededIndexes"]);
        if count.is_null() && indexes.is_null() {
            required(errors, &at, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = None;
        if let Some(text) = indexes.as_str() {
            match super::indexes::parse(text, completions) {
                Ok(ranges) => total = Some(ranges.iter().map(|(first, last)| last - first + 1).sum::<i64>()),
                Err(why) => {
                    let detail = format!("error parsing succeededIndexes: {why}");
                    invalid(errors, &at.child("succeededIndexes"), indexes, &detail);
                    total = Some(0);
                }
            }
        }
        let Some(number) = count.as_i64() else { continue };
        let at = at.child("succeededCount");
        if number < 0 {
            invalid(errors, &at, count, "must be greater than or equal to 0");
        }
        if number > completions {
            let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
            invalid(errors, &at, count, &detail);
        }
        if let Some(total) = total.filter(|total| number > *total) {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            invalid(errors, &at, count, &detail);
        }
    }
}

/// Upstream omits the value of a rule.
fn failure_rule(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    at_most_items(list(rule, "onPodConditions"), MAX_PATTERNS, &at.child("onPodConditions"), errors);
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
    at_most_items(values, MAX_CODES, &at_values, errors);
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
    // Upstream's library accepts a time zone at the start.
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
            name if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") => {
                invalid(errors, &at, zone, "time: invalid location name");
            }
            // Names are case-sensitive: upstream opens files.
            name if name != "UTC" && !TimeZone::get(name).is_ok_and(|zone| zone.iana_name() == Some(name)) => {
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
