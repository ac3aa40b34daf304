//! The device claims of pods, and their use by containers.

use std::collections::{BTreeSet, HashSet};

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::{invalid, required};

/// The claims of a pod: names are unique, and each refers to either a claim or a template.
pub(super) fn of_pod(claims: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        let name = claim["name"].as_str().unwrap_or_default();
        let at_name = at.child("name");
        if name.is_empty() {
            required(errors, &at_name, "");
        } else if !seen.insert(name) {
            errors.push(Error::duplicate(&at_name.path(), name));
        } else {
            complain(name, names::is_dns1123_label, &at_name, errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.iter().filter(|source| claim[**source].is_string()).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        };
        if !detail.is_empty() {
            // Upstream prints the fields of its own struct.
            let shown = format!(
                r#"{{"Name":{},"ResourceClaimName":{},"ResourceClaimTemplateName":{}}}"#,
                Value::from(name),
                claim[sources[0]],
                claim[sources[1]]
            );
            errors.push(Error::invalid(&at.path(), Value::Null, detail).shown_as(shown));
        }
        for source in sources {
            if let Some(name) = claim[source].as_str() {
                complain(name, names::is_dns1123_subdomain, &at.child(source), errors);
            }
        }
    }
}

fn complain(name: &str, rule: fn(&str) -> Vec<String>, at: &At<'_>, errors: &mut ErrorList) {
    for complaint in rule(name) {
        invalid(errors, at, &name.into(), &complaint);
    }
}

/// The claims that a container uses, or the requests of a claim. Using a whole claim includes all its requests.
pub(super) fn used(used: &[Value], claims: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let known: BTreeSet<&str> = claims.iter().filter_map(|claim| claim["name"].as_str()).collect();
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (index, claim) in used.iter().enumerate() {
        let at = at.index(index);
        let part = |field: &str| claim[field].as_str().unwrap_or_default();
        let (name, request) = (part("name"), part("request"));
        if name.is_empty() {
            required(errors, &at, "");
            continue;
        }
        let whole = seen.contains(&(name, ""));
        if !whole && !request.is_empty() {
            complain(request, names::is_dns1123_label, &at.child("request"), errors);
        }
        if whole {
            errors.push(Error::duplicate(&at.path(), name));
        } else if seen.contains(&(name, request)) {
            errors.push(Error::duplicate(&at.path(), format!("{name}/{request}")));
        } else if request.is_empty() && seen.iter().any(|(other, _)| *other == name) {
            errors.push(Error::duplicate(&at.path(), name));
        }
        seen.insert((name, request));
        if !known.contains(name) {
            let mut error = Error::not_found(&at.path(), name);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            match known.is_empty() {
                true => error.detail.push_str(" which is empty"),
                false => {
                    error.detail.push_str(": ");
                    error.detail.push_str(&known.iter().copied().collect::<Vec<_>>().join(", "));
                }
            }
            errors.push(error);
        }
    }
}
