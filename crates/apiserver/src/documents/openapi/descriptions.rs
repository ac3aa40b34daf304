//! Descriptions of the built-in types and their fields, as upstream's API documents them, for `kubectl explain`. The
//! build script collects them; they are read where they lie in the program, so that they take no memory until they are
//! used. Fields that upstream does not describe are described here ([`OWN`]).

/// Lines `definition<unit separator>field<unit separator>description`, in the order of their bytes.
static LINES: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions"));

const SEPARATOR: char = '\u{1f}';

/// The type that documents the fields of every list.
const LIST: &str = "io.k8s.List";

const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
const DOCUMENTATION: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ExternalDocumentation";

/// The fields that upstream does not describe: keywords of JSON Schema and OpenAPI.
const OWN: &[(&str, &str, &str)] = &[
    (DOCUMENTATION, "description", "A short description of the documentation."),
    (DOCUMENTATION, "url", "The URL of the documentation."),
    (JSON_SCHEMA, "$ref", "A reference to another schema. CustomResourceDefinitions must not set it."),
    (JSON_SCHEMA, "$schema", "The URI of the version of JSON Schema that the schema is written for."),
    (JSON_SCHEMA, "allOf", "Schemas that a value must all match."),
    (JSON_SCHEMA, "anyOf", "Schemas of which a value must match at least one."),
    (JSON_SCHEMA, "definitions", "Named schemas for references. CustomResourceDefinitions must not set it."),
    (JSON_SCHEMA, "dependencies", "What must hold if a field is present. CustomResourceDefinitions must not set it."),
    (JSON_SCHEMA, "description", "A description of the value, which kubectl explain prints."),
    (JSON_SCHEMA, "enum", "The allowed values."),
    (JSON_SCHEMA, "exclusiveMaximum", "Whether the number must be less than maximum, not equal to it."),
    (JSON_SCHEMA, "exclusiveMinimum", "Whether the number must be greater than minimum, not equal to it."),
    (JSON_SCHEMA, "id", "The URI of the schema. CustomResourceDefinitions must not set it."),
    (JSON_SCHEMA, "maxItems", "The largest number of items of a list."),
    (JSON_SCHEMA, "maxLength", "The largest length of a string, in characters."),
    (JSON_SCHEMA, "maxProperties", "The largest number of fields of an object."),
    (JSON_SCHEMA, "maximum", "The largest allowed number."),
    (JSON_SCHEMA, "minItems", "The smallest number of items of a list."),
    (JSON_SCHEMA, "minLength", "The smallest length of a string, in characters."),
    (JSON_SCHEMA, "minProperties", "The smallest number of fields of an object."),
    (JSON_SCHEMA, "minimum", "The smallest allowed number."),
    (JSON_SCHEMA, "multipleOf", "The number that the value must be a multiple of."),
    (JSON_SCHEMA, "nullable", "Whether null is allowed besides the values of the type."),
    (JSON_SCHEMA, "oneOf", "Schemas of which a value must match exactly one."),
    (JSON_SCHEMA, "pattern", "The regular expression that a string must match."),
    (JSON_SCHEMA, "patternProperties", "Schemas of fields by name pattern. CustomResourceDefinitions must not set it."),
    (JSON_SCHEMA, "properties", "The schemas of an object's fields, by name."),
    (JSON_SCHEMA, "required", "The names of the fields that an object must have."),
    (JSON_SCHEMA, "title", "A title of the value."),
    (JSON_SCHEMA, "type", "The type of the value: array, boolean, integer, number, object or string."),
    (
        JSON_SCHEMA,
        "uniqueItems",
        "Whether the items of a list must differ. CustomResourceDefinitions must not set it to true.",
    ),
];

/// The description of a type, or, with `field`, of one of its fields.
pub(super) fn of(definition: &str, field: &str) -> Option<String> {
    match find(LINES, &format!("{definition}{SEPARATOR}{field}{SEPARATOR}")) {
        Some(text) => Some(text.replace('\u{1e}', "\n")),
        None => {
            OWN.iter().find(|(of, name, _)| (*of, *name) == (definition, field)).map(|(.., text)| (*text).to_owned())
        }
    }
}

/// The description of the metadata of a list.
pub(super) fn of_list_metadata() -> Option<String> {
    of(LIST, "metadata")
}

/// The description of a field by its type alone. The metadata of custom resources is described as that of built-in
/// kinds.
pub(super) fn of_target(target: &str) -> Option<String> {
    match target {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => of("io.k8s.api.core.v1.ConfigMap", "metadata"),
        _ => of(target, ""),
    }
}

/// The rest of the line that begins with `prefix`.
fn find<'l>(lines: &'l str, prefix: &str) -> Option<&'l str> {
    let bytes = lines.as_bytes();
    // The line sought begins in `low..high`, and both are beginnings of lines.
    let (mut low, mut high) = (0, bytes.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = bytes[low..middle].iter().rposition(|byte| *byte == b'\n').map_or(low, |at| low + at + 1);
        let end = bytes[start..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| start + at);
        let line = &lines[start..end];
        match line.strip_prefix(prefix) {
            Some(text) => return Some(text),
            None if line < prefix => low = (end + 1).min(bytes.len()),
            None => high = start,
        }
    }
    None
}

/// Part of the build script, for its tests.
#[cfg(test)]
#[path = "../../../build/extract.rs"]
mod extract;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_by_its_key() {
        let mut count = 0;
        for line in LINES.lines() {
            let mut parts = line.splitn(3, SEPARATOR);
            let (Some(definition), Some(field), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
                panic!("{line}");
            };
            assert_eq!(of(definition, field), Some(text.replace('\u{1e}', "\n")), "{definition} {field}");
            count += 1;
        }
        assert!(count > 3_000, "{count} descriptions");
        assert_eq!(of("io.k8s.api.core.v1.Pod", "no"), None);
        assert_eq!(of("", ""), None);
        assert_eq!(of("zz", ""), None);
        assert_eq!(find("", "a"), None);
    }

    #[test]
    fn own_descriptions_do_not_hide_upstreams() {
        for (definition, field, _) in OWN {
            let key = format!("{definition}{SEPARATOR}{field}{SEPARATOR}");
            assert_eq!(find(LINES, &key), None, "upstream describes {definition} {field} now: the row is not needed");
        }
    }
}
