//! Matching of clusters against a ClusterAffinity.

use apimachinery::meta::LabelSelector;
use apimachinery::selector::{Operator, Requirement, Selector};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::kubernetes::NodeSelectorRequirement;
use karmada_api::policy::v1alpha1::{ClusterAffinity, ClusterAffinityTerm, FieldSelector, OverflowClusterAffinity};

/// Every part of the affinity that is present must hold; an empty affinity passes every cluster.
pub fn matches(affinity: &ClusterAffinity, cluster: &Cluster) -> bool {
    Affinity::from(affinity).matches(cluster)
}

/// An affinity whose selectors are parsed, to be held against many clusters.
#[derive(Clone, Debug)]
pub struct Affinity<'a> {
    /// The only names that pass; empty when every name does.
    listed: Names<'a>,
    /// Names that never pass.
    excluded: Names<'a>,
    /// `None` when a selector cannot be parsed: then no cluster passes.
    selectors: Option<Selectors<'a>>,
}

/// Names in order, so that long lists held against many clusters stay cheap.
#[derive(Clone, Debug)]
struct Names<'a>(Vec<&'a str>);

impl<'a> Names<'a> {
    fn of(names: &'a [String]) -> Self {
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        Self(sorted)
    }

    fn has(&self, name: &str) -> bool {
        self.0.binary_search(&name).is_ok()
    }
}

#[derive(Clone, Debug, Default)]
struct Selectors<'a> {
    labels: Option<Selector>,
    zones: Vec<&'a NodeSelectorRequirement>,
    /// Over provider and region.
    fields: Vec<Requirement>,
}

impl<'a> Affinity<'a> {
    fn new(
        names: &'a [String],
        exclude: &'a [String],
        labels: Option<&LabelSelector>,
        fields: Option<&'a FieldSelector>,
    ) -> Self {
        Self { listed: Names::of(names), excluded: Names::of(exclude), selectors: Selectors::parse(labels, fields) }
    }

    /// The only names that can pass, in order; `None` when every name may.
    pub fn listed(&self) -> Option<&[&'a str]> {
        (!self.listed.0.is_empty()).then_some(&self.listed.0)
    }

    /// The label selector, if there is one.
    pub fn labels(&self) -> Option<&Selector> {
        self.selectors.as_ref()?.labels.as_ref()
    }

    /// Whether only the labels of a cluster are relevant.
    pub fn uses_only_labels(&self) -> bool {
        let plain = |selectors: &Selectors<'_>| selectors.zones.is_empty() && selectors.fields.is_empty();
        self.listed.0.is_empty() && self.excluded.0.is_empty() && self.selectors.as_ref().is_some_and(plain)
    }

    /// Whether the cluster fulfils the affinity.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        self.matches_with(cluster, |labels| labels.matches(&cluster.metadata.labels))
    }

    /// For callers that have already matched the selector with the cluster's labels.
    pub fn matches_with(&self, cluster: &Cluster, labels_match: impl FnOnce(&Selector) -> bool) -> bool {
        let name = || cluster.metadata.name.as_str();
        let Some(selectors) = &self.selectors else { return false };
        (self.listed.0.is_empty() || self.listed.has(name()))
            && (self.excluded.0.is_empty() || !self.excluded.has(name()))
            && selectors.labels.as_ref().is_none_or(labels_match)
            && selectors.fields_match(cluster)
    }
}

impl<'a> From<&'a ClusterAffinity> for Affinity<'a> {
    fn from(it: &'a ClusterAffinity) -> Self {
        Self::new(&it.cluster_names, &it.exclude, it.label_selector.as_ref(), it.field_selector.as_ref())
    }
}

/// The term's own part, without its overflow tiers.
impl<'a> From<&'a ClusterAffinityTerm> for Affinity<'a> {
    fn from(it: &'a ClusterAffinityTerm) -> Self {
        Self::new(&it.cluster_names, &it.exclude, it.label_selector.as_ref(), it.field_selector.as_ref())
    }
}

impl<'a> From<&'a OverflowClusterAffinity> for Affinity<'a> {
    fn from(it: &'a OverflowClusterAffinity) -> Self {
        Self::new(&it.cluster_names, &it.exclude, it.label_selector.as_ref(), it.field_selector.as_ref())
    }
}

impl<'a> Selectors<'a> {
    fn parse(labels: Option<&LabelSelector>, fields: Option<&'a FieldSelector>) -> Option<Self> {
        let labels = labels.map(Selector::from_label_selector).transpose().ok()?;
        let mut parsed = Self { labels, ..Self::default() };
        for expression in fields.into_iter().flat_map(|fields| &fields.match_expressions) {
            if expression.key == "zone" {
                parsed.zones.push(expression);
            } else {
                let operator = operator(&expression.operator)?;
                parsed.fields.push(Requirement::new(&expression.key, operator, expression.values.clone()).ok()?);
            }
        }
        Some(parsed)
    }

    fn fields_match(&self, cluster: &Cluster) -> bool {
        self.zones.iter().all(|requirement| zones(requirement, &cluster.spec.zones))
            && self.fields.iter().all(|requirement| requirement.matches(field(requirement.key(), cluster)))
    }
}

fn operator(text: &str) -> Option<Operator> {
    Some(match text {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => return None,
    })
}

/// The value of a field; an unset or unknown field counts as absent.
fn field<'a>(key: &str, cluster: &'a Cluster) -> Option<&'a str> {
    let value = match key {
        "provider" => cluster.spec.provider.as_str(),
        "region" => cluster.spec.region.as_str(),
        _ => "",
    };
    (!value.is_empty()).then_some(value)
}

/// A cluster has any number of zones.
fn zones(requirement: &NodeSelectorRequirement, zones: &[String]) -> bool {
    let listed = || zones.iter().any(|zone| requirement.values.contains(zone));
    match requirement.operator.as_str() {
        "Exists" => !zones.is_empty(),
        "DoesNotExist" => zones.is_empty(),
        "In" => listed(),
        "NotIn" => !listed(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(value: Value) -> Cluster {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn affinities() {
        let full = cluster(json!({
            "metadata": {"name": "m1", "labels": {"env": "prod"}},
            "spec": {"syncMode": "Push", "provider": "aws", "region": "eu", "zones": ["a", "b"]},
        }));
        let bare = cluster(json!({"metadata": {"name": "m2"}, "spec": {"syncMode": "Push"}}));
        let field = |key: &str, operator: &str, values: &[&str]| json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
        let label = |operator: &str| json!({"labelSelector": {"matchExpressions": [{"key": "env", "operator": operator, "values": ["prod"]}]}});
        for (affinity, expected) in [
            (json!({}), [true, true]),
            (json!({"clusterNames": ["m1"]}), [true, false]),
            (json!({"exclude": ["m1"]}), [false, true]),
            (json!({"clusterNames": ["m1"], "exclude": ["m1"]}), [false, false]),
            (json!({"labelSelector": {"matchLabels": {"env": "prod"}}}), [true, false]),
            (label("NotIn"), [false, true]),
            (json!({"labelSelector": {}}), [true, true]),
            (label("Near"), [false, false]),
            (field("region", "In", &["eu"]), [true, false]),
            (field("region", "NotIn", &["eu"]), [false, true]),
            (field("region", "NotIn", &["us"]), [true, true]),
            (field("region", "Exists", &[]), [true, false]),
            (field("region", "DoesNotExist", &[]), [false, true]),
            (field("zone", "In", &["a"]), [true, false]),
            (field("zone", "In", &["a", "b", "c"]), [true, false]),
            (field("zone", "In", &["c"]), [false, false]),
            (field("zone", "NotIn", &["a"]), [false, true]),
            (field("zone", "NotIn", &["c"]), [true, true]),
            (field("zone", "Exists", &[]), [true, false]),
            (field("zone", "DoesNotExist", &[]), [false, true]),
            (field("zone", "Gt", &["0"]), [false, false]),
            (field("what", "In", &["x"]), [false, false]),
            (field("what", "NotIn", &["x"]), [true, true]),
            (field("region", "Gt", &["3"]), [false, false]),
            (field("provider", "In", &[]), [false, false]),
            (field("provider", "In", &["aws"]), [true, false]),
            (json!({"fieldSelector": {}}), [true, true]),
            (
                json!({"fieldSelector": {"matchExpressions": [
                    {"key": "region", "operator": "In", "values": ["eu"]},
                    {"key": "zone", "operator": "In", "values": ["c"]},
                ]}}),
                [false, false],
            ),
        ] {
            let parsed: ClusterAffinity = serde_json::from_value(affinity.clone()).unwrap();
            assert_eq!([matches(&parsed, &full), matches(&parsed, &bare)], expected, "{affinity}");
        }
    }
}
