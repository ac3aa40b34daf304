//! All roles and bindings of the server in memory, and the authorizer over them.
//!
//! Bindings are indexed by subject, so a request reads only the bindings of its user. Readers take a snapshot without
//! waiting; a writer changes one object at a time and publishes the next snapshot. Unchanged parts are shared between
//! snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use transport::Identity;

use super::rules::{Binding, Role};
use super::{Attributes, Authorizer, Decision, MASTERS, PolicyRule, RoleRef, rbac};

/// A cluster-scoped key is a ClusterRole's or a ClusterRoleBinding's, a namespaced one a Role's or a RoleBinding's.
#[derive(Clone, Debug, Default)]
pub struct Table {
    roles: BTreeMap<ObjectKey, Arc<Role>>,
    /// Cluster bindings apply everywhere; the others in their namespace.
    cluster_bindings: BTreeMap<String, Arc<Binding>>,
    bindings: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
}

impl Table {
    /// Adds an object of one of the four kinds; others are ignored. An undecodable one counts as absent: it grants
    /// nothing.
    pub fn put(&mut self, object: &Object) {
        match object.kind() {
            "Role" | "ClusterRole" => {
                let role = object.decode::<Role>().unwrap_or_default();
                self.roles.insert(object.key(), Arc::new(role));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let binding = Arc::new(object.decode::<Binding>().unwrap_or_default());
                match object.namespace() {
                    None => self.cluster_bindings.insert(object.name().to_owned(), binding),
                    Some(namespace) => {
                        self.bindings.entry(namespace.to_owned()).or_default().insert(object.name().to_owned(), binding)
                    }
                };
            }
            _ => {}
        }
    }

    /// Removes a deleted role or binding.
    pub fn remove(&mut self, kind: &str, key: &ObjectKey) {
        match (kind, key.namespace()) {
            ("Role" | "ClusterRole", _) => {
                self.roles.remove(key);
            }
            ("ClusterRoleBinding", _) => {
                self.cluster_bindings.remove(key.name());
            }
            ("RoleBinding", Some(namespace)) => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(key.name());
                    if bindings.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
            _ => {}
        }
    }

    /// The rules of the referenced role, resolved in `namespace` (empty for a cluster binding); `None` if it does not
    /// exist.
    pub fn find(&self, reference: &RoleRef, namespace: &str) -> Option<&[PolicyRule]> {
        let key = match reference.kind.as_str() {
            "ClusterRole" => ObjectKey::cluster(reference.name.as_str()),
            "Role" if !namespace.is_empty() => ObjectKey::namespaced(namespace, reference.name.as_str()),
            _ => return None,
        };
        self.roles.get(&key).map(|role| role.rules.as_slice())
    }

    fn rules_of(&self, reference: &RoleRef, namespace: &str) -> &[PolicyRule] {
        self.find(reference, namespace).unwrap_or_default()
    }

    /// Every binding that concerns the user, those of the namespace after those of the cluster: the namespace it
    /// applies to (empty for everywhere), its name, the binding.
    fn bindings_of<'a>(
        &'a self,
        user: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Binding)> {
        let cluster = self.cluster_bindings.iter().map(|(name, binding)| ("", name.as_str(), &**binding));
        let local = (!namespace.is_empty()).then(|| self.bindings.get(namespace)).flatten();
        let local = local.into_iter().flatten().map(move |(name, binding)| (namespace, name.as_str(), &**binding));
        cluster.chain(local).filter(move |(namespace, _, binding)| {
            binding.subjects.iter().any(|subject| rbac::is_subject(subject, namespace, user))
        })
    }

    /// All rules a user holds in a namespace, or everywhere when it is empty.
    pub fn rules_granted(&self, user: &Identity, namespace: &str) -> Vec<PolicyRule> {
        self.bindings_of(user, namespace)
            .flat_map(|(namespace, _, binding)| self.rules_of(&binding.role_ref, namespace))
            .cloned()
            .collect()
    }

    /// The decision for a request.
    pub fn decide(&self, user: &Identity, attributes: &Attributes) -> Decision {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allow(String::new());
        }
        let namespace = match attributes {
            Attributes::Resource(requested) => requested.namespace.as_str(),
            Attributes::Path { .. } => "",
        };
        let granting = self.bindings_of(user, namespace).find(|(namespace, _, binding)| {
            self.rules_of(&binding.role_ref, namespace).iter().any(|rule| rbac::grants(rule, attributes))
        });
        match granting {
            Some((namespace, name, binding)) => Decision::Allow(reason(namespace, name, binding, user)),
            None => Decision::NoOpinion(String::new()),
        }
    }
}

/// `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "bob"`.
fn reason(namespace: &str, name: &str, binding: &Binding, user: &Identity) -> String {
    let (kind, place) = if namespace.is_empty() {
        ("ClusterRoleBinding", name.to_owned())
    } else {
        ("RoleBinding", format!("{name}/{namespace}"))
    };
    let subject = binding.subjects.iter().find(|subject| rbac::is_subject(subject, namespace, user));
    let to = subject.map_or_else(String::new, |subject| match subject.kind.as_str() {
        "ServiceAccount" => {
            let of = if subject.namespace.is_empty() { namespace } else { &subject.namespace };
            format!("ServiceAccount {:?}", format!("{}/{of}", subject.name))
        }
        kind => format!("{kind} {:?}", subject.name),
    });
    format!("RBAC: allowed by {kind} {place:?} of {} {:?} to {to}", binding.role_ref.kind, binding.role_ref.name)
}

/// The RBAC authorizer: a table updated with the server's changes of the four kinds.
#[derive(Debug, Default)]
pub struct Rbac {
    snapshot: ArcSwap<Table>,
    /// Serializes writers; readers use the snapshot.
    writer: Mutex<()>,
}

impl Rbac {
    /// Changes the table and publishes it.
    pub fn update(&self, change: impl FnOnce(&mut Table)) {
        let _one_at_a_time = self.writer.lock();
        let mut next = Table::clone(&self.snapshot.load());
        change(&mut next);
        self.snapshot.store(Arc::new(next));
    }

    /// The current table.
    pub fn snapshot(&self) -> Arc<Table> {
        self.snapshot.load_full()
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, user: &Identity, attributes: &Attributes) -> Decision {
        self.snapshot.load().decide(user, attributes)
    }

    fn rules_for(&self, user: &Identity, namespace: &str) -> Option<Vec<PolicyRule>> {
        let mut rules = self.snapshot.load().rules_granted(user, namespace);
        if user.groups.iter().any(|group| group == MASTERS) {
            // Their rights do not depend on a binding.
            for all in [PolicyRule::everything(), PolicyRule::every_path()] {
                if !rules.contains(&all) {
                    rules.push(all);
                }
            }
        }
        Some(rules)
    }
}
