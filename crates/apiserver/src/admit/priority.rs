//! Gives pods the number behind their priority class, and allows one default class.

use std::collections::BTreeMap;

use apimachinery::{Object, Status};
use futures::future::BoxFuture;
use parking_lot::RwLock;
use serde_json::Value;

use crate::admit::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;
use crate::cache::keys;

/// Built-in classes of every server, whether or not they are stored.
const SYSTEM: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const PREEMPTS: &str = "PreemptLowerPriority";

#[derive(Clone, Debug)]
struct Class {
    value: i64,
    preemption: String,
    is_default: bool,
}

/// The plugin, with the classes as the store has them. It belongs to one server.
#[derive(Debug)]
pub struct Priorities {
    place: String,
    classes: RwLock<BTreeMap<String, Class>>,
}

impl Default for Priorities {
    fn default() -> Self {
        Self { place: keys::group_resource(GROUP, CLASSES), classes: RwLock::default() }
    }
}

impl Priorities {
    fn class(&self, name: &str) -> Option<Class> {
        let stored = self.classes.read().get(name).cloned();
        stored.or_else(|| {
            let (_, value) = SYSTEM.iter().find(|(known, _)| *known == name)?;
            Some(Class { value: *value, preemption: PREEMPTS.to_owned(), is_default: false })
        })
    }

    /// Of several defaults the lowest is used, as in kube-apiserver.
    fn default_class(&self) -> Option<(String, Class)> {
        let classes = self.classes.read();
        let defaults = classes.iter().filter(|(_, class)| class.is_default);
        defaults.min_by_key(|(_, class)| class.value).map(|(name, class)| (name.clone(), class.clone()))
    }

    /// Fields set at creation are kept if an update omits them.
    fn keep(pod: &mut Value, old: &Value) {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
        for field in ["priority", "preemptionPolicy"] {
            if let Some(value) = old["spec"].get(field) {
                spec.entry(field).or_insert_with(|| value.clone());
            }
        }
    }

    fn apply(&self, pod: &mut Value) -> Result<(), String> {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let class = if name.is_empty() {
            self.default_class().map(|(name, class)| {
                spec.insert("priorityClassName".into(), name.into());
                class
            })
        } else {
            Some(self.class(&name).ok_or_else(|| format!("no PriorityClass with name {name} was found"))?)
        };
        let (value, preemption) =
            class.map_or_else(|| (0, PREEMPTS.to_owned()), |class| (class.value, class.preemption));
        if spec.get("priority").is_some_and(|given| *given != value) {
            let given = &spec["priority"];
            return Err(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
                 computed {value} from the given PriorityClass name"
            ));
        }
        spec.insert("priority".into(), value.into());
        spec.entry("preemptionPolicy").or_insert_with(|| preemption.into());
        Ok(())
    }
}

impl Admission for Priorities {
    fn name(&self) -> Option<&'static str> {
        Some("Priority")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        matches!((group, plural), ("", "pods") | (GROUP, CLASSES))
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let named = &request.info.resource;
        let is_pod = named.group.is_empty() && named.plural == "pods" && request.subresource.is_empty();
        if is_pod
            && request.operation == Operation::Update
            && let (Some(pod), Some(old)) = (request.object.as_deref_mut(), request.old)
        {
            Self::keep(pod, old);
        }
        let outcome = match &mut request.object {
            Some(pod) if is_pod && request.operation == Operation::Create => {
                self.apply(pod).map_err(|why| Status::forbidden("", "pods", request.key.name(), &why))
            }
            _ => Ok(()),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let is_default = request.object.as_deref().is_some_and(|class| class["globalDefault"] == true);
        let is_class = request.is_for(GROUP, CLASSES) && request.operation != Operation::Delete;
        let other = self
            .default_class()
            .filter(|_| is_class && is_default)
            .filter(|(name, _)| request.operation == Operation::Create || name.as_str() != request.key.name());
        let outcome = other.map_or(Ok(()), |(name, _)| {
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(request.forbidden(&why))
        });
        Box::pin(std::future::ready(outcome))
    }

    fn observe(&self, place: &str, event: &Event) {
        if place != self.place {
            return;
        }
        match (&event.current, &event.previous) {
            (Some(object), _) => {
                if let Some(class) = class_of(object) {
                    self.classes.write().insert(object.name().to_owned(), class);
                }
            }
            (None, Some(object)) => drop(self.classes.write().remove(object.name())),
            (None, None) => {}
        }
    }
}

fn class_of(object: &Object) -> Option<Class> {
    let tree = object.to_value().ok()?;
    Some(Class {
        value: tree["value"].as_i64()?,
        preemption: tree["preemptionPolicy"].as_str().unwrap_or(PREEMPTS).to_owned(),
        is_default: tree["globalDefault"] == true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_get_the_value_of_their_class() {
        let priorities = Priorities::default();
        let class = |value, is_default| Class { value, preemption: "Never".to_owned(), is_default };
        let of = |spec: Value| {
            let mut pod = json!({"spec": spec});
            priorities.apply(&mut pod).map(|()| pod["spec"].take())
        };
        assert_eq!(of(json!({})), Ok(json!({"priority": 0, "preemptionPolicy": PREEMPTS})));
        let unknown = of(json!({"priorityClassName": "x"}));
        assert_eq!(unknown, Err("no PriorityClass with name x was found".to_owned()));
        priorities.classes.write().insert("x".into(), class(7, false));
        priorities.classes.write().insert("y".into(), class(9, true));
        let named = json!({"priorityClassName": "x", "priority": 7, "preemptionPolicy": "Never"});
        assert_eq!(of(json!({"priorityClassName": "x"})), Ok(named));
        let default = json!({"priorityClassName": "y", "priority": 9, "preemptionPolicy": "Never"});
        assert_eq!(of(json!({})), Ok(default));
        assert_eq!(
            of(json!({"priorityClassName": SYSTEM[0].0})).map(|spec| spec["priority"].clone()),
            Ok(json!(SYSTEM[0].1))
        );
        assert!(of(json!({"priorityClassName": "x", "priority": 1})).is_err());
    }
}
