//! Subresources of pods: binding to a node and eviction. Those that a kubelet answers are in [`super::connections`].

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status, StatusReason};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use kubernetes_api::eviction::{self, Eviction};
use kubernetes_api::pods;
use serde_json::Value;
use storage::{Guard, Op, Txn, TxnOutcome};
use transport::{Body, Identity, Response};

use super::connections;
use crate::cache::keys;
use crate::errors;
use crate::errors::method_not_allowed;
use crate::handlers::{self, Call, Kind, Live, Proposal, set_or_remove};
use crate::request::RequestInfo;
use crate::request::options::Write;
use crate::state::Shared;
use crate::wire::body as content;
use crate::wire::respond;

/// Evictions that spend the same budget at once.
const TRIES: usize = 5;

pub(super) const ROW: Kind =
    Kind { plural: "pods", restore: |part, old, new, _| restore(part, old, new), part: Some(part), ..Kind::ORDINARY };

pub(super) const BINDINGS: Kind = Kind { plural: "bindings", instead: Some(bind_by_name), ..Kind::ORDINARY };

/// The fields that a subresource may not change. `binding` and `eviction` are derived by the server from the stored
/// object.
fn restore(part: &str, old: &Value, new: &mut Value) {
    match part {
        "ephemeralcontainers" => {
            let (containers, owners) =
                (new["spec"]["ephemeralContainers"].take(), new["metadata"]["managedFields"].take());
            *new = old.clone();
            set_or_remove(&mut new["spec"], "ephemeralContainers", containers);
            set_or_remove(&mut new["metadata"], "managedFields", owners);
        }
        "resize" => pods::keep_but_resources(old, new),
        _ => {}
    }
}

fn part<'a>(call: &'a Call<'_>, body: Body) -> BoxFuture<'a, Result<Response, Status>> {
    Part(call).answer(body).boxed()
}

fn bind_by_name<'a>(
    server: &'a Shared,
    info: &'a RequestInfo,
    user: &'a Identity,
    parts: &'a http::request::Parts,
    body: Body,
) -> BoxFuture<'a, Result<Response, Status>> {
    bind_named(server, info, user, parts, body).boxed()
}

/// `POST bindings`: the older form of `pods/NAME/binding`, with the pod's name in the body.
async fn bind_named(
    server: &Shared,
    info: &RequestInfo,
    user: &Identity,
    parts: &http::request::Parts,
    body: Body,
) -> Result<Response, Status> {
    if info.verb != "create" || !info.name.is_empty() || info.namespace.is_empty() {
        return Err(method_not_allowed());
    }
    let bytes = content::read(body).await?;
    let binding = content::decode(&parts.headers, &bytes)?;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    let target = RequestInfo {
        is_resource: true,
        verb: "create",
        version: info.version.clone(),
        namespace: info.namespace.clone(),
        resource: "pods".into(),
        name: name.to_owned(),
        subresource: "binding".into(),
        query: info.query.clone(),
        ..RequestInfo::default()
    };
    let served = server.registry.snapshot();
    let pods = served.get("", &info.version, "pods").ok_or_else(crate::errors::no_such_resource)?;
    let kind = super::of(&pods.info.resource);
    handlers::handle(server, &target, (pods, kind), user, parts, transport::full(bytes)).await
}

/// A request for a subresource of a pod.
struct Part<'a, 'c>(&'a Call<'c>);

impl<'c> std::ops::Deref for Part<'_, 'c> {
    type Target = Call<'c>;

    fn deref(&self) -> &Call<'c> {
        self.0
    }
}

impl Part<'_, '_> {
    /// `POST pods/NAME/SUBRESOURCE`, and every verb of those a kubelet answers.
    async fn answer(self, body: Body) -> Result<Response, Status> {
        match (self.info.verb, self.info.subresource.as_str()) {
            ("create", "binding") => self.bind(body).await,
            ("create", "eviction") => self.evict(body).await,
            (_, "log" | "exec" | "attach" | "portforward" | "proxy") => connections::of_pod(self.0).await,
            ("get", _) => self.get().await,
            ("update", _) => self.update(body).await,
            ("patch", _) => self.patch(body).await,
            _ => Err(method_not_allowed()),
        }
    }

    async fn bind(&self, body: Body) -> Result<Response, Status> {
        let binding = content::decode(self.headers, &content::read(body).await?)?;
        self.check_name("Binding", &binding)?;
        let change = |live: &Live<'_>| pods::bound(&live.tree, &binding, self.now).map(Proposal::from);
        let options = self.write_options(Write::Create)?;
        self.modify(&self.key(), options.dry_run, change).await?;
        Ok(respond::value(StatusCode::CREATED, &serde_json::json!(done())))
    }

    /// The name may be omitted; another one is an error.
    fn check_name(&self, kind: &str, object: &Value) -> Result<(), Status> {
        let specified = object["metadata"]["name"].as_str().unwrap_or_default();
        if specified.is_empty() || specified == self.info.name {
            return Ok(());
        }
        Err(Status::bad_request(format!("name in URL does not match name in {kind} object")))
    }

    async fn evict(&self, body: Body) -> Result<Response, Status> {
        let eviction = content::decode(self.headers, &content::read(body).await?)?;
        self.check_name("Eviction", &eviction)?;
        let requested = serde_json::to_vec(&eviction["deleteOptions"]).map_err(Status::internal)?;
        let mut options = self.delete_options(if eviction["deleteOptions"].is_null() { &[] } else { &requested })?;
        for _ in 0..TRIES {
            self.server.cache.catch_up().await?;
            let pod = self.cache().get(&self.key())?.ok_or_else(|| self.not_found(&self.info.name))?;
            let pod = pod.to_value().map_err(errors::document)?;
            let budgets = self.budgets()?;
            let trees = budgets.iter().map(|(_, tree)| tree);
            if let Eviction::Spend(spent) = eviction::decide(&pod, trees, self.now)?
                && !options.is_dry_run()
                && !self.spend(&budgets, &spent).await?
            {
                continue;
            }
            if !options.is_dry_run() {
                // Upstream's server writes the condition itself, without an owner of the field.
                let with_condition = |live: &Live<'_>| {
                    let text = |field: &str| live.tree["metadata"][field].as_str().unwrap_or_default();
                    let found = (text("uid"), text("resourceVersion"));
                    self.check_delete_preconditions(&self.info.name, found, &options)?;
                    let owners = Some(live.owners().unwrap_or_default());
                    Ok(Proposal { object: pods::disrupted(&live.tree, self.now), owners })
                };
                let changed = self.modify(&self.key(), false, with_condition).await?;
                // The condition is not a change by someone else.
                let version = options.preconditions.as_mut().and_then(|required| required.resource_version.as_mut());
                if let Some(version) = version {
                    changed.object.resource_version().clone_into(version);
                    self.server.cache.catch_up().await?;
                }
            }
            self.delete_object(&self.key(), &options).await?;
            return Ok(respond::value(StatusCode::CREATED, &serde_json::json!(done())));
        }
        let text = "Too many evictions at once; the disruption budget changed under each of them. Try again.";
        Err(Status::failure(StatusReason::TooManyRequests, text))
    }

    fn budgets(&self) -> Result<Vec<(Arc<Object>, Value)>, Status> {
        let cache = self.server.cache.resource("policy/poddisruptionbudgets");
        let (found, ..) = cache.list(self.namespace(), None, 0, |_| true)?;
        found
            .into_iter()
            .map(|budget| Ok((Arc::clone(&budget), budget.to_value().map_err(errors::document)?)))
            .collect()
    }

    /// Writes a budget unless it changed since it was read.
    async fn spend(&self, read: &[(Arc<Object>, Value)], spent: &Value) -> Result<bool, Status> {
        let name = spent["metadata"]["name"].as_str().unwrap_or_default();
        let Some((before, _)) = read.iter().find(|(budget, _)| budget.name() == name) else { return Ok(false) };
        let resource = apimachinery::ApiResource {
            group: "policy".into(),
            version: "v1".into(),
            kind: "PodDisruptionBudget".into(),
            plural: "poddisruptionbudgets".into(),
            namespaced: true,
        };
        let place = keys::object_key(&resource, &ObjectKey::namespaced(self.namespace().unwrap_or_default(), name));
        let value = keys::encode(spent).map_err(Status::internal)?;
        let guards = vec![Guard::ModRevision(place.clone(), before.revision())];
        let txn = Txn { guards, ops: vec![Op::Put { key: place, value, lease: None }] };
        let outcome = self.server.cache.store().txn(txn).await.map_err(errors::store)?;
        Ok(matches!(outcome, TxnOutcome::Committed { .. }))
    }
}

/// The response to a request whose effect is in another object.
fn done() -> Status {
    Status { kind: "Status".into(), api_version: "v1".into(), status: "Success".into(), code: 201, ..Status::default() }
}
