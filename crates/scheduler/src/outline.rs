//! The fields of a binding that determine whether and when it is scheduled, read without decoding the rest: they are
//! read of every binding when a scheduler starts.

use std::borrow::Cow;

use apimachinery::raw_json;
use karmada_api::policy::v1alpha1::Placement;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::triggers::{Requirements, SchedulingState};

/// A binding's spec, in part.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outline<'j> {
    #[serde(borrow)]
    scheduler_name: Option<Cow<'j, str>>,
    suspension: Option<Suspension>,
    #[serde(borrow)]
    placement: Option<&'j RawValue>,
    #[serde(borrow)]
    resource: Option<Resource<'j>>,
    replicas: Option<i32>,
    replica_requirements: Option<IgnoredAny>,
    components: Option<Vec<IgnoredAny>>,
    schedule_priority: Option<SchedulePriority>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Suspension {
    scheduling: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource<'j> {
    #[serde(borrow)]
    api_version: Option<Cow<'j, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'j, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SchedulePriority {
    priority: Option<i32>,
}

impl<'j> Outline<'j> {
    /// Reads a binding's document.
    pub fn of(json: &'j [u8]) -> Result<Self, serde_json::Error> {
        let spec = raw_json::member(json, "spec").map(|span| serde_json::from_slice::<Option<Self>>(&json[span]));
        Ok(spec.transpose()?.flatten().unwrap_or_default())
    }

    pub fn scheduling_state(&self) -> SchedulingState<'_> {
        SchedulingState {
            scheduler: self.scheduler_name.as_deref().unwrap_or_default(),
            suspended: self.suspension.as_ref().and_then(|it| it.scheduling) == Some(true),
            placed: self.placement.is_some(),
        }
    }

    pub fn priority(&self) -> i32 {
        self.schedule_priority.as_ref().and_then(|it| it.priority).unwrap_or_default()
    }

    fn kind(&self) -> (&str, &str) {
        let resource = self.resource.as_ref();
        (
            resource.and_then(|it| it.api_version.as_deref()).unwrap_or_default(),
            resource.and_then(|it| it.kind.as_deref()).unwrap_or_default(),
        )
    }

    fn is_workload(&self) -> bool {
        self.replicas > Some(0)
            || self.replica_requirements.is_some()
            || self.components.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// The same text for bindings of which [`Outline::requirements`] are equal; `None` without a placement.
    pub fn group(&self) -> Option<String> {
        let ((api_version, kind), placement) = (self.kind(), self.placement?);
        Some(format!("{api_version} {kind} {} {}", self.is_workload(), placement.get()))
    }

    /// The clusters that a placement may select; `None` without a placement, because then there is no decision.
    pub fn requirements(&self) -> Result<Option<Requirements>, serde_json::Error> {
        let Some(placement) = self.placement else { return Ok(None) };
        let placement: Placement = serde_json::from_str(placement.get())?;
        let (api_version, kind) = self.kind();
        Ok(Some(Requirements::new(api_version, kind, self.is_workload(), &placement)))
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use karmada_api::constants::labels;
    use karmada_api::scope::Binding;
    use serde_json::json;

    use super::*;
    use crate::triggers::{DEFAULT_SCHEDULER, IgnoreReason, ignore_reason};

    /// An outline determines the owner of a binding as the decoded binding does.
    #[test]
    fn ownership() {
        for (change, expected) in [
            (json!({}), None),
            (json!({"spec": {"schedulerName": "default-scheduler", "suspension": {"scheduling": false}}}), None),
            (json!({"spec": {"suspension": {"dispatching": true}}}), None),
            (json!({"spec": {"schedulerName": "other"}}), Some(IgnoreReason::OtherScheduler("other".into()))),
            (json!({"spec": {"suspension": {"scheduling": true}}}), Some(IgnoreReason::Suspended)),
            (json!({"spec": {"placement": null}}), Some(IgnoreReason::Unplaced)),
            (json!({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}}), Some(IgnoreReason::Deleting)),
            (json!({"metadata": {"labels": null}}), Some(IgnoreReason::Unclaimed)),
            (json!({"metadata": {"labels": null}, "spec": {"placement": null}}), Some(IgnoreReason::Unplaced)),
        ] {
            let mut value =
                json!({"metadata": {"name": "a", "labels": {labels::POLICY_ID: "p"}}, "spec": {"placement": {}}});
            apimachinery::merge_patch::apply(&mut value, &change);
            let object = Object::from_value(&value).expect("an object");
            let binding = Binding::decode(&object).expect("a binding");
            assert_eq!(ignore_reason(&object, &binding, DEFAULT_SCHEDULER), expected, "{change}");
            let json = object.json();
            let outline = Outline::of(&json).expect("a binding");
            assert_eq!(ignore_reason(&object, outline.scheduling_state(), DEFAULT_SCHEDULER), expected, "{change}");
        }
    }
}
