//! Secrets that a policy copies to clusters. As upstream, the author needs no right to read them; a warning reports a
//! missing right.

use serde_json::Value;

/// How a policy selects Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// A resource selector selects them.
    Selected,
    /// `propagateDeps` copies the Secrets that selected workloads refer to.
    Dependencies,
}

/// Secrets that a policy may copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// How the policy selects them.
    pub by: SecretUse,
    /// Empty for all namespaces.
    pub namespace: String,
    /// Empty for any name.
    pub name: String,
}

/// The Secrets that a PropagationPolicy or ClusterPropagationPolicy may copy, without duplicates; empty for other
/// kinds. `namespace` is the policy's.
pub fn copied(group: &str, kind: &str, namespace: &str, policy: &Value) -> Vec<Copied> {
    let mut found = Vec::new();
    if group != "policy.karmada.io" || !matches!(kind, "PropagationPolicy" | "ClusterPropagationPolicy") {
        return found;
    }
    let spec = &policy["spec"];
    for selector in spec["resourceSelectors"].as_array().into_iter().flatten() {
        let text = |field: &str| selector[field].as_str().unwrap_or_default();
        let namespace = if text("namespace").is_empty() { namespace } else { text("namespace") };
        let is_secret = text("apiVersion") == "v1" && text("kind") == "Secret";
        let copied = if is_secret {
            Copied { by: SecretUse::Selected, namespace: namespace.to_owned(), name: text("name").to_owned() }
        } else if spec["propagateDeps"] == true {
            Copied { by: SecretUse::Dependencies, namespace: namespace.to_owned(), name: String::new() }
        } else {
            continue;
        };
        if !found.contains(&copied) {
            found.push(copied);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_that_policies_copy() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        let named = json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "a"});
        let labelled = json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchLabels": {"a": "b"}}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Secret"});
        for (kind, namespace, selectors, deps, expected) in [
            ("PropagationPolicy", "shop", vec![&secret], false, "Selected shop/"),
            ("PropagationPolicy", "shop", vec![&labelled, &secret], false, "Selected shop/"),
            ("PropagationPolicy", "a", vec![&named, &deployment], false, "Selected a/s"),
            ("PropagationPolicy", "shop", vec![&deployment, &custom], false, ""),
            ("PropagationPolicy", "shop", vec![&deployment], true, "Dependencies shop/"),
            ("PropagationPolicy", "a", vec![&named, &deployment], true, "Selected a/s Dependencies a/"),
            ("ClusterPropagationPolicy", "", vec![&secret], false, "Selected /"),
            ("ClusterPropagationPolicy", "", vec![&named, &deployment], true, "Selected a/s Dependencies /"),
            ("OverridePolicy", "shop", vec![&secret], true, ""),
        ] {
            let policy = json!({"spec": {"resourceSelectors": selectors, "propagateDeps": deps}});
            let found = copied("policy.karmada.io", kind, namespace, &policy).into_iter();
            let found = found.map(|it| format!("{:?} {}/{}", it.by, it.namespace, it.name));
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{kind} {policy}");
        }
        assert_eq!(copied("apps", "Deployment", "shop", &json!({})), []);
    }
}
