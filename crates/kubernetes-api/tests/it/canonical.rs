//! Amounts, times and bytes are stored in one form, whichever way they were written.

use expect_test::expect;
use kubernetes_api::protobuf;
use serde_json::json;

use crate::defaults::check;

#[test]
fn bytes_and_times_have_one_form() {
    check(
        "",
        "Secret",
        "{data: {broken: \"YWJj\\nZGVm\\n\", stray: YWJ=, plain: YWI=, other: '?'}}",
        &expect![[r#"
            data:
              broken: YWJjZGVm
              other: '?'
              plain: YWI=
              stray: YWI=
            type: Opaque
        "#]],
    );
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "spec:\n  signerName: a/b\n  request: |\n    YWJj\n    ZA==\n",
        &expect![[r#"
            spec:
              request: YWJjZA==
              signerName: a/b
            status: {}
        "#]],
    );
    check(
        "coordination.k8s.io",
        "Lease",
        "spec: {renewTime: '2020-01-01T00:00:00Z', acquireTime: '2020-01-01T00:00:00.5+02:00'}",
        &expect![[r#"
            spec:
              acquireTime: "2019-12-31T22:00:00.500000Z"
              renewTime: "2020-01-01T00:00:00.000000Z"
        "#]],
    );
}

/// Other amounts, such as the overhead of a runtime class, keep parts of a thousandth.
#[test]
fn amounts_of_resources_are_rounded_up_to_thousandths() {
    check(
        "",
        "ResourceQuota",
        "spec: {hard: {a: 1n, b: '1.000001', c: 1500u, d: 1e-6, e: 0.1m, f: '1.5', g: 1000m}}",
        &expect![[r#"
            spec:
              hard:
                a: 1m
                b: 1001m
                c: 2m
                d: "1e-3"
                e: 1m
                f: 1500m
                g: "1"
            status: {}
        "#]],
    );
    check(
        "",
        "LimitRange",
        "spec: {limits: [{type: Container, max: {x: 0.1m}}]}",
        &expect![[r#"
            spec:
              limits:
              - default:
                  x: 1m
                defaultRequest:
                  x: 1m
                max:
                  x: 1m
                type: Container
        "#]],
    );
    check(
        "node.k8s.io",
        "RuntimeClass",
        "{handler: a, overhead: {podFixed: {cpu: 100u}}}",
        &expect![[r#"
            handler: a
            overhead:
              podFixed:
                cpu: 100u
        "#]],
    );
}

/// As earlier versions stored it.
#[test]
fn wrapped_bytes_have_a_protobuf_form() {
    let secret = |data: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": data}});
        protobuf::encode(secret.to_string().as_bytes())
    };
    assert_eq!(secret("YWJj\nZGVm\n"), secret("YWJjZGVm"));
    assert!(secret("YWJj").is_ok() && secret("?").is_err());
}
