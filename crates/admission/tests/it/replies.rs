//! Webhooks that reply late, wrongly, too much or not at all.

use serde_json::json;

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};

const FAILED: &str = "Internal error occurred: failed calling webhook \"w.example.com\": ";

#[tokio::test]
async fn failures_match_kube_apiservers_messages() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let post = format!("failed to call webhook: Post \"{}/PATH?timeout=10s\": ", hooks.url);
    let invalid = "received invalid webhook response: ";
    for (path, expected) in [
        ("code/404", "failed to call webhook: the server could not find the requested resource".to_owned()),
        ("code/503", "failed to call webhook: the server is currently unable to handle the request".to_owned()),
        (
            "code/307",
            "failed to call webhook: the server responded with the status code 307 but did not return more information"
                .to_owned(),
        ),
        (
            "html",
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go \
             value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }"
                .to_owned(),
        ),
        (
            "empty",
            "failed to call webhook: 0-length response with status code: 200 and content type: ".to_owned(),
        ),
        (
            "kindless",
            format!("{invalid}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        ),
        ("huge", format!("{post}the response is larger than 8388608 bytes")),
        ("close", format!("{post}EOF")),
    ] {
        plane.configure("Validating", "v", vec![hooks.webhook("w", path, json!({}))]).await;
        let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
        assert_eq!((reply.code, &reply.body["reason"]), (500, &json!("InternalError")), "{path}");
        assert_eq!(reply.message(), format!("{FAILED}{}", expected.replace("PATH", path)), "{path}");
    }
    plane.configure("Validating", "v", vec![hooks.webhook("w", "other", json!({}))]).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    let expected = format!("{FAILED}{invalid}expected response.uid=");
    assert!(reply.message().starts_with(&expected) && reply.message().ends_with(", got \"other\""), "{reply:?}");
}

#[tokio::test]
async fn unreachable_webhooks_are_reported() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let other = Hooks::start().await;
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.local_addr().expect("an address")
    };
    for (config, expected) in [
        (
            json!({"url": format!("https://{free}/x")}),
            format!(
                "failed to call webhook: Post \"https://{free}/x?timeout=10s\": dial tcp {free}: connect: connection refused"
            ),
        ),
        (
            json!({"url": format!("{}/allow", hooks.url), "caBundle": other.ca}),
            format!(
                "failed to call webhook: Post \"{}/allow?timeout=10s\": tls: failed to verify certificate: x509: certificate \
                 signed by unknown authority",
                hooks.url
            ),
        ),
        (
            json!({"url": "https://169.254.169.254/latest"}),
            "could not get REST client: 169.254.169.254 is refused: it belongs to the link-local range 169.254.0.0/16, \
             where clouds serve metadata, where no cluster is"
                .to_owned(),
        ),
    ] {
        let webhook = hooks.webhook("w", "", json!({"clientConfig": config}));
        plane.configure("Mutating", "m", vec![webhook]).await;
        let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
        assert_eq!((reply.code, reply.message()), (500, &*format!("{FAILED}{expected}")));
    }
}

/// The virtual clock advances only when all tasks are idle, so the webhook's timeout passes at once.
#[tokio::test]
async fn an_unresponsive_webhook_times_out() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let webhook = |policy: &str| hooks.webhook("w", "hang", json!({"timeoutSeconds": 1, "failurePolicy": policy}));
    plane.configure("Validating", "v", vec![webhook("Fail")]).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    let expected =
        format!("{FAILED}failed to call webhook: Post \"{}/hang?timeout=1s\": context deadline exceeded", hooks.url);
    assert_eq!((reply.code, reply.message()), (500, &*expected));
    plane.configure("Validating", "v", vec![webhook("Ignore")]).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201);
}

#[tokio::test]
async fn refusals_and_warnings_reach_the_client() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let webhooks = vec![
        hooks.webhook("w", "warn/careful", json!({})),
        hooks.webhook("x", "silent", json!({"objectSelector": {"matchLabels": {"bad": "yes"}}})),
    ];
    plane.configure("Validating", "v", webhooks).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((reply.code, &*reply.warnings), (201, &["careful".to_owned()][..]));
    let mut bad = config_map("b");
    bad["metadata"]["labels"] = json!({"bad": "yes"});
    let reply = plane.post(CONFIG_MAPS, &bad).await;
    assert_eq!(reply.message(), "admission webhook \"x.example.com\" denied the request without explanation");
    assert_eq!((reply.code, &*reply.warnings), (400, &["careful".to_owned()][..]), "refusals have the warnings too");
    let text = plane.server.shared().metrics.text();
    let counted = "apiserver_admission_webhook_rejection_count{name=\"x.example.com\",type=\"validating\",operation=\"CREATE\",error_type=\"no_error\",rejection_code=\"400\"} 1";
    assert!(text.contains(counted), "{text}");
}

/// Each webhook may add as much as all before it.
#[tokio::test]
async fn patches_end_at_the_size_of_the_largest_object() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let webhooks = (0..6).map(|n| hooks.webhook(&format!("w{n}"), &format!("grow/{n}"), json!({})));
    plane.configure("Mutating", "m", webhooks.collect()).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((reply.code, &reply.body["reason"]), (413, &json!("RequestEntityTooLarge")), "{}", reply.message());
    assert_eq!(reply.message(), "Request entity too large: the object takes more than 4194304 bytes");
    assert_eq!(hooks.requests("grow").len(), 4, "no webhook gets an object that cannot be stored");
}

#[tokio::test]
async fn a_reply_has_room_for_few_warnings() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    plane.configure("Validating", "v", vec![hooks.webhook("w", "warnings", json!({}))]).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(reply.code, 201, "{}", reply.message());
    assert!(reply.warnings.first().is_some_and(|it| it.contains("warning 0")) && reply.warnings.len() < 1000);
}
