//! Matching of templates against policies.

use apimachinery::selector::Selector;
use karmada_api::Scope;
use karmada_api::policy::v1alpha1::ResourceSelector;
use karmada_api::scope::Policy;

use crate::template::Template;

/// How strongly a selector names an object; the order is the order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    /// By kind alone.
    All,
    /// By its label selector.
    Label,
    /// By name.
    Name,
}

/// Whether a selector matches, and with which precedence. An invalid label selector matches nothing.
pub fn matches(selector: &ResourceSelector, template: Template<'_>) -> Option<Strength> {
    if selector.api_version != template.api_version() || selector.kind != template.kind() {
        return None;
    }
    if !selector.namespace.is_empty() && selector.namespace != template.namespace() {
        return None;
    }
    if !selector.name.is_empty() {
        return (selector.name == template.name()).then_some(Strength::Name);
    }
    match &selector.label_selector {
        None => Some(Strength::All),
        Some(labels) => {
            let labels = Selector::from_label_selector(labels).ok()?;
            labels.matches_with(|key| template.label(key)).then_some(Strength::Label)
        }
    }
}

/// The strongest match among selectors.
pub fn strongest(selectors: &[ResourceSelector], template: Template<'_>) -> Option<Strength> {
    selectors.iter().filter_map(|selector| matches(selector, template)).max()
}

/// The policy of one scope that applies to a template: highest explicit priority, then strongest match, then smallest
/// name. Policies in deletion are ignored.
pub fn best<'a>(policies: impl IntoIterator<Item = &'a Policy>, template: Template<'_>) -> Option<&'a Policy> {
    policies
        .into_iter()
        .filter(|policy| policy.metadata.deletion_timestamp.is_none())
        .filter_map(|policy| Some((strongest(&policy.spec.resource_selectors, template)?, policy)))
        .max_by(|(left_strength, left), (right_strength, right)| {
            let by_priority = priority(left).cmp(&priority(right));
            by_priority.then(left_strength.cmp(right_strength)).then(right.metadata.name.cmp(&left.metadata.name))
        })
        .map(|(_, policy)| policy)
}

/// The explicit priority; an absent one is 0.
pub fn priority(policy: &Policy) -> i32 {
    policy.spec.priority.unwrap_or_default()
}

/// Whether a policy may preempt the holder of a template (with preemption Always and its gate enabled): a namespaced
/// policy preempts any cluster policy, otherwise only a policy of its own scope with a lower explicit priority.
pub fn preempts(policy: &Policy, holder: &Policy) -> bool {
    if policy.key() == holder.key() && policy.scope == holder.scope {
        return false;
    }
    match (policy.scope, holder.scope) {
        (Scope::Namespaced, Scope::Cluster) => true,
        (Scope::Cluster, Scope::Namespaced) => false,
        _ => priority(policy) > priority(holder),
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::ObjectKey;
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, priority: i32, selector: Value) -> Policy {
        let mut policy = Policy::named(&ObjectKey::namespaced("ns", name));
        policy.spec.priority = Some(priority);
        let mut selector: ResourceSelector = serde_json::from_value(selector).unwrap();
        selector.api_version = "apps/v1".to_owned();
        selector.kind = "Deployment".to_owned();
        policy.spec.resource_selectors = vec![selector];
        policy
    }

    fn template() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}}})
    }

    #[test]
    fn strengths() {
        let object = template();
        for (selector, expected) in [
            (json!({}), Some(Strength::All)),
            (json!({"name": "web"}), Some(Strength::Name)),
            (json!({"name": "other", "labelSelector": {}}), None),
            (json!({"labelSelector": {}}), Some(Strength::Label)),
            (json!({"labelSelector": {"matchLabels": {"app": "web"}}}), Some(Strength::Label)),
            (json!({"labelSelector": {"matchLabels": {"app": "db"}}}), None),
            (json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}), None),
            (json!({"namespace": "other"}), None),
        ] {
            let policy = policy("p", 0, selector.clone());
            assert_eq!(strongest(&policy.spec.resource_selectors, Template(&object)), expected, "{selector}");
        }
    }

    #[test]
    fn the_best_policy() {
        let object = template();
        let name = json!({"name": "web"});
        let label = json!({"labelSelector": {"matchLabels": {"app": "web"}}});
        for (policies, expected) in [
            (vec![policy("a", 0, json!({})), policy("b", 0, label.clone()), policy("c", 0, name.clone())], Some("c")),
            (vec![policy("a", 1, label), policy("b", 0, name.clone())], Some("a")),
            (vec![policy("b", 0, name.clone()), policy("a", 0, name.clone())], Some("a")),
            (vec![policy("a", -1, name), policy("b", 0, json!({}))], Some("b")),
            (vec![policy("a", 9, json!({"name": "other"}))], None),
        ] {
            assert_eq!(best(&policies, Template(&object)).map(|policy| policy.metadata.name.as_str()), expected);
        }
    }

    #[test]
    fn preemption() {
        let of = |name: &str, priority: i32| policy(name, priority, json!({}));
        let mut cluster = Policy::named(&ObjectKey::cluster("c"));
        cluster.spec.priority = Some(9);
        for (policy, holder, expected) in [
            (of("a", 2), of("b", 1), true),
            (of("a", 1), of("b", 1), false),
            (of("a", 2), of("a", 1), false),
            (of("a", 0), cluster.clone(), true),
            (cluster, of("a", 0), false),
        ] {
            assert_eq!(preempts(&policy, &holder), expected, "{} {}", policy.key(), holder.key());
        }
    }

    #[test]
    fn the_strongest_match_of_a_kind_is_chosen() {
        let object = template();
        let selector = |api_version: &str, kind: &str| {
            let selector = json!({"apiVersion": api_version, "kind": kind});
            matches(&serde_json::from_value(selector).unwrap(), Template(&object))
        };
        assert_eq!(selector("apps/v1", "Deployment"), Some(Strength::All));
        assert_eq!(selector("apps/v2", "Deployment"), None);
        assert_eq!(selector("apps/v1", "deployment"), None);
        // The strongest of several matches applies, and a policy in deletion claims nothing.
        let mut leaving = policy("a", 9, json!({"name": "web"}));
        leaving.metadata.deletion_timestamp =
            Some(apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let mut both = policy("c", 0, json!({}));
        both.spec.resource_selectors.extend(policy("x", 0, json!({"name": "web"})).spec.resource_selectors);
        let policies = [leaving, policy("b", 0, json!({"labelSelector": {}})), both];
        assert_eq!(best(&policies, Template(&object)).unwrap().metadata.name, "c");
    }
}
