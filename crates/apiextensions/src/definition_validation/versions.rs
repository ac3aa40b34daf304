//! Validation of a definition's versions: subresources, columns, selectable fields. Schemas are validated by
//! [`crate::structural_rules`], [`crate::schema_defaults`] and [`crate::schema_rules`].

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::schema::Type;
use serde_json::Value;

use crate::definition::{CustomResourceDefinition, Version};
use crate::internal::Shared;
use crate::{internal, rules, schema_defaults, schema_rules, structural, structural_rules};

/// The versions of a definition. Properties that are equal in all versions are validated once, and errors name the
/// top-level fields that held them before versions existed.
pub(super) struct Versions<'a> {
    all: &'a [Version],
    shared: Shared,
    /// Whether a selectable field exists depends on the schema, too.
    selectable_shared: bool,
    spec: Path,
}

impl<'a> Versions<'a> {
    pub(super) fn of(crd: &'a CustomResourceDefinition) -> Self {
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

    pub(super) fn validate_each(&self, errors: &mut ErrorList) {
        let schema_of = |version: &'a Version| version.json_schema().filter(|schema| schema.is_object());
        for (index, _) in self.all.iter().enumerate().filter(|(_, version)| schema_of(version).is_none()) {
            let path = self.spec.child("versions").index(index).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(&path, ""));
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
                let without = "may only be set when `version.schema.openAPIV3Schema` is not included";
                validate_selectable(version, without, &path.child("selectableFields"), errors);
            }
        }
    }

    /// Checks across all versions.
    pub(super) fn validate_set(&self, errors: &mut ErrorList) {
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
        // The name of the first version was a field of its own before there were several.
        let first = self.all.first().map(|version| version.name.as_str()).filter(|name| !name.is_empty());
        if let Some(first) = first
            && let why = names::is_dns1035_label(first)
            && !why.is_empty()
        {
            errors.push(Error::invalid(&self.spec.child("version"), first, why.join(",")));
        }
    }

    pub(super) fn validate_common(&self, errors: &mut ErrorList) {
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
            let without = "may only be set when validations.schema is included";
            validate_selectable(first, without, &self.spec.child("selectableFields"), errors);
        }
    }
}

/// With the status subresource, a status is validated alone, by the schema's `status` property. Rules at the root would
/// not apply to it, so they are forbidden.
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
    // In the order of upstream's struct: only the first error is reported.
    let type_ = schema["type"].as_str().unwrap_or_default();
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let wrong = internal::members().find(|(name, json)| {
        is_set(&schema[*json])
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
    // As in Go: of all white space only the plain space is printable.
    let is_unprintable = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some(at) = warning.find(is_unprintable) {
        let why = "must only contain printable UTF-8 characters; non-printable character found at index";
        complaints.push(format!("{why} {at}"));
    }
    complaints
}

/// Selectable fields are scalars that the schema declares, outside metadata. `without`: upstream's words for fields
/// without a schema.
fn validate_selectable(version: &Version, without: &str, path: &Path, errors: &mut ErrorList) {
    const MOST: usize = 8;
    if !version.selectable_fields.is_empty() && !version.json_schema().is_some_and(Value::is_object) {
        errors.push(Error::invalid(path, "", without));
        return;
    }
    // Implied fields are not declared.
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
