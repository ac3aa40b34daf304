//! MutatingAdmissionPolicies on a request: each changes the object by an ApplyConfiguration or a JSON patch.

use std::sync::Arc;

use apimachinery::managed_fields::{self, ManagerContext, NO_FIELDS, Owners};
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::status::StatusCause;
use apimachinery::{Status, StatusReason, extent, json_patch, merge_patch};
use apiserver::AdmissionRequest;
use serde_json::Value;

use crate::policies::{Binding, Bound, Run, param};
use crate::policy::{Mutation, Policy};
use crate::request::{Documents, Facts, Phase, convert, documents, namespace};
use crate::rights::Rights;
use crate::rounds::Round;

const KEPT: &str = "MutatingAdmissionPolicy";

/// Applies all policies, one after another.
///
/// # Errors
/// The first failure of a policy that fails closed.
pub async fn mutate(policies: &[Bound], request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    if request.object.is_none() {
        return Ok(());
    }
    let served = request.served();
    let facts = Facts::of(request, &served, Phase::Mutation);
    let rights = Arc::<Rights>::default();
    let mut round = Round::begin(request, KEPT);
    for bound in policies {
        let policy = &*bound.policy;
        for binding in &bound.bindings {
            let id = format!("{}/{}", policy.name, binding.name);
            let run = Run { request, served: &served, facts: &facts, rights: Arc::clone(&rights) };
            let changed = match run.mutated(policy, binding, round.calls(&id)).await {
                Ok(Some(changed)) => changed,
                Ok(None) => continue,
                Err(_) if !policy.fails_closed => continue,
                Err(why) => return Err(refusal(&facts, policy, binding, &why)),
            };
            if let Some(changed) = changed {
                request.replace_object(changed)?;
                round.changed();
            }
            if policy.is_reinvoked {
                round.called(&id);
            }
        }
    }
    round.end(request, KEPT);
    Ok(())
}

fn refusal(facts: &Facts, policy: &Policy, binding: &Binding, why: &str) -> Status {
    let message = format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name);
    let mut status = Status::forbidden(&facts.group, &facts.resource, &facts.name, "");
    StatusReason::Invalid.as_str().clone_into(&mut status.reason);
    status.code = StatusReason::Invalid.code();
    status.message.clone_from(&message);
    status.details.get_or_insert_default().causes.push(StatusCause { message, ..StatusCause::default() });
    status
}

impl Run<'_, '_> {
    /// The changed object, if the policy was applied and has changed it; `None` if it does not match.
    async fn mutated(
        &self,
        policy: &Policy,
        binding: &Binding,
        is_called: bool,
    ) -> Result<Option<Option<Value>>, String> {
        let Some(version) = self.version(&policy.criteria)? else { return Ok(None) };
        let kind = self.param_kind(policy)?;
        let params = self.params(binding, kind.as_ref())?;
        if params.is_empty() || !is_called {
            return Ok(None);
        }
        let message = |status: Status| status.message;
        let documents = documents(self.request, self.served, self.facts, version, Phase::Mutation).await;
        let mut documents = documents.map_err(message)?;
        let before = documents.new.clone();
        let is_namespace = self.facts.subject().is_namespace();
        let namespace = if is_namespace { None } else { namespace(self.request, self.facts).map_err(message)? };
        let mut is_applied = false;
        for (number, params) in params.iter().enumerate() {
            let params = param(number, params.as_deref()).await?;
            let (mut matches, request) = (true, self.facts.document(version));
            for (number, mutation) in policy.mutations.iter().enumerate() {
                let inputs = self.inputs(&documents, &request, namespace.as_ref(), params.as_ref());
                // Conditions are about the object before the first mutation.
                if number == 0 {
                    matches = self.decided(|| policy.conditions.hold(&inputs)).await?;
                }
                if !matches {
                    break;
                }
                let patch = self.decided(|| policy.patch(mutation, &inputs)).await?;
                let patched = self.patched(version, mutation, &patch, &documents)?;
                // The next mutation, or the same one for the next parameter, may add as much again.
                extent::check(&patched).map_err(|error| error.to_string())?;
                documents.new = Some(patched);
                is_applied = true;
            }
        }
        let changed = documents.new.filter(|new| Some(new) != before.as_ref());
        let changed = match changed {
            Some(changed) if version != self.facts.version && self.facts.subresource != "scale" => {
                let versions = (version, self.facts.version.as_str());
                Some(convert(self.request, self.served, self.facts, changed, versions).await.map_err(message)?)
            }
            changed => changed,
        };
        Ok(is_applied.then_some(changed))
    }

    fn patched(
        &self,
        version: &str,
        mutation: &Mutation,
        patch: &Value,
        documents: &Documents,
    ) -> Result<Value, String> {
        let mut object = documents.new.clone().unwrap_or_default();
        if let Mutation::Patch(_) = mutation {
            let patch = json_patch::from_value(patch).map_err(|error| error.to_status().message)?;
            patch.apply(&mut object).map_err(|error| error.to_status().message)?;
            return Ok(object);
        }
        let Some(resource) = self.served.get(&self.facts.group, version, &self.facts.resource) else {
            return Err(format!("unknown version {version:?}"));
        };
        if self.facts.subresource == "scale" {
            merge_patch::apply(&mut object, patch);
            return Ok(object);
        }
        let mut configuration = patch.clone();
        for field in ["apiVersion", "kind"] {
            if patch.get(field).is_some_and(|patched_value| patched_value != &object[field]) {
                return Err(format!("invalid ApplyConfiguration: may not change {field}"));
            }
            configuration[field] = object[field].clone();
        }
        let owners = object.metadata_mut().and_then(|metadata| metadata.remove("managedFields"));
        let context = ManagerContext {
            manager: "admission",
            api_version: &resource.info.resource.api_version(),
            subresource: "",
            now: Time::new(self.request.now.timestamp()),
            reset_fields: &NO_FIELDS,
        };
        let live = Some((&object, Owners::default()));
        let merged = managed_fields::merge_apart(live, &configuration, &context, true, &resource.info.schema);
        let (mut merged, _) = merged.map_err(|error| format!("error applying patch: {}", error.to_status().message))?;
        if let Some(owners) = owners {
            merged["metadata"]["managedFields"] = owners;
        }
        Ok(merged)
    }
}
