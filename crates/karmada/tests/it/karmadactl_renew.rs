//! `karmadactl join --renew`: a joined cluster that lost its credentials, or moved.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Ran, until};

const NS: &str = "karmada-cluster";

async fn find(client: &Client, resource: &ApiResource, key: ObjectKey) -> Option<Value> {
    let found = client.get_opt(resource, &key).await.expect("the server answers")?;
    Some(found.to_value().expect("JSON"))
}

async fn delete(client: &Client, resource: &ApiResource, key: ObjectKey) {
    client.delete(resource, &key, &DeleteOptions::background()).await.expect("deleted");
    until(&format!("{key} is gone"), async || find(client, resource, key.clone()).await.is_none().then_some(())).await;
}

fn refused(ran: &Ran, message: &str) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(1), "", &*format!("error: {message}\n")));
}

#[tokio::test]
async fn lost_credentials_and_addresses_are_renewed() {
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let accounts = ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let config = member.kubeconfig().to_str().expect("text");
    let renew = ["join", "member1", "--cluster-kubeconfig", config, "--renew"];
    refused(&fleet.karmadactl(&renew).await, "cluster member1 is not joined; without --renew this command joins it");
    fleet.join(&member).await;
    fleet.reachable("member1").await;
    let (control, of_member) = (fleet.plane.client(), member.client());
    let token = async |client: &Client, name: &str| {
        let found = find(client, &secrets, ObjectKey::namespaced(NS, name)).await;
        found.map(|it| it["data"]["token"].as_str().unwrap_or_default().to_owned())
    };
    let before = token(control, "member1").await.expect("a token");

    // Both ends lose the credentials, and the Cluster names an address at which no server is.
    for secret in ["member1", "member1-impersonator"] {
        delete(control, &secrets, ObjectKey::namespaced(NS, secret)).await;
    }
    delete(of_member, &accounts, ObjectKey::namespaced(NS, "karmada-member1")).await;
    until("its token is gone", async || token(of_member, "karmada-member1").await.is_none().then_some(())).await;
    let (clusters, key) = (Cluster::api_resource(), ObjectKey::cluster("member1"));
    let moved = Patch::Merge(json!({"spec": {"apiEndpoint": "https://127.0.0.1:1"}}));
    control.patch(&clusters, &key, &moved, &PatchOptions::default()).await.expect("patched");

    let dry = fleet.karmadactl(&[&renew[..], &["--dry-run"]].concat()).await.ok();
    assert_eq!(dry, "address and credentials of cluster(member1) are renewed (dry run)\n");
    assert_eq!(token(control, "member1").await, None);
    let renewed = fleet.karmadactl(&renew).await.ok();
    assert_eq!(renewed, "address and credentials of cluster(member1) are renewed\n");
    let after = token(control, "member1").await.expect("a token");
    assert_ne!(after, before);
    assert_eq!(Some(after), token(of_member, "karmada-member1").await);
    assert_eq!(token(control, "member1-impersonator").await, token(of_member, "karmada-impersonator").await);
    let cluster = find(control, &clusters, key.clone()).await.expect("the Cluster");
    assert_eq!(cluster["spec"]["apiEndpoint"], member.url());
    let secret = find(control, &secrets, ObjectKey::namespaced(NS, "member1")).await.expect("the Secret");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], cluster["metadata"]["uid"]);
    fleet.reachable("member1").await;

    let other = fleet.member("other").await;
    let config = other.kubeconfig().to_str().expect("text");
    let wrong = fleet.karmadactl(&["join", "member1", "--cluster-kubeconfig", config, "--renew"]).await;
    assert!(
        wrong.err.starts_with("error: the new kubeconfig of cluster member1 leads to another cluster"),
        "{}",
        wrong.err
    );
}
