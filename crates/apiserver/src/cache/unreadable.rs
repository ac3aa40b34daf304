//! Objects whose stored value cannot be read. They are unknown, not absent: requests that depend on one fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::status::{StatusCause, StatusDetails};
use apimachinery::{ObjectKey, Status};

/// The reason of the cause in a Status about an object whose stored value cannot be read.
pub const UNREADABLE: &str = "StoredValueUnreadable";

/// Whether a Status is about an object that exists and cannot be read.
pub fn is_unreadable(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == UNREADABLE))
}

/// The unreadable objects of one resource, each with the reason.
#[derive(Debug, Default)]
pub(super) struct Unreadable(BTreeMap<ObjectKey, Arc<str>>);

impl Unreadable {
    pub fn insert(&mut self, key: ObjectKey, why: Arc<str>) {
        self.0.insert(key, why);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Fails if this object is unreadable. `place` is the resource, as `GROUP/PLURAL`.
    pub fn check(&self, place: &str, key: &ObjectKey) -> Result<(), Status> {
        self.0.get(key).map_or(Ok(()), |why| Err(status(place, key, why)))
    }

    /// Fails if an object of the namespace (`None`: any) is unreadable: a list without it would be wrong.
    pub fn check_scope(&self, place: &str, namespace: Option<&str>) -> Result<(), Status> {
        let in_scope = |key: &&ObjectKey| namespace.is_none_or(|namespace| key.namespace() == Some(namespace));
        self.0.keys().find(in_scope).map_or(Ok(()), |key| self.check(place, key))
    }
}

/// The error that a client gets instead of the object.
fn status(place: &str, key: &ObjectKey, why: &str) -> Status {
    let (group, plural) = place.split_once('/').unwrap_or(("", place));
    let group = if group == "core" { "" } else { group };
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let scope = key.namespace().map(|namespace| format!(" in namespace \"{namespace}\"")).unwrap_or_default();
    let details = StatusDetails {
        name: key.name().to_owned(),
        group: group.to_owned(),
        kind: plural.to_owned(),
        causes: vec![StatusCause { reason: UNREADABLE.into(), message: why.to_owned(), field: String::new() }],
        ..StatusDetails::default()
    };
    Status::internal(format!("{resource} \"{}\"{scope} cannot be read: {why}", key.name())).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_the_object() {
        let mut unreadable = Unreadable::default();
        let key = ObjectKey::namespaced("ns", "a");
        unreadable.insert(key.clone(), "it is damaged; restore the store from a backup".into());
        let status = unreadable.check("core/configmaps", &key).unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (
                500,
                "Internal error occurred: configmaps \"a\" in namespace \"ns\" cannot be read: it is damaged; restore the store \
                 from a backup"
            )
        );
        assert!(is_unreadable(&status) && !is_unreadable(&Status::internal("it is damaged")));
        for (scope, readable) in [(None, false), (Some("ns"), false), (Some("other"), true)] {
            assert_eq!(unreadable.check_scope("apps/deployments", scope).is_ok(), readable, "{scope:?}");
        }
        assert!(unreadable.check("core/configmaps", &ObjectKey::namespaced("ns", "b")).is_ok());
        unreadable.remove(&key);
        assert!(unreadable.check_scope("core/configmaps", None).is_ok());
    }
}
