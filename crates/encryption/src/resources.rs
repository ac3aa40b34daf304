//! The resources of a rule, and those that hide others.

use apimachinery::field::{Error, ErrorList, Path};

/// `secrets`, `widgets.example.com`, `*.example.com`, `*.` (the core group) or `*.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// `None` for every resource of the group.
    resource: Option<String>,
    /// `None` for every group.
    group: Option<String>,
}

impl Pattern {
    fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let named = |part: &str| (part != "*").then(|| part.to_owned());
        Self { resource: named(resource), group: named(group) }
    }

    /// Whether it means this resource.
    pub fn matches(&self, group: &str, resource: &str) -> bool {
        self.resource.as_deref().is_none_or(|own| own == resource)
            && self.group.as_deref().is_none_or(|own| own == group)
    }

    /// The pattern as text if no resource in `known`, pairs of group and plural, is meant although its group is there.
    pub fn misspelled(&self, known: &[(&str, &str)]) -> Option<String> {
        let (resource, group) = (self.resource.as_deref()?, self.group.as_deref()?);
        let has_group = known.iter().any(|(own, _)| *own == group);
        (has_group && !known.contains(&(group, resource))).then(|| match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        })
    }

    /// Whether every resource of `other` is one of this, too.
    fn covers(&self, other: &Self) -> bool {
        (self.resource.is_none() || self.resource == other.resource)
            && (self.group.is_none() || self.group == other.group)
    }
}

/// The patterns of a rule. `seen` are those of the rules before it.
pub(crate) fn read(texts: &[String], path: &Path, errors: &mut ErrorList) -> Vec<Pattern> {
    let mut found: Vec<Pattern> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let place = path.index(at);
        let mut refuse = |why: &str| errors.push(Error::invalid(&place, text.as_str(), why));
        let pattern = Pattern::parse(text);
        match (text.as_str(), pattern.resource.as_deref(), pattern.group.as_deref()) {
            ("", ..) => refuse("resource name should not be empty"),
            ("*", ..) => {
                refuse("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources");
            }
            (_, Some(_), None) => refuse("encrypting the same resource across groups is not supported"),
            (_, _, Some("events.k8s.io")) => refuse(
                "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config \
                 file",
            ),
            (_, _, Some("extensions")) => {
                refuse("'extensions' group has been removed and cannot be used for encryption")
            }
            _ if text.chars().any(char::is_uppercase) => refuse("resource name should not contain capital letters"),
            _ if found.contains(&pattern) => refuse("the same resource cannot be specified multiple times"),
            _ if found.iter().any(|before| before.covers(&pattern) || pattern.covers(before)) => refuse(
                "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will \
                 be masked",
            ),
            _ => {}
        }
        found.push(pattern);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_known_group_lacks_are_misspelled() {
        let known = [("", "secrets"), ("apps", "deployments")];
        let misspelled = |text: &str| Pattern::parse(text).misspelled(&known);
        for right in ["secrets", "deployments.apps", "widgets.example.com", "*.", "*.apps", "*.*"] {
            assert_eq!(misspelled(right), None, "{right}");
        }
        for wrong in ["secret", "deployments", "deployment.apps"] {
            assert_eq!(misspelled(wrong).as_deref(), Some(wrong));
        }
    }
}
