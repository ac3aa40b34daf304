//! Which requests a webhook or a policy is for: rules, match policy, selectors.

use apimachinery::meta::LabelSelector;
use apimachinery::selector::Selector;
use apiserver::Operation;
use serde_json::Value;

const ANY: &str = "*";

/// The names of a request that rules match.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub operation: Operation,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// The namespace of a Namespace is its own name.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Subject<'_> {
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

pub fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// Empty for all objects.
    names: Vec<String>,
    scope: Scope,
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let list = |field: &str| -> Vec<String> {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            names: list("resourceNames"),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::Any,
            },
        }
    }

    fn matches(&self, subject: &Subject<'_>) -> bool {
        let is_in_namespace = !subject.is_namespace() && !subject.namespace.is_empty();
        let fits_scope = match self.scope {
            Scope::Any => true,
            Scope::Namespaced => is_in_namespace,
            Scope::Cluster => !is_in_namespace,
        };
        fits_scope
            && has(&self.operations, operation_name(subject.operation))
            && has(&self.versions, subject.version)
            && (self.names.is_empty() || self.names.iter().any(|name| name == subject.name))
            && self.names_resource(subject.group, subject.resource, Some(subject.subresource))
    }

    /// Whether the rule matches this resource and subresource; `None` stands for any subresource.
    fn names_resource(&self, group: &str, resource: &str, subresource: Option<&str>) -> bool {
        let fits = |pattern: &String| {
            let (name, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
            (name == ANY || name == resource) && (sub == ANY || subresource.is_none_or(|required| required == sub))
        };
        has(&self.groups, group) && self.resources.iter().any(fits)
    }
}

fn has(list: &[String], required: &str) -> bool {
    list.iter().any(|item| item == ANY || item == required)
}

/// The rules and selectors of a webhook, a policy or a binding.
#[derive(Debug)]
pub struct Criteria {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Without rules every resource matches: of bindings.
    matches_without_rules: bool,
    is_equivalent: bool,
    pub namespaces: Result<Selector, String>,
    pub objects: Result<Selector, String>,
}

impl Criteria {
    pub fn of_webhook(webhook: &Value) -> Self {
        Self { matches_without_rules: false, ..Self::of(webhook, "rules") }
    }

    /// From `matchConstraints` or `matchResources`.
    pub fn of_policy(resources: &Value) -> Self {
        Self::of(resources, "resourceRules")
    }

    fn of(value: &Value, rules: &str) -> Self {
        let list = |field: &str| value[field].as_array().into_iter().flatten().map(Rule::of).collect();
        Self {
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            matches_without_rules: true,
            is_equivalent: value["matchPolicy"] != "Exact",
            namespaces: selector(&value["namespaceSelector"]),
            objects: selector(&value["objectSelector"]),
        }
    }

    /// Whether requests for a resource may match; `None` stands for any subresource.
    pub fn may_match(&self, group: &str, resource: &str, subresource: Option<&str>) -> bool {
        self.rules.is_empty() && self.matches_without_rules
            || self.rules.iter().any(|rule| rule.names_resource(group, resource, subresource))
    }

    /// The version of the resource that the rules match: the request's own if possible, otherwise another one that the
    /// server serves, in the order of the rules.
    pub fn version<'s>(&self, subject: &Subject<'s>, served: &[&'s str]) -> Option<&'s str> {
        if self.find(&self.excluded, subject, served).is_some() {
            return None;
        }
        if self.rules.is_empty() && self.matches_without_rules {
            return Some(subject.version);
        }
        self.find(&self.rules, subject, served)
    }

    fn find<'s>(&self, rules: &[Rule], subject: &Subject<'s>, served: &[&'s str]) -> Option<&'s str> {
        if rules.iter().any(|rule| rule.matches(subject)) {
            return Some(subject.version);
        }
        if !self.is_equivalent {
            return None;
        }
        let others = || served.iter().copied().filter(|version| *version != subject.version);
        let fits = |rule: &Rule| others().find(|version| rule.matches(&Subject { version, ..*subject }));
        rules.iter().find_map(fits)
    }

    /// Whether the object selector matches the new or the old object.
    ///
    /// # Errors
    /// If the selector is invalid.
    pub fn selects_object(&self, objects: [Option<&Value>; 2]) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(String::clone)?;
        Ok(selector.is_everything() || objects.into_iter().flatten().any(|object| selects(selector, object)))
    }
}

/// Whether a selector matches the labels of an object.
pub fn selects(selector: &Selector, object: &Value) -> bool {
    selector.matches_with(|key| object["metadata"]["labels"][key].as_str())
}

pub fn selector(value: &Value) -> Result<Selector, String> {
    if value.is_null() {
        return Ok(Selector::everything());
    }
    let selector: LabelSelector = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    Selector::from_label_selector(&selector).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject<'a>(text: &'a str, operation: Operation) -> Subject<'a> {
        let parts: Vec<&str> = text.split(' ').collect();
        let (resource, subresource) = parts[2].split_once('/').unwrap_or((parts[2], ""));
        let group = if parts[0] == "core" { "" } else { parts[0] };
        let namespace = parts.get(3).copied().unwrap_or_default();
        Subject { operation, group, version: parts[1], resource, subresource, namespace, name: "a" }
    }

    #[test]
    fn rules() {
        for (rule, request, expected) in [
            ("CREATE|apps|v1|deployments", "apps v1 deployments ns", true),
            ("UPDATE|apps|v1|deployments", "apps v1 deployments ns", false),
            ("*|*|*|*", "apps v1 deployments ns", true),
            ("*|*|*|*", "apps v1 deployments/status ns", false),
            ("*|*|*|*/*", "apps v1 deployments/status ns", true),
            ("*|*|*|*/*", "apps v1 deployments ns", true),
            ("*|*|*|*/scale", "apps v1 deployments/scale ns", true),
            ("*|*|*|*/scale", "apps v1 deployments ns", false),
            ("*|*|*|pods/*", "core v1 pods ns", true),
            ("*|*|*|pods/*", "core v1 pods/eviction ns", true),
            ("*||v1|pods", "core v1 pods ns", true),
            ("*|apps|v1|pods", "core v1 pods ns", false),
            ("*|apps|v1beta1|deployments", "apps v1 deployments ns", false),
            ("*|*|*|*|Namespaced", "core v1 nodes", false),
            ("*|*|*|*|Cluster", "core v1 nodes", true),
            ("*|*|*|*|Cluster", "core v1 namespaces a", true),
            ("*|*|*|*|Namespaced", "core v1 namespaces a", false),
            ("*|*|*|*|*", "core v1 namespaces a", true),
        ] {
            let parts: Vec<&str> = rule.split('|').collect();
            let rule = json!({"operations": [parts[0]], "apiGroups": [parts[1]], "apiVersions": [parts[2]],
                              "resources": [parts[3]], "scope": parts.get(4)});
            let criteria = Criteria::of_webhook(&json!({"rules": [rule], "matchPolicy": "Exact"}));
            let subject = subject(request, Operation::Create);
            assert_eq!(criteria.version(&subject, &[]).is_some(), expected, "{rule} {request}");
            let names = (subject.group, subject.resource, Some(subject.subresource));
            assert!(!expected || criteria.may_match(names.0, names.1, names.2), "{rule} {request}");
        }
    }

    #[test]
    fn versions_that_match() {
        let rule = |version: &str| json!({"operations": ["*"], "apiGroups": ["g"], "apiVersions": [version], "resources": ["r"]});
        for (rules, policy, excluded, expected) in [
            (vec![rule("v2")], "Equivalent", None, Some("v2")),
            (vec![rule("v2")], "Exact", None, None),
            (vec![rule("v3"), rule("v2"), rule("v1")], "Equivalent", None, Some("v1")),
            (vec![rule("v3"), rule("v2")], "Equivalent", None, Some("v3")),
            (vec![rule("v4")], "Equivalent", None, None),
            (vec![rule("*")], "Equivalent", Some(rule("v2")), None),
            (vec![rule("*")], "Exact", Some(rule("v2")), Some("v1")),
            (vec![], "Exact", None, Some("v1")),
        ] {
            let document =
                json!({"resourceRules": rules, "matchPolicy": policy, "excludeResourceRules": excluded.map(|it| [it])});
            let found =
                Criteria::of_policy(&document).version(&subject("g v1 r ns", Operation::Update), &["v1", "v2", "v3"]);
            assert_eq!(found, expected, "{document}");
        }
    }

    #[test]
    fn objects_are_selected_by_the_old_or_the_new_labels() {
        let labelled = |value: &str| json!({"metadata": {"labels": {"a": value}}});
        let criteria = Criteria::of_webhook(&json!({"objectSelector": {"matchLabels": {"a": "b"}}}));
        for (new, old, expected) in [
            (Some(labelled("b")), None, true),
            (Some(labelled("c")), Some(labelled("b")), true),
            (None, Some(labelled("b")), true),
            (Some(labelled("c")), None, false),
            (None, None, false),
        ] {
            assert_eq!(criteria.selects_object([new.as_ref(), old.as_ref()]), Ok(expected));
        }
        let broken =
            Criteria::of_webhook(&json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "X"}]}}));
        assert!(broken.selects_object([None, None]).is_err());
    }
}
