//! The Pod Security Standards: the levels and versions that the labels of a namespace require, and a pod's violations
//! of them.

use std::borrow::Cow;
use std::fmt;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::{list, text};

mod checks;
mod configuration;
mod decision;
mod namespaces;

pub use checks::Violation;
pub use configuration::{Configuration, Exemptions};
pub use decision::{Count, Outcome, Subject, is_significant_update};
pub use namespaces::{Existing, NamespaceOutcome, evaluation_order};

/// Labels and audit annotations begin with it.
pub const PREFIX: &str = "pod-security.kubernetes.io/";

/// The release of Kubernetes whose rules are implemented, 1.N.
const RELEASE: u32 = 36;

/// An effect of policies, and the labels of namespaces that set its policy.
#[derive(Debug, PartialEq, Eq)]
struct Mode {
    name: &'static str,
    level: &'static str,
    version: &'static str,
}

macro_rules! mode {
    ($name:literal) => {
        Mode {
            name: $name,
            level: concat!("pod-security.kubernetes.io/", $name),
            version: concat!("pod-security.kubernetes.io/", $name, "-version"),
        }
    };
}

static ENFORCE: Mode = mode!("enforce");
static AUDIT: Mode = mode!("audit");
static WARN: Mode = mode!("warn");

/// A set of rules; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the standards")]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }

    /// Its name in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

const UNKNOWN_LEVEL: &str = "must be one of privileged, baseline, restricted";
const UNKNOWN_VERSION: &str = "must be \"latest\" or \"v1.x\"";

/// The release of Kubernetes whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Of release 1.N.
    Minor(u32),
    /// Of the newest release that changed a rule.
    Latest,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").filter(|digits| *digits == "0" || !digits.starts_with('0'))?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten().map(Self::Minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// A level and the required version of the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the type describes them")]
pub struct Policy {
    pub level: Level,
    pub version: Version,
}

impl Policy {
    const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    /// Versions of the privileged level do not differ.
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }

    /// The version as a value of a label of metrics, of which there are few: releases newer than the implemented one
    /// are `future`.
    pub fn version_label(&self) -> Cow<'static, str> {
        match self.version {
            Version::Minor(minor) if self.level != Level::Privileged && minor > RELEASE => "future".into(),
            Version::Minor(_) if self.level != Level::Privileged => self.version.to_string().into(),
            _ => "latest".into(),
        }
    }

    /// The violations of a pod, in upstream's order.
    pub fn violations(&self, metadata: &Value, spec: &Value) -> Vec<Violation> {
        checks::run(self, metadata, spec)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.as_str(), self.version)
    }
}

/// The policies of a namespace, one for each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// Pods that violate it are refused.
    pub enforce: Policy,
    /// Violations are recorded in the audit log.
    pub audit: Policy,
    /// Violations are reported to the client.
    pub warn: Policy,
}

impl Default for Policies {
    fn default() -> Self {
        Self { enforce: Policy::PRIVILEGED, audit: Policy::PRIVILEGED, warn: Policy::PRIVILEGED }
    }
}

impl Policies {
    /// The policies that the labels of a namespace require, and the labels that are invalid. Without a label, the
    /// default counts; an invalid level is the strictest one in mode `enforce`, and the most lenient one in the others.
    pub fn of(labels: &Value, defaults: &Self) -> (Self, ErrorList) {
        let (mut policies, mut errors) = (*defaults, ErrorList::new());
        let mut wrong = |label, value, why| {
            errors.push(Error::invalid(&Path::new("metadata").child("labels").key(label), value, why));
        };
        for (mode, policy, if_invalid) in policies.modes_mut() {
            if let Some(value) = labels[mode.level].as_str() {
                policy.level = Level::parse(value).unwrap_or_else(|| {
                    wrong(mode.level, value, UNKNOWN_LEVEL);
                    if_invalid
                });
            }
            if let Some(value) = labels[mode.version].as_str() {
                policy.version = Version::parse(value).unwrap_or_else(|| {
                    wrong(mode.version, value, UNKNOWN_VERSION);
                    Version::Latest
                });
            }
        }
        (policies, errors)
    }

    fn modes_mut(&mut self) -> [(&'static Mode, &mut Policy, Level); 3] {
        [
            (&ENFORCE, &mut self.enforce, Level::Restricted),
            (&AUDIT, &mut self.audit, Level::Privileged),
            (&WARN, &mut self.warn, Level::Privileged),
        ]
    }

    fn modes(&self) -> [(&'static Mode, &Policy); 3] {
        [(&ENFORCE, &self.enforce), (&AUDIT, &self.audit), (&WARN, &self.warn)]
    }

    fn are_privileged(&self) -> bool {
        self.modes().iter().all(|(_, policy)| policy.level == Level::Privileged)
    }

    fn are_equivalent(&self, others: &Self) -> bool {
        self.modes().iter().zip(others.modes()).all(|((_, policy), (_, other))| policy.is_equivalent(other))
    }
}

/// The violated rules, with the offending fields: for one pod.
pub fn details(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations
        .iter()
        .map(
            |Violation { reason, detail }| {
                if detail.is_empty() { (*reason).to_owned() } else { format!("{reason} ({detail})") }
            },
        )
        .collect();
    texts.join(", ")
}

/// The violated rules alone, equal for similar pods.
pub fn reasons(violations: &[Violation]) -> String {
    let texts: Vec<&str> = violations.iter().map(|violation| violation.reason).collect();
    texts.join(", ")
}

/// Whether objects of a resource are pods, or have a template of pods.
pub fn has_pods(group: &str, plural: &str) -> bool {
    matches!(
        (group, plural),
        ("", "pods" | "podtemplates" | "replicationcontrollers")
            | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
            | ("batch", "jobs" | "cronjobs")
    )
}

/// The metadata and spec of a workload's pods.
pub fn template<'o>(plural: &str, object: &'o Value) -> Option<(&'o Value, &'o Value)> {
    let template = match plural {
        "pods" => object,
        "podtemplates" => &object["template"],
        "cronjobs" => &object["spec"]["jobTemplate"]["spec"]["template"],
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "jobs" | "replicationcontrollers" => {
            &object["spec"]["template"]
        }
        _ => return None,
    };
    template["spec"].is_object().then_some((&template["metadata"], &template["spec"]))
}

/// The runtime class of a pod.
pub fn runtime_class(spec: &Value) -> &str {
    text(spec, "runtimeClassName")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_name_levels_and_versions() {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn": "baseline",
            "pod-security.kubernetes.io/warn-version": "v1.36", "pod-security.kubernetes.io/audit-version": "1.2",
            "pod-security.kubernetes.io/audit": "none",
        });
        let (policies, errors) = Policies::of(&labels, &Policies::default());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, \
                 baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"none\": must be one of privileged, \
                 baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"1.2\": must be \"latest\" or \
                 \"v1.x\"",
            ]
        );
        let texts = policies.modes().map(|(_, policy)| policy.to_string());
        assert_eq!(texts, ["restricted:latest", "privileged:latest", "baseline:v1.36"]);
        let defaults = Policies { enforce: Policy { level: Level::Baseline, version: Version::Minor(20) }, ..policies };
        let only_version = json!({"pod-security.kubernetes.io/enforce-version": "latest"});
        assert_eq!(Policies::of(&only_version, &defaults).0.enforce.to_string(), "baseline:latest");
        assert_eq!(Policies::of(&Value::Null, &defaults), (defaults, ErrorList::new()));
    }

    #[test]
    fn labels_of_metrics_have_few_versions() {
        let label = |level, version| Policy { level, version }.version_label();
        assert_eq!(label(Level::Baseline, Version::Latest), "latest");
        assert_eq!(label(Level::Baseline, Version::Minor(RELEASE)), "v1.36");
        assert_eq!(label(Level::Baseline, Version::Minor(RELEASE + 1)), "future");
        assert_eq!(label(Level::Privileged, Version::Minor(20)), "latest", "its versions do not differ");
    }

    #[test]
    fn versions_are_latest_or_a_minor_release() {
        for text in ["latest", "v1.0", "v1.9", "v1.35", "v1.100"] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), Some(text));
        }
        for text in ["", "v1", "v1.", "v1.01", "v1.+1", "v2.1", "1.2", "v1.2.3", "v1.99999999999"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
