//! The objects of a new member.

use apimachinery::{ApiResource, ObjectKey};
use simulator::MemberOptions;

use crate::harness::member;

#[tokio::test(start_paused = true)]
async fn the_usual_namespaces_exist() {
    let member = member(MemberOptions::new("m1")).await;
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for name in ["default", "kube-system"] {
        let found = member.client().get_opt(&namespaces, &ObjectKey::cluster(name)).await.expect("the server answers");
        assert!(found.is_some(), "{name}");
    }
    member.stop().await;
}
