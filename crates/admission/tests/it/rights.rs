//! Secondary rights that another program decides: they are requested from it, as the rights of requests are.

use std::sync::Arc;

use admission::Configuration;
use apiserver::Authorization;
use apiserver::auth::authz::{Attributes, Authorizer, Deciding, Decision, PolicyRule, Selectors};
use client::Client;
use client::webhooks::{Credential, Credentials, Token};
use http::Method;
use serde_json::json;
use transport::Identity;

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};

const API: &str = "/apis/admissionregistration.k8s.io/v1";

/// Allows everything but the checks that name something beginning with `forbidden`, and of lists, those with other
/// selectors than `spec.nodeName=n` and `app=a`; never from memory.
struct Remote(Arc<dyn Authorizer>);

impl Authorizer for Remote {
    fn authorize(&self, _: &Identity, _: &Attributes) -> Decision {
        Decision::NoOpinion(String::new())
    }

    fn decide<'a>(&'a self, _: &'a Identity, requested: &'a Attributes) -> Deciding<'a> {
        let is_forbidden = matches!(requested, Attributes::Resource(it)
            if it.name.starts_with("forbidden") || (it.verb == "list" && it.selectors != Selectors::of("spec.nodeName=n", "app=a")));
        let decision = if is_forbidden { Decision::NoOpinion(String::new()) } else { Decision::Allow(String::new()) };
        Deciding::Later(Box::pin(async move { decision }))
    }

    fn rules_for(&self, user: &Identity, namespace: &str) -> Option<Vec<PolicyRule>> {
        self.0.rules_for(user, namespace)
    }
}

async fn plane() -> (Plane, Client) {
    let build = |rbac: Arc<dyn Authorizer>| Arc::new(Remote(rbac)) as Arc<dyn Authorizer>;
    let authorization = Authorization::Custom { build: Box::new(build), has_rbac: true };
    let plane = Plane::of(Vec::new(), Configuration::default(), authorization).await;
    plane.users.enable();
    let ann = Identity { user: "ann".into(), groups: vec!["system:authenticated".into()], ..Identity::default() };
    let client = Client::in_process(plane.server.service(), ann);
    (plane, client)
}

#[tokio::test]
async fn an_external_authorizer_decides_role_escalation() {
    let (plane, ann) = plane().await;
    let group = "/apis/rbac.authorization.k8s.io/v1";
    for (name, code) in [("allowed", 201), ("forbidden", 403)] {
        let role = json!({"metadata": {"name": name}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        let made = plane.send_as(&ann, Method::POST, &format!("{group}/clusterroles"), "application/json", &role).await;
        assert_eq!(made.code, code, "escalate {name}: {}", made.body);
    }
    let role = json!({"metadata": {"name": "forbidden"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(plane.post(&format!("{group}/clusterroles"), &role).await.code, 201, "the administrator may");
    for (name, code) in [("allowed", 201), ("forbidden", 403)] {
        let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
        let path = format!("{group}/clusterrolebindings");
        let made = plane.send_as(&ann, Method::POST, &path, "application/json", &binding).await;
        assert_eq!(made.code, code, "bind {name}: {}", made.body);
    }
}

#[tokio::test]
async fn an_external_authorizer_decides_certificate_approval() {
    let (plane, ann) = plane().await;
    let request = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0=";
    for (signer, code) in [("example.com/allowed", 200), ("forbidden.example.com/a", 403)] {
        let name = signer.replace('/', "-");
        let body = json!({"metadata": {"name": name}, "spec": {"signerName": signer, "usages": ["client auth"], "request": request}});
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let made = plane.post(path, &body).await;
        if made.code != 201 {
            // The request must be one that the API accepts.
            panic!("{}", made.body);
        }
        let mut approved = made.body;
        approved["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "r"}]);
        let path = format!("{path}/{name}/approval");
        let reply = plane.send_as(&ann, Method::PUT, &path, "application/json", &approved).await;
        assert_eq!(reply.code, code, "{}", reply.body);
    }
}

#[tokio::test]
async fn expressions_query_an_external_authorizer() {
    let (plane, ann) = plane().await;
    let validation = json!({"matchConstraints": {"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "authorizer.group('').resource('secrets').name(object.metadata.name).check('use').allowed()", "message": "not yours"}]});
    let meta = json!({"name": "p"});
    let policy = json!({"metadata": meta, "spec": validation});
    let made = plane.post(&format!("{API}/validatingadmissionpolicies"), &policy).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let binding = json!({"metadata": meta, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(plane.post(&format!("{API}/validatingadmissionpolicybindings"), &binding).await.code, 201);
    let hooks = Hooks::start().await;
    let condition = json!({"matchConditions": [{"name": "c",
        "expression": "!authorizer.group('').resource('configmaps').name('forbidden-' + request.name).check('skip').allowed()"}]});
    plane.configure("Validating", "w", vec![hooks.webhook("w", "allow", condition)]).await;
    for (name, code, calls) in [("allowed", 201, 1), ("forbidden", 422, 0)] {
        let made = plane.send_as(&ann, Method::POST, CONFIG_MAPS, "application/json", &config_map(name)).await;
        assert_eq!((made.code, hooks.take_paths().len()), (code, calls), "{}", made.body);
    }
}

#[tokio::test]
async fn expressions_pass_selectors_to_an_external_authorizer() {
    let (plane, ann) = plane().await;
    let expression = "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=n').labelSelector('app=' + \
                      object.metadata.name).check('list').allowed()";
    let validation = json!({"matchConstraints": {"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "validations": [{"expression": expression, "message": "not yours"}]});
    let policy = json!({"metadata": {"name": "p"}, "spec": validation});
    let made = plane.post(&format!("{API}/validatingadmissionpolicies"), &policy).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    assert_eq!(plane.post(&format!("{API}/validatingadmissionpolicybindings"), &binding).await.code, 201);
    for (name, code) in [("a", 201), ("b", 422)] {
        let made = plane.send_as(&ann, Method::POST, CONFIG_MAPS, "application/json", &config_map(name)).await;
        assert_eq!(made.code, code, "{}", made.body);
    }
}

#[tokio::test]
async fn webhooks_receive_the_credentials_of_their_host() {
    let hooks = Hooks::start().await;
    let host = hooks.url.strip_prefix("https://").expect("a host").to_owned();
    let of = |token: &str| Credential { token: Some(Token(token.into())), ..Credential::default() };
    let validating = Credentials { named: [(host, of("for-this-host"))].into(), others: of("for-others") };
    let configuration = Configuration { validating, ..Configuration::default() };
    let plane = Plane::of(Vec::new(), configuration, Authorization::Rbac).await;
    plane.users.enable();
    for kind in ["Mutating", "Validating"] {
        plane.configure(kind, "w", vec![hooks.webhook("w", &format!("allow/{kind}"), json!({}))]).await;
    }
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201);
    let expected = [("allow/Mutating", None), ("allow/Validating", Some("Bearer for-this-host"))];
    let expected = expected.map(|(path, token)| (path.to_owned(), token.map(str::to_owned)));
    assert_eq!(hooks.authorizations(), expected);
}
