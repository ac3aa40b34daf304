//! Patches with unknown fields or duplicate fields.

use super::{CM, with_config_maps};
use crate::engine::on_every_engine;
use crate::parity::send;

on_every_engine! {
    alone: [
        strict_patch_errors_show_the_patched_object,
        duplicate_keys_of_yaml_are_reported,
    ],
}

async fn strict_patch_errors_show_the_patched_object() {
    let server = with_config_maps().await;
    let path = format!("{CM}/a");
    for (media_type, body, found, shown) in [
        ("application/merge-patch+json", r#"{"bogus":{"x":1}}"#, "unknown field \"bogus\"", r#"\"bogus\":{\"x\":1}"#),
        (
            "application/merge-patch+json",
            r#"{"data":{"k":"1","k":"2"}}"#,
            "duplicate field \"data.k\"",
            r#"\"data\":{\"k\":\"2\"}"#,
        ),
        (
            "application/json-patch+json",
            r#"[{"op":"add","path":"/metadata/bogus","value":1}]"#,
            "unknown field \"metadata.bogus\"",
            r#"\"bogus\":1"#,
        ),
        (
            "application/json-patch+json",
            r#"[{"op":"add","op":"add","path":"/data/z","value":"1"}]"#,
            "json patch duplicate field \"[0].op\"",
            r#"\"z\":\"1\""#,
        ),
        ("application/strategic-merge-patch+json", r#"{"bogus":1}"#, "unknown field \"bogus\"", "map[bogus:1]"),
    ] {
        let headers = [("content-type", media_type)];
        let warned = send(&server, "PATCH", &format!("{path}?dryRun=All"), &headers, body).await;
        let warnings: Vec<_> = warned.headers.get_all("warning").iter().filter_map(|w| w.to_str().ok()).collect();
        let expected = format!("299 - \"{}\"", found.replace('"', "\\\""));
        assert_eq!((warned.code, warnings), (200, vec![expected.as_str()]), "{body}");

        let refused = send(&server, "PATCH", &format!("{path}?fieldValidation=Strict"), &headers, body).await;
        let text = refused.shown();
        assert!(text.starts_with("422 Invalid  \"\" is invalid: patch: Invalid value: "), "{text}");
        assert!(text.ends_with(&format!(": strict decoding error: {found}")), "{text}");
        assert!(text.contains(shown), "{text}");
        assert_eq!(refused.json()["details"]["causes"][0]["field"], "patch");

        let silent = send(&server, "PATCH", &format!("{path}?fieldValidation=Ignore&dryRun=All"), &headers, body).await;
        assert_eq!((silent.code, silent.headers.get("warning")), (200, None), "{body}");
    }
}

async fn duplicate_keys_of_yaml_are_reported() {
    let server = with_config_maps().await;
    let body = "metadata:\n  name: twice\ndata:\n  k: a\n  k: b\n";
    let headers = [("content-type", "application/yaml")];
    let strict = send(&server, "POST", &format!("{CM}?fieldValidation=Strict"), &headers, body).await.shown();
    let expected = "400 BadRequest ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
                    yaml: unmarshal errors:\n  line 5: key \"k\" already set in map";
    assert_eq!(strict, expected);
    let warned = send(&server, "POST", CM, &headers, body).await;
    assert_eq!((warned.code, warned.headers.get_all("warning").iter().count()), (201, 1));
}
