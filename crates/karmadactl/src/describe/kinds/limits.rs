//! ResourceQuotas, LimitRanges, PodDisruptionBudgets, PriorityClasses and StorageClasses.

use serde_json::Value;

use super::super::lines::Lines;
use super::{entries, items, number, pairs, selector, text, values};

const LIMITS: &str = "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio";
const LIMITS_LINE: &str = "----\t--------\t---\t---\t---------------\t-------------\t-----------------------";

fn head(lines: &mut Lines, object: &Value) {
    lines.text(0, &format!("Name:\t{}", text(&object["metadata"]["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&object["metadata"]["namespace"])));
}

pub fn quota(lines: &mut Lines, object: &Value) {
    head(lines, object);
    scopes(lines, object, 0, " ");
    lines.text(0, "Resource\tUsed\tHard");
    lines.text(0, "--------\t----\t----");
    for (name, hard) in entries(&object["status"]["hard"]) {
        let used = &object["status"]["used"][&name];
        lines.text(0, &format!("{name}\t{}\t{hard}", used.as_str().unwrap_or("0")));
    }
}

/// The scopes of a quota with their meanings, behind `indent`.
pub fn scopes(lines: &mut Lines, quota: &Value, level: usize, indent: &str) {
    let mut scopes: Vec<String> = items(&quota["spec"]["scopes"]).map(text).collect();
    scopes.sort();
    if scopes.is_empty() {
        return;
    }
    lines.text(level, &format!("Scopes:\t{}", scopes.join(", ")));
    for meaning in scopes.iter().filter_map(|scope| meaning(scope)) {
        lines.text(level, &format!("{indent}* Matches all pods {meaning}"));
    }
}

/// In kubectl's words.
fn meaning(scope: &str) -> Option<&'static str> {
    Some(match scope {
        "Terminating" => {
            "that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the \
             system."
        }
        "NotTerminating" => {
            "that do not have an active deadline. These pods usually include long running pods whose container command is not \
             expected to terminate."
        }
        "BestEffort" => "that do not have resource requirements set. These pods have a best effort quality of service.",
        "NotBestEffort" => {
            "that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service."
        }
        _ => return None,
    })
}

pub fn limit_range(lines: &mut Lines, object: &Value) {
    head(lines, object);
    table(lines, "", [object]);
}

/// The limits of several objects; each line begins with `indent`.
pub fn table<'o>(lines: &mut Lines, indent: &str, of: impl IntoIterator<Item = &'o Value>) {
    [LIMITS, LIMITS_LINE].into_iter().for_each(|line| lines.text(0, &format!("{indent}{line}")));
    for limit in of.into_iter().flat_map(|it| items(&it["spec"]["limits"])) {
        let columns = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
        let mut names: Vec<String> = columns.iter().flat_map(|it| entries(&limit[*it])).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let cells = columns.map(|column| limit[column][&name].as_str().unwrap_or("-").to_owned());
            lines.text(0, &format!("{indent}{}\t{name}\t{}", text(&limit["type"]), cells.join("\t")));
        }
    }
}

pub fn disruption_budget(lines: &mut Lines, object: &Value) {
    head(lines, object);
    let (spec, status) = (&object["spec"], &object["status"]);
    for (label, field) in [("Min available:", "minAvailable"), ("Max unavailable:", "maxUnavailable")] {
        if !spec[field].is_null() {
            lines.text(0, &format!("{label}\t{}", values(&spec[field])));
        }
    }
    let selected = if spec["selector"].is_null() { "<unset>".to_owned() } else { selector(&spec["selector"]) };
    lines.text(0, &format!("Selector:\t{selected}"));
    lines.text(0, "Status:");
    for (label, field) in [
        ("Allowed disruptions:", "disruptionsAllowed"),
        ("Current:", "currentHealthy"),
        ("Desired:", "desiredHealthy"),
        ("Total:", "expectedPods"),
    ] {
        lines.text(2, &format!("{label}\t{}", number(&status[field])));
    }
}

/// In one line, except that line breaks of values remain.
fn annotations(lines: &mut Lines, metadata: &Value) {
    let all = pairs(&metadata["annotations"]);
    let mut parts = all.split('\n');
    lines.text(0, &format!("Annotations:\t{}", parts.next().unwrap_or_default()));
    parts.for_each(|part| lines.text(0, part));
}

pub fn priority_class(lines: &mut Lines, object: &Value) {
    lines.text(0, &format!("Name:\t{}", text(&object["metadata"]["name"])));
    lines.text(0, &format!("Value:\t{}", number(&object["value"])));
    lines.text(0, &format!("GlobalDefault:\t{}", object["globalDefault"] == true));
    lines.text(0, &format!("PreemptionPolicy:\t{}", text(&object["preemptionPolicy"])));
    lines.text(0, &format!("Description:\t{}", text(&object["description"])));
    annotations(lines, &object["metadata"]);
}

pub fn storage_class(lines: &mut Lines, object: &Value) {
    let metadata = &object["metadata"];
    let is_default = metadata["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("IsDefaultClass:\t{}", if is_default { "Yes" } else { "No" }));
    annotations(lines, metadata);
    lines.text(0, &format!("Provisioner:\t{}", text(&object["provisioner"])));
    lines.text(0, &format!("Parameters:\t{}", pairs(&object["parameters"])));
    let expansion = match object["allowVolumeExpansion"].as_bool() {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    lines.text(0, &format!("AllowVolumeExpansion:\t{expansion}"));
    if items(&object["mountOptions"]).next().is_none() {
        lines.text(0, "MountOptions:\t<none>");
    } else {
        lines.text(0, "MountOptions:");
        items(&object["mountOptions"]).for_each(|option| lines.text(1, &text(option)));
    }
    lines.text(0, &format!("ReclaimPolicy:\t{}", text(&object["reclaimPolicy"])));
    lines.text(0, &format!("VolumeBindingMode:\t{}", text(&object["volumeBindingMode"])));
    for (position, term) in items(&object["allowedTopologies"]).enumerate() {
        if position == 0 {
            lines.text(0, "AllowedTopologies:\t");
        }
        let label = format!("Term {position}:");
        let all: Vec<String> = items(&term["matchLabelExpressions"])
            .map(|it| {
                let values: Vec<String> = items(&it["values"]).map(text).collect();
                format!("{} in [{}]", text(&it["key"]), values.join(", "))
            })
            .collect();
        if all.is_empty() {
            lines.text(1, &format!("{label}\t<none>"));
        }
        for (position, one) in all.iter().enumerate() {
            lines.text(1, &format!("{}\t{one}", if position == 0 { &*label } else { "" }));
        }
    }
}
