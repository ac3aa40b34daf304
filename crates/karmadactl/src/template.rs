//! kubectl's JSONPath templates: text with `{.path}`, `{"literal"}` and `{range .path}...{end}`.
//!
//! Not here: the paths themselves (no recursive descent, unions or slices), see [`apiextensions::jsonpath`].

use apiextensions::jsonpath::JsonPath;
use serde_json::Value;

/// Ranges within ranges; the template is the user's own, but a stack is finite.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Find(JsonPath),
    Range(JsonPath, Vec<Part>),
}

impl Template {
    /// # Errors
    /// What cannot be understood, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut open: Vec<(JsonPath, Vec<Part>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            if start > 0 {
                parts.push(Part::Text(rest[..start].to_owned()));
            }
            let inner = &rest[start + 1..];
            let end = end_of_action(inner).ok_or("unclosed action")?;
            rest = &inner[end + 1..];
            match inner[..end].trim() {
                "end" => {
                    let (path, before) = open.pop().ok_or("not in range, nothing to end")?;
                    let body = std::mem::replace(&mut parts, before);
                    parts.push(Part::Range(path, body));
                }
                action => match action.strip_prefix("range ") {
                    Some(_) if open.len() == MAX_DEPTH => return Err(format!("more than {MAX_DEPTH} nested ranges")),
                    Some(over) => open.push((path(over)?, std::mem::take(&mut parts))),
                    None => parts.push(simple(action)?),
                },
            }
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if open.is_empty() { Ok(Self(parts)) } else { Err("unterminated range".into()) }
    }

    /// A path that finds nothing prints nothing.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        render(&self.0, value, &mut out);
        out
    }

    /// Whether a path, inside of ranges or not, finds nothing somewhere.
    pub fn misses(&self, value: &Value) -> bool {
        misses(&self.0, value)
    }
}

/// One path, as custom columns and `--sort-by` take it: braces, `@` and the leading dot may be missing.
///
/// # Errors
/// What cannot be understood, for the user.
pub fn path(text: &str) -> Result<JsonPath, String> {
    let text = text.trim();
    let text = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text).trim();
    let text = text.strip_prefix('@').unwrap_or(text);
    let text = if text.is_empty() || text.starts_with(['.', '[', '$']) { text.to_owned() } else { format!(".{text}") };
    JsonPath::parse(&text).map_err(|error| error.to_string())
}

/// How a found value is shown.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn simple(action: &str) -> Result<Part, String> {
    let quoted = ['"', '\''].into_iter().find_map(|quote| action.strip_prefix(quote)?.strip_suffix(quote));
    match quoted {
        Some(literal) => Ok(Part::Text(unescape(literal))),
        None => path(action).map(Part::Find),
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

/// The position of the closing brace outside quotes.
fn end_of_action(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (position, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') => return Some(position),
            _ => {}
        }
    }
    None
}

/// Recursion is as deep as the template's ranges, at most [`MAX_DEPTH`].
fn render(parts: &[Part], value: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Find(path) => {
                let found: Vec<String> = path.find(value).into_iter().map(shown).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, body) => path.find(value).into_iter().for_each(|item| render(body, item, out)),
        }
    }
}

/// As deep as [`render`].
fn misses(parts: &[Part], value: &Value) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(_) => false,
        Part::Find(path) => path.find(value).is_empty(),
        Part::Range(path, body) => {
            let found = path.find(value);
            found.is_empty() || found.into_iter().any(|item| misses(body, item))
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let list = json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"x/y": "1"}}, "spec": {"n": 3, "list": [1, {"k": "v"}]}},
            {"metadata": {"name": "b"}, "spec": {"n": 4}}]});
        let rendered = Template::parse(template).map(|template| template.render(&list));
        assert_eq!(rendered.unwrap_or_else(|why| why), expected, "{template}");
    }

    #[test]
    fn templates_read_as_kubectls() {
        check("{.kind}", "List");
        check("{$.kind}", "List");
        check("{.items[*].metadata.name}", "a b");
        check("n: {.items[0].spec.n}!", "n: 3!");
        check("{.items[0].spec.list}", r#"[1,{"k":"v"}]"#);
        check("{.items[*].none}", "");
        check(r#"{range .items[*]}{.metadata.name}{"\t"}{@.spec.n}{"\n"}{end}"#, "a\t3\nb\t4\n");
        check(r#"{range .items[?(@.spec.n > 3)]}{.metadata.name}{"}"}{end}"#, "b}");
        check(r"{.items[0].metadata.labels.x/y}", "1");
        check("{.a", "unclosed action");
        check("{end}", "not in range, nothing to end");
        check("{range .items[*]}", "unterminated range");
        check("{..name}", "invalid path \"..name\": empty field name");
    }

    #[test]
    fn single_paths_may_be_relaxed() {
        let object = json!({"metadata": {"name": "a"}});
        for text in ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}", "@.metadata.name"] {
            assert_eq!(path(text).expect(text).find(&object), [&json!("a")]);
        }
    }
}
