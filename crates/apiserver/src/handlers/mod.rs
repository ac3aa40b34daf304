//! One handler for every resource: the resource's description determines what a verb does.

mod body;
mod create;
mod delete;
mod elements;
mod face;
mod filter;
mod frames;
mod joint;
mod kind;
mod metadata;
mod modify;
mod options;
pub(crate) mod ownership;
mod patch;
mod read;
pub(crate) mod review;
mod scale;
mod scale_owners;
mod status;
mod type_meta;
mod types;
mod update;
mod watch;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::meta::Time;
use apimachinery::resource::{RequestContext, Resource, Subresource};
use apimachinery::{Object, ObjectKey, Status, StatusReason};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use transport::{Body, Draft, Identity, NewObjects, Response};

use crate::admit::{AdmissionRequest, Notes, Operation};
use crate::audit::Recording;
use crate::cache::{Cache, ResourceCache};
use crate::commit::together::Seat;
use crate::conversion;
use crate::errors::{method_not_allowed, no_such_resource};
use crate::limits::budget::{PATIENCE_WITH_SEAT, Wire};
use crate::metrics::Foreign;
use crate::request::RequestInfo;
use crate::request::options::Options;
use crate::state::Shared;
use crate::wire::body::media_type;
use crate::wire::negotiate::{self, Accepted, Shape};
use crate::wire::shape::{self, Include};
use crate::wire::{respond, warnings};

pub(crate) use kind::{Creation, Kind};
pub(crate) use options::DeleteOptions;
pub(crate) use ownership::{Live, Proposal};
pub(crate) use update::{revert, set_or_remove};

/// One authorized request for a served resource.
pub(crate) struct Call<'a> {
    pub server: &'a Shared,
    pub info: &'a RequestInfo,
    pub resource: &'a Resource,
    pub kind: &'static Kind,
    pub user: &'a Identity,
    pub headers: &'a HeaderMap,
    /// The caller takes shared objects instead of bytes.
    pub shared: bool,
    /// The caller, in this process, writes an object and its status at once.
    pub with_status: bool,
    /// The object or patch of a caller in this process, as a tree; its body need not be read.
    pub draft: Option<&'a Draft>,
    /// Objects that a caller in this process creates without a body.
    pub new_objects: Option<NewObjects>,
    /// Its part of a transaction of several writes.
    pub seat: Option<&'a Seat>,
    /// The connection of a caller outside this process.
    pub wire: Option<&'a Wire>,
    pub accepted: Accepted,
    pub now: Time,
    /// The resource's group and version in the form of `apiVersion`.
    pub api_version: String,
    /// See [`Call::cache`].
    pub cache: OnceLock<Arc<ResourceCache>>,
    /// Warnings and annotations of admission.
    pub notes: Notes,
}

/// Answers a request for a resource that is served, with its row.
pub(crate) async fn handle(
    server: &Shared,
    info: &RequestInfo,
    (resource, kind): (&Resource, &'static Kind),
    user: &Identity,
    parts: &http::request::Parts,
    body: Body,
) -> Result<Response, Status> {
    // The Scale of a custom resource is a built-in kind.
    let scale = info.subresource == "scale";
    let subject = negotiate::Subject {
        list: matches!(info.verb, "list" | "deletecollection"),
        watch: info.verb == "watch",
        custom: resource.info.custom && !scale,
        routed: !resource.info.custom,
        tables: true,
        group: if scale { "autoscaling" } else { &resource.info.resource.group },
        kind: if scale { "Scale" } else { &resource.info.resource.kind },
    };
    if let Some(answer) = kind.instead {
        return answer(server, info, user, parts, body).await;
    }
    let call = Call {
        server,
        info,
        resource,
        kind,
        user,
        headers: &parts.headers,
        shared: parts.extensions.get::<transport::AcceptPayload>().is_some(),
        with_status: parts.extensions.get::<transport::WithStatus>().is_some(),
        draft: parts.extensions.get(),
        new_objects: parts.extensions.get::<NewObjects>().cloned(),
        seat: parts.extensions.get(),
        wire: parts.extensions.get::<Wire>(),
        accepted: negotiate::accepted(&parts.headers, subject)?,
        now: Time::new(server.world.now()),
        api_version: resource.info.resource.api_version(),
        cache: OnceLock::new(),
        notes: Notes::default(),
    };
    let answer = call.answer(body).await;
    if let Some(recording) = parts.extensions.get::<Recording>() {
        recording.annotate_admission(call.notes.take_annotations(), call.notes.waited());
    }
    // A successful response has them already.
    let mut warnings = if answer.is_err() { call.notes.take_findings() } else { Vec::new() };
    warnings.extend(call.notes.take_warnings());
    let deprecation = call.deprecation();
    let waited: Duration = call.notes.waited().into_iter().sum();
    if warnings.is_empty() && deprecation.is_none() && waited.is_zero() {
        return answer;
    }
    // Error responses also contain the warnings.
    let mut response =
        answer.unwrap_or_else(|status| respond::failure_as(&status, negotiate::error_encoding(&parts.headers)));
    if let Some(deprecation) = deprecation {
        warnings::warn_first(&mut response, deprecation);
    }
    warnings::warn(&mut response, &warnings);
    if !waited.is_zero() {
        response.extensions_mut().insert(Foreign(waited));
    }
    Ok(response)
}

impl Call<'_> {
    async fn answer(&self, body: Body) -> Result<Response, Status> {
        match self.check_scope() {
            // Upstream's handler of custom resources does not take such a path.
            Err(_) if self.resource.info.custom => return Ok(respond::page_not_found()),
            outcome => outcome?,
        }
        let subresource = self.subresource()?;
        if subresource.is_none() && !self.allows(self.info.verb) {
            return Err(self.refused_verb());
        }
        self.check_name_of_url()?;
        match (self.info.verb, &subresource) {
            ("get", None | Some(Subresource::Status)) => self.get().await,
            ("list", None) => self.list().await,
            ("watch", None) => self.watch().await,
            ("create", None) if self.info.name.is_empty() => match &self.new_objects {
                Some(NewObjects(objects)) => {
                    let objects = std::mem::take(&mut *objects.lock());
                    self.create_all(objects).await
                }
                None => self.create(body).await,
            },
            ("update", None | Some(Subresource::Status)) => self.update(body).await,
            ("patch", None | Some(Subresource::Status)) => self.patch(body).await,
            ("delete", None) => self.delete(body).await,
            ("deletecollection", None) => self.delete_collection(body).await,
            ("get" | "update" | "patch", Some(Subresource::Scale { .. })) => self.scale(body).await,
            (_, Some(Subresource::Other { .. })) => match self.kind.part {
                Some(answer) => answer(self, body).await,
                None => Err(method_not_allowed()),
            },
            // Custom resources have one route for all verbs upstream.
            (verb, Some(_)) if self.resource.info.custom => Err(self.unsupported(verb)),
            _ => Err(method_not_allowed()),
        }
    }

    /// Whether the resource has this verb at all.
    fn allows(&self, verb: &str) -> bool {
        self.resource.info.verbs.iter().any(|known| known == verb)
    }

    /// The error of resources that can be listed but not watched; other verbs have no route at all.
    fn refused_verb(&self) -> Status {
        let legacy = self.info.path.split('/').any(|part| part == "watch");
        match self.info.verb {
            "watch" if legacy => no_such_resource(),
            "watch" if self.allows("list") => self.unsupported("watch"),
            verb if self.resource.info.custom => self.unsupported(verb),
            _ => method_not_allowed(),
        }
    }

    fn unsupported(&self, verb: &str) -> Status {
        let named = &self.resource.info.resource;
        let resource = named.gvr().group_resource();
        let message = format!("{verb} is not supported on resources of kind {resource:?}");
        let details = apimachinery::status::StatusDetails {
            group: named.group.clone(),
            kind: named.plural.clone(),
            ..Default::default()
        };
        Status::failure(StatusReason::MethodNotAllowed, message).with_details(details)
    }

    /// The warning in each response of a deprecated version.
    fn deprecation(&self) -> Option<&str> {
        self.kind.deprecation.or_else(|| self.resource.strategy.deprecation())
    }
}

impl Call<'_> {
    /// Waits until the client may be sent another response. Called where the response is produced right after it.
    async fn admit(&self) -> Result<(), Status> {
        match self.wire {
            // Boxed, because otherwise every request would reserve the space that few need.
            Some(wire) if !wire.admits(&self.user.user) => {
                Box::pin(wire.admit(&self.user.user, PATIENCE_WITH_SEAT)).await
            }
            _ => Ok(()),
        }
    }

    /// The verb needs a name, which is a segment of the path of a key.
    fn check_name_of_url(&self) -> Result<(), Status> {
        let name = self.info.name.as_str();
        match self.info.verb {
            "update" | "patch" if name.is_empty() && !self.resource.info.custom => Err(method_not_allowed()),
            "patch" if name.is_empty() && media_type(self.headers) != patch::APPLY => {
                self.patch_form().and_then(|_| Err(Status::bad_request("name must be provided")))
            }
            "update" | "patch" if name.is_empty() => Err(Status::bad_request("name must be provided")),
            "get" | "delete" if matches!(name, "." | "..") => {
                Err(Status::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")))
            }
            _ => Ok(()),
        }
    }

    fn subresource(&self) -> Result<Option<Subresource>, Status> {
        if self.info.subresource.is_empty() {
            return Ok(None);
        }
        let requested = self.info.subresource.as_str();
        let found = self.resource.info.subresources.iter().find(|subresource| match subresource {
            Subresource::Status => requested == "status",
            Subresource::Scale { .. } => requested == "scale",
            Subresource::Other { name, .. } => name == requested,
        });
        let unknown = || if self.resource.info.custom { self.not_found(&self.info.name) } else { no_such_resource() };
        let has_more = !self.info.subpath.is_empty() && !self.resource.info.custom;
        let found = found.filter(|it| !has_more || matches!(it, Subresource::Other { .. }));
        found.cloned().map(Some).ok_or_else(unknown)
    }

    /// A namespaced object has a namespace in its URL, a cluster-scoped one does not.
    fn check_scope(&self) -> Result<(), Status> {
        let namespaced = self.resource.info.resource.namespaced;
        let has_namespace = !self.info.scope().is_empty();
        match (namespaced, has_namespace) {
            (false, true) => Err(no_such_resource()),
            (true, false) if matches!(self.info.verb, "list" | "watch") => Ok(()),
            (true, false) if !self.info.name.is_empty() => Err(no_such_resource()),
            (true, false) => Err(method_not_allowed()),
            _ => Ok(()),
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        (self.resource.info.resource.namespaced && !self.info.namespace.is_empty()).then_some(&self.info.namespace)
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.key_of(&self.info.name)
    }

    pub(crate) fn key_of(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace().unwrap_or_default(), name)
    }

    pub(crate) fn cache(&self) -> &Arc<ResourceCache> {
        self.cache.get_or_init(|| {
            let named = &self.resource.info.resource;
            self.server.cache.resource(&crate::cache::keys::group_resource(&named.group, &named.plural))
        })
    }

    /// The watch cache of the store that the resource is in.
    fn stored(&self) -> &Cache {
        self.server.cache.of(&self.resource.info.resource)
    }

    /// The form in which this version serves a stored object.
    async fn served(&self, stored: Arc<Object>) -> Result<Arc<Object>, Status> {
        conversion::served(&self.server.conversions, self.resource, stored).await
    }

    fn context(&self, dry_run: bool) -> RequestContext {
        RequestContext {
            now: self.now,
            user: self.user.user.clone(),
            groups: self.user.groups.clone(),
            subresource: self.info.subresource.clone(),
            dry_run,
        }
    }

    fn admission<'a>(
        &'a self,
        operation: Operation,
        key: &'a ObjectKey,
        old: Option<&'a Value>,
        object: Option<&'a mut Value>,
        dry_run: bool,
    ) -> AdmissionRequest<'a> {
        AdmissionRequest {
            known: self.server.known(),
            operation,
            info: &self.resource.info,
            key,
            subresource: &self.info.subresource,
            old,
            object,
            user: self.user,
            dry_run,
            repeats: false,
            now: self.now,
            generated_name: false,
            collection: self.info.verb == "deletecollection",
            options: Options::Query(&self.info.query),
            owners: None,
            old_owners: None,
            face: self,
            notes: &self.notes,
            rounds: Default::default(),
        }
    }

    /// Whether upstream validates the metadata of this kind like that of built-in kinds.
    fn has_core_metadata(&self) -> bool {
        let info = &self.resource.info;
        !info.custom && info.resource.group != "apiextensions.k8s.io"
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        let named = &self.resource.info.resource;
        Status::not_found(&named.group, &named.plural, name)
    }

    fn include(&self) -> Result<Include, Status> {
        Include::parse(self.info.query.text("includeObject"))
    }

    /// How objects are shown in this reply.
    fn form(&self) -> Result<shape::Form, Status> {
        let Accepted { shape, meta, .. } = self.accepted;
        let include = if shape == Shape::Table { self.include()? } else { Include::Metadata };
        Ok(shape::Form { shape, meta, include })
    }

    /// The reply that shows one object.
    fn reply(&self, code: StatusCode, object: &Arc<Object>) -> Result<Response, Status> {
        if self.shared || self.accepted.shape == Shape::Whole {
            return Ok(respond::object(code, object, self.accepted.encoding, self.shared));
        }
        let tree = shape::shaped(self.resource, object, self.form()?, self.now)?;
        let json = serde_json::to_vec(&tree).map_err(Status::internal)?;
        Ok(respond::document(code, json.into(), self.accepted.encoding))
    }
}
