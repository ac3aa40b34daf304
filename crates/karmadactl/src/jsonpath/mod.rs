//! kubectl's JSONPath templates: text with `{.path}`, `{"literal"}` and `{range .path}...{end}`.
//!
//! Paths have fields, recursive descent (`..name`), wildcards, indices, slices, unions and filters. The paths of CRDs are a
//! smaller language, see [`apiextensions::jsonpath`].

mod eval;
mod parse;

use serde_json::Value;

/// Ranges within ranges; the template is the user's own, but a stack is finite.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
    /// The text, for messages.
    source: String,
    /// Paths that find nothing are errors.
    strict: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Find(JsonPath),
    Range(JsonPath, Vec<Part>),
}

/// One path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `$`: the document.
    Root,
    Child(String),
    /// `..`: the value and everything below it.
    Descend,
    Wildcard,
    /// `[1]`, `[0:2]`, `[::2]`; negative numbers count from the end.
    Slice(Slice),
    /// `['a','b']`, `[0,2]`
    Union(Vec<Step>),
    Filter {
        left: Operand,
        comparison: Option<(Operator, Operand)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    Index(i64),
    Range { start: Option<i64>, end: Option<i64>, step: i64 },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Template {
    /// # Errors
    /// The syntax error, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { parts: parse::template(text)?, source: text.to_owned(), strict: false })
    }

    /// Paths that find nothing become errors of [`Template::render_checked`].
    pub fn strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// A path that finds nothing prints nothing.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        eval::render(&self.parts, value, value, &mut out);
        out
    }

    /// # Errors
    /// When a path finds nothing, where that is not allowed.
    pub fn render_checked(&self, value: &Value) -> Result<String, String> {
        if self.strict && self.misses(value) {
            return Err(format!("error executing jsonpath {:?}: a path of the template is not found", self.source));
        }
        Ok(self.render(value))
    }

    /// Whether a path, inside of ranges or not, finds nothing somewhere.
    pub fn misses(&self, value: &Value) -> bool {
        eval::misses(&self.parts, value, value)
    }

    /// The values at the paths, as one JSON list (`-o jsonpath-as-json`).
    pub fn found(&self, value: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        eval::collect(&self.parts, value, value, &mut found);
        found
    }
}

impl JsonPath {
    /// The values the path reaches, in document order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        eval::find(self, root, root)
    }
}

/// One path, as custom columns and `--sort-by` take it: braces, `@` and the leading dot may be missing.
///
/// # Errors
/// The syntax error, for the user.
pub fn path(text: &str) -> Result<JsonPath, String> {
    let text = text.trim();
    let text = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text).trim();
    let text = text.strip_prefix('@').unwrap_or(text);
    let text = if text.is_empty() || text.starts_with(['.', '[', '$']) { text.to_owned() } else { format!(".{text}") };
    parse::path(&text)
}

/// How a found value is shown.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let list = json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"x/y": "1", "a.b": "2"}}, "spec": {"n": 3, "list": [1, {"k": "v"}]}},
            {"metadata": {"name": "b"}, "spec": {"n": 4, "ports": [{"name": "p"}]}}]});
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
        check(r"{.items[0].metadata.labels.a\.b}", "2");
        check("{.items[0].metadata.labels['a.b']}", "2");
    }

    #[test]
    fn descents_slices_and_unions_are_kubectls() {
        check("{..name}", "a b p");
        check("{.items..n}", "3 4");
        check("{..metadata.name}", "a b");
        check("{.items[1]..name}", "b p");
        check("{.items[-1].metadata.name}", "b");
        check("{.items[0:1].metadata.name}", "a");
        check("{.items[:].metadata.name}", "a b");
        check("{.items[::2].metadata.name}", "a");
        check("{.items[0,1].metadata.name}", "a b");
        check("{.items[0]['metadata.name','spec.n']}", "a 3");
        check(r#"{.items[?(@.metadata.name=="b")].spec.n}"#, "4");
        check("{.items[?(@.spec.ports)].metadata.name}", "b");
        check("{.items[?(@.spec.n!=3)].metadata.name}", "b");
        check("{.items[*]['spec'].n}", "3 4");
        check("{range .items[*]}{.metadata.name}={$.kind} {end}", "a=List b=List ");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        check("{.a", "unclosed action");
        check("{end}", "not in range, nothing to end");
        check("{range .items[*]}", "unterminated range");
        check("{.items[}", "unterminated array");
        check("{.items[a]}", "invalid array index a");
        check("{.items[?(@.a]}", "unterminated filter");
        check("{.items[::0]}", "step must be greater than zero");
    }

    #[test]
    fn single_paths_may_be_relaxed() {
        let object = json!({"metadata": {"name": "a"}});
        for text in ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}", "@.metadata.name"] {
            assert_eq!(path(text).expect(text).find(&object), [&json!("a")]);
        }
    }

    #[test]
    fn strict_templates_refuse_what_is_missing() {
        let mut template = Template::parse("{.a}").expect("valid");
        assert_eq!(template.render_checked(&json!({})).as_deref(), Ok(""));
        template.strict(true);
        assert!(template.render_checked(&json!({})).is_err());
        assert_eq!(template.render_checked(&json!({"a": 1})).as_deref(), Ok("1"));
        assert_eq!(template.found(&json!({"a": 1})), [json!(1)]);
    }
}
