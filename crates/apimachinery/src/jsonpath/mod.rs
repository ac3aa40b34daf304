//! Kubernetes' JSONPath: paths, for printer columns and `--sort-by`, and templates with text, `{.path}`, `{"literal"}`
//! and `{range .path}...{end}`, for `-o jsonpath` and preserved states.
//!
//! Paths have fields, recursive descent (`..name`), wildcards, indices, slices, unions and filters
//! (<https://kubernetes.io/docs/reference/kubectl/jsonpath/>).

mod eval;
mod parse;
mod unquote;

use serde_json::Value;

use crate::field::json_of_go;
use eval::Mode;

/// Ranges within ranges, which are evaluated recursively.
const MAX_DEPTH: usize = 32;

/// The text is no JSONPath.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(String);

impl From<&str> for SyntaxError {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// A path of a template cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error executing jsonpath {template:?}: Error executing template: {why}")]
pub struct Failure {
    /// The text of the template.
    pub template: String,
    /// The first error, in client-go's words.
    pub why: String,
}

/// Text with paths.
///
/// ```
/// use apimachinery::jsonpath::Template;
///
/// let template = Template::parse("{range .items[*]}{.name} {end}")?;
/// assert_eq!(template.render(&serde_json::json!({"items": [{"name": "a"}, {"name": "b"}]})), "a b ");
/// # Ok::<(), apimachinery::jsonpath::SyntaxError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
    /// The text, for messages.
    source: String,
    /// Whether paths without a match are errors.
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
    /// The field of a name; that of the empty name selects nothing.
    Child(String),
    /// `['a.b']`: the field of the whole name, or else the path.
    Dotted(String, JsonPath),
    /// `..`: the value and everything below it.
    Descend,
    Wildcard,
    /// `[1]`, `[0:2]`, `[::2]`; negative numbers count from the end.
    Slice(Slice),
    /// `['a','b']`, `[0,2]`
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        comparison: Option<(Operator, JsonPath)>,
    },
    /// A text, a number or a boolean, in place of the value.
    Literal(Value),
    /// A word that cannot be evaluated.
    Identifier(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    Index(i64),
    Range { start: Option<i64>, end: Option<i64>, step: Option<i64> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Unknown(String),
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// If an action cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { parts: parse::template(text)?, source: text.to_owned(), strict: false })
    }

    /// Fields without a match become errors of [`Template::render_checked`].
    pub fn strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// The text with the values at its paths. A path without a match, or that cannot be evaluated, prints nothing.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        // Without errors in this mode.
        let _ = eval::render(&self.parts, value, Mode::Lenient, &mut out);
        out
    }

    /// The text with the values at its paths, as kubectl prints it.
    ///
    /// # Errors
    /// If an index is beyond its list, values cannot be compared, or, in a strict template, a field has no match.
    pub fn render_checked(&self, value: &Value) -> Result<String, Failure> {
        let mut out = String::new();
        eval::render(&self.parts, value, self.mode(), &mut out).map_err(|why| self.failed(why))?;
        Ok(out)
    }

    /// The values at the paths, as one JSON list (`-o jsonpath-as-json`).
    ///
    /// # Errors
    /// As [`Template::render_checked`].
    pub fn found(&self, value: &Value) -> Result<Vec<Value>, Failure> {
        let mut found = Vec::new();
        eval::collect(&self.parts, value, self.mode(), &mut found).map_err(|why| self.failed(why))?;
        Ok(found)
    }

    fn mode(&self) -> Mode {
        if self.strict { Mode::Strict } else { Mode::Checked }
    }

    fn failed(&self, why: String) -> Failure {
        Failure { template: self.source.clone(), why }
    }
}

impl JsonPath {
    /// Parses a path as printer columns have it: an action without its braces.
    ///
    /// # Errors
    /// If the text is no path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        parse::path(text)
    }

    /// Parses a path of kubectl's flags, whose braces and leading dot may be missing.
    ///
    /// # Errors
    /// If the text is no path.
    pub fn parse_relaxed(text: &str) -> Result<Self, SyntaxError> {
        let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        let inner = inner.strip_prefix('.').filter(|rest| !rest.is_empty()).unwrap_or(inner);
        if text.is_empty() {
            return Ok(Self(vec![Step::Child(String::new())]));
        }
        if inner.is_empty() || inner.contains(['{', '}']) {
            return Err("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or \
                        '{.name1.name2}'"
                .into());
        }
        parse::path(&format!(".{inner}"))
    }

    /// The names of the fields it begins with: all values it finds are below them.
    pub fn beginning(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            Step::Child(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The values the path reaches, in document order.
    pub fn find<'a>(&'a self, root: &'a Value) -> Vec<&'a Value> {
        // Without errors in this mode.
        eval::find(self, root, Mode::Lenient).unwrap_or_default()
    }

    /// As [`JsonPath::find`], for kubectl's columns.
    ///
    /// # Errors
    /// As [`Template::render_checked`], without the template.
    pub fn find_checked<'a>(&'a self, root: &'a Value) -> Result<Vec<&'a Value>, String> {
        eval::find(self, root, Mode::Checked)
    }
}

/// A found value as text, in Go's form: strings without quotes, whole numbers without decimals.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        other => json_of_go(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let list = json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"x/y": "1", "a.b": "2"}, "annotations": {"k": "<a>&"}}, "spec": {"n": 3, "list": [1, {"k": "v"}]}},
            {"metadata": {"name": "b"}, "spec": {"n": 4, "ports": [{"name": "p"}]}}]});
        let rendered = Template::parse(template).map(|template| template.render(&list));
        assert_eq!(rendered.unwrap_or_else(|why| why.to_string()), expected, "{template}");
    }

    #[test]
    fn templates_match_kubectls() {
        check("{.kind}", "List");
        check("{.items[0].metadata.annotations}", r#"{"k":"\u003ca\u003e\u0026"}"#);
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
        check("{range .items[*]}{.metadata.name}={$.spec.n} {end}", "a=3 b=4 ");
    }

    #[test]
    fn paths_of_printer_columns() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"list": [1, 2, 3], "workload": {"manifests": [{"kind": "A"}, {"kind": "B"}]}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "n": 2}, {"type": "Other", "status": "False"}]},
        });
        for (path, expected) in [
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[7]", json!([])),
            (".spec.list[]", json!([1])),
            (".spec.list[*]", json!([1, 2, 3])),
            (".spec.none.deeper", json!([])),
            (".spec.workload.manifests[*].kind", json!(["A", "B"])),
            ("..kind", json!(["A", "B"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type != 'Ready')].status", json!(["False"])),
            (".status.conditions[?(@.n > 1)].type", json!(["Ready"])),
            (".status.conditions[?(@.n)].type", json!(["Ready"])),
            (r".metadata.labels.a\.b/c", json!(["x"])),
            (".metadata.labels['a.b/c']", json!(["x"])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(json!(parsed.find(&object)), expected, "{path}");
        }
        let path = JsonPath::parse(".status.conditions[0].type").expect("a path");
        assert_eq!(path.beginning().collect::<Vec<_>>(), ["status", "conditions"]);
        for path in [".a[", ".a[x]", ".a[?(@.b==\"x)]", ".a['b", ".a[?(@.b=="] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn descents_within_descents_are_bounded() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        let path = JsonPath::parse("..*..*..*..*..*").expect_err("no name");
        assert_eq!(path.to_string(), "unrecognized character in action: U+002A '*'");
        let path = JsonPath::parse(".. .*.. .*.. .*.. .*").expect("a path");
        assert_eq!(path.find(&deep).len(), 1 << 16);
        assert_eq!(JsonPath::parse("..a").expect("a path").find(&deep).len(), 100);
    }

    #[test]
    fn numbers_print_as_gos() {
        for (number, expected) in [(json!(3), "3"), (json!(2.0), "2"), (json!(0.5), "0.5"), (json!(-1), "-1")] {
            assert_eq!(shown(&number), expected);
        }
    }

    #[test]
    fn malformed_templates_are_reported() {
        for (template, why) in [
            ("{.a", "unclosed action"),
            ("{.a\n}", "unclosed action"),
            ("{\"q}", "unterminated quoted string"),
            ("{.items[}", "unterminated array"),
            ("{.items['a}", "unterminated array"),
            ("{.items['a]}", "invalid array index 'a"),
            ("{.items[\"a\"]}", "invalid array index \"a\""),
            ("{.items[a]}", "invalid array index a"),
            ("{.items[+1]}", "invalid array index +1"),
            ("{.items[ 'a' ]}", "invalid array index  'a' "),
            ("{.items[1:a]}", "invalid array index 1:a"),
            ("{.items[-]}", "array index - is not a number"),
            ("{.items[?(@.a]}", "unterminated filter"),
            ("{.items[?(@.a)}", "unclosed array expect ]"),
            ("{.items[?(@.a=~1)]}", "unrecognized character in action: U+007E '~'"),
            ("{.a #}", "unrecognized character in action: U+0023 '#'"),
            ("{.a\t.b}", "unrecognized character in action: U+0009"),
            ("{*}", "unrecognized character in action: U+002A '*'"),
            ("{.a....b}", "invalid multiple recursive descent"),
            ("{1..2}", "cannot parse number 1..2"),
            ("{'\\q'}", "unquote string '\\q' error invalid syntax"),
        ] {
            check(template, why);
        }
        for repeated in ["[?(@", "[?('", "[,", "['", "{range .a}"] {
            let _ = Template::parse(&format!("{{{}", repeated.repeat(100_000)));
        }
    }

    #[test]
    fn words_and_literals_are_evaluated() {
        check("{range .items[*]}{.spec.n}", "34");
        check("{.items[*] range}{.spec.n} {end}", "3 4 ");
        check("{true}{1}{-2.5}{.items[*]\"q\"}", "true1-2.5q");
        check("{.items[*]1}{.none 1}{.none\"q\"}", "1 1");
        check("{range range .items[*]}{.spec.n}{end}", "34");
        check("{.items[?(@.spec.n==-4)].x}{.items[?(-1<@.spec.n)].spec.n}", "3 4");
    }

    #[test]
    fn single_paths_may_be_relaxed() {
        let object = json!({"metadata": {"name": "a"}});
        for text in ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}", ".@metadata.name"] {
            let expected = if text.contains('@') { json!([]) } else { json!(["a"]) };
            let path = JsonPath::parse_relaxed(text).expect(text);
            assert_eq!(json!(path.find(&object)), expected, "{text}");
        }
        for text in ["{.a}{.b}", "{}", ".a}"] {
            assert!(JsonPath::parse_relaxed(text).is_err(), "{text}");
        }
        let found = |text: &str| json!(JsonPath::parse_relaxed(text).expect(text).find(&object));
        assert_eq!((found(""), found("..name")), (json!([]), json!(["a"])));
        assert_eq!(found("{.}"), json!([object, {"name": "a"}, "a"]));
    }

    #[test]
    fn strict_templates_reject_missing_keys() {
        let mut template = Template::parse("{.a}").expect("valid");
        assert_eq!(template.render_checked(&json!({})), Ok(String::new()));
        template.strict(true);
        assert!(template.render_checked(&json!({})).is_err());
        assert_eq!(template.render_checked(&json!({"a": 1})), Ok("1".to_owned()));
        assert_eq!(template.found(&json!({"a": 1})), Ok(vec![json!(1)]));
    }

    #[test]
    fn what_kubectl_cannot_evaluate_is_an_error() {
        let value = json!({"n": 3, "s": "a", "e": null, "none": [], "u": [4, 5, 6], "l": [{"x": 1, "z": [1]}, {"x": 2, "z": []}]});
        let out = |index: i64, length: usize| Err(format!("array index out of bounds: index {index}, length {length}"));
        let words = |why: &str| Err(why.to_owned());
        for (template, expected) in [
            ("{.none[0]}", out(0, 0)),
            ("{.none[-1]}", out(-1, 0)),
            ("{.u[3]}", out(3, 3)),
            ("{.u[-1]} {.u[-3]}", Ok("6 4")),
            ("{.u[-4]}", out(-1, 3)),
            ("{.u[1:9]}", out(8, 3)),
            ("{.u[-2:]}", Ok("5 6")),
            ("{.u[:-1]}", Ok("4 5")),
            ("{.u[2:1]}", words("starting index 2 is greater than ending index 1")),
            ("{.u[3:3]}{.none[0:]}{.none[*]}{.absent[0]}{.e[0]}", Ok("")),
            ("{.u[0,3]}", out(3, 3)),
            ("{.l[*].z[0]}", out(0, 0)),
            ("{range .l[*]}{.z[0]}{end}", out(0, 0)),
            ("{.n[0]}", words("int64 is not array or slice")),
            ("{.s[0]}", words("string is not array or slice")),
            ("{.n[?(@.x)]}", words("3 is not array or slice and cannot be filtered")),
            ("{.l[?(@.x==2)].x}{.l[?(@.y==2)].x}", Ok("2")),
            ("{.l[?(@.x=='a')].x}", words("incompatible types for comparison")),
            ("{.l[?(@.z==1)].x}", words("invalid type for comparison")),
            ("{.l[?(@.*==1)].x}", words("can only compare one element at a time")),
            ("{.l[?(@.x=1)].x}", words("unrecognized filter operator =")),
            ("{.l[?(@.x==1.5)].x}", words("incompatible types for comparison")),
            ("{.u[::0]}", words("step must be > 0")),
            ("{.n foo}", words("unrecognized identifier foo")),
            ("{range .none}{foo}{end}", words("unrecognized identifier foo")),
            ("{end}", words("not in range, nothing to end")),
            ("{.l[0][*]}", words("map[string]interface {} is not array or slice")),
        ] {
            let found = Template::parse(template).expect(template).render_checked(&value);
            assert_eq!(found.map_err(|failure| failure.why), expected.map(str::to_owned), "{template}");
        }
        assert_eq!(Template::parse("{.none[0]}{.n}").expect("a template").render(&value), "3");
        let failure = Template::parse("{.none[0]}").expect("a template").found(&value).expect_err("no item");
        assert_eq!(
            failure.to_string(),
            r#"error executing jsonpath "{.none[0]}": Error executing template: array index out of bounds: index 0, length 0"#
        );
    }
}
