//! Checks of one field, by their names in the table.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::meta::LabelSelector;
use apimachinery::names;
use apimachinery::selector::Selector;
use serde_json::Value;

use super::at::At;
use super::{invalid, required};

#[derive(Clone, Debug)]
pub(super) enum Check {
    /// Present and not empty; with the message's detail, if any.
    Required(&'static str),
    In(Vec<&'static str>),
    /// As `In`, but an absent value is an error like any other.
    AlwaysIn(Vec<&'static str>),
    /// Text of a certain form; the function returns the errors.
    Shape(fn(&str) -> Vec<String>),
    /// As `Shape`, but an absent value is an empty text.
    AlwaysShape(fn(&str) -> Vec<String>),
    NotNegative,
    Positive,
    Between(i64, i64),
    /// Permission bits.
    Mode,
    /// As `Positive`, with the messages of quantities and of scaling.
    AboveZero,
    /// As `AboveZero`, but an absent value is zero.
    AlwaysAboveZero,
    /// The weight of a preference.
    Weight,
    /// A number or a name.
    Port,
    /// As `Port`, but an absent value is zero.
    AlwaysPort,
    /// A number or a percentage, not negative.
    Share,
    /// A number or percentage of at most 100 %.
    AtMostAll,
    /// No two items have the same value of this field.
    Unique(&'static str),
    /// A map of labels.
    Labels,
    Selector,
    Absolute,
    /// A relative path without `..`.
    Descending,
    /// As `Descending`, and without the names that volumes reserve.
    LocalPath,
    NoBacksteps,
}

impl Check {
    /// From `name [arguments]`.
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match name {
            "required" => Self::Required(rest),
            "in" => Self::In(rest.split(' ').collect()),
            "given-in" => Self::AlwaysIn(rest.split(' ').collect()),
            "given-subdomain" => Self::AlwaysShape(names::is_dns1123_subdomain),
            "given-label" => Self::AlwaysShape(names::is_dns1123_label),
            "label" => Self::Shape(names::is_dns1123_label),
            "label1035" => Self::Shape(names::is_dns1035_label),
            "subdomain" => Self::Shape(names::is_dns1123_subdomain),
            "qualified" => Self::Shape(names::is_qualified_name),
            "segment" => Self::Shape(names::is_path_segment),
            "port-name" => Self::Shape(is_port_name),
            "environment-name" => Self::Shape(is_environment_name),
            "config-key" => Self::Shape(is_config_key),
            "not-negative" => Self::NotNegative,
            "positive" => Self::Positive,
            "between" => {
                let (from, to) = rest.split_once(' ')?;
                Self::Between(from.parse().ok()?, to.parse().ok()?)
            }
            "mode" => Self::Mode,
            "above-zero" => Self::AboveZero,
            "given-above-zero" => Self::AlwaysAboveZero,
            "weight" => Self::Weight,
            "port" => Self::Port,
            "given-port" => Self::AlwaysPort,
            "share" => Self::Share,
            "at-most-all" => Self::AtMostAll,
            "unique" => Self::Unique(rest),
            "labels" => Self::Labels,
            "selector" => Self::Selector,
            "absolute" => Self::Absolute,
            "descending" => Self::Descending,
            "local-path" => Self::LocalPath,
            "no-backsteps" => Self::NoBacksteps,
            _ => return None,
        })
    }

    pub(super) fn run(&self, value: Option<&Value>, at: &At<'_>, errors: &mut ErrorList) {
        let Some(value) = value.filter(|value| !is_empty(value)) else {
            return self.run_without(at, errors);
        };
        match self {
            // An empty list that does not count as absent is reported as missing, too.
            Self::Required(detail) if value.as_array().is_some_and(Vec::is_empty) => required(errors, at, detail),
            Self::Required(_) => {}
            Self::In(allowed) | Self::AlwaysIn(allowed) => supported(value, allowed, at, errors),
            Self::Shape(complaints) | Self::AlwaysShape(complaints) => shape(value, *complaints, at, errors),
            Self::AboveZero | Self::AlwaysAboveZero => at_least(value, 1, "must be greater than zero", at, errors),
            Self::Weight => {
                if value.as_i64().is_some_and(|weight| !(1..=100).contains(&weight)) {
                    invalid(errors, at, value, "must be in the range 1-100");
                }
            }
            Self::NotNegative => at_least(value, 0, "must be greater than or equal to 0", at, errors),
            Self::Positive => at_least(value, 1, "must be greater than 0", at, errors),
            Self::Between(from, to) => {
                if value.as_i64().is_some_and(|number| number < *from || number > *to) {
                    invalid(errors, at, value, &format!("must be between {from} and {to}, inclusive"));
                }
            }
            Self::Mode => {
                if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
                    invalid(errors, at, value, "must be a number between 0 and 0777 (octal), both inclusive");
                }
            }
            Self::Port | Self::AlwaysPort => port(value, at, errors),
            Self::Share => share(value, at, errors),
            Self::AtMostAll => {
                if percent(value).is_some_and(|share| share > 100) {
                    invalid(errors, at, value, "must not be greater than 100%");
                }
            }
            Self::Unique(field) => unique(value, field, at, errors),
            Self::Labels => labels(value, at, errors),
            Self::Selector => selector(value, at, errors),
            Self::Absolute => {
                if value.as_str().is_some_and(|path| !path.starts_with('/')) {
                    invalid(errors, at, value, "must be an absolute path");
                }
            }
            Self::Descending => descending_path(value, at, errors),
            Self::LocalPath => local_path(value, at, errors),
            Self::NoBacksteps => no_backsteps(value, at, errors),
        }
    }

    /// The check of an absent or empty value.
    fn run_without(&self, at: &At<'_>, errors: &mut ErrorList) {
        let zero = Value::from(0);
        match self {
            Self::Required(detail) => required(errors, at, detail),
            Self::AlwaysIn(allowed) => supported(&"".into(), allowed, at, errors),
            Self::AlwaysShape(complaints) => shape(&"".into(), *complaints, at, errors),
            Self::AlwaysPort => port(&zero, at, errors),
            Self::AlwaysAboveZero => at_least(&zero, 1, "must be greater than zero", at, errors),
            Self::Weight => invalid(errors, at, &zero, "must be in the range 1-100"),
            _ => {}
        }
    }
}

pub(super) fn no_backsteps(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    if value.as_str().is_some_and(|path| path.split('/').any(|part| part == "..")) {
        invalid(errors, at, value, "must not contain '..'");
    }
}

/// A relative path without `..`, and without the names that volumes use for their versions.
fn local_path(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    descending_path(value, at, errors);
    let path = value.as_str().unwrap_or_default();
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        invalid(errors, at, value, "must not start with '..'");
    }
}

pub(super) fn descending_path(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    if value.as_str().is_some_and(|path| path.starts_with('/')) {
        invalid(errors, at, value, "must be a relative path");
    }
    no_backsteps(value, at, errors);
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

pub(super) fn supported(value: &Value, allowed: &[&str], at: &At<'_>, errors: &mut ErrorList) {
    if value.as_str().is_none_or(|text| !allowed.contains(&text)) {
        errors.push(Error::not_supported(&at.path(), value.clone(), allowed));
    }
}

pub(super) fn shape(value: &Value, complaints: fn(&str) -> Vec<String>, at: &At<'_>, errors: &mut ErrorList) {
    for complaint in value.as_str().map(complaints).unwrap_or_default() {
        invalid(errors, at, value, &complaint);
    }
}

pub(super) fn at_least(value: &Value, least: i64, detail: &str, at: &At<'_>, errors: &mut ErrorList) {
    if value.as_i64().is_some_and(|number| number < least) {
        invalid(errors, at, value, detail);
    }
}

/// A port's number, or the name of a container's port.
pub(super) fn port(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    match value.as_i64() {
        Some(1..=65535) => {}
        Some(_) => invalid(errors, at, value, "must be between 1 and 65535, inclusive"),
        None => shape(value, is_port_name, at, errors),
    }
}

/// The number of percents of `25%`.
pub(super) fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) { None } else { digits.parse().ok() }
}

pub(super) fn share(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    if value.is_string() && percent(value).is_none() {
        let text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                    regex used for validation is '[0-9]+%')";
        invalid(errors, at, value, text);
    } else {
        at_least(value, 0, "must be greater than or equal to 0", at, errors);
    }
}

fn unique(value: &Value, field: &str, at: &At<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let Some(name) = item[field].as_str().filter(|name| !name.is_empty()) else { continue };
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index).child(field).path(), name));
        }
    }
}

pub(super) fn labels(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    for (key, value) in value.as_object().into_iter().flatten() {
        for complaint in names::is_qualified_name(key) {
            errors.push(Error::invalid(&at.path(), key.as_str(), complaint));
        }
        for complaint in value.as_str().map(names::is_label_value).unwrap_or_default() {
            errors.push(Error::invalid(&at.path(), value.clone(), complaint));
        }
    }
}

/// The parsed selector; `None` if it is invalid.
pub(super) fn selector_of(value: &Value) -> Option<Selector> {
    let selector: LabelSelector = serde_json::from_value(value.clone()).ok()?;
    Selector::from_label_selector(&selector).ok()
}

pub(super) fn selector(value: &Value, at: &At<'_>, errors: &mut ErrorList) {
    labels(&value["matchLabels"], &at.child("matchLabels"), errors);
    let list_at = at.child("matchExpressions");
    for (index, expression) in value["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        let at = list_at.index(index);
        let count = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str() {
            Some("In" | "NotIn") if count == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                required(errors, &at.child("values"), detail);
            }
            Some("Exists" | "DoesNotExist") if count > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&at.child("values").path(), detail));
            }
            Some("In" | "NotIn" | "Exists" | "DoesNotExist") => {}
            _ => invalid(errors, &at.child("operator"), &expression["operator"], "not a valid selector operator"),
        }
        let key = if expression["key"].is_null() { &Value::from("") } else { &expression["key"] };
        shape(key, names::is_qualified_name, &at.child("key"), errors);
        let at_values = at.child("values");
        for (index, value) in expression["values"].as_array().into_iter().flatten().enumerate() {
            shape(value, names::is_label_value, &at_values.index(index), errors);
        }
    }
}

/// What is wrong with a port's name, by IANA's rules for services.
pub fn is_port_name(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |wrong: bool, text: &str| {
        if wrong {
            complaints.push(text.to_owned());
        }
    };
    complain(text.len() > 15, "must be no more than 15 characters");
    let allowed = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    complain(!allowed || text.is_empty(), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    complain(!text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    complain(text.contains("--"), "must not contain consecutive hyphens");
    complain(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    complaints
}

fn is_environment_name(text: &str) -> Vec<String> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![why.to_owned()]
}

/// What is wrong with a key of a ConfigMap or Secret, which becomes a file's name.
pub fn is_config_key(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > names::SUBDOMAIN_MAX {
        complaints.push(format!("must be no more than {} characters", names::SUBDOMAIN_MAX));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                   'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        complaints.push(why.to_owned());
    }
    match text {
        "." => complaints.push("must not be '.'".to_owned()),
        ".." => complaints.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => complaints.push("must not start with '..'".to_owned()),
        _ => {}
    }
    complaints
}
