//! Decisions on writes of namespaces: their labels, and the pods that a new policy would refuse.

use std::collections::{BTreeMap, HashSet};

use apimachinery::field::ErrorList;
use serde_json::Value;

use super::{Configuration, Level, Mode, Policies, Policy, Violation, reasons};

/// The decision on a write of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum NamespaceOutcome {
    /// Nothing to report.
    Accepted,
    /// The labels are invalid.
    Refused(ErrorList),
    /// Text for the client.
    Warning(String),
    /// The existing pods are to be evaluated against the policy.
    Stricter(Policy),
}

impl Configuration {
    /// The decision on the labels of a namespace; `old` are those before an update.
    pub fn namespace(&self, name: &str, labels: &Value, old: Option<&Value>) -> NamespaceOutcome {
        let (policies, errors) = Policies::of(labels, &self.defaults);
        let is_exempt = self.exemptions.namespaces.iter().any(|exempt| exempt == name);
        let Some(old) = old else {
            return match errors.is_empty() {
                false => NamespaceOutcome::Refused(errors),
                true if is_exempt => self.exempt(name, labels, &policies),
                true => NamespaceOutcome::Accepted,
            };
        };
        let (before, old_errors) = Policies::of(old, &self.defaults);
        if !errors.is_empty() && errors != old_errors {
            return NamespaceOutcome::Refused(errors);
        }
        let (new, old) = (&policies.enforce, &before.enforce);
        let is_relaxed = new.version == old.version && new.level <= old.level;
        if new == old || new.level == Level::Privileged || is_relaxed {
            return NamespaceOutcome::Accepted;
        }
        if is_exempt { self.exempt(name, labels, &policies) } else { NamespaceOutcome::Stricter(*new) }
    }

    /// Labels of an exempt namespace have no effect.
    fn exempt(&self, name: &str, labels: &Value, policies: &Policies) -> NamespaceOutcome {
        if policies.are_privileged() || policies.are_equivalent(&self.defaults) {
            return NamespaceOutcome::Accepted;
        }
        let is_set = |mode: &Mode| [mode.level, mode.version].iter().any(|label| labels.get(label).is_some());
        let modes = policies.modes().into_iter();
        let set: Vec<String> = modes
            .filter(|(mode, policy)| policy.level != Level::Privileged && is_set(mode))
            .map(|(mode, policy)| format!("{}={policy}", mode.name))
            .collect();
        NamespaceOutcome::Warning(format!(
            "namespace \"{name}\" is exempt from Pod Security, and the policy ({}) will be ignored",
            set.join(", ")
        ))
    }
}

/// The order in which a bounded evaluation reads pods: the first one of each controller before its siblings, which
/// have the same template.
pub fn evaluation_order<'c>(controllers: impl IntoIterator<Item = Option<&'c str>>) -> Vec<usize> {
    let (mut first, mut siblings, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, controller) in controllers.into_iter().enumerate() {
        match controller {
            Some(uid) if !seen.insert(uid) => siblings.push(index),
            _ => first.push(index),
        }
    }
    first.append(&mut siblings);
    first
}

/// The existing pods that a new policy would refuse, by their violations.
#[derive(Clone, Debug, Default)]
pub struct Existing(BTreeMap<String, Alike>);

/// Pods with the same violations.
#[derive(Clone, Debug)]
struct Alike {
    /// The least of the names.
    name: String,
    count: usize,
}

impl Existing {
    /// Counts a pod.
    pub fn add(&mut self, name: &str, violations: &[Violation]) {
        if violations.is_empty() {
            return;
        }
        let new = || Alike { name: name.to_owned(), count: 0 };
        let alike = self.0.entry(reasons(violations)).or_insert_with(new);
        alike.count += 1;
        if name < alike.name.as_str() {
            name.clone_into(&mut alike.name);
        }
    }

    /// The texts for the client, after `checked` of `total` pods.
    pub fn warnings(&self, namespace: &str, policy: &Policy, checked: usize, total: usize) -> Vec<String> {
        let mut texts = Vec::new();
        if checked < total {
            let bound = format!("the first {checked} of {total} existing pods");
            texts.push(format!("new PodSecurity enforce level only checked against {bound}"));
        }
        if !self.0.is_empty() {
            let level = format!("the new PodSecurity enforce level \"{policy}\"");
            texts.push(format!("existing pods in namespace \"{namespace}\" violate {level}"));
        }
        let mut pods: Vec<String> = self.0.iter().map(|(reasons, alike)| alike.text(reasons)).collect();
        pods.sort();
        texts.append(&mut pods);
        texts
    }
}

impl Alike {
    fn text(&self, reasons: &str) -> String {
        let name = &self.name;
        match self.count {
            0 | 1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            count => format!("{name} (and {} other pods): {reasons}", count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::pod_security::{PREFIX, Version};

    fn labels(of: &[(&str, &str)]) -> Value {
        of.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), Value::from(*value))).collect()
    }

    #[test]
    fn stricter_labels_are_tried_on_existing_pods() {
        let configuration = Configuration::default();
        let decide = |old: &[(&str, &str)], new: &[(&str, &str)]| {
            configuration.namespace("ns", &labels(new), Some(&labels(old)))
        };
        let of = |old, new| decide(&[("enforce", old)], &[("enforce", new)]);
        let stricter = |level| NamespaceOutcome::Stricter(Policy { level, version: Version::Latest });
        assert_eq!(of("baseline", "restricted"), stricter(Level::Restricted));
        assert_eq!(of("restricted", "baseline"), NamespaceOutcome::Accepted);
        assert_eq!(of("baseline", "privileged"), NamespaceOutcome::Accepted);
        let other_version =
            decide(&[("enforce", "baseline"), ("enforce-version", "v1.20")], &[("enforce", "baseline")]);
        assert_eq!(other_version, stricter(Level::Baseline));
        assert!(matches!(of("baseline", "x"), NamespaceOutcome::Refused(_)));
        assert_eq!(of("x", "x"), NamespaceOutcome::Accepted, "it was invalid before");
        assert_eq!(of("x", "restricted"), NamespaceOutcome::Accepted, "an invalid level is the strictest");
        assert!(matches!(configuration.namespace("ns", &labels(&[("warn", "x")]), None), NamespaceOutcome::Refused(_)));
    }

    #[test]
    fn labels_of_an_exempt_namespace_have_no_effect() {
        let mut configuration = Configuration::default();
        configuration.exemptions.namespaces.push("ns".into());
        let new = labels(&[("enforce", "baseline"), ("warn", "restricted"), ("warn-version", "v1.30")]);
        let expected = NamespaceOutcome::Warning(
            "namespace \"ns\" is exempt from Pod Security, and the policy (enforce=baseline:latest, \
             warn=restricted:v1.30) will be ignored"
                .into(),
        );
        assert_eq!(configuration.namespace("ns", &new, None), expected);
        assert_eq!(configuration.namespace("ns", &new, Some(&json!({}))), expected);
        let privileged = labels(&[("enforce", "privileged")]);
        assert_eq!(configuration.namespace("ns", &privileged, None), NamespaceOutcome::Accepted);
        assert_eq!(configuration.namespace("other", &new, None), NamespaceOutcome::Accepted);
    }

    #[test]
    fn existing_pods_are_grouped_by_their_violations() {
        let violation = |reason| vec![Violation { reason, detail: String::new() }];
        let mut existing = Existing::default();
        for (name, reason) in [("c", "hostPort"), ("b", "hostPort"), ("d", "hostPort"), ("e", "privileged")] {
            existing.add(name, &violation(reason));
        }
        existing.add("f", &[]);
        existing.add("x", &[violation("hostPort"), violation("privileged")].concat());
        existing.add("y", &[violation("hostPort"), violation("privileged")].concat());
        let policy = Policy { level: Level::Baseline, version: Version::Latest };
        assert_eq!(
            existing.warnings("ns", &policy, 7, 9),
            [
                "new PodSecurity enforce level only checked against the first 7 of 9 existing pods",
                "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "b (and 2 other pods): hostPort",
                "e: privileged",
                "x (and 1 other pod): hostPort, privileged",
            ]
        );
        assert!(Existing::default().warnings("ns", &policy, 1, 1).is_empty());
        let order = evaluation_order([Some("a"), None, Some("a"), Some("b"), None]);
        assert_eq!(order, [0, 1, 3, 4, 2]);
    }
}
