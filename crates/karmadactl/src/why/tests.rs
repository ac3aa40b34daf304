//! Pages of small states, and of random ones.

mod clusters;
mod random;

use std::sync::Arc;

use apimachinery::ObjectKey;
use expect_test::expect;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Override, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use serde_json::{Value, json};

use super::page::Page;
use super::read::MemberObject;
use super::template::Facts;
use super::{absent, template};
use crate::placement::live::{List, Live, Template, Unknown};

fn cluster_of(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"syncMode": "Push", "apiEndpoint": "https://m"}, "status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"},
            {"type": "CompleteAPIEnablements", "status": "True"}],
        "resourceSummary": {"allocatable": {"cpu": "10", "pods": "10"}}}})
}

fn work(cluster: &str, applied: Option<(&str, &str)>) -> Value {
    let conditions =
        applied.map(|(status, message)| json!([{"type": "Applied", "status": status, "message": message}]));
    json!({"metadata": {"name": "web-1", "namespace": format!("karmada-es-{cluster}")}, "spec": {}, "status": {"conditions": conditions}})
}

/// A state, changed from one in which all is well.
#[derive(Clone)]
struct Fixture {
    clusters: Vec<Value>,
    binding: Value,
    works: Vec<Value>,
    template: Value,
    policies: Vec<Value>,
    overrides: Vec<Value>,
    unknown: Vec<Unknown>,
    namespace_stays: bool,
}

fn policy(name: &str, namespace: &str, spec: Value) -> Value {
    let mut policy = json!({"metadata": {"name": name, "namespace": namespace}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}], "placement": {}}});
    apimachinery::merge_patch::apply(&mut policy["spec"], &spec);
    policy
}

fn fixture() -> Fixture {
    let binding = json!({"metadata": {"name": "web-deployment", "namespace": "shop", "generation": 2,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id", "resourcebinding.karmada.io/permanent-id": "b"},
            "annotations": {"propagationpolicy.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}, "replicas": 2,
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]},
        "status": {"schedulerObservedGeneration": 2, "lastScheduledTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "scheduled"},
                {"type": "FullyApplied", "status": "True", "reason": "FullyAppliedSuccess", "message": "applied"}],
            "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"},
                {"clusterName": "m2", "applied": true, "health": "Healthy"}]}});
    Fixture {
        clusters: vec![cluster_of("m1"), cluster_of("m2"), cluster_of("m3")],
        binding,
        works: vec![work("m1", Some(("True", ""))), work("m2", Some(("True", "")))],
        template: json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}}}}),
        policies: vec![policy("web", "shop", json!({}))],
        overrides: Vec::new(),
        unknown: Vec::new(),
        namespace_stays: false,
    }
}

fn scope(object: &Value) -> Scope {
    Scope::of(&ObjectKey::namespaced(object["metadata"]["namespace"].as_str().unwrap_or_default(), "x"))
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

    fn policies(mut self, policies: Vec<Value>) -> Self {
        self.policies = policies;
        self
    }

    fn unbound(mut self) -> Self {
        self.binding = Value::Null;
        self.works.clear();
        self
    }

    fn facts(&self) -> Facts {
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
            policies: self.policies.iter().map(|it| Policy::from_value(scope(it), it).unwrap()).collect(),
            overrides: self.overrides.iter().map(|it| Override::from_value(scope(it), it).unwrap()).collect(),
            works: self.works.iter().map(|it| serde_json::from_value::<Work>(it.clone()).unwrap()).collect(),
            clusters: self
                .clusters
                .iter()
                .map(|it| Arc::new(serde_json::from_value::<Cluster>(it.clone()).unwrap()))
                .collect(),
            warnings: Vec::new(),
            failing: None,
            binding,
            unknown: self.unknown.clone(),
        };
        Facts { live, focus: None, attached: Vec::new(), attached_unknown: None, namespace_stays: self.namespace_stays }
    }

    fn page(&self) -> Page {
        template::page(&self.facts())
    }
}

#[test]
fn a_complete_explanation() {
    let mut fixture = fixture().policies(vec![
        policy("web", "shop", json!({})),
        policy("all", "shop", json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]})),
        policy("everywhere", "", json!({"priority": 9})),
    ]);
    let rule = |clusters: Value, image: &str| {
        json!({"overrideRules": [{"targetCluster": {"clusterNames": clusters},
            "overriders": {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": image}]}}]})
    };
    fixture.overrides = vec![
        json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": rule(json!(["m2"]), "b.io")}),
        json!({"metadata": {"name": "a"}, "spec": rule(json!(["m2"]), "a.io")}),
        json!({"metadata": {"name": "c", "namespace": "shop"}, "spec": rule(json!(["m9"]), "c.io")}),
    ];
    expect![[r#"
        Deployment shop/web, 2 replicas: applied and healthy in 2 of 2 clusters
        Next:        nothing to do, it is where it is to be

        POLICY                                OUTCOME          PRIORITY   SELECTS BY   WHY
        PropagationPolicy shop/web            applies          0          name         it goes before the others
        PropagationPolicy shop/all            does not apply   0          kind         same priority; a selector by name goes before one by kind
        ClusterPropagationPolicy everywhere   does not apply   9          name         a PropagationPolicy goes before every ClusterPropagationPolicy

        Binding:     ResourceBinding shop/web-deployment
        Conditions:  Scheduled=True
                     FullyApplied=True
        Assigned:    m1:2, m2:2
        Replicas:    2, every cluster gets all replicas (replicaSchedulingType: Duplicated)

        CLUSTER   REPLICAS   SCORE   ROOM   FILTERED BY       STATE
        m1        2          100     10     -                 applied, healthy
        m2        2          100     10     -                 applied, healthy
        m3        -          -       -      ClusterAffinity   not selected by the policy's clusterAffinity

        CLUSTER   ORDER   OVERRIDE                  SELECTS BY   CHANGES
        m2        1       ClusterOverridePolicy a   everything   spec.template.spec.containers[0].image: nginx:1.27 -> a.io/nginx:1.27 (replaced by OverridePolicy shop/b)
        m2        2       OverridePolicy shop/b     everything   spec.template.spec.containers[0].image: a.io/nginx:1.27 -> b.io/nginx:1.27

        Unused:      OverridePolicy shop/c selects it; none of its rules is for its clusters

        WORK                  APPLIED   DISPATCHING   HEALTH   MEMBER   MESSAGE
        karmada-es-m1/web-1   True      -             -        -        -
        karmada-es-m2/web-1   True      -             -        -        -
    "#]].assert_eq(&fixture.page().to_text(None));
}

/// Each state with its answer, the first thing that is waited for, and the first step.
#[test]
fn each_state_has_an_explanation_and_a_next_step() {
    let failed = |reason: &str, message: &str| {
        json!({"spec": {"clusters": []}, "status": {"aggregatedStatus": [], "conditions": [
            {"type": "Scheduled", "status": "False", "reason": reason, "message": message}]}})
    };
    let item = |cluster: &str, message: &str| {
        json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"},
            {"clusterName": cluster, "applied": message.is_empty(), "appliedMessage": message, "health": "Unhealthy"}]}})
    };
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "cluster is not reachable"}]}});
    let paused = json!({"status": {"conditions": [{"type": "Ready", "status": "True"},
        {"type": "EvictionsPaused", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "2 of 3"}]}});
    let conflict = "resource(kind=Deployment, shop/web) already exists in the cluster m2 and the work.karmada.io/conflict-resolution \
        strategy value is empty, Karmada will not manage this resource";
    let held = json!({"metadata": {"name": "w", "namespace": "karmada-es-m2"}, "spec": {}, "status": {"conditions": [
        {"type": "Applied", "status": "False", "reason": "ResumePending", "message": "Cluster m2 is newer"}]}});
    let eviction = json!({"spec": {"gracefulEvictionTasks": [{"fromCluster": "m3", "reason": "TaintUntolerated", "message": "why",
        "producer": "TaintManager", "gracePeriodSeconds": 600, "creationTimestamp": "2026-01-01T00:00:00Z"}]}});
    let both = |second: (&str, &str)| vec![work("m1", Some(("True", ""))), work("m2", Some(second))];
    for (what, fixture, expected) in [
        (
            "all is well",
            fixture(),
            ["applied and healthy in 2 of 2 clusters", "-", "nothing to do, it is where it is to be"],
        ),
        (
            "no policy",
            fixture().unbound().policies(vec![]),
            [
                "no policy selects it, so it stays in the control plane",
                "a policy that selects it",
                "create a PropagationPolicy in namespace shop",
            ],
        ),
        (
            "a policy that has just come",
            fixture().unbound(),
            [
                "PropagationPolicy shop/web selects it and has not taken effect",
                "the policy to take effect",
                "repeat this in a few seconds",
            ],
        ),
        (
            "policies are unknown",
            Fixture { unknown: vec![Unknown { list: List::Policies, why: "forbidden".into() }], ..fixture() }
                .unbound()
                .policies(vec![]),
            [
                "it has no binding, and which policies select it is unknown",
                "unknown",
                "get the right to list the policies",
            ],
        ),
        (
            "no cluster",
            fixture().binding(failed("NoClusterFit", "0/3 clusters are available")).works(vec![]),
            [
                "in no cluster: it cannot be scheduled",
                "the scheduler: 0/3 clusters are available (NoClusterFit); it tries again when a cluster changes",
                "",
            ],
        ),
        (
            "no room",
            fixture().binding(failed("Unschedulable", "not enough")).works(vec![]),
            [
                "in no cluster: it cannot be scheduled",
                "the scheduler: not enough (Unschedulable); it tries again when a cluster has more room",
                "",
            ],
        ),
        (
            "quota",
            fixture().binding(failed("QuotaExceeded", "FederatedResourceQuota shop/q exceeded")).works(vec![]),
            [
                "in no cluster: it cannot be scheduled",
                "the scheduler: FederatedResourceQuota shop/q exceeded (QuotaExceeded)",
                "raise the quota or lower the replicas: kubectl get federatedresourcequotas -n shop",
            ],
        ),
        (
            "growth beyond the quota",
            fixture().binding(json!({
                "metadata": {"generation": 3, "annotations": {"karmada-rs.io/last-decision":
                    r#"{"generation": 2, "clusters": 2, "chosen": [{"name": "m1", "replicas": 1}]}"#}},
                "status": {"conditions": [{"type": "Scheduled", "status": "False", "reason": "QuotaExceeded",
                    "message": "FederatedResourceQuota shop/q exceeded"}]}
            })),
            [
                "the newest change cannot be scheduled; applied and healthy in 2 of 2 clusters",
                "the scheduler: FederatedResourceQuota shop/q exceeded (QuotaExceeded)",
                "raise the quota or lower the replicas: kubectl get federatedresourcequotas -n shop",
            ],
        ),
        (
            "not decided",
            fixture().binding(json!({"metadata": {"generation": 3}})),
            [
                "the newest change is not scheduled yet; applied and healthy in 2 of 2 clusters",
                "the scheduler: it has not decided about generation 3",
                "repeat this",
            ],
        ),
        (
            "scheduling suspended",
            fixture().binding(json!({"spec": {"suspension": {"scheduling": true}}})),
            [
                "its scheduling is suspended; applied and healthy in 2 of 2 clusters",
                "scheduling: spec.suspension.scheduling",
                "resume scheduling",
            ],
        ),
        (
            "dispatching suspended",
            fixture().binding(json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}}})),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: dispatching is suspended, the cluster keeps an earlier state",
                "resume dispatching to m2",
            ],
        ),
        (
            "a wrong override",
            fixture().binding(item("m2", "Apply override policy(shop/o) for cluster(m2) failed")),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: not applied: Apply override policy(shop/o)",
                "correct the cause named for m2",
            ],
        ),
        (
            "a conflict",
            fixture().works(both(("False", conflict))).binding(item("m2", conflict)),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: not applied: resource(kind=Deployment, shop/web) already exists",
                "m2 has an object of this name that Karmada does not manage: delete it there",
            ],
        ),
        (
            "no namespace there",
            Fixture { namespace_stays: true, ..fixture() }.binding(item("m2", "namespaces \"shop\" not found")),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: not applied: namespaces",
                "create namespace shop in the members, or remove the label",
            ],
        ),
        (
            "held",
            fixture().works(vec![work("m1", Some(("True", ""))), held]),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: held: Cluster m2 is newer",
                "confirm what changes in m2, which is newer than the store: karmadactl resume m2 --dry-run",
            ],
        ),
        (
            "a member is down",
            fixture().cluster(1, away),
            [
                "as wanted in 1 of 2 clusters, not in m2",
                "m2: applied, state unknown: the cluster is not ready: cluster is not reachable",
                "see why m2 does not answer",
            ],
        ),
        (
            "not healthy",
            fixture().binding(item("m2", "")),
            ["as wanted in 1 of 2 clusters, not in m2", "m2: applied, not healthy", "look at it in m2"],
        ),
        (
            "failover",
            fixture().binding(eviction),
            [
                "applied and healthy in 2 of 2 clusters",
                "m3: the copy is being evicted by TaintManager (TaintUntolerated: why); it leaves when the new copies are healthy (m1:2, m2:2), at the latest 600s after",
                "nothing to do: the old copies leave",
            ],
        ),
        (
            "the brake",
            fixture().cluster(0, paused),
            [
                "applied and healthy in 2 of 2",
                "m1: evictions from it are paused",
                "wait until the fleet has recovered; if m1 is lost: karmadactl failover release m1",
            ],
        ),
        (
            "a copy that leaves",
            fixture().works(vec![work("m1", Some(("True", ""))), work("m2", Some(("True", ""))), work("m3", None)]),
            ["applied and healthy in 2 of 2", "m3: its copy is being removed", ""],
        ),
        (
            "the template is gone",
            Fixture { template: Value::Null, ..fixture() },
            ["it was deleted; applied and healthy in 2 of 2", "-", "the workload was deleted and left its copies"],
        ),
        (
            "clusters are unknown",
            Fixture {
                unknown: vec![Unknown { list: List::Clusters, why: "forbidden".into() }],
                clusters: vec![],
                ..fixture()
            },
            ["applied and healthy in 2 of 2", "-", ""],
        ),
    ] {
        let page = fixture.page();
        let text = page.to_text(None);
        let first = |list: &[String]| list.first().cloned().unwrap_or_else(|| "-".to_owned());
        let found = [page.answer.clone(), first(&page.waiting), first(&page.next)];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{what}: {expected:?} is not how {found:?} begins\n{text}");
        }
        assert!(!page.next.is_empty(), "{what}");
        assert!(!text.contains("there is no such cluster") || fixture.unknown.is_empty(), "{what}: {text}");
    }
}

/// Policies that select the workload, and the reason why one applies.
#[test]
fn losing_policies_are_listed_with_reasons() {
    let kind = json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
    let with = |mut spec: Value, more: Value| {
        apimachinery::merge_patch::apply(&mut spec, &more);
        spec
    };
    for (other, claimed, expected) in [
        (policy("zzz", "shop", json!({})), true, "same priority and kind of selector; the name web goes first"),
        (policy("a", "shop", kind.clone()), true, "same priority; a selector by name goes before one by kind"),
        (policy("a", "shop", json!({"priority": -1})), true, "its priority -1 is lower than 0"),
        (
            policy("a", "", json!({"priority": 5})),
            true,
            "a PropagationPolicy goes before every ClusterPropagationPolicy",
        ),
        (
            policy("a", "shop", json!({})),
            true,
            "it would go first; the workload is claimed already, and only a higher spec.priority",
        ),
        (
            policy("a", "shop", with(kind.clone(), json!({"priority": 5}))),
            true,
            "it would go first; the workload is claimed already, and spec.preemption is not Always",
        ),
        (
            policy("a", "shop", json!({"priority": 5, "preemption": "Always"})),
            true,
            "it takes the workload over (preemption: Always), if the feature gate",
        ),
        (policy("zzz", "shop", json!({})), false, "same priority and kind of selector; the name web goes first"),
    ] {
        let mut fixture = fixture().policies(vec![other.clone(), policy("web", "shop", json!({}))]);
        if !claimed {
            fixture = fixture.unbound();
        }
        let page = fixture.page();
        let rows = page.facts["policies"].as_array().expect("rows");
        let outcome = if claimed { "applies" } else { "goes first" };
        assert_eq!((&rows[0]["policy"], &rows[0]["outcome"]), (&json!("PropagationPolicy shop/web"), &json!(outcome)));
        assert_eq!(rows[1]["outcome"], "does not apply");
        assert!(rows[1]["why"].as_str().unwrap().starts_with(expected), "{expected}: {}", rows[1]["why"]);
    }
    let gone = fixture().policies(vec![]).page();
    assert_eq!(gone.facts["policies"][0]["outcome"], "deleted");
}

#[test]
fn values_of_secrets_are_not_shown() {
    let mut fixture = fixture();
    fixture.template = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web", "namespace": "shop"}, "data": {"k": "MQ=="}});
    fixture.overrides = vec![json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": {"overrideRules": [
        {"overriders": {"plaintext": [{"path": "/data/k", "operator": "replace", "value": "Mg=="}]}}]}})];
    let page = fixture.page();
    let text = page.to_text(None) + &page.to_value().to_string();
    assert!(text.contains("data.k: ***") && !text.contains("MQ==") && !text.contains("Mg=="), "{text}");
}

#[test]
fn objects_that_the_control_plane_does_not_have() {
    let it = fixture().facts().live.workload;
    let object = |managed: bool| {
        MemberObject::Found(json!({"metadata": {"labels": {"karmada.io/managed": managed.to_string()}}}))
    };
    let members = |list: Vec<(&str, MemberObject)>| -> Vec<(String, MemberObject)> {
        list.into_iter().map(|(name, there)| (name.to_owned(), there)).collect()
    };
    assert_eq!(absent::page(&it, &[], &members(vec![("m1", MemberObject::Absent)]), &[]), None);
    let unmanaged = members(vec![("m1", object(false)), ("m2", MemberObject::Unknown("no answer".into()))]);
    let page = absent::page(&it, &[], &unmanaged, &[]).expect("a page");
    assert_eq!(page.answer, "it is not in the control plane; m1 has one that Karmada does not manage");
    assert_eq!(page.next, ["let Karmada manage it: karmadactl promote deployment web -n shop -C m1"]);
    assert_eq!(page.unknown, ["m2: no answer"]);
    let mut going = work("m1", Some(("False", "cluster is not reachable")));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let left: Vec<Work> = vec![serde_json::from_value(going).unwrap()];
    let page = absent::page(&it, &left, &members(vec![("m1", object(true))]), &[]).expect("a page");
    assert_eq!(page.answer, "it is not in the control plane; its copies are left in m1");
    assert_eq!(page.waiting, ["m1: its copy is being removed: cluster is not reachable"]);
    assert_eq!(page.next, ["wait; if it does not end, see the cluster: karmadactl why cluster/m1"]);
}
