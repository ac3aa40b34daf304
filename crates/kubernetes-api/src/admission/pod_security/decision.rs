//! Decisions on writes of pods, and of workloads with a template of pods.

use apimachinery::configuration::ConfigurationError;
use apimachinery::field::ErrorList;
use serde_json::Value;

use super::{AUDIT, Configuration, ENFORCE, Level, Mode, Policies, Policy, WARN};
use super::{checks, details, list, runtime_class, text};

/// The effects of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why the object is refused.
    pub refusal: Option<String>,
    /// Texts for the client.
    pub warnings: Vec<String>,
    /// Audit annotations; their names follow [`super::PREFIX`].
    pub annotations: Vec<(&'static str, String)>,
    /// What the metrics of the plugin count.
    pub counts: Vec<Count>,
}

/// An event that upstream's metrics of the plugin count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A policy was evaluated: always in mode `enforce`, in the others only if it is violated.
    Evaluation {
        /// The name of the mode.
        mode: &'static str,
        /// The policy.
        policy: Policy,
        /// Whether the pod violates it.
        is_violated: bool,
    },
    /// The request is exempt.
    Exemption,
    /// The policies are not those that were meant.
    Error {
        /// Whether no policy could be evaluated.
        is_fatal: bool,
    },
}

impl Count {
    fn evaluation(mode: &Mode, policy: Policy, is_violated: bool) -> Self {
        Self::Evaluation { mode: mode.name, policy, is_violated }
    }
}

/// The object of a write.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'o> {
    /// A pod, which the policies may refuse.
    Pod(&'o Value),
    /// The metadata and spec of a workload's pods. The pods are refused, not the workload.
    Template(&'o Value, &'o Value),
}

const ERROR: &str = "error";

impl Outcome {
    fn exempt(by: &str) -> Self {
        let annotations = vec![("exempt", by.to_owned())];
        Self { annotations, counts: vec![Count::Exemption], ..Self::default() }
    }

    /// Of a request whose policies are not known.
    pub fn failed(why: String) -> Self {
        let counts = vec![Count::Error { is_fatal: true }];
        Self { annotations: vec![(ERROR, why)], counts, ..Self::default() }
    }
}

impl Configuration {
    /// The outcome of a request that is not evaluated, because of its namespace or its user.
    pub fn exemption(&self, namespace: &str, user: &str) -> Option<Outcome> {
        let is_listed = |list: &[String], name: &str| !name.is_empty() && list.iter().any(|item| item == name);
        if is_listed(&self.exemptions.namespaces, namespace) {
            return Some(Outcome::exempt("namespace"));
        }
        is_listed(&self.exemptions.usernames, user).then(|| Outcome::exempt("user"))
    }

    /// Whether pods of this spec are not evaluated, because of their runtime class.
    pub fn is_exempt(&self, spec: &Value) -> bool {
        let class = runtime_class(spec);
        !class.is_empty() && self.exemptions.runtime_classes.iter().any(|item| item == class)
    }

    /// The outcome of a write in a namespace with these labels; `old` is the pod before an update.
    pub fn decide(&self, labels: &Value, subject: Subject<'_>, old: Option<&Value>) -> Outcome {
        let (policies, errors) = Policies::of(labels, &self.defaults);
        let is_pod = matches!(subject, Subject::Pod(_));
        let is_enforced = is_pod && policies.enforce.level != Level::Privileged;
        let is_reported = [policies.audit, policies.warn].iter().any(|policy| policy.level != Level::Privileged);
        if errors.is_empty() && !is_enforced && !is_reported {
            let annotations = is_pod.then(|| (ENFORCED, Policy::PRIVILEGED.to_string())).into_iter().collect();
            let counts = is_pod.then(|| Count::evaluation(&ENFORCE, policies.enforce, false)).into_iter().collect();
            return Outcome { annotations, counts, ..Outcome::default() };
        }
        let (metadata, spec) = match subject {
            Subject::Pod(pod) if old.is_some_and(|old| !is_significant_update(old, pod)) => return Outcome::default(),
            Subject::Pod(pod) => (&pod["metadata"], &pod["spec"]),
            Subject::Template(metadata, spec) => (metadata, spec),
        };
        if self.is_exempt(spec) {
            return Outcome::exempt("runtimeClass");
        }
        evaluate(&policies, &errors, (metadata, spec), is_pod)
    }
}

const ENFORCED: &str = "enforce-policy";

fn evaluate(policies: &Policies, errors: &ErrorList, pod: (&Value, &Value), is_pod: bool) -> Outcome {
    let mut outcome = Outcome::default();
    if !errors.is_empty() {
        let why = ConfigurationError::invalid(errors);
        outcome.annotations.push((ERROR, format!("Failed to parse policy: {why}")));
        outcome.counts.push(Count::Error { is_fatal: false });
    }
    let mut evaluated = Evaluated { pod, texts: Vec::new() };
    if is_pod {
        outcome.annotations.push((ENFORCED, policies.enforce.to_string()));
        outcome.refusal = evaluated.why(policies.enforce).map(|why| format!("violates {why}"));
        outcome.counts.push(Count::evaluation(&ENFORCE, policies.enforce, outcome.refusal.is_some()));
    }
    if let Some(why) = evaluated.why(policies.audit) {
        outcome.annotations.push(("audit-violations", format!("would violate {why}")));
        outcome.counts.push(Count::evaluation(&AUDIT, policies.audit, true));
    }
    // The error of a refused request is enough.
    if outcome.refusal.is_none()
        && let Some(why) = evaluated.why(policies.warn)
    {
        outcome.warnings.push(format!("would violate {why}"));
        outcome.counts.push(Count::evaluation(&WARN, policies.warn, true));
    }
    outcome
}

/// The evaluations of one pod. Modes often name the same policy; it is evaluated once.
struct Evaluated<'p> {
    pod: (&'p Value, &'p Value),
    texts: Vec<(Policy, Option<String>)>,
}

impl Evaluated<'_> {
    /// Why the pod violates a policy.
    fn why(&mut self, policy: Policy) -> Option<&str> {
        let known = self.texts.iter().position(|(of, _)| *of == policy);
        let place = known.unwrap_or_else(|| {
            let violations = policy.violations(self.pod.0, self.pod.1);
            let text = || format!("PodSecurity \"{policy}\": {}", details(&violations));
            self.texts.push((policy, (!violations.is_empty()).then(text)));
            self.texts.len() - 1
        });
        self.texts.get(place).and_then(|(_, text)| text.as_deref())
    }
}

/// Whether an update changes fields of a pod that a rule depends on: images, a new ephemeral container, and the
/// annotations of seccomp profiles. The API permits no other changes of such fields.
pub fn is_significant_update(old: &Value, new: &Value) -> bool {
    let is_changed = |before: &Value, after: &Value| {
        let key = checks::seccomp_annotation(after);
        text(before, "image") != text(after, "image")
            || old["metadata"]["annotations"][&key] != new["metadata"]["annotations"][&key]
    };
    let [before, after] = [old, new].map(|pod| &pod["spec"]);
    let are_changed = |field: &str| {
        let [olds, news] = [before, after].map(|spec| list(&spec[field]).collect::<Vec<_>>());
        olds.len() != news.len() || olds.iter().zip(&news).any(|(old, new)| is_changed(old, new))
    };
    let is_ephemeral_changed = || {
        list(&after["ephemeralContainers"]).any(|new| {
            let mut olds = list(&before["ephemeralContainers"]);
            olds.find(|old| text(old, "name") == text(new, "name")).is_none_or(|old| is_changed(old, new))
        })
    };
    are_changed("containers") || are_changed("initContainers") || is_ephemeral_changed()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::pod_security::PREFIX;

    fn labels(of: &[(&str, &str)]) -> Value {
        of.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), Value::from(*value))).collect()
    }

    fn pod(image: &str) -> Value {
        json!({"metadata": {}, "spec": {"containers": [
            {"name": "c", "image": image, "securityContext": {"privileged": true}},
        ]}})
    }

    const WHY: &str = "privileged (container \"c\" must not set securityContext.privileged=true)";

    #[test]
    fn each_mode_has_its_effect() {
        let configuration = Configuration::default();
        let decide = |of: &[(&str, &str)]| configuration.decide(&labels(of), Subject::Pod(&pod("a")), None);
        let enforced = |level: &str| (ENFORCED, level.to_owned());
        let none = decide(&[]);
        let counts = vec![Count::evaluation(&ENFORCE, Policy::PRIVILEGED, false)];
        assert_eq!(none, Outcome { annotations: vec![enforced("privileged:latest")], counts, ..Outcome::default() });
        let refused = decide(&[("enforce", "baseline"), ("audit", "baseline"), ("warn", "baseline")]);
        assert_eq!(refused.refusal, Some(format!("violates PodSecurity \"baseline:latest\": {WHY}")));
        let audited = ("audit-violations", format!("would violate PodSecurity \"baseline:latest\": {WHY}"));
        assert_eq!(refused.annotations, [enforced("baseline:latest"), audited]);
        assert!(refused.warnings.is_empty(), "the error is enough");
        let baseline = Policy { level: Level::Baseline, ..Policy::PRIVILEGED };
        let violated = |mode| Count::evaluation(mode, baseline, true);
        assert_eq!(refused.counts, [violated(&ENFORCE), violated(&AUDIT)]);
        let warned = decide(&[("warn", "baseline"), ("warn-version", "v1.20")]);
        assert_eq!(warned.warnings, [format!("would violate PodSecurity \"baseline:v1.20\": {WHY}")]);
        assert_eq!((warned.refusal, warned.annotations), (None, vec![enforced("privileged:latest")]));
        let broken = decide(&[("enforce", "strict"), ("warn-version", "1")]);
        let why = format!("violates PodSecurity \"restricted:latest\": {WHY}, allowPrivilegeEscalation != false");
        assert!(broken.refusal.is_some_and(|refusal| refusal.starts_with(&why)));
        assert_eq!(broken.counts[0], Count::Error { is_fatal: false });
        let parse =
            "Failed to parse policy: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\"";
        assert!(broken.annotations[0].1.starts_with(parse), "{:?}", broken.annotations);
    }

    #[test]
    fn workloads_are_reported_only() {
        let (configuration, pod) = (Configuration::default(), pod("a"));
        let template = Subject::Template(&pod["metadata"], &pod["spec"]);
        let decide = |of: &[(&str, &str)]| configuration.decide(&labels(of), template, None);
        assert_eq!(decide(&[("enforce", "restricted")]), Outcome::default());
        let reported = decide(&[("enforce", "baseline"), ("audit", "baseline"), ("warn", "baseline")]);
        let why = format!("would violate PodSecurity \"baseline:latest\": {WHY}");
        let annotations = vec![("audit-violations", why.clone())];
        let baseline = Policy { level: Level::Baseline, ..Policy::PRIVILEGED };
        let counts = [&AUDIT, &WARN].map(|mode| Count::evaluation(mode, baseline, true)).to_vec();
        assert_eq!(reported, Outcome { refusal: None, warnings: vec![why], annotations, counts });
    }

    #[test]
    fn a_policy_of_several_modes_is_evaluated_once() {
        let pod = pod("a");
        let mut evaluated = Evaluated { pod: (&pod["metadata"], &pod["spec"]), texts: Vec::new() };
        let baseline = Policy { level: Level::Baseline, ..Policy::PRIVILEGED };
        for policy in [baseline, Policy::PRIVILEGED, baseline] {
            assert_eq!(evaluated.why(policy).is_some(), policy == baseline);
        }
        assert_eq!(evaluated.texts.len(), 2);
    }

    #[test]
    fn exemptions_are_by_namespace_user_and_runtime_class() {
        let mut configuration = Configuration::default();
        configuration.exemptions.namespaces.push("ns".into());
        configuration.exemptions.usernames.push("u".into());
        configuration.exemptions.runtime_classes.push("kata".into());
        let exempt = |by: &str| Some(Outcome::exempt(by));
        assert_eq!(configuration.exemption("ns", "u"), exempt("namespace"));
        assert_eq!(configuration.exemption("other", "u"), exempt("user"));
        assert_eq!(configuration.exemption("other", "v"), None);
        let mut pod = pod("a");
        let strict = labels(&[("enforce", "restricted")]);
        assert!(configuration.decide(&strict, Subject::Pod(&pod), None).refusal.is_some());
        pod["spec"]["runtimeClassName"] = "kata".into();
        assert_eq!(Some(configuration.decide(&strict, Subject::Pod(&pod), None)), exempt("runtimeClass"));
    }

    #[test]
    fn updates_are_evaluated_when_they_matter() {
        let strict = labels(&[("enforce", "restricted")]);
        let decide = |old: &Value, new: &Value| {
            Configuration::default().decide(&strict, Subject::Pod(new), Some(old)).refusal.is_some()
        };
        let old = pod("a");
        assert!(decide(&old, &pod("b")));
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        assert_eq!(Configuration::default().decide(&strict, Subject::Pod(&new), Some(&old)), Outcome::default());
        new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
        assert!(decide(&old, &new));
        assert!(!decide(&new, &new));
        let mut annotated = old.clone();
        annotated["metadata"]["annotations"] =
            json!({"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"});
        assert!(decide(&old, &annotated));
    }
}
