//! MutatingAdmissionPolicies on a request: each changes the object by an ApplyConfiguration or a JSON patch.

use std::sync::Arc;

use apimachinery::managed_fields::{self, ApplyError, ManagerContext, NO_FIELDS, ONE_VERSION, Owners};
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::patch::PatchError;
use apimachinery::resource::Resource;
use apimachinery::status::StatusCause;
use apimachinery::{Object, Status, StatusReason, json_patch, merge_patch};
use apiserver::AdmissionRequest;
use apiserver::registry::Served;
use serde_json::Value;

use crate::policies::{Binding, Bound, Run};
use crate::policy::{Mutation, Policy};
use crate::request::{Documents, Facts, Phase, convert, documents, shown_name};
use crate::rights::Rights;
use crate::rounds::Round;

const KEPT: &str = "MutatingAdmissionPolicy";

/// Applies all policies, one after another. Which ones match is decided before the first.
///
/// # Errors
/// The failures of policies that fail closed.
pub async fn mutate(policies: &[Bound], request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    if request.object.is_none() {
        return Ok(());
    }
    let served = request.served();
    let facts = Facts::of(request, &served, Phase::Mutation);
    let mut round = Round::begin(request, KEPT);
    let mut failures = Vec::new();
    let frame = Frame { served: &served, facts: &facts, rights: Arc::default() };
    let run = frame.run(request);
    let invocations = run.invocations(policies, &mut failures);
    let namespace = if invocations.is_empty() { None } else { run.namespace()? };
    let mut is_changed = false;
    for invocation in &invocations {
        let namespace = namespace.as_ref();
        is_changed |= frame.apply(invocation, request, namespace, &mut round, &mut failures).await?;
    }
    if is_changed {
        // As upstream, a policy that requests it is also reinvoked after its own change.
        round.changed();
    }
    round.end(request, KEPT);
    failures.retain(|failure| failure.policy.fails_closed);
    if failures.is_empty() { Ok(()) } else { Err(refusal(request, &facts, &failures)) }
}

/// A policy that matches, with one of its parameters.
struct Invocation<'p, 's> {
    policy: &'p Policy,
    binding: &'p Binding,
    version: &'s str,
    kind: Option<&'s Resource>,
    number: usize,
    params: Option<Arc<Object>>,
}

impl Invocation<'_, '_> {
    /// The name of its state between the rounds.
    fn id(&self) -> String {
        let params = self.params.as_ref().map(|params| params.key().to_string()).unwrap_or_default();
        format!("{}/{}/{params}", self.policy.name, self.binding.name)
    }
}

/// Why a policy could not be applied. Without a binding it is the policy's fault.
struct Failure<'p> {
    policy: &'p Policy,
    binding: Option<&'p Binding>,
    why: String,
    /// Upstream gives no reason for a wrong configuration.
    is_invalid: bool,
}

impl<'p> Failure<'p> {
    fn of_configuration(policy: &'p Policy, binding: Option<&'p Binding>, why: &str) -> Self {
        let what = if binding.is_some() { "binding" } else { "policy" };
        Self { policy, binding, why: format!("failed to configure {what}: {why}"), is_invalid: false }
    }

    fn text(&self) -> String {
        let (policy, why) = (&self.policy.name, &self.why);
        match self.binding {
            Some(Binding { name, .. }) => format!("policy '{policy}' with binding '{name}' denied request: {why}"),
            None => format!("policy {policy:?} denied request: {why}"),
        }
    }
}

/// As upstream, the code is 403 whatever the reason is.
fn refusal(request: &AdmissionRequest<'_>, facts: &Facts, failures: &[Failure<'_>]) -> Status {
    let mut status = Status::forbidden(&facts.group, &facts.resource, shown_name(request, facts), "");
    status.message = failures.first().map(Failure::text).unwrap_or_default();
    if failures.first().is_some_and(|failure| failure.is_invalid) {
        StatusReason::Invalid.as_str().clone_into(&mut status.reason);
    }
    let causes = failures.iter().map(|failure| StatusCause { message: failure.text(), ..StatusCause::default() });
    status.details.get_or_insert_default().causes.extend(causes);
    status
}

/// The state of one request that its changes leave alone.
struct Frame<'f> {
    served: &'f Served,
    facts: &'f Facts,
    rights: Arc<Rights>,
}

impl<'f> Frame<'f> {
    fn run<'r, 'q>(&self, request: &'r AdmissionRequest<'q>) -> Run<'r, 'f, 'q> {
        Run { request, served: self.served, facts: self.facts, rights: Arc::clone(&self.rights) }
    }

    /// Applies a policy; whether it has changed the object.
    async fn apply<'p>(
        &self,
        invocation: &Invocation<'p, '_>,
        request: &mut AdmissionRequest<'_>,
        namespace: Option<&Value>,
        round: &mut Round,
        failures: &mut Vec<Failure<'p>>,
    ) -> Result<bool, Status> {
        let Invocation { policy, binding, version, kind, number, .. } = *invocation;
        let params = self.run(request).param(number, invocation.params.as_deref(), kind).await;
        let params = match params {
            Ok(params) => params,
            Err(why) => {
                failures.push(Failure::of_configuration(policy, Some(binding), &why));
                return Ok(false);
            }
        };
        let (attributes, mut is_changed) = (self.facts.document(version), false);
        for (number, mutation) in policy.mutations.iter().enumerate() {
            let run = self.run(request);
            let documents = match documents(request, self.served, self.facts, version, Phase::Mutation).await {
                Ok(documents) => documents,
                Err(status) => {
                    failures.push(Failure::of_configuration(policy, None, &status.message));
                    return Ok(is_changed);
                }
            };
            let inputs = run.inputs(&documents, &attributes, namespace, params.as_ref());
            let failed = |why| Failure { policy, binding: Some(binding), why, is_invalid: true };
            // Conditions are about the object before the first mutation.
            if number == 0 {
                match run.decided(|| policy.conditions.hold(&inputs)).await {
                    Ok(true) if round.calls(&invocation.id()) => {}
                    Ok(_) => return Ok(false),
                    Err(why) => {
                        failures.push(failed(why));
                        return Ok(false);
                    }
                }
            }
            let patch = run.decided(|| policy.patch(mutation, &inputs)).await;
            match patch.and_then(|patch| run.patched(version, mutation, &patch, &documents)) {
                Ok(changed) if Some(&changed) != documents.new.as_ref() => {
                    let changed = self.own(request, changed, version).await?;
                    request.replace_object(changed)?;
                    is_changed = true;
                }
                Ok(_) => {}
                Err(why) => failures.push(failed(why)),
            }
        }
        if is_changed {
            round.changed();
        }
        if policy.is_reinvoked {
            round.called(&invocation.id());
        }
        Ok(is_changed)
    }

    /// A changed object in the version of the request.
    async fn own(&self, request: &AdmissionRequest<'_>, changed: Value, version: &str) -> Result<Value, Status> {
        if version == self.facts.version || self.facts.subresource == "scale" {
            return Ok(changed);
        }
        convert(request, self.served, self.facts, changed, (version, &self.facts.version)).await
    }
}

impl<'s> Run<'_, 's, '_> {
    /// The policies to apply, with their bindings and parameters, in order.
    fn invocations<'p>(&self, policies: &'p [Bound], failures: &mut Vec<Failure<'p>>) -> Vec<Invocation<'p, 's>> {
        let mut found = Vec::new();
        for bound in policies {
            let policy = &*bound.policy;
            let configured = self.version(&policy.criteria).and_then(|version| {
                let Some(version) = version else { return Ok(None) };
                Ok(Some((version, self.param_kind(policy)?)))
            });
            let (version, kind) = match configured {
                Ok(Some(configured)) => configured,
                Ok(None) => continue,
                Err(why) => {
                    failures.push(Failure::of_configuration(policy, None, &why));
                    continue;
                }
            };
            for binding in &bound.bindings {
                match self.params(binding, kind) {
                    Ok(params) => found.extend(params.into_iter().enumerate().map(|(number, params)| Invocation {
                        policy,
                        binding,
                        version,
                        kind,
                        number,
                        params,
                    })),
                    Err(why) => failures.push(Failure::of_configuration(policy, Some(binding), &why)),
                }
            }
        }
        found
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
            return operations(patch, object);
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
            configuration[field] = object[field].clone();
        }
        let owners = object.metadata_mut().and_then(|metadata| metadata.remove("managedFields"));
        let type_ = &resource.info.schema;
        let context = ManagerContext {
            manager: "admission",
            api_version: &resource.info.resource.api_version(),
            subresource: "",
            now: Time::new(self.request.now.timestamp()),
            reset_fields: &NO_FIELDS,
            versions: ONE_VERSION,
        };
        let live = Some((&object, Owners::default()));
        let merged = managed_fields::merge_apart(live, &configuration, &context, true, type_);
        let failed = |why: &dyn std::fmt::Display| format!("error applying patch: {why}");
        let checked = managed_fields::check_policy_configuration(&configuration, type_);
        let (mut merged, _) = match merged {
            Err(ApplyError::Typed { source, .. }) => {
                return Err(failed(&format_args!("failed to convert patch object to typed object: {source}")));
            }
            other => checked.map_err(|why| failed(&why)).and(other.map_err(|why| failed(&why)))?,
        };
        if let Some(owners) = owners {
            merged["metadata"]["managedFields"] = owners;
        }
        Ok(merged)
    }
}

/// The object after a JSON patch. A test that fails leaves it unchanged; as upstream, no value passes a test for null, not
/// even an absent one.
fn operations(patch: &Value, object: Value) -> Result<Value, String> {
    let mut patch = patch.clone();
    for operation in patch.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for field in ["op", "path"] {
            operation.entry(field).or_insert_with(|| "".into());
        }
        if operation.get("from").is_some_and(|from| from == "") {
            operation.remove("from");
        }
    }
    let fails = |operation: &Value| operation["op"] == "test" && operation.get("value") == Some(&Value::Null);
    let failing = patch.as_array().and_then(|operations| operations.iter().position(fails));
    if let (Some(failing), Some(operations)) = (failing, patch.as_array_mut()) {
        operations.truncate(failing);
    }
    let mut changed = object.clone();
    match json_patch::from_value(&patch).and_then(|patch| patch.apply(&mut changed)) {
        Ok(()) if failing.is_some() => Ok(object),
        Ok(()) => Ok(changed),
        Err(PatchError::TestFailed(_)) => Ok(object),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}
