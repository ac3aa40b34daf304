//! Overrides: changes to the copy of a template for one cluster.

mod apply;
mod image;
mod ordered;

use std::collections::BTreeMap;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::ClusterName;
use karmada_api::policy::v1alpha1::{Overriders, RuleWithCluster};
use karmada_api::scope::Override;
use serde::Serialize;
use serde_json::Value;

use crate::selection::{Strength, strongest};
use crate::template::Template;

pub use apply::apply_overriders;

/// One rule that was applied, as the Work records it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The name of the policy.
    pub policy_name: String,
    /// Its overriders for the cluster.
    pub overriders: Overriders,
}

/// The overrides applied to a manifest, by the scope of the policies.
pub type AppliedOverrides = BTreeMap<Scope, Vec<Applied>>;

/// A policy that could not be applied; the whole Work of the cluster is not written.
#[derive(Debug, thiserror::Error)]
#[error("{} failed: {source}", attempt(*scope, policy, cluster))]
pub struct Error {
    /// The scope of the policy.
    pub scope: Scope,
    /// The policy.
    pub policy: apimachinery::ObjectKey,
    /// The cluster.
    pub cluster: ClusterName,
    /// The failed overrider.
    pub source: OverrideError,
}

impl Error {
    /// The failed operation, as events name it.
    pub fn attempt(&self) -> String {
        format!("{} failed.", attempt(self.scope, &self.policy, &self.cluster))
    }
}

/// The beginning of events about a policy and a cluster.
pub fn attempt(scope: Scope, policy: &apimachinery::ObjectKey, cluster: &str) -> String {
    let words = match scope {
        Scope::Cluster => "cluster override policy",
        Scope::Namespaced => "override policy",
    };
    format!("Apply {words}({policy}) for cluster({cluster})")
}

/// Why one overrider failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum OverrideError {
    #[error("{operation} {path}: {detail}")]
    Patch { operation: &'static str, path: String, detail: String },
    #[error("failed to obtain imageValue with predicate path({path}), error: {detail}")]
    ImagePath { path: String, detail: String },
    #[error("image {image:?} is not a reference: {detail}")]
    Image { image: String, detail: &'static str },
    #[error("{path}: {detail}")]
    Field { path: String, detail: String },
    #[error("after the overrides the object has no kind")]
    NoKind,
    #[error(
        "it makes the object {0}: a policy of a namespace cannot change the API group, the kind or the namespace of an \
         object; a ClusterOverridePolicy can"
    )]
    Moved(String),
}

/// Applies all overrides for `cluster`: ClusterOverridePolicies first, then the OverridePolicies of the object's
/// namespace; within a scope the weakest match first, then by name, so the most specific policy has the last word.
///
/// # Errors
/// The first policy that cannot be applied; the object may then be partly changed.
///
/// ```
/// use karmada_api::cluster::v1alpha1::Cluster;
/// use karmada_api::scope::Override;
/// use propagation::overrides;
/// use serde_json::json;
///
/// let mut policy = Override::named(&apimachinery::ObjectKey::namespaced("default", "registry"));
/// policy.spec = serde_json::from_value(json!({
///     "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
///     "overrideRules": [{"overriders": {"imageOverrider": [
///         {"component": "Registry", "operator": "replace", "value": "registry.example"},
///     ]}}],
/// }))?;
/// let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "member1"}, "spec": {"syncMode": "Push"}}))?;
/// let mut pod = json!({
///     "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "web"},
///     "spec": {"containers": [{"name": "web", "image": "docker.io/library/nginx:1.29"}]},
/// });
/// overrides::apply(&[policy], &cluster, &mut pod)?;
/// assert_eq!(pod["spec"]["containers"][0]["image"], "registry.example/library/nginx:1.29");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn apply(policies: &[Override], cluster: &Cluster, object: &mut Value) -> Result<AppliedOverrides, Error> {
    let mut applied = AppliedOverrides::new();
    for scope in [Scope::Cluster, Scope::Namespaced] {
        let chosen = choose(policies.iter().filter(|policy| policy.scope == scope), Template(object));
        let mut rules = Vec::new();
        for (_, policy) in chosen {
            for rule in rules_for(policy, cluster) {
                apply_rule(scope, rule, object).map_err(|source| Error {
                    scope,
                    policy: policy.key(),
                    cluster: ClusterName::of(cluster),
                    source,
                })?;
                rules.push(Applied { policy_name: policy.metadata.name.clone(), overriders: rule.clone() });
            }
        }
        rules.sort_by(|left, right| left.policy_name.cmp(&right.policy_name));
        if !rules.is_empty() {
            applied.insert(scope, rules);
        }
    }
    Ok(applied)
}

/// A policy that selects an object, in the order in which [`apply`] applies them.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<'a> {
    /// The policy.
    pub policy: &'a Override,
    /// How strongly its selector matches.
    pub strength: Strength,
    /// How many of its rules fit the cluster.
    pub rules: usize,
    /// The object after the policy, or why it cannot be applied. Later policies are not tried then.
    pub after: Result<Value, OverrideError>,
}

/// The steps of [`apply`] for `cluster`, policy by policy, for display: each step holds the whole object.
pub fn steps<'a>(policies: &'a [Override], cluster: &Cluster, object: &Value) -> Vec<Step<'a>> {
    let mut object = object.clone();
    let mut steps = Vec::new();
    for scope in [Scope::Cluster, Scope::Namespaced] {
        let chosen = choose(policies.iter().filter(|policy| policy.scope == scope), Template(&object));
        for (strength, policy) in chosen {
            let rules = rules_for(policy, cluster);
            let applied = rules.iter().try_for_each(|rule| apply_rule(scope, rule, &mut object));
            let is_end = applied.is_err();
            steps.push(Step { policy, strength, rules: rules.len(), after: applied.map(|()| object.clone()) });
            if is_end {
                return steps;
            }
        }
    }
    steps
}

/// Applies one rule. The author of a namespace's policy may have rights in this namespace alone, and the control plane
/// writes with its own rights to members: such a policy must not make one object another.
fn apply_rule(scope: Scope, rule: &Overriders, object: &mut Value) -> Result<(), OverrideError> {
    if scope == Scope::Cluster {
        return apply_overriders(rule, object);
    }
    let before = place(object).map(str::to_owned);
    apply_overriders(rule, object)?;
    let [group, kind, namespace] = place(object);
    if before == [group, kind, namespace] {
        return Ok(());
    }
    let (dot, name) = (if group.is_empty() { "" } else { "." }, Template(object).name());
    Err(OverrideError::Moved(format!("{kind}{dot}{group} {namespace}/{name}")))
}

/// The API group, the kind and the namespace of an object.
fn place(object: &Value) -> [&str; 3] {
    let template = Template(object);
    let group = template.api_version().rsplit_once('/').map_or("", |(group, _)| group);
    [group, template.kind(), template.namespace()]
}

/// Whether an override policy concerns an object at all (in any cluster).
pub fn concerns(policy: &Override, template: Template<'_>) -> bool {
    strength(policy, template).is_some()
}

fn strength(policy: &Override, template: Template<'_>) -> Option<Strength> {
    if policy.scope == Scope::Namespaced && policy.metadata.namespace != template.namespace() {
        return None;
    }
    if policy.spec.resource_selectors.is_empty() {
        return Some(Strength::All);
    }
    strongest(&policy.spec.resource_selectors, template)
}

/// The policies that concern an object, the weakest first.
fn choose<'a>(policies: impl Iterator<Item = &'a Override>, template: Template<'_>) -> Vec<(Strength, &'a Override)> {
    let mut chosen: Vec<(Strength, &Override)> =
        policies.filter_map(|policy| Some((strength(policy, template)?, policy))).collect();
    chosen.sort_by(|(left_strength, left), (right_strength, right)| {
        left_strength.cmp(right_strength).then(left.metadata.name.cmp(&right.metadata.name))
    });
    chosen
}

/// The rules of a policy for a cluster; without rules, the two deprecated fields form one.
fn rules_for<'a>(policy: &'a Override, cluster: &Cluster) -> Vec<&'a Overriders> {
    let spec = &policy.spec;
    let hits = |affinity: Option<&karmada_api::policy::v1alpha1::ClusterAffinity>| {
        affinity.is_none_or(|affinity| crate::cluster::matches(affinity, cluster))
    };
    if spec.override_rules.is_empty() {
        return if hits(spec.target_cluster.as_ref()) { vec![&spec.overriders] } else { Vec::new() };
    }
    let rule = |rule: &'a RuleWithCluster| hits(rule.target_cluster.as_ref()).then_some(&rule.overriders);
    spec.override_rules.iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use apimachinery::ObjectKey;
    use serde_json::json;

    use super::*;

    fn cluster(name: &str) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}})).unwrap()
    }

    fn policy(key: &ObjectKey, spec: Value) -> Override {
        let mut policy = Override::named(key);
        policy.spec = serde_json::from_value(spec).unwrap();
        policy
    }

    fn set(value: &str) -> Value {
        json!({"overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"k": value}}]}}]})
    }

    fn with(mut spec: Value, selector: Value) -> Value {
        spec["resourceSelectors"] = json!([selector]);
        spec
    }

    #[test]
    fn later_policies_take_precedence() {
        let by_name = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a"});
        let by_label = json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {}});
        let ns = |name: &str| ObjectKey::namespaced("ns", name);
        let cases = [
            (
                vec![
                    policy(&ns("z"), with(set("label"), by_label)),
                    policy(&ns("a"), with(set("name"), by_name.clone())),
                ],
                "name",
            ),
            (
                vec![
                    policy(&ns("b"), with(set("b"), by_name.clone())),
                    policy(&ns("a"), with(set("a"), by_name.clone())),
                ],
                "b",
            ),
            (
                vec![
                    policy(&ObjectKey::cluster("c"), with(set("cluster"), by_name)),
                    policy(&ns("a"), set("namespaced")),
                ],
                "namespaced",
            ),
        ];
        for (policies, expected) in cases {
            let mut object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
            apply(&policies, &cluster("m1"), &mut object).unwrap();
            assert_eq!(object["metadata"]["labels"]["k"], expected);
        }
    }

    /// Policies of the namespace select by the labels that cluster-wide ones gave; within a scope, by those from
    /// before.
    #[test]
    fn label_selectors_select_templates() {
        let on = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"k": value}}});
        let by = |key: &str| json!({"overrideRules": [{"overriders": {"annotationsOverrider": [{"operator": "add", "value": {key: "yes"}}]}}]});
        let ns = |name: &str| ObjectKey::namespaced("ns", name);
        let mut leaving = policy(&ns("leaving"), by("leaving"));
        leaving.metadata.deletion_timestamp =
            Some(apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let policies = [
            policy(&ObjectKey::cluster("a"), set("wide")),
            policy(&ObjectKey::cluster("b"), with(by("too-late"), on("wide"))),
            policy(&ns("a"), with(by("in-time"), on("wide"))),
            policy(&ns("b"), with(by("never"), on("before"))),
            policy(&ObjectKey::namespaced("other", "c"), by("elsewhere")),
            leaving,
        ];
        let object = |namespace: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace, "labels": {"k": "before"}}});
        let mut inside = object(json!("ns"));
        apply(&policies, &cluster("m1"), &mut inside).unwrap();
        assert_eq!(inside["metadata"]["annotations"], json!({"in-time": "yes", "leaving": "yes"}));
        // Namespaced policies do not apply to objects without a namespace.
        let mut wide = object(Value::Null);
        let applied = apply(&policies, &cluster("m1"), &mut wide).unwrap();
        assert_eq!(applied.keys().copied().collect::<Vec<_>>(), [Scope::Cluster]);
        assert_eq!(wide["metadata"]["annotations"], Value::Null);
    }

    #[test]
    fn target_clusters_select_rules() {
        let rule = |target: Value, value: &str| json!({"targetCluster": target, "overriders": {"labelsOverrider": [{"operator": "add", "value": {value: "yes"}}]}});
        let rules = json!([
            rule(Value::Null, "everywhere"),
            rule(json!({}), "anywhere"),
            rule(json!({"clusterNames": ["m1"]}), "here"),
            rule(json!({"exclude": ["m1"]}), "not-here"),
            rule(json!({"clusterNames": ["m2"]}), "there"),
        ]);
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
        let policies = [policy(&ObjectKey::namespaced("ns", "p"), json!({ "overrideRules": rules }))];
        let applied = apply(&policies, &cluster("m1"), &mut object).unwrap();
        assert_eq!(object["metadata"]["labels"], json!({"everywhere": "yes", "anywhere": "yes", "here": "yes"}));
        assert_eq!(applied[&Scope::Namespaced].len(), 3, "one record for each rule");
        // The superseded pair counts where there are no rules.
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
        let mut old = rule(json!({"clusterNames": ["m1"]}), "old-form");
        let spec = json!({"targetCluster": old["targetCluster"].take(), "overriders": old["overriders"].take()});
        apply(&[policy(&ObjectKey::namespaced("ns", "p"), spec)], &cluster("m1"), &mut object).unwrap();
        assert_eq!(object["metadata"]["labels"], json!({"old-form": "yes"}));
        // A policy without effect is recorded as applied.
        for (spec, records) in [(json!({}), 1), (json!({"targetCluster": {"clusterNames": ["m2"]}}), 0)] {
            let before = object.clone();
            let empty = policy(&ObjectKey::namespaced("ns", "p"), spec);
            let applied = apply(&[empty], &cluster("m1"), &mut object).unwrap();
            assert_eq!((applied.values().flatten().count(), &object), (records, &before));
        }
    }

    #[test]
    fn policies_of_a_namespace_do_not_make_one_object_another() {
        let replace =
            |path: &str, value: &str| json!({"plaintext": [{"path": path, "operator": "replace", "value": value}]});
        let image = |path: &str, value: &str| json!({"imageOverrider": [{"predicate": {"path": path}, "component": "Repository", "operator": "replace", "value": value}]});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a", "namespace": "ns"}});
        for (overriders, moved) in [
            (replace("/metadata/namespace", "kube-system"), Some("Role.rbac.authorization.k8s.io kube-system/a")),
            (image("/metadata/namespace", "kube-system"), Some("Role.rbac.authorization.k8s.io kube-system/a")),
            (replace("/kind", "ClusterRole"), Some("ClusterRole.rbac.authorization.k8s.io ns/a")),
            (replace("/apiVersion", "example.io/v1"), Some("Role.example.io ns/a")),
            (replace("/apiVersion", "v1"), Some("Role ns/a")),
            (replace("/metadata", ""), Some("Role.rbac.authorization.k8s.io /")),
            (replace("/apiVersion", "rbac.authorization.k8s.io/v1beta1"), None),
            (replace("/metadata/name", "b"), None),
        ] {
            let spec = json!({"overrideRules": [{"overriders": overriders}]});
            let of_namespace = [policy(&ObjectKey::namespaced("ns", "p"), spec.clone())];
            let error = apply(&of_namespace, &cluster("m1"), &mut role.clone()).err().map(|error| error.source);
            assert_eq!(error, moved.map(|moved| OverrideError::Moved(moved.to_owned())), "{spec}");
            let shown = steps(&of_namespace, &cluster("m1"), &role).pop().and_then(|step| step.after.err());
            assert_eq!(shown, error);
            apply(&[policy(&ObjectKey::cluster("p"), spec)], &cluster("m1"), &mut role.clone()).unwrap();
        }
    }

    #[test]
    fn rules_go_by_cluster_and_are_recorded() {
        let spec = json!({"overrideRules": [
            {"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [{"path": "/data/x", "operator": "replace", "value": "1"}]}},
            {"targetCluster": {"clusterNames": ["m2"]}, "overriders": {"plaintext": [{"path": "/data/x", "operator": "remove"}]}},
        ]});
        let policies = [policy(&ObjectKey::cluster("c"), spec)];
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "0"}});
        let mut one = object.clone();
        let applied = apply(&policies, &cluster("m1"), &mut one).unwrap();
        assert_eq!(one["data"], json!({"x": "1"}));
        assert_eq!(
            serde_json::to_string(&applied[&Scope::Cluster]).unwrap(),
            r#"[{"policyName":"c","overriders":{"plaintext":[{"operator":"replace","path":"/data/x","value":"1"}]}}]"#
        );
        let mut two = object.clone();
        apply(&policies, &cluster("m2"), &mut two).unwrap();
        assert_eq!(two["data"], json!({}));
        let mut three = object.clone();
        assert!(apply(&policies, &cluster("m3"), &mut three).unwrap().is_empty());
        let mut failing = object;
        failing["data"] = json!({});
        let error = apply(&policies, &cluster("m1"), &mut failing).unwrap_err();
        assert!(error.to_string().starts_with("Apply cluster override policy(c) for cluster(m1) failed: "), "{error}");
        assert_eq!(error.attempt(), "Apply cluster override policy(c) for cluster(m1) failed.");
    }

    #[test]
    fn applied_objects_are_reported_by_name() {
        let by_name = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a"});
        let ns = |name: &str| ObjectKey::namespaced("ns", name);
        let policies = [policy(&ns("a"), with(set("a"), by_name)), policy(&ns("z"), set("z"))];
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
        let applied = apply(&policies, &cluster("m1"), &mut object).unwrap();
        // The one of everything is applied first.
        assert_eq!(object["metadata"]["labels"]["k"], "a");
        let names: Vec<&str> = applied[&Scope::Namespaced].iter().map(|rule| rule.policy_name.as_str()).collect();
        assert_eq!(names, ["a", "z"]);
    }
}
