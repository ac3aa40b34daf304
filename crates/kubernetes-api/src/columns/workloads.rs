//! Printer columns of workloads, autoscalers and disruption budgets.

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use serde_json::Value;

use super::{Function, function, holds, int, joined, list, pairs, plain, seconds_between, selector_text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("containers", &[".spec.template.spec.containers"], |object, _| {
        of_containers(&object["spec"]["template"], "name")
    }),
    function("controller", &[".metadata.ownerReferences"], |object, _| controller(object).into()),
    function("current_pods", &[".status.currentReplicas"], |object, _| {
        int(&object["status"]["currentReplicas"]).into()
    }),
    function("images", &[".spec.template.spec.containers"], |object, _| {
        of_containers(&object["spec"]["template"], "image")
    }),
    function("job_completions", &[".spec.completions", ".spec.parallelism", ".status.succeeded"], |object, _| {
        job_completions(object).into()
    }),
    function("job_containers", &[".spec.jobTemplate.spec.template.spec.containers"], |object, _| {
        of_containers(&object["spec"]["jobTemplate"]["spec"]["template"], "name")
    }),
    function("job_duration", &[".status.startTime", ".status.completionTime"], |object, now| {
        job_duration(&object["status"], now).into()
    }),
    function("job_images", &[".spec.jobTemplate.spec.template.spec.containers"], |object, _| {
        of_containers(&object["spec"]["jobTemplate"]["spec"]["template"], "image")
    }),
    function("job_selector", &[".spec.jobTemplate.spec.selector"], |object, _| {
        selector_text(&object["spec"]["jobTemplate"]["spec"]["selector"]).into()
    }),
    function("job_status", &[".metadata.deletionTimestamp", ".status.conditions"], |object, _| {
        job_status(object).into()
    }),
    function("least_pods", &[".spec.minReplicas"], |object, _| plain(&object["spec"]["minReplicas"], "<unset>")),
    function("max_unavailable", &[".spec.maxUnavailable"], |object, _| plain(&object["spec"]["maxUnavailable"], "N/A")),
    function("min_available", &[".spec.minAvailable"], |object, _| plain(&object["spec"]["minAvailable"], "N/A")),
    function("most_pods", &[".spec.maxReplicas"], |object, _| int(&object["spec"]["maxReplicas"]).into()),
    function("node_selector", &[".spec.template.spec.nodeSelector"], |object, _| {
        pairs(&object["spec"]["template"]["spec"]["nodeSelector"]).into()
    }),
    function("plain_selector", &[".spec.selector"], |object, _| pairs(&object["spec"]["selector"]).into()),
    function("ready_of_desired", &[".status.readyReplicas", ".spec.replicas"], |object, _| {
        ready_of_desired(object).into()
    }),
    function(
        "scale_metrics",
        &[
            ".spec.metrics",
            ".spec.targetCPUUtilizationPercentage",
            ".status.currentCPUUtilizationPercentage",
            ".status.currentMetrics",
        ],
        |object, _| scale_metrics(object).into(),
    ),
    function("scale_target", &[".spec.scaleTargetRef"], |object, _| scale_target(object).into()),
    function("selector", &[".spec.selector"], |object, _| selector_text(&object["spec"]["selector"]).into()),
    function("suspended", &[".spec.suspend"], |object, _| {
        if object["spec"]["suspend"] == true { "True" } else { "False" }.into()
    }),
    function("template_containers", &[".template.spec.containers"], |object, _| {
        of_containers(&object["template"], "name")
    }),
    function("template_images", &[".template.spec.containers"], |object, _| {
        of_containers(&object["template"], "image")
    }),
    function("template_labels", &[".template.metadata.labels"], |object, _| {
        pairs(&object["template"]["metadata"]["labels"]).into()
    }),
];

fn of_containers(template: &Value, field: &str) -> Value {
    joined(list(&template["spec"]["containers"]).filter_map(|container| container[field].as_str()), "").into()
}

fn ready_of_desired(object: &Value) -> String {
    format!("{}/{}", int(&object["status"]["readyReplicas"]), int(&object["spec"]["replicas"]))
}

fn controller(object: &Value) -> String {
    let owner = list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    let Some(owner) = owner else { return "<none>".to_owned() };
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = text("kind").to_lowercase();
    let separator = if group.is_empty() { "" } else { "." };
    format!("{kind}{separator}{group}/{}", text("name"))
}

fn job_status(job: &Value) -> &'static str {
    let status = &job["status"];
    let deleted = job["metadata"]["deletionTimestamp"].is_string();
    for state in ["Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        if holds(status, state) || state == "Terminating" && deleted {
            return state;
        }
    }
    "Running"
}

fn job_completions(job: &Value) -> String {
    let (spec, done) = (&job["spec"], int(&job["status"]["succeeded"]));
    match (spec["completions"].as_i64(), int(&spec["parallelism"])) {
        (Some(desired), _) => format!("{done}/{desired}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    }
}

fn job_duration(status: &Value, now: Time) -> String {
    let end = status["completionTime"].as_str().and_then(|text| text.parse().ok()).map_or(now, Time::new);
    seconds_between(&status["startTime"], end).map(human_duration).unwrap_or_default()
}

fn scale_target(object: &Value) -> String {
    let target = &object["spec"]["scaleTargetRef"];
    format!("{}/{}", target["kind"].as_str().unwrap_or_default(), target["name"].as_str().unwrap_or_default())
}

/// The number of listed metrics; further ones are only counted.
const SHOWN_METRICS: usize = 2;

fn scale_metrics(object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    if let Some(desired) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let now = status["currentCPUUtilizationPercentage"].as_i64();
        return format!("cpu: {}/{desired}%", percent(now));
    }
    let current: Vec<&Value> = list(&status["currentMetrics"]).collect();
    let mut texts: Vec<String> = list(&spec["metrics"])
        .enumerate()
        .map(|(index, metric)| metric_text(metric, current.get(index).copied()))
        .collect();
    if texts.is_empty() {
        return "<none>".to_owned();
    }
    let more = texts.len().saturating_sub(SHOWN_METRICS);
    texts.truncate(SHOWN_METRICS);
    let shown = texts.join(", ");
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}

fn percent(value: Option<i64>) -> String {
    value.map_or_else(|| "<unknown>".to_owned(), |value| format!("{value}%"))
}

/// Current and target value, such as `cpu: 10%/80%`.
fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let (field, named) = match metric["type"].as_str().unwrap_or_default() {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let source = &metric[field];
    let (target, now) = (&source["target"], current.map_or(&Value::Null, |current| &current[field]["current"]));
    let amount = |value: &Value| value.as_str().unwrap_or("<unknown>").to_owned();
    let name = if named { format!("{}: ", source["name"].as_str().unwrap_or_default()) } else { String::new() };
    if let Some(desired) = target["averageUtilization"].as_i64() {
        return format!("{name}{}/{desired}%", percent(now["averageUtilization"].as_i64()));
    }
    if target["averageValue"].is_string() {
        let suffix = if matches!(field, "object" | "external") { " (avg)" } else { "" };
        return format!("{name}{}/{}{suffix}", amount(&now["averageValue"]), amount(&target["averageValue"]));
    }
    format!("{name}{}/{}", amount(&now["value"]), amount(&target["value"]))
}
