//! Explanations of small states: the stored state, and the next step.

use std::sync::Arc;

use apimachinery::ObjectKey;
use karmada_api::scope::{Binding, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use scheduling::report::Report;
use scheduling::{Gates, Snapshot};
use serde_json::{Value, json};

use super::explanation::explanation_of;
use super::failing::Failing;
use super::live::{Live, Template};

/// Two clusters that serve Deployments and have room for ten replicas each.
fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy and ready to accept workloads"},
            {"type": "CompleteAPIEnablements", "status": "True"}],
        "resourceSummary": {"allocatable": {"cpu": "10", "pods": "10"}}}})
}

fn binding() -> Value {
    json!({"metadata": {"name": "web-deployment", "namespace": "shop", "generation": 2,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id", "resourcebinding.karmada.io/permanent-id": "b"},
            "annotations": {"propagationpolicy.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}, "replicas": 2,
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]},
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}},
            "clusters": [{"name": "m1", "replicas": 2}]},
        "status": {"schedulerObservedGeneration": 2, "lastScheduledTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "Binding has been scheduled successfully."},
                {"type": "FullyApplied", "status": "True", "reason": "FullyAppliedSuccess", "message": "All works have been successfully applied"}],
            "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}]}})
}

fn work(cluster: &str, conditions: Value) -> Value {
    json!({"metadata": {"name": "web-1", "namespace": format!("karmada-es-{cluster}")}, "spec": {}, "status": {"conditions": conditions}})
}

fn applied() -> Value {
    json!([{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "Manifest has been successfully applied"}])
}

/// A state: changed by merge patches from one in which all is well.
struct Fixture {
    clusters: Vec<Value>,
    binding: Value,
    works: Vec<Value>,
    template: Value,
    policies: Vec<Value>,
    failing: Option<Failing>,
}

impl Default for Fixture {
    fn default() -> Self {
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}});
        let policy = json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], "placement": {}}});
        Self {
            clusters: vec![cluster("m1"), cluster("m2")],
            binding: binding(),
            works: vec![work("m1", applied())],
            template,
            policies: vec![policy],
            failing: None,
        }
    }
}

impl Fixture {
    fn binding(mut self, patch: Value) -> Self {
        apimachinery::merge_patch::apply(&mut self.binding, &patch);
        self
    }

    fn cluster(mut self, index: usize, patch: Value) -> Self {
        apimachinery::merge_patch::apply(&mut self.clusters[index], &patch);
        self
    }

    fn works(mut self, works: Vec<Value>) -> Self {
        self.works = works;
        self
    }

    fn unbound(mut self, policy: Value) -> Self {
        self.binding = Value::Null;
        apimachinery::merge_patch::apply(&mut self.policies[0], &policy);
        self
    }

    fn text(&self) -> String {
        let policies = self.policies.iter().map(|policy| {
            let key = ObjectKey::namespaced(policy["metadata"]["namespace"].as_str().unwrap_or_default(), "");
            Policy::from_value(Scope::of(&key), policy).unwrap()
        });
        let binding = Binding::from_value(Scope::Namespaced, &self.binding).ok();
        let live = Live {
            workload: ObjectReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                namespace: "shop".into(),
                name: "web".into(),
                ..ObjectReference::default()
            },
            template: if self.template.is_null() { Template::Missing } else { Template::Found(self.template.clone()) },
            policies: policies.collect(),
            overrides: Vec::new(),
            works: self.works.iter().map(|work| serde_json::from_value::<Work>(work.clone()).unwrap()).collect(),
            clusters: self.clusters.iter().map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap())).collect(),
            warnings: Vec::new(),
            failing: self.failing.clone(),
            unknown: Vec::new(),
            binding,
        };
        let snapshot = Snapshot::of_clusters(live.clusters.iter().cloned());
        let report = live.binding.as_ref().and_then(|it| Report::of(it, &snapshot, &Gates::default()));
        explanation_of(&live, report.as_ref()).to_text()
    }
}

/// The rule for every explanation: internal words and numbers that mean "no limit" do not appear.
fn is_plain(text: &str) {
    for word in
        ["TIER", "Schedule\n", "ReconcileSchedule", "ScaleSchedule", "2147483647", "TaintToleration", "APIEnablement"]
    {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("\nNext:      "), "{text}");
}

#[test]
fn a_converged_workload_needs_no_step() {
    let text = Fixture::default().text();
    is_plain(&text);
    expect_test::expect![[r"
        Workload:  Deployment shop/web, 2 replicas
        Policy:    PropagationPolicy shop/web
        Scheduled: True
        Assigned:  m1:2
        Applied:   True

        CLUSTER   REPLICAS   ROOM   STATE
        m1        2          10     applied, healthy
        m2        -          -      not selected by the policy's clusterAffinity

        Next:      nothing to do, it is where it is to be
    "]]
    .assert_eq(&text);
}

/// Each state with parts of its explanation: of the stored state, and of the next step.
#[test]
fn states_and_next_steps() {
    let failed = |reason: &str, message: &str| {
        json!({"spec": {"clusters": []}, "status": {"aggregatedStatus": [], "conditions": [
            {"type": "Scheduled", "status": "False", "reason": reason, "message": message}]}})
    };
    let no_fit = || failed("NoClusterFit", "0/2 clusters are available: 2 cluster(s) did not match.");
    let taint =
        |key: &str, value: &str| json!({"spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}});
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "cluster is not reachable"}]}});
    let not_applied =
        json!([{"type": "Applied", "status": "False", "message": "Failed to apply all manifests (0/1): boom"}]);
    let mut held = work("m1", json!([]));
    held["spec"]["suspendDispatching"] = json!(true);
    let fixture = Fixture::default;
    let failing = Failing { reason: "GetReplicasFailed".into(), message: "no answer".into(), since: String::new() };
    let unclaimed =
        json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": null}, "annotations": null}});
    for (what, fixture, expected) in [
        ("suspended scheduling", fixture().binding(json!({"spec": {"suspension": {"scheduling": true}}})),
            &["Scheduled: suspended", "Next:      resume scheduling: kubectl patch resourcebinding web-deployment -n shop"][..]),
        ("another scheduler", fixture().binding(json!({"spec": {"schedulerName": "mine"}})),
            &["Scheduled: by the scheduler \"mine\"", "Next:      run the scheduler \"mine\""]),
        ("not decided yet", fixture().binding(json!({"metadata": {"generation": 3}, "spec": {"replicas": 3}})),
            &["Scheduled: not yet in its newest generation 3, the last one decided is 2", "Recheck:   a calculation gives m1:3 now; the scheduler has not decided", "Next:      repeat this in a few seconds"]),
        ("no condition yet", fixture().binding(json!({"spec": {"clusters": []}, "status": null})).works(vec![]),
            &["Scheduled: not yet\n", "Assigned:  no cluster"]),
        ("a name that is no cluster's", fixture().binding(no_fit()).binding(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["m9"]}}}})).works(vec![]),
            &["Scheduled: False, NoClusterFit: 0/2", "clusters that do not exist: m9", "m9        -          -      there is no such cluster",
                "Next:      correct the cluster names in the policy (there are: m1, m2), or join the missing: karmadactl join m9"]),
        ("cordoned", fixture().binding(no_fit()).cluster(0, taint("cluster.karmada.io/unschedulable", "")).works(vec![]),
            &["cordoned\n", "Next:      let it back into m1: karmadactl uncordon m1"]),
        ("another taint", fixture().binding(no_fit()).cluster(0, taint("gpu", "only")).works(vec![]),
            &["its taint gpu=only:NoSchedule is not tolerated by the policy", "Next:      tolerate the taints of m1"]),
        ("not ready", fixture().binding(no_fit()).cluster(0, away.clone()).cluster(0, taint("cluster.karmada.io/not-ready", "")).works(vec![]),
            &["the cluster is not ready: cluster is not reachable (ClusterNotReachable)", "Next:      see why m1 does not answer: karmadactl doctor"]),
        ("not served", fixture().binding(no_fit()).cluster(0, json!({"status": {"apiEnablements": []}})).works(vec![]),
            &["it does not serve apps/v1 Deployment", "Next:      make apps/v1 Deployment available in m1"]),
        ("no room", fixture().binding(failed("Unschedulable", "failed to assign replicas: failed to scale up: Clusters available replicas 10 are not enough to schedule.")).binding(json!({"spec": {"replicas": 20}})).works(vec![]),
            &["Scheduled: False, Unschedulable: failed to assign", "Retry:     when a cluster has more room", "not enough room", "20 wanted, the clusters that the policy admits have room for 10"]),
        ("the scheduler counts more", fixture().binding(failed("Unschedulable", "failed to assign replicas: failed to scale up: Clusters available replicas 0 are not enough to schedule.")).works(vec![]),
            &["Scheduled: False, Unschedulable: failed to assign", "Recheck:   a calculation gives m1:2 now; the clusters have changed since, or the scheduler counts what this command does not see: workloads that are assigned and not running yet"]),
        ("not applied", fixture().works(vec![work("m1", not_applied.clone())]).binding(json!({"status": {"aggregatedStatus": null}})),
            &["not applied: Failed to apply all manifests (0/1): boom", "Next:      correct the cause named for m1"]),
        ("an override", fixture().binding(json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "appliedMessage": "Apply override policy(shop/o) for cluster(m1) failed: replace /x: no such path"}]}})).works(vec![work("m1", applied())]),
            &["not applied: Apply override policy(shop/o) for cluster(m1) failed: replace /x", "Next:      correct the cause named for m1"]),
        ("held back", fixture().works(vec![held]).binding(json!({"status": {"aggregatedStatus": null}})),
            &["dispatching is suspended, nothing was applied", "Next:      resume dispatching to m1"]),
        ("away", fixture().cluster(0, away),
            &["applied, state unknown: the cluster is not ready: cluster is not reachable", "Next:      see why m1 does not answer"]),
        ("in flight", fixture().works(vec![work("m1", json!([]))]).binding(json!({"status": {"aggregatedStatus": null}})),
            &["being applied", "Next:      repeat this in a few seconds: it is being applied"]),
        ("unhealthy", fixture().binding(json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Unhealthy"}]}})),
            &["applied, not healthy", "Next:      look at it in m1: karmadactl get deployment web -n shop --operation-scope=members --clusters=m1"]),
        ("the policy is gone", Fixture { policies: vec![], ..fixture() }.binding(unclaimed.clone()),
            &["Policy:    none selects it", "Scheduled: no more: no policy selects it", "Next:      create a policy that selects it"]),
        ("needed by others", fixture().binding(unclaimed).binding(json!({"spec": {"placement": null, "clusters": [], "requiredBy": [{"namespace": "shop", "name": "front-deployment"}]}})).works(vec![]),
            &["Scheduled: follows what needs it: shop/front-deployment", "karmadactl explain-placement front-deployment -n shop"]),
        ("the workload is gone", Fixture { template: Value::Null, ..fixture() },
            &["Workload:  Deployment shop/web, 2 replicas, deleted", "remove them with: kubectl delete resourcebinding web-deployment -n shop"]),
        ("its last change has no effect", Fixture { failing: Some(failing.clone()), ..fixture() },
            &["Failing:   GetReplicasFailed: no answer", "Next:      correct the cause named by the event GetReplicasFailed"]),
        ("the cluster's state names it", Fixture { failing: Some(failing.clone()), ..fixture() }.works(vec![work("m1", not_applied.clone())]).binding(json!({"status": {"aggregatedStatus": null}})),
            &["Applied:   True\n\nCLUSTER", "Next:      correct the cause named for m1"]),
        ("it has no place either", Fixture { failing: Some(failing), ..fixture() }.binding(no_fit()).works(vec![]),
            &["Failing:   GetReplicasFailed: no answer", "Next:      correct spec.placement of the policy"]),
        ("no policy", fixture().unbound(json!({"spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web2"}]}})),
            &["Policy:    none selects it", "Not by:    PropagationPolicy shop/web: it selects the name web2", "Next:      correct the policy above, or create a PropagationPolicy in namespace shop"]),
        ("a policy elsewhere", fixture().unbound(json!({"metadata": {"namespace": "default"}})),
            &["Not by:    PropagationPolicy default/web: it is in namespace default"]),
        ("a policy elsewhere, as admission completes it", fixture().unbound(json!({"metadata": {"namespace": "default"}, "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}]}})),
            &["Not by:    PropagationPolicy default/web: it is in namespace default"]),
        ("the name of a resource for its kind", fixture().unbound(json!({"spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "deployments", "name": "web"}]}})),
            &["Not by:    PropagationPolicy shop/web: it selects kind deployments, the workload has Deployment"]),
        ("other labels", fixture().unbound(json!({"spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "db"}}}]}})),
            &["its labelSelector does not match the labels of the workload"]),
        ("a policy that waits", fixture().unbound(json!({"spec": {"dependentOverrides": ["first"]}})),
            &["PropagationPolicy shop/web, which has not taken effect", "Next:      create the OverridePolicy shop/first"]),
        ("a lazy policy", fixture().unbound(json!({"spec": {"activationPreference": "Lazy"}})),
            &["Next:      change the workload"]),
        ("a policy that has just come", fixture().unbound(json!({})),
            &["Next:      repeat this in a few seconds"]),
    ] {
        let text = fixture.text();
        is_plain(&text);
        for words in expected {
            assert!(text.contains(words), "{what}: {words}\n{text}");
        }
    }
}
