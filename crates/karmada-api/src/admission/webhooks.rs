//! Upstream's admission webhooks as a table: the rules of each kind, the webhook name in denials, the path on the
//! webhook server, and the webhook configurations.

use serde_json::{Value, json};

use super::Operation;
use crate::constants::labels::DELETION_PROTECTED;

/// A webhook. Names are upstream's, including those that do not follow the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Whether it mutates; otherwise it validates.
    pub mutating: bool,
    /// The name in denials: `admission webhook "<name>" denied the request`.
    pub name: &'static str,
    /// The operations that it handles.
    pub operations: &'static [Operation],
    /// `*` for all.
    pub group: &'static str,
    /// `*` for all.
    pub plural: &'static str,
    /// The kind; `*` for all.
    pub kind: &'static str,
    /// `Namespaced`, `Cluster` or `*`.
    pub scope: &'static str,
    /// The path on the webhook server.
    pub path: &'static str,
    /// The time-out in seconds.
    pub timeout_seconds: u32,
    /// `sideEffects` in the configuration.
    pub side_effects: &'static str,
}

const WRITES: &[Operation] = &[Operation::Create, Operation::Update];
const CREATE: &[Operation] = &[Operation::Create];
const DELETE: &[Operation] = &[Operation::Delete];

const fn row(
    mutating: bool,
    name: &'static str,
    operations: &'static [Operation],
    served: (&'static str, &'static str, &'static str, &'static str),
    path: &'static str,
) -> Webhook {
    let (group, plural, kind, scope) = served;
    Webhook { mutating, name, operations, group, plural, kind, scope, path, timeout_seconds: 3, side_effects: "None" }
}

type Served = (&'static str, &'static str, &'static str, &'static str);

const POLICY: Served = ("policy.karmada.io", "propagationpolicies", "PropagationPolicy", "Namespaced");
const CLUSTER_POLICY: Served =
    ("policy.karmada.io", "clusterpropagationpolicies", "ClusterPropagationPolicy", "Cluster");
const OVERRIDE: Served = ("policy.karmada.io", "overridepolicies", "OverridePolicy", "Namespaced");
const CLUSTER_OVERRIDE: Served = ("policy.karmada.io", "clusteroverridepolicies", "ClusterOverridePolicy", "Cluster");
const TAINT_POLICY: Served = ("policy.karmada.io", "clustertaintpolicies", "ClusterTaintPolicy", "Cluster");
const QUOTA: Served = ("policy.karmada.io", "federatedresourcequotas", "FederatedResourceQuota", "Namespaced");
const BINDING: Served = ("work.karmada.io", "resourcebindings", "ResourceBinding", "Namespaced");
const CLUSTER_BINDING: Served = ("work.karmada.io", "clusterresourcebindings", "ClusterResourceBinding", "Cluster");
const WORK: Served = ("work.karmada.io", "works", "Work", "Namespaced");
const HPA: Served = ("autoscaling.karmada.io", "federatedhpas", "FederatedHPA", "Namespaced");
const CRON_HPA: Served = ("autoscaling.karmada.io", "cronfederatedhpas", "CronFederatedHPA", "Namespaced");
const SERVICE: Served = ("networking.karmada.io", "multiclusterservices", "MultiClusterService", "Namespaced");
const INGRESS: Served = ("networking.karmada.io", "multiclusteringresses", "MultiClusterIngress", "Namespaced");
const CUSTOMIZATION: Served =
    ("config.karmada.io", "resourceinterpretercustomizations", "ResourceInterpreterCustomization", "Cluster");
const INTERPRETER_WEBHOOK: Served = (
    "config.karmada.io",
    "resourceinterpreterwebhookconfigurations",
    "ResourceInterpreterWebhookConfiguration",
    "Cluster",
);
const EVERYTHING: Served = ("*", "*", "*", "*");

/// All webhooks, mutating ones first.
pub const WEBHOOKS: &[Webhook] = &[
    row(true, "propagationpolicy.karmada.io", WRITES, POLICY, "/mutate-propagationpolicy"),
    row(true, "clusterpropagationpolicy.karmada.io", WRITES, CLUSTER_POLICY, "/mutate-clusterpropagationpolicy"),
    row(true, "overridepolicy.karmada.io", WRITES, OVERRIDE, "/mutate-overridepolicy"),
    row(true, "resourcebinding.karmada.io", CREATE, BINDING, "/mutate-resourcebinding"),
    row(true, "clusterresourcebinding.karmada.io", CREATE, CLUSTER_BINDING, "/mutate-clusterresourcebinding"),
    row(true, "work.karmada.io", WRITES, WORK, "/mutate-work"),
    row(true, "autoscaling.karmada.io", WRITES, HPA, "/mutate-federatedhpa"),
    row(true, "multiclusterservice.karmada.io", WRITES, SERVICE, "/mutate-multiclusterservice"),
    row(false, "propagationpolicy.karmada.io", WRITES, POLICY, "/validate-propagationpolicy"),
    row(false, "clusterpropagationpolicy.karmada.io", WRITES, CLUSTER_POLICY, "/validate-clusterpropagationpolicy"),
    row(false, "overridepolicy.karmada.io", WRITES, OVERRIDE, "/validate-overridepolicy"),
    row(false, "clusteroverridepolicy.karmada.io", WRITES, CLUSTER_OVERRIDE, "/validate-clusteroverridepolicy"),
    row(false, "config.karmada.io", WRITES, INTERPRETER_WEBHOOK, "/validate-resourceinterpreterwebhookconfiguration"),
    Webhook {
        timeout_seconds: 10,
        ..row(
            false,
            "resourceinterpretercustomization.karmada.io",
            WRITES,
            CUSTOMIZATION,
            "/validate-resourceinterpretercustomization",
        )
    },
    row(false, "federatedresourcequota.karmada.io", WRITES, QUOTA, "/validate-federatedresourcequota"),
    row(false, "multiclusteringress.karmada.io", WRITES, INGRESS, "/validate-multiclusteringress"),
    row(false, "federatedhpa.karmada.io", WRITES, HPA, "/validate-federatedhpa"),
    row(false, "cronfederatedhpa.karmada.io", WRITES, CRON_HPA, "/validate-cronfederatedhpa"),
    row(false, "multiclusterservice.karmada.io", WRITES, SERVICE, "/validate-multiclusterservice"),
    row(false, "resourcedeletionprotection.karmada.io", DELETE, EVERYTHING, "/validate-resourcedeletionprotection"),
    Webhook {
        // The usage of a quota is written, except on a dry run.
        side_effects: "NoneOnDryRun",
        ..row(false, "resourcebinding.karmada.io", WRITES, BINDING, "/validate-resourcebinding")
    },
    row(false, "clustertaintpolicy.karmada.io", WRITES, TAINT_POLICY, "/validate-clustertaintpolicy"),
];

/// The webhook with the rules for a request; `None` for kinds without rules.
pub fn webhook(mutating: bool, operation: Operation, group: &str, kind: &str) -> Option<&'static Webhook> {
    WEBHOOKS.iter().find(|it| {
        it.mutating == mutating
            && it.operations.contains(&operation)
            && (it.group == "*" || (it.group == group && it.kind == kind))
    })
}

/// Whether any webhook handles updates of a resource.
pub fn handles_updates(group: &str, plural: &str) -> bool {
    let handles = |it: &Webhook| it.group == "*" || (it.group == group && it.plural == plural);
    WEBHOOKS.iter().any(|it| it.operations.contains(&Operation::Update) && handles(it))
}

/// The webhook at a path.
pub fn served_at(path: &str) -> Option<&'static Webhook> {
    WEBHOOKS.iter().find(|it| it.path == path)
}

/// The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration for a server at `base`, e.g.
/// `https://karmada-webhook.karmada-system.svc:443`. `ca_bundle` is base64 of PEM.
pub fn configurations(base: &str, ca_bundle: &str) -> [Value; 2] {
    [
        ("MutatingWebhookConfiguration", "mutating-config", true),
        ("ValidatingWebhookConfiguration", "validating-config", false),
    ]
    .map(|(kind, name, mutating)| {
        let rows = WEBHOOKS.iter().filter(|it| it.mutating == mutating);
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name, "labels": { "app": "karmada-webhook" } },
            "webhooks": rows.map(|it| configuration(it, base, ca_bundle)).collect::<Vec<_>>(),
        })
    })
}

fn configuration(webhook: &Webhook, base: &str, ca_bundle: &str) -> Value {
    let mut out = json!({
        "name": webhook.name,
        "rules": [{
            "operations": webhook.operations.iter().map(|it| it.wire()).collect::<Vec<_>>(),
            "apiGroups": [webhook.group],
            "apiVersions": ["*"],
            "resources": [webhook.plural],
            "scope": webhook.scope,
        }],
        "clientConfig": { "url": format!("{base}{}", webhook.path), "caBundle": ca_bundle },
        "failurePolicy": "Fail",
        "sideEffects": webhook.side_effects,
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": webhook.timeout_seconds,
    });
    if webhook.group == "*" {
        out["objectSelector"] = json!({ "matchExpressions": [{ "key": DELETION_PROTECTED, "operator": "Exists" }] });
    }
    out
}

/// The conversion strategy of the bindings' CustomResourceDefinitions for an API server that is not ours.
pub fn conversion(base: &str, ca_bundle: &str) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": { "url": format!("{base}/convert"), "caBundle": ca_bundle },
            "conversionReviewVersions": ["v1"],
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn twenty_two_webhooks_at_as_many_paths() {
        let paths: BTreeSet<&str> = WEBHOOKS.iter().map(|it| it.path).collect();
        assert_eq!((WEBHOOKS.len(), paths.len()), (22, 22));
        let [mutating, validating] = configurations("https://h", "Y2E=");
        assert_eq!(mutating["webhooks"].as_array().unwrap().len(), 8);
        assert_eq!(validating["webhooks"].as_array().unwrap().len(), 14);
        assert_eq!(
            validating["webhooks"][11],
            json!({
                "name": "resourcedeletionprotection.karmada.io",
                "rules": [{"operations": ["DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "*"}],
                "clientConfig": {"url": "https://h/validate-resourcedeletionprotection", "caBundle": "Y2E="},
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 3,
                "objectSelector": {"matchExpressions": [{"key": "resourcetemplate.karmada.io/deletion-protected", "operator": "Exists"}]},
            })
        );
    }

    #[test]
    fn a_request_finds_its_webhook() {
        use Operation::{Create, Delete, Update};
        for (mutating, operation, group, kind, name) in [
            (true, Create, "autoscaling.karmada.io", "FederatedHPA", Some("autoscaling.karmada.io")),
            (false, Update, "config.karmada.io", "ResourceInterpreterWebhookConfiguration", Some("config.karmada.io")),
            (true, Update, "work.karmada.io", "ResourceBinding", None),
            (false, Create, "work.karmada.io", "ClusterResourceBinding", None),
            (false, Delete, "apps", "Deployment", Some("resourcedeletionprotection.karmada.io")),
            (false, Create, "apps", "Deployment", None),
        ] {
            assert_eq!(webhook(mutating, operation, group, kind).map(|it| it.name), name, "{kind}");
        }
    }
}
