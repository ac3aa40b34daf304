//! Evaluation of RBAC rules: pure functions over rules, users and attributes.

use transport::Identity;

use super::{Attributes, PolicyRule, ResourceAttributes, Subject};

/// Whether a rule grants the request.
pub fn grants(rule: &PolicyRule, attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Resource(requested) => grants_resource(rule, requested),
        Attributes::Path { verb, path } => {
            lists(&rule.verbs, verb) && rule.non_resource_urls.iter().any(|pattern| path_matches(pattern, path))
        }
    }
}

fn grants_resource(rule: &PolicyRule, requested: &ResourceAttributes) -> bool {
    lists(&rule.verbs, &requested.verb)
        && lists(&rule.api_groups, &requested.group)
        && rule.resources.iter().any(|resource| resource_matches(resource, &requested.resource, &requested.subresource))
        && (rule.resource_names.is_empty() || rule.resource_names.contains(&requested.name))
}

fn lists(patterns: &[String], value: &str) -> bool {
    patterns.iter().any(|pattern| pattern == "*" || pattern == value)
}

/// `*` matches every resource and subresource, `*/scale` that subresource of every resource.
fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        _ if pattern == "*" => true,
        None => subresource.is_empty() && pattern == resource,
        Some((left, right)) => !subresource.is_empty() && right == subresource && (left == "*" || left == resource),
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

/// Whether a subject of a binding is this user. `namespace` is the binding's, for service accounts without one.
pub fn is_subject(subject: &Subject, namespace: &str, user: &Identity) -> bool {
    match subject.kind.as_str() {
        "User" => subject.name == user.user,
        "Group" => user.groups.contains(&subject.name),
        "ServiceAccount" => {
            let namespace = if subject.namespace.is_empty() { namespace } else { &subject.namespace };
            !namespace.is_empty()
                && user.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
                    == Some((namespace, subject.name.as_str()))
        }
        _ => false,
    }
}

/// The part of `requested` that `granted` does not grant, as single permissions; empty if all are held. This decides
/// whether a user may grant rules (escalation).
pub fn missing<'a>(granted: &[PolicyRule], requested: impl IntoIterator<Item = &'a PolicyRule>) -> Vec<PolicyRule> {
    let mut missing: Vec<PolicyRule> = requested
        .into_iter()
        .flat_map(breakdown)
        .filter(|single| !granted.iter().any(|rule| covers(rule, single)))
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

/// Rules with one verb, and one group, resource and name or one path, each.
fn breakdown(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut singles = Vec::new();
    for verb in &rule.verbs {
        for path in &rule.non_resource_urls {
            singles.push(PolicyRule::paths(&[verb], &[path]));
        }
        for group in &rule.api_groups {
            for resource in &rule.resources {
                let single = PolicyRule::new(&[verb], &[group], &[resource]);
                if rule.resource_names.is_empty() {
                    singles.push(single);
                } else {
                    singles.extend(rule.resource_names.iter().map(|name| single.clone().named(&[name])));
                }
            }
        }
    }
    singles
}

/// Whether a rule contains another that is broken down. A wildcard is contained only in a wildcard.
fn covers(rule: &PolicyRule, single: &PolicyRule) -> bool {
    let all = |granted: &[String], requested: &[String]| requested.iter().all(|value| lists(granted, value));
    if !single.non_resource_urls.is_empty() {
        let is_url_granted = |requested: &String| {
            rule.non_resource_urls.iter().any(|granted| {
                granted == requested || granted.strip_suffix('*').is_some_and(|prefix| requested.starts_with(prefix))
            })
        };
        return all(&rule.verbs, &single.verbs) && single.non_resource_urls.iter().all(is_url_granted);
    }
    let is_resource_granted = |requested: &String| {
        rule.resources.iter().any(|granted| {
            granted == "*"
                || granted == requested
                || matches!((granted.strip_prefix("*/"), requested.split_once('/')), (Some(sub), Some((_, of))) if sub == of)
        })
    };
    let are_names_granted = rule.resource_names.is_empty()
        || (!single.resource_names.is_empty()
            && single.resource_names.iter().all(|name| rule.resource_names.contains(name)));
    all(&rule.verbs, &single.verbs)
        && all(&rule.api_groups, &single.api_groups)
        && single.resources.iter().all(is_resource_granted)
        && are_names_granted
}

/// A rule as kube-apiserver prints it in refusals: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`.
pub fn describe(rule: &PolicyRule) -> String {
    let list = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        format!("[{}]", quoted.join(" "))
    };
    let parts = [
        ("NonResourceURLs", &rule.non_resource_urls),
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let present: Vec<String> = parts
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}:{}", list(values).replace("\" \"", "\", \"")))
        .collect();
    format!("{{{}}}", present.join(", "))
}
