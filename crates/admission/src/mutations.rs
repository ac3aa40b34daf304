//! MutatingAdmissionPolicies on a request: each changes the object by an ApplyConfiguration or a JSON patch.

use apimachinery::managed_fields::{self, ManagerContext, NO_FIELDS, Owners};
use apimachinery::meta::Time;
use apimachinery::status::StatusCause;
use apimachinery::{Status, StatusReason, json_patch, merge_patch};
use apiserver::AdmissionRequest;
use base64::Engine as _;
use cel::Value as CelValue;
use cel::value::Key;
use serde_json::{Map, Value, json};

use crate::expressions::Inputs;
use crate::policies::{Binding, Bound, Run};
use crate::policy::{Mutation, Policy};
use crate::request::{Documents, Facts, Phase, converted, documents, namespace};
use crate::rounds::Round;

const KEPT: &str = "MutatingAdmissionPolicy";
/// Levels of a computed document: more than any object may have.
const MAX_DEPTH: usize = 200;

/// Applies all policies, one after another.
///
/// # Errors
/// The first failure of a policy that fails closed.
pub fn mutate(policies: &[Bound], request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    if policies.is_empty() || request.object.is_none() {
        return Ok(());
    }
    let served = request.served();
    let facts = Facts::of(request, &served, Phase::Mutation);
    let mut round = Round::begin(request, KEPT);
    for bound in policies {
        let policy = &*bound.policy;
        for binding in &bound.bindings {
            let id = format!("{}/{}", policy.name, binding.name);
            let run = Run { request, served: &served, facts: &facts };
            let changed = match run.mutated(policy, binding, |id| round.calls(id), &id) {
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
    fn mutated(
        &self,
        policy: &Policy,
        binding: &Binding,
        is_called: impl Fn(&str) -> bool,
        id: &str,
    ) -> Result<Option<Option<Value>>, String> {
        let Some(version) = self.version(&policy.criteria)? else { return Ok(None) };
        let kind = self.param_kind(policy)?;
        let params = self.params(binding, kind.as_ref())?;
        if params.is_empty() || !is_called(id) {
            return Ok(None);
        }
        let message = |status: Status| status.message;
        let mut documents =
            documents(self.request, self.served, self.facts, version, Phase::Mutation).map_err(message)?;
        let before = documents.new.clone();
        let is_namespace = self.facts.subject().is_namespace();
        let namespace = if is_namespace { None } else { namespace(self.request, self.facts).map_err(message)? };
        let mut is_applied = false;
        for params in &params {
            let (mut matches, request) = (true, self.facts.document(version));
            for (number, mutation) in policy.mutations.iter().enumerate() {
                let inputs = Inputs {
                    documents: &documents,
                    request: &request,
                    namespace: namespace.as_ref(),
                    params: params.as_ref(),
                    authorizer: self.request.authorizer(),
                    user: self.request.user,
                    facts: self.facts,
                };
                // Conditions are about the object before the first mutation.
                matches = if number == 0 { policy.conditions.hold(&inputs)? } else { matches };
                if !matches {
                    break;
                }
                let patch = policy.patch(mutation, &inputs)?;
                documents.new = Some(self.patched(version, mutation, &patch, &documents)?);
                is_applied = true;
            }
        }
        let changed = documents.new.filter(|new| Some(new) != before.as_ref());
        let changed = changed.map(|changed| match version == self.facts.version || self.facts.subresource == "scale" {
            true => Ok(changed),
            false => converted(self.served, self.facts, &changed, (version, &self.facts.version)).map_err(message),
        });
        Ok(is_applied.then_some(changed.transpose()?))
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
            if patch.get(field).is_some_and(|given| given != &object[field]) {
                return Err(format!("invalid ApplyConfiguration: may not change {field}"));
            }
            configuration[field] = object[field].clone();
        }
        let owners = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
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

/// A computed value as a document.
///
/// # Errors
/// If the value has no form in JSON.
pub fn to_json(value: &CelValue<'_>) -> Result<Value, String> {
    below(value, MAX_DEPTH)
}

fn below(value: &CelValue<'_>, depth: usize) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("the computed document is too deep")?;
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(flag) => json!(flag),
        CelValue::Int(number) => json!(number),
        CelValue::Uint(number) => json!(number),
        CelValue::Double(number) => json!(number),
        CelValue::String(text) => Value::from(&**text),
        CelValue::Bytes(data) => Value::from(base64::prelude::BASE64_STANDARD.encode(data)),
        CelValue::Timestamp(time) => Value::from(time.to_string()),
        CelValue::Object(object) => Value::Object(object.fields.clone()),
        CelValue::Optional(Some(inner)) => below(inner, depth)?,
        CelValue::List(list) => {
            let item = |item: Result<CelValue<'_>, cel::EvalError>| below(&item.map_err(|why| why.to_string())?, depth);
            Value::Array(list.iter().map(item).collect::<Result<_, _>>()?)
        }
        CelValue::Map(map) => {
            let mut fields = Map::new();
            for key in map.keys() {
                let Key::String(name) = &key else { return Err("keys of an object must be strings".to_owned()) };
                let value = map.get(&key).map_err(|why| why.to_string())?.unwrap_or(CelValue::Null);
                fields.insert(name.to_string(), below(&value, depth)?);
            }
            Value::Object(fields)
        }
        other => return Err(format!("a value of type {} cannot be part of an object", other.type_name())),
    })
}
