//! Validation of definitions: names, group approval, conversion, immutable fields; and each of their [`versions`].

mod versions;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::webhook_client::{self, Rules};
use serde_json::Value;

use crate::authorities;
use crate::definition::{API_APPROVED_ANNOTATION, CustomResourceDefinition, Names, Version};
use crate::naming::is_protected_group;
use crate::structural_rules;
use versions::Versions;

/// The errors of a defaulted definition, on create.
pub fn validate(crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    let expected = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
    let metadata = [("generateName", &crd.metadata.generate_name), ("name", &crd.metadata.name)];
    // That a name is missing is an error of its metadata.
    for (field, name) in metadata.into_iter().filter(|(_, name)| !name.is_empty() && **name != expected) {
        let path = Path::new("metadata").child(field);
        errors.push(Error::invalid(&path, name.as_str(), "must be spec.names.plural+\".\"+spec.group"));
    }
    validate_spec(crd, &mut errors);
    validate_stored_versions(crd, &mut errors);
    validate_origin(crd, &mut errors);
    errors
}

fn validate_spec(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let spec = Path::new("spec");
    validate_group_and_scope(crd, &spec, errors);
    let mut schemas = crd.spec.versions.iter().filter_map(Version::json_schema);
    if crd.spec.preserve_unknown_fields && schemas.any(structural_rules::has_default) {
        let why = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(&spec.child("preserveUnknownFields"), true, why));
    }
    let versions = Versions::of(crd);
    versions.validate_each(errors);
    versions.validate_set(errors);
    validate_names(&crd.spec.names, &spec.child("names"), errors);
    // Properties shared by all versions are validated after the names.
    versions.validate_common(errors);
    validate_conversion(crd, &spec.child("conversion"), errors);
}

/// Whether the group may be served, with the values that older servers accepted.
fn validate_origin(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    validate_approval(crd, errors);
    if crd.spec.preserve_unknown_fields {
        errors.push(Error::invalid(
            &Path::new("spec").child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}

/// The errors of an update: those above, and changes of fields that are immutable once established.
pub fn validate_update(old: &CustomResourceDefinition, crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(crd, &mut errors);
    // Rules that an older server, or one with other limits, accepted do not prevent updates.
    let of_rules = |error: &Error| error.path.as_str().contains("x-kubernetes-validations");
    if errors.iter().any(of_rules) {
        let mut before = ErrorList::new();
        validate_spec(old, &mut before);
        errors.retain(|error| !(of_rules(error) && before.contains(error)));
    }
    validate_authorities(old, crd, &mut errors);
    validate_immutable(old, crd, &mut errors);
    validate_stored_versions(crd, &mut errors);
    validate_origin(crd, &mut errors);
    errors
}

/// A served definition does not lose its authorities. Those of a definition that is not served yet are often
/// placeholders, which another program replaces.
fn validate_authorities(old: &CustomResourceDefinition, crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let conversion = crd.spec.conversion.as_ref().filter(|conversion| conversion.strategy == "Webhook");
    if !old.condition_is_true("Established") || authorities::unreadable(old.spec.conversion.as_ref()).is_some() {
        return;
    }
    if let Some((bundle, why)) = authorities::unreadable(conversion) {
        let path = Path::new("spec").child("conversion").child("webhookClientConfig").child("caBundle");
        errors.push(Error::invalid(&path, bundle, why));
    }
}

fn validate_immutable(old: &CustomResourceDefinition, crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let spec = Path::new("spec");
    let (before, now) = (&old.spec.names, &crd.spec.names);
    let established = [
        (spec.child("scope"), &old.spec.scope, &crd.spec.scope),
        (spec.child("names").child("kind"), &before.kind, &now.kind),
    ];
    let always = [
        (spec.child("group"), &old.spec.group, &crd.spec.group),
        (spec.child("names").child("plural"), &before.plural, &now.plural),
    ];
    let established = established.into_iter().filter(|_| old.condition_is_true("Established"));
    for (path, before, now) in established.chain(always) {
        if before != now {
            errors.push(Error::invalid(&path, now.as_str(), "field is immutable"));
        }
    }
}

fn validate_stored_versions(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let path = Path::new("status").child("storedVersions");
    let stored = &crd.status.stored_versions;
    // A storage version without a name is an error of its own.
    if stored.is_empty() && crd.storage_version().is_some_and(|version| version.name.is_empty()) {
        return;
    }
    if stored.is_empty() {
        // Unset on create, as there is no storage version.
        let value = if crd.storage_version().is_none() { Value::Null } else { stored.clone().into() };
        errors.push(Error::invalid(&path, value, "must have at least one stored version"));
        return;
    }
    for version in crd.spec.versions.iter().filter(|version| version.storage && !stored.contains(&version.name)) {
        let why = format!("must have the storage version {}", version.name);
        errors.push(Error::invalid(&path, stored.clone(), why));
    }
    for (index, version) in stored.iter().enumerate() {
        if !crd.spec.versions.iter().any(|known| known.name == *version) {
            errors.push(Error::invalid(
                &path.index(index),
                version.as_str(),
                format!(
                    "missing from spec.versions; {version} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {version} and \
                     removes {version} from status.storedVersions"
                ),
            ));
        }
    }
}

fn validate_approval(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    if !is_protected_group(&crd.spec.group) {
        return;
    }
    const LINK: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let key = API_APPROVED_ANNOTATION;
    let path = Path::new("metadata").child("annotations").key(key);
    match crd.metadata.annotations.get(key).map_or("", String::as_str) {
        "" => errors.push(Error::required(
            &path,
            format!("protected groups must have approval annotation {key:?}, {LINK}"),
        )),
        text if text.starts_with("unapproved") || text.starts_with("https://") || text.starts_with("http://") => {}
        text => errors.push(Error::invalid(
            &path,
            text,
            format!(
                "protected groups must have approval annotation {key:?} with either a URL or a reason starting with \"unapproved\", {LINK}"
            ),
        )),
    }
}

fn validate_group_and_scope(crd: &CustomResourceDefinition, spec: &Path, errors: &mut ErrorList) {
    let path = spec.child("group");
    let group = crd.spec.group.as_str();
    if group.is_empty() {
        errors.push(Error::required(&path, ""));
    } else {
        let why = names::is_dns1123_subdomain(group);
        if !why.is_empty() {
            errors.push(Error::invalid(&path, group, why.join(",")));
        } else if !group.contains('.') {
            errors.push(Error::invalid(&path, group, "should be a domain with at least one dot"));
        }
    }
    match crd.spec.scope.as_str() {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(Error::required(&spec.child("scope"), "")),
        other => errors.push(Error::not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"])),
    }
}

fn validate_names(requested: &Names, path: &Path, errors: &mut ErrorList) {
    let parts = [
        ("plural", &requested.plural, false),
        ("singular", &requested.singular, false),
        ("kind", &requested.kind, true),
        ("listKind", &requested.list_kind, true),
    ];
    for (name, ..) in parts.iter().filter(|(_, text, _)| text.is_empty()) {
        errors.push(Error::required(&path.child(name), ""));
    }
    for (name, text, mixed_case) in parts.iter().filter(|(_, text, _)| !text.is_empty()) {
        let checked = if *mixed_case { text.to_lowercase() } else { (*text).clone() };
        let why = names::is_dns1035_label(&checked).join(",");
        let why = match (why.is_empty(), mixed_case) {
            (true, _) => continue,
            (false, true) => format!("may have mixed case, but should otherwise match: {why}"),
            (false, false) => why,
        };
        errors.push(Error::invalid(&path.child(name), text.as_str(), why));
    }
    let label = |list: &str, entries: &[String], errors: &mut ErrorList| {
        for (index, entry) in entries.iter().enumerate() {
            let why = names::is_dns1035_label(entry).join(",");
            if !why.is_empty() {
                errors.push(Error::invalid(&path.child(list).index(index), entry.as_str(), why));
            }
        }
    };
    label("shortNames", &requested.short_names, errors);
    if !requested.kind.is_empty() && requested.kind == requested.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), requested.list_kind.as_str(), why));
    }
    label("categories", &requested.categories, errors);
}

/// Upstream's paths use the names of its internal types for the webhook.
fn validate_conversion(crd: &CustomResourceDefinition, path: &Path, errors: &mut ErrorList) {
    let Some(conversion) = &crd.spec.conversion else { return };
    let nothing = Value::Null;
    let webhook = conversion.webhook.as_ref().unwrap_or(&nothing);
    let (config, versions) = (&webhook["clientConfig"], webhook["conversionReviewVersions"].as_array());
    let versions = versions.map_or(&[][..], Vec::as_slice);
    let (at_config, at_versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    match conversion.strategy.as_str() {
        "Webhook" => {
            if config.is_null() {
                errors.push(Error::required(&at_config, "required when strategy is set to Webhook"));
            } else {
                webhook_client::validate(config, &at_config, Rules::KUBERNETES, errors);
            }
            validate_review_versions(versions, &at_versions, errors);
        }
        other => {
            match other {
                "None" => {}
                "" => errors.push(Error::required(&path.child("strategy"), "")),
                other => errors.push(Error::not_supported(&path.child("strategy"), other, &["None", "Webhook"])),
            }
            const WHY: &str = "should not be set when strategy is not set to Webhook";
            if !config.is_null() {
                errors.push(Error::forbidden(&at_config, WHY));
            }
            if !versions.is_empty() {
                errors.push(Error::forbidden(&at_versions, WHY));
            }
        }
    }
}

/// At least one version that this server could send.
fn validate_review_versions(versions: &[Value], path: &Path, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        let path = path.index(index);
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&path, text, "duplicate version"));
            continue;
        }
        let why = names::is_dns1035_label(text);
        errors.extend(why.into_iter().map(|why| Error::invalid(&path, text, why)));
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path, versions.to_vec(), why));
    }
}

#[cfg(test)]
mod tests;
