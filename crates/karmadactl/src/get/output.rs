//! `-o`: how objects are shown, other than as a table.

use serde_json::{Value, json};

use super::kyaml;
use crate::error::{self, Error, no_printer};
use crate::go_template::{self, text};
use crate::table::{Layout, printable};
use apimachinery::field::json_of_go;
use apimachinery::go_json::json_number;
use apimachinery::jsonpath::{JsonPath, Template};

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Table {
        wide: bool,
    },
    Json,
    Yaml,
    Kyaml,
    Name,
    JsonPath(Template),
    /// The values at the paths, as one list.
    JsonPathAsJson(Template),
    GoTemplate(go_template::Template),
    /// Headings with the paths of their cells, and whether the headings are printed.
    Columns(Vec<(String, JsonPath)>, bool),
}

/// The formats that take no table.
pub const ALLOWED: &str = "custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,\
                           jsonpath-file,kyaml,name,template,templatefile,wide,yaml";

impl Output {
    /// Parses a format whose template may be in a separate flag, as in `-o go-template --template '{{.kind}}'`.
    ///
    /// # Errors
    /// When the format is unknown, or its template is missing or malformed.
    pub fn parse_with(format: &str, template: &str, allow_missing: bool) -> Result<Self, Error> {
        let joined = match (format, template) {
            (format, "") => format.to_owned(),
            (format @ ("json" | "yaml" | "kyaml" | "name" | "wide"), _) => format.to_owned(),
            ("", template) => format!("go-template={template}"),
            (format, template) if !format.contains('=') => format!("{format}={template}"),
            (format, _) => format.to_owned(),
        };
        let mut output = Self::parse(&joined)?;
        output.strict(!allow_missing);
        Ok(output)
    }

    /// # Errors
    /// When the format is unknown or its template is malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" => return Ok(Self::Table { wide: false }),
            "wide" => return Ok(Self::Table { wide: true }),
            "json" => return Ok(Self::Json),
            "yaml" => return Ok(Self::Yaml),
            "kyaml" => return Ok(Self::Kyaml),
            "name" => return Ok(Self::Name),
            _ => {}
        }
        let (format, template) = text.split_once('=').unwrap_or((text, ""));
        let known = ALLOWED.split(',').any(|allowed| allowed == format);
        if known && template.is_empty() {
            return Err(Error::message(missing_template(format)));
        }
        match format {
            "jsonpath" => parsed(template).map(Self::JsonPath),
            "jsonpath-as-json" => parsed(template).map(Self::JsonPathAsJson),
            "jsonpath-file" => parsed(&contents(template)?).map(Self::JsonPath),
            "go-template" | "template" => go(template),
            "go-template-file" | "templatefile" => go(&contents(template)?),
            "custom-columns" => columns(template),
            "custom-columns-file" => columns_of_file(&contents(template)?),
            _ => Err(Error::message(no_printer(text, ALLOWED))),
        }
    }

    /// Whether a template fails on a missing key.
    fn strict(&mut self, strict: bool) {
        match self {
            Self::JsonPath(template) | Self::JsonPathAsJson(template) => template.strict(strict),
            Self::GoTemplate(template) => template.strict(strict),
            _ => {}
        }
    }

    pub fn is_table(&self) -> bool {
        matches!(self, Self::Table { .. })
    }

    /// Whether `metadata.managedFields` is left out, unless a flag requires it. Templates see the whole object.
    pub fn hides_managed_fields(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::Kyaml)
    }

    /// Leaves out the headings of columns.
    pub fn without_headings(&mut self) {
        if let Self::Columns(_, headed) = self {
            *headed = false;
        }
    }

    /// Whether objects of several servers are shown one document after another.
    pub fn separator(&self) -> &'static str {
        if *self == Self::Yaml { "---\n" } else { "" }
    }

    /// # Errors
    /// When a template fails.
    pub fn render(&self, objects: Objects) -> Result<String, Error> {
        match self {
            Self::Table { .. } => Ok(String::new()),
            Self::Json => Ok(indented(&objects.document())),
            Self::Yaml => Ok(apimachinery::yaml::to_string(&objects.document())),
            Self::Kyaml => Ok(kyaml::to_string(&objects.document())),
            Self::Name => Ok(objects.items().iter().map(|object| format!("{}\n", name(object))).collect()),
            Self::JsonPath(template) => {
                template.render_checked(&objects.document()).map_err(|e| Error::message(e.to_string()))
            }
            Self::JsonPathAsJson(template) => {
                let found = template.found(&objects.document()).map_err(|e| Error::message(e.to_string()))?;
                Ok(indented(&Value::Array(found)))
            }
            Self::GoTemplate(template) => template.render(&objects.document()).map_err(Error::message),
            Self::Columns(columns, headed) => table(columns, *headed, objects.items()),
        }
    }
}

/// The response of one server.
#[derive(Clone, Debug)]
pub enum Objects {
    /// Requested by name.
    One(Value),
    Many(Vec<Value>),
}

impl Objects {
    fn items(&self) -> &[Value] {
        match self {
            Self::One(object) => std::slice::from_ref(object),
            Self::Many(objects) => objects,
        }
    }

    fn document(self) -> Value {
        match self {
            Self::One(object) => object,
            Self::Many(items) => {
                json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
            }
        }
    }
}

fn missing_template(format: &str) -> String {
    match format {
        "custom-columns" => "custom-columns format specified but no custom columns given".into(),
        "custom-columns-file" => "custom-columns format specified but no custom columns given".into(),
        _ => "template format specified but no template given".into(),
    }
}

fn parsed(template: &str) -> Result<Template, Error> {
    Template::parse(template).map_err(|why| Error::message(format!("error parsing jsonpath {template}, {why}")))
}

fn go(template: &str) -> Result<Output, Error> {
    go_template::Template::parse(template).map(Output::GoTemplate).map_err(Error::message)
}

fn contents(file: &str) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|error| {
        Error::message(format!("error reading --template {file}, open {file}: {}", error::of_file(&error)))
    })
}

fn columns(text: &str) -> Result<Output, Error> {
    text.split(',').map(column).collect::<Result<_, _>>().map(|columns| Output::Columns(columns, true))
}

/// A line of headings and a line of paths.
fn columns_of_file(text: &str) -> Result<Output, Error> {
    let mut lines = text.lines();
    let mut words = || lines.next().map(|line| line.split_whitespace().collect::<Vec<_>>()).unwrap_or_default();
    let (headings, paths) = (words(), words());
    if headings.is_empty() || headings.len() != paths.len() {
        let (headings, paths) = (headings.len(), paths.len());
        return Err(Error::message(format!(
            "number of headers ({headings}) and field specifications ({paths}) don't match"
        )));
    }
    let column = |(heading, path): (&str, &str)| {
        Ok((heading.to_owned(), JsonPath::parse_relaxed(path).map_err(|e| Error::message(e.to_string()))?))
    };
    let columns = headings.into_iter().zip(paths).map(column).collect::<Result<_, _>>();
    columns.map(|columns| Output::Columns(columns, true))
}

fn column(text: &str) -> Result<(String, JsonPath), Error> {
    let (heading, path) = text.split_once(':').ok_or_else(|| {
        Error::message(format!("unexpected custom-columns spec: {text}, expected <header>:<json-path-expr>"))
    })?;
    Ok((heading.to_owned(), JsonPath::parse_relaxed(path).map_err(|e| Error::message(e.to_string()))?))
}

fn table(columns: &[(String, JsonPath)], headed: bool, objects: &[Value]) -> Result<String, Error> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    lines.extend(headed.then(|| columns.iter().map(|(heading, _)| heading.clone()).collect()));
    for object in objects {
        lines.push(columns.iter().map(|(_, path)| cell(path, object)).collect::<Result<_, _>>()?);
    }
    Ok(Layout::of_columns().render(&lines))
}

/// Values in Go's form: `map[a:1]`, not JSON.
fn cell(path: &JsonPath, object: &Value) -> Result<String, Error> {
    let found: Vec<String> = path.find_checked(object).map_err(Error::message)?.into_iter().map(text).collect();
    Ok(if found.is_empty() { "<none>".into() } else { printable(&found.join(",")) })
}

/// `deployment.apps/nginx`
pub fn name(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// JSON as kubectl prints it: indented by four blanks, and with the escapes and the numbers of Go.
pub fn indented(value: &Value) -> String {
    let mut text = String::new();
    indent(value, 0, &mut text);
    text.push('\n');
    text
}

/// Documents were decoded, so they are 128 deep at most.
fn indent(value: &Value, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (position, (key, value)) in map.iter().enumerate() {
                out.push(if position == 0 { '{' } else { ',' });
                line(depth + 1, out);
                out.push_str(&json_of_go(&Value::from(key.as_str())));
                out.push_str(": ");
                indent(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            for (position, item) in items.iter().enumerate() {
                out.push(if position == 0 { '[' } else { ',' });
                line(depth + 1, out);
                indent(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::String(_) => out.push_str(&json_of_go(value)),
        Value::Number(number) => out.push_str(&json_number(number)),
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn json_has_gos_escapes_and_numbers() {
        let value = json!({"a": [], "b": {}, "<k>": ["a&b", 1e20, 0.5, {"c": "\u{2028}\n\"x\""}], "n": null});
        expect![[r#"
            {
                "\u003ck\u003e": [
                    "a\u0026b",
                    100000000000000000000,
                    0.5,
                    {
                        "c": "\u2028\n\"x\""
                    }
                ],
                "a": [],
                "b": {},
                "n": null
            }
        "#]]
        .assert_eq(&indented(&value));
    }

    fn check(format: &str, objects: Objects, expected: &Expect) {
        let shown = Output::parse(format).and_then(|output| output.render(objects));
        expected.assert_eq(&shown.unwrap_or_else(|error| error.render()));
    }

    #[test]
    fn objects_are_shown_as_kubectl_shows_them() {
        let nginx = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
        let both = || Objects::Many(vec![nginx.clone(), pod.clone()]);
        check(
            "name",
            both(),
            &expect![[r#"
            deployment.apps/nginx
            pod/a
        "#]],
        );
        check(
            "json",
            Objects::One(pod.clone()),
            &expect![[r#"
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "a"
                },
                "spec": {
                    "nodeName": "n"
                }
            }
        "#]],
        );
        check(
            "yaml",
            Objects::Many(vec![]),
            &expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            metadata:
              resourceVersion: ""
        "#]],
        );
        check("jsonpath={.items[*].metadata.name}", both(), &expect!["nginx a"]);
        check(
            "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
            both(),
            &expect![[r#"
            NAME    NODE
            nginx   <none>
            a       n
        "#]],
        );
        check(
            "custom-columns=M:.metadata,E:.spec.nodeName[0]",
            Objects::One(nginx.clone()),
            &expect![[r#"
            M                 E
            map[name:nginx]   <none>
        "#]],
        );
        check(
            "custom-columns=E:.spec.nodeName[0]",
            both(),
            &expect![[r#"
            error: string is not array or slice
        "#]],
        );
        check(
            "bogus",
            both(),
            &expect![[r#"
                error: unable to match a printer suitable for the output format "bogus", allowed formats are: custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,wide,yaml
            "#]],
        );
        check(
            "jsonpath={.a",
            both(),
            &expect![[r#"
            error: error parsing jsonpath {.a, unclosed action
        "#]],
        );
    }
}
