use apimachinery::Object;

use super::*;

fn service(spec: Value) -> MultiClusterService {
    let value = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "m", "generation": 2,
        "labels": {"multiclusterservice.karmada.io/permanent-id": "id"}}, "spec": spec});
    serde_json::from_value(value).expect("a MultiClusterService")
}

fn names(list: &[&str]) -> Value {
    list.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn ranges() {
    let clusters: BTreeSet<String> = ["m1", "m2", "m3"].map(str::to_owned).into();
    for (providers, consumers, expected) in [
        (&["m1"][..], &["m2"][..], "m1 -> m2"),
        (&["m1", "m2"], &["m2"], "m1,m2 -> m2"),
        (&[], &["m2"], "m1,m2,m3 -> m2"),
        (&["m1"], &[], "m1 -> m1,m2,m3"),
        (&[], &[], "m1,m2,m3 -> m1,m2,m3"),
        (
            &["m1", "gone"],
            &["m2", "lost"],
            "m1 -> m2; Provider cluster gone is not found; Consumer cluster lost is not found",
        ),
        (&["gone"], &["m2"], " -> m2; Provider cluster gone is not found"),
    ] {
        let of = service(json!({"types": ["CrossCluster"], "providerClusters": names(providers),
            "consumerClusters": names(consumers)}));
        let range = Range::of(&of, &clusters);
        let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        let arrow = format!("{} -> {}", join(&range.providers), join(&range.consumers));
        let found: Vec<String> = std::iter::once(arrow).chain(range.missing.clone()).collect();
        assert_eq!(found.join("; "), expected);
    }
    assert!(is_cross_cluster(&service(json!({"types": ["CrossCluster"]}))));
    assert!(!is_cross_cluster(&service(json!({"types": ["LoadBalancer"]}))));
}

#[test]
fn claims_and_releases() {
    let of = service(json!({"types": ["CrossCluster"]}));
    let template = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
        "uid": "s", "resourceVersion": "7", "labels": {"app": "web", "propagationpolicy.karmada.io/permanent-id": "p"},
        "annotations": {"propagationpolicy.karmada.io/name": "pp", "propagationpolicy.karmada.io/namespace": "shop"}}});
    let patch = claim(&of, &template).expect("a patch");
    assert_eq!(
        patch,
        json!({"metadata": {"uid": "s", "resourceVersion": "7",
            "labels": {"propagationpolicy.karmada.io/permanent-id": null,
                "resourcetemplate.karmada.io/claimed-by": "MultiClusterService",
                "multiclusterservice.karmada.io/permanent-id": "id"},
            "annotations": {"propagationpolicy.karmada.io/name": null, "propagationpolicy.karmada.io/namespace": null,
                "multiclusterservice.karmada.io/name": "web", "multiclusterservice.karmada.io/namespace": "shop"}}})
    );
    let mut claimed = template.clone();
    apimachinery::merge_patch::apply(&mut claimed, &patch);
    assert_eq!(claim(&of, &claimed), None);
    let key = ObjectKey::namespaced("shop", "web");
    let patch = release(&key, &claimed).expect("a patch");
    apimachinery::merge_patch::apply(&mut claimed, &patch);
    assert_eq!(claimed["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(release(&key, &claimed), None);
    assert_eq!(release(&key, &template), None, "a claim of a policy is not ours to release");
}

#[test]
fn the_binding_of_the_service() {
    let of = service(
        json!({"types": ["CrossCluster"], "providerClusters": names(&["m2"]), "consumerClusters": names(&["m1"])}),
    );
    let range = Range::of(&of, &["m1", "m2"].map(str::to_owned).into());
    let mut template = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "s",
        "resourceVersion": "7"}, "spec": {"ports": [{"port": 80}]}});
    let built = binding(&of, Template(&template), &range);
    let shown = json!(built);
    assert_eq!(
        (&shown["metadata"]["name"], &shown["metadata"]["labels"], &shown["metadata"]["finalizers"]),
        (
            &json!("web-service"),
            &json!({"binding.karmada.io/managed-by": "MultiClusterService", "multiclusterservice.karmada.io/permanent-id": "id"}),
            &json!(["karmada.io/binding-controller"])
        )
    );
    assert_eq!(
        shown["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s"}])
    );
    assert_eq!(shown["spec"]["placement"], json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}));
    assert_eq!(shown["spec"]["conflictResolution"], "Overwrite");
    let key = ObjectKey::namespaced("shop", "web");
    let released = release_binding(&key, &shown).expect("a release");
    assert_eq!(released["metadata"]["labels"]["binding.karmada.io/managed-by"], Value::Null);
    assert!(!released["metadata"].as_object().expect("a map").contains_key("finalizers"), "{released}");
    assert_eq!(release_binding(&ObjectKey::namespaced("shop", "other"), &shown), None);

    // The scheduler's result stays, and a status of the Service is no change.
    let mut stored = built.clone();
    stored.spec.clusters = serde_json::from_value(json!([{"name": "m1"}])).expect("clusters");
    template["metadata"]["resourceVersion"] = json!("8");
    template["status"] = json!({"loadBalancer": {}});
    assert_eq!(merged(&stored, binding(&of, Template(&template), &range)).expect("ours"), None);
    template["spec"]["ports"][0]["port"] = json!(81);
    let changed = merged(&stored, binding(&of, Template(&template), &range)).expect("ours").expect("a change");
    assert_eq!((changed.spec.resource.resource_version.as_str(), changed.spec.clusters.len()), ("8", 1));

    // A binding created by a policy is taken over.
    let mut policys = stored.clone();
    policys.metadata.labels = [("propagationpolicy.karmada.io/permanent-id".to_owned(), "p".to_owned())].into();
    policys.metadata.annotations = [("propagationpolicy.karmada.io/name".to_owned(), "pp".to_owned())].into();
    assert_eq!(release_binding(&key, &json!(policys)), None);
    let taken = merged(&policys, binding(&of, Template(&template), &range)).expect("ours").expect("a change");
    assert!(!taken.metadata.labels.contains_key("propagationpolicy.karmada.io/permanent-id"));
    assert!(!taken.metadata.annotations.contains_key("propagationpolicy.karmada.io/name"));
    assert_eq!(taken.metadata.labels["binding.karmada.io/managed-by"], "MultiClusterService");
}

#[test]
fn the_work_of_a_provider() {
    let of = service(json!({"types": ["CrossCluster"]}));
    let tree = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "shop", "uid": "m", "resourceVersion": "3"}, "spec": {"types": ["CrossCluster"]},
        "status": {"conditions": []}});
    let work = work(&of, &tree, &ClusterName::from("m1"), None);
    assert_eq!(work.metadata.name, names_of_work());
    assert_eq!((work.metadata.namespace.as_str(), work.spec.suspend_dispatching), ("karmada-es-m1", Some(true)));
    assert!(work.metadata.finalizers.is_empty(), "nothing is in the member");
    let object = Object::parse(work.spec.workload.manifests[0].get().to_owned()).expect("a manifest");
    assert_eq!((object.kind(), object.uid(), object.resource_version()), ("MultiClusterService", "", ""));
    let again = super::work(&of, &tree, &ClusterName::from("m1"), Some(&work));
    assert_eq!(again, work);
}

fn names_of_work() -> String {
    karmada_api::names::work_name("MultiClusterService", "web", "shop")
}

#[test]
fn texts_of_conditions() {
    let shown = |it: Condition| format!("{}={} {} {}", it.type_, it.status, it.reason, it.message);
    for (condition, expected) in [
        (
            service_applied(None, 1),
            "ServiceApplied=True ServiceAppliedSucceed Service is propagated to target clusters.",
        ),
        (service_applied(Some("why"), 1), "ServiceApplied=False ServiceAppliedFailed why"),
        (
            slices_dispatched(None, 1),
            "EndpointSliceDispatched=True EndpointSliceDispatchedSucceed EndpointSlice are dispatched successfully",
        ),
        (slices_dispatched(Some("why"), 1), "EndpointSliceDispatched=False EndpointSliceDispatchedFailed why"),
    ] {
        assert_eq!(shown(condition), expected);
    }
}
