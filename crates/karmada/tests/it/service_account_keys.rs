//! Service account tokens with keys and issuers of the operator's own: several keys are valid at once, and keys are
//! rotated without a restart.

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use http::Method;
use karmada::service_accounts::{ISSUER, ServiceAccounts};
use pki::token::{Bound, Reference};
use pki::{Claims, Signer};
use serde_json::{Value, json};

use crate::fleet::{Fleet, until};

const NEW: &str = "https://new.example.com";
const OLD: &str = "https://old.example.com";

fn accounts() -> ApiResource {
    ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
}

async fn issued(admin: &Client) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let answer = admin.request(Method::POST, path, Some(json!({"spec": {}}))).await.expect("a token");
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

/// The user of a token; `None` where it is refused.
async fn user(fleet: &Fleet, token: &str) -> Option<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let client = Client::in_process_with_token(fleet.plane.service(), token).expect("a client");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.request(Method::POST, path, Some(review)).await.ok()?;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    answer["status"]["userInfo"]["username"].as_str().map(str::to_owned)
}

/// A token as an API server with this key and issuer makes it.
fn token(key: &str, issuer: &str, uid: &str, now: i64) -> String {
    let account = Reference { name: "robot".into(), uid: uid.into() };
    let claims = Claims {
        aud: vec![issuer.to_owned()],
        exp: Some(now + 600),
        iss: issuer.to_owned(),
        bound: Some(Bound { namespace: "default".into(), serviceaccount: account, ..Bound::default() }),
        sub: "system:serviceaccount:default:robot".into(),
        ..Claims::default()
    };
    Signer::from_pem(key).expect("a key").sign(&claims).expect("signed")
}

#[tokio::test]
async fn several_keys_and_issuers_are_valid_at_once_and_keys_are_rotated_without_a_restart() {
    let files = tempfile::tempdir().expect("a directory");
    let [old, older, new, unknown] = std::array::from_fn(|_| pki::token::generate_key().expect("a key"));
    let (verifying, signing) = (files.path().join("verifying.pem"), files.path().join("signing.pem"));
    let public = Signer::from_pem(&old).expect("a key").public_pem().to_owned();
    std::fs::write(&verifying, format!("{public}{older}")).expect("written");
    std::fs::write(&signing, &new).expect("written");
    let service_accounts = ServiceAccounts {
        key_files: vec![verifying.clone()],
        signing_key_file: Some(signing.clone()),
        issuers: vec![NEW.into(), OLD.into(), ISSUER.into()],
        ..Default::default()
    };
    let fleet = Fleet::start_with(&[], |options| options.server.service_accounts = service_accounts).await;
    let admin = fleet.admin().await;
    let robot =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}});
    admin.create(&accounts(), &robot).await.expect("created");
    let robot = admin.get(&accounts(), &ObjectKey::namespaced("default", "robot")).await.expect("an account");
    let (uid, now) = (robot.uid().to_owned(), fleet.world.now().as_second());

    let first = issued(&admin).await;
    let claims = pki::Verifier::from_pems([new.as_str()]).expect("a key").verify(&first).expect("signed by the file");
    assert_eq!((claims.iss.as_str(), claims.aud), (NEW, vec![NEW.to_owned(), OLD.to_owned(), ISSUER.to_owned()]));
    let is_robot = Some("system:serviceaccount:default:robot".to_owned());
    assert_eq!(user(&fleet, &first).await, is_robot);
    for (key, issuer, expected) in [
        (&old, OLD, &is_robot),
        (&older, ISSUER, &is_robot),
        (&old, "https://stranger.example.com", &None),
        (&unknown, NEW, &None),
    ] {
        assert_eq!(user(&fleet, &token(key, issuer, &uid, now)).await, *expected, "{issuer}");
    }

    // The signing key becomes a verification key, and the oldest key is removed.
    std::fs::write(&verifying, format!("{public}{new}")).expect("written");
    std::fs::write(&signing, &unknown).expect("written");
    until("the new key signs", async || user(&fleet, &token(&unknown, NEW, &uid, now)).await).await;
    assert_eq!(user(&fleet, &first).await, is_robot);
    assert_eq!(user(&fleet, &token(&old, OLD, &uid, now)).await, is_robot);
    assert_eq!(user(&fleet, &token(&older, ISSUER, &uid, now)).await, None);
    let second = issued(&admin).await;
    assert!(pki::Verifier::from_pems([unknown.as_str()]).expect("a key").verify(&second).is_some());
}

#[test]
fn files_of_flags_are_checked_before_anything_is_created() {
    let directory = tempfile::tempdir().expect("a directory");
    let refusal = |command: &str, flag: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args([command, flag, "--data-dir"])
            .arg(directory.path().join("data"))
            .output()
            .expect("the binary starts");
        assert_eq!(output.status.code(), Some(1), "{command} {flag}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (flag, reason) in [
        ("--requestheader-client-ca-file=/nonexistent.pem", "reading /nonexistent.pem: "),
        ("--admission-control-config-file=/nonexistent.yaml", "cannot read /nonexistent.yaml: "),
        ("--tls-sni-cert-key=/nonexistent.crt,/nonexistent.key", "reading /nonexistent.crt: "),
    ] {
        for command in ["up", "apiserver"] {
            let text = refusal(command, flag);
            let name = flag.split('=').next().expect("a name");
            assert!(text.contains(&format!("error: {name}")) && text.contains(reason), "{text}");
        }
    }
    let text = refusal("apiserver", "--service-account-key-file=/nonexistent.pem");
    assert!(text.contains("error: --service-account-key-file: reading /nonexistent.pem: "), "{text}");
    let text = refusal("apiserver", "--service-account-issuer=a:b");
    assert!(text.contains("error: --service-account-issuer \"a:b\" contains a ':' but is not a valid URL"), "{text}");
    assert!(!directory.path().join("data").exists(), "nothing is created before the flags are checked");
}
