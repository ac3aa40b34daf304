//! The local APIServices that the server creates, corrects and deletes. Those that users have taken over, by removing
//! the label, are not changed.

use std::collections::{BTreeMap, BTreeSet};

use apiserver::bootstrap::objects::AUTOMANAGED;
use serde_json::{Value, json};

use crate::registered::{ApiService, Managed};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Value),
    /// A merge patch.
    Patch {
        name: String,
        patch: Value,
    },
    Delete {
        name: String,
        uid: String,
    },
}

/// The changes that reconcile the APIServices with `desired`, by name. In the first round, `at_start` holds the names
/// of those that existed when the server started; later only those of custom resources are reconciled.
pub fn plan(
    desired: &BTreeMap<String, Value>,
    current: &BTreeMap<String, ApiService>,
    at_start: Option<&BTreeSet<String>>,
) -> Vec<Action> {
    let is_always = |object: &Value| object["metadata"]["labels"][AUTOMANAGED] == "true";
    let mut actions = Vec::new();
    for (name, local) in desired {
        match current.get(name) {
            None if is_always(local) || at_start.is_some() => actions.push(Action::Create(local.clone())),
            None => {}
            Some(found) if is_kept(found, at_start) && differs(found, local) => {
                let mut spec = local["spec"].clone();
                for field in ["service", "caBundle", "insecureSkipTLSVerify"] {
                    spec[field] = Value::Null;
                }
                let labels = &local["metadata"]["labels"];
                let patch = json!({"metadata": {"uid": found.uid, "labels": labels}, "spec": spec});
                actions.push(Action::Patch { name: name.clone(), patch });
            }
            Some(_) => {}
        }
    }
    for (name, found) in current {
        if !desired.contains_key(name) && is_kept(found, at_start) {
            actions.push(Action::Delete { name: name.clone(), uid: found.uid.clone() });
        }
    }
    actions
}

fn is_kept(found: &ApiService, at_start: Option<&BTreeSet<String>>) -> bool {
    match found.managed {
        Managed::No => false,
        Managed::OnStart => at_start.is_some_and(|names| names.contains(&found.name)),
        Managed::Always => true,
    }
}

fn differs(found: &ApiService, local: &Value) -> bool {
    let spec = &local["spec"];
    let label = if found.managed == Managed::Always { "true" } else { "onstart" };
    found.spec.service.is_some()
        || found.spec.insecure
        || spec["groupPriorityMinimum"] != found.spec.group_priority_minimum
        || spec["versionPriority"] != found.spec.version_priority
        || spec["group"] != *found.spec.group
        || spec["version"] != *found.spec.version
        || local["metadata"]["labels"][AUTOMANAGED] != label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registered::{ServiceReference, Spec};

    fn local(name: &str, label: &str) -> (String, Value) {
        let object = json!({"metadata": {"name": name, "labels": {AUTOMANAGED: label}},
            "spec": {"group": "g", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100}});
        (name.to_owned(), object)
    }

    fn found(name: &str, managed: Managed, priority: u32) -> (String, ApiService) {
        let spec = Spec {
            group: "g".into(),
            version: "v1".into(),
            group_priority_minimum: priority,
            version_priority: 100,
            ..Spec::default()
        };
        let service = ApiService { name: name.into(), uid: "u".into(), managed, spec, available: None };
        (name.to_owned(), service)
    }

    /// Upstream's table of actions on an APIService.
    #[test]
    fn actions_match_upstreams_table() {
        use Managed::{Always, No, OnStart};
        for (desired, current, at_start, then, expected) in [
            (None, None, true, true, "-"),
            (Some("onstart"), None, true, false, "create"),
            (Some("onstart"), None, false, false, "-"),
            (Some("true"), None, false, false, "create"),
            (None, Some(No), true, true, "-"),
            (Some("true"), Some(No), true, true, "-"),
            (None, Some(OnStart), true, false, "-"),
            (Some("true"), Some(OnStart), true, false, "-"),
            (None, Some(OnStart), true, true, "delete"),
            (Some("onstart"), Some(OnStart), true, true, "patch"),
            (Some("onstart"), Some(OnStart), false, true, "-"),
            (Some("true"), Some(OnStart), true, true, "patch"),
            (None, Some(Always), false, false, "delete"),
            (Some("onstart"), Some(Always), false, false, "patch"),
            (Some("true"), Some(Always), false, false, "patch"),
        ] {
            let desired: BTreeMap<_, _> = desired.map(|label| local("n", label)).into_iter().collect();
            let current: BTreeMap<_, _> = current.map(|managed| found("n", managed, 7)).into_iter().collect();
            let names: BTreeSet<String> = then.then(|| "n".to_owned()).into_iter().collect();
            let actions = plan(&desired, &current, at_start.then_some(&names));
            let shown = match actions.as_slice() {
                [] => "-",
                [Action::Create(_)] => "create",
                [Action::Patch { .. }] => "patch",
                [Action::Delete { .. }] => "delete",
                _ => "several",
            };
            assert_eq!(shown, expected, "{desired:?} {current:?} {at_start} {then}");
        }
    }

    #[test]
    fn a_correct_api_service_is_unchanged() {
        let desired = BTreeMap::from([local("n", "true")]);
        let right = found("n", Managed::Always, 1000);
        assert_eq!(plan(&desired, &BTreeMap::from([right.clone()]), None), []);
        let (name, mut taken) = right;
        taken.spec.service = Some(ServiceReference::default());
        let actions = plan(&desired, &BTreeMap::from([(name, taken)]), None);
        let [Action::Patch { patch, .. }] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!((&patch["spec"]["service"], &patch["metadata"]["uid"]), (&Value::Null, &json!("u")));
    }
}
