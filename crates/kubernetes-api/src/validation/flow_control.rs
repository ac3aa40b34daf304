//! FlowSchemas and their PriorityLevelConfigurations.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::{Value, json};

use super::at::At;
use super::checks::{at_least, shape};
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("flow_resources", flow_resources),
    ("flow_schema", flow_schema),
    ("flow_schema_name", flow_schema_name),
    ("flow_subject", flow_subject),
    ("flow_urls", flow_urls),
    ("priority_level", priority_level),
    ("priority_level_name", priority_level_name),
];

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const MAX_QUEUES: i64 = 10_000_000;
/// The bits of a request's hash that select its queues.
const HASH_BITS: i64 = 60;

fn name(map: &Object) -> &str {
    map.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default())
}

/// Precedence 1 is reserved for the exempt FlowSchema, and the specs of mandatory FlowSchemas are fixed.
fn flow_schema_name(schema: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let precedence = schema.get("spec").map_or(&Value::Null, |spec| &spec["matchingPrecedence"]);
    if *precedence == 1 && name(schema) != "exempt" {
        let at = at.child("spec");
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        invalid(errors, &at.child("matchingPrecedence"), precedence, detail);
    }
    let rule = |subjects: &[&str], precedence: i64, level: &str, by: Option<&str>| {
        let subjects: Vec<Value> =
            subjects.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect();
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
            "rules": [{"subjects": subjects,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]
        });
        if let Some(by) = by {
            spec["distinguisherMethod"] = json!({"type": by});
        }
        spec
    };
    let fixed = match name(schema) {
        "exempt" => rule(&["system:masters"], 1, "exempt", None),
        "catch-all" => rule(&["system:unauthenticated", "system:authenticated"], 10_000, "catch-all", Some("ByUser")),
        _ => return,
    };
    if let Some(spec) = schema.get("spec").filter(|spec| **spec != fixed) {
        let detail = format!("spec of '{}' must equal the fixed value", name(schema));
        let error = Error::invalid(&at.child("spec").path(), spec.clone(), &detail);
        errors.push(error.shown_as(as_struct(spec, SCHEMA)));
    }
}

fn flow_schema(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let precedence = spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or(0);
    let at_precedence = at.child("matchingPrecedence");
    if precedence <= 0 {
        invalid(errors, &at_precedence, &precedence.into(), "must be a positive value");
    } else if precedence > 10_000 {
        invalid(errors, &at_precedence, &precedence.into(), "must not be greater than 10000");
    }
    let level = spec.get("priorityLevelConfiguration").map_or("", |level| level["name"].as_str().unwrap_or_default());
    let at_level = at.child("priorityLevelConfiguration");
    if level.is_empty() {
        required(errors, &at_level.child("name"), "must reference a priority level");
    } else {
        shape(&level.into(), names::is_dns1123_subdomain, &at_level.child("name"), errors);
    }
    if let Some(method) = object(spec, "distinguisherMethod") {
        let known = ["ByNamespace", "ByUser"];
        let type_ = text(method, "type");
        if !known.contains(&type_) {
            let at = at.child("distinguisherMethod");
            // Upstream prints the method as its Go struct.
            let error = Error::not_supported(&at.child("type").path(), type_, &known);
            errors.push(error.shown_as(format!(r#"{{"Type":{}}}"#, Value::from(type_))));
        }
    }
    let at_rules = at.child("rules");
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        let (at, Some(rule)) = (at_rules.index(index), rule.as_object()) else { continue };
        if list(rule, "subjects").is_empty() {
            required(errors, &at.child("subjects"), "subjects must contain at least one value");
        }
        if list(rule, "resourceRules").is_empty() && list(rule, "nonResourceRules").is_empty() {
            required(errors, &at, "at least one of resourceRules and nonResourceRules has to be non-empty");
        }
    }
}

/// The field of each kind of subject.
const SUBJECTS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

fn flow_subject(subject: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let kind = text(subject, "kind");
    if !SUBJECTS.iter().any(|(known, _)| *known == kind) {
        let known = SUBJECTS.map(|(kind, _)| kind);
        return errors.push(Error::not_supported(&at.child("kind").path(), kind, &known));
    }
    for (of, field) in SUBJECTS {
        let (specified, at) = (object(subject, field), at.child(field));
        match specified {
            Some(_) if of != kind => {
                forbidden(errors, &at, &format!("{field} is forbidden when subject kind is not '{of}'"));
            }
            None if of == kind => {
                required(errors, &at, &format!("{field} is required when subject kind is '{of}'"));
            }
            Some(specified) => subject_of(of, specified, &at, errors),
            None => {}
        }
    }
}

fn subject_of(kind: &str, subject: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(subject, "name");
    if name.is_empty() {
        required(errors, &at.child("name"), "");
    }
    if kind != "ServiceAccount" {
        return;
    }
    if !matches!(name, "" | "*") {
        shape(&name.into(), names::is_dns1123_subdomain, &at.child("name"), errors);
    }
    let namespace = text(subject, "namespace");
    if namespace.is_empty() {
        required(errors, &at.child("namespace"), "must specify namespace for service account");
    } else {
        shape(&namespace.into(), names::is_dns1123_label, &at.child("namespace"), errors);
    }
}

fn verbs(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (verbs, at) = (list(rule, "verbs"), at.child("verbs"));
    let known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if verbs.is_empty() {
        required(errors, &at, "verbs must contain at least one value");
    } else if verbs.iter().any(|verb| verb == "*") {
        check_wildcard_only(verbs, "verbs", &at, errors);
    } else if !verbs.iter().all(known) {
        errors.push(Error::not_supported(&at.path(), verbs.to_vec(), &VERBS));
    }
}

fn flow_resources(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    verbs(rule, at, errors);
    for (field, one, all) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let (specified, at) = (list(rule, field), at.child(field));
        if specified.is_empty() {
            required(errors, &at, &format!("resource rules must supply at least one {one}"));
        } else {
            check_wildcard_only(specified, all, &at, errors);
        }
    }
    namespaces(rule, &at.child("namespaces"), errors);
}

fn namespaces(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = list(rule, "namespaces");
    if specified.is_empty() {
        if rule.get("clusterScope") != Some(&Value::Bool(true)) {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            required(errors, at, detail);
        }
    } else if specified.iter().any(|namespace| namespace == "*") {
        check_wildcard_only(specified, "namespaces", at, errors);
    } else {
        for (index, namespace) in specified.iter().enumerate() {
            for complaint in names::is_dns1123_label(namespace.as_str().unwrap_or_default()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {complaint}");
                invalid(errors, &at.index(index), namespace, &detail);
            }
        }
    }
}

/// `*` must be the only value.
fn check_wildcard_only(specified: &[Value], words: &str, at: &At<'_>, errors: &mut ErrorList) {
    if specified.len() > 1 && specified.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {words}");
        invalid(errors, at, &specified.to_vec().into(), &detail);
    }
}

fn flow_urls(rule: &Object, at: &At<'_>, errors: &mut ErrorList) {
    verbs(rule, at, errors);
    let (specified, at) = (list(rule, "nonResourceURLs"), at.child("nonResourceURLs"));
    if specified.is_empty() {
        required(errors, &at, "nonResourceURLs must contain at least one value");
    } else if specified.iter().any(|url| url == "*") {
        check_wildcard_only(specified, "non-resource URLs", &at, errors);
    } else {
        for (index, url) in specified.iter().enumerate() {
            if let Some(detail) = url_complaint(url.as_str().unwrap_or_default()) {
                invalid(errors, &at.index(index), url, detail);
            }
        }
    }
}

fn url_complaint(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || stars == 1 && !url.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

/// Only the level named `exempt` is exempt; the specs of mandatory levels are fixed, except the shares of the exempt
/// one.
fn priority_level_name(level: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (mut spec, at_spec) = (level.get("spec").cloned().unwrap_or_default(), at.child("spec"));
    let shown = as_struct(&spec, LEVEL);
    let (fixed, but) = match name(level) {
        "exempt" => (json!({"type": "Exempt"}), " except the 'spec.exempt' field"),
        _ => {
            let limited =
                json!({"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}});
            (json!({"type": "Limited", "limited": limited}), "")
        }
    };
    if !but.is_empty()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("exempt");
    }
    if matches!(name(level), "exempt" | "catch-all") && spec != fixed {
        let detail = format!("spec of '{}'{but} must equal the fixed value", name(level));
        errors.push(Error::invalid(&at_spec.path(), spec, &detail).shown_as(shown));
    }
    let type_ = level.get("spec").map_or("", |spec| spec["type"].as_str().unwrap_or_default());
    if (name(level) == "exempt") != (type_ == "Exempt") {
        let at = at.child("spec");
        let detail = "type must be 'Exempt' if and only if name is 'exempt'";
        invalid(errors, &at.child("type"), &type_.into(), detail);
    }
}

/// A priority level is validated according to its type.
fn priority_level(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (exempt, limited) = (object(spec, "exempt"), object(spec, "limited"));
    let (at_exempt, at_limited) = (at.child("exempt"), at.child("limited"));
    match text(spec, "type") {
        "Exempt" => {
            if limited.is_some() {
                forbidden(errors, &at_limited, "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                shares(exempt, &at_exempt, errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                forbidden(errors, &at_exempt, "must be nil if the type is Limited");
            }
            match limited {
                Some(limited) => limited_level(limited, &at_limited, errors),
                None => required(errors, &at_limited, "must not be empty when type is Limited"),
            }
        }
        other => errors.push(Error::not_supported(&at.child("type").path(), other, &["Exempt", "Limited"])),
    }
}

/// The shares of a level, and the percentage it lends.
fn shares(level: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (shares, lends) = ("nominalConcurrencyShares", "lendablePercent");
    if let Some(value) = level.get(shares) {
        at_least(value, 0, "must be a non-negative integer", &at.child(shares), errors);
    }
    if let Some(value) = level.get(lends).filter(|value| !value.as_i64().is_some_and(|n| (0..=100).contains(&n))) {
        invalid(errors, &at.child(lends), value, "must be between 0 and 100, inclusive");
    }
}

fn limited_level(level: &Object, at: &At<'_>, errors: &mut ErrorList) {
    shares(level, at, errors);
    let borrows = "borrowingLimitPercent";
    if let Some(value) = level.get(borrows) {
        at_least(value, 0, "if specified, must be a non-negative integer", &at.child(borrows), errors);
    }
    let (nothing, at) = (Object::new(), at.child("limitResponse"));
    let response = object(level, "limitResponse").unwrap_or(&nothing);
    let (line, at_line) = (object(response, "queuing"), at.child("queuing"));
    match (text(response, "type"), line) {
        ("Reject", Some(_)) => {
            forbidden(errors, &at_line, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Queue", None) => {
            required(errors, &at_line, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(line)) => queuing(line, &at_line, errors),
        ("Reject", None) => {}
        (other, _) => errors.push(Error::not_supported(&at.child("type").path(), other, &["Queue", "Reject"])),
    }
}

fn queuing(queuing: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let of = |field: &str| queuing.get(field).and_then(Value::as_i64).unwrap_or(0);
    let (queues, hand) = (of("queues"), of("handSize"));
    let mut complain = |field: &str, detail: &str| invalid(errors, &at.child(field), &of(field).into(), detail);
    if of("queueLengthLimit") <= 0 {
        complain("queueLengthLimit", "must be positive");
    }
    if queues <= 0 {
        complain("queues", "must be positive");
    } else if queues > MAX_QUEUES {
        complain("queues", &format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        complain("handSize", "must be positive");
    } else if hand > queues {
        complain("handSize", &format!("should not be greater than queues ({queues})"));
    } else if entropy(queues, hand) > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        complain("handSize", &detail);
    }
}

/// The fields of a Go struct: the Go name of each, the field of the document, and the nested struct.
type Fields = &'static [(&'static str, &'static str, Inner)];

#[derive(Clone, Copy)]
enum Inner {
    Value,
    /// Empty if it is absent.
    Text,
    Struct(Fields),
    List(Fields),
}

const NAME: Fields = &[("Name", "name", Inner::Text)];
const SUBJECT: Fields = &[
    ("Kind", "kind", Inner::Text),
    ("User", "user", Inner::Struct(NAME)),
    ("Group", "group", Inner::Struct(NAME)),
    (
        "ServiceAccount",
        "serviceAccount",
        Inner::Struct(&[("Namespace", "namespace", Inner::Text), ("Name", "name", Inner::Text)]),
    ),
];
const RULE: Fields = &[
    ("Subjects", "subjects", Inner::List(SUBJECT)),
    (
        "ResourceRules",
        "resourceRules",
        Inner::List(&[
            ("Verbs", "verbs", Inner::Value),
            ("APIGroups", "apiGroups", Inner::Value),
            ("Resources", "resources", Inner::Value),
            ("ClusterScope", "clusterScope", Inner::Value),
            ("Namespaces", "namespaces", Inner::Value),
        ]),
    ),
    (
        "NonResourceRules",
        "nonResourceRules",
        Inner::List(&[("Verbs", "verbs", Inner::Value), ("NonResourceURLs", "nonResourceURLs", Inner::Value)]),
    ),
];
const SCHEMA: Fields = &[
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", Inner::Struct(NAME)),
    ("MatchingPrecedence", "matchingPrecedence", Inner::Value),
    ("DistinguisherMethod", "distinguisherMethod", Inner::Struct(&[("Type", "type", Inner::Text)])),
    ("Rules", "rules", Inner::List(RULE)),
];
const QUEUING: Fields = &[
    ("Queues", "queues", Inner::Value),
    ("HandSize", "handSize", Inner::Value),
    ("QueueLengthLimit", "queueLengthLimit", Inner::Value),
];
const LEVEL: Fields = &[
    ("Type", "type", Inner::Text),
    (
        "Limited",
        "limited",
        Inner::Struct(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Inner::Value),
            (
                "LimitResponse",
                "limitResponse",
                Inner::Struct(&[("Type", "type", Inner::Text), ("Queuing", "queuing", Inner::Struct(QUEUING))]),
            ),
            ("LendablePercent", "lendablePercent", Inner::Value),
            ("BorrowingLimitPercent", "borrowingLimitPercent", Inner::Value),
        ]),
    ),
    (
        "Exempt",
        "exempt",
        Inner::Struct(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Inner::Value),
            ("LendablePercent", "lendablePercent", Inner::Value),
        ]),
    ),
];

/// Prints a document like upstream's Go struct.
fn as_struct(document: &Value, fields: Fields) -> String {
    if !document.is_object() {
        return "null".to_owned();
    }
    let field = |(name, field, inner): &(&str, &str, Inner)| {
        let value = &document[*field];
        let shown = match inner {
            Inner::Value if *field == "clusterScope" && value.is_null() => "false".to_owned(),
            Inner::Text if value.is_null() => "\"\"".to_owned(),
            Inner::Value | Inner::Text => value.to_string(),
            Inner::Struct(fields) => as_struct(value, fields),
            Inner::List(fields) => match value.as_array() {
                Some(items) => {
                    let items: Vec<String> = items.iter().map(|item| as_struct(item, fields)).collect();
                    format!("[{}]", items.join(","))
                }
                None => "null".to_owned(),
            },
        };
        format!("\"{name}\":{shown}")
    };
    let shown: Vec<String> = fields.iter().map(field).collect();
    format!("{{{}}}", shown.join(","))
}

/// The maximum number of bits needed to deal a hand from a deck.
fn entropy(deck: i64, hand: i64) -> i64 {
    // Both are far below the precision of a float.
    ((deck as f64).log2() * hand as f64).ceil() as i64
}
