//! Reviews, tokens, health and the bootstrap policy: pure answers to pure questions.

use apimachinery::{Object, ObjectKey};
use apiserver::admit::escalation;
use apiserver::auth::authz::{Attributes, Authorizer, Decision, Rbac};
use apiserver::auth::reviews;
use apiserver::auth::tokens::Issuer;
use apiserver::bootstrap;
use apiserver::health::Health;
use pki::{Signer, Verifier};
use serde_json::{Value, json};
use transport::Identity;
use world::World;

/// A server with its bootstrap policy; bob may edit in `dev`.
fn bootstrapped() -> Rbac {
    let rbac = Rbac::default();
    let mut objects = bootstrap::policy::cluster_roles();
    objects.extend(bootstrap::policy::cluster_role_bindings());
    objects.extend(bootstrap::policy::namespaced());
    objects.push(json!({"kind": "RoleBinding", "metadata": {"name": "bob", "namespace": "dev"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [{"kind": "User", "name": "bob"}]}));
    rbac.update(|table| {
        for object in &objects {
            table.put(&Object::from_value(object).expect("an object"));
        }
    });
    rbac
}

fn bob() -> Identity {
    Identity { user: "bob".into(), groups: vec!["system:authenticated".into()], ..Identity::default() }
}

#[tokio::test]
async fn access_reviews_decide_and_reject_ambiguous_requests() {
    let rbac = bootstrapped();
    let cases = [
        (
            json!({"resourceAttributes": {"verb": "create", "group": "apps", "resource": "deployments", "namespace": "dev"}}),
            "true",
        ),
        (json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "dev"}}), "true"),
        (
            json!({"resourceAttributes": {"verb": "create", "group": "rbac.authorization.k8s.io", "resource": "roles", "namespace": "dev"}}),
            "true",
        ),
        (json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "prod"}}), "false"),
        (json!({"resourceAttributes": {"verb": "list", "resource": "nodes"}}), "false"),
        (json!({"nonResourceAttributes": {"verb": "get", "path": "/apis/apps"}}), "true"),
        (json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}), "false"),
        (json!({}), "422"),
        (json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}}), "422"),
    ];
    for (spec, expected) in cases {
        let answer = match reviews::self_subject_access_review(&rbac, &bob(), json!({"spec": spec})).await {
            Ok(review) => review["status"]["allowed"].to_string(),
            Err(status) => status.code.to_string(),
        };
        assert_eq!(answer, expected, "{spec}");
    }
    let spec = json!({"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "dev"}});
    let review = reviews::subject_access_review(&rbac, json!({"spec": spec})).await.expect("answered");
    assert_eq!(
        review["status"]["reason"],
        r#"RBAC: allowed by RoleBinding "bob/dev" of ClusterRole "admin" to User "bob""#
    );
    let rules =
        reviews::self_subject_rules_review(&rbac, &bob(), json!({"spec": {"namespace": "dev"}})).expect("answered");
    assert!(rules["status"]["resourceRules"].as_array().is_some_and(|rules| rules.len() > 10));
    assert_eq!(rules["status"]["incomplete"], false);
}

#[tokio::test]
async fn escalation_is_rejected_with_upstreams_messages() {
    let rbac = bootstrapped();
    let bob = bob();
    let granting = escalation::Granting { authorizer: &rbac, rules: &rbac, user: &bob };
    let key = ObjectKey::namespaced("dev", "r");
    let role =
        |verbs: Value, resource: &str| json!({"rules": [{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]});
    escalation::check_role(granting, &key, None, &role(json!(["get", "create"]), "pods")).await.expect("held");
    let refused = role(json!(["get", "update"]), "nodes");
    let status = escalation::check_role(granting, &key, None, &refused).await.expect_err("not held");
    assert_eq!(
        status.message,
        "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"bob\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], \
         Verbs:[\"get\", \"update\"]}"
    );
    escalation::check_role(granting, &key, Some(&refused), &refused).await.expect("nothing is added");
    let bind = |role: &str| json!({"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": []});
    let table = rbac.snapshot();
    for (role, expected) in [("view", "ok"), ("admin", "ok"), ("cluster-admin", "403"), ("none", "404")] {
        let answer = escalation::check_binding(granting, &table, &key, None, &bind(role)).await;
        assert_eq!(answer.map_or_else(|status| status.code.to_string(), |()| "ok".into()), expected, "{role}");
    }
}

#[test]
fn bootstrap_roles_gain_missing_rules_and_lose_none() {
    for desired in bootstrap::policy::cluster_roles().into_iter().chain(bootstrap::policy::cluster_role_bindings()) {
        assert_eq!(bootstrap::policy::reconcile(&desired, &desired), None, "{}", desired["metadata"]["name"]);
    }
    let roles = bootstrap::policy::cluster_roles();
    let desired = roles.iter().find(|role| role["metadata"]["name"] == "system:basic-user").expect("it exists");
    let mut live = desired.clone();
    live["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["own"]}]);
    live["metadata"]["labels"]["mine"] = "yes".into();
    let next = bootstrap::policy::reconcile(&live, desired).expect("rules are missing");
    assert_eq!(next["rules"][0], live["rules"][0]);
    assert_eq!(next["metadata"]["labels"]["mine"], "yes");
    assert_eq!(bootstrap::policy::reconcile(&next, desired), None);
    live["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
    assert_eq!(bootstrap::policy::reconcile(&live, desired), None);
}

#[tokio::test]
async fn tokens_are_issued_as_requested_or_refused() {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 5);
    let key = pki::token::generate_key().expect("key");
    let signer = Signer::from_pem(&key).expect("signer");
    let verifier = Verifier::from_pems([signer.public_pem()]).expect("verifier");
    let signer = std::sync::Arc::new(pki::Signers::new(signer));
    let issuer =
        Issuer { signer, url: "https://i".into(), audiences: vec!["https://i".into()], extend: true, longest: None };
    let object = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}")});
        Object::from_value(&json!({"kind": kind, "metadata": metadata})).expect("an object")
    };
    let (account, pod) = (object("ServiceAccount", "robot"), object("Pod", "p"));
    let now = world.now().as_second();
    let to_pod = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let cases = [
        (json!({}), None, Ok(3600)),
        (json!({"expirationSeconds": 600, "audiences": ["a"]}), None, Ok(600)),
        (json!({"expirationSeconds": 3607}), None, Ok(3607)),
        (json!({"expirationSeconds": 3607, "boundObjectRef": to_pod}), Some(&pod), Ok(365 * 24 * 3600)),
        (json!({"expirationSeconds": 599}), None, Err(422)),
        (json!({"boundObjectRef": to_pod}), None, Err(404)),
        (json!({"boundObjectRef": {"kind": "Pod", "name": "p", "uid": "other"}}), Some(&pod), Err(409)),
        (json!({"boundObjectRef": {"kind": "Job", "name": "p"}}), None, Err(400)),
    ];
    for (spec, bound_to, expected) in cases {
        let answer = issuer.issue(&account, bound_to, json!({"spec": spec}), &world);
        let lifetime = answer.map_err(|status| status.code).map(|reply| {
            let claims = verifier.verify(reply["status"]["token"].as_str().expect("a token")).expect("genuine");
            assert_eq!(claims.sub, "system:serviceaccount:ns:robot");
            assert_eq!(json!(claims.aud), reply["spec"]["audiences"]);
            claims.exp.expect("an end") - now
        });
        assert_eq!(lifetime, expected, "{spec}");
    }
    for (metadata, expected) in [
        (json!({"name": "robot", "namespace": "ns"}), None),
        (
            json!({"name": "other"}),
            Some(r#"metadata.name: Invalid value: "other": must match the service account name if specified"#),
        ),
        (
            json!({"namespace": "x"}),
            Some(r#"metadata.namespace: Invalid value: "x": must match the service account namespace if specified"#),
        ),
    ] {
        let answer = issuer.issue(&account, None, json!({"metadata": metadata, "spec": {}}), &world);
        let expected = expected.map(|why| format!(r#"TokenRequest.authentication.k8s.io "robot" is invalid: {why}"#));
        assert_eq!(answer.err().map(|status| status.message), expected);
    }
    let short = Issuer { longest: Some(3600), ..issuer };
    let warning = "requested expiration of 7200 seconds shortened to 3600 seconds";
    for (requested, expected, text) in [(7200, 3600, Some(warning)), (1800, 1800, None)] {
        let mut request = json!({"spec": {"expirationSeconds": requested}});
        assert_eq!(short.shorten(&mut request).as_deref(), text);
        let reply = short.issue(&account, None, request, &world).expect("a token");
        let claims = verifier.verify(reply["status"]["token"].as_str().expect("a token")).expect("genuine");
        assert_eq!((claims.exp, &reply["spec"]["expirationSeconds"]), (Some(now + expected), &json!(expected)));
    }
    let spec = json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": to_pod}});
    let reply = short.issue(&account, Some(&pod), spec, &world).expect("a token");
    let claims = verifier.verify(reply["status"]["token"].as_str().expect("a token")).expect("genuine");
    assert_eq!(claims.exp, Some(now + 3600), "an extended token does not outlive the longest one");
}

/// Access reviews of authorizers that deny, and that read selectors.
#[tokio::test]
async fn reviews_report_denials_and_pass_selectors() {
    struct Selecting;
    impl Authorizer for Selecting {
        fn authorize(&self, _: &Identity, attributes: &Attributes) -> Decision {
            let Attributes::Resource(requested) = attributes else { return Decision::NoOpinion(String::new()) };
            match &requested.selectors {
                Some(selectors) => Decision::Deny(format!("{} | {}", selectors.field, selectors.label)),
                None => Decision::Allow(String::new()),
            }
        }
    }
    let attributes = |field: serde_json::Value, label: serde_json::Value| json!({"verb": "list", "resource": "pods", "fieldSelector": field, "labelSelector": label});
    for (attributes, expected) in [
        (attributes(json!(null), json!(null)), json!({"allowed": true})),
        (
            attributes(json!({"rawSelector": "spec.nodeName=a"}), json!({"rawSelector": "x"})),
            json!({"allowed": false, "denied": true, "reason": "spec.nodeName=a | x"}),
        ),
        (
            attributes(
                json!({"requirements": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}),
                json!({"requirements": [{"key": "x", "operator": "In", "values": ["a", "b"]},
                                        {"key": "y", "operator": "DoesNotExist"}]}),
            ),
            json!({"allowed": false, "denied": true, "reason": "metadata.name!=a | x in (a,b),!y"}),
        ),
        (
            attributes(
                json!({"rawSelector": "a"}),
                json!({"requirements": [{"key": "x", "operator": "Exists"}, {"key": "y", "operator": "New"}]}),
            ),
            json!({"allowed": false, "denied": true, "reason": " | x",
                "evaluationError": "spec.resourceAttributes.fieldSelector ignored due to parse error; \
                                    spec.resourceAttributes.labelSelector partially ignored due to parse error"}),
        ),
    ] {
        let review = json!({"spec": {"resourceAttributes": attributes}});
        let answer = reviews::self_subject_access_review(&Selecting, &bob(), review).await.expect("answered");
        assert_eq!(answer["status"], expected);
    }
}

#[tokio::test]
async fn readiness_follows_its_gates() {
    use http_body_util::BodyExt;
    let health = Health::default();
    let gate = health.ready_gate("store");
    let probe = async |path: &str, query: &str| {
        let response = health.answer(path, query).expect("a health path");
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (code, String::from_utf8(body.to_vec()).expect("text"))
    };
    assert_eq!(probe("/livez", "").await, (200, "ok".into()));
    let failed = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
    assert_eq!(probe("/readyz", "").await, (500, failed.into()));
    assert_eq!(probe("/readyz", "exclude=store").await, (200, "ok".into()));
    assert_eq!(probe("/readyz/store", "").await.0, 500);
    gate.set(true);
    assert!(health.is_ready());
    assert_eq!(probe("/readyz", "verbose").await, (200, "[+]ping ok\n[+]store ok\nreadyz check passed\n".into()));
    assert_eq!(probe("/readyz/none", "").await.0, 404);
    // Kube-apiserver's order, whatever the order of registration; names may be percent-encoded.
    let shutdown = health.ready_gate("shutdown");
    health.passed(&["poststarthook/rbac/bootstrap-roles", "etcd"]);
    health.live_gate("a-part");
    let listed = "[+]ping ok\n[+]etcd ok\n[+]poststarthook/rbac/bootstrap-roles ok\n[+]store ok\n[+]a-part ok\n";
    let failed = format!("{listed}[-]shutdown failed: reason withheld\nreadyz check failed\n");
    assert_eq!(probe("/readyz", "verbose").await, (500, failed));
    let why = "internal server error: process is shutting down\n";
    assert_eq!(probe("/readyz/shutdown", "").await, (500, why.into()));
    shutdown.set(true);
    let query = "verbose&exclude=poststarthook%2Frbac%2Fbootstrap-roles&exclude=none&exclude=etcd";
    let listed = "[+]ping ok\n[+]etcd excluded: ok\n[+]poststarthook/rbac/bootstrap-roles excluded: ok\n\
                  [+]a-part ok\nwarn: some health checks cannot be excluded: no matches for \"none\"\nlivez check passed\n";
    assert_eq!(probe("/livez", query).await, (200, listed.into()));
    assert_eq!(probe("/healthz/ping", "").await, (200, "ok".into()));
    assert!(health.answer("/api", "").is_none());
}
