//! Karmada's admission rules with their inputs: an id, the other customizations, the quotas of a namespace. The plugin
//! of the API server and the webhook server run the same rules.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::{ApiResource, Object, Status};
use client::{Client, ListOptions, WriteOptions};
use karmada_api::ApiType;
use karmada_api::admission::quota_usage::{self, Charge};
use karmada_api::admission::secrets::{self, SecretUse};
use karmada_api::admission::{self, Denied, Options, Request};
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use serde_json::Value;
use world::World;

use crate::rights;

/// Attempts, and the pause between them, as upstream.
const QUOTA_ATTEMPTS: u32 = 5;
const QUOTA_PAUSE: Duration = Duration::from_millis(10);

/// Why a request is rejected.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// An object could not be read or written.
    #[error("{0}")]
    Internal(String),
}

impl Refusal {
    /// The response of a webhook.
    pub fn denied(self) -> Denied {
        match self {
            Self::Denied(denied) => denied,
            Self::Internal(text) => Denied::Failed(text),
        }
    }
}

/// The request besides its object.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    pub operation: admission::Operation,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl Review<'_> {
    /// Rejects writes of bindings in their old version, which would lose newer fields.
    fn check_version(&self) -> Result<(), Denied> {
        let binding = matches!(self.kind, "ResourceBinding" | "ClusterResourceBinding");
        let writes = self.operation != admission::Operation::Delete;
        if self.group == "work.karmada.io" && binding && writes && self.version == "v1alpha1" {
            return Err(Denied::Undecodable(format!(
                "unable to decode work.karmada.io/v1alpha1, Kind={kind} into *v1alpha2.{kind}",
                kind = self.kind
            )));
        }
        Ok(())
    }
}

/// The rules of one server.
pub struct Rules {
    world: World,
    pub options: Options,
    /// Set once the API server answers; before that only its own objects are written.
    client: OnceLock<Client>,
}

impl Rules {
    pub fn new(world: World, options: Options) -> Arc<Self> {
        let options = Options { compile_script: Some(interpreter::lua::compiles), ..options };
        Arc::new(Self { world, options, client: OnceLock::new() })
    }

    /// Sets the client that reads other objects. Later calls have no effect.
    pub fn connect(&self, client: Client) {
        let _ = self.client.set(client);
    }

    fn request<'a>(&self, review: Review<'a>, uuid: &'a str, customizations: &'a [Value]) -> Request<'a> {
        let Review { operation, group, kind, namespace, old, .. } = review;
        Request { operation, group, kind, namespace, old, uuid, customizations, options: self.options }
    }

    /// Runs the mutating rules.
    pub fn mutate(&self, review: Review<'_>, object: &mut Value) -> Result<(), Refusal> {
        review.check_version()?;
        let uuid = self.world.uuid();
        Ok(admission::mutate(&self.request(review, &uuid, &[]), object)?)
    }

    /// On delete `object` is the stored one.
    pub async fn validate(&self, review: Review<'_>, object: &Value) -> Result<(), Refusal> {
        review.check_version()?;
        let writes = review.operation != admission::Operation::Delete;
        let customizations = match (review.group, review.kind) {
            ("config.karmada.io", "ResourceInterpreterCustomization") if writes => {
                self.list::<ResourceInterpreterCustomization>(None).await?
            }
            _ => Vec::new(),
        };
        let request = self.request(review, "", &customizations);
        Ok(admission::validate(&request, object)?)
    }

    /// Charges the quotas of the namespace for a binding that is about to be stored elsewhere. Returns the message for
    /// the audit log, which is empty for other kinds. Our own API server uses [`Self::joint_quotas`] instead.
    pub async fn charge_quotas(&self, review: Review<'_>, object: &Value) -> Result<String, Refusal> {
        let writes = review.operation != admission::Operation::Delete;
        let request = self.request(review, "", &[]);
        let binding = (review.group, review.kind) == ("work.karmada.io", "ResourceBinding") && writes;
        if !binding || !self.options.quota_enforcement {
            return Ok(String::new());
        }
        match quota_usage::unaffected(&request, object)? {
            Some(why) => Ok(why.to_owned()),
            None => self.charge(&request, object, review.dry_run).await,
        }
    }

    /// The quotas of a namespace after a binding in it changed, each with the state it was computed from. `quotas` and
    /// `bindings` are the stored objects; the latter are read for a quota that has not been counted yet.
    pub fn joint_quotas(
        quotas: Vec<Arc<Object>>,
        old: Option<&Object>,
        new: Option<&Object>,
        bindings: impl Fn() -> Result<Vec<Arc<Object>>, Status>,
    ) -> Result<Vec<(Arc<Object>, Value)>, Denied> {
        let unreadable = |object: &Object, error| Denied::Failed(unreadable_object(object, &error));
        let outline = |object: &Object| quota_usage::outline(object).map_err(|error| unreadable(object, error));
        let (old, new) = (old.map(outline).transpose()?, new.map(outline).transpose()?);
        let all = || {
            let bindings = bindings().map_err(|status| Denied::Failed(status.message))?;
            let bindings = bindings.iter().map(|it| outline(it)).collect::<Result<Vec<_>, _>>()?;
            Ok(quota_usage::total(&bindings))
        };
        let mut changed = Vec::new();
        for quota in quotas {
            let tree = quota.to_value().map_err(|error| unreadable(&quota, error))?;
            if let Some(tree) = quota_usage::balance(&tree, old.as_ref(), new.as_ref(), all)? {
                changed.push((quota, tree));
            }
        }
        Ok(changed)
    }

    /// The ways in which a policy copies Secrets that `user` may not read, for a warning. A right that cannot be
    /// checked is logged; the request is not refused.
    pub async fn unreadable(&self, review: Review<'_>, object: &Value, user: &Value) -> Vec<SecretUse> {
        let mut unreadable = Vec::new();
        let Some(client) = self.client.get().filter(|_| user["username"].is_string()) else { return unreadable };
        if review.old.is_some_and(|old| !admission::changes_intent(old, object)) {
            return unreadable;
        }
        for copied in secrets::copied(review.group, review.kind, review.namespace, object) {
            if unreadable.contains(&copied.by) {
                continue;
            }
            match rights::is_allowed(client, user, &rights::secret(&copied.namespace, &copied.name)).await {
                Ok(true) => {}
                Ok(false) => unreadable.push(copied.by),
                Err(error) => tracing::warn!(error, "Secrets that a policy copies are not checked"),
            }
        }
        unreadable
    }

    async fn list<T: ApiType>(&self, namespace: Option<&str>) -> Result<Vec<Value>, Refusal> {
        let Some(client) = self.client.get() else { return Ok(Vec::new()) };
        let (resource, options) = (T::api_resource(), ListOptions::default());
        let list = client.list(&resource, namespace, &options).await.map_err(|error| unreadable(&resource, &error))?;
        list.items.iter().map(|it| it.to_value().map_err(|error| unreadable(&resource, &error))).collect()
    }

    /// Charges the growth of a binding to the quotas of its namespace. The resourceVersion guards each write, so that
    /// of two concurrent bindings the second one sees the charge of the first.
    async fn charge(&self, request: &Request<'_>, binding: &Value, dry_run: bool) -> Result<String, Refusal> {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        let failed = |what: &str, error: &client::Error| {
            Refusal::Internal(format!("{what} for RB {}/{name}: {error}", request.namespace))
        };
        let mut last = None;
        for _ in 0..QUOTA_ATTEMPTS {
            let quotas = self.list::<FederatedResourceQuota>(Some(request.namespace)).await?;
            if quotas.is_empty() {
                return Ok("No FederatedResourceQuotas found in the namespace, skipping quota check.".to_owned());
            }
            let charges = quota_usage::charge(request, binding, &quotas)?;
            let charged = charges.iter().filter_map(|charge| charged(&quotas, charge)).collect::<Result<Vec<_>, _>>();
            let charged = charged.map_err(|error| Refusal::Internal(error.to_string()))?;
            match self.write(&charged, dry_run).await {
                Ok(()) => return Ok(quota_usage::allowed(request.namespace, name, &charges)),
                Err(error) if error.is_conflict() => last = Some(error),
                Err(error) => return Err(failed("permanent error updating FRQ statuses", &error)),
            }
            tokio::time::sleep(QUOTA_PAUSE).await;
        }
        let what = "failed to apply FederatedResourceQuota updates after multiple retries";
        Err(last.map_or_else(|| Refusal::Internal(what.to_owned()), |error| failed(what, &error)))
    }

    async fn write(&self, quotas: &[Object], dry_run: bool) -> client::Result<()> {
        let Some(client) = self.client.get() else { return Ok(()) };
        let field_manager = Some(quota_usage::CHARGING_MANAGER.to_owned());
        let options = WriteOptions { dry_run, field_manager };
        for quota in quotas {
            client.update_object(&FederatedResourceQuota::api_resource(), Some("status"), quota, &options).await?;
        }
        Ok(())
    }
}

fn unreadable_object(object: &Object, error: &serde_json::Error) -> String {
    format!("{} {} cannot be read: {error}", object.kind(), object.key())
}

/// A quota with its new usage.
fn charged(quotas: &[Value], charge: &Charge) -> Option<Result<Object, serde_json::Error>> {
    let mut quota = quotas.iter().find(|it| it["metadata"]["name"] == charge.name.as_str())?.clone();
    quota["status"]["overallUsed"] = charge.overall_used.clone();
    Some(Object::encode(&quota))
}

fn unreadable(resource: &ApiResource, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::Internal(format!("failed to list {}s: {error}", resource.kind))
}
