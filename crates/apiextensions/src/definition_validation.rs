//! Judging a definition itself: names, versions, columns, paths. Schemas are judged by [`crate::structural_rules`],
//! [`crate::schema_defaults`] and [`crate::schema_rules`].

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::schema::Type;
use serde_json::Value;

use crate::definition::{API_APPROVED_ANNOTATION, CustomResourceDefinition, Names, Version};
use crate::internal::Shared;
use crate::naming::is_protected_group;
use crate::{internal, rules, schema_defaults, schema_rules, structural, structural_rules, webhook};

/// What is wrong with a defaulted definition, on create.
pub fn validate(crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    let expected = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
    if crd.metadata.name != expected {
        let path = Path::new("metadata").child("name");
        errors.push(Error::invalid(&path, crd.metadata.name.as_str(), "must be spec.names.plural+\".\"+spec.group"));
    }
    validate_spec(crd, &mut errors);
    if crd.storage_version().is_none() && crd.status.stored_versions.is_empty() {
        let path = Path::new("status").child("storedVersions");
        errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
    }
    validate_origin(crd, &mut errors);
    errors
}

fn validate_spec(crd: &CustomResourceDefinition, errors: &mut ErrorList) {
    let spec = Path::new("spec");
    validate_group_and_scope(crd, &spec, errors);
    let versions = Versions::of(crd);
    versions.validate_each(errors);
    versions.validate_set(errors);
    validate_names(&crd.spec.names, &spec.child("names"), errors);
    // What all versions have in common is looked at after the names.
    versions.validate_common(errors);
    validate_conversion(crd, &spec.child("conversion"), errors);
}

/// Whether the group may be served, and what older servers took.
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

/// What is wrong with an update: besides the above, what may not change once established.
pub fn validate_update(old: &CustomResourceDefinition, crd: &CustomResourceDefinition) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(crd, &mut errors);
    // Rules that were accepted by an older server, or before the limits were these, do not stand in the way of edits.
    let of_rules = |error: &Error| error.path.as_str().contains("x-kubernetes-validations");
    if errors.iter().any(of_rules) {
        let mut before = ErrorList::new();
        validate_spec(old, &mut before);
        errors.retain(|error| !(of_rules(error) && before.contains(error)));
    }
    validate_immutable(old, crd, &mut errors);
    validate_stored_versions(crd, &mut errors);
    validate_origin(crd, &mut errors);
    errors
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
    if stored.is_empty() {
        errors.push(Error::invalid(&path, stored.clone(), "must have at least one stored version"));
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

/// The versions of a definition, with what all of them have in common. That is judged once, and told where it stood before
/// there were versions.
struct Versions<'a> {
    all: &'a [Version],
    shared: Shared,
    /// Whether a selectable field exists depends on the schema, too.
    selectable_shared: bool,
    spec: Path,
}

impl<'a> Versions<'a> {
    fn of(crd: &'a CustomResourceDefinition) -> Self {
        let all = &crd.spec.versions[..];
        let same = |same: fn(&Version, &Version) -> bool| all.windows(2).all(|pair| same(&pair[0], &pair[1]));
        let shared = Shared {
            schemas: same(|a, b| a.json_schema() == b.json_schema()),
            columns: same(|a, b| a.additional_printer_columns == b.additional_printer_columns),
            subresources: same(|a, b| a.subresources == b.subresources),
            selectable: same(|a, b| a.selectable_fields == b.selectable_fields),
        };
        let selectable_shared = shared.schemas && shared.selectable;
        Self { all, shared, selectable_shared, spec: Path::new("spec") }
    }

    fn validate_each(&self, errors: &mut ErrorList) {
        let schema_of = |version: &'a Version| version.json_schema().filter(|schema| schema.is_object());
        for (index, _) in self.all.iter().enumerate().filter(|(_, version)| schema_of(version).is_none()) {
            let path = self.spec.child("versions").index(index).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(&path, "schemas are required"));
        }
        for (index, version) in self.all.iter().enumerate() {
            let path = self.spec.child("versions").index(index);
            validate_version(version, &path, errors);
            if let Some(schema) = schema_of(version).filter(|_| !self.shared.schemas) {
                validate_schema(schema, version.has_status(), &path.child("schema").child("openAPIV3Schema"), errors);
            }
            if !self.shared.subresources {
                validate_scale(version, &path.child("subresources").child("scale"), errors);
            }
            if !self.shared.columns {
                validate_columns(version, &path.child("additionalPrinterColumns"), errors);
            }
            if !self.selectable_shared {
                validate_selectable(version, &path.child("selectableFields"), errors);
            }
        }
    }

    /// What is asked of the versions together.
    fn validate_set(&self, errors: &mut ErrorList) {
        let path = self.spec.child("versions");
        let mut complain = |why: &str| {
            let all = serde_json::to_value(self.all).unwrap_or(Value::Null);
            errors.push(Error::invalid(&path, all, why).shown_as(internal::versions(self.all, &self.shared)));
        };
        let distinct: std::collections::BTreeSet<&str> = self.all.iter().map(|version| version.name.as_str()).collect();
        if distinct.len() != self.all.len() {
            complain("must contain unique version names");
        }
        if self.all.iter().filter(|version| version.storage).count() != 1 {
            complain("must have exactly one version marked as storage version");
        }
    }

    fn validate_common(&self, errors: &mut ErrorList) {
        let Some(first) = self.all.first() else { return };
        if let Some(schema) = first.json_schema().filter(|schema| schema.is_object() && self.shared.schemas) {
            let has_status = self.all.iter().any(Version::has_status);
            validate_schema(schema, has_status, &self.spec.child("validation").child("openAPIV3Schema"), errors);
        }
        if self.shared.subresources {
            validate_scale(first, &self.spec.child("subresources").child("scale"), errors);
        }
        if self.shared.columns {
            validate_columns(first, &self.spec.child("additionalPrinterColumns"), errors);
        }
        if self.selectable_shared {
            validate_selectable(first, &self.spec.child("selectableFields"), errors);
        }
    }
}

/// With an endpoint of its own the status is judged alone, by what the schema says of it. What is said at the root would
/// not be asked then, so it is not allowed.
fn validate_root_beside_status(schema: &Value, path: &Path, errors: &mut ErrorList) {
    const ALLOWED: [&str; 22] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    // In the order of upstream's struct: the first that is wrong is told.
    let type_ = schema["type"].as_str().unwrap_or_default();
    let said = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let wrong = internal::members().find(|(name, json)| {
        said(&schema[*json])
            && match *name {
                "Type" => type_ != "object",
                name => !ALLOWED.contains(&name),
            }
    });
    match wrong {
        None => {}
        Some(("Type", _)) => {
            let why =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(Error::invalid(&path.child("type"), type_, why));
        }
        Some(_) => {
            let names = ALLOWED.join(" ");
            let why = format!(
                "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(Error::invalid(path, schema.clone(), why).shown_as(internal::schema(schema)));
        }
    }
}

fn validate_schema(schema: &Value, has_status: bool, path: &Path, errors: &mut ErrorList) {
    let before = errors.len();
    if has_status {
        validate_root_beside_status(schema, path, errors);
    }
    if schema["nullable"] == true {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let unreadable = structural_rules::unreadable(schema);
    let mut of_structure = ErrorList::new();
    if unreadable.is_none() {
        of_structure = structural_rules::validate(schema, path);
        if of_structure.is_empty() {
            of_structure = schema_defaults::validate(schema, path);
        }
    }
    // Rules are only compiled against a schema that is structural.
    let compiled = unreadable.is_none() && of_structure.is_empty();
    errors.extend(of_structure);
    errors.extend(schema_rules::validate(schema, path, compiled));
    if let Some(why) = unreadable.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(path, "", why));
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
    // What is implied in an object is not declared.
    let wrapper = serde_json::json!({"properties": {"self": version.json_schema()}});
    let type_ = structural::compile(Some(&wrapper), None);
    let Some(root) = type_.schemas.get(type_.root).properties.get("self").map(|property| property.schema) else {
        return;
    };
    let mut seen = std::collections::BTreeSet::new();
    for (index, field) in version.selectable_fields.iter().enumerate() {
        let (path, text) = (path.index(index).child("jsonPath"), field.json_path.as_str());
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let found = rules::plain_field_path(text, &type_.schemas, root);
        let (normal, id) = match found {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid(&path, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if normal.split(['.', '[']).next() == Some("metadata") {
            errors.push(Error::invalid(&path, text, "must not point to fields in metadata"));
        }
        if !matches!(type_.schemas.get(id).type_, Type::String | Type::Boolean | Type::Integer) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            errors.push(Error::invalid(&path, text, why));
        }
        if !seen.insert(normal) {
            errors.push(Error::duplicate(&path, text));
        }
    }
    if seen.len() > MOST {
        errors.push(Error::too_many(path, seen.len(), MOST));
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
        let path = path.child("JSONPath");
        if json_path.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !json_path.starts_with('.') {
            errors.push(Error::invalid(&path, json_path, NO_PATH));
        }
    }
}

const NO_PATH: &str = "must be a simple json path starting with .";

fn validate_scale(version: &Version, path: &Path, errors: &mut ErrorList) {
    let Some(scale) = version.scale() else { return };
    let mut check = |name: &str, text: &str, roots: &[&str], wording: &str| {
        let path = path.child(name);
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !text.starts_with('.') {
            errors.push(Error::invalid(&path, text, NO_PATH));
        } else if !roots.iter().any(|root| text.starts_with(root)) {
            errors.push(Error::invalid(&path, text, format!("should be a json path under {wording}")));
        }
    };
    check("specReplicasPath", &scale.spec_replicas_path, &[".spec."], ".spec");
    check("statusReplicasPath", &scale.status_replicas_path, &[".status."], ".status");
    if let Some(text) = scale.label_selector_path.as_deref().filter(|text| !text.is_empty()) {
        check("labelSelectorPath", text, &[".spec.", ".status."], "either .spec or .status");
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
                webhook::validate(config, &at_config, errors);
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

    #[test]
    fn parts_of_versions() {
        let version = |field: &str, value: Value| errors_of(|crd| crd["spec"]["versions"][0][field] = value);
        let columns = json!([{"name": "", "type": "text", "format": "x", "jsonPath": "spec.a"},
            {"name": "n", "type": "", "jsonPath": ""}, {"name": "odd", "type": "string", "jsonPath": ".spec["}]);
        assert_eq!(
            version("additionalPrinterColumns", columns),
            [
                "spec.additionalPrinterColumns[0].name: Required value",
                r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
                r#"spec.additionalPrinterColumns[0].format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password"#,
                r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
                "spec.additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string",
                "spec.additionalPrinterColumns[1].JSONPath: Required value",
            ]
        );
        let scale = json!({"scale": {"specReplicasPath": "spec.a", "labelSelectorPath": ".metadata.x"}});
        assert_eq!(
            version("subresources", scale),
            [
                r#"spec.subresources.scale.specReplicasPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
                "spec.subresources.scale.statusReplicasPath: Required value",
                r#"spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": should be a json path under either .spec or .status"#,
            ]
        );
    }

    #[test]
    fn what_versions_share_is_told_once() {
        let errors = errors_of(|crd| {
            let mut second = crd["spec"]["versions"][0].clone();
            second["name"] = json!("V2");
            second["storage"] = json!(false);
            second["subresources"] = json!({"status": {}});
            crd["spec"]["versions"].as_array_mut().expect("versions").push(second);
            for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
                version["schema"]["openAPIV3Schema"] = json!({"type": "object", "nullable": true});
            }
            crd["spec"]["names"]["shortNames"] = json!(["-"]);
        });
        let places: Vec<&str> = errors.iter().filter_map(|text| Some(text.split_once(": ")?.0)).collect();
        let schema = "spec.validation.openAPIV3Schema";
        let nullable = format!("{schema}.nullable");
        assert_eq!(places, ["spec.versions[1].name", "spec.names.shortNames[0]", schema, &nullable]);
    }

    #[test]
    fn webhooks_are_where_they_can_be_called() {
        let with = |config: Value, versions: Value| {
            errors_of(|crd| {
                crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": versions}});
            })
        };
        let at = "spec.conversion.webhookClientConfig";
        for (config, expected) in [
            (json!({"url": "https://a.b/c"}), vec![]),
            (json!({}), vec![format!("{at}: Required value: exactly one of url or service is required")]),
            (
                json!({"url": "http://u@h/?q=1#f"}),
                vec![
                    format!(
                        r#"{at}.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
                    ),
                    format!(r#"{at}.url: Invalid value: "u": user information is not permitted in the URL"#),
                    format!(r#"{at}.url: Invalid value: "f": fragments are not permitted in the URL"#),
                    format!(r#"{at}.url: Invalid value: "q=1": query parameters are not permitted in the URL"#),
                ],
            ),
            (
                json!({"service": {"name": "n", "port": 70000, "path": "/a//B/"}}),
                vec![
                    format!("{at}.service.name: Required value"),
                    format!(
                        "{at}.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"
                    ),
                    format!(r#"{at}.service.path: Invalid value: "/a//B/": segment[1] may not be empty"#),
                    format!(
                        r#"{at}.service.path: Invalid value: "/a//B/": segment[2]: {}"#,
                        names::is_dns1123_subdomain("B")[0]
                    ),
                ],
            ),
        ] {
            assert_eq!(with(config.clone(), json!(["v1"])), expected, "{config}");
        }
        let versions = with(json!({"url": "https://a"}), json!(["v2", "v2"]));
        let at = "spec.conversion.conversionReviewVersions";
        assert_eq!(
            versions,
            [
                format!(r#"{at}[1]: Invalid value: "v2": duplicate version"#),
                format!(r#"{at}: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1"#),
            ]
        );
    }

    #[test]
    fn what_is_known_by_its_name_keeps_it() {
        let read = |change: fn(&mut Value)| {
            let mut crd = json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example",
                "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1",
                "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
            crate::definition::default_definition(&mut crd);
            change(&mut crd);
            CustomResourceDefinition::from_value(&crd).expect("well typed")
        };
        let old = read(|crd| crd["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]));
        for (change, expected) in [
            (
                (|crd| crd["spec"]["names"]["plural"] = json!("things")) as fn(&mut Value),
                r#"spec.names.plural: Invalid value: "things": field is immutable"#,
            ),
            (
                |crd| crd["spec"]["group"] = json!("h.example"),
                r#"spec.group: Invalid value: "h.example": field is immutable"#,
            ),
            (
                |crd| crd["spec"]["scope"] = json!("Cluster"),
                r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            ),
            (
                |crd| crd["status"]["storedVersions"] = json!(["v0"]),
                r#"status.storedVersions: Invalid value: ["v0"]: must have the storage version v1"#,
            ),
        ] {
            let errors = validate_update(&old, &read(change));
            assert_eq!(errors[0].to_string(), expected);
            assert_eq!(errors.len(), 1 + usize::from(expected.contains("storedVersions")), "{errors:?}");
        }
    }
}
