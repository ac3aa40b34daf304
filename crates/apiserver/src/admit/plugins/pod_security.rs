//! The Pod Security Standards: namespaces name the required level in their labels.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::admission::pod_security::{
    self, Count, Existing, NamespaceOutcome, Outcome, PREFIX, Policy, Subject,
};
use metrics::{Counters, Registry};
use serde_json::Value;
use tokio::time::Instant;

use super::PodSecurityConfiguration;
use super::table::Table;
use crate::admit::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;
use crate::metrics::pod_security::{ERRORS, EVALUATIONS, EXEMPTIONS};

/// Pods of a namespace that a request with stricter labels evaluates, and for how long: upstream's bounds.
const MAX_PODS: usize = 3000;
const MAX_DURATION: Duration = Duration::from_secs(1);
/// Pods between two pauses for other requests, some 20 microseconds each.
const BATCH: usize = 100;

pub(super) struct PodSecurity {
    namespaces: Table,
    configuration: PodSecurityConfiguration,
    counted: OnceLock<Counted>,
}

struct Counted {
    evaluations: Counters,
    exemptions: Counters,
    errors: Counters,
}

impl PodSecurity {
    pub(super) fn new(configuration: PodSecurityConfiguration) -> Self {
        Self { namespaces: Table::of("", "namespaces"), configuration, counted: OnceLock::new() }
    }

    async fn check(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let plural = request.info.resource.plural.as_str();
        let (Some(object), true) = (request.object.as_deref(), is_evaluated(plural, request.subresource)) else {
            return Ok(());
        };
        if request.operation == Operation::Delete {
            return Ok(());
        }
        if plural == "namespaces" {
            return self.check_namespace(request, object).await;
        }
        let outcome = self.decide(request, plural, object)?;
        self.report(request, &outcome);
        outcome.refusal.map_or(Ok(()), |why| Err(request.forbidden(&why)))
    }

    fn decide(&self, request: &AdmissionRequest<'_>, plural: &str, object: &Value) -> Result<Outcome, Status> {
        let namespace = request.key.namespace().unwrap_or_default();
        if let Some(exemption) = self.configuration.exemption(namespace, &request.user.user) {
            return Ok(exemption);
        }
        let Some(labels) = self.namespaces.get(&ObjectKey::cluster(namespace)) else {
            return self.unknown_namespace(request, plural, namespace);
        };
        let labels = &labels["metadata"]["labels"];
        let subject = match pod_security::template(plural, object) {
            _ if plural == "pods" => Subject::Pod(object),
            Some((metadata, spec)) => Subject::Template(metadata, spec),
            None => return Ok(Outcome::default()),
        };
        Ok(self.configuration.decide(labels, subject, request.old))
    }

    async fn check_namespace(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
        let old = request.old.map(|old| &old["metadata"]["labels"]);
        let name = request.key.name();
        match self.configuration.namespace(name, &object["metadata"]["labels"], old) {
            NamespaceOutcome::Accepted => {}
            NamespaceOutcome::Refused(errors) => return Err(Status::invalid("", "Namespace", name, &errors)),
            NamespaceOutcome::Warning(text) => request.warn(text),
            NamespaceOutcome::Stricter(policy) => match request.others("", "pods", Some(name)) {
                Ok(pods) => self.evaluate(&pods, &policy, name).await.into_iter().for_each(|text| request.warn(text)),
                Err(_) => request.warn("failed to list pods while checking new PodSecurity enforce level"),
            },
        }
        Ok(())
    }

    /// The existing pods of a namespace that a new policy would refuse, as texts for the client.
    async fn evaluate(&self, pods: &[Arc<Object>], policy: &Policy, namespace: &str) -> Vec<String> {
        let until = Instant::now() + MAX_DURATION;
        let pods = self.without_exempt(pods);
        let order = pod_security::evaluation_order(pods.iter().map(|pod| controller(pod)));
        let (mut existing, mut checked, total) = (Existing::default(), 0, pods.len());
        for pod in order.into_iter().take(MAX_PODS).filter_map(|index| pods.get(index)) {
            if let Ok(tree) = pod.to_value() {
                existing.add(pod.name(), &policy.violations(&tree["metadata"], &tree["spec"]));
            }
            checked += 1;
            if checked % BATCH == 0 {
                tokio::task::yield_now().await;
            }
            if Instant::now() >= until {
                break;
            }
        }
        existing.warnings(namespace, policy, checked, total)
    }

    /// A pod in such a namespace may be one that its labels forbid.
    fn unknown_namespace(
        &self,
        request: &AdmissionRequest<'_>,
        plural: &str,
        namespace: &str,
    ) -> Result<Outcome, Status> {
        let why = format!("failed to lookup namespace \"{namespace}\"");
        let cause = format!("{why}: namespaces \"{namespace}\" not found");
        if plural != "pods" {
            return Ok(Outcome::failed(cause));
        }
        self.report(request, &Outcome::failed(format!("Internal error occurred: {cause}")));
        Err(Status::internal(why))
    }

    fn report(&self, request: &AdmissionRequest<'_>, outcome: &Outcome) {
        for (name, value) in &outcome.annotations {
            request.annotate(format!("{PREFIX}{name}"), value.as_str());
        }
        outcome.warnings.iter().for_each(|text| request.warn(text.as_str()));
        if let Some(counted) = self.counted.get() {
            outcome.counts.iter().for_each(|count| counted.add(count, request));
        }
    }

    fn without_exempt<'p>(&self, pods: &'p [Arc<Object>]) -> Vec<&'p Object> {
        let has_classes = !self.configuration.exemptions.runtime_classes.is_empty();
        let is_exempt =
            |pod: &Object| has_classes && pod.to_value().is_ok_and(|pod| self.configuration.is_exempt(&pod["spec"]));
        pods.iter().map(Arc::as_ref).filter(|pod| !is_exempt(pod)).collect()
    }
}

/// Other subresources change no field that a rule depends on.
fn is_evaluated(plural: &str, subresource: &str) -> bool {
    subresource.is_empty() || (plural == "pods" && matches!(subresource, "ephemeralcontainers" | "resize"))
}

fn controller(pod: &Object) -> Option<&str> {
    pod.owner_references().iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

impl Counted {
    fn add(&self, count: &Count, request: &AdmissionRequest<'_>) {
        let operation = if request.operation == Operation::Create { "create" } else { "update" };
        let resource = if request.info.resource.plural == "pods" { "pod" } else { "controller" };
        let labels = [operation, resource, request.subresource];
        match count {
            Count::Evaluation { mode, policy, is_violated } => {
                let (decision, version) = (if *is_violated { "deny" } else { "allow" }, policy.version_label());
                let [operation, resource, subresource] = labels;
                let level = policy.level.as_str();
                self.evaluations.increment(&[decision, level, &version, mode, operation, resource, subresource]);
            }
            Count::Exemption => self.exemptions.increment(&labels),
            Count::Error { is_fatal } => {
                let [operation, resource, subresource] = labels;
                self.errors.increment(&[if *is_fatal { "true" } else { "false" }, operation, resource, subresource]);
            }
        }
    }
}

impl Admission for PodSecurity {
    fn name(&self) -> Option<&'static str> {
        Some("PodSecurity")
    }

    fn count_in(&self, registry: &Registry) {
        self.counted.get_or_init(|| Counted {
            evaluations: registry.counters(&EVALUATIONS),
            exemptions: registry.counters(&EXEMPTIONS),
            errors: registry.counters(&ERRORS),
        });
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        pod_security::has_pods(group, plural) || (group.is_empty() && plural == "namespaces")
    }

    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    /// Rules about the metadata of pods depend on annotations. Workloads are reported to clients, which write the whole
    /// object.
    fn concerns_metadata(&self, group: &str, plural: &str, fields: &[&str]) -> bool {
        let decides_by = match plural {
            "namespaces" => "labels",
            "pods" => "annotations",
            _ => return false,
        };
        group.is_empty() && fields.contains(&decides_by)
    }

    fn validates_unchanged(&self) -> bool {
        true
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(request))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.namespaces.observe(place, event);
    }
}
