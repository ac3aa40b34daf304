//! The nodes that match a pod, apart from resources: node selector, required node affinity, taints.

use std::collections::BTreeMap;

use apimachinery::meta::null_as_default;
use apimachinery::selector::{Operator, Requirement};
use serde::Deserialize;

use super::pod::PodSpec;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    #[serde(deserialize_with = "null_as_default")]
    pub node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelector {
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelectorTerm {
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<Expression>,
    #[serde(deserialize_with = "null_as_default")]
    pub match_fields: Vec<Expression>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Expression {
    pub key: String,
    pub operator: String,
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    pub effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    /// Empty tolerates every key.
    #[serde(deserialize_with = "null_as_default")]
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    /// Empty tolerates every effect.
    #[serde(deserialize_with = "null_as_default")]
    pub effect: String,
}

/// Whether selector and required affinity match a node.
pub(crate) fn accepts(spec: &PodSpec, node: &str, labels: &BTreeMap<String, String>) -> bool {
    let selected = spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec.affinity.node_affinity.required.as_ref();
    selected && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| term.fits(node, labels)))
}

impl NodeSelectorTerm {
    /// An empty term matches nothing.
    fn fits(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        self.match_expressions.iter().all(|one| one.holds(labels.get(&one.key).map(String::as_str)))
            && self.match_fields.iter().all(|one| one.key == "metadata.name" && one.holds(Some(node)))
    }
}

impl Expression {
    fn holds(&self, value: Option<&str>) -> bool {
        let operator = match self.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return false,
        };
        // Field keys are not label keys; only the values are compared here.
        Requirement::new("value", operator, self.values.clone()).is_ok_and(|requirement| requirement.matches(value))
    }
}

/// The first untolerated taint with one of the effects.
pub(crate) fn untolerated<'t>(tolerations: &[Toleration], taints: &'t [Taint], effects: &[&str]) -> Option<&'t Taint> {
    let concerns = |taint: &&Taint| effects.contains(&taint.effect.as_str());
    taints.iter().filter(concerns).find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = (self.key.is_empty() && self.operator == "Exists") || self.key == taint.key;
        effect && key && (self.operator == "Exists" || self.value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: Value) -> PodSpec {
        serde_json::from_value(spec).expect("a pod's spec")
    }

    #[test]
    fn nodes_are_selected_by_labels_and_name() {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())]);
        let check =
            |pod: Value, expected: bool| assert_eq!(accepts(&spec(pod.clone()), "n1", &labels), expected, "{pod}");
        let required = |term: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}});
        let expression = |key: &str, operator: &str, values: &[&str]| {
            required(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        check(json!({}), true);
        check(json!({"nodeSelector": {"zone": "a"}}), true);
        check(json!({"nodeSelector": {"zone": "b"}}), false);
        check(expression("zone", "In", &["a", "c"]), true);
        check(expression("zone", "NotIn", &["a"]), false);
        check(expression("disk", "DoesNotExist", &[]), true);
        check(expression("cores", "Gt", &["4"]), true);
        check(expression("cores", "Lt", &["4"]), false);
        check(expression("zone", "Near", &["a"]), false);
        check(required(json!({})), false);
        let named = |name: &str| {
            required(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}))
        };
        check(named("n1"), true);
        check(named("n2"), false);
    }

    #[test]
    fn taints_need_a_toleration() {
        let taints = [Taint { key: "gpu".into(), value: "yes".into(), effect: "NoSchedule".into() }];
        let check = |toleration: Value, tolerated: bool| {
            let pod = spec(json!({"tolerations": [toleration]}));
            let found = untolerated(&pod.tolerations, &taints, &["NoSchedule", "NoExecute"]);
            assert_eq!(found.is_none(), tolerated, "{toleration}");
        };
        check(json!({"key": "gpu", "operator": "Exists"}), true);
        check(json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}), true);
        check(json!({"key": "gpu", "value": "no"}), false);
        check(json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"operator": "Exists"}), true);
        assert_eq!(untolerated(&[], &taints, &["NoExecute"]), None);
    }
}
