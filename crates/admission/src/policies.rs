//! ValidatingAdmissionPolicies on a request: the matching bindings, their parameters, and the effects of their actions.

use std::sync::Arc;

use apimachinery::selector::Selector;
use apimachinery::status::StatusCause;
use apimachinery::{Object, ObjectKey, Status};
use apiserver::AdmissionRequest;
use apiserver::limits::fairness::give_way;
use apiserver::registry::Served;
use serde_json::{Value, json};

use crate::expressions::Inputs;
use crate::matching::Criteria;
use crate::policy::{Denial, Outcome, Policy};
use crate::request::{Documents, Facts, Phase, documents, is_in_selected_namespace, namespace};
use crate::rights::Rights;

const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A policy and its bindings.
#[derive(Debug)]
pub struct Bound {
    pub policy: Arc<Policy>,
    pub bindings: Vec<Arc<Binding>>,
}

/// The binding of a validating or a mutating policy.
#[derive(Debug)]
pub struct Binding {
    pub name: String,
    pub policy: String,
    params: Option<ParamRef>,
    criteria: Option<Criteria>,
    denies: bool,
    warns: bool,
    audits: bool,
    actions: Value,
}

#[derive(Debug)]
struct ParamRef {
    name: Option<String>,
    namespace: Option<String>,
    selector: Result<Selector, String>,
    denies_missing: bool,
}

impl Binding {
    pub fn of(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let has =
            |action: &str| spec["validationActions"].as_array().is_some_and(|list| list.iter().any(|it| it == action));
        let reference = |reference_value: &Value| ParamRef {
            name: text(&reference_value["name"]),
            namespace: text(&reference_value["namespace"]),
            selector: crate::matching::selector(&reference_value["selector"]),
            denies_missing: reference_value["parameterNotFoundAction"] == "Deny",
        };
        Self {
            name: text(&binding["metadata"]["name"]).unwrap_or_default(),
            policy: text(&spec["policyName"]).unwrap_or_default(),
            params: spec["paramRef"].is_object().then(|| reference(&spec["paramRef"])),
            criteria: spec["matchResources"].is_object().then(|| Criteria::of_policy(&spec["matchResources"])),
            denies: has("Deny"),
            warns: has("Warn"),
            audits: has("Audit"),
            actions: spec["validationActions"].clone(),
        }
    }
}

/// A denied request: the policy, the binding if one was evaluated, and the violation.
struct Denied<'p> {
    policy: &'p str,
    binding: Option<&'p str>,
    denial: Denial,
}

/// The combined decision of all policies.
#[derive(Default)]
struct Verdicts<'p> {
    denied: Vec<Denied<'p>>,
    audited: Vec<Value>,
}

impl<'p> Verdicts<'p> {
    /// The policy or its binding cannot be evaluated.
    fn misconfigured(&mut self, policy: &'p Policy, binding: Option<&'p Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let denial = Denial::new(format!("failed to configure {what}: {why}"));
        let binding = binding.map(|binding| binding.name.as_str());
        self.denied.extend(policy.fails_closed.then_some(Denied { policy: &policy.name, binding, denial }));
    }

    /// Carries out the actions of a binding.
    fn act(&mut self, policy: &'p Policy, binding: &'p Binding, outcome: Outcome, request: &AdmissionRequest<'_>) {
        let (policy, name) = (policy.name.as_str(), binding.name.as_str());
        let denied = |denial: Denial| Denied { policy, binding: Some(name), denial };
        for denial in outcome.denials {
            let (message, number) = (&denial.message, denial.validation);
            if binding.warns {
                request.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {message}"
                ));
            }
            if binding.audits {
                self.audited
                    .push(json!({"message": message, "policy": policy, "binding": name, "expressionIndex": number,
                                         "validationActions": binding.actions}));
            }
            self.denied.extend(binding.denies.then(|| denied(denial)));
        }
        self.denied.extend(outcome.failed_annotations.into_iter().map(denied));
        for (key, value) in outcome.annotations {
            request.annotate(key, value);
        }
    }
}

/// Evaluates all policies.
///
/// # Errors
/// The first violation that a binding denies.
pub async fn validate(policies: &[Bound], request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let served = request.served();
    let facts = Facts::of(request, &served, Phase::Validation);
    let run = Run { request, served: &served, facts: &facts, rights: Arc::default() };
    let mut verdicts = Verdicts::default();
    for bound in policies {
        run.evaluate(bound, &mut verdicts).await?;
    }
    if !verdicts.audited.is_empty() {
        request.annotate(FAILURES, Value::Array(verdicts.audited).to_string());
    }
    verdicts.denied.first().map_or(Ok(()), |denied| Err(refusal(&facts, denied)))
}

/// A request on which policies are evaluated.
pub struct Run<'r, 'q> {
    pub request: &'r AdmissionRequest<'q>,
    pub served: &'r Served,
    pub facts: &'r Facts,
    pub rights: Arc<Rights>,
}

/// The resource of parameters.
pub struct ParamKind {
    group: String,
    plural: String,
    namespaced: bool,
}

impl Run<'_, '_> {
    async fn evaluate<'p>(&self, bound: &'p Bound, verdicts: &mut Verdicts<'p>) -> Result<(), Status> {
        let policy = &*bound.policy;
        let version = match self.version(&policy.criteria) {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(()),
            Err(why) => {
                verdicts.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let kind = match self.param_kind(policy) {
            Ok(kind) => kind,
            Err(why) => {
                verdicts.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let documents = documents(self.request, self.served, self.facts, version, Phase::Validation).await?;
        let is_namespace = self.facts.subject().is_namespace();
        let namespace = if is_namespace { None } else { namespace(self.request, self.facts)? };
        let request = self.facts.document(version);
        for binding in &bound.bindings {
            let params = match self.params(binding, kind.as_ref()) {
                Ok(params) => params,
                Err(why) => {
                    verdicts.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            for (number, params) in params.iter().enumerate() {
                let params = match param(number, params.as_deref()).await {
                    Ok(params) => params,
                    Err(why) => {
                        verdicts.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                };
                let inputs = self.inputs(&documents, &request, namespace.as_ref(), params.as_ref());
                let outcome = self.decided(|| policy.evaluate(&inputs)).await;
                verdicts.act(policy, binding, outcome, self.request);
            }
        }
        Ok(())
    }

    /// The variables of expressions, of which `request` is the form in the version that the policy matches.
    pub fn inputs<'a>(
        &'a self,
        documents: &'a Documents,
        request: &'a Value,
        namespace: Option<&'a Value>,
        params: Option<&'a Value>,
    ) -> Inputs<'a> {
        let (authorizer, rights) = (self.request.authorizer(), Arc::clone(&self.rights));
        let user = self.request.user;
        Inputs { documents, request, namespace, params, authorizer, rights, user, facts: self.facts }
    }

    /// The result of an evaluation, once the rights that it checks are decided.
    pub async fn decided<T>(&self, evaluate: impl Fn() -> T) -> T {
        self.rights.evaluated(&*self.request.authorizer(), evaluate).await
    }

    /// The version that rules and selectors match, if they do.
    pub fn version<'s>(&'s self, criteria: &Criteria) -> Result<Option<&'s str>, String> {
        let Some(version) = self.facts.version_for(criteria) else { return Ok(None) };
        let objects = [self.request.object.as_deref(), self.request.old];
        let matches = is_in_selected_namespace(self.request, self.facts, criteria).map_err(|status| status.message)?
            && criteria.selects_object(objects)?;
        Ok(matches.then_some(version))
    }

    pub fn param_kind(&self, policy: &Policy) -> Result<Option<ParamKind>, String> {
        let Some((api_version, kind)) = &policy.params else { return Ok(None) };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self
            .served
            .iter()
            .map(|resource| &resource.info.resource)
            .find(|named| (named.group.as_str(), named.version.as_str(), &named.kind) == (group, version, kind));
        let found = found.ok_or_else(|| {
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        })?;
        let (group, plural) = (found.group.clone(), found.plural.clone());
        Ok(Some(ParamKind { group, plural, namespaced: found.namespaced }))
    }

    /// The parameters of a binding; empty if it does not match, or permits that there are none.
    pub fn params(&self, binding: &Binding, kind: Option<&ParamKind>) -> Result<Vec<Option<Arc<Object>>>, String> {
        if let Some(criteria) = &binding.criteria
            && self.version(criteria)?.is_none()
        {
            return Ok(Vec::new());
        }
        let (Some(kind), Some(reference)) = (kind, &binding.params) else { return Ok(vec![None]) };
        let found = self.referenced(reference, kind)?;
        if found.is_empty() && reference.denies_missing {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found.into_iter().map(Some).collect())
    }

    fn referenced(&self, reference: &ParamRef, kind: &ParamKind) -> Result<Vec<Arc<Object>>, String> {
        let namespace = match (&reference.namespace, kind.namespaced) {
            (Some(_), false) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
            (None, false) => None,
            (Some(namespace), true) => Some(namespace.as_str()),
            (None, true) if self.facts.namespace.is_empty() => {
                let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            (None, true) => Some(self.facts.namespace.as_str()),
        };
        let failed = |status: Status| status.message;
        let objects = match &reference.name {
            Some(name) => {
                let key = ObjectKey::namespaced(namespace.unwrap_or_default(), name);
                self.request.stored(&kind.group, &kind.plural, &key).map_err(failed)?.into_iter().collect()
            }
            None => {
                let selector = reference.selector.as_ref().map_err(String::clone)?;
                let mut all = self.request.others(&kind.group, &kind.plural, namespace).map_err(failed)?;
                all.retain(|object| selector.matches_with(|key| object.label(key)));
                all
            }
        };
        Ok(objects)
    }
}

/// The document of a parameter. Users may create as many as they like: the documents of one after another are in memory,
/// and others are served between them.
pub async fn param(number: usize, params: Option<&Object>) -> Result<Option<Value>, String> {
    if number > 0 {
        give_way().await;
    }
    params.map(Object::to_value).transpose().map_err(|error| error.to_string())
}

/// The refusal of a request: Forbidden's text with the code and reason of the violation.
fn refusal(facts: &Facts, denied: &Denied<'_>) -> Status {
    let Denied { policy, binding, denial } = denied;
    let binding = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{binding} denied request: {}", denial.message);
    let mut status = Status::forbidden(&facts.group, &facts.resource, &facts.name, &message);
    denial.reason.as_str().clone_into(&mut status.reason);
    status.code = denial.reason.code();
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause { message, ..StatusCause::default() });
    status
}
