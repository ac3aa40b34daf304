//! The stored configurations and policies, ready to be matched.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::cache::Event;
use apiserver::plugins::Switches;
use serde_json::Value;

use crate::webhooks::Webhook;

pub const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The kinds that kube-apiserver exempts: users can always remove what locks them out.
const EXEMPT: [&str; 6] = [
    MUTATING,
    VALIDATING,
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

pub fn is_exempt(group: &str, plural: &str) -> bool {
    group == GROUP && EXEMPT.contains(&plural)
}

/// Which kinds have an effect.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    mutating: bool,
    validating: bool,
}

impl Kinds {
    pub fn of(switches: &Switches) -> Self {
        Self {
            mutating: switches.has("MutatingAdmissionWebhook"),
            validating: switches.has("ValidatingAdmissionWebhook"),
        }
    }
}

/// The webhooks of all configurations, by the names of those.
#[derive(Default)]
pub struct Stored {
    mutating: BTreeMap<String, Arc<[Webhook]>>,
    validating: BTreeMap<String, Arc<[Webhook]>>,
}

impl Stored {
    /// Takes in a change; whether it is one of a kind that has an effect.
    pub fn absorb(&mut self, kinds: Kinds, plural: &str, event: &Event) -> bool {
        let configurations = match plural {
            MUTATING if kinds.mutating => &mut self.mutating,
            VALIDATING if kinds.validating => &mut self.validating,
            _ => return false,
        };
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()) else { return false };
        let tree: Option<Value> = event.current.as_ref().and_then(|object| object.to_value().ok());
        match tree {
            Some(tree) => drop(configurations.insert(object.name().to_owned(), Webhook::all_of(&tree).into())),
            None => drop(configurations.remove(object.name())),
        }
        true
    }

    pub fn table(&self) -> Table {
        let all = |configurations: &BTreeMap<String, Arc<[Webhook]>>| configurations.values().cloned().collect();
        Table { mutating: all(&self.mutating), validating: all(&self.validating) }
    }
}

/// What is called, in its order: by the names of configurations, then by their lists.
#[derive(Default)]
pub struct Table {
    pub mutating: Vec<Arc<[Webhook]>>,
    pub validating: Vec<Arc<[Webhook]>>,
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.mutating.iter().chain(&self.validating).all(|webhooks| webhooks.is_empty())
    }

    pub fn may_match(&self, group: &str, plural: &str, subresource: Option<&str>) -> bool {
        let mut webhooks = self.mutating.iter().chain(&self.validating).flat_map(|webhooks| webhooks.iter());
        webhooks.any(|webhook| webhook.criteria.may_match(group, plural, subresource))
    }
}
