//! ValidatingAdmissionPolicies on a request: the matching bindings, their parameters, and the effects of their actions.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::resource::Resource;
use apimachinery::selector::Selector;
use apimachinery::status::StatusCause;
use apimachinery::{Object, ObjectKey, Status};
use apiserver::AdmissionRequest;
use apiserver::limits::fairness::give_way;
use apiserver::registry::Served;
use serde::Serialize;
use serde_json::Value;

use crate::expressions::Inputs;
use crate::matching::Criteria;
use crate::policy::{Denial, Outcome, Policy};
use crate::request::{Documents, Facts, Phase, documents, is_in_selected_namespace, namespace, shown_name};
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

/// A violation that a binding audits, in kube-apiserver's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Audited<'p> {
    message: String,
    policy: &'p str,
    binding: &'p str,
    expression_index: usize,
    validation_actions: &'p Value,
}

/// The combined decision of all policies.
#[derive(Default)]
struct Verdicts<'p> {
    denied: Vec<Denied<'p>>,
    audited: Vec<Audited<'p>>,
    /// The audit annotations of the current policy: each key with its different values.
    annotations: BTreeMap<String, Vec<String>>,
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
                let (message, validation_actions) = (message.clone(), &binding.actions);
                let (binding, expression_index) = (name, number);
                self.audited.push(Audited { message, policy, binding, expression_index, validation_actions });
            }
            self.denied.extend(binding.denies.then(|| denied(denial)));
        }
        self.denied.extend(outcome.failed_annotations.into_iter().map(denied));
        for (key, value) in outcome.annotations {
            let values = self.annotations.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }

    /// Records the audit annotations of a policy, which bindings and parameters may give different values.
    fn annotate(&mut self, request: &AdmissionRequest<'_>) {
        for (key, values) in std::mem::take(&mut self.annotations) {
            request.annotate(key, values.join(", "));
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
        verdicts.annotate(request);
    }
    if !verdicts.audited.is_empty() {
        request.annotate(FAILURES, serde_json::to_string(&verdicts.audited).map_err(Status::internal)?);
    }
    verdicts.denied.first().map_or(Ok(()), |denied| Err(refusal(request, &facts, denied)))
}

/// A request on which policies are evaluated.
pub struct Run<'r, 's, 'q> {
    pub request: &'r AdmissionRequest<'q>,
    pub served: &'s Served,
    pub facts: &'s Facts,
    pub rights: Arc<Rights>,
}

impl<'s> Run<'_, 's, '_> {
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
        let mut converted = None;
        let request = self.facts.document(version);
        for binding in &bound.bindings {
            let params = match self.params(binding, kind) {
                Ok(params) if params.is_empty() => continue,
                Ok(params) => params,
                Err(why) => {
                    verdicts.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            let (documents, namespace) = match &converted {
                Some(converted) => converted,
                None => match documents(self.request, self.served, self.facts, version, Phase::Validation).await {
                    Ok(documents) => &*converted.insert((documents, self.namespace()?)),
                    Err(status) => {
                        let why = format!("failed to convert object version: {}", status.message);
                        verdicts.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                },
            };
            for (number, params) in params.iter().enumerate() {
                let params = match self.param(number, params.as_deref(), kind).await {
                    Ok(params) => params,
                    Err(why) => {
                        verdicts.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                };
                let inputs = self.inputs(documents, &request, namespace.as_ref(), params.as_ref());
                let outcome = self.decided(|| policy.evaluate(&inputs)).await;
                verdicts.act(policy, binding, outcome, self.request);
            }
        }
        Ok(())
    }

    /// `namespaceObject`; a Namespace has none.
    ///
    /// # Errors
    /// If the namespace is not known.
    pub fn namespace(&self) -> Result<Option<Value>, Status> {
        if self.facts.subject().is_namespace() { Ok(None) } else { namespace(self.request, self.facts) }
    }

    /// The document of a parameter in the version of its policy. Users may create as many as they like: the documents
    /// of one after another are in memory, and others are served between them.
    pub async fn param(
        &self,
        number: usize,
        params: Option<&Object>,
        kind: Option<&Resource>,
    ) -> Result<Option<Value>, String> {
        if number > 0 {
            give_way().await;
        }
        let (Some(params), Some(kind)) = (params, kind) else { return Ok(None) };
        let document = params.to_value().map_err(|error| error.to_string())?;
        let stored = document["apiVersion"].as_str().unwrap_or_default();
        let (_, version) = stored.split_once('/').unwrap_or(("", stored));
        let named = &kind.info.resource;
        match self.served.get(&named.group, version, &named.plural) {
            Some(stored) if version != named.version => {
                let converted = self.request.converted((stored, kind), document).await;
                converted.map(Some).map_err(|status| status.message)
            }
            _ => Ok(Some(document)),
        }
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
    pub fn version(&self, criteria: &Criteria) -> Result<Option<&'s str>, String> {
        let Some(version) = self.facts.version_for(criteria) else { return Ok(None) };
        let objects = [self.request.object.as_deref(), self.request.old];
        let matches = is_in_selected_namespace(self.request, self.facts, criteria).map_err(|status| status.message)?
            && criteria.selects_object(objects)?;
        Ok(matches.then_some(version))
    }

    /// The resource of the parameters of a policy.
    pub fn param_kind(&self, policy: &Policy) -> Result<Option<&'s Resource>, String> {
        let Some((api_version, kind)) = &policy.params else { return Ok(None) };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.served.iter().find(|resource| {
            let named = &resource.info.resource;
            (named.group.as_str(), named.version.as_str(), &named.kind) == (group, version, kind)
        });
        let missing = || format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'");
        found.map(Some).ok_or_else(missing)
    }

    /// The parameters of a binding; empty if it does not match, or permits that there are none.
    pub fn params(&self, binding: &Binding, kind: Option<&Resource>) -> Result<Vec<Option<Arc<Object>>>, String> {
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

    fn referenced(&self, reference: &ParamRef, kind: &Resource) -> Result<Vec<Arc<Object>>, String> {
        let kind = &kind.info.resource;
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

/// The refusal of a request: Forbidden's text with the code and reason of the violation.
fn refusal(request: &AdmissionRequest<'_>, facts: &Facts, denied: &Denied<'_>) -> Status {
    let Denied { policy, binding, denial } = denied;
    let binding = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{binding} denied request: {}", denial.message);
    let mut status = Status::forbidden(&facts.group, &facts.resource, shown_name(request, facts), &message);
    denial.reason.as_str().clone_into(&mut status.reason);
    status.code = denial.reason.code();
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause { message, ..StatusCause::default() });
    status
}
