//! No input makes the crate panic.

use cel::budget::Meter;
use cel::types::ANY;
use cel::{Env, Type, Value};
use proptest::prelude::*;
use serde_json::json;

use crate::printing::{document, shape};

const PIECES: [&str; 64] = [
    "self",
    ".",
    "i",
    "s",
    "l",
    "m",
    "o",
    "x",
    "set",
    "keyed",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "in",
    "1",
    "0",
    "2u",
    "1.5",
    "'a'",
    "'%s'",
    "b'x'",
    "null",
    "true",
    "has(",
    ".all(",
    ".exists(",
    ".map(",
    ".filter(",
    "v",
    ", ",
    ".size()",
    ".format(",
    ".matches(",
    "'('",
    ".split(",
    ".replace(",
    "type(",
    "int(",
    "string(",
    "duration('1s')",
    "timestamp(0)",
    "optional.of(",
    ".?",
    "[?",
    ".orValue(",
    "quantity('1')",
];

fn run(source: &str) {
    let shape = shape();
    let env = Env::new().with_document("self", &shape, false).with("v", Type::Dyn);
    let Ok(program) = env.compile(source) else { return };
    let document = document();
    let this = Value::from_json(&document, &shape).expect("of its shape");
    let _ = program.eval(&[Some(this), Some(Value::Int(1))], &mut Meter::new(10_000));
}

/// Mostly well-formed expressions.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("self".to_owned()),
        Just("self.l".to_owned()),
        Just("self.m".to_owned()),
        Just("self.s".to_owned()),
        Just("self.set".to_owned()),
        Just("self.keyed".to_owned()),
        Just("self.port".to_owned()),
        Just("dyn(self)".to_owned()),
        Just("v".to_owned()),
        any::<i64>().prop_map(|number| format!("{number}")),
        any::<u64>().prop_map(|number| format!("{number}u")),
        Just("-1.5".to_owned()),
        "[a-z%.]{0,4}".prop_map(|text| format!("'{text}'")),
        Just("duration('1s')".to_owned()),
        Just("timestamp(0)".to_owned()),
        Just("[]".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let member = prop::sample::select(vec![
            "size",
            "startsWith",
            "contains",
            "indexOf",
            "lastIndexOf",
            "substring",
            "charAt",
            "split",
            "replace",
            "join",
            "format",
            "matches",
            "find",
            "findAll",
            "reverse",
            "sort",
            "slice",
            "flatten",
            "distinct",
            "sum",
            "min",
            "max",
            "isSorted",
            "getFullYear",
            "getHours",
            "orValue",
            "value",
            "or",
        ]);
        let global = prop::sample::select(vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "type",
            "dyn",
            "duration",
            "timestamp",
            "quantity",
            "ip",
            "cidr",
            "url",
            "semver",
            "math.greatest",
            "math.bitShiftLeft",
            "sets.contains",
            "optional.of",
            "lists.range",
            "strings.quote",
            "isURL",
        ]);
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in"]);
        let fold = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), member, prop::collection::vec(inner.clone(), 0..3))
                .prop_map(|(on, name, args)| format!("{on}.{name}({})", args.join(", "))),
            (global, prop::collection::vec(inner.clone(), 0..3))
                .prop_map(|(name, args)| format!("{name}({})", args.join(", "))),
            (inner.clone(), fold, inner.clone()).prop_map(|(on, name, body)| format!("dyn({on}).{name}(v, {body})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("(dyn({a}) ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(on, index)| format!("{on}[{index}]")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner).prop_map(|(key, value)| format!("{{{key}: {value}}}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_a_result(source in "\\PC{0,60}") {
        run(&source);
    }

    #[test]
    fn any_tokens_have_a_result(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30)) {
        run(&pieces.concat());
    }

    #[test]
    fn any_expression_has_a_result(source in expression()) {
        run(&source);
    }

    #[test]
    fn any_document_has_a_result(number in any::<f64>(), text in "\\PC{0,8}") {
        let shape = shape();
        for field in ["i", "d", "s", "by", "when", "day", "span", "l", "set", "keyed", "m", "o"] {
            for value in [json!(number), json!(text), json!([text]), json!({"k": number}), json!(null)] {
                let document = json!({field: value});
                let env = Env::new().with_document("self", &shape, false);
                let program = env.compile(&format!("self.{field} == self.{field}")).expect("well typed");
                let this = Value::from_json(&document, &shape).expect("an object");
                let _ = program.eval(&[Some(this)], &mut Meter::new(10_000));
                let _ = Value::from_json(&document, &ANY);
            }
        }
    }
}
