//! The paths of objects in requests.

use std::borrow::Cow;
use std::fmt::Write as _;

use apimachinery::{ApiResource, ObjectKey};

/// The URL path of an object. Names of roles may contain any character except `/` and `%`: without escapes, a `?` in a
/// name would request another object.
///
/// ```
/// use apimachinery::{ApiResource, ObjectKey};
///
/// let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
/// let path = client::object_path(&roles, &ObjectKey::cluster("system:my role?"));
/// assert_eq!(path, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:my%20role%3F");
/// ```
pub fn object_path(resource: &ApiResource, key: &ObjectKey) -> String {
    format!("{}/{}", collection_path(resource, key.namespace()), escaped(key.name()))
}

/// The URL path of a collection, as [`ApiResource::collection_path`], with the namespace escaped: references in objects
/// and flags may have any text there.
pub fn collection_path(resource: &ApiResource, namespace: Option<&str>) -> String {
    resource.collection_path(namespace.map(escaped).as_deref())
}

/// A segment of a path. What RFC 3986 permits there stays as it is, except `%`.
fn escaped(segment: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    if segment.bytes().all(is_plain) {
        return Cow::Borrowed(segment);
    }
    let mut escaped = String::with_capacity(segment.len() + 8);
    for byte in segment.bytes() {
        match is_plain(byte) {
            true => escaped.push(char::from(byte)),
            // Writing to a String cannot fail.
            false => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_segment() {
        let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
        let of = |name: &str| object_path(&pods, &ObjectKey::namespaced("n", name));
        for (name, expected) in [
            ("web-1.a", "web-1.a"),
            ("system:a@b", "system:a@b"),
            ("a?dryRun=All", "a%3FdryRun=All"),
            ("a/../b#c", "a%2F..%2Fb%23c"),
            ("50%", "50%25"),
            ("r\u{f4}le\n", "r%C3%B4le%0A"),
        ] {
            assert_eq!(of(name), format!("/api/v1/namespaces/n/pods/{expected}"));
        }
        assert_eq!(
            object_path(&pods, &ObjectKey::namespaced("n/secrets?", "a")),
            "/api/v1/namespaces/n%2Fsecrets%3F/pods/a"
        );
    }
}
