//! The rights of agents in the control plane: those that `register` granted and that are missing now. Pure.

use std::collections::HashMap;

use apimachinery::ObjectKey;
use karmada_api::agents;
use karmada_api::constants::namespaces;
use serde_json::Value;

/// The names of all agents' roles and bindings begin so.
pub const PREFIX: &str = "system:karmada:";

/// Roles and their bindings by kind and key.
pub type Present = HashMap<(String, ObjectKey), Value>;

/// An object without which an agent lacks rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    pub cluster: String,
    pub key: ObjectKey,
    /// The object as `register` creates it.
    pub object: Value,
    /// It exists, and is not for the agent.
    pub is_changed: bool,
}

/// The missing ones of a cluster in pull mode. Without any of them, its agent has other credentials than `register`'s.
/// The right to read incarnations is optional: upstream's agents have none.
pub fn missing(cluster: &Value, present: &Present) -> Vec<Missing> {
    let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
    let secrets = cluster["spec"]["secretRef"]["namespace"].as_str().unwrap_or(namespaces::CLUSTER);
    let user = agents::user(name);
    let mut is_registered = false;
    let mut found = Vec::new();
    for grant in agents::grants(name, secrets) {
        let key = crate::register::key_of(&grant.object);
        let stored = present.get(&(grant.resource.kind.clone(), key.clone()));
        is_registered |= stored.is_some();
        let names_it = |binding: &Value| {
            binding["subjects"].as_array().is_some_and(|all| all.iter().any(|subject| subject["name"] == user.as_str()))
        };
        let is_changed = stored.is_some_and(|stored| grant.resource.kind.ends_with("Binding") && !names_it(stored));
        if (stored.is_none() || is_changed) && key.namespace() != Some(namespaces::SYSTEM) {
            found.push(Missing { cluster: name.to_owned(), key, object: grant.object, is_changed });
        }
    }
    if is_registered { found } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lost_and_changed_rights_of_registered_agents_are_missing() {
        let cluster =
            json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Pull", "secretRef": {"namespace": "s"}}});
        let all: Present = agents::grants("m1", "s")
            .into_iter()
            .map(|grant| ((grant.resource.kind.clone(), crate::register::key_of(&grant.object)), grant.object))
            .collect();
        let check = |change: &dyn Fn(&mut Present), expected: &[&str]| {
            let mut present = all.clone();
            change(&mut present);
            let found = missing(&cluster, &present);
            let shown: Vec<String> = found
                .iter()
                .map(|it| {
                    format!(
                        "{} {}{}",
                        it.object["kind"].as_str().unwrap_or_default(),
                        it.key,
                        if it.is_changed { " changed" } else { "" }
                    )
                })
                .collect();
            assert_eq!(shown, expected);
        };
        let work =
            |kind: &str| (kind.to_owned(), ObjectKey::namespaced("karmada-es-m1", "system:karmada:m1:agent-work"));
        check(&|_| (), &[]);
        check(&|it| it.clear(), &[]);
        check(&|it| drop(it.remove(&work("RoleBinding"))), &["RoleBinding karmada-es-m1/system:karmada:m1:agent-work"]);
        check(
            &|it| it.get_mut(&work("RoleBinding")).expect("a binding")["subjects"] = json!([]),
            &["RoleBinding karmada-es-m1/system:karmada:m1:agent-work changed"],
        );
        check(&|it| it.retain(|(_, key), _| key.namespace() != Some("karmada-system")), &[]);
        check(
            &|it| it.retain(|(_, key), _| key.namespace() != Some("s")),
            &["Role s/system:karmada:m1:agent-secret", "RoleBinding s/system:karmada:m1:agent-secret"],
        );
    }
}
