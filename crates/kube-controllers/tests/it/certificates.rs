//! Certificate signing requests, at the API server and in the controllers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use serde_json::{Value, json};
use transport::Identity;

use crate::harness::{Plane, resource};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

fn csr(name: &str, signer: &str, user: &str, groups: &[&str]) -> Value {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    let (request, _) = pki::request::create(user, &groups).expect("a request");
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(request), "signerName": signer, "username": "forged", "expirationSeconds": 3600,
            "usages": ["digital signature", "key encipherment", "client auth"]}})
}

fn approval(type_: &str) -> Value {
    json!({"status": {"certificate": "Zm9yZ2Vk", "conditions": [
        {"type": type_, "status": "True", "reason": "Test", "message": "tested"}]}})
}

impl Plane {
    async fn approve(&self, name: &str, patch: Value) -> client::Result<()> {
        let path = format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval");
        let live = self.get(&requests(), name).await.expect("it is there");
        let mut body = live;
        body["status"] = patch["status"].clone();
        self.client.request(http::Method::PUT, &path, Some(body)).await.map(|_| ())
    }

    async fn condition(&self, name: &str, type_: &str) -> Option<Value> {
        let live = self.get(&requests(), name).await?;
        live["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_).cloned()
    }
}

fn requests() -> apimachinery::ApiResource {
    resource("certificates.k8s.io/v1", "CertificateSigningRequest")
}

#[tokio::test(start_paused = true)]
async fn approved_requests_are_signed_and_later_deleted() {
    let plane = Plane::start(&["csrsigning", "csrcleaner"]).await;
    let created = plane.create(csr("ann", CLIENT, "ann", &["dev"])).await;
    assert_eq!(created.to_value().expect("an object")["spec"]["username"], "system:test");
    // Only the subresources can approve and sign.
    plane.merge(&requests(), "ann", approval("Approved")).await;
    let conditions = approval("Approved")["status"]["conditions"].clone();
    plane.merge_status(&requests(), "ann", json!({"status": {"conditions": conditions}})).await;
    assert_eq!(plane.condition("ann", "Approved").await, None);

    // An approver may add conditions and annotations besides the decision.
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/ann/approval";
    let mut looked = plane.get(&requests(), "ann").await.expect("it is there");
    looked["metadata"]["annotations"] = json!({"looked": "at"});
    looked["status"] = json!({"conditions": [{"type": "Looked", "status": "True", "reason": "Test"}]});
    plane.client.request(http::Method::PUT, path, Some(looked)).await.expect("noted");
    let noted = plane.get(&requests(), "ann").await.expect("it is there");
    assert_eq!(noted["metadata"]["annotations"], json!({"looked": "at"}));
    assert_eq!(noted["status"]["conditions"][0]["type"], "Looked");
    plane.approve("ann", approval("Approved")).await.expect("approved");
    let condition = plane.condition("ann", "Approved").await.expect("a condition");
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string(), "{condition}");
    let issued = async || plane.get(&requests(), "ann").await?["status"]["certificate"].as_str().map(str::to_owned);
    let certificate = plane.until("a certificate", issued).await;
    let pem = String::from_utf8(STANDARD.decode(certificate).expect("base64")).expect("PEM");
    let holder = pki::Holder::from_pem(&pem).expect("a certificate");
    assert_eq!((holder.user.as_str(), holder.groups.as_slice()), ("ann", ["dev".to_owned()].as_slice()));
    let now = plane.world.now().as_second();
    assert!(holder.is_valid_at(now + 3_000) && !holder.is_valid_at(now + 4_000));

    plane.create(csr("pending", CLIENT, "bob", &[])).await;
    tokio::time::sleep(std::time::Duration::from_secs(3_500)).await;
    assert!(plane.get(&requests(), "ann").await.is_some());
    plane.until_gone(&requests(), "ann").await;
    tokio::time::sleep(std::time::Duration::from_secs(20 * 3_600)).await;
    assert!(plane.get(&requests(), "pending").await.is_some());
    tokio::time::sleep(std::time::Duration::from_secs(4 * 3_600)).await;
    plane.until_gone(&requests(), "pending").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_fail_and_denials_are_final() {
    let plane = Plane::start(&["csrsigning"]).await;
    plane.create(csr("odd", "kubernetes.io/kubelet-serving", "ann", &["dev"])).await;
    plane.approve("odd", approval("Approved")).await.expect("approved");
    let failed = plane.until("failed", async || plane.condition("odd", "Failed").await).await;
    assert_eq!(failed["reason"], "SignerValidationFailure");
    assert_eq!(failed["message"], "subject organization is not system:nodes");

    plane.create(csr("foreign", "example.com/other", "ann", &[])).await;
    plane.approve("foreign", approval("Approved")).await.expect("approved");
    plane.create(csr("denied", CLIENT, "ann", &[])).await;
    plane.approve("denied", approval("Denied")).await.expect("denied");
    let refused = plane.approve("denied", approval("Approved")).await.expect_err("a decision stands");
    assert!(refused.to_string().contains("may not remove a condition of type \"Denied\""), "{refused}");
    plane.settle().await;
    for name in ["foreign", "denied"] {
        let live = plane.get(&requests(), name).await.expect("it is there");
        assert!(live["status"]["certificate"].is_null(), "{live}");
    }
    let masters = csr("masters", CLIENT, "ann", &["system:masters"]);
    let refused = plane.client.create(&requests(), &masters).await.expect_err("the group is reserved");
    assert!(refused.to_string().contains("system:masters group is not allowed"), "{refused}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_requests_of_kubelets_are_approved() {
    let plane = Plane::start(&["csrapproving", "csrsigning"]).await;
    let node = "system:node:a";
    let identity = Identity { user: node.into(), groups: vec!["system:nodes".into()], ..Identity::system("test") };
    let kubelet = Client::in_process(plane.service(), identity);
    kubelet.create(&requests(), &csr("a", KUBELET, node, &["system:nodes"])).await.expect("a request");
    plane.create(csr("odd", KUBELET, "ann", &["system:nodes"])).await;
    plane.create(csr("other-signer", CLIENT, node, &["system:nodes"])).await;
    let approved = plane.until("approved", async || plane.condition("a", "Approved").await).await;
    let expected = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    assert_eq!((&approved["reason"], &approved["message"]), (&json!("AutoApproved"), &json!(expected)));
    let issued = async || plane.get(&requests(), "a").await?["status"]["certificate"].as_str().map(str::to_owned);
    plane.until("a certificate", issued).await;
    plane.settle().await;
    for name in ["odd", "other-signer"] {
        assert_eq!(plane.condition(name, "Approved").await, None, "{name}");
    }
    plane.shutdown().await;
}
