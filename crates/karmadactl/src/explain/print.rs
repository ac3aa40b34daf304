//! The page of a type in kubectl's plain text.

use std::fmt::Write as _;

use client::DiscoveredResource;
use serde_json::Value;

use super::{MAX_DEPTH, MOST, of_kind};

/// The width that descriptions are filled to.
const WIDTH: usize = 80;

/// The page of the resource, or of one of its fields.
///
/// # Errors
/// When the document lacks the kind, or the kind the field.
pub fn page(document: &Value, known: &DiscoveredResource, fields: &[&str], recursive: bool) -> Result<String, String> {
    let resource = &known.resource;
    let schemas = Schemas(&document["components"]["schemas"]);
    let root = of_kind(schemas.0, resource)
        .ok_or_else(|| format!("the OpenAPI document has no schema of {}", resource.kind))?;
    let mut text = String::new();
    if !resource.group.is_empty() {
        let _ = writeln!(text, "GROUP:      {}", resource.group);
    }
    let _ = writeln!(text, "KIND:       {}\nVERSION:    {}\n", resource.kind, resource.version);
    let mut node = root;
    for field in fields {
        let inner = schemas.structure(node);
        node = inner["properties"].get(*field).ok_or_else(|| format!("field \"{field}\" does not exist"))?;
    }
    if let Some(field) = fields.last() {
        let _ = writeln!(text, "FIELD: {field} <{}>", schemas.type_name(node));
        let values = schemas.values(node);
        if !values.is_empty() {
            let _ = writeln!(text, "ENUM:");
            values.iter().for_each(|value| text.push_str(&format!("    {value}\n")));
        }
        text.push_str("\n\n");
    }
    text.push_str("DESCRIPTION:\n");
    text.push_str(&schemas.descriptions(node));
    let inner = schemas.structure(node);
    if inner["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        text.push_str("FIELDS:\n");
        schemas.fields(&mut vec![inner], recursive, &mut text);
    }
    text.push('\n');
    Ok(text)
}

/// The definitions of a document.
#[derive(Clone, Copy)]
struct Schemas<'d>(&'d Value);

impl<'d> Schemas<'d> {
    /// The name that a node refers to.
    fn reference(self, node: &'d Value) -> Option<&'d str> {
        let direct = node["$ref"].as_str();
        let within = || node["allOf"].as_array().and_then(|all| all.first()).and_then(|one| one["$ref"].as_str());
        direct.or_else(within)?.strip_prefix("#/components/schemas/")
    }

    fn resolved(self, node: &'d Value) -> &'d Value {
        self.reference(node).map_or(node, |name| &self.0[name])
    }

    /// The object behind lists, maps and references.
    fn structure(self, node: &'d Value) -> &'d Value {
        let mut node = self.resolved(node);
        for _ in 0..MAX_DEPTH {
            if node["properties"].is_object() {
                break;
            }
            let inner = [&node["items"], &node["additionalProperties"]].into_iter().find(|it| it.is_object());
            match inner {
                Some(inner) => node = self.resolved(inner),
                None => break,
            }
        }
        node
    }

    fn type_name(self, node: &'d Value) -> String {
        if let Some(name) = self.reference(node) {
            // Times are strings in JSON, and kubectl prints that type.
            if let Some(scalar @ ("string" | "integer" | "number" | "boolean")) = self.0[name]["type"].as_str() {
                return scalar.to_owned();
            }
            return name.rsplit('.').next().unwrap_or(name).to_owned();
        }
        let type_ = node["type"].as_str().unwrap_or_default();
        match type_ {
            "array" => format!("[]{}", self.type_name(&node["items"])),
            "object" | "" if node["additionalProperties"].is_object() => {
                format!("map[string]{}", self.type_name(&node["additionalProperties"]))
            }
            "object" => "Object".into(),
            "" if node["x-kubernetes-int-or-string"] == true => "IntOrString".into(),
            "" => "Object".into(),
            other => other.to_owned(),
        }
    }

    fn values(self, node: &'d Value) -> Vec<String> {
        let values = self.resolved(node)["enum"].as_array().or_else(|| node["enum"].as_array());
        values.into_iter().flatten().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect()
    }

    /// The node's own words, then those of the type behind it.
    fn descriptions(self, node: &'d Value) -> String {
        let mut found: Vec<&str> = Vec::new();
        let mut at = node;
        for _ in 0..MAX_DEPTH {
            for words in [at["description"].as_str(), self.resolved(at)["description"].as_str()].into_iter().flatten() {
                if !words.is_empty() && found.last() != Some(&words) {
                    found.push(words);
                }
            }
            let inner = self.resolved(at);
            let below = [&inner["items"], &inner["additionalProperties"]].into_iter().find(|it| it.is_object());
            match below.filter(|_| !inner["properties"].is_object()) {
                Some(below) => at = below,
                None => break,
            }
        }
        if found.is_empty() {
            return "    <empty>\n".into();
        }
        format!("{}    \n", found.iter().map(|words| filled(words, "    ")).collect::<String>())
    }

    /// The fields of the last schema of the path. One that contains itself, as JSONSchemaProps does, is not expanded
    /// again within itself.
    fn fields(self, path: &mut Vec<&'d Value>, recursive: bool, text: &mut String) {
        let depth = path.len();
        let Some(schema) = path.last().filter(|_| depth <= MAX_DEPTH) else { return };
        let Some(properties) = schema["properties"].as_object() else { return };
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let indent = "  ".repeat(depth);
        for (name, property) in properties {
            if text.len() > MOST {
                return;
            }
            let mark = if required.contains(&name.as_str()) { " -required-" } else { "" };
            let _ = writeln!(text, "{indent}{name}\t<{}>{mark}", self.type_name(property));
            let values = self.values(property);
            if !values.is_empty() {
                let _ = writeln!(text, "{indent}enum: {}", shortened(&values));
            }
            if recursive {
                let inner = self.structure(property);
                if !path.iter().any(|above| std::ptr::eq(*above, inner)) {
                    path.push(inner);
                    self.fields(path, recursive, text);
                    path.pop();
                }
                continue;
            }
            let words = property["description"].as_str().filter(|words| !words.is_empty());
            let words = words.or_else(|| self.resolved(property)["description"].as_str().filter(|it| !it.is_empty()));
            text.push_str(&filled(words.unwrap_or("<no description>"), "    "));
            text.push('\n');
        }
    }
}

/// The first few values.
fn shortened(values: &[String]) -> String {
    const SHOWN: usize = 4;
    match values.len() > SHOWN {
        true => format!("{}, ....", values[..SHOWN].join(", ")),
        false => values.join(", "),
    }
}

/// Each line of the text in lines of [`WIDTH`] at most.
fn filled(text: &str, indent: &str) -> String {
    let most = WIDTH.saturating_sub(indent.len());
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(indent);
        let (mut column, mut rest) = (0, line);
        while !rest.is_empty() {
            // The blanks before a word stay as they are, unless the line breaks there.
            let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
            let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |end| word + end);
            let (blanks, length) = (rest[..word].chars().count(), rest[word..end].chars().count());
            if column + blanks + length > most && column + blanks > 1 {
                out.push('\n');
                out.push_str(indent);
                out.push_str(&rest[word..end]);
                column = length;
            } else {
                out.push_str(&rest[..end]);
                column += blanks + length;
            }
            rest = &rest[end..];
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_within_themselves_are_expanded_once() {
        let reference = |name: &str| serde_json::json!({"$ref": format!("#/components/schemas/{name}")});
        let many = |name: &str| {
            let fields = (0..40).map(|at| (format!("f{at}"), reference(name)));
            serde_json::json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()})
        };
        let document = serde_json::json!({"A": many("B"), "B": many("A")});
        let mut text = String::new();
        Schemas(&document).fields(&mut vec![&document["A"]], true, &mut text);
        assert_eq!(text.lines().count(), 40 + 40 * 40);
    }

    #[test]
    fn texts_are_filled() {
        assert_eq!(filled("a b\n\nc", "  "), "  a b\n  \n  c\n");
        assert_eq!(filled("a.  b\n\t1. c ", ""), "a.  b\n\t1. c \n");
        let long = format!("{} b", "a".repeat(76));
        assert_eq!(filled(&long, "    "), format!("    {}\n    b\n", "a".repeat(76)));
        let values = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
        assert_eq!((shortened(&values(2)), shortened(&values(5))), ("0, 1".into(), "0, 1, 2, 3, ....".into()));
    }
}
