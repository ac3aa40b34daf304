//! Patches that take much work.

use super::bodies::{LIMIT, numbered};
use super::cases::{Case, Expected, JSON_PATCH, MAPS, MERGE, STRATEGIC, WIDGETS, patch};

use Expected::{Answered, Code, Refused};

pub(super) fn all() -> Vec<Case> {
    let (map, long) = (format!("{MAPS}/m"), format!("{WIDGETS}/long"));
    let operations = |operation: &str, times: usize| format!("[{}]", vec![operation; times].join(","));
    let test = r#"{"op":"test","path":"/a"}"#;
    let double = r#"{"op":"copy","from":"","path":"/data/x"}"#;
    let shift = r#"{"op":"add","path":"/free/a/0","value":1}"#;
    let moves = r#"{"op":"move","from":"/free/a","path":"/free/b"},{"op":"move","from":"/free/b","path":"/free/a"}"#;
    let paths = format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(LIMIT / 2 - 100));
    let deployment = "/apis/apps/v1/namespaces/n/deployments/env";
    let variables = |tail: &str| {
        let head = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","env":["#;
        numbered(head, |n| format!(r#"{{"name":"E{}"{tail}}}"#, n * 7 % 100_000), "]}]}}}}", 100_000)
    };
    vec![
        patch("100,000 operations", &map, JSON_PATCH, operations(test, 100_000), Code(413)),
        patch("10,001 operations", &map, JSON_PATCH, operations(test, 10_001), Code(413)),
        patch("10,000 operations", &map, JSON_PATCH, operations(test, 10_000), Answered),
        patch("copies that double", &map, JSON_PATCH, operations(double, 5_000), Code(422)),
        patch(
            "copies of a long list",
            &long,
            JSON_PATCH,
            operations(r#"{"op":"copy","from":"/free/a","path":"/free/b"}"#, 10_000),
            Code(422),
        ),
        patch("insertions before a long list", &long, JSON_PATCH, operations(shift, 10_000), Code(422)),
        patch(
            "removals before a long list",
            &long,
            JSON_PATCH,
            operations(r#"{"op":"remove","path":"/free/a/0"}"#, 10_000),
            Code(422),
        ),
        patch("a long list moved to and fro", &long, JSON_PATCH, operations(moves, 5_000), Code(422)),
        patch("a path of a million steps", &map, JSON_PATCH, paths, Refused),
        patch(
            "an index beyond all numbers",
            &long,
            JSON_PATCH,
            r#"[{"op":"add","path":"/free/a/99999999999999999999999","value":1}]"#,
            Code(422),
        ),
        patch("100,000 items into 40,000", deployment, STRATEGIC, variables(r#","value":"x""#), Answered),
        patch("100,000 items out of 40,000", deployment, STRATEGIC, variables(r#","$patch":"delete""#), Answered),
        patch("an unknown directive in a large patch", deployment, STRATEGIC, variables(r#","$patch":"x""#), Code(500)),
        patch(
            "one item 60,000 times, into 40,000",
            deployment,
            STRATEGIC,
            numbered(
                r#"{"spec":{"template":{"spec":{"containers":["#,
                |_| r#"{"name":"c","env":[{"name":"E1"}]}"#.into(),
                "]}}}}",
                60_000,
            ),
            Code(422),
        ),
        patch(
            "as many keys as fit, retained",
            &map,
            STRATEGIC,
            numbered(
                &numbered(r#"{"data":{"$retainKeys":["#, |n| format!("\"k{n}\""), "],", 150_000),
                |n| format!(r#""k{n}":"""#),
                "}}",
                150_000,
            ),
            Answered,
        ),
        patch(
            "a set of finalizers",
            &map,
            STRATEGIC,
            numbered(r#"{"metadata":{"finalizers":["#, |n| format!("\"a/{n}\""), "]}}", 200_000),
            Answered,
        ),
        patch(
            "managed fields of many managers",
            &map,
            MERGE,
            numbered(
                r#"{"metadata":{"managedFields":["#,
                |n| {
                    format!(
                        r#"{{"manager":"m{n}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{}}}}"#
                    )
                },
                "]}}",
                30_000,
            ),
            Answered,
        ),
        patch(
            "managed fields, deep",
            &map,
            MERGE,
            format!(
                r#"{{"metadata":{{"managedFields":[{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}{{}}{}}}]}}}}"#,
                "{\"f:a\":".repeat(110),
                "}".repeat(110)
            ),
            Answered,
        ),
    ]
}
