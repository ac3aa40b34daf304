//! Which policies select a workload, and which nearly do.

use karmada_api::policy::v1alpha1::ResourceSelector;
use karmada_api::scope::{Policy, Scope};
use propagation::selection::{best, strongest};
use propagation::template::Template as Tree;

use super::live::{Live, Template};
use super::subject::near;

/// At most this many policies are named that nearly select a workload.
const NAMED: usize = 3;

/// The policies that currently select a workload.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// The policy with the highest precedence.
    pub best: Option<&'a Policy>,
    pub all: Vec<&'a Policy>,
}

impl Selection<'_> {
    #[allow(clippy::unused_self, reason = "reads as the name of one of the selection")]
    pub fn name_of(&self, policy: &Policy) -> String {
        format!("{} {}", Policy::kind(policy.scope), policy.key())
    }
}

fn may_reach(policy: &Policy, namespace: &str) -> bool {
    policy.scope == Scope::Cluster || policy.metadata.namespace == namespace
}

pub fn selecting(live: &Live) -> Selection<'_> {
    let Template::Found(tree) = &live.template else { return Selection::default() };
    let template = Tree(tree);
    let reach = |policy: &&Policy| may_reach(policy, template.namespace());
    let selects = |policy: &&Policy| strongest(&policy.spec.resource_selectors, template).is_some();
    let all: Vec<&Policy> = live.policies.iter().filter(reach).filter(selects).collect();
    let of = |scope: Scope| best(all.iter().copied().filter(|policy| policy.scope == scope), template);
    Selection { best: of(Scope::Namespaced).or_else(|| of(Scope::Cluster)), all }
}

/// For a workload that no policy selects: the policies that fail to select it by a single difference.
pub fn near_misses(live: &Live, selection: &Selection<'_>) -> Vec<String> {
    if selection.best.is_some() || live.binding.is_some() {
        return Vec::new();
    }
    let Template::Found(tree) = &live.template else { return Vec::new() };
    let template = Tree(tree);
    let miss = |policy: &Policy| {
        let mut why = Vec::new();
        if !may_reach(policy, template.namespace()) {
            why.push(format!("it is in namespace {}", policy.metadata.namespace));
        }
        if policy.metadata.deletion_timestamp.is_some() {
            why.push("it is being deleted".to_owned());
        }
        let selectors = policy.spec.resource_selectors.iter().filter(|it| means(&it.kind, template.kind()));
        // Admission sets the namespace of a selector to that of its policy, which is one difference.
        let elsewhere = if why.is_empty() { "" } else { policy.metadata.namespace.as_str() };
        let differences = selectors.map(|it| differences(it, template, elsewhere)).min_by_key(Vec::len)?;
        why.extend(differences);
        (why.len() == 1).then(|| format!("{} {}: {}", Policy::kind(policy.scope), policy.key(), why.remove(0)))
    };
    live.policies.iter().filter_map(miss).take(NAMED).collect()
}

/// Whether a selector's kind is probably meant to be `kind`: `deployment` and `deployments` are names of resources.
fn means(selected: &str, kind: &str) -> bool {
    let singular = selected.strip_suffix('s').unwrap_or(selected);
    [selected, singular].iter().any(|it| it.eq_ignore_ascii_case(kind))
}

/// The mistake of selectors that would select a workload if its kind and version were written as the API has them.
pub fn mistyped(selectors: &[ResourceSelector], template: Tree<'_>) -> Option<String> {
    selectors.iter().find_map(|selector| {
        let corrected = ResourceSelector {
            kind: template.kind().to_owned(),
            api_version: template.api_version().to_owned(),
            ..selector.clone()
        };
        let is_meant = means(&selector.kind, template.kind()) && strongest(&[corrected], template).is_some();
        differences(selector, template, "").into_iter().next().filter(|_| is_meant)
    })
}

/// The differences between a selector of the kind and a workload; at least two if the workload was probably not meant.
/// A selector of the namespace `elsewhere` has none in that.
fn differences(selector: &ResourceSelector, template: Tree<'_>, elsewhere: &str) -> Vec<String> {
    let mut why = Vec::new();
    if selector.kind != template.kind() {
        why.push(format!("it selects kind {}, the workload has {}", selector.kind, template.kind()));
    }
    if selector.api_version != template.api_version() {
        why.push(format!(
            "it selects apiVersion {}, the workload has {}",
            selector.api_version,
            template.api_version()
        ));
    }
    if !["", elsewhere, template.namespace()].contains(&selector.namespace.as_str()) {
        why.push(format!("it selects namespace {}", selector.namespace));
    }
    if !selector.name.is_empty() && selector.name != template.name() {
        why.push(format!("it selects the name {}", selector.name));
        if near(template.name(), [selector.name.as_str()]).is_empty()
            && near(&selector.name, [template.name()]).is_empty()
        {
            why.push("and no similar one".to_owned());
        }
    }
    let by_labels = selector.name.is_empty() && selector.label_selector.is_some();
    if by_labels && why.is_empty() && strongest(std::slice::from_ref(selector), template).is_none() {
        why.push("its labelSelector does not match the labels of the workload".to_owned());
    }
    why
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mistakes_in_kind_and_version_are_found_where_the_rest_selects() {
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}});
        let by_label = |app: &str| json!({"matchLabels": {"app": app}});
        for (selector, expected) in [
            (json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}), None),
            (
                json!({"apiVersion": "apps/v1", "kind": "deployment", "name": "web"}),
                Some("it selects kind deployment, the workload has Deployment"),
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "deployments", "labelSelector": by_label("web")}),
                Some("it selects kind deployments, the workload has Deployment"),
            ),
            (
                json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"}),
                Some("it selects apiVersion apps/v1beta1, the workload has apps/v1"),
            ),
            (json!({"apiVersion": "apps/v1", "kind": "deployment", "name": "web2"}), None),
            (json!({"apiVersion": "apps/v1", "kind": "deployments", "labelSelector": by_label("db")}), None),
            (json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}), None),
        ] {
            let selectors: Vec<ResourceSelector> = vec![serde_json::from_value(selector.clone()).expect("a selector")];
            assert_eq!(mistyped(&selectors, Tree(&template)).as_deref(), expected, "{selector}");
        }
    }
}
