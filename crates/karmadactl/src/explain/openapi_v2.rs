//! The page of a type in kubectl's older plain text (`--output=plaintext-openapiv2`), from the OpenAPI v2 document.

use std::fmt::Write as _;

use client::DiscoveredResource;
use serde_json::Value;

use super::{MAX_DEPTH, MOST, of_kind};

/// The width that descriptions are filled to, with their indent.
const WIDTH: usize = 80;
const FIELD_INDENT: usize = 3;
const DESCRIPTION_INDENT: usize = 5;

/// The page of the resource, or of one of its fields.
///
/// # Errors
/// When the document lacks the kind, or the kind the field.
pub fn page(document: &Value, known: &DiscoveredResource, fields: &[&str], recursive: bool) -> Result<String, String> {
    let (definitions, resource) = (Definitions(&document["definitions"]), &known.resource);
    let root = of_kind(definitions.0, resource)
        .ok_or_else(|| format!("couldn't find resource for \"{}, Kind={}\"", resource.api_version(), resource.kind))?;
    let node = definitions.field(root, fields)?;
    let mut text = format!("KIND:     {}\nVERSION:  {}\n\n", resource.kind, resource.api_version());
    let (inner, descriptions) = definitions.behind(node);
    let is_object = inner["properties"].is_object();
    if let Some(name) = fields.last() {
        let type_ = definitions.type_name(node);
        match is_object {
            true => text.push_str(&format!("RESOURCE: {name} <{type_}>\n\n")),
            // Of a field of any type only the description is printed.
            false if inner["type"].is_null() => {}
            false => text.push_str(&format!("FIELD:    {name} <{type_}>\n\n")),
        }
    }
    text.push_str("DESCRIPTION:\n");
    for (position, description) in descriptions.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        fill(description, DESCRIPTION_INDENT, &mut text);
    }
    if descriptions.is_empty() {
        fill("<empty>", DESCRIPTION_INDENT, &mut text);
    }
    if is_object {
        text.push_str("\nFIELDS:\n");
        match recursive {
            true => definitions.all_fields(inner, FIELD_INDENT, &mut Vec::new(), &mut text),
            false => definitions.fields(inner, &mut text),
        }
    }
    Ok(text)
}

/// The definitions of a document. Those of a member may refer to each other without end.
#[derive(Clone, Copy)]
struct Definitions<'d>(&'d Value);

impl<'d> Definitions<'d> {
    fn reference(node: &'d Value) -> Option<&'d str> {
        node["$ref"].as_str()?.strip_prefix("#/definitions/")
    }

    /// The schema of a list's items, of a map's values, or that a reference names.
    fn below(self, node: &'d Value) -> Option<&'d Value> {
        match Self::reference(node) {
            Some(name) => self.0.get(name),
            None if node["properties"].is_object() => None,
            None => [&node["items"], &node["additionalProperties"]].into_iter().find(|it| it.is_object()),
        }
    }

    /// The object or the scalar behind lists, maps and references, and the descriptions between.
    fn behind(self, node: &'d Value) -> (&'d Value, Vec<&'d str>) {
        let (mut node, mut descriptions) = (node, Vec::new());
        for _ in 0..MAX_DEPTH {
            descriptions.extend(node["description"].as_str().filter(|text| !text.is_empty()));
            match self.below(node) {
                Some(below) => node = below,
                None => break,
            }
        }
        (node, descriptions)
    }

    fn field(self, root: &'d Value, path: &[&str]) -> Result<&'d Value, String> {
        let mut node = root;
        for name in path {
            let (inner, _) = self.behind(node);
            match inner["properties"].is_object() {
                true => {
                    node = inner["properties"].get(*name).ok_or_else(|| format!("field \"{name}\" does not exist"))?;
                }
                // A scalar has no fields, and stands for all of them.
                false => return Ok(inner),
            }
        }
        Ok(node)
    }

    fn type_name(self, node: &'d Value) -> String {
        let (mut name, mut node) = (String::new(), node);
        for _ in 0..MAX_DEPTH {
            match (Self::reference(node), node["type"].as_str()) {
                (Some(definition), _) => node = &self.0[definition],
                _ if node["properties"].is_object() => return name + "Object",
                (None, Some("array")) => (name, node) = (name + "[]", &node["items"]),
                (None, Some("object")) => (name, node) = (name + "map[string]", &node["additionalProperties"]),
                (None, type_) => return name + type_.unwrap_or_default(),
            }
        }
        name
    }

    fn fields(self, object: &'d Value, text: &mut String) {
        let required: Vec<&Value> = object["required"].as_array().into_iter().flatten().collect();
        for (name, field) in object["properties"].as_object().into_iter().flatten() {
            let mark = if required.iter().any(|it| *it == name) { " -required-" } else { "" };
            let _ = writeln!(text, "{:FIELD_INDENT$}{name}\t<{}>{mark}", "", self.type_name(field));
            fill(field["description"].as_str().unwrap_or_default(), DESCRIPTION_INDENT, text);
            text.push('\n');
        }
    }

    /// The fields, and those within them. A definition is not expanded within itself.
    fn all_fields(self, object: &'d Value, indent: usize, within: &mut Vec<&'d str>, text: &mut String) {
        for (name, field) in object["properties"].as_object().into_iter().flatten() {
            if text.len() > MOST {
                return;
            }
            let _ = writeln!(text, "{:indent$}{name}\t<{}>", "", self.type_name(field));
            let (mut node, outside) = (field, within.len());
            for _ in 0..MAX_DEPTH {
                if let Some(name) = Self::reference(node) {
                    if within.contains(&name) {
                        break;
                    }
                    within.push(name);
                }
                match self.below(node) {
                    Some(below) => node = below,
                    None => {
                        self.all_fields(node, indent + FIELD_INDENT, within, text);
                        break;
                    }
                }
            }
            within.truncate(outside);
        }
    }
}

/// Fills lines with words, but keeps blocks of code, blank lines, and lines that begin an item of a list.
fn fill(description: &str, indent: usize, out: &mut String) {
    let (mut lines, mut current, mut last): (Vec<String>, String, &str) = (Vec::new(), String::new(), "");
    let flush = |current: &mut String, lines: &mut Vec<String>| {
        let is_flushed = !current.is_empty();
        lines.extend(is_flushed.then(|| std::mem::take(current)));
        is_flushed
    };
    for line in description.split('\n') {
        let words = line.trim();
        let is_code = line.starts_with("    ");
        if is_code || (words.is_empty() && !lines.is_empty()) {
            if flush(&mut current, &mut lines) {
                last = "";
            }
            lines.push(if is_code { line.to_owned() } else { String::new() });
            continue;
        }
        if (last.ends_with(':') || words.is_empty() || is_item(words)) && flush(&mut current, &mut lines) {
            last = "";
        }
        for word in words.split_whitespace() {
            let fits = current.is_empty() || current.len() + 1 + word.len() <= WIDTH - indent;
            // As in kubectl, a word that begins a line is no last word.
            last = if fits { word } else { "" };
            if !fits {
                flush(&mut current, &mut lines);
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
    }
    flush(&mut current, &mut lines);
    for line in lines {
        let indent = if line.is_empty() { 0 } else { indent };
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
}

/// `1. x`, `- x` or `* x`
fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = match numbered.len() < line.len() {
        true => Some(numbered.strip_prefix('.').unwrap_or(numbered)),
        false => line.strip_prefix(['-', '*']),
    };
    after.is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_without_end_are_printed() {
        let to = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let document = json!({"a": to("b"), "b": to("a"), "list": {"type": "array", "items": to("list")},
            "object": {"type": "object", "properties": {"a": to("a"), "list": to("list"), "object": to("object")}}});
        let definitions = Definitions(&document);
        let mut text = String::new();
        definitions.all_fields(&document["object"], 0, &mut vec!["object"], &mut text);
        let lists = "[]".repeat(MAX_DEPTH / 2);
        assert_eq!(text, format!("a\t<>\nlist\t<{lists}>\nobject\t<Object>\n"));
        assert_eq!(definitions.field(&document["object"], &["list", "x"]), Ok(&document["list"]["items"]));
    }

    #[test]
    fn blocks_lists_and_paragraphs_are_kept() {
        let mut text = String::new();
        fill("One\ntwo:\nthree\n- four\n1. five\n    code  here\n\nsix", 2, &mut text);
        assert_eq!(text, "  One two:\n  three\n  - four\n  1. five\n      code  here\n\n  six\n");
        text.clear();
        fill(&format!("{} y:\nb", "a".repeat(74)), 5, &mut text);
        assert_eq!(text.lines().last(), Some("     y: b"), "{text}");
    }
}
