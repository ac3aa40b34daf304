use serde_json::json;

use super::*;

fn slice(name: &str, managed_by: &str, address: &str) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "5", "generateName": "web-",
            "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": managed_by}},
        "endpoints": [{"addresses": [address]}]})
}

fn work(slice_name: &str, managed_by: &str) -> Work {
    let service = ObjectKey::namespaced("shop", "web");
    let mut work = Work::named(&ObjectKey::namespaced("karmada-es-m1", work::name(slice_name, "shop")));
    work.metadata.labels.insert(labels::WORK_ID.to_owned(), "id".to_owned());
    fill(&mut work, &service, Collectors::parse(managed_by), Some(&slice(slice_name, KUBERNETES, "10.0.0.1")));
    work
}

/// The changes in words, one for each.
fn shown(export: Demand, multi_cluster: Demand, slices: Option<&[Value]>, works: &[Work], taken: &[&str]) -> String {
    let (cluster, service) = (ClusterName::from("m1"), ObjectKey::namespaced("shop", "web"));
    let input = Input { cluster: &cluster, service: &service, export, multi_cluster, slices, works };
    let show = |change: &Change| {
        let text = |work: &Work| format!("{} by {}", work.metadata.name, Collectors::of(work).label());
        match change {
            Change::Create(work) => format!("create {}", text(work)),
            Change::Update { work, takes_off: false } => format!("update {}", text(work)),
            Change::Update { work, takes_off: true } => format!("take off, leaving {}", text(work)),
            Change::Delete { work, proof: Proof::SliceGone(slice) } => {
                format!("delete {} if {slice} is gone", work.metadata.name)
            }
            Change::Delete { work, proof } => format!("delete {} if {proof:?}", work.metadata.name),
        }
    };
    plan(input, |name| taken.contains(&name)).iter().map(show).collect::<Vec<_>>().join("; ")
}

#[test]
fn labels_are_sets() {
    for (label, export, service, written) in [
        ("ServiceExport", true, false, "ServiceExport"),
        ("MultiClusterService.ServiceExport", true, true, "ServiceExport.MultiClusterService"),
        ("MultiClusterService", false, true, "MultiClusterService"),
        ("ServiceExports", false, false, ""),
    ] {
        let parsed = Collectors::parse(label);
        assert_eq!((parsed.export, parsed.service, parsed.label()), (export, service, written.to_owned()), "{label}");
    }
}

#[test]
fn slices_are_collected_on_demand() {
    use Demand::{Active, Ended, Unknown};
    let from_kubernetes = [slice("web-1", KUBERNETES, "10.0.0.1")];
    let from_other = [slice("web-1", "a-controller", "10.0.0.1")];
    let dispatched = [slice("m2-web-9", labels::SLICE_MANAGED_BY_DISPATCH, "10.0.0.9")];
    let imported = [slice("imported-m2-web-9", labels::SLICE_MANAGED_BY_IMPORT, "10.0.0.9")];
    let changed = [slice("web-1", KUBERNETES, "10.0.0.7")];
    let name = work::name("web-1", "shop");
    let (by_export, by_both) = (work("web-1", "ServiceExport"), work("web-1", "MultiClusterService.ServiceExport"));
    let (create, update, off) =
        (format!("create {name} by "), format!("update {name} by "), format!("take off, leaving {name} by "));
    let both = "ServiceExport.MultiClusterService";
    for (export, service, slices, works, expected) in [
        (Active, Ended, Some(&from_kubernetes[..]), vec![], format!("{create}ServiceExport")),
        (Ended, Active, Some(&from_kubernetes), vec![], format!("{create}MultiClusterService")),
        (Active, Active, Some(&from_kubernetes), vec![], format!("{create}{both}")),
        (Active, Active, Some(&from_other), vec![], format!("{create}ServiceExport")),
        (Ended, Active, Some(&from_other), vec![], String::new()),
        (Active, Active, Some(&dispatched), vec![], String::new()),
        (Active, Active, Some(&imported), vec![], String::new()),
        (Active, Active, None, vec![], String::new()),
        (Unknown, Unknown, Some(&from_kubernetes), vec![], String::new()),
        (Active, Ended, Some(&from_kubernetes), vec![by_export.clone()], String::new()),
        (Active, Ended, Some(&changed), vec![by_export.clone()], format!("{update}ServiceExport")),
        (Active, Active, Some(&from_kubernetes), vec![by_export.clone()], format!("{update}{both}")),
        // The label of upstream's order stays.
        (Active, Active, Some(&from_kubernetes), vec![by_both.clone()], String::new()),
        (Unknown, Unknown, Some(&from_kubernetes), vec![by_both.clone()], String::new()),
        (Active, Ended, Some(&from_kubernetes), vec![by_both.clone()], format!("{off}ServiceExport")),
        (Ended, Active, None, vec![by_both.clone()], format!("{off}MultiClusterService")),
        (Ended, Ended, Some(&from_kubernetes), vec![by_both.clone()], format!("delete {name} if Ended")),
        (Ended, Ended, None, vec![by_export.clone()], format!("delete {name} if Ended")),
        (Ended, Unknown, Some(&from_kubernetes), vec![by_both.clone()], format!("{off}MultiClusterService")),
        (Active, Ended, None, vec![by_export.clone()], String::new()),
        (Active, Ended, Some(&[]), vec![by_export.clone()], format!("delete {name} if shop/web-1 is gone")),
    ] {
        let found = shown(export, service, slices, &works, &[]);
        let label = |work: &Work| Collectors::of(work).label();
        assert_eq!(
            found,
            expected,
            "{export:?} {service:?} {slices:?} {:?}",
            works.iter().map(label).collect::<Vec<_>>()
        );
    }
}

#[test]
fn names_are_unique_and_duplicates_removed() {
    let from_kubernetes = [slice("web-1", KUBERNETES, "10.0.0.1")];
    let usual = work::name("web-1", "shop");
    let other = work::name("m1-web-1", "shop");
    let found = shown(Demand::Active, Demand::Ended, Some(&from_kubernetes), &[], &[&usual]);
    assert_eq!(found, format!("create {other} by ServiceExport"));
    let mut double = work("web-1", "ServiceExport");
    double.metadata.name.clone_from(&other);
    let works = [double, work("web-1", "ServiceExport")];
    let found = shown(Demand::Active, Demand::Ended, Some(&from_kubernetes), &works, &[]);
    assert_eq!(found, format!("delete {other} if Double"));
}

#[test]
fn the_work_of_a_slice() {
    let work = work("web-1", "ServiceExport.MultiClusterService");
    assert_eq!(
        json!(work.metadata.labels),
        json!({"endpointslice.karmada.io/namespace": "shop", "endpointslice.karmada.io/name": "web",
            "endpointslice.karmada.io/managed-by": "ServiceExport.MultiClusterService",
            "multiclusterservice.karmada.io/namespace": "shop", "multiclusterservice.karmada.io/name": "web",
            "work.karmada.io/permanent-id": "id"})
    );
    assert_eq!(
        work.metadata.finalizers,
        ["karmada.io/endpointslice-controller", "karmada.io/mcs-endpointslice-dispatch-controller"]
    );
    assert_eq!(work.spec.suspend_dispatching, Some(true));
    let manifest = work::manifest(&work).expect("JSON");
    let metadata = manifest["metadata"].as_object().expect("metadata");
    let fields: Vec<&str> = metadata.keys().map(String::as_str).collect();
    assert_eq!(metadata.len(), 5, "server fields are pruned: {fields:?}");
    assert_eq!(
        service_of(|label| work.metadata.labels.get(label).cloned()),
        Some(ObjectKey::namespaced("shop", "web"))
    );
}
