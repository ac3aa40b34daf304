//! Deletions by mistake that members would follow.

use apimachinery::{ApiResource, ObjectKey};
use client::DeleteOptions;

use crate::fleet::{Fleet, until};

#[tokio::test]
async fn definitions_and_namespaces_that_members_depend_on_stay() {
    let definitions =
        ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    fleet.join(&member).await;
    fleet.reachable("member1").await;
    let control = fleet.plane.client();
    let delete = async |resource: &ApiResource, name: &str| {
        let deleted = control.delete(resource, &ObjectKey::cluster(name), &DeleteOptions::background()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    };
    for (resource, name, why) in [
        (&definitions, "works.work.karmada.io", "the control plane needs this definition"),
        (&definitions, "propagationpolicies.policy.karmada.io", "its deletion deletes all objects of the kind"),
        (&namespaces, "karmada-es-member1", "it holds the Works of cluster member1"),
        (&namespaces, "karmada-cluster", "it holds credentials of joined clusters (member1); first unjoin them"),
    ] {
        let refused = delete(resource, name).await.expect_err(name);
        assert!(refused.contains(&format!("\"{name}\" is forbidden: ")) && refused.contains(why), "{refused}");
    }
    // Other projects define these kinds as well.
    assert_eq!(delete(&definitions, "serviceexports.multicluster.x-k8s.io").await, Ok(()));

    fleet.karmadactl(&["unjoin", "member1"]).await.ok();
    let space = ObjectKey::cluster("karmada-es-member1");
    until("the execution namespace is gone", async || {
        control.get_opt(&namespaces, &space).await.expect("an answer").is_none().then_some(())
    })
    .await;
    assert_eq!(delete(&namespaces, "karmada-cluster").await, Ok(()));
}
