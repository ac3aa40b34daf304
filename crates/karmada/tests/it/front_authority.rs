//! Servers behind an API server trust its renewed authority without a restart, from a file and from the ConfigMap.

use apimachinery::{ApiResource, ObjectKey};
use client::Patch;
use http::Method;
use pki::{Authority, KeyPairPem};
use serde_json::json;
use world::World;

use crate::components::{Component, args};
use crate::fleet::{Fleet, until};
use crate::search_alone::Front;

/// An authority and a front proxy's certificate that it has signed.
fn authority(world: &World) -> (String, KeyPairPem) {
    let (authority, _) = Authority::generate("front-proxy-ca", world).expect("an authority");
    let pair = authority.issue_client("front-proxy-client", &[], world).expect("a certificate");
    (authority.certificate().to_owned(), pair)
}

async fn serve(fleet: &Fleet, command: &str, directory: &std::path::Path, more: &[String]) -> Component {
    let (kubeconfig, data) = (fleet.kubeconfig(), directory.join(command));
    let mut own = args(&[command, "--kubeconfig", kubeconfig.to_str().expect("text"), "--bind-address=127.0.0.1"]);
    own.extend(args(&["--secure-port=0", "--data-dir", data.to_str().expect("text")]));
    own.extend_from_slice(more);
    tokio::task::spawn_blocking(move || Component::start(&own, 1)).await.expect("no panic")
}

/// The response code for a user through a front proxy with this certificate, on a new connection.
async fn code(at: &str, pair: &KeyPairPem, path: &str) -> u16 {
    Front::connect(at, pair).await.request("ann", Method::GET, path, None).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_authorities_of_the_front_proxy_are_trusted_without_a_restart() {
    let fleet = Fleet::start(&[]).await;
    let (world, directory) = (World::system(), tempfile::tempdir().expect("a directory"));
    let ((first, old), (second, new)) = (authority(&world), authority(&world));

    let file = directory.path().join("front.crt");
    std::fs::write(&file, &first).expect("a file");
    let flag = format!("--requestheader-client-ca-file={}", file.display());
    let search = serve(&fleet, "search", directory.path(), &[flag]).await;
    let at = search.text_after("The search API server is ready on ");
    let registries = "/apis/search.karmada.io/v1alpha1/resourceregistries";
    assert_eq!((code(at, &old, registries).await, code(at, &new, registries).await), (200, 403));
    // Unreadable content changes nothing; both authorities are trusted during a rotation.
    std::fs::write(&file, "no certificate").expect("a file");
    std::fs::write(&file, format!("{first}{second}")).expect("a file");
    until("both are trusted", async || (code(at, &new, registries).await == 200).then_some(())).await;
    assert_eq!(code(at, &old, registries).await, 200);
    assert!(search.terminate());

    let (maps, control) = (ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"), fleet.admin().await);
    let key = ObjectKey::namespaced("kube-system", "extension-apiserver-authentication");
    let publish = async |authority: &str| {
        let data = json!({"requestheader-client-ca-file": authority, "requestheader-allowed-names": "[]"});
        control.patch(&maps, &key, &Patch::Merge(json!({"data": data})), &Default::default()).await.expect("published");
    };
    publish(&first).await;
    let aggregated = serve(&fleet, "aggregated-apiserver", directory.path(), &[]).await;
    let at = aggregated.text_after("The aggregated API server is ready on ");
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    assert_eq!((code(at, &old, clusters).await, code(at, &new, clusters).await), (200, 403));
    publish(&second).await;
    until("the new one is trusted", async || (code(at, &new, clusters).await == 200).then_some(())).await;
    assert_eq!(code(at, &old, clusters).await, 403);
    assert!(aggregated.terminate());
}
