//! Karmada's admission rules as a plugin of our own API server: the rules are `karmada_api::admission`'s, here they
//! only meet the request.

use apimachinery::Status;
use apiserver::{Admission, AdmissionRequest, Operation};
use futures::future::BoxFuture;
use karmada_api::admission::{self, Options};
use serde_json::Value;
use world::World;

pub struct KarmadaAdmission {
    pub world: World,
    pub options: Options,
}

impl KarmadaAdmission {
    /// Runs a rule on a request's object, if there are rules for its kind. Subresources have none.
    fn apply<T>(
        &self,
        mutating: bool,
        request: &AdmissionRequest<'_>,
        rule: impl FnOnce(&admission::Request<'_>) -> Result<T, admission::Denied>,
    ) -> Result<Option<T>, Status> {
        let named = &request.info.resource;
        let operation = match request.operation {
            Operation::Create => admission::Operation::Create,
            Operation::Update => admission::Operation::Update,
            Operation::Delete => admission::Operation::Delete,
        };
        if !request.subresource.is_empty() {
            return Ok(None);
        }
        let Some(webhook) = admission::webhook(mutating, operation, &named.group, &named.kind) else { return Ok(None) };
        let uuid = self.world.uuid();
        let asked = admission::Request {
            operation,
            group: &named.group,
            kind: &named.kind,
            namespace: request.key.namespace().unwrap_or_default(),
            old: request.old,
            uuid: &uuid,
            customizations: &[],
            options: self.options,
        };
        rule(&asked).map(Some).map_err(|denied| denied.to_status(webhook.name))
    }
}

impl Admission for KarmadaAdmission {
    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(object) = request.object.as_deref_mut() else { return Ok(()) };
            // Out of the request while the rule looks at the rest of it; most kinds have none, and nothing is copied.
            let mut changed = std::mem::take(object);
            let ran = self.apply(true, request, |asked| admission::mutate(asked, &mut changed));
            if let Some(object) = request.object.as_deref_mut() {
                *object = changed;
            }
            ran.map(drop)
        })
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let gone = Value::Null;
            let object = request.object.as_deref().or(request.old).unwrap_or(&gone);
            self.apply(false, request, |asked| admission::validate(asked, object)).map(drop)
        })
    }
}
