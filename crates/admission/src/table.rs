//! The stored configurations and policies, ready to be matched.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::admit::plugins::Switches;
use apiserver::cache::Event;

use serde_json::Value;

use crate::policies::{Binding, Bound};
use crate::policy::Policy;
use crate::webhooks::Webhook;

pub const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";
const MUTATING_POLICIES: &str = "mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings";

/// The kinds that kube-apiserver exempts: users can always remove a configuration that locks them out.
const EXEMPT: [&str; 6] = [MUTATING, VALIDATING, POLICIES, BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS];

pub fn is_exempt(group: &str, plural: &str) -> bool {
    group == GROUP && EXEMPT.contains(&plural)
}

/// Which kinds have an effect.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    mutating: bool,
    validating: bool,
    policies: bool,
    mutating_policies: bool,
}

impl Kinds {
    pub fn of(switches: &Switches) -> Self {
        Self {
            mutating: switches.has("MutatingAdmissionWebhook"),
            validating: switches.has("ValidatingAdmissionWebhook"),
            policies: switches.has("ValidatingAdmissionPolicy"),
            mutating_policies: switches.has("MutatingAdmissionPolicy"),
        }
    }
}

/// The webhooks of all configurations, and the policies with their bindings, by names.
#[derive(Default)]
pub struct Stored {
    mutating: BTreeMap<String, Arc<[Webhook]>>,
    validating: BTreeMap<String, Arc<[Webhook]>>,
    policies: Policies,
    mutating_policies: Policies,
}

#[derive(Default)]
struct Policies {
    policies: BTreeMap<String, Arc<Policy>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

impl Policies {
    fn put(&mut self, is_policy: bool, name: &str, tree: Option<&Value>) {
        match is_policy {
            true => put(&mut self.policies, name, tree.map(|tree| Arc::new(Policy::of(tree)))),
            false => put(&mut self.bindings, name, tree.map(|tree| Arc::new(Binding::of(tree)))),
        }
    }

    /// A policy without a binding has no effect.
    fn bound(&self) -> Vec<Bound> {
        let bound = self.policies.values().filter_map(|policy| {
            let bindings = self.bindings.values().filter(|binding| binding.policy == policy.name);
            let bindings: Vec<Arc<Binding>> = bindings.cloned().collect();
            (!bindings.is_empty()).then(|| Bound { policy: Arc::clone(policy), bindings })
        });
        bound.collect()
    }
}

impl Stored {
    /// Takes in a change; whether it is one of a kind that has an effect.
    pub fn absorb(&mut self, kinds: Kinds, plural: &str, event: &Event) -> bool {
        let is_on = match plural {
            MUTATING => kinds.mutating,
            VALIDATING => kinds.validating,
            POLICIES | BINDINGS => kinds.policies,
            MUTATING_POLICIES | MUTATING_BINDINGS => kinds.mutating_policies,
            _ => false,
        };
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()).filter(|_| is_on) else { return false };
        let (name, tree) = (object.name(), event.current.as_ref().and_then(|object| object.to_value().ok()));
        let tree = tree.as_ref();
        match plural {
            MUTATING => put(&mut self.mutating, name, tree.map(|tree| Webhook::all_of(tree).into())),
            VALIDATING => put(&mut self.validating, name, tree.map(|tree| Webhook::all_of(tree).into())),
            POLICIES | BINDINGS => self.policies.put(plural == POLICIES, name, tree),
            _ => self.mutating_policies.put(plural == MUTATING_POLICIES, name, tree),
        }
        true
    }

    pub fn table(&self) -> Table {
        let all = |configurations: &BTreeMap<String, Arc<[Webhook]>>| configurations.values().cloned().collect();
        Table {
            mutating: all(&self.mutating),
            validating: all(&self.validating),
            policies: self.policies.bound(),
            mutating_policies: self.mutating_policies.bound(),
        }
    }
}

fn put<T>(stored: &mut BTreeMap<String, T>, name: &str, value: Option<T>) {
    match value {
        Some(value) => drop(stored.insert(name.to_owned(), value)),
        None => drop(stored.remove(name)),
    }
}

/// The webhooks and policies in calling order: webhooks by the names of configurations, then by their lists; policies
/// by name.
#[derive(Default)]
pub struct Table {
    pub mutating: Vec<Arc<[Webhook]>>,
    pub validating: Vec<Arc<[Webhook]>>,
    pub policies: Vec<Bound>,
    pub mutating_policies: Vec<Bound>,
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.mutating_policies.is_empty() && self.webhooks().next().is_none()
    }

    fn webhooks(&self) -> impl Iterator<Item = &Webhook> {
        self.mutating.iter().chain(&self.validating).flat_map(|webhooks| webhooks.iter())
    }

    pub fn may_match(&self, group: &str, plural: &str, subresource: Option<&str>) -> bool {
        let policies = self.policies.iter().chain(&self.mutating_policies).map(|bound| &bound.policy.criteria);
        let mut criteria = self.webhooks().map(|webhook| &webhook.criteria).chain(policies);
        criteria.any(|criteria| criteria.may_match(group, plural, subresource))
    }
}
