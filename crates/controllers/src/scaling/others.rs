//! Other autoscalers of a FederatedHPA's target: in the control plane, and those propagated to members.

use std::sync::Arc;

use apimachinery::Object;
use autoscaling::conditions::{self, Condition};
use controller_runtime::Informer;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::{CrossVersionObjectReference, FederatedHPA, FederatedHPAStatus};
use propagation::contest::CONDITION;

use crate::{Context, member_scaling};

/// The index of autoscalers by their target.
const TARGET: &str = "target";

/// The reason of the condition, and of the event.
const REASON: &str = "PropagatedAutoscaler";

pub(super) struct Others {
    federated: Informer,
    /// HorizontalPodAutoscalers of the control plane, which the detector watches anyway.
    templates: Informer,
}

impl Others {
    pub fn of(context: &Context) -> Self {
        let federated = context.control.informer(&FederatedHPA::api_resource());
        federated.cache().add_index(TARGET, |object| of_federated(object).into_iter().collect());
        let templates = context.control.informer(&member_scaling::autoscalers());
        templates.cache().add_index(TARGET, |object| of_template(object).into_iter().collect());
        Self { federated, templates }
    }

    /// All FederatedHPAs of the target, if there are several.
    pub fn competing(&self, hpa: &FederatedHPA) -> Vec<String> {
        let names = names(self.federated.cache().by_index(TARGET, &target_key(hpa)));
        if names.len() < 2 { Vec::new() } else { names }
    }

    /// Sets or removes the condition about HorizontalPodAutoscalers that are propagated with the target: in members
    /// they overwrite the decisions of the FederatedHPA. Returns the event about a new one.
    pub fn report(
        &self,
        hpa: &FederatedHPA,
        status: &mut FederatedHPAStatus,
        now: apimachinery::meta::Time,
    ) -> Option<conditions::Notice> {
        let known = status.conditions.iter().find(|it| it.type_ == CONDITION).map(|it| it.message.clone());
        let found = names(self.templates.cache().by_index(TARGET, &target_key(hpa)));
        if found.is_empty() {
            status.conditions.retain(|it| it.type_ != CONDITION);
            return None;
        }
        let CrossVersionObjectReference { kind, name, .. } = &hpa.spec.scale_target_ref;
        let message = format!(
            "{kind} {}/{name} is scaled by this FederatedHPA, and in member clusters by the propagated \
             HorizontalPodAutoscaler {}: delete one of them, or do not propagate the latter",
            hpa.metadata.namespace,
            found.join(", ")
        );
        let condition = Condition { type_: CONDITION, is_true: true, reason: REASON, message: message.clone() };
        conditions::set(status, &[condition], now);
        let is_new = known.as_ref() != Some(&message);
        is_new.then_some(conditions::Notice { is_warning: true, reason: REASON, message })
    }
}

fn names(mut found: Vec<Arc<Object>>) -> Vec<String> {
    found.retain(|object| !object.is_deleting());
    let mut names: Vec<String> = found.iter().map(|object| object.key().to_string()).collect();
    names.sort_unstable();
    names
}

/// The value of the index.
fn target_key(hpa: &FederatedHPA) -> String {
    key_of(&hpa.metadata.namespace, &hpa.spec.scale_target_ref)
}

fn key_of(namespace: &str, target: &CrossVersionObjectReference) -> String {
    let CrossVersionObjectReference { api_version, kind, name } = target;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    format!("{namespace}/{group}/{kind}/{name}")
}

fn of_federated(object: &Object) -> Option<String> {
    FederatedHPA::from_object(object).ok().map(|hpa| target_key(&hpa))
}

/// The target of an autoscaler that a policy propagates.
fn of_template(object: &Object) -> Option<String> {
    if !member_scaling::is_claimed(object) {
        return None;
    }
    let tree = object.to_tree().ok()?;
    let target = serde_json::from_value(tree["spec"]["scaleTargetRef"].clone()).ok()?;
    Some(key_of(object.namespace()?, &target))
}
