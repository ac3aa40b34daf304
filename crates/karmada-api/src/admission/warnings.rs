//! Kinds and fields that are accepted and have no effect in this version, or more effect than their author may expect,
//! as one table. A write gets the text of the row as a `Warning` header. A row is removed when its feature is
//! implemented.

use serde_json::Value;

use super::Options;
use super::secrets::SecretUse;
use crate::gates;

/// Where a kind or field has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With every API server.
    Everywhere,
    /// With our API server; kube-apiserver itself implements it.
    OurServer,
}

/// A kind or field with a warning.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The API group.
    pub group: &'static str,
    /// The kinds.
    pub kinds: &'static [&'static str],
    /// The field; empty for the whole kind.
    pub field: &'static str,
    /// Where it has no effect.
    pub place: Place,
    /// The feature gate that gives it an effect.
    pub gate: Option<&'static str>,
    /// Set for a warning to authors who may not read the Secrets that are copied this way.
    pub copies: Option<SecretUse>,
    /// The missing effect and the alternative. Follows the kind or the field.
    pub text: &'static str,
    applies: fn(&Value, &Options) -> bool,
}

const POLICY: &str = "policy.karmada.io";
const PROPAGATION: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];

const fn whole(group: &'static str, kinds: &'static [&'static str], text: &'static str) -> Row {
    Row { group, kinds, field: "", place: Place::Everywhere, gate: None, copies: None, text, applies: |_, _| true }
}

const fn field(
    group: &'static str,
    kinds: &'static [&'static str],
    field: &'static str,
    text: &'static str,
    applies: fn(&Value, &Options) -> bool,
) -> Row {
    Row { group, kinds, field, place: Place::Everywhere, gate: None, copies: None, text, applies }
}

/// A row for kinds whose `spec.resourceSelectors` may be written so that they select nothing.
const fn selecting(group: &'static str, kinds: &'static [&'static str]) -> Row {
    field(
        group,
        kinds,
        "spec.resourceSelectors",
        "a selector without apiVersion, or whose kind is not written as in manifests (Deployment, not deployment), selects \
         nothing",
        |object, _| object["spec"]["resourceSelectors"].as_array().is_some_and(|it| it.iter().any(selects_nothing)),
    )
}

const fn gated(row: Row, gate: &'static str) -> Row {
    Row { gate: Some(gate), ..row }
}

const fn copying(row: Row, by: SecretUse) -> Row {
    Row { copies: Some(by), ..row }
}

const fn of_our_server(row: Row) -> Row {
    Row { place: Place::OurServer, ..row }
}

/// All warnings, by group.
pub static WARNINGS: &[Row] = &[
    gated(
        Row {
            applies: |_, options| !options.multi_cluster_service,
            ..whole(
                "networking.karmada.io",
                &["MultiClusterService"],
                "it has an effect only with the feature gate MultiClusterService=true",
            )
        },
        gates::MULTI_CLUSTER_SERVICE,
    ),
    field(
        "networking.karmada.io",
        &["MultiClusterService"],
        "spec.types",
        "LoadBalancer needs a provider beside the control plane, such as multicluster-cloud-provider",
        |object, options| {
            let is_balancer = |types: &Vec<Value>| types.iter().any(|it| it == "LoadBalancer");
            options.multi_cluster_service && object["spec"]["types"].as_array().is_some_and(is_balancer)
        },
    ),
    whole(
        "networking.karmada.io",
        &["MultiClusterIngress"],
        "nothing in this version acts on it; it needs a provider beside the control plane, such as \
         multi-cluster-ingress-nginx",
    ),
    field(
        "multicluster.x-k8s.io",
        &["ServiceImport"],
        "spec.type",
        "no Service is derived from a Headless import; use ClusterSetIP",
        |object, _| object["spec"]["type"] == "Headless",
    ),
    whole(
        "remedy.karmada.io",
        &["Remedy"],
        "its actions are written to the status of clusters, but this version does not execute them",
    ),
    selecting(POLICY, &["PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy", "ClusterOverridePolicy"]),
    gated(
        field(
            POLICY,
            PROPAGATION,
            "spec.failover.cluster",
            "it has an effect only with the feature gate Failover=true and the flag --enable-no-execute-taint-eviction",
            |object, options| !object["spec"]["failover"]["cluster"].is_null() && !options.no_execute_eviction,
        ),
        gates::FAILOVER,
    ),
    gated(
        field(
            POLICY,
            PROPAGATION,
            "spec.failover.application.statePreservation",
            "state is carried over only with the feature gate StatefulFailoverInjection=true",
            |object, options| preserves(object, "application") && !options.stateful_failover,
        ),
        gates::STATEFUL_FAILOVER_INJECTION,
    ),
    gated(
        field(
            POLICY,
            PROPAGATION,
            "spec.failover.cluster.statePreservation",
            "state is carried over only with the feature gate StatefulFailoverInjection=true",
            |object, options| preserves(object, "cluster") && !options.stateful_failover,
        ),
        gates::STATEFUL_FAILOVER_INJECTION,
    ),
    copying(
        field(
            POLICY,
            PROPAGATION,
            "spec.resourceSelectors",
            "it selects Secrets that the author of the policy may not read; the clusters of the placement receive them",
            |_, _| true,
        ),
        SecretUse::Selected,
    ),
    copying(
        field(
            POLICY,
            PROPAGATION,
            "spec.propagateDeps",
            "it copies Secrets that the workloads use, and the author of the policy may not list Secrets",
            |_, _| true,
        ),
        SecretUse::Dependencies,
    ),
    gated(
        field(
            POLICY,
            PROPAGATION,
            "spec.preemption",
            "Always has an effect only with the feature gate PropagationPolicyPreemption=true",
            |object, options| object["spec"]["preemption"] == "Always" && !options.preemption,
        ),
        gates::PROPAGATION_POLICY_PREEMPTION,
    ),
    gated(
        field(
            POLICY,
            PROPAGATION,
            "spec.placement.workloadAffinity",
            "it has an effect only with the feature gate WorkloadAffinity=true",
            |object, options| !object["spec"]["placement"]["workloadAffinity"].is_null() && !options.workload_affinity,
        ),
        gates::WORKLOAD_AFFINITY,
    ),
    gated(
        Row {
            applies: |_, options| !options.failover,
            ..whole(
                POLICY,
                &["ClusterTaintPolicy"],
                "it taints clusters only with the feature gate Failover=true; until then, set spec.taints of the Clusters",
            )
        },
        gates::FAILOVER,
    ),
    field(
        POLICY,
        &["ClusterTaintPolicy"],
        "spec.taints",
        "NoExecute evicts workloads only with the flag --enable-no-execute-taint-eviction; it keeps new ones away",
        |object, options| options.failover && !options.no_execute_eviction && evicts(&object["spec"]["taints"]),
    ),
    gated(
        field(
            POLICY,
            &["FederatedResourceQuota"],
            "spec.overall",
            "it is enforced only with the feature gate FederatedQuotaEnforcement=true",
            |object, options| !object["spec"]["overall"].is_null() && !options.quota_enforcement,
        ),
        gates::FEDERATED_QUOTA_ENFORCEMENT,
    ),
    gated(
        field(
            "cluster.karmada.io",
            &["Cluster"],
            "spec.taints",
            "NoExecute evicts workloads only with the feature gate Failover=true and the flag \
             --enable-no-execute-taint-eviction; it keeps new ones away",
            |object, options| !options.no_execute_eviction && evicts(&object["spec"]["taints"]),
        ),
        gates::FAILOVER,
    ),
    selecting("search.karmada.io", &["ResourceRegistry"]),
    of_our_server(field(
        "apiregistration.k8s.io",
        &["APIService"],
        "spec.service",
        "this API server serves the group itself and passes no requests for it on",
        |object, _| !object["spec"]["service"].is_null() && is_own(object["spec"]["group"].as_str()),
    )),
];

/// Karmada's groups that are served by the API server itself, and not as custom resources.
fn is_own(group: Option<&str>) -> bool {
    matches!(group, Some("cluster.karmada.io" | "search.karmada.io"))
}

/// Every kind begins with an upper-case letter by the API conventions; its resource, singular and short names do not.
fn selects_nothing(selector: &Value) -> bool {
    let text = |field: &str| selector[field].as_str().unwrap_or_default();
    text("apiVersion").is_empty() || text("kind").starts_with(|first: char| first.is_lowercase())
}

fn preserves(policy: &Value, on: &str) -> bool {
    !policy["spec"]["failover"][on]["statePreservation"].is_null()
}

fn evicts(taints: &Value) -> bool {
    taints.as_array().into_iter().flatten().any(|taint| taint["effect"] == crate::constants::taints::NO_EXECUTE)
}

/// The object of a write, and the server that receives it.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The API group.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The object after the write.
    pub object: &'a Value,
    /// The stored object, on update.
    pub old: Option<&'a Value>,
    /// Whether the API server is ours.
    pub by_own_server: bool,
    /// The ways in which the object copies Secrets that its author may not read.
    pub unreadable: &'a [SecretUse],
}

/// The warnings for an object that is created or updated; none for an update of metadata or status only. For kinds
/// without rows this compares only a few names.
pub fn warnings(written: &Written<'_>, options: &Options) -> Vec<String> {
    let Written { group, kind, object, old, by_own_server, unreadable } = *written;
    let rows = WARNINGS.iter().filter(|row| row.group == group && row.kinds.contains(&kind));
    let rows = rows.filter(|row| (by_own_server || row.place == Place::Everywhere) && (row.applies)(object, options));
    let rows = rows.filter(|row| row.copies.is_none_or(|by| unreadable.contains(&by)));
    let texts: Vec<String> = rows
        .map(|row| {
            let subject = if row.field.is_empty() { kind } else { row.field };
            format!("{subject}: {}", row.text)
        })
        .collect();
    if !texts.is_empty() && old.is_some_and(|old| !changes_intent(old, object)) { Vec::new() } else { texts }
}

/// Whether anything but metadata and status differs.
pub fn changes_intent(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return true };
    let is_intent = |name: &&String| !matches!(name.as_str(), "metadata" | "status");
    let all = || old.keys().chain(new.keys()).filter(is_intent);
    all().any(|name| old.get(name) != new.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OPEN: Options = Options {
        preemption: true,
        workload_affinity: true,
        failover: true,
        no_execute_eviction: true,
        stateful_failover: true,
        quota_enforcement: true,
        multi_cluster_service: true,
        scale_to_zero: true,
        allow_no_execute_taint_policy: false,
        multiple_pod_templates: false,
        allow_http_endpoints: false,
        compile_script: None,
    };

    /// An object, and the fields (or the kind) with warnings with the gates disabled and enabled.
    #[test]
    fn kinds_and_fields_without_effect() {
        let closed = Options::default();
        let evicting = json!({"taints": [{"key": "k", "effect": "NoExecute"}]});
        let mild = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        for (group, kind, spec, with_closed, with_open) in [
            ("autoscaling.karmada.io", "FederatedHPA", json!({}), "", ""),
            ("autoscaling.karmada.io", "CronFederatedHPA", json!({}), "", ""),
            (
                "networking.karmada.io",
                "MultiClusterService",
                json!({"types": ["CrossCluster"]}),
                "MultiClusterService",
                "",
            ),
            (
                "networking.karmada.io",
                "MultiClusterService",
                json!({"types": ["LoadBalancer"]}),
                "MultiClusterService",
                "spec.types",
            ),
            ("networking.karmada.io", "MultiClusterIngress", json!({}), "MultiClusterIngress", "MultiClusterIngress"),
            ("multicluster.x-k8s.io", "ServiceExport", json!({}), "", ""),
            ("multicluster.x-k8s.io", "ServiceImport", json!({"type": "ClusterSetIP"}), "", ""),
            ("multicluster.x-k8s.io", "ServiceImport", json!({"type": "Headless"}), "spec.type", "spec.type"),
            ("apps.karmada.io", "WorkloadRebalancer", json!({}), "", ""),
            ("remedy.karmada.io", "Remedy", json!({}), "Remedy", "Remedy"),
            (POLICY, "PropagationPolicy", json!({"failover": {}, "preemption": "Never"}), "", ""),
            (POLICY, "PropagationPolicy", json!({"failover": {"application": {}}}), "", ""),
            (
                POLICY,
                "PropagationPolicy",
                json!({"failover": {"application": {"statePreservation": {}}}}),
                "spec.failover.application.statePreservation",
                "",
            ),
            (
                POLICY,
                "ClusterPropagationPolicy",
                json!({"failover": {"cluster": {"statePreservation": {}}}, "preemption": "Always"}),
                "spec.failover.cluster spec.failover.cluster.statePreservation spec.preemption",
                "",
            ),
            (
                POLICY,
                "PropagationPolicy",
                json!({"placement": {"workloadAffinity": {}}}),
                "spec.placement.workloadAffinity",
                "",
            ),
            (POLICY, "OverridePolicy", json!({}), "", ""),
            (
                POLICY,
                "ClusterOverridePolicy",
                json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v1", "kind": "pods"}]}),
                "spec.resourceSelectors",
                "spec.resourceSelectors",
            ),
            (
                POLICY,
                "PropagationPolicy",
                json!({"resourceSelectors": [{"apiVersion": "", "kind": "Pod"}]}),
                "spec.resourceSelectors",
                "spec.resourceSelectors",
            ),
            (POLICY, "PropagationPolicy", json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}]}), "", ""),
            (POLICY, "ClusterTaintPolicy", evicting.clone(), "ClusterTaintPolicy", ""),
            (POLICY, "ClusterTaintPolicy", mild.clone(), "ClusterTaintPolicy", ""),
            (POLICY, "FederatedResourceQuota", json!({"overall": {}, "staticAssignments": []}), "spec.overall", ""),
            (POLICY, "FederatedResourceQuota", json!({"overall": {}, "staticAssignments": [{}]}), "spec.overall", ""),
            ("cluster.karmada.io", "Cluster", evicting.clone(), "spec.taints", ""),
            ("cluster.karmada.io", "Cluster", mild, "", ""),
            ("search.karmada.io", "ResourceRegistry", json!({"backendStore": {"openSearch": {}}}), "", ""),
            (
                "search.karmada.io",
                "ResourceRegistry",
                json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "deployment"}]}),
                "spec.resourceSelectors",
                "spec.resourceSelectors",
            ),
            ("apps", "Deployment", json!({}), "", ""),
        ] {
            let object = json!({ "spec": spec });
            let found = |options: &Options| {
                let texts = warnings(
                    &Written { group, kind, object: &object, old: None, by_own_server: false, unreadable: &[] },
                    options,
                );
                texts.iter().filter_map(|text| text.split(':').next()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!((found(&closed).as_str(), found(&OPEN).as_str()), (with_closed, with_open), "{kind} {spec}");
        }
        let tainting = json!({ "spec": evicting });
        let written = Written {
            group: POLICY,
            kind: "ClusterTaintPolicy",
            object: &tainting,
            old: None,
            by_own_server: false,
            unreadable: &[],
        };
        let without_flag = warnings(&written, &Options { no_execute_eviction: false, ..OPEN });
        assert!(without_flag.len() == 1 && without_flag[0].starts_with("spec.taints: "), "{without_flag:?}");
        for (group, kind, spec, expected) in [
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", json!(null), 0),
            ("apiregistration.k8s.io", "APIService", json!({"service": null}), 0),
            ("apiregistration.k8s.io", "APIService", json!({"group": "g.example", "service": {"name": "s"}}), 0),
            (
                "apiregistration.k8s.io",
                "APIService",
                json!({"group": "cluster.karmada.io", "service": {"name": "s"}}),
                1,
            ),
            ("flowcontrol.apiserver.k8s.io", "FlowSchema", json!({}), 0),
        ] {
            let object = json!({ "spec": spec });
            let count = |by_own_server| {
                warnings(&Written { group, kind, object: &object, old: None, by_own_server, unreadable: &[] }, &closed)
                    .len()
            };
            assert_eq!((count(true), count(false)), (expected, 0), "{kind}: kube-apiserver acts on it");
        }
    }

    #[test]
    fn copied_secrets() {
        use SecretUse::{Dependencies, Selected};
        let object = json!({"spec": {}});
        for (unreadable, fields) in [
            (&[][..], ""),
            (&[Selected][..], "spec.resourceSelectors"),
            (&[Dependencies], "spec.propagateDeps"),
            (&[Dependencies, Selected, Selected], "spec.resourceSelectors spec.propagateDeps"),
        ] {
            let (group, kind, old) = (POLICY, "ClusterPropagationPolicy", None);
            let written = Written { group, kind, object: &object, old, by_own_server: false, unreadable };
            let texts = warnings(&written, &Options::default());
            assert_eq!(texts.iter().filter_map(|text| text.split(':').next()).collect::<Vec<_>>().join(" "), fields);
        }
    }

    #[test]
    fn updates_of_metadata_and_status_are_quiet() {
        let stored = json!({"metadata": {"name": "a"}, "spec": {"x": 1}});
        for (change, expected) in [
            (json!({"metadata": {"labels": {}}, "spec": {"x": 1}, "status": {}}), 0),
            (json!({"metadata": {"name": "a"}, "spec": {"x": 2}}), 1),
            (json!({"metadata": {"name": "a"}}), 1),
        ] {
            let (group, kind) = ("remedy.karmada.io", "Remedy");
            let written =
                Written { group, kind, object: &change, old: Some(&stored), by_own_server: true, unreadable: &[] };
            assert_eq!(warnings(&written, &Options::default()).len(), expected, "{change}");
        }
    }

    /// kube-apiserver truncates texts after 256 bytes, and drops all after 4 KiB.
    #[test]
    fn texts_are_short_and_plain() {
        for row in WARNINGS {
            let subject = row.kinds.iter().map(|kind| kind.len()).max().unwrap_or_default().max(row.field.len());
            assert!(subject + row.text.len() + 2 <= 200, "{}", row.text);
            assert!(row.text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", row.text);
            assert!(row.gate.is_none_or(|gate| row.text.contains(gate)), "{}", row.text);
        }
        assert!(WARNINGS.len() * 256 <= 8 * 1024);
    }
}
