//! The audit policy: the rule that applies to a request, and its decision. Source: `audit.k8s.io/v1`, and the task page
//! "Auditing" of the Kubernetes documentation.

use std::collections::BTreeSet;

use apimachinery::configuration::{ConfigurationError, FileKind, remove_nulls};
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{names, yaml};
use serde::Deserialize;
use serde_json::Value;

use crate::event::Stage;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No event.
    #[default]
    None,
    /// User, time, resource and verb.
    Metadata,
    /// Also the request's object; only of resource requests.
    Request,
    /// Also the response's object; only of resource requests.
    RequestResponse,
}

impl Level {
    const TABLE: [(&'static str, Self); 4] = [
        ("None", Self::None),
        ("Metadata", Self::Metadata),
        ("Request", Self::Request),
        ("RequestResponse", Self::RequestResponse),
    ];

    /// The text in a policy and in events.
    pub fn as_str(self) -> &'static str {
        Self::TABLE[self as usize].0
    }

    fn parse(text: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(name, _)| *name == text).map(|(_, level)| *level)
    }
}

/// The attributes of a request for matching rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// The authenticated user; empty if authentication failed.
    pub user: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
    /// As in RBAC: `get`, `list`, `create`, ...; of other paths the method in lower case.
    pub verb: &'a str,
    /// Whether the path is below `/api` or `/apis`.
    pub is_resource: bool,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty if the request names no object.
    pub name: &'a str,
    /// The path of the URL.
    pub path: &'a str,
}

/// The decision of a policy about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The level of the first rule that matches; [`Level::None`] without one.
    pub level: Level,
    /// The stages of which no event is recorded.
    pub omitted_stages: BTreeSet<Stage>,
    /// Whether `metadata.managedFields` is removed from recorded objects.
    pub omits_managed_fields: bool,
}

/// A valid audit policy.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    matches: Matches,
    decision: Decision,
}

/// A valid policy file, and warnings about it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The policy.
    pub policy: Policy,
    /// Unknown and duplicate fields, which are ignored.
    pub warnings: Vec<String>,
}

/// Why a policy file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be decoded, or has another kind or version.
    #[error(transparent)]
    File(#[from] ConfigurationError),
    /// A policy without rules records nothing, which is hardly intended.
    #[error("it has no rules: a rule {{level: None}} records nothing")]
    Empty,
    /// The fields that are invalid.
    #[error("{0}")]
    Invalid(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Document {
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
    rules: Vec<RuleDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RuleDocument {
    level: String,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
    #[serde(flatten)]
    matches: Matches,
}

#[derive(Clone, Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Matches {
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

const KIND: FileKind = FileKind { api_versions: &["audit.k8s.io/v1"], kind: "Policy" };

const POLICY_FIELDS: [&str; 6] = ["apiVersion", "kind", "metadata", "omitStages", "omitManagedFields", "rules"];
const RULE_FIELDS: [&str; 9] = [
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const RESOURCE_FIELDS: [&str; 3] = ["group", "resources", "resourceNames"];

impl Policy {
    /// Reads a policy file, YAML or JSON. Unknown fields are ignored with a warning, as kube-apiserver does.
    ///
    /// # Errors
    /// If it is not an `audit.k8s.io/v1` Policy, has no rules, or has invalid fields.
    pub fn parse(file: &[u8]) -> Result<Parsed, PolicyError> {
        let (mut tree, mut warnings) = yaml::to_json_value_warned(file).map_err(ConfigurationError::undecodable)?;
        KIND.check(&tree)?;
        warnings.extend(unknown_fields(&tree));
        // A list without items is often written as null.
        remove_nulls(&mut tree);
        let document: Document = serde_json::from_value(tree).map_err(ConfigurationError::undecodable)?;
        if document.rules.is_empty() {
            return Err(PolicyError::Empty);
        }
        let errors = validate(&document);
        if !errors.is_empty() {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(PolicyError::Invalid(lines.join(", ")));
        }
        Ok(Parsed { policy: Self::from_valid(document), warnings })
    }

    fn from_valid(document: Document) -> Self {
        let stages = |names: &[String]| names.iter().filter_map(|name| Stage::parse(name)).collect::<BTreeSet<_>>();
        let everywhere = stages(&document.omit_stages);
        let rule = |rule: RuleDocument| Rule {
            decision: Decision {
                level: Level::parse(&rule.level).unwrap_or_default(),
                omitted_stages: everywhere.union(&stages(&rule.omit_stages)).copied().collect(),
                omits_managed_fields: rule.omit_managed_fields.unwrap_or(document.omit_managed_fields),
            },
            matches: rule.matches,
        };
        Self { rules: document.rules.into_iter().map(rule).collect() }
    }

    /// The decision of the first rule that matches.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let found = self.rules.iter().find(|rule| rule.matches.matches(attributes));
        found.map(|rule| rule.decision.clone()).unwrap_or_default()
    }
}

fn contains(list: &[String], searched: &str) -> bool {
    list.iter().any(|item| item == searched)
}

impl Matches {
    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let allows = |list: &[String], searched: &str| list.is_empty() || contains(list, searched);
        let in_groups = || attributes.groups.iter().any(|group| contains(&self.user_groups, group));
        if !allows(&self.users, attributes.user)
            || !(self.user_groups.is_empty() || in_groups())
            || !allows(&self.verbs, attributes.verb)
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return attributes.is_resource
                && allows(&self.namespaces, attributes.namespace)
                && (self.resources.is_empty() || self.resources.iter().any(|it| it.matches(attributes)));
        }
        if self.non_resource_urls.is_empty() {
            return true;
        }
        let is_meant = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => attributes.path.starts_with(prefix),
            None => pattern == attributes.path,
        };
        !attributes.is_resource && self.non_resource_urls.iter().any(is_meant)
    }
}

impl GroupResources {
    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        if self.group != "*" && self.group != attributes.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        (self.resource_names.is_empty() || contains(&self.resource_names, attributes.name))
            && self.resources.iter().any(|pattern| denotes(pattern, attributes.resource, attributes.subresource))
    }
}

/// Whether `pods`, `pods/log`, `pods/*`, `*/scale` or `*` means a resource and its subresource.
fn denotes(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((_, "")) => false,
        Some(("*", searched)) => searched == subresource,
        // As upstream, this includes the resource itself.
        Some((searched, "*")) => searched == resource,
        Some((of, searched)) => of == resource && searched == subresource,
    }
}

fn unknown_fields(tree: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |map: &Value, known: &[&str], at: &str| {
        let names = map.as_object().into_iter().flat_map(|map| map.keys());
        found.extend(
            names.filter(|name| !known.contains(&name.as_str())).map(|name| format!("unknown field \"{at}{name}\"")),
        );
    };
    check(tree, &POLICY_FIELDS, "");
    for (at, rule) in tree["rules"].as_array().into_iter().flatten().enumerate() {
        check(rule, &RULE_FIELDS, &format!("rules[{at}]."));
        for (place, resources) in rule["resources"].as_array().into_iter().flatten().enumerate() {
            check(resources, &RESOURCE_FIELDS, &format!("rules[{at}].resources[{place}]."));
        }
    }
    found
}

fn validate(document: &Document) -> ErrorList {
    let mut errors = ErrorList::default();
    stages(&document.omit_stages, &Path::new("omitStages"), &mut errors);
    for (at, rule) in document.rules.iter().enumerate() {
        let path = Path::new("rules").index(at);
        match rule.level.as_str() {
            "" => errors.push(Error::required(&path.child("level"), "")),
            level if Level::parse(level).is_none() => {
                let known: Vec<&str> = Level::TABLE.iter().map(|(name, _)| *name).collect();
                errors.push(Error::not_supported(&path.child("level"), level, &known));
            }
            _ => {}
        }
        stages(&rule.omit_stages, &path.child("omitStages"), &mut errors);
        let matches = &rule.matches;
        let about_resources = !matches.resources.is_empty() || !matches.namespaces.is_empty();
        if about_resources && !matches.non_resource_urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path.child("nonResourceURLs"), matches.non_resource_urls.clone(), why));
        }
        urls(&matches.non_resource_urls, &path.child("nonResourceURLs"), &mut errors);
        for (place, resources) in matches.resources.iter().enumerate() {
            let path = path.child("resources").index(place);
            let complaints = match resources.group.as_str() {
                "" | "*" => Vec::new(),
                group if group.contains('/') => vec!["the group without a version, such as \"apps\"".to_owned()],
                group => names::is_dns1123_subdomain(group),
            };
            if !complaints.is_empty() {
                errors.push(Error::invalid(&path.child("group"), resources.group.clone(), complaints.join(",")));
            }
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                let why = "using resourceNames requires at least one resource";
                errors.push(Error::invalid(&path.child("resourceNames"), resources.resource_names.clone(), why));
            }
        }
    }
    errors
}

fn stages(names: &[String], path: &Path, errors: &mut ErrorList) {
    for (at, name) in names.iter().enumerate() {
        if Stage::parse(name).is_none() {
            errors.push(Error::not_supported(&path.index(at), name.as_str(), &Stage::NAMES));
        }
    }
}

fn urls(patterns: &[String], path: &Path, errors: &mut ErrorList) {
    for (at, pattern) in patterns.iter().enumerate() {
        let mut refuse = |why: &str| errors.push(Error::invalid(&path.index(at), pattern.clone(), why));
        if pattern == "*" {
            continue;
        }
        if !pattern.starts_with('/') {
            refuse("non-resource URL rules must begin with a '/' character");
        }
        if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
            refuse("non-resource URL wildcards '*' must be the final character of the rule");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &str) -> Policy {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: {rules}");
        Policy::parse(text.as_bytes()).expect("a policy").policy
    }

    fn of<'a>(verb: &'a str, path: &'a str, resource: (&'a str, &'a str, &'a str)) -> Attributes<'a> {
        let (group, full, name) = resource;
        let (plural, subresource) = full.split_once('/').unwrap_or((full, ""));
        let is_resource = !full.is_empty();
        Attributes {
            user: "ann",
            groups: &[],
            verb,
            is_resource,
            namespace: "ns",
            group,
            resource: plural,
            subresource,
            name,
            path,
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let pods = of("get", "/api/v1/namespaces/ns/pods/p", ("", "pods", "p"));
        let log = of("get", "/api/v1/namespaces/ns/pods/p/log", ("", "pods/log", "p"));
        let scale = of("update", "/apis/apps/v1/namespaces/ns/deployments/d/scale", ("apps", "deployments/scale", "d"));
        let health = of("get", "/healthz/ping", ("", "", ""));
        for (rule, request, expected) in [
            ("{}", pods, true),
            ("{users: [ann]}", pods, true),
            ("{users: [bob]}", pods, false),
            ("{userGroups: [system:masters]}", pods, false),
            ("{userGroups: [system:masters]}", Attributes { groups: &["system:masters".to_owned()], ..pods }, true),
            ("{verbs: [get, list]}", pods, true),
            ("{verbs: [update]}", pods, false),
            ("{namespaces: [ns]}", pods, true),
            ("{namespaces: ['']}", pods, false),
            ("{namespaces: ['']}", Attributes { namespace: "", ..pods }, true),
            ("{namespaces: [ns]}", health, false),
            ("{resources: [{group: ''}]}", log, true),
            ("{resources: [{group: apps}]}", log, false),
            ("{resources: [{group: '', resources: [pods]}]}", pods, true),
            ("{resources: [{group: '', resources: [pods]}]}", log, false),
            ("{resources: [{group: '', resources: [pods/log]}]}", log, true),
            ("{resources: [{group: '', resources: [pods/*]}]}", log, true),
            ("{resources: [{group: '', resources: [pods/*]}]}", pods, true),
            ("{resources: [{group: '', resources: [pods/]}]}", pods, false),
            ("{resources: [{group: '', resources: ['*/']}]}", pods, false),
            ("{resources: [{group: '', resources: ['*/*']}]}", log, false),
            ("{resources: [{group: '*', resources: [pods]}]}", pods, true),
            ("{resources: [{group: '*'}]}", scale, true),
            ("{resources: [{group: '*', resources: [pods]}]}", scale, false),
            ("{resources: [{group: apps, resources: ['*/scale']}]}", scale, true),
            ("{resources: [{group: '', resources: ['*']}]}", log, true),
            ("{resources: [{group: '', resources: [pods], resourceNames: [p]}]}", pods, true),
            ("{resources: [{group: '', resources: [pods], resourceNames: [q]}]}", pods, false),
            ("{nonResourceURLs: ['/healthz*']}", health, true),
            ("{nonResourceURLs: ['*']}", health, true),
            ("{nonResourceURLs: ['*']}", pods, false),
            ("{nonResourceURLs: ['/healthz']}", health, false),
        ] {
            let decided = policy(&format!("[{}]", rule.replacen('{', "{level: Request, ", 1).replace(", }", "}")))
                .decide(&request);
            let level = if expected { Level::Request } else { Level::None };
            assert_eq!(decided.level, level, "{rule} for {request:?}");
        }
    }

    #[test]
    fn settings_of_a_rule_add_to_those_of_the_policy() {
        let rules = "[{level: Metadata, verbs: [get], omitStages: [ResponseStarted], omitManagedFields: true}, {level: Request}]";
        let with = policy(rules).decide(&of("get", "/", ("", "pods", "")));
        assert_eq!(with.omitted_stages, BTreeSet::from([Stage::RequestReceived, Stage::ResponseStarted]));
        assert!(with.omits_managed_fields);
        let without = policy(rules).decide(&of("list", "/", ("", "pods", "")));
        assert_eq!((without.level, without.omits_managed_fields), (Level::Request, false));
        assert_eq!(without.omitted_stages, BTreeSet::from([Stage::RequestReceived]));
    }

    #[test]
    fn unusable_policies_are_refused_with_the_field() {
        let parse = |text: &str| {
            Policy::parse(text.as_bytes()).map(|parsed| parsed.warnings).map_err(|error| error.to_string())
        };
        let v1 = |rest: &str| parse(&format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, {rest}}}"));
        for (found, expected) in [
            (parse("a: [b"), "it cannot be decoded"),
            (
                parse("{apiVersion: audit.k8s.io/v1beta1, kind: Policy}"),
                "it is audit.k8s.io/v1beta1 Policy, not an audit.k8s.io/v1 Policy",
            ),
            (parse("[]"), "it is  , not an audit.k8s.io/v1 Policy"),
            (v1("rules: []"), "it has no rules"),
            (v1("rules: null"), "it has no rules"),
            (v1("rules: {}"), "it cannot be decoded"),
            (v1("rules: [{}]"), "rules[0].level: Required value"),
            (
                v1("rules: [{level: All}]"),
                "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
            ),
            (v1("omitStages: [Started], rules: [{level: None}]"), "omitStages[0]: Unsupported value: \"Started\""),
            (v1("rules: [{level: None, nonResourceURLs: [health]}]"), "must begin with a '/'"),
            (v1("rules: [{level: None, nonResourceURLs: ['/a*b']}]"), "must be the final character"),
            (
                v1("rules: [{level: None, namespaces: [a], nonResourceURLs: ['/a']}]"),
                "both regular resources and non-resource URLs",
            ),
            (v1("rules: [{level: None, resources: [{resourceNames: [a]}]}]"), "requires at least one resource"),
            (v1("rules: [{level: None, resources: [{group: apps/v1}]}]"), "the group without a version"),
            (v1("rules: [{level: None, resources: [{group: A b}]}]"), "a lowercase RFC 1123 subdomain must consist of"),
        ] {
            let error = found.expect_err(expected);
            assert!(error.contains(expected), "{error} does not contain {expected}");
        }
        let warnings =
            v1("rulez: [], rules: [{level: None, verb: [get], resources: [{groups: ['']}]}]").expect("a policy");
        let expected = [
            "unknown field \"rulez\"",
            "unknown field \"rules[0].verb\"",
            "unknown field \"rules[0].resources[0].groups\"",
        ];
        assert_eq!(warnings, expected);
    }
}
