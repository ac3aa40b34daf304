//! Karmada's admission rules as a plugin of our API server: this module passes requests to them.

use std::sync::Arc;

use apiextensions::defaulting;
use apimachinery::Status;
use apiserver::auth::authz::Attributes;
use apiserver::{Admission, AdmissionRequest, Change, Creates, JointWrite, Operation};
use futures::future::BoxFuture;
use karmada_api::admission::secrets::{self, Copied, SecretUse};
use karmada_api::admission::webhooks::Webhook;
use karmada_api::admission::{self, Written};
use serde_json::Value;

use crate::cluster_admission::ClusterAdmission;
use crate::lasting::Lasting;
use crate::registration::AgentRules;
use crate::registry_admission::RegistryAdmission;
use crate::rights;
use crate::rules::{Review, Rules};

/// Group and plural.
const BINDINGS: (&str, &str) = ("work.karmada.io", "resourcebindings");
const QUOTAS: (&str, &str) = ("policy.karmada.io", "federatedresourcequotas");
/// The webhook that upstream names in rejections.
const BINDING_WEBHOOK: &str = "resourcebinding.karmada.io";

pub struct KarmadaAdmission(pub Arc<Rules>);

/// The plugins of a control plane beside Kubernetes' own. `allow_http` is `--allow-http-member-endpoints`.
pub fn of_control_plane(rules: &Arc<Rules>, allow_http: bool) -> [Arc<dyn Admission>; 5] {
    [
        Arc::new(KarmadaAdmission(Arc::clone(rules))),
        Arc::new(ClusterAdmission::new(allow_http)),
        Arc::new(RegistryAdmission::default()),
        Arc::new(AgentRules::default()),
        Arc::new(Lasting::default()),
    ]
}

/// The request as the rules take it, and the webhook that has its rules; `None` without rules, as for subresources.
fn reviewed<'a>(mutating: bool, request: &'a AdmissionRequest<'_>) -> Option<(Review<'a>, &'static Webhook)> {
    let named = &request.info.resource;
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
    };
    if !request.subresource.is_empty() {
        return None;
    }
    let webhook = admission::webhook(mutating, operation, &named.group, &named.kind)?;
    let review = Review {
        operation,
        group: &named.group,
        version: &named.version,
        kind: &named.kind,
        namespace: request.key.namespace().unwrap_or_default(),
        old: request.old,
        dry_run: request.dry_run,
    };
    Some((review, webhook))
}

/// Upstream's webhook for bindings mutates new ones only.
fn keep_binding(request: &AdmissionRequest<'_>, binding: &mut Value) {
    let named = &request.info.resource;
    if let Some(old) = request.old.filter(|_| named.group == BINDINGS.0 && request.subresource.is_empty()) {
        admission::keep_binding(&named.kind, old, binding);
    }
}

impl Admission for KarmadaAdmission {
    fn name(&self) -> Option<&'static str> {
        Some("KarmadaAdmission")
    }

    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        let named = &creates.info.resource;
        let (group, kind) = (&named.group, &named.kind);
        let handles = |mutating| admission::webhook(mutating, admission::Operation::Create, group, kind).is_some();
        !handles(true) && !handles(false)
    }

    /// No rule concerns finalizers, and the stored object has passed the other rules.
    fn concerns_metadata(&self, group: &str, plural: &str, fields: &[&str]) -> bool {
        fields != ["finalizers"] && admission::webhooks::handles_updates(group, plural)
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let Some(object) = request.object.as_deref_mut() else { return Box::pin(std::future::ready(Ok(()))) };
        // The object is moved out of the request while rules read it, so it is not copied for the many kinds without
        // rules.
        let mut changed = std::mem::take(object);
        let outcome = match reviewed(true, request) {
            None => {
                keep_binding(request, &mut changed);
                Ok(())
            }
            Some((review, webhook)) => {
                let outcome = self.0.mutate(review, &mut changed);
                // An empty field that the rules removed may have a default.
                let filled = defaulting::default(&mut changed, &request.info.schema).map_err(Status::from);
                outcome.map_err(|it| it.denied().to_status(webhook.name)).and(filled)
            }
        };
        if let Some(object) = request.object.as_deref_mut() {
            *object = changed;
        }
        Box::pin(std::future::ready(outcome))
    }

    /// As upstream's webhooks, whose reinvocationPolicy is Never.
    fn runs_again(&self) -> bool {
        false
    }

    fn warnings(&self, request: &AdmissionRequest<'_>) -> Vec<String> {
        let named = &request.info.resource;
        let Some(object) = request.object.as_deref().filter(|_| request.subresource.is_empty()) else {
            return Vec::new();
        };
        let (group, kind, old) = (&named.group, &named.kind, request.old);
        let namespace = request.key.namespace().unwrap_or_default();
        let copied = if old.is_some_and(|old| !admission::changes_intent(old, object)) {
            Vec::new()
        } else {
            secrets::copied(group, kind, namespace, object)
        };
        // A warning waits for no other program: from memory alone.
        let authorizer = request.authorizer();
        let may_read = |it: &Copied| {
            let requested = Attributes::Resource(rights::secret(&it.namespace, &it.name));
            authorizer.authorize(request.user, &requested).is_allowed()
        };
        let unreadable = copied.iter().filter(|it| !may_read(it));
        let unreadable: Vec<SecretUse> = unreadable.map(|it| it.by).collect();
        let written = Written { group, kind, object, old, by_own_server: true, unreadable: &unreadable };
        admission::warnings(&written, &self.0.options)
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some((review, webhook)) = reviewed(false, request) else { return Ok(()) };
            let gone = Value::Null;
            let object = request.object.as_deref().or(request.old).unwrap_or(&gone);
            self.0.validate(review, object).await.map_err(|it| it.denied().to_status(webhook.name))
        })
    }

    fn has_joint_writes(&self, group: &str, plural: &str) -> bool {
        self.0.options.quota_enforcement && (group, plural) == BINDINGS
    }

    /// The quotas of a namespace change in the transaction of the binding: their `overallUsed` is the sum over the
    /// stored bindings at every revision, and of two bindings in flight only one gets the last share.
    fn joint_writes(&self, change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        let Some(namespace) = change.key.namespace() else { return Ok(Vec::new()) };
        let quotas = match change.others(QUOTAS.0, QUOTAS.1, namespace) {
            Ok(quotas) if quotas.is_empty() => return Ok(Vec::new()),
            Ok(quotas) => quotas,
            // A removal needs no quota. The next count of a readable quota corrects the usage.
            Err(status) if change.new.is_none() => {
                tracing::warn!(binding = %change.key, err = status.message, "A removed binding is not given back to its quotas");
                return Ok(Vec::new());
            }
            Err(status) => return Err(status),
        };
        let bindings = || change.others(BINDINGS.0, BINDINGS.1, namespace);
        let changed = Rules::joint_quotas(quotas, change.old, change.new, bindings);
        let changed = changed.map_err(|denied| denied.to_status(BINDING_WEBHOOK))?;
        let write = |(based_on, object)| JointWrite { group: QUOTAS.0, plural: QUOTAS.1, based_on, object };
        Ok(changed.into_iter().map(write).collect())
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::ApiResource;
    use apimachinery::resource::ResourceInfo;
    use transport::Identity;

    use super::*;

    #[test]
    fn kinds_without_rules_are_admitted_unread() {
        let rules = KarmadaAdmission(Rules::new(world::World::system(), Default::default()));
        let info_of = |group: &str, plural: &str| -> ResourceInfo {
            let all = kubernetes_api::resources().into_iter();
            let found = all.map(|it| it.info).find(|it| (&*it.resource.group, &*it.resource.plural) == (group, plural));
            ResourceInfo::clone(&found.expect("a built-in resource"))
        };
        let events = info_of("", "events");
        let work = ApiResource::namespaced("work.karmada.io", "v1alpha1", "Work", "works");
        let works = ResourceInfo { resource: work, ..info_of("", "events") };
        let user = Identity::system("test");
        let is_unread = |info| rules.admits_unread(&Creates { info, user: &user, namespace: Some("default") });
        assert_eq!((is_unread(&events), is_unread(&works)), (true, false));
    }
}
