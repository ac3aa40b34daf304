//! Mutating and validating webhooks: their selection and order, and the effects of their responses.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apiserver::AdmissionRequest;
use apiserver::admit::durations;
use apiserver::registry::Served;
use client::webhooks::{ClientConfig, Webhooks};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use world::World;

use crate::call::Line;
use crate::counted::Counted;
use crate::expressions::{Conditions, Inputs};
use crate::matching::{Criteria, operation_name};
use crate::request::{Documents, Facts, Phase, convert, documents, is_in_selected_namespace};
use crate::review::{self, Unpatched, Verdict, Version};
use crate::rights::Rights;
use crate::rounds::Round;

/// `timeoutSeconds` of a webhook without it.
const DEFAULT_TIMEOUT: u64 = 10;
const MAX_TIMEOUT: u64 = 30;
/// The key of the first round's state.
const KEPT: &str = "MutatingAdmissionWebhook";

/// A webhook of a configuration.
#[derive(Debug)]
pub struct Webhook {
    name: String,
    configuration: String,
    /// Configuration, webhook and its place in the configuration.
    id: String,
    pub criteria: Criteria,
    conditions: Conditions,
    config: ClientConfig,
    fails_closed: bool,
    has_side_effects: bool,
    timeout: Duration,
    version: Option<Version>,
    is_reinvoked: bool,
}

impl Webhook {
    /// The webhooks of a configuration, in their order.
    pub fn all_of(configuration: &Value) -> Vec<Self> {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten().enumerate();
        webhooks.map(|(place, webhook)| Self::of(name, place, webhook)).collect()
    }

    fn of(configuration: &str, place: usize, webhook: &Value) -> Self {
        let name = webhook["name"].as_str().unwrap_or_default().to_owned();
        let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
        Self {
            id: format!("{configuration}/{name}/{place}"),
            configuration: configuration.to_owned(),
            criteria: Criteria::of_webhook(webhook),
            conditions: Conditions::of(webhook, false),
            config: ClientConfig::of(&webhook["clientConfig"]),
            fails_closed: webhook["failurePolicy"] != "Ignore",
            has_side_effects: !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            timeout: Duration::from_secs(seconds),
            version: Version::first_of(&webhook["admissionReviewVersions"]),
            is_reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            name,
        }
    }

    /// The attributes of the span of a call, with kube-apiserver's names.
    fn attributes(&self, facts: &Facts, uid: &str) -> Vec<trace::Attribute> {
        let configuration = self.configuration.clone();
        let resource = format!("{}/{}, Resource={}", facts.group, facts.version, facts.resource);
        vec![
            ("configuration", configuration.into()),
            ("webhook", self.name.clone().into()),
            ("resource", resource.into()),
            ("subresource", facts.subresource.clone().into()),
            ("operation", operation_name(facts.operation).into()),
            ("UID", uid.to_owned().into()),
        ]
    }
}

/// Audit annotations, with kube-apiserver's keys.
const MUTATED: &str = "mutation.webhook.admission.k8s.io/";
const PATCHED: &str = "patch.webhook.admission.k8s.io/";
const VALIDATED: &str = "validating.webhook.admission.k8s.io/";

/// The value of an audit annotation about a mutating webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
}

impl Mutation<'_> {
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Why a webhook did not allow a request.
enum Failure {
    /// It could not be called, or its response was invalid: its failure policy decides.
    Call(String),
    /// It refused, or its patch does not apply: the request fails.
    Refused(Status),
}

/// The input of calls in addition to the request.
pub struct Caller<'a> {
    pub webhooks: &'a Webhooks,
    pub world: &'a World,
    pub counted: &'a Counted,
    pub served: Arc<Served>,
}

impl Caller<'_> {
    /// Calls the mutating webhooks one after another.
    ///
    /// # Errors
    /// The refusal of the request.
    pub async fn mutate(&self, webhooks: &[Arc<[Webhook]>], request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let facts = Facts::of(request, &self.served, Phase::Mutation);
        let mut round = Round::begin(request, KEPT);
        let number = u8::from(request.rounds.is_second);
        for (index, webhook) in webhooks.iter().flat_map(|webhooks| webhooks.iter()).enumerate() {
            let Some((version, documents)) = self.matched(webhook, request, &facts, Phase::Mutation).await? else {
                continue;
            };
            if !round.calls(&webhook.id) {
                continue;
            }
            let begun = Instant::now();
            let outcome = self.call(webhook, request, &facts, (version, &documents), Phase::Mutation).await;
            request.waited(durations::Phase::Admit, begun.elapsed());
            let place = format!("{MUTATED}round_{number}_index_{index}");
            let outcome = patched(webhook, request, outcome, &documents, &place);
            if let Some(changed) = self.settled(webhook, request, (&facts, Phase::Mutation), &place, outcome)? {
                let changed = match version == facts.version || facts.subresource == "scale" {
                    true => changed,
                    false => convert(request, &self.served, &facts, changed, (version, &facts.version)).await?,
                };
                request.replace_object(changed)?;
                round.changed();
            }
            if webhook.is_reinvoked {
                round.called(&webhook.id);
            }
        }
        round.end(request, KEPT);
        Ok(())
    }

    /// Calls the validating webhooks at once. All must allow the request.
    ///
    /// # Errors
    /// The refusal of the first webhook, in their order, that refuses.
    pub async fn validate(&self, webhooks: &[Arc<[Webhook]>], request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let facts = Facts::of(request, &self.served, Phase::Validation);
        let mut matched = Vec::new();
        for webhook in webhooks.iter().flat_map(|webhooks| webhooks.iter()) {
            if let Some((version, documents)) = self.matched(webhook, request, &facts, Phase::Validation).await? {
                matched.push((webhook, version, documents));
            }
        }
        let calls = matched.iter().map(|(webhook, version, documents)| {
            self.call(webhook, request, &facts, (version, documents), Phase::Validation)
        });
        let begun = Instant::now();
        let outcomes = futures::future::join_all(calls).await;
        if !matched.is_empty() {
            request.waited(durations::Phase::Validate, begun.elapsed());
        }
        for (index, ((webhook, ..), outcome)) in matched.iter().zip(outcomes).enumerate() {
            let place = format!("{VALIDATED}round_0_index_{index}");
            self.settled(webhook, request, (&facts, Phase::Validation), &place, outcome.map(|_| None))?;
        }
        Ok(())
    }

    /// The version and the objects for a webhook, if it is to be called.
    async fn matched<'f>(
        &self,
        webhook: &Webhook,
        request: &AdmissionRequest<'_>,
        facts: &'f Facts,
        phase: Phase,
    ) -> Result<Option<(&'f str, Documents)>, Status> {
        let Some(version) = facts.version_for(&webhook.criteria) else { return Ok(None) };
        // Errors of selectors count only if the rules match.
        if !is_in_selected_namespace(request, facts, &webhook.criteria)? {
            return Ok(None);
        }
        let objects = [request.object.as_deref(), request.old];
        if !webhook.criteria.selects_object(objects).map_err(Status::internal)? {
            return Ok(None);
        }
        let documents = documents(request, &self.served, facts, version, phase).await?;
        if webhook.conditions.is_empty() {
            return Ok(Some((version, documents)));
        }
        let (document, authorizer, rights) = (facts.document(version), request.authorizer(), Arc::<Rights>::default());
        let holds = rights.evaluated(&*authorizer, || {
            webhook.conditions.hold(&Inputs {
                documents: &documents,
                request: &document,
                namespace: None,
                params: None,
                authorizer: Arc::clone(&authorizer),
                rights: Arc::clone(&rights),
                user: request.user,
                facts,
            })
        });
        match holds.await {
            Ok(true) => Ok(Some((version, documents))),
            Ok(false) => Ok(None),
            Err(why) if webhook.fails_closed => {
                Err(Status::forbidden(&facts.group, &facts.resource, &facts.name, &why))
            }
            Err(_) => Ok(None),
        }
    }

    async fn call(
        &self,
        webhook: &Webhook,
        request: &AdmissionRequest<'_>,
        facts: &Facts,
        (version, documents): (&str, &Documents),
        phase: Phase,
    ) -> Result<Verdict, Failure> {
        if facts.dry_run && webhook.has_side_effects {
            let why = format!("admission webhook {:?} does not support dry run", webhook.name);
            return Err(Failure::Refused(Status::bad_request(why)));
        }
        let no_version =
            || Failure::Call("webhook does not accept known AdmissionReview versions (v1, v1beta1)".into());
        let (form, uid) = (webhook.version.ok_or_else(no_version)?, self.world.uuid());
        let line = Line::open(request, self.webhooks, &webhook.config).map_err(Failure::Call)?;
        let body = review::encode(form, &uid, &facts.document(version), documents);
        let body = body.map_err(|why| Failure::Call(format!("could not create admission objects: {why}")))?;
        let timed = self.counted.begin(&webhook.name, phase, facts);
        let name = match phase {
            Phase::Mutation => "Call mutating webhook",
            Phase::Validation => "Call validating webhook",
        };
        let attributes = || webhook.attributes(facts, &uid);
        let answer = trace::step(name, attributes, line.call(body, webhook.timeout)).await;
        let verdict = answer.and_then(|body| review::decode(&body, form, &uid, phase, &webhook.name));
        timed.end(verdict.as_ref().map(|verdict| verdict.refusal.as_ref().map_or(200, |refusal| refusal.code)).ok());
        let verdict = verdict.map_err(Failure::Call)?;
        for (key, value) in &verdict.annotations {
            request.annotate(key, value);
        }
        for warning in &verdict.warnings {
            request.warn(warning);
        }
        match verdict.refusal {
            Some(refusal) => Err(Failure::Refused(refusal)),
            None => Ok(verdict),
        }
    }

    /// Applies the failure policy, and returns the changed object, if there is one.
    fn settled(
        &self,
        webhook: &Webhook,
        request: &AdmissionRequest<'_>,
        (facts, phase): (&Facts, Phase),
        place: &str,
        outcome: Result<Option<Value>, Failure>,
    ) -> Result<Option<Value>, Status> {
        match outcome {
            Ok(changed) => Ok(changed),
            Err(Failure::Refused(status)) => {
                self.counted.rejected(&webhook.name, phase, facts, ("no_error", status.code));
                Err(status)
            }
            Err(Failure::Call(why)) if webhook.fails_closed => {
                self.counted.rejected(&webhook.name, phase, facts, ("calling_webhook_error", 0));
                Err(Status::internal(format!("failed calling webhook {:?}: {why}", webhook.name)))
            }
            Err(Failure::Call(why)) => {
                tracing::warn!(webhook = webhook.name, object = %request.key, why, "Failed to call a webhook; its failurePolicy is Ignore");
                self.counted.failed_open(&webhook.name, phase);
                request.annotate(format!("failed-open.{place}"), webhook.name.as_str());
                Ok(None)
            }
        }
    }
}

/// The changed object, if a webhook has changed it. `place` is the key of the audit annotation about it.
fn patched(
    webhook: &Webhook,
    request: &AdmissionRequest<'_>,
    outcome: Result<Verdict, Failure>,
    documents: &Documents,
    place: &str,
) -> Result<Option<Value>, Failure> {
    let (configuration, name) = (webhook.configuration.as_str(), webhook.name.as_str());
    let object = documents.new.as_ref();
    let outcome = outcome.and_then(|verdict| match review::patched(name, object, &verdict.patch) {
        Ok(Some(patched)) => {
            let patch = serde_json::from_slice(&verdict.patch).ok();
            let patch = Mutation { configuration, webhook: name, mutated: None, patch, patch_type: Some("JSONPatch") };
            request.annotate_with_body(place.replace(MUTATED, PATCHED), patch.text());
            Ok(Some(patched).filter(|patched| Some(patched) != object))
        }
        Ok(None) => Ok(None),
        Err(Unpatched::Undecodable(why)) => Err(Failure::Call(why)),
        Err(Unpatched::Inapplicable(status)) => Err(Failure::Refused(status)),
    });
    let mutated = Some(matches!(outcome, Ok(Some(_))));
    let mutation = Mutation { configuration, webhook: name, mutated, patch: None, patch_type: None };
    request.annotate(place, mutation.text());
    outcome
}
