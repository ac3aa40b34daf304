//! Judging a definition itself: names, versions, columns, paths. Schemas are judged by [`crate::structural_rules`].

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::schema::Type;
use serde_json::Value;

use crate::definition::{API_APPROVED_ANNOTATION, CustomResourceDefinition, Version};
use crate::internal::Shared;
use crate::jsonpath::JsonPath;
use crate::naming::is_protected_group;
use crate::{internal, rule_definitions, rules, structural, structural_rules};

/// What is wrong with a defaulted definition, on create.
pub fn validate(crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = Path::new("spec");
    let expected = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
    if crd.metadata.name != expected {
        let path = Path::new("metadata").child("name");
        errors.push(Error::invalid(&path, crd.metadata.name.as_str(), "must be spec.names.plural+\".\"+spec.group"));
    }
    validate_group_and_scope(crd, &spec, &mut errors);
    // What all versions have in common is looked at after the names.
    let mut of_versions = ErrorList::new();
    validate_versions(crd, &spec.child("versions"), &mut of_versions);
    let (own, common): (ErrorList, ErrorList) =
        of_versions.into_iter().partition(|error| error.path.as_str().starts_with("spec.versions"));
    errors.extend(own);
    validate_names(crd, &spec.child("names"), &mut errors);
    errors.extend(common);
    validate_conversion(crd, &spec.child("conversion"), &mut errors);
    if crd.storage_version().is_none() && crd.status.stored_versions.is_empty() {
        let path = Path::new("status").child("storedVersions");
        errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
    }
    validate_approval(crd, &mut errors);
    if crd.spec.preserve_unknown_fields {
        errors.push(Error::invalid(
            &spec.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    errors
}

/// What is wrong with an update: besides the above, what may not change once established.
pub fn validate_update(old: &CustomResourceDefinition, crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = validate(crd);
    // Rules that were accepted by an older server, or before the limits were these, do not stand in the way of edits.
    let of_rules = |error: &Error| error.path.as_str().contains("x-kubernetes-validations");
    if errors.iter().any(of_rules) {
        let before = validate(old);
        errors.retain(|error| !(of_rules(error) && before.contains(error)));
    }
    let spec = Path::new("spec");
    if old.condition_is_true("Established") {
        let (before, now) = (&old.spec.names, &crd.spec.names);
        for (path, before, now) in [
            (spec.child("scope"), &old.spec.scope, &crd.spec.scope),
            (spec.child("names").child("kind"), &before.kind, &now.kind),
        ] {
            if before != now {
                errors.push(Error::invalid(&path, now.as_str(), "field is immutable"));
            }
        }
    }
    for (path, before, now) in [
        (spec.child("group"), &old.spec.group, &crd.spec.group),
        (spec.child("names").child("plural"), &old.spec.names.plural, &crd.spec.names.plural),
    ] {
        if before != now {
            errors.push(Error::invalid(&path, now.as_str(), "field is immutable"));
        }
    }
    let stored = Path::new("status").child("storedVersions");
    for version in crd.spec.versions.iter().filter(|version| version.storage) {
        if !crd.status.stored_versions.contains(&version.name) {
            let why = format!("must have the storage version {}", version.name);
            let shown = internal::versions(std::slice::from_ref(version), &Shared::nothing());
            let shown = shown.trim_start_matches('[').trim_end_matches(']').to_owned();
            errors.push(Error::invalid(&stored, version.name.as_str(), why).shown_as(shown));
        }
    }
    for (index, version) in crd.status.stored_versions.iter().enumerate() {
        if !crd.spec.versions.iter().any(|known| known.name == *version) {
            errors.push(Error::invalid(
                &stored.index(index),
                version.as_str(),
                format!(
                    "missing from spec.versions; {version} was previously a storage version, and must remain in \
                     spec.versions until a storage migration ensures no data remains persisted in {version} and \
                     removes {version} from status.storedVersions"
                ),
            ));
        }
    }
    errors
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

fn validate_names(crd: &CustomResourceDefinition, path: &Path, errors: &mut ErrorList) {
    let requested = &crd.spec.names;
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

fn validate_versions(crd: &CustomResourceDefinition, path: &Path, errors: &mut ErrorList) {
    let versions = &crd.spec.versions;
    // What all versions have in common is judged once, and told where it stood before there were versions.
    let shared = |same: fn(&Version, &Version) -> bool| versions.windows(2).all(|pair| same(&pair[0], &pair[1]));
    let in_common = Shared {
        schemas: shared(|a, b| a.json_schema() == b.json_schema()),
        columns: shared(|a, b| a.additional_printer_columns == b.additional_printer_columns),
        subresources: shared(|a, b| a.subresources == b.subresources),
        selectable: shared(|a, b| a.selectable_fields == b.selectable_fields),
    };
    for (index, version) in versions.iter().enumerate() {
        validate_version(version, &path.index(index), errors);
    }
    let mut complain = |why: &str| {
        let all = serde_json::to_value(versions).unwrap_or(Value::Null);
        errors.push(Error::invalid(path, all, why).shown_as(internal::versions(versions, &in_common)));
    };
    let distinct: std::collections::BTreeSet<&str> = versions.iter().map(|version| version.name.as_str()).collect();
    if distinct.len() != versions.len() {
        complain("must contain unique version names");
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        complain("must have exactly one version marked as storage version");
    }
    let spec = Path::new("spec");
    let Shared { schemas: schemas_shared, columns: columns_shared, subresources: subresources_shared, selectable } =
        in_common;
    // Whether a selectable field exists depends on the schema, too.
    let selectable_shared = schemas_shared && selectable;
    for (index, version) in versions.iter().enumerate() {
        let own = path.index(index);
        let schema_path = own.child("schema").child("openAPIV3Schema");
        let shared_path = spec.child("validation").child("openAPIV3Schema");
        match version.json_schema().filter(|schema| schema.is_object()) {
            None => errors.push(Error::required(&schema_path, "schemas are required")),
            Some(_) if schemas_shared && index > 0 => {}
            Some(schema) => {
                let path = if schemas_shared { &shared_path } else { &schema_path };
                if version.has_status() {
                    validate_root_beside_status(schema, path, errors);
                }
                validate_schema(schema, path, errors);
            }
        }
        if !columns_shared || index == 0 {
            let at = if columns_shared { &spec } else { &own };
            validate_columns(version, &at.child("additionalPrinterColumns"), errors);
        }
        if !selectable_shared || index == 0 {
            let at = if selectable_shared { &spec } else { &own };
            validate_selectable(version, &at.child("selectableFields"), errors);
        }
        if !subresources_shared || index == 0 {
            let at = if subresources_shared { &spec } else { &own };
            validate_scale(version, &at.child("subresources").child("scale"), errors);
        }
    }
}

/// With an endpoint of its own the status is judged alone, by what the schema says of it. What is said at the root would
/// not be asked then, so it is not allowed.
fn validate_root_beside_status(schema: &Value, path: &Path, errors: &mut ErrorList) {
    const ALLOWED: [(&str, &str); 22] = [
        ("Description", "description"),
        ("Type", "type"),
        ("Format", "format"),
        ("Title", "title"),
        ("Maximum", "maximum"),
        ("ExclusiveMaximum", "exclusiveMaximum"),
        ("Minimum", "minimum"),
        ("ExclusiveMinimum", "exclusiveMinimum"),
        ("MaxLength", "maxLength"),
        ("MinLength", "minLength"),
        ("Pattern", "pattern"),
        ("MaxItems", "maxItems"),
        ("MinItems", "minItems"),
        ("UniqueItems", "uniqueItems"),
        ("MultipleOf", "multipleOf"),
        ("Required", "required"),
        ("Items", "items"),
        ("Properties", "properties"),
        ("ExternalDocs", "externalDocs"),
        ("Example", "example"),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
        ("XValidations", "x-kubernetes-validations"),
    ];
    let said = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let mut members = schema.as_object().into_iter().flatten();
    if members.any(|(name, value)| said(value) && !ALLOWED.iter().any(|(_, allowed)| allowed == name)) {
        let names = ALLOWED.map(|(name, _)| name).join(" ");
        let why =
            format!("only [{names}] fields are allowed at the root of the schema if the status subresource is enabled");
        errors.push(Error::invalid(path, schema.clone(), why).shown_as(internal::schema(schema)));
    }
}

fn validate_schema(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let before = errors.len();
    structural_rules::validate(schema, path, errors);
    // Rules are only compiled against a schema that is structural.
    if errors.len() == before {
        rule_definitions::validate(schema, path, errors);
    }
}

fn validate_version(version: &Version, path: &Path, errors: &mut ErrorList) {
    let name = version.name.as_str();
    let why = names::is_dns1035_label(name).join(",");
    if !why.is_empty() {
        errors.push(Error::invalid(&path.child("name"), name, why));
    }
    let Some(warning) = version.deprecation_warning.as_deref() else { return };
    for why in warning_complaints(warning, version.deprecated) {
        errors.push(Error::invalid(&path.child("deprecationWarning"), warning, why));
    }
}

/// A warning becomes the text of a header.
fn warning_complaints(warning: &str, deprecated: bool) -> Vec<String> {
    const LONGEST: usize = 256;
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut complaints = Vec::new();
    if warning.len() > LONGEST {
        complaints.push(format!("must be <= {LONGEST} characters long"));
    }
    if warning.is_empty() {
        complaints.push("must not be an empty string".to_owned());
    }
    // As Go has it: of all white space only the plain blank can be printed.
    let odd = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some(at) = warning.find(odd) {
        let why = "must only contain printable UTF-8 characters; non-printable character found at index";
        complaints.push(format!("{why} {at}"));
    }
    complaints
}

/// Selectable fields are scalars that the schema declares, outside metadata.
fn validate_selectable(version: &Version, path: &Path, errors: &mut ErrorList) {
    const MOST: usize = 8;
    if version.selectable_fields.len() > MOST {
        errors.push(Error::too_many(path, version.selectable_fields.len(), MOST));
    }
    let type_ = structural::compile(version.json_schema(), None);
    let mut seen = std::collections::BTreeSet::new();
    for (index, field) in version.selectable_fields.iter().enumerate() {
        let (path, text) = (path.index(index).child("jsonPath"), field.json_path.as_str());
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if text == ".metadata" || text.starts_with(".metadata.") {
            errors.push(Error::invalid(&path, text, "must not point to fields in metadata"));
            continue;
        }
        let found = if text.contains('[') {
            Err("array notation is not allowed".to_owned())
        } else {
            rules::field_path(text, &type_.schemas, type_.root)
        };
        match found {
            Err(why) => errors.push(Error::invalid(&path, text, format!("is an invalid path: {why}"))),
            Ok((_, id)) => {
                let type_ = type_.schemas.get(id).type_;
                if !matches!(type_, Type::String | Type::Boolean | Type::Integer) {
                    let why = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                               with formats are allowed.";
                    errors.push(Error::invalid(&path, text, why));
                }
                if !seen.insert(text) {
                    errors.push(Error::duplicate(&path, text));
                }
            }
        }
    }
}

fn validate_columns(version: &Version, path: &Path, errors: &mut ErrorList) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (index, column) in version.additional_printer_columns.iter().enumerate() {
        let path = path.index(index);
        if column.name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        match column.type_.as_str() {
            "" => errors.push(Error::required(&path.child("type"), format!("must be one of {}", TYPES.join(",")))),
            type_ if !TYPES.contains(&type_) => {
                let why = format!("must be one of {}", TYPES.join(","));
                errors.push(Error::invalid(&path.child("type"), type_, why));
            }
            _ => {}
        }
        if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
            let why = format!("must be one of {}", FORMATS.join(","));
            errors.push(Error::invalid(&path.child("format"), column.format.as_str(), why));
        }
        let json_path = column.json_path.as_str();
        let path = path.child("jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !json_path.starts_with('.') {
            errors.push(Error::invalid(&path, json_path, "must be a json path"));
        } else if let Err(error) = JsonPath::parse(json_path) {
            errors.push(Error::invalid(&path, json_path, error.to_string()));
        }
    }
}

fn validate_scale(version: &Version, path: &Path, errors: &mut ErrorList) {
    let Some(scale) = version.scale() else { return };
    let selector = scale.label_selector_path.as_deref().filter(|text| !text.is_empty());
    let mut check = |name: &str, text: &str, roots: &[&str], wording: &str| {
        let path = path.child(name);
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
            return;
        }
        let fields = JsonPath::parse(text).ok().filter(|_| text.starts_with('.'));
        let Some(fields) = fields.as_ref().and_then(JsonPath::fields) else {
            errors.push(Error::invalid(&path, text, "should be a simple json path"));
            return;
        };
        if fields.len() < 2 || !roots.contains(&fields[0]) {
            errors.push(Error::invalid(&path, text, format!("should be a json path under {wording}")));
        }
    };
    check("specReplicasPath", &scale.spec_replicas_path, &["spec"], ".spec");
    check("statusReplicasPath", &scale.status_replicas_path, &["status"], ".status");
    if let Some(text) = selector {
        check("labelSelectorPath", text, &["spec", "status"], "either .spec or .status");
    }
}

/// Upstream tells of the webhook under the names of its own structs.
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
                validate_client_config(config, &at_config, errors);
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

fn validate_client_config(config: &Value, path: &Path, errors: &mut ErrorList) {
    let (url, service) = (&config["url"], &config["service"]);
    if url.is_null() == service.is_null() {
        errors.push(Error::required(path, "exactly one of url or service is required"));
    } else if let Some(url) = url.as_str() {
        if !url.starts_with("https://") {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            errors.push(Error::invalid(&path.child("url"), scheme, why));
        }
    } else {
        for field in ["name", "namespace"] {
            if service[field].as_str().unwrap_or_default().is_empty() {
                let why = format!("service {field} is required");
                errors.push(Error::required(&path.child("service").child(field), why));
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
        let why = names::is_dns1035_label(text);
        errors.extend(why.into_iter().map(|why| Error::invalid(&path.index(index), text, why)));
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&path.index(index), text, "duplicate version"));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path, versions.to_vec(), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors_of(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        change(&mut crd);
        crate::definition::default_definition(&mut crd);
        let crd = CustomResourceDefinition::from_value(&crd).expect("well typed");
        validate(&crd).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn texts_are_upstreams() {
        assert_eq!(errors_of(|_| {}), Vec::<String>::new());
        for (change, expected) in [
            (
                (|crd| crd["metadata"]["name"] = json!("x")) as fn(&mut Value),
                r#"metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group"#,
            ),
            (
                |crd| crd["spec"]["scope"] = json!("Galaxy"),
                r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#,
            ),
            (
                |crd| crd["spec"]["preserveUnknownFields"] = json!(true),
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ),
            (
                |crd| crd["spec"]["versions"][0]["schema"] = json!({}),
                "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
            ),
            (
                |crd| crd["spec"]["names"]["listKind"] = json!("Widget"),
                r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#,
            ),
            (
                |crd| {
                    crd["spec"]["group"] = json!("a.k8s.io");
                    crd["metadata"]["name"] = json!("widgets.a.k8s.io");
                },
                r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
            ),
            (
                |crd| {
                    crd["spec"]["versions"][0]["subresources"] =
                        json!({"scale": {"specReplicasPath": ".x.replicas", "statusReplicasPath": ".status.replicas"}});
                },
                r#"spec.subresources.scale.specReplicasPath: Invalid value: ".x.replicas": should be a json path under .spec"#,
            ),
        ] {
            assert_eq!(errors_of(change), [expected]);
        }
        let none = errors_of(|crd| crd["spec"]["versions"][0]["storage"] = json!(false));
        assert!(none[0].ends_with("must have exactly one version marked as storage version"), "{none:?}");
        assert_eq!(none[1..], ["status.storedVersions: Invalid value: null: must have at least one stored version"]);
    }
}
