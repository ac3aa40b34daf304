//! The remaining content of a namespace, and the conditions that report it. Pure.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, Time};
use apimachinery::{ApiResource, Object};

/// Content that could not be deleted or determined.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    /// Group versions whose discovery failed.
    pub undiscovered: Vec<String>,
    /// Errors of lists and deletions.
    pub failures: Vec<String>,
    pub remaining: Vec<Remaining>,
}

/// The remaining objects of one resource.
#[derive(Debug, PartialEq)]
pub(super) struct Remaining {
    /// `PLURAL.GROUP`; the dot is present for the core group, too.
    resource: String,
    objects: usize,
    finalizers: BTreeMap<Box<str>, usize>,
}

impl Remaining {
    /// `None` if no content remains.
    pub fn of<O: AsRef<Object>>(resource: &ApiResource, objects: &[O]) -> Option<Self> {
        let mut finalizers = BTreeMap::new();
        for finalizer in objects.iter().flat_map(|object| object.as_ref().finalizers()) {
            *finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        let resource = format!("{}.{}", resource.plural, resource.group);
        (!objects.is_empty()).then_some(Self { resource, objects: objects.len(), finalizers })
    }
}

impl Content {
    /// Whether the namespace is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.undiscovered.is_empty() && self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Type, status, reason and message of each condition, with kube-controller-manager's messages.
    fn conditions(&self) -> [(&'static str, bool, &'static str, String); 5] {
        let or = |bad: bool, reason: &'static str, message: String, good: &'static str, fine: &str| {
            if bad { (true, reason, message) } else { (false, good, fine.to_owned()) }
        };
        let discovery = or(
            !self.undiscovered.is_empty(),
            "DiscoveryFailed",
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                self.undiscovered.len(),
                self.undiscovered.join(", ")
            ),
            "ResourcesDiscovered",
            "All resources successfully discovered",
        );
        let deletion = or(
            !self.failures.is_empty(),
            "ContentDeletionFailed",
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                self.failures.len(),
                self.failures.join(", ")
            ),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        );
        let remaining = or(
            !self.remaining.is_empty(),
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", self.counts().join(", ")),
            "ContentRemoved",
            "All content successfully removed",
        );
        let finalizers = self.finalizer_counts();
        let finalization = or(
            !finalizers.is_empty(),
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", ")),
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        );
        // The client drops unparsable names from discovery, so this never fails here.
        let parsing = (false, "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned());
        let rows = [
            ("NamespaceDeletionDiscoveryFailure", discovery),
            ("NamespaceDeletionGroupVersionParsingFailure", parsing),
            ("NamespaceDeletionContentFailure", deletion),
            ("NamespaceContentRemaining", remaining),
            ("NamespaceFinalizersRemaining", finalization),
        ];
        rows.map(|(type_, (bad, reason, message))| (type_, bad, reason, message))
    }

    fn counts(&self) -> Vec<String> {
        let mut rows: Vec<_> = self
            .remaining
            .iter()
            .map(|row| format!("{} has {} resource instances", row.resource, row.objects))
            .collect();
        rows.sort();
        rows
    }

    fn finalizer_counts(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (finalizer, count) in self.remaining.iter().flat_map(|row| &row.finalizers) {
            *counts.entry(finalizer).or_default() += count;
        }
        counts.into_iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect()
    }
}

/// The desired conditions; `None` if they are unchanged. Conditions of other types are kept.
pub(super) fn updated(old: &[Condition], content: &Content, now: Time) -> Option<Vec<Condition>> {
    let mut conditions = old.to_vec();
    for (type_, is_true, reason, message) in content.conditions() {
        let status = if is_true { "True" } else { "False" };
        let fresh = Condition {
            last_transition_time: Some(now),
            message,
            reason: reason.to_owned(),
            status: status.to_owned(),
            type_: type_.to_owned(),
            ..Condition::default()
        };
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            None => conditions.push(fresh),
            Some(condition)
                if condition.status == status && condition.reason == reason && condition.message == fresh.message => {}
            Some(condition) => *condition = fresh,
        }
    }
    (conditions != old).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(finalizers: &[&str]) -> std::sync::Arc<Object> {
        let tree = serde_json::json!({"metadata": {"name": "x", "finalizers": finalizers}});
        Object::from_value(&tree).expect("an object").shared()
    }

    #[test]
    fn conditions_report_remaining_content() {
        let now = Time::new("2026-11-21T00:00:00Z".parse().expect("a time"));
        let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
        let foos = ApiResource::namespaced("example.com", "v1", "Foo", "foos");
        let remaining =
            [Remaining::of(&foos, &[object(&["a/b"])]), Remaining::of(&maps, &[object(&["a/b", "c/d"]), object(&[])])];
        assert_eq!(Remaining::of::<std::sync::Arc<Object>>(&maps, &[]), None);
        let mut content = Content {
            undiscovered: vec!["metrics.k8s.io/v1".into()],
            failures: vec!["refused".into()],
            remaining: remaining.into_iter().flatten().collect(),
        };
        let other = Condition { type_: "Other".into(), status: "True".into(), ..Condition::default() };
        let conditions = updated(&[other], &content, now).expect("a change");
        let rows: Vec<_> =
            conditions.iter().map(|c| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message)).collect();
        let expected = [
            "Other True : ",
            "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 1 failing: \
                unable to retrieve the complete list of server APIs: metrics.k8s.io/v1",
            "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: refused",
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: \
                configmaps. has 2 resource instances, foos.example.com has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
                a/b in 2 resource instances, c/d in 1 resource instances",
        ];
        assert_eq!(rows, expected);
        assert_eq!(updated(&conditions, &content, now), None);
        content = Content::default();
        assert!(content.is_empty());
        let conditions = updated(&conditions, &content, now).expect("a change");
        assert!(conditions.iter().skip(1).all(|condition| condition.status == "False"), "{conditions:?}");
    }
}
