//! Privilege escalation prevention: users cannot grant permissions that they do not have. Checked on every write of a
//! role or a binding, before it is stored.
//!
//! The explicit exception is the verb `escalate` on the written role, or `bind` on the referenced role.

use std::collections::BTreeMap;

use apimachinery::{ObjectKey, Status};
use transport::Identity;

use super::AdmissionRequest;
use crate::auth::authz::rules::{Binding, Role};
use crate::auth::authz::{self, Attributes, Authorizer, PolicyRule, Rbac, ResourceAttributes, Table, rbac};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A user, the authorizer of all their requests, and the rules that RBAC grants them.
#[derive(Clone, Copy)]
pub struct Granting<'a> {
    /// Decides on `escalate` and `bind`, by other programs if need be.
    pub authorizer: &'a dyn Authorizer,
    /// Lists the held rules.
    pub rules: &'a dyn Authorizer,
    /// The user of the request.
    pub user: &'a Identity,
}

/// Checks a write of any resource.
pub(crate) async fn check(rbac: &Rbac, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let named = &request.info.resource;
    let Some(new) = request.object.as_deref().filter(|_| named.group == GROUP && request.subresource.is_empty()) else {
        return Ok(());
    };
    let granting = Granting { authorizer: request.known.authorizer.as_ref(), rules: rbac, user: request.user };
    let (key, old) = (request.key, request.old);
    match named.kind.as_str() {
        "Role" | "ClusterRole" => check_role(granting, key, old, new).await,
        "RoleBinding" | "ClusterRoleBinding" => check_binding(granting, &rbac.snapshot(), key, old, new).await,
        _ => Ok(()),
    }
}

/// A write of a Role or ClusterRole. `old` is the stored one on updates.
///
/// # Errors
/// 403 with the missing rules.
pub async fn check_role(
    granting: Granting<'_>,
    key: &ObjectKey,
    old: Option<&serde_json::Value>,
    new: &serde_json::Value,
) -> Result<(), Status> {
    let resource = if key.namespace().is_some() { "roles" } else { "clusterroles" };
    let rules = decode::<Role>(new, resource, key)?.rules;
    if old.is_some_and(|old| old["rules"] == new["rules"] && old["aggregationRule"] == new["aggregationRule"]) {
        return Ok(());
    }
    if granting.may("escalate", resource, key).await {
        return Ok(());
    }
    // An aggregated role takes its rules from roles that others may write later, so it needs everything.
    let everything = [PolicyRule::everything(), PolicyRule::every_path()];
    let aggregates = !new["aggregationRule"].is_null();
    let wanted = rules.iter().chain(if aggregates { &everything[..] } else { &[] });
    granting.refuse_missing(resource, key, wanted)
}

/// A write of a RoleBinding or ClusterRoleBinding.
///
/// # Errors
/// 403 with the missing rules.
pub async fn check_binding(
    granting: Granting<'_>,
    table: &Table,
    key: &ObjectKey,
    old: Option<&serde_json::Value>,
    new: &serde_json::Value,
) -> Result<(), Status> {
    let resource = if key.namespace().is_some() { "rolebindings" } else { "clusterrolebindings" };
    if old.is_some_and(|old| old["roleRef"] == new["roleRef"] && old["subjects"] == new["subjects"]) {
        return Ok(());
    }
    let reference = decode::<Binding>(new, resource, key)?.role_ref;
    let namespace = key.namespace().unwrap_or_default();
    let (of, role_key) = match reference.kind.as_str() {
        "Role" => ("roles", ObjectKey::namespaced(namespace, reference.name.as_str())),
        // For a RoleBinding, the permission to bind a ClusterRole may be granted in the namespace.
        _ => ("clusterroles", ObjectKey::namespaced(namespace, reference.name.as_str())),
    };
    if granting.may("bind", of, &role_key).await {
        return Ok(());
    }
    let Some(rules) = table.find(&reference, namespace) else {
        return Err(Status::not_found(GROUP, of, &reference.name));
    };
    granting.refuse_missing(resource, key, rules)
}

fn decode<T: serde::de::DeserializeOwned>(
    value: &serde_json::Value,
    resource: &str,
    key: &ObjectKey,
) -> Result<T, Status> {
    T::deserialize(value)
        .map_err(|error| Status::bad_request(format!("{resource}.{GROUP} {key} cannot be read: {error}")))
}

impl Granting<'_> {
    async fn may(&self, verb: &str, resource: &str, key: &ObjectKey) -> bool {
        let attributes = ResourceAttributes {
            verb: verb.into(),
            group: GROUP.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: key.namespace().unwrap_or_default().into(),
            name: key.name().to_owned(),
            ..ResourceAttributes::default()
        };
        authz::decide(self.authorizer, self.user, &Attributes::Resource(attributes)).await.is_allowed()
    }

    fn refuse_missing<'r>(
        &self,
        resource: &str,
        key: &ObjectKey,
        wanted: impl IntoIterator<Item = &'r PolicyRule>,
    ) -> Result<(), Status> {
        let user = self.user;
        let held = self.rules.rules_for(user, key.namespace().unwrap_or_default()).unwrap_or_default();
        let missing = rbac::missing(&held, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        let rules: Vec<String> = merged(&missing).iter().map(rbac::describe).collect();
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.user,
            groups.join(" "),
            rules.join("\n")
        );
        Err(Status::forbidden(GROUP, resource, key.name(), &why))
    }
}

/// Single permissions on the same thing as one rule with several verbs.
fn merged(singles: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut merged: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for single in singles {
        let of = PolicyRule { verbs: Vec::new(), ..single.clone() };
        merged.entry(of).or_default().extend(single.verbs.iter().cloned());
    }
    merged.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }).collect()
}
