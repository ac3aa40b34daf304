//! APIs (`--skipped-propagating-apis`) and namespaces (`--skipped-propagating-namespaces`) that are never propagated.

use std::collections::BTreeSet;

use apimachinery::{GroupVersionKind, ObjectKey};
use karmada_api::constants::{namespaces, templates};
use regex::Regex;

#[derive(Clone, Debug)]
pub struct Skip {
    groups: BTreeSet<String>,
    /// `group/version`, or `v1`.
    versions: BTreeSet<String>,
    /// (`group/version`, kind)
    kinds: BTreeSet<(String, String)>,
    namespaces: Vec<Regex>,
}

#[derive(Debug, thiserror::Error)]
pub enum SkipError {
    #[error("parse --skipped-propagating-apis invalid parameter: {0}")]
    Api(String),
    #[error("--skipped-propagating-namespaces: {0}")]
    Namespace(#[from] regex::Error),
}

impl Default for Skip {
    fn default() -> Self {
        Self::parse("", &[templates::SKIPPED_NAMESPACES]).expect("the defaults are well formed")
    }
}

impl Skip {
    /// `apis` are separated by `;`: `group`, `group/version`, `group/version/Kind1,Kind2` or `v1/Kind1,Kind2`.
    ///
    /// # Errors
    /// The part that cannot be read, or the pattern that is no regular expression.
    pub fn parse(apis: &str, namespaces: &[&str]) -> Result<Self, SkipError> {
        let mut skip = Self {
            groups: templates::SKIPPED_GROUPS.iter().map(|group| (*group).to_owned()).collect(),
            versions: BTreeSet::from(["coordination.k8s.io/v1".to_owned()]),
            kinds: BTreeSet::from([("v1".to_owned(), "Event".to_owned())]),
            namespaces: Vec::new(),
        };
        for token in apis.split(';').filter(|token| !token.is_empty()) {
            skip.add(token)?;
        }
        for pattern in namespaces {
            skip.namespaces.push(Regex::new(&format!("^(?:{pattern})$"))?);
        }
        Ok(skip)
    }

    fn add(&mut self, token: &str) -> Result<(), SkipError> {
        let parts: Vec<&str> = token.split('/').collect();
        let mut kinds = |version: String, kinds: &str| {
            self.kinds.extend(kinds.split(',').map(|kind| (version.clone(), kind.to_owned())));
        };
        match parts.as_slice() {
            [group] => {
                self.groups.insert((*group).to_owned());
            }
            ["v1", names] => kinds("v1".to_owned(), names),
            [_, _] => {
                self.versions.insert(token.to_owned());
            }
            [group, version, names] => kinds(format!("{group}/{version}"), names),
            _ => return Err(SkipError::Api(token.to_owned())),
        }
        Ok(())
    }

    pub fn skips_kind(&self, gvk: &GroupVersionKind) -> bool {
        let version = gvk.api_version();
        self.groups.contains(&gvk.group)
            || self.versions.contains(&version)
            || self.kinds.contains(&(version, gvk.kind.clone()))
    }

    /// A namespace the operator excludes.
    pub fn skips_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|pattern| pattern.is_match(name))
    }

    /// Whether an object stays in the control plane because of where it is.
    pub fn skips_object(&self, kind: &str, key: &ObjectKey) -> bool {
        key.namespace().is_some_and(|namespace| {
            namespaces::is_reserved(namespace)
                || self.skips_namespace(namespace)
                || templates::is_of_api_server(kind, namespace, key.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_skipped_by_group_version_kind_and_namespace() {
        let skip = Skip::parse("example.com;batch/v1;v1/Pod,Secret;apps/v1/DaemonSet", &["kube-.*"]).expect("parses");
        for (group, version, kind, skipped) in [
            ("policy.karmada.io", "v1alpha1", "PropagationPolicy", true),
            ("", "v1", "Event", true),
            ("", "v1", "Pod", true),
            ("", "v1", "ConfigMap", false),
            ("batch", "v1", "Job", true),
            ("apps", "v1", "DaemonSet", true),
            ("apps", "v1", "Deployment", false),
            ("example.com", "v2", "Foo", true),
            ("coordination.k8s.io", "v1", "Lease", true),
        ] {
            assert_eq!(skip.skips_kind(&GroupVersionKind::new(group, version, kind)), skipped, "{group} {kind}");
        }
        for (namespace, skipped) in [("kube-system", true), ("karmada-es-m1", true), ("mykube-x", false), ("a", false)]
        {
            assert_eq!(skip.skips_object("Secret", &ObjectKey::namespaced(namespace, "x")), skipped, "{namespace}");
        }
        assert!(!skip.skips_object("Namespace", &ObjectKey::cluster("kube-system")));
        let skip = Skip::parse("", &[]).expect("parses");
        for (kind, namespace, name, skipped) in [
            ("Service", "default", "kubernetes", true),
            ("EndpointSlice", "default", "kubernetes", true),
            ("Endpoints", "default", "kubernetes", true),
            ("ConfigMap", "kube-system", "extension-apiserver-authentication", true),
            ("Service", "shop", "kubernetes", false),
            ("Service", "default", "web", false),
            ("Deployment", "default", "kubernetes", false),
        ] {
            let key = ObjectKey::namespaced(namespace, name);
            assert_eq!(skip.skips_object(kind, &key), skipped, "{kind} {namespace}/{name}");
        }
        assert!(Skip::parse("a/b/c/d", &[]).is_err() && Skip::parse("", &["("]).is_err());
    }
}
