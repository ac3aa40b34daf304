//! The Pod Security Standards: the level that a namespace requires in its labels, and a pod's violations of it. The
//! version of a label is parsed but not applied: the newest version always counts.

use std::collections::BTreeMap;
use std::fmt;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::{list, text};

mod checks;

const PREFIX: &str = "pod-security.kubernetes.io/";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level and the required version of the standards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub level: Level,
    version: String,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.as_str(), self.version)
    }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").filter(|minor| *minor == "0" || !minor.starts_with('0'));
    text == "latest" || minor.is_some_and(|minor| minor.parse::<u32>().is_ok())
}

/// The policy of a namespace in one mode: `enforce` or `warn`.
pub fn policy(labels: &BTreeMap<String, String>, mode: &str) -> Policy {
    let label = |suffix: &str| labels.get(&format!("{PREFIX}{mode}{suffix}")).map(String::as_str);
    let version = label("-version").filter(|text| is_version(text)).unwrap_or("latest").to_owned();
    match label("").map(Level::parse) {
        None => Policy { level: Level::Privileged, version },
        // An invalid level is treated as `restricted`, the strictest.
        Some(level) => Policy { level: level.unwrap_or(Level::Restricted), version },
    }
}

/// Errors in the labels of a namespace.
pub fn label_errors(labels: &Value) -> ErrorList {
    let at = Path::new("metadata").child("labels");
    let mut errors = ErrorList::new();
    for mode in ["enforce", "audit", "warn"] {
        for (suffix, valid, detail) in [
            ("", level_is_known as fn(&str) -> bool, "must be one of privileged, baseline, restricted"),
            ("-version", is_version, "must be \"latest\" or \"v1.x\""),
        ] {
            let key = format!("{PREFIX}{mode}{suffix}");
            if let Some(value) = labels[&key].as_str().filter(|value| !valid(value)) {
                errors.push(Error::invalid(&at.key(&key), value, detail));
            }
        }
    }
    errors
}

fn level_is_known(text: &str) -> bool {
    Level::parse(text).is_some()
}

/// The reason for which the policy rejects a pod, with upstream's text; `None` if the pod conforms.
pub fn violation(policy: &Policy, metadata: &Value, spec: &Value) -> Option<String> {
    if policy.level == Level::Privileged {
        return None;
    }
    let reasons: Vec<String> = checks::ALL
        .iter()
        .filter(|check| check.levels.contains(&policy.level))
        .filter_map(|check| {
            let details = (check.run)(metadata, spec)?;
            Some(if details.is_empty() { check.reason.to_owned() } else { format!("{} ({details})", check.reason) })
        })
        .collect();
    (!reasons.is_empty()).then(|| format!("violates PodSecurity {:?}: {}", policy.to_string(), reasons.join(", ")))
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

/// All containers of a pod, including init and ephemeral containers.
fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|field| list(&spec[field]))
}

/// `container "a"`, `containers "a", "b"`.
fn named(noun: &str, names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("{noun}{} {}", if names.len() == 1 { "" } else { "s" }, quoted.join(", "))
}

fn names<'s>(spec: &'s Value, wrong: impl Fn(&'s Value) -> bool) -> Vec<&'s str> {
    all_containers(spec).filter(|container| wrong(container)).map(|container| text(container, "name")).collect()
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
        });
        let errors: Vec<String> = label_errors(&labels).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, \
                 baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"1.2\": must be \"latest\" or \
                 \"v1.x\"",
            ]
        );
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).expect("labels");
        assert_eq!(policy(&labels, "enforce").to_string(), "restricted:latest");
        assert_eq!(policy(&labels, "warn").to_string(), "baseline:v1.36");
        assert_eq!(policy(&labels, "audit").level, Level::Privileged);
    }

    #[test]
    fn pods_are_checked_against_the_level() {
        let at = |level| Policy { level, version: "latest".to_owned() };
        let plain = json!({"containers": [{"name": "a"}]});
        let good = json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            }}],
        });
        let bad = json!({
            "hostNetwork": true, "hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            "containers": [{"name": "a", "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}},
                            "ports": [{"hostPort": 80}]}],
        });
        for (level, spec, expected) in [
            (Level::Privileged, &bad, None),
            (Level::Baseline, &plain, None),
            (Level::Restricted, &good, None),
            (
                Level::Restricted,
                &plain,
                Some(
                    "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"a\" must set \
                     securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
                     securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set \
                     securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
                     securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
                ),
            ),
            (
                Level::Baseline,
                &bad,
                Some(
                    "violates PodSecurity \"baseline:latest\": non-default capabilities (container \"a\" must not include \
                     \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true, hostPID=true), \
                     hostPath volumes (volume \"v\"), hostPort (container \"a\" uses hostPort 80), privileged (container \"a\" \
                     must not set securityContext.privileged=true)",
                ),
            ),
        ] {
            assert_eq!(violation(&at(level), &Value::Null, spec).as_deref(), expected, "{level:?} {spec}");
        }
    }
}
