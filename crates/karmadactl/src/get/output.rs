//! `-o`: how objects are shown, other than as a table.

use apiextensions::jsonpath::JsonPath;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::table::{Layout, printable};
use crate::template::{self, Template};

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Table {
        wide: bool,
    },
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    /// Headings and where their cells come from.
    Columns(Vec<(String, JsonPath)>),
}

impl Output {
    /// # Errors
    /// When the format is unknown or its template is malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" => return Ok(Self::Table { wide: false }),
            "wide" => return Ok(Self::Table { wide: true }),
            "json" => return Ok(Self::Json),
            "yaml" => return Ok(Self::Yaml),
            "name" => return Ok(Self::Name),
            _ => {}
        }
        if let Some(template) = text.strip_prefix("jsonpath=") {
            let parsed = Template::parse(template);
            return parsed
                .map(Self::JsonPath)
                .map_err(|why| Error::message(format!("error parsing jsonpath {template}, {why}")));
        }
        if let Some(columns) = text.strip_prefix("custom-columns=") {
            return columns.split(',').map(column).collect::<Result<_, _>>().map(Self::Columns);
        }
        let allowed = "custom-columns,json,jsonpath,name,wide,yaml";
        Err(Error::message(format!(
            "unable to match a printer suitable for the output format {text:?}, allowed formats are: {allowed}"
        )))
    }

    pub fn is_table(&self) -> bool {
        matches!(self, Self::Table { .. })
    }

    /// Whether objects of several servers are shown one document after another.
    pub fn separator(&self) -> &'static str {
        if *self == Self::Yaml { "---\n" } else { "" }
    }

    /// # Errors
    /// When the objects cannot be encoded.
    pub fn render(&self, objects: Objects) -> Result<String, Error> {
        let failed = |e: &dyn std::fmt::Display| Error::message(format!("the objects cannot be encoded: {e}"));
        match self {
            Self::Table { .. } => Ok(String::new()),
            Self::Json => indented(&objects.document()).map_err(|e| failed(&e)),
            Self::Yaml => serde_saphyr::to_string(&objects.document()).map_err(|e| failed(&e)),
            Self::Name => Ok(objects.items().iter().map(|object| format!("{}\n", name(object))).collect()),
            Self::JsonPath(template) => Ok(template.render(&objects.document())),
            Self::Columns(columns) => Ok(table(columns, objects.items())),
        }
    }
}

/// What one server answered.
#[derive(Clone, Debug)]
pub enum Objects {
    /// Asked for by name.
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

fn column(text: &str) -> Result<(String, JsonPath), Error> {
    let (heading, path) = text.split_once(':').ok_or_else(|| {
        Error::message(format!("unexpected custom-columns spec: {text}, expected <header>:<json-path-expr>"))
    })?;
    Ok((heading.to_owned(), template::path(path).map_err(Error::message)?))
}

fn table(columns: &[(String, JsonPath)], objects: &[Value]) -> String {
    let mut lines = vec![columns.iter().map(|(heading, _)| heading.clone()).collect::<Vec<_>>()];
    lines.extend(objects.iter().map(|object| columns.iter().map(|(_, path)| cell(path, object)).collect()));
    Layout::default().render(&lines)
}

fn cell(path: &JsonPath, object: &Value) -> String {
    let found: Vec<String> = path.find(object).into_iter().map(template::shown).collect();
    if found.is_empty() { "<none>".into() } else { printable(&found.join(",")) }
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

/// JSON as kubectl indents it: by four blanks.
fn indented(value: &Value) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
    bytes.push(b'\n');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

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
            "bogus",
            both(),
            &expect![[r#"
            error: unable to match a printer suitable for the output format "bogus", allowed formats are: custom-columns,json,jsonpath,name,wide,yaml
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
