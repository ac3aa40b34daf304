//! Decides which rights a change of a ResourceRegistry needs: it names servers, and a Secret whose password is sent there.

use serde_json::Value;

use crate::cluster::credentials::SecretRead;

/// The Secret that the author of a ResourceRegistry's write must be allowed to read; `None` if its password gets no new
/// destination. `old` is the stored object, `None` on create.
pub fn read(old: Option<&Value>, new: &Value) -> Option<SecretRead> {
    let backend = |registry: &Value| registry["spec"]["backendStore"]["openSearch"].clone();
    let after = backend(new);
    let text = |part: &str| after["secretRef"][part].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let is_same = old.is_some_and(|old| backend(old) == after);
    // An incomplete reference is invalid.
    if is_same || namespace.is_empty() || name.is_empty() {
        return None;
    }
    Some(SecretRead { namespace, name, fields: vec!["backendStore.openSearch"], sent: "password" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn registry(address: &str, secret: &str) -> Value {
        let reference = json!({"namespace": "ns", "name": secret});
        json!({"spec": {"backendStore": {"openSearch": {"addresses": [address], "secretRef": reference}}}})
    }

    #[test]
    fn a_new_destination_of_a_password_needs_the_secret() {
        let stored = registry("https://a", "s");
        for (old, new, expected) in [
            (None, &stored, Some("s")),
            (Some(&stored), &stored, None),
            (Some(&stored), &registry("https://b", "s"), Some("s")),
            (Some(&stored), &registry("https://a", "t"), Some("t")),
            (Some(&json!({"spec": {}})), &stored, Some("s")),
            (None, &registry("https://a", ""), None),
            (None, &json!({"spec": {"backendStore": {"openSearch": {"addresses": ["https://a"]}}}}), None),
            (Some(&stored), &json!({"spec": {}}), None),
        ] {
            assert_eq!(read(old, new).map(|read| read.name).as_deref(), expected, "{old:?} {new}");
        }
        let refusal = read(None, &stored).expect("a right is required").refusal("u");
        assert!(
            refusal
                .contains("a change of spec.backendStore.openSearch decides where the password of Secret ns/s is sent")
        );
    }
}
