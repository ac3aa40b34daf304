use std::sync::Arc;

use super::*;

fn clusters() -> BTreeMap<ClusterName, Arc<Cluster>> {
    ["m1", "m2"].map(|name| (ClusterName::from(name), Arc::new(Cluster::named(&ObjectKey::cluster(name))))).into()
}

fn binding(spec: Value) -> Binding {
    let mut binding = Binding::named(&ObjectKey::namespaced("default", "nginx-deployment"));
    binding.metadata.labels.insert(labels::BINDING_ID.to_owned(), "rb-id".to_owned());
    binding.spec = serde_json::from_value(spec).unwrap();
    binding
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "uid": "u1", "generation": 2, "resourceVersion": "5"},
        "spec": {"replicas": 3}, "status": {"replicas": 9},
    })
}

fn rendered(binding: &Binding, template: &Value) -> Vec<Result<Rendered, Error>> {
    let (interpreter, clusters) = (Interpreter::default(), clusters());
    let inputs = Inputs { interpreter: &interpreter, clusters: &clusters, overrides: &[], state_injection: true };
    render(binding, Template(template), inputs)
}

#[test]
fn a_work_for_each_target() {
    let binding = binding(json!({
        "replicas": 3, "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}],
        "suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}},
    }));
    let works = rendered(&binding, &deployment());
    let work = &works[1].as_ref().unwrap().work;
    assert_eq!(work.key().to_string(), "karmada-es-m2/nginx-687f7fb96f");
    assert_eq!(work.metadata.labels, BTreeMap::from([(labels::BINDING_ID.to_owned(), "rb-id".to_owned())]));
    assert_eq!(work.spec.suspend_dispatching, Some(false));
    assert_eq!(works[0].as_ref().unwrap().work.spec.suspend_dispatching, Some(true));
    let manifest = work.spec.workload.manifests[0].to_value().unwrap();
    assert_eq!(manifest["spec"]["replicas"], 2);
    assert!(manifest.get("status").is_none() && manifest["metadata"].get("uid").is_none());
    assert_eq!(
        manifest["metadata"]["annotations"],
        json!({
            "resourcebinding.karmada.io/name": "nginx-deployment",
            "resourcebinding.karmada.io/namespace": "default",
            "resourcetemplate.karmada.io/generation": "2",
            "resourcetemplate.karmada.io/managed-annotations": "resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace,resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
            "resourcetemplate.karmada.io/managed-labels": "karmada.io/managed,resourcebinding.karmada.io/permanent-id",
            "resourcetemplate.karmada.io/uid": "u1",
            "work.karmada.io/conflict-resolution": "abort",
            "work.karmada.io/name": "nginx-687f7fb96f",
            "work.karmada.io/namespace": "karmada-es-m2",
        })
    );
}

#[test]
fn a_stored_work_is_written_once() {
    let binding = binding(json!({"replicas": 1, "clusters": [{"name": "m1", "replicas": 1}]}));
    let work = rendered(&binding, &deployment()).remove(0).unwrap().work;
    // As admission does on create.
    let mut stored = work.clone();
    stored.metadata.labels.insert(labels::WORK_ID.to_owned(), "w1".to_owned());
    let mut manifest = stored.spec.workload.manifests[0].to_value().unwrap();
    karmada_api::manifest::prepare(&mut manifest, "w1");
    stored.spec.workload.manifests = vec![RawJson::from_value(&manifest)];
    assert_eq!(merge(&stored, work.clone()).unwrap(), None);

    let mut more = deployment();
    more["spec"]["paused"] = json!(true);
    let merged = merge(&stored, rendered(&binding, &more).remove(0).unwrap().work).unwrap().unwrap();
    let prepared = merged.spec.workload.manifests[0].get().to_owned();
    let mut again = merged.spec.workload.manifests[0].to_value().unwrap();
    karmada_api::manifest::prepare(&mut again, "w1");
    assert_eq!(RawJson::from_value(&again).get(), prepared, "admission changes no byte");

    stored.metadata.deletion_timestamp = Some(apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().unwrap()));
    assert!(matches!(merge(&stored, work), Err(Error::Deleting(_))));
}

#[test]
fn completions_are_divided() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"completions": 6, "parallelism": 3}});
    let binding = binding(json!({
        "replicas": 3, "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
        "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}],
    }));
    let specs: Vec<Value> = rendered(&binding, &job)
        .into_iter()
        .map(|it| it.unwrap().work.spec.workload.manifests[0].to_value().unwrap()["spec"].clone())
        .collect();
    assert_eq!(specs[0], json!({"completions": 2, "parallelism": 1}));
    assert_eq!(specs[1], json!({"completions": 4, "parallelism": 2}));
}

#[test]
fn preserved_labels_go_to_the_replacement() {
    let task = |purge: &str, before: Value| {
        json!({"fromCluster": "m9", "purgeMode": purge, "clustersBeforeFailover": before,
            "preservedLabelState": {"kept": "3"}})
    };
    let later = json!({"fromCluster": "m8", "purgeMode": "Never"});
    let (direct, required) = (task("Directly", json!(["m9"])), json!([{"name": "x", "clusters": [{"name": "m2"}]}]));
    for (clusters, required_by, tasks, expected) in [
        (json!([{"name": "m1"}]), json!([]), vec![direct.clone()], json!("3")),
        (json!([{"name": "m1"}]), json!([]), vec![task("Directly", Value::Null)], json!("3")),
        (json!([{"name": "m1"}]), json!([]), vec![task("Directly", json!(["m1"]))], Value::Null),
        (json!([{"name": "m1"}]), json!([]), vec![task("Gracefully", json!([]))], json!("3")),
        (json!([{"name": "m1"}]), json!([]), vec![task("Never", json!(["m9"]))], json!("3")),
        (json!([{"name": "m1"}]), json!([]), vec![task("Gracefully", json!(["m1"]))], Value::Null),
        (json!([{"name": "m1"}]), json!([]), vec![direct.clone(), later], Value::Null),
        (json!([{"name": "m1"}, {"name": "m2"}]), json!([]), vec![direct.clone()], Value::Null),
        (json!([{"name": "m1"}]), required, vec![direct], Value::Null),
    ] {
        let spec = json!({"clusters": clusters, "requiredBy": required_by, "gracefulEvictionTasks": tasks});
        let work = rendered(&binding(spec.clone()), &deployment()).remove(0).unwrap().work;
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        assert_eq!(manifest["metadata"]["labels"]["kept"], expected, "{spec}");
    }
}

/// The schedule determines replicas, except for overrides; objects that are not workloads are copied unchanged.
#[test]
fn replicas_are_those_of_the_schedule() {
    for (spec, expected) in [
        (json!({"replicas": 3, "clusters": [{"name": "m1", "replicas": 5}]}), 5),
        (json!({"replicaRequirements": {}, "clusters": [{"name": "m1"}]}), 0),
        (json!({"components": [{"name": "a", "replicas": 1}], "clusters": [{"name": "m1", "replicas": 2}]}), 2),
        (json!({"clusters": [{"name": "m1", "replicas": 5}]}), 3),
        (json!({"requiredBy": [{"name": "x", "clusters": [{"name": "m1", "replicas": 5}]}]}), 3),
    ] {
        let work = rendered(&binding(spec.clone()), &deployment()).remove(0).unwrap().work;
        assert_eq!(work.spec.workload.manifests[0].to_value().unwrap()["spec"]["replicas"], expected, "{spec}");
    }
}

#[test]
fn the_template_decides_conflicts_before_the_policy() {
    for (template, policy, expected) in [
        (Value::Null, Value::Null, "abort"),
        (Value::Null, json!("Abort"), "abort"),
        (Value::Null, json!("Overwrite"), "overwrite"),
        (json!("abort"), json!("Overwrite"), "abort"),
        (json!("overwrite"), json!("Abort"), "overwrite"),
        (json!("Overwrite"), json!("Abort"), "abort"),
        (json!("other"), json!("Overwrite"), "overwrite"),
    ] {
        let mut object = deployment();
        object["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": template});
        let binding = binding(json!({"conflictResolution": policy, "clusters": [{"name": "m1"}]}));
        let work = rendered(&binding, &object).remove(0).unwrap().work;
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        let key = "work.karmada.io/conflict-resolution";
        assert_eq!(work.metadata.annotations[key], expected, "{template} {policy}");
        assert_eq!(manifest["metadata"]["annotations"][key], expected, "{template} {policy}");
    }
}

#[test]
fn an_override_settles_conflicts_for_one_cluster() {
    let mut policy = Override::named(&ObjectKey::namespaced("default", "p"));
    policy.spec = serde_json::from_value(json!({"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]},
        "overriders": {"annotationsOverrider": [{"operator": "add",
            "value": {"work.karmada.io/conflict-resolution": "overwrite"}}]}}]}))
    .unwrap();
    let (interpreter, clusters) = (Interpreter::default(), clusters());
    let inputs =
        Inputs { interpreter: &interpreter, clusters: &clusters, overrides: &[policy], state_injection: false };
    let binding = binding(json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}));
    let words = render(&binding, Template(&deployment()), inputs).into_iter().map(|rendered| {
        let work = rendered.unwrap().work;
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        let on_manifest = manifest["metadata"]["annotations"][annotations::CONFLICT_RESOLUTION].clone();
        (json!(work.metadata.annotations[annotations::CONFLICT_RESOLUTION]), on_manifest)
    });
    let both = |word: &str| (json!(word), json!(word));
    assert_eq!(words.collect::<Vec<_>>(), [both("overwrite"), both("abort")]);
}

#[test]
fn works_of_removed_clusters_are_orphans() {
    let binding = binding(json!({
        "clusters": [{"name": "m1"}],
        "requiredBy": [{"name": "other", "clusters": [{"name": "m2", "replicas": 7}, {"name": "m1", "replicas": 9}]}],
        "gracefulEvictionTasks": [{"fromCluster": "m3", "purgeMode": "Gracefully"}, {"fromCluster": "m4", "purgeMode": "Directly"}],
    }));
    let names: Vec<(String, i32)> =
        targets(&binding.spec).into_iter().map(|target| (target.name, target.replicas)).collect();
    assert_eq!(names, [("m1".to_owned(), 0), ("m2".to_owned(), 7)]);
    let works = ["m1", "m3", "m4", "m5"].map(|cluster| WorkKey::new(&ClusterName::from(cluster), "w"));
    let gone: Vec<String> = orphans(&binding.spec, &works).iter().map(ToString::to_string).collect();
    assert_eq!(gone, ["karmada-es-m4/w", "karmada-es-m5/w"]);
    assert!(waits_for_purge(&binding.spec, &works));
    assert!(!waits_for_purge(&binding.spec, &works[..2]));
    let failed = rendered(&self::binding(json!({"clusters": [{"name": "gone"}, {"name": "m1"}]})), &deployment());
    assert!(failed[0].is_err() && failed[1].is_ok());
    let clusters = json!([{"name": "gone"}, {"name": "m1"}]);
    let required = json!({"requiredBy": [{"namespace": "default", "name": "w", "clusters": clusters}]});
    assert_eq!(rendered(&self::binding(required), &deployment()).len(), 1, "dependents left it with their cluster");
}

#[test]
fn works_of_former_names_are_replaced() {
    let mut policy = Override::named(&ObjectKey::namespaced("default", "p"));
    policy.spec = serde_json::from_value(json!({"overrideRules": [{"overriders": {"plaintext": [
        {"path": "/metadata/name", "operator": "replace", "value": "renamed"}]}}]}))
    .unwrap();
    let (interpreter, clusters) = (Interpreter::default(), clusters());
    let works = |overrides: &[Override], clusters_of: Value| -> Vec<Work> {
        let inputs = Inputs { interpreter: &interpreter, clusters: &clusters, overrides, state_injection: false };
        let binding = binding(json!({"clusters": clusters_of}));
        let rendered = render(&binding, Template(&deployment()), inputs);
        rendered.into_iter().map(|rendered| rendered.unwrap().work).collect()
    };
    let keys = |works: &[Work]| works.iter().map(|work| WorkKey::of_work(work).unwrap()).collect::<Vec<_>>();
    let both = json!([{"name": "m1"}, {"name": "m2"}]);
    let (former, renamed) = (works(&[], both.clone()), works(&[policy], both));
    let (m1, other) = (&former[0], &renamed[0]);
    let mut unnamed = m1.clone();
    unnamed.metadata.name = "by-another-version".into();
    for (what, work, rendered, expected) in [
        ("its own", m1, keys(&former), false),
        ("of the former name", m1, keys(&renamed), true),
        ("of the changed name", other, keys(&former), true),
        ("in a cluster without one", m1, keys(&renamed[1..]), false),
        ("of an unknown naming", &unnamed, keys(&renamed), false),
    ] {
        assert_eq!(is_replaced(work, &rendered), expected, "{what}");
    }
}

#[test]
fn which_completions_are_divided() {
    let job = |kind: &str| {
        json!({"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "j", "namespace": "default"},
            "spec": {"completions": 6, "parallelism": 3}})
    };
    let spec = |replicas: i32, type_: &str| {
        json!({"replicas": replicas, "placement": {"replicaScheduling": {"replicaSchedulingType": type_}},
            "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}]})
    };
    for (kind, spec, expected) in [
        ("Job", spec(3, "Divided"), 2),
        ("Job", spec(3, "Duplicated"), 6),
        ("Job", spec(0, "Divided"), 6),
        ("Task", spec(3, "Divided"), 6),
        ("Job", json!({"replicas": 3, "clusters": [{"name": "m1", "replicas": 1}]}), 6),
    ] {
        let work = rendered(&binding(spec.clone()), &job(kind)).remove(0).unwrap().work;
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        assert_eq!(manifest["spec"]["completions"], expected, "{kind} {spec}");
    }
}

#[test]
fn works_carry_preservation_and_generation() {
    for (preserve, expected) in [(Value::Null, false), (json!(false), false), (json!(true), true)] {
        let binding = binding(json!({"preserveResourcesOnDeletion": preserve, "clusters": [{"name": "m1"}]}));
        let work = rendered(&binding, &deployment()).remove(0).unwrap().work;
        assert_eq!(work.spec.preserve_resources_on_deletion, Some(expected));
    }
    // Kinds without generations get no such annotation.
    let mut uncounted = deployment();
    uncounted["metadata"].as_object_mut().unwrap().remove("generation");
    let binding = binding(json!({"clusters": [{"name": "m1"}]}));
    let work = rendered(&binding, &uncounted).remove(0).unwrap().work;
    let manifest = work.spec.workload.manifests[0].to_value().unwrap();
    assert_eq!(manifest["metadata"]["annotations"].get(annotations::TEMPLATE_GENERATION), None);
}

#[test]
fn a_work_keeps_finalizers_and_owners_of_others() {
    let binding = binding(json!({"clusters": [{"name": "m1"}]}));
    let mut desired = rendered(&binding, &deployment()).remove(0).unwrap().work;
    desired.metadata.owner_references = vec![crate::binding::owner(Template(&deployment()))];
    let mut existing = desired.clone();
    existing.metadata.finalizers = vec!["z".to_owned()];
    let merged = merge(&existing, desired.clone()).unwrap().unwrap();
    assert_eq!(merged.metadata.finalizers, [finalizers::EXECUTION, "z"]);
    assert_eq!(merged.metadata.owner_references.len(), 1);
    existing.metadata.owner_references[0].uid = "u0".to_owned();
    let merged = merge(&existing, desired).unwrap().unwrap();
    let owners: Vec<&str> = merged.metadata.owner_references.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(owners, ["u0", "u1"]);
}
