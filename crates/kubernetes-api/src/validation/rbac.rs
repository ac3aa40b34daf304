//! Roles and their bindings. Whether the writer may grant their rights is checked elsewhere.

use apimachinery::field::ErrorList;
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::supported;
use super::table::Function;
use super::{Object, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("binding", binding),
    ("cluster_binding", cluster_binding),
    ("cluster_role", cluster_role),
    ("role", role),
    ("subject", subject),
];

const GROUP: &str = "rbac.authorization.k8s.io";

fn role(role: &Object, at: &At<'_>, errors: &mut ErrorList) {
    rules(role, true, at, errors);
}

fn cluster_role(role: &Object, at: &At<'_>, errors: &mut ErrorList) {
    rules(role, false, at, errors);
    let Some(aggregation) = object(role, "aggregationRule") else { return };
    let at = at.child("aggregationRule");
    let at = at.child("clusterRoleSelectors");
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        required(errors, &at, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        super::checks::selector(selector, &at.index(index), errors);
    }
}

fn rules(role: &Object, namespaced: bool, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("rules");
    for (index, rule) in list(role, "rules").iter().enumerate() {
        let Some(rule) = rule.as_object() else { continue };
        let at = at_list.index(index);
        if list(rule, "verbs").is_empty() {
            required(errors, &at.child("verbs"), "verbs must contain at least one value");
        }
        let urls = list(rule, "nonResourceURLs");
        if !urls.is_empty() {
            let value = Value::from(urls.to_vec());
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                invalid(errors, &at.child("nonResourceURLs"), &value, detail);
            }
            let resources = ["apiGroups", "resources", "resourceNames"];
            if resources.iter().any(|field| !list(rule, field).is_empty()) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                invalid(errors, &at.child("nonResourceURLs"), &value, detail);
            }
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            required(errors, &at.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if list(rule, "resources").is_empty() {
            required(errors, &at.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

fn binding(binding: &Object, at: &At<'_>, errors: &mut ErrorList) {
    // An account without a namespace is in the binding's namespace.
    role_ref(binding, &["ClusterRole", "Role"], at, errors);
}

fn cluster_binding(binding: &Object, at: &At<'_>, errors: &mut ErrorList) {
    role_ref(binding, &["ClusterRole"], at, errors);
    accounts_have_namespaces(binding, at, errors);
}

fn role_ref(binding: &Object, kinds: &[&str], at: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let reference = object(binding, "roleRef").unwrap_or(&nothing);
    let at = at.child("roleRef");
    supported(&text(reference, "apiGroup").into(), &[GROUP], &at.child("apiGroup"), errors);
    supported(&text(reference, "kind").into(), kinds, &at.child("kind"), errors);
    let at_name = at.child("name");
    match text(reference, "name") {
        "" => required(errors, &at_name, ""),
        name => {
            for complaint in names::is_path_segment(name) {
                invalid(errors, &at_name, &name.into(), &complaint);
            }
        }
    }
}

fn accounts_have_namespaces(binding: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("subjects");
    for (index, subject) in list(binding, "subjects").iter().enumerate() {
        let Some(subject) = subject.as_object() else { continue };
        if text(subject, "kind") == "ServiceAccount" && text(subject, "namespace").is_empty() {
            required(errors, &at_list.index(index).child("namespace"), "");
        }
    }
}

fn subject(subject: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if text(subject, "name").is_empty() {
        required(errors, &at.child("name"), "");
    }
    let group = Value::from(text(subject, "apiGroup"));
    match text(subject, "kind") {
        "ServiceAccount" => {
            let name = text(subject, "name");
            for complaint in
                Some(name).filter(|name| !name.is_empty()).map(names::is_dns1123_subdomain).into_iter().flatten()
            {
                invalid(errors, &at.child("name"), &name.into(), &complaint);
            }
            supported(&group, &[""], &at.child("apiGroup"), errors);
        }
        "User" | "Group" => supported(&group, &[GROUP], &at.child("apiGroup"), errors),
        other => supported(&other.into(), &["ServiceAccount", "User", "Group"], &at.child("kind"), errors),
    }
}
