//! The fields of a workload that autoscalers in a member write: replicas, and resources of containers.

use std::fmt;

use serde_json::{Map, Value};

/// A place in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    /// The item of a list with this `name`.
    Item(String),
}

/// Where a workload, a CronJob and a Pod have the spec of their pods.
const POD_SPECS: [&[&str]; 3] =
    [&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"], &["spec"]];

impl Field {
    fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Step::Member((*name).to_owned())).collect())
    }

    pub(super) fn replicas() -> Self {
        Self::of(&["spec", "replicas"])
    }

    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    fn member(&self, name: &str) -> Self {
        self.then(Step::Member(name.to_owned()))
    }

    pub(super) fn get<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            Step::Member(name) => value.get(name),
            Step::Item(name) => value.as_array()?.iter().find(|item| item["name"] == **name),
        })
    }

    /// Sets the value where the object has one.
    pub(super) fn replace(&self, object: &mut Value, value: &Value) {
        let place = self.0.iter().try_fold(object, |value, step| match step {
            Step::Member(name) => value.get_mut(name),
            Step::Item(name) => value.as_array_mut()?.iter_mut().find(|item| item["name"] == **name),
        });
        if let Some(place) = place {
            place.clone_from(value);
        }
    }

    /// Whether `owned`, a field set in the form of `fieldsV1`, contains the field.
    pub(super) fn is_in(&self, owned: &Value) -> bool {
        let found = self.0.iter().try_fold(owned, |set, step| match step {
            Step::Member(name) => set.get(format!("f:{name}")),
            Step::Item(name) => set.get(format!("k:{{\"name\":{}}}", Value::String(name.clone()))),
        });
        found.is_some()
    }

    /// The other fields are resources.
    pub(super) fn is_replicas(&self) -> bool {
        *self == Self::replicas()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if place == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Item(name) => write!(f, "[name={name}]")?,
            }
        }
        Ok(())
    }
}

/// The fields that `desired` would change in `observed`.
pub(super) fn changed(observed: &Value, desired: &Value) -> Vec<Field> {
    let mut fields = vec![Field::replicas()];
    for place in POD_SPECS {
        let pod = Field::of(place);
        for list in ["initContainers", "containers"] {
            let containers = pod.member(list);
            let items = containers.get(desired).and_then(Value::as_array);
            for container in items.into_iter().flatten() {
                let Some(name) = container["name"].as_str() else { continue };
                let resources = containers.then(Step::Item(name.to_owned())).member("resources");
                for kind in ["requests", "limits"] {
                    let amounts = container["resources"][kind].as_object();
                    let names = amounts.into_iter().flat_map(Map::keys);
                    fields.extend(names.map(|name| resources.member(kind).member(name)));
                }
            }
        }
    }
    // A field that either side does not have is added or removed, and there is no value to leave.
    let differs = |field: &Field| field.get(observed).zip(field.get(desired)).is_some_and(|(is, parsed)| is != parsed);
    fields.retain(differs);
    fields
}
