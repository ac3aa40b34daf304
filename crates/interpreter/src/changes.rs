//! The kinds and operations that a change of customizations or webhook configurations interprets differently.

use karmada_api::config::v1alpha1::{
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, RuleWithOperations,
};

use crate::Operation;
use crate::scripted::rules;
use crate::webhook::is_covered;

/// Kinds with the operations whose results may differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes(Vec<Change>);

#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// `apiVersion`, `kind`, operations.
    Scripts(String, String, Vec<Operation>),
    Rule(RuleWithOperations),
}

impl Changes {
    /// Of a customization; `None` before it was created or after it was deleted.
    pub fn of_customization(
        old: Option<&ResourceInterpreterCustomization>,
        new: Option<&ResourceInterpreterCustomization>,
    ) -> Self {
        let has = |of: Option<&ResourceInterpreterCustomization>, kind: (&str, &str), rule: (Operation, &str)| {
            of.is_some_and(|of| target(of) == kind && rules(&of.spec.customizations).any(|it| it == rule))
        };
        let differing = |these: Option<&ResourceInterpreterCustomization>, others| {
            let these = these?;
            let (api_version, kind) = target(these);
            let scripts = rules(&these.spec.customizations);
            let differing: Vec<Operation> = scripts
                .filter(|rule| !has(others, (api_version, kind), *rule))
                .map(|(operation, _)| operation)
                .collect();
            (!differing.is_empty()).then(|| Change::Scripts(api_version.to_owned(), kind.to_owned(), differing))
        };
        Self([differing(old, new), differing(new, old)].into_iter().flatten().collect())
    }

    /// Of a webhook configuration; `None` before it was created or after it was deleted.
    pub fn of_configuration(
        old: Option<&ResourceInterpreterWebhookConfiguration>,
        new: Option<&ResourceInterpreterWebhookConfiguration>,
    ) -> Self {
        let webhooks =
            |of: Option<&ResourceInterpreterWebhookConfiguration>| of.map(|it| it.webhooks.clone()).unwrap_or_default();
        let (old, new) = (webhooks(old), webhooks(new));
        let differing = old.iter().filter(|it| !new.contains(it)).chain(new.iter().filter(|it| !old.contains(it)));
        Self(differing.flat_map(|webhook| webhook.rules.iter().cloned().map(Change::Rule)).collect())
    }

    /// Whether nothing is interpreted differently.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds later changes.
    pub fn add(&mut self, later: Self) {
        for change in later.0 {
            if !self.0.contains(&change) {
                self.0.push(change);
            }
        }
    }

    /// Whether the result of one of the operations may differ for objects of this kind.
    pub fn concern(&self, api_version: &str, kind: &str, operations: &[Operation]) -> bool {
        self.0.iter().any(|change| match change {
            Change::Scripts(version, name, changed) => {
                (&**version, &**name) == (api_version, kind) && operations.iter().any(|it| changed.contains(it))
            }
            Change::Rule(rule) => operations.iter().any(|it| is_covered(rule, api_version, kind, *it)),
        })
    }
}

fn target(of: &ResourceInterpreterCustomization) -> (&str, &str) {
    (&of.spec.target.api_version, &of.spec.target.kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: [Operation; 3] = [Operation::InterpretHealth, Operation::InterpretStatus, Operation::AggregateStatus];

    fn customization(kind: &str, scripts: &[(&str, &str)]) -> ResourceInterpreterCustomization {
        let rules: serde_json::Map<String, serde_json::Value> =
            scripts.iter().map(|(rule, script)| ((*rule).to_owned(), json!({"luaScript": script}))).collect();
        let target = json!({"apiVersion": "a/v1", "kind": kind});
        let tree = json!({"metadata": {"name": "c"}, "spec": {"target": target, "customizations": rules}});
        serde_json::from_value(tree).unwrap()
    }

    fn concerned(changes: &Changes, kind: &str) -> Vec<Operation> {
        ALL.into_iter().filter(|operation| changes.concern("a/v1", kind, &[*operation])).collect()
    }

    #[test]
    fn only_the_operations_whose_scripts_differ_are_concerned() {
        let both = customization("K", &[("healthInterpretation", "h"), ("statusReflection", "s")]);
        let other = customization("K", &[("healthInterpretation", "h2"), ("statusReflection", "s")]);
        let of = Changes::of_customization;
        for (old, new, expected) in [
            (None, Some(&both), &ALL[..2]),
            (Some(&both), None, &ALL[..2]),
            (Some(&both), Some(&other), &ALL[..1]),
            (Some(&both), Some(&both), &[]),
        ] {
            let changes = of(old, new);
            assert_eq!(concerned(&changes, "K"), expected);
            assert_eq!(changes.is_empty(), expected.is_empty());
            assert!(concerned(&changes, "L").is_empty());
        }
        let moved = of(Some(&both), Some(&customization("L", &[("healthInterpretation", "h")])));
        assert_eq!((&*concerned(&moved, "K"), &*concerned(&moved, "L")), (&ALL[..2], &ALL[..1]));
        let mut sum = of(None, Some(&both));
        sum.add(of(None, Some(&customization("L", &[("statusAggregation", "s")]))));
        assert_eq!((concerned(&sum, "K").len(), &*concerned(&sum, "L")), (2, &ALL[2..]));
    }

    #[test]
    fn webhooks_that_differ_concern_the_kinds_of_their_rules() {
        let configuration = |webhooks: &[(&str, &str, &str)]| -> ResourceInterpreterWebhookConfiguration {
            let webhook = |(name, url, kind): &(&str, &str, &str)| {
                json!({"name": name, "clientConfig": {"url": url}, "interpreterContextVersions": ["v1alpha1"], "rules": [
                    {"operations": ["InterpretHealth"], "apiGroups": ["a"], "apiVersions": ["*"], "kinds": [kind]}]})
            };
            let webhooks: Vec<_> = webhooks.iter().map(webhook).collect();
            serde_json::from_value(json!({"metadata": {"name": "c"}, "webhooks": webhooks})).unwrap()
        };
        let old = configuration(&[("k", "https://one", "K"), ("l", "https://one", "L")]);
        let new = configuration(&[("k", "https://two", "K"), ("l", "https://one", "L")]);
        let changes = Changes::of_configuration(Some(&old), Some(&new));
        assert_eq!((&*concerned(&changes, "K"), concerned(&changes, "L").len()), (&ALL[..1], 0));
        assert!(Changes::of_configuration(Some(&old), Some(&old)).is_empty());
        assert_eq!(&*concerned(&Changes::of_configuration(Some(&old), None), "L"), &ALL[..1]);
    }
}
