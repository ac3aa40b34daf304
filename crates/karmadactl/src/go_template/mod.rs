//! Go's `text/template` as `-o go-template` takes it: actions over the JSON of an object.
//!
//! Not here: `define`, `template`, `block` and methods, for which objects have no use.

mod eval;
mod functions;
mod lex;
mod parse;

use serde_json::Value;

/// A template ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<parse::Node>,
    source: String,
    /// Missing keys are errors.
    strict: bool,
}

impl Template {
    /// # Errors
    /// The syntax error, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let nodes = parse::template(text).map_err(|why| format!("error parsing template {text}, {why}"))?;
        Ok(Self { nodes, source: text.to_owned(), strict: false })
    }

    pub fn strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// # Errors
    /// When an action fails, such as an index out of range.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        eval::run(&self.nodes, value, self.strict)
            .map_err(|why| format!("error executing template {:?}: {why}", self.source))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1", "a.b/c": "2"}},
            "spec": {"replicas": 3, "big": 1_234_567, "half": 1.5, "on": true, "list": [1, "two", null],
                "containers": [{"name": "c1", "image": "i1"}, {"name": "c2"}]}, "data": {"k": "aGk="}});
        let rendered = Template::parse(template).and_then(|template| template.render(&object));
        assert_eq!(rendered.unwrap_or_else(|why| why), expected, "{template}");
    }

    #[test]
    fn fields_print_as_go_prints_them() {
        check("{{.kind}}/{{ .metadata.name }}", "Pod/a");
        check("{{.spec.replicas}} {{.spec.big}} {{.spec.half}} {{.spec.on}}", "3 1.234567e+06 1.5 true");
        check("{{.spec.list}} {{.metadata.labels}}", "[1 two <nil>] map[a.b/c:2 x:1]");
        check("{{.none}} {{.none.below}}", "<no value> <no value>");
        check("{{\"a\\n\"}}{{`b`}}{{3}}{{true}}", "a\nb3true");
        check("a {{- /* gone */ -}} b", "ab");
        check("a {{- .kind -}} b", "aPodb");
    }

    #[test]
    fn control_flow_is_gos() {
        check("{{range .spec.containers}}{{.name}} {{end}}", "c1 c2 ");
        check("{{range $i, $c := .spec.containers}}{{$i}}={{$c.name}},{{end}}", "0=c1,1=c2,");
        check("{{range $k, $v := .metadata.labels}}{{$k}}:{{$v}};{{end}}", "a.b/c:2;x:1;");
        check("{{range .none}}x{{else}}empty{{end}}", "empty");
        check("{{if .spec.on}}yes{{else}}no{{end}}", "yes");
        check("{{if .none}}a{{else if eq .kind \"Pod\"}}b{{else}}c{{end}}", "b");
        check("{{with .metadata}}{{.name}} {{$.kind}}{{end}}", "a Pod");
        check("{{$n := .metadata.name}}{{$n}}{{$n = \"z\"}}{{$n}}", "az");
        check("{{range .spec.containers}}{{if eq .name \"c2\"}}{{break}}{{end}}{{.name}}{{end}}", "c1");
        check("{{range .spec.containers}}{{if eq .name \"c1\"}}{{continue}}{{end}}{{.name}}{{end}}", "c2");
    }

    #[test]
    fn functions_are_gos_and_kubectls() {
        check("{{index .metadata.labels \"a.b/c\"}}", "2");
        check("{{index .spec.containers 1 \"name\"}}", "c2");
        check("{{(index .spec.containers 0).image}}", "i1");
        check("{{len .spec.list}} {{len .kind}}", "3 3");
        check("{{printf \"%s-%d %v %q\" .kind 3 .spec.on \"x\"}}", "Pod-3 true \"x\"");
        check("{{.kind | printf \"<%s>\" | println}}", "<Pod>\n");
        check("{{print 1 2 \"a\" \"b\" 3}}", "1 2ab3");
        check("{{and .spec.on .kind}} {{or .none .kind}} {{not .none}}", "Pod Pod true");
        check("{{eq .kind \"Job\" \"Pod\"}} {{ne 1 2}} {{lt 1 2}} {{ge \"b\" \"a\"}}", "true true true true");
        check("{{.data.k | base64decode}}", "hi");
        check("{{exists . \"spec\" \"on\"}} {{exists . \"spec\" \"off\"}}", "true false");
        check("{{html \"<a>\"}} {{urlquery \"a b\"}} {{js \"it's\"}}", "&lt;a&gt; a+b it\\'s");
        check("{{slice .kind 1 2}}", "o");
    }

    #[test]
    fn template_errors_are_reported() {
        check("{{.a", "error parsing template {{.a, template: output:1: unclosed action");
        check("{{if .a}}", "error parsing template {{if .a}}, template: output:1: unexpected EOF");
        check(
            "{{nosuch .a}}",
            "error parsing template {{nosuch .a}}, template: output:1: function \"nosuch\" not defined",
        );
        check("{{end}}", "error parsing template {{end}}, template: output:1: unexpected {{end}}");
        check("{{$x}}", "error parsing template {{$x}}, template: output:1: undefined variable \"$x\"");
        let index = "error executing template \"{{index .spec.list 9}}\": error calling index: index out of range: 9";
        check("{{index .spec.list 9}}", index);
        let compared = |template: &str, function: &str| {
            let why = "incompatible types for comparison";
            check(template, &format!("error executing template {template:?}: error calling {function}: {why}"));
        };
        compared("{{eq .kind 3}}", "eq");
        compared("{{ne .spec.on .kind}}", "ne");
        compared("{{eq .metadata .kind}}", "eq");
        check("{{eq .kind \"Pod\" 3}} {{eq .none \"a\"}} {{ne .none \"a\"}}", "true false true");
        check("{{nil}}", "error executing template \"{{nil}}\": nil is not a command");
        let mut strict = Template::parse("{{.none}}").expect("valid");
        strict.strict(true);
        let refused = strict.render(&json!({})).expect_err("missing");
        assert_eq!(refused, "error executing template \"{{.none}}\": map has no entry for key \"none\"");
    }
}
