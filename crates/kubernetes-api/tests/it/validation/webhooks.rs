//! Configurations of admission webhooks.

use expect_test::expect;
use serde_json::json;

use super::{check, update};

const GROUP: &str = "admissionregistration.k8s.io";
const KIND: &str = "ValidatingWebhookConfiguration";
const VALID: &str = "sideEffects: None, clientConfig: {url: 'https://example.com'}";

#[test]
fn names_and_versions_of_reviews() {
    let hooks = format!(
        "webhooks:
- {{name: webhook.k8s.io, admissionReviewVersions: [v1, v1, 0v], {VALID}}}
- {{name: a_b, admissionReviewVersions: [0v], {VALID}}}
- {{name: webhook.k8s.io, {VALID}}}"
    );
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
                 and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                 '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let expected = expect![[r#"
        webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version
        webhooks[0].admissionReviewVersions[2]: Invalid value: "0v": LABEL
        webhooks[1].name: Invalid value: "a_b": SUBDOMAIN
        webhooks[1].admissionReviewVersions[0]: Invalid value: "0v": LABEL
        webhooks[1].admissionReviewVersions: Invalid value: ["0v"]: must include at least one of v1, v1beta1
        webhooks[2].admissionReviewVersions: Required value: must specify one of v1, v1beta1
        webhooks[2].name: Duplicate value: "webhook.k8s.io"
    "#]];
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                     and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let found = super::create(GROUP, KIND, &hooks);
    expected.assert_eq(&found.replace(label, "LABEL").replace(subdomain, "SUBDOMAIN"));
}

#[test]
fn resources_of_rules() {
    let hook = |resources: &str| {
        format!(
            "webhooks: [{{name: a.b.c, admissionReviewVersions: [v1], {VALID}, rules: [\
             {{operations: [CREATE], apiGroups: [a], apiVersions: [a], resources: {resources}}}]}}]"
        )
    };
    check(
        GROUP,
        KIND,
        &hook("['a/*', 'a/x', '*/a', '', 'x/a', 'b/a/c']"),
        expect![[r#"
            webhooks[0].rules[0].resources[1]: Invalid value: "a/x": if 'a/*' is present, must not specify a/x
            webhooks[0].rules[0].resources[3]: Required value
            webhooks[0].rules[0].resources[4]: Invalid value: "x/a": if '*/a' is present, must not specify x/a
        "#]],
    );
    check(
        GROUP,
        KIND,
        &hook("['*', a]"),
        expect![[r#"
            webhooks[0].rules[0].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources without subresources
        "#]],
    );
    for accepted in ["[a, '*']", "['*', a/b, 'a/*', '*/b']", "['a/*', a]"] {
        check(GROUP, KIND, &hook(accepted), expect![[""]]);
    }
}

#[test]
fn faults_that_a_configuration_had_before_are_accepted() {
    let stored = "webhooks:
- {name: a.b.c, admissionReviewVersions: [v0], sideEffects: Unknown, clientConfig: {url: 'https://a.b'}}
- {name: a.b.c, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: 'https://a.b'}, matchConditions: [{name: a, expression: '1 +'}]}";
    assert_eq!(update(GROUP, KIND, stored, "webhooks.0.clientConfig.url", json!("https://c.d")), "");
    let changed = update(GROUP, KIND, stored, "webhooks.0.sideEffects", json!("Other"));
    assert!(changed.contains("webhooks[0].sideEffects: Unsupported value"), "{changed}");
    let changed = update(GROUP, KIND, stored, "webhooks.1.matchConditions.0.name", json!("b"));
    assert!(changed.contains("webhooks[1].matchConditions[0].expression: Invalid value"), "{changed}");
    let sound = format!("webhooks: [{{name: a.b.c, admissionReviewVersions: [v1], {VALID}}}]");
    for (field, value) in [("sideEffects", json!("Some")), ("admissionReviewVersions", json!(["v0"]))] {
        assert_ne!(update(GROUP, KIND, &sound, &format!("webhooks.0.{field}"), value), "", "{field}");
    }
}
