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
