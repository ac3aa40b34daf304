//! Policies that take templates from weaker ones (feature gate PropagationPolicyPreemption).

use std::cmp::Reverse;

use apimachinery::{GroupVersionKind, ObjectKey};
use client::MapError;
use controller_runtime::Event;
use karmada_api::constants::events;
use karmada_api::identity::PolicyKey;
use karmada_api::policy::v1alpha1::{PreemptionBehavior, ResourceSelector};
use karmada_api::scope::{Policy, Scope};
use propagation::template::Template;
use propagation::{claim, selection};

use super::Detector;
use super::template::involved;
use crate::absence::certain;
use crate::error::{Error, Result, all, decoded};
use crate::metrics::result;

fn always(policy: &Policy) -> bool {
    policy.spec.preemption == Some(PreemptionBehavior::Always)
}

/// `Propagation policy(ns/name)`; within a sentence without the capital.
fn words(policy: &PolicyKey, first: bool) -> String {
    let words = match (policy.scope(), first) {
        (Scope::Namespaced, true) => "Propagation policy",
        (Scope::Namespaced, false) => "propagation policy",
        (Scope::Cluster, true) => "Cluster propagation policy",
        (Scope::Cluster, false) => "cluster propagation policy",
    };
    format!("{words}({policy})")
}

impl Detector {
    /// Claims the named templates of a policy from policies that it preempts. The consequences are decided when the
    /// changed template is reconciled.
    pub(super) async fn preempt(&self, policy: &Policy) -> Result<()> {
        if !self.context.settings.gates.preemption || !always(policy) {
            return Ok(());
        }
        let mut errors = Vec::new();
        for selector in &policy.spec.resource_selectors {
            errors.extend(self.preempt_one(policy, selector).await.err().map(|error| error.to_string()));
        }
        all(errors)
    }

    async fn preempt_one(&self, policy: &Policy, selector: &ResourceSelector) -> Result<()> {
        let gvk = GroupVersionKind::from_api_version(&selector.api_version, &selector.kind)
            .map_err(|error| Error::Wait(error.to_string()))?;
        let resource = match self.context.mapper.resource(&gvk).await {
            Ok(resource) => resource,
            Err(MapError::NoMatch(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Without a name and a namespace a selector names no single template.
        if selector.name.is_empty() || resource.namespaced == selector.namespace.is_empty() {
            return Ok(());
        }
        let key = ObjectKey::namespaced(selector.namespace.as_str(), selector.name.as_str());
        let Some(object) = certain(&self.context.client, &resource, &key).await? else { return Ok(()) };
        let tree = decoded(&object, object.to_tree())?;
        let template = Template(&tree);
        let Some(held) = claim::claimed_by(template) else { return Ok(()) };
        if template.is_deleting() || held.policy == policy.key() {
            return Ok(());
        }
        let holder = match (policy.scope, held.scope()) {
            // Regardless of its contents.
            (Scope::Namespaced, Scope::Cluster) => Policy::named(&held.policy),
            _ => match self.context.policies.get(&held.policy) {
                Some(holder) => (*holder).clone(),
                None => return Err(Error::Wait(format!("{} does not exist", words(&held.policy, true)))),
            },
        };
        if !selection::preempts(policy, &holder) {
            return Ok(());
        }
        let Some(edits) = claim::claim(policy, template) else { return Ok(()) };
        let recorder = self.context.recorder.for_component("resource-detector");
        let (ours, theirs) = (words(&policy.key(), true), words(&held.policy, false));
        let edited = self.edit(&resource, template, &edits).await;
        self.context.metrics.preemptions.increment(&[result(&edited)]);
        match edited {
            Ok(_) => {
                let message = format!("{ours} preempted {theirs} successfully");
                recorder.normal(involved(template), events::PREEMPT_POLICY_SUCCEED, message);
                Ok(())
            }
            Err(error) => {
                let message = format!("{ours} failed to preempt {theirs}: {error}");
                recorder.warning(involved(template), events::PREEMPT_POLICY_FAILED, message);
                Err(error)
            }
        }
    }

    /// After a claim: a policy of higher priority that was created concurrently may have seen the template unclaimed.
    pub(super) fn wake_preemptors(&self, template: Template<'_>, holder: &Policy) {
        if !self.context.settings.gates.preemption {
            return;
        }
        let mut policies = self.context.policies.of(None);
        if !template.namespace().is_empty() {
            policies.extend(self.context.policies.of(Some(template.namespace())));
        }
        for policy in policies {
            let selects = || selection::strongest(&policy.spec.resource_selectors, template).is_some();
            if always(&policy) && selection::preempts(&policy, holder) && selects() {
                self.policies.add(policy.key());
            }
        }
    }

    /// After a policy lowered its priority, those between the old and the new one may preempt it; the strongest is
    /// first.
    pub(super) fn wake_contenders(&self, event: &Event) {
        let Event::Updated { old, new } = event else { return };
        let (Ok(old), Ok(new)) = (Policy::decode(old), Policy::decode(new)) else { return };
        let (before, now) = (selection::priority(&old), selection::priority(&new));
        if !self.context.settings.gates.preemption || now >= before {
            return;
        }
        let namespace = (new.scope == Scope::Namespaced).then_some(new.metadata.namespace.as_str());
        let mut contenders = self.context.policies.of(namespace);
        contenders.retain(|policy| {
            let priority = selection::priority(policy);
            policy.spec.priority.is_some() && always(policy) && now < priority && priority < before
        });
        contenders.sort_by_key(|policy| Reverse(selection::priority(policy)));
        for policy in contenders {
            self.policies.add(policy.key());
        }
    }
}
