use karmada_api::names;
use serde_json::json;

use super::*;

fn now() -> Time {
    Time::new("2026-01-02T03:04:05Z".parse().unwrap())
}

fn work(cluster: &str, applied: Option<bool>) -> Work {
    let mut work: Work = serde_json::from_value(json!({
        "metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")},
        "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "ns"}}]}},
        "status": {"manifestStatuses": [{"identifier": {"ordinal": 0}, "health": "Healthy", "status": {"replicas": 1}}]},
    }))
    .unwrap();
    if let Some(holds) = applied {
        let errors = if holds { vec![] } else { vec!["boom".to_owned()] };
        set_condition(&mut work.status.conditions, self::applied(0, 1, &errors), now());
    }
    work
}

fn aggregate(resource: &ObjectReference, works: &[Work]) -> Option<Vec<AggregatedStatusItem>> {
    let parts: Result<Vec<_>, _> = works.iter().map(|work| Contribution::of(resource, work)).collect();
    let mut items: Vec<_> = parts.ok()?.into_iter().flatten().map(|part| part.item).collect();
    items.sort_by(|left, right| left.cluster_name.cmp(&right.cluster_name));
    Some(items)
}

fn standings(works: &[Work]) -> BTreeMap<&str, Standing> {
    let works = works.iter().filter(|work| work.metadata.deletion_timestamp.is_none());
    works
        .filter_map(|work| Some((names::cluster_of_namespace(&work.metadata.namespace)?, Standing::of(work))))
        .collect()
}

fn resource() -> ObjectReference {
    ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
        ..Default::default()
    }
}

#[test]
fn works_are_aggregated_into_items_and_a_condition() {
    let works = [work("m2", Some(true)), work("m1", Some(false)), work("m3", None)];
    let items = aggregate(&resource(), &works).unwrap();
    let short: Vec<String> = items
        .iter()
        .map(|it| format!("{} {} {:?} {}", it.cluster_name, it.applied, it.health.unwrap(), it.applied_message))
        .collect();
    assert_eq!(
        short,
        ["m1 false Unknown Failed to apply all manifests (0/1): boom", "m2 true Healthy ", "m3 false Unknown ",]
    );
    assert_eq!(items[1].status.as_ref().unwrap().get(), r#"{"replicas":1}"#);
    let spec = |clusters: &[&str]| ResourceBindingSpec {
        clusters: clusters
            .iter()
            .map(|name| karmada_api::work::v1alpha2::TargetCluster { name: (*name).to_owned(), ..Default::default() })
            .collect(),
        ..Default::default()
    };
    for (clusters, works, expected) in [
        (&["m2"][..], &works[..1], "True"),
        (&["m1", "m2"], &works[..1], "False"),
        (&["m1"], &works[..1], "False"),
        (&[], &[], "False"),
        (&["m1", "m2", "m3"], &works[..], "False"),
    ] {
        let condition = fully_applied(&spec(clusters), &standings(works), &BTreeMap::new());
        assert_eq!(condition.status, expected, "{clusters:?}");
    }
}

/// Upstream's message if every cluster failed; otherwise the missing clusters with the reasons.
#[test]
fn the_condition_names_failed_clusters_and_reasons() {
    let suspended = |cluster: &str, applied| {
        let mut work = work(cluster, applied);
        work.spec.suspend_dispatching = Some(true);
        work
    };
    let held = |cluster: &str| {
        let mut work = work(cluster, None);
        set_condition(&mut work.status.conditions, resume::work_waits(cluster), now());
        work
    };
    let items = aggregate(&resource(), &[held("m2")]).unwrap();
    assert!(!items[0].applied && items[0].status.is_some(), "it is observed all the same");
    let mut leaving = work("m9", Some(true));
    leaving.metadata.deletion_timestamp = Some(now());
    let all: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
    let broken = "Apply override policy(ns/o) for cluster(m1) failed: replace /spec/x: no such path";
    let details = "; see status.aggregatedStatus for details";
    for (clusters, works, unrendered, expected) in [
        ("", vec![], "", "No cluster is assigned, so nothing is applied".to_owned()),
        ("m1 m2", vec![work("m1", Some(false)), work("m2", Some(false))], "", messages::NOT_FULLY_APPLIED.to_owned()),
        (
            "m1 m2",
            vec![work("m1", Some(false)), work("m2", Some(true))],
            "",
            format!("Applied in 1 of 2 clusters; failed in m1{details}"),
        ),
        (
            "m1 m2",
            vec![suspended("m1", None), work("m2", Some(true))],
            "",
            format!("Applied in 1 of 2 clusters; dispatching is suspended for m1{details}"),
        ),
        ("m1", vec![suspended("m1", Some(true))], "", messages::FULLY_APPLIED.to_owned()),
        (
            "m1 m2",
            vec![suspended("m1", Some(false)), work("m2", None)],
            "",
            format!("Applied in 0 of 2 clusters; dispatching is suspended for m1; waiting for m2{details}"),
        ),
        (
            "m1 m2",
            vec![work("m1", Some(true)), work("m2", Some(true)), work("m3", Some(true))],
            "",
            format!("Applied in 2 of 2 clusters; being removed from m3{details}"),
        ),
        ("m1", vec![work("m1", Some(true)), leaving], "", messages::FULLY_APPLIED.to_owned()),
        (
            "m1 m2",
            vec![work("m1", Some(true)), work("m2", Some(true))],
            "m1",
            format!("Applied in 1 of 2 clusters; failed in m1; {broken}{details}"),
        ),
        (
            "m1 m2",
            vec![work("m1", Some(true)), held("m2")],
            "",
            format!("Applied in 1 of 2 clusters; held until resumed in m2{details}"),
        ),
        ("m1", vec![], "m1", format!("Applied in 0 of 1 clusters; failed in m1; {broken}{details}")),
        (
            all.join(" ").as_str(),
            vec![],
            "",
            format!("Applied in 0 of 8 clusters; waiting for m0, m1, m2, m3, m4 and 3 more{details}"),
        ),
    ] {
        let unrendered: BTreeMap<ClusterName, String> =
            unrendered.split_whitespace().map(|cluster| (ClusterName::from(cluster), broken.to_owned())).collect();
        let targets = clusters.split_whitespace().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let spec: ResourceBindingSpec = serde_json::from_value(json!({"clusters": targets})).unwrap();
        let condition = fully_applied(&spec, &standings(&works), &unrendered);
        assert_eq!(condition.message, expected, "{clusters}");
        assert_eq!(condition.status == "True", expected == messages::FULLY_APPLIED, "{clusters}");
    }
}

#[test]
fn unrendered_works_keep_their_old_status() {
    let mut items = aggregate(&resource(), &[work("m2", Some(true))]).unwrap();
    let why = |cluster: &str| (ClusterName::from(cluster), "broken".to_owned());
    mark_unrendered(&mut items, &[why("m1"), why("m2")].into_iter().collect());
    let short: Vec<_> = items
        .iter()
        .map(|it| (it.cluster_name.as_str(), it.applied, it.applied_message.as_str(), it.status.is_some()))
        .collect();
    assert_eq!(short, [("m1", false, "broken", false), ("m2", false, "broken", true)]);
}

#[test]
fn the_status_is_reflected() {
    let interpreter = Interpreter::default();
    let observed = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "ns", "generation": 1, "annotations": {"resourcetemplate.karmada.io/generation": "1"}},
        "spec": {"replicas": 1}, "status": {"replicas": 1}});
    let reflected = reflect(&work("m1", None), Template(&observed), &interpreter).unwrap();
    assert_eq!(reflected.manifest_status.health, Some(ResourceHealth::Unhealthy));
    assert_eq!(reflected.manifest_status.identifier.group, "apps");
    let mut other = observed;
    other["metadata"]["name"] = json!("b");
    let missing = reflect(&work("m1", None), Template(&other), &interpreter);
    assert!(matches!(missing, Err(ReflectError::NoManifest { .. })));
}

#[test]
fn conditions_record_their_transitions() {
    let mut list = Vec::new();
    assert!(set_condition(&mut list, applied(1, 1, &[]), now()));
    assert!(!set_condition(&mut list, applied(1, 1, &[]), Time::new("2027-01-01T00:00:00Z".parse().unwrap())));
    assert_eq!(list[0].last_transition_time, Some(now()));
    let mut work = work("m1", None);
    assert_eq!(dispatching(&work).unwrap().status, "True");
    work.status.conditions.push(dispatching(&work).unwrap());
    assert_eq!(dispatching(&work), None);
    work.spec.suspend_dispatching = Some(true);
    assert_eq!(dispatching(&work).unwrap().reason, "SuspendDispatching");
}

#[test]
fn which_works_and_which_manifests_count() {
    let mut leaving = work("m2", Some(true));
    leaving.metadata.deletion_timestamp = Some(now());
    let items = aggregate(&resource(), &[work("m1", Some(true)), leaving]).unwrap();
    assert_eq!(items.iter().map(|item| item.cluster_name.as_str()).collect::<Vec<_>>(), ["m1"]);
    // Overrides may change the identity of a copy. The fields of another kind are not those of the template.
    let of = |other: ObjectReference| {
        let items = aggregate(&other, &[work("m1", Some(true))]).unwrap();
        (items[0].health, items[0].status.is_some())
    };
    let healthy = Some(ResourceHealth::Healthy);
    assert_eq!(of(ObjectReference { namespace: "other".to_owned(), ..resource() }), (healthy, true));
    assert_eq!(of(ObjectReference { name: "b".to_owned(), ..resource() }), (healthy, true));
    assert_eq!(of(ObjectReference { api_version: "apps/v2".to_owned(), ..resource() }), (healthy, true));
    assert_eq!(of(ObjectReference { kind: "StatefulSet".to_owned(), ..resource() }), (healthy, false));
    // The state of a failed manifest is not reported.
    let failed = aggregate(&resource(), &[work("m1", Some(false))]).unwrap();
    assert_eq!(failed[0].status, None);
}
