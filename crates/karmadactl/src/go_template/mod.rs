//! Go's `text/template` as `-o go-template` takes it: actions over the JSON of an object.
//!
//! Not here: methods, which objects do not have. Errors have Go's words and places.

mod eval;
mod format;
mod functions;
mod lex;
mod parse;

use serde_json::Value;

pub use functions::text;

/// A template ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    trees: parse::Trees,
    source: String,
    /// Missing keys are errors.
    strict: bool,
}

impl Template {
    /// # Errors
    /// The syntax error, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trees = parse::template(text).map_err(|why| format!("error parsing template {text}, {why}"))?;
        Ok(Self { trees, source: text.to_owned(), strict: false })
    }

    pub fn strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// # Errors
    /// When an action fails, such as an index out of range.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        eval::run(&self.trees, &self.source, value, self.strict)
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
        check("{{.spec.replicas}} {{.spec.big}} {{.spec.half}} {{.spec.on}}", "3 1234567 1.5 true");
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
    fn templates_include_templates() {
        check("{{define \"T\"}}<{{.}}>{{end}}{{template \"T\" .kind}}{{template \"T\"}}", "<Pod><<no value>>");
        check("{{block \"B\" .spec.list}}{{len .}}{{end}}{{template \"B\" .kind}}", "33");
        check("{{define \"A\"}}{{$}}{{end}}{{with .metadata}}{{template \"A\" .name}}{{end}}", "a");
        check("{{define \"A\"}} {{end}}{{define \"A\"}}x{{end}}{{template \"A\"}}", "x");
        let parsing = |template: &str, why: &str| {
            check(template, &format!("error parsing template {template}, template: output:1: {why}"));
        };
        parsing("{{define \"A\"}}1{{end}}{{define \"A\"}}2{{end}}", "template: multiple definition of template \"A\"");
        parsing("{{if 1}}{{define \"A\"}}{{end}}{{end}}", "unexpected <define> in command");
        parsing("{{template}}", "unexpected \"}}\" in template clause");
        parsing("{{define \"A\"}}x", "unexpected EOF");
        parsing("{{block \"B\"}}{{end}}", "missing value for block clause");
        let fails = |template: &str, why: &str| {
            check(template, &format!("error executing template {template:?}: template: output:1:{why}"));
        };
        fails("{{template \"A\" .}}", r#"11: executing "output" at <{{template "A" .}}>: template "A" not defined"#);
        fails(
            "{{define \"R\"}}{{template \"R\"}}{{end}}{{template \"R\"}}",
            r#"25: executing "R" at <{{template "R"}}>: exceeded maximum template depth (200)"#,
        );
    }

    #[test]
    fn integers_are_counted() {
        check("{{range 3}}{{.}} {{end}}{{range $i := .spec.replicas}}{{$i}}{{end}}", "0 1 2 012");
        check("{{range 0}}a{{else}}b{{end}}{{range -1}}a{{else}}b{{end}}", "bb");
        let template = "{{range $i, $j := 3}}{{end}}";
        let why =
            r#"template: output:1:18: executing "output" at <3>: can't use 3 to iterate over more than one variable"#;
        check(template, &format!("error executing template {template:?}: {why}"));
        let endless = Template::parse("{{range 999999999999}}{{end}}").expect("valid").render(&json!({}));
        assert!(endless.is_err_and(|why| why.ends_with("more than 10000000 rounds over integers")));
        check("{{0x10}} {{1_000}} {{017}} {{1e3}} {{-3}} {{'a'}} {{\"\\u00e9\"}}", "16 1000 15 1000 -3 97 é");
    }

    #[test]
    fn printf_is_gos() {
        check(
            "{{printf \"%05d|%-5s|%5.1f|%x|%T\" .spec.replicas .kind .spec.half 255 .spec.list}}",
            "00003|Pod  |  1.5|ff|[]interface {}",
        );
        check("{{printf \"%d %s\" .kind .spec.replicas}}", "%!d(string=Pod) %!s(int64=3)");
        check(
            "{{printf \"%d\"}} {{printf \"a\" .kind}} {{printf \"%v %t\" .spec.list .spec.on}}",
            "%!d(MISSING) a%!(EXTRA string=Pod) [1 two <nil>] true",
        );
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
        let fails = |template: &str, why: &str| {
            check(template, &format!("error executing template {template:?}: template: output:1:{why}"));
        };
        let index = r#"2: executing "output" at <index .spec.list 9>: error calling index: index out of range: 9"#;
        fails("{{index .spec.list 9}}", index);
        let compared = |template: &str, action: &str, why: &str| {
            let function = action.split(' ').next().unwrap_or_default();
            fails(template, &format!(r#"2: executing "output" at <{action}>: error calling {function}: {why}"#));
        };
        compared("{{eq .kind 3}}", "eq .kind 3", "incompatible types for comparison");
        compared("{{ne .spec.on .kind}}", "ne .spec.on .kind", "incompatible types for comparison");
        compared("{{lt .spec.half 2}}", "lt .spec.half 2", "incompatible types for comparison");
        compared("{{eq .metadata .kind}}", "eq .metadata .kind", "non-comparable types");
        check("{{eq .kind \"Pod\" 3}} {{eq .none \"a\"}} {{ne .none \"a\"}}", "true false true");
        fails("{{nil}}", r#"2: executing "output" at <nil>: nil is not a command"#);
        fails(
            "{{.kind}} {{.kind.x}}",
            r#"17: executing "output" at <.kind.x>: can't evaluate field x in type interface {}"#,
        );
        fails("{{.kind 1}}", r#"2: executing "output" at <.kind>: kind is not a method but has arguments"#);
        fails("{{1 2}}", r#"2: executing "output" at <1>: can't give argument to non-function 1"#);
        fails("{{len 1 2}}", r#"2: executing "output" at <len>: wrong number of args for len: want 1 got 2"#);
        fails("{{range .kind}}{{end}}", r#"8: executing "output" at <.kind>: range can't iterate over Pod"#);
        let mut strict = Template::parse("{{.none}}").expect("valid");
        strict.strict(true);
        let refused = strict.render(&json!({})).expect_err("missing");
        let why = r#"template: output:1:2: executing "output" at <.none>: map has no entry for key "none""#;
        assert_eq!(refused, format!("error executing template \"{{{{.none}}}}\": {why}"));
    }
}
