//! Events: the older group takes nearly everything, the newer one is strict.

use expect_test::expect;
use serde_json::json;

use super::{check, update};

const NEW: &str = "metadata: {namespace: ns}\nregarding: {namespace: ns}\nreason: R\nnote: N\ntype: Normal\naction: A\n\
                   eventTime: '2026-01-01T00:00:00.000000Z'\nreportingController: c\nreportingInstance: i\n";

#[test]
fn created_events_are_validated() {
    let long = format!("{}\naction: {}", NEW.replace("action: A", ""), "a".repeat(129));
    let old_fields = format!("{NEW}deprecatedCount: 1\ndeprecatedSource: {{component: c}}\n");
    let series = format!("{NEW}series: {{count: 1}}\n");
    for (group, document, expected) in [
        ("", "metadata: {namespace: ns}\ninvolvedObject: {namespace: ns}", expect![""]),
        ("", "metadata: {namespace: default}\ninvolvedObject: {kind: Node}", expect![""]),
        (
            "",
            "metadata: {namespace: ns}\ninvolvedObject: {namespace: m}",
            expect![[r#"
                involvedObject.namespace: Invalid value: "m": does not match event.namespace
            "#]],
        ),
        (
            "",
            "metadata: {namespace: ns}\ninvolvedObject: {namespace: ns}\neventTime: '2026-01-01T00:00:00.000000Z'\n\
             reportingComponent: c",
            expect![[r#"
                reportingInstance: Required value
                action: Required value
                reason: Required value
            "#]],
        ),
        ("events.k8s.io", NEW, expect![""]),
        (
            "events.k8s.io",
            "metadata: {namespace: ns}\nregarding: {namespace: ns}",
            expect![[r#"
                eventTime: Required value
                type: Invalid value: "": has invalid value: 
            "#]],
        ),
        (
            "events.k8s.io",
            &long,
            expect![[r#"
                action: Invalid value: "": can have at most 128 characters
            "#]],
        ),
        (
            "events.k8s.io",
            &old_fields,
            expect![[r#"
                count: Invalid value: "": needs to be unset
                source: Invalid value: "": needs to be unset
            "#]],
        ),
        (
            "events.k8s.io",
            &series,
            expect![[r#"
                series.count: Invalid value: "": should be at least 2
                series.lastObservedTime: Required value
            "#]],
        ),
    ] {
        check(group, "Event", document, expected);
    }
}

#[test]
fn changed_events_are_validated() {
    for (pointer, value, expected) in [
        ("series", json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}), expect![""]),
        (
            "reason",
            json!("S"),
            expect![[r#"
                reason: Invalid value: "S": field is immutable
                reason: Invalid value: "S": field is immutable
            "#]],
        ),
        (
            "note",
            json!("M"),
            expect![[r#"
                message: Invalid value: "M": field is immutable
            "#]],
        ),
    ] {
        expected.assert_eq(&update("events.k8s.io", "Event", NEW, pointer, value));
    }
    expect![""].assert_eq(&update(
        "",
        "Event",
        "metadata: {namespace: ns}\ninvolvedObject: {namespace: ns}",
        "reason",
        json!("S"),
    ));
}
