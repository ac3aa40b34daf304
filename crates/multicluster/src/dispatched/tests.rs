use super::*;

/// A collected Work: `m1/web-1`, with `-` before it while it is being deleted, and `!` where no MultiClusterService
/// requires it.
fn source(text: &str) -> Work {
    let (deleting, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (export_only, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
    let (cluster, slice) = text.split_once('/').expect("a cluster and a slice");
    let managed_by = if export_only { "ServiceExport" } else { "ServiceExport.MultiClusterService" };
    let mut value = json!({
        "metadata": {"name": work::name(slice, "shop"), "namespace": format!("karmada-es-{cluster}"),
            "labels": {"endpointslice.karmada.io/managed-by": managed_by},
            "finalizers": [finalizers::MCS_ENDPOINT_SLICE_DISPATCH]},
        "spec": {"workload": {"manifests": [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": slice, "namespace": "shop", "generateName": "web-", "annotations": {"a": "b"}},
            "addressType": "IPv4", "endpoints": [{"addresses": [format!("10.0.0.{}", cluster.len())]}]}]}}});
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(value).expect("a Work")
}

fn range(text: &str) -> Range {
    let (providers, consumers) = text.split_once('>').expect("an arrow");
    let set = |text: &str| text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
    Range { providers: set(providers), consumers: set(consumers), missing: Vec::new() }
}

fn planned(range: Option<&Range>, sources: &[Work], copies: &[Work], consumer: Consumer) -> Plan {
    let service = ObjectKey::namespaced("shop", "web");
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    for work in sources.iter().chain(copies) {
        taken.insert((work.metadata.namespace.clone(), work.metadata.name.clone()));
    }
    let is_taken = |namespace: &str, name: &str| taken.contains(&(namespace.to_owned(), name.to_owned()));
    plan(&Input { service: &service, range, sources, copies, consumer: &|_| consumer, is_taken: &is_taken })
}

/// `m1-web-1@m2` for each Work.
fn places(works: &[Work]) -> String {
    let place = |work: &Work| {
        let cluster = names::cluster_of_namespace(&work.metadata.namespace).expect("a cluster");
        format!("{}@{cluster}", object_of(work).expect("an object"))
    };
    works.iter().map(place).collect::<Vec<_>>().join(" ")
}

#[test]
fn slices_are_dispatched_to_consumers() {
    for (range_text, sources, existing, expected) in [
        ("m1>m2", &["m1/web-1"][..], &[][..], "+ m1-web-1@m2"),
        ("m1,m2>m2", &["m1/web-1", "m2/web-2"], &[], "+ m1-web-1@m2"),
        ("m1,m2>m1,m2", &["m1/web-1", "m2/web-2"], &[], "+ m2-web-2@m1 m1-web-1@m2"),
        ("m1,m2>m3", &["m1/web-1", "m1/web-3", "m2/web-2"], &[], "+ m1-web-1@m3 m1-web-3@m3 m2-web-2@m3"),
        ("m1>m1", &["m1/web-1"], &[], ""),
        ("m2>m3", &["m1/web-1"], &[], ""),
        ("m1>m2", &["!m1/web-1"], &["m1/web-1>m2"], "- m1-web-1@m2 released m1"),
        ("m1>m2", &["-m1/web-1"], &["m1/web-1>m2"], "- m1-web-1@m2 released m1"),
        ("m1>m3", &["m1/web-1"], &["m1/web-1>m2"], "+ m1-web-1@m3 - m1-web-1@m2"),
        ("m2>m3", &["m1/web-1"], &["m1/web-1>m3"], "- m1-web-1@m3"),
        ("m1>m2", &[], &["m1/web-1>m2"], "- m1-web-1@m2"),
        ("m1>m2", &["m1/web-1"], &["m1/web-1>m2"], ""),
    ] {
        let sources: Vec<Work> = sources.iter().map(|text| source(text)).collect();
        let copies: Vec<Work> = existing.iter().flat_map(|text| copies(text)).collect();
        let plan = planned(Some(&range(range_text)), &sources, &copies, Consumer::Ready);
        let mut found = Vec::new();
        for (sign, works) in [("+", &plan.creates), ("~", &plan.updates), ("-", &plan.deletes)] {
            if !works.is_empty() {
                found.push(format!("{sign} {}", places(works)));
            }
        }
        let released = plan.released.iter().filter_map(|it| names::cluster_of_namespace(&it.metadata.namespace));
        found.extend(released.map(|cluster| format!("released {cluster}")));
        assert_eq!(found.join(" "), expected, "{range_text} {existing:?}");
    }
}

/// The copies of a source: `m1/web-1>m2`.
fn copies(text: &str) -> Vec<Work> {
    let (from, to) = text.split_once('>').expect("an arrow");
    let provider = from.split_once('/').expect("a cluster").0;
    planned(Some(&range(&format!("{provider}>{to}"))), &[source(from)], &[], Consumer::Ready).creates
}

#[test]
fn a_deleted_service_leaves_no_slices() {
    let (sources, copies) = ([source("m1/web-1")], copies("m1/web-1>m2,m3"));
    let plan = planned(None, &sources, &copies, Consumer::NotReady);
    assert_eq!((places(&plan.deletes).as_str(), plan.released.len()), ("m1-web-1@m2 m1-web-1@m3", 0));
}

#[test]
fn unready_consumers_keep_their_slices() {
    let (sources, copies) = ([source("m1/web-1"), source("m1/web-2")], copies("m1/web-1>m2"));
    let range = range("m1>m2");
    let plan = planned(Some(&range), &sources, &copies, Consumer::NotReady);
    assert!(plan.is_empty(), "{plan:?}");
    let plan = planned(Some(&range), &sources, &copies, Consumer::Incompatible);
    assert!(plan.is_empty() && plan.incompatible == ["m2"], "{plan:?}");
    let plan = planned(Some(&range), &sources, &copies, Consumer::Leaving);
    assert_eq!((places(&plan.deletes).as_str(), plan.creates.len()), ("m1-web-1@m2", 0));
}

#[test]
fn a_copy_is_as_upstream_writes_it() {
    let copy = copies("m1/web-1>m2").remove(0);
    assert_eq!(copy.metadata.name, work::name("web-1", "shop"), "the name of the collected Work");
    assert_eq!(
        (json!(copy.metadata.labels), json!(copy.metadata.annotations), json!(copy.metadata.finalizers)),
        (
            json!({"multiclusterservice.karmada.io/namespace": "shop", "multiclusterservice.karmada.io/name": "web"}),
            json!({"endpointslice.karmada.io/provision-cluster": "m1"}),
            json!(["karmada.io/execution-controller"])
        )
    );
    let mut slice = work::manifest(&copy).expect("JSON");
    let annotations = slice["metadata"]["annotations"].as_object_mut().expect("annotations");
    assert_eq!(annotations["endpointslice.karmada.io/provision-cluster"], "m1");
    assert!(!annotations.contains_key("a"));
    slice["metadata"]["annotations"] = Value::Null;
    assert_eq!(
        slice["metadata"],
        json!({"name": "m1-web-1", "namespace": "shop", "generateName": "web-", "annotations": null,
            "labels": {"kubernetes.io/service-name": "web", "karmada.io/managed": "true",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io"}})
    );
    assert_eq!(service_of(&copy), Some(ObjectKey::namespaced("shop", "web")));
    assert_eq!(service_of(&source("m1/web-1")), None);
}

#[test]
fn equal_slice_names_do_not_collide() {
    // Two providers with slices of the same name, one of which consumes, too.
    let sources = [source("m1/web-1"), source("m2/web-1")];
    let to_third = planned(Some(&range("m1,m2>m3")), &sources, &[], Consumer::Ready);
    let names_of = |plan: &Plan| plan.creates.iter().map(|it| it.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names_of(&to_third), [work::name("web-1", "shop"), work::name("m2-web-1", "shop")]);
    assert_eq!(places(&to_third.creates), "m1-web-1@m3 m2-web-1@m3");
    let settled = planned(Some(&range("m1,m2>m3")), &sources, &to_third.creates, Consumer::Ready);
    assert!(settled.is_empty(), "{settled:?}");
    // The second keeps its name when the first is removed.
    let left = planned(Some(&range("m2>m3")), &sources, &to_third.creates, Consumer::Ready);
    assert_eq!((places(&left.deletes).as_str(), left.creates.len(), left.updates.len()), ("m1-web-1@m3", 0, 0));
    let to_each = planned(Some(&range("m1,m2>m1,m2")), &sources, &[], Consumer::Ready);
    assert_eq!(names_of(&to_each), [work::name("m2-web-1", "shop"), work::name("m1-web-1", "shop")]);

    // Cluster and slice names that would yield the same name of a copy.
    let sources = [source("a/b-c"), source("a-b/c")];
    let plan = planned(Some(&range("a,a-b>m3")), &sources, &[], Consumer::Ready);
    let objects: BTreeSet<_> = plan.creates.iter().filter_map(object_of).collect();
    assert_eq!((objects.len(), plan.nameless.len()), (2, 0), "{objects:?}");
    let settled = planned(Some(&range("a,a-b>m3")), &sources, &plan.creates, Consumer::Ready);
    assert!(settled.is_empty(), "{settled:?}");
}
