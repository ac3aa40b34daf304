//! create: POST on a collection.

use std::sync::Arc;

use apimachinery::field::Path;
use apimachinery::object::ObjectTree as _;
use apimachinery::resource::RequestContext;
use apimachinery::{Object, ObjectKey, Status, StatusReason, names, strict};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use storage::{Guard, Op, TxnOutcome};
use tokio::time::Instant;
use transport::{Body, NewObject, Payload, Response};

use super::Call;
use super::kind::Creation;
use super::ownership::{Proposal, RECEIVED, admitted, finalizer_warnings, unique_owners};
use crate::admit::lifecycle;
use crate::admit::{AdmissionRequest, Creates, Operation};
use crate::auth::authz::{self, Attributes};
use crate::cache::keys;
use crate::conversion;
use crate::errors;
use crate::request::options::Write;
use crate::wire::{respond, warnings};

/// Tries to find a free generated name; kube-apiserver's count.
const NAME_TRIES: usize = 8;
const SUFFIX: usize = 5;
/// Retries after concurrent writes of the namespace.
const NAMESPACE_TRIES: usize = 5;

impl Call<'_> {
    pub(super) async fn create(&self, body: Body) -> Result<Response, Status> {
        let options = self.write_options(Write::Create)?;
        let (object, mut warnings) = self.object(body, options.field_validation).await?;
        let (created, more) = self.create_object(object.into(), options.dry_run).await?;
        warnings.extend(more);
        let mut response = self.reply(StatusCode::CREATED, &created)?;
        warnings::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Creates objects of a caller in this process, each separately and all concurrently, so that they share a sync.
    pub(super) async fn create_all(&self, objects: Vec<NewObject>) -> Result<Response, Status> {
        let options = self.write_options(Write::Create)?;
        let dry_run = options.dry_run;
        let creates = Creates { info: &self.resource.info, user: self.user, namespace: self.namespace() };
        // Plugins decide by stored objects: those acknowledged before this request, and none that cannot be read.
        let cache = &self.server.cache;
        let is_current = if dry_run { None } else { cache.catch_up_own().await.ok() };
        let is_current = is_current.filter(|_| cache.is_sound() && self.server.admission.admits_unread(&creates));
        let manager = &self.manager();
        let creations = objects.into_iter().map(|object| async move {
            if let Some(is_current) = is_current
                && let Some((key, stored)) = self.stored_form(&object, manager)
            {
                return self.create_unread(&key, &stored, is_current).await.map_err(Box::new);
            }
            let object = object.into_value(self.namespace().unwrap_or_default());
            let created = self.create_object(self.adopted(object)?.into(), dry_run).await;
            created.map(|(object, _)| object).map_err(Box::new)
        });
        let outcomes = futures::future::join_all(creations).await;
        Ok(respond::payload(StatusCode::CREATED, Payload::Created(outcomes)))
    }

    /// The key and the stored form of an object whose kind has a fast path to it.
    fn stored_form(&self, object: &NewObject, manager: &str) -> Option<(ObjectKey, Bytes)> {
        let NewObject::Event(event) = object else { return None };
        let uid = self.server.world.uuid();
        let creation = Creation { namespace: self.namespace()?, uid: &uid, now: self.now, manager };
        Some((self.key_of(&event.name), (self.kind.stored_event)(event, &creation)?))
    }

    /// Creates an object that admission need not read. The cache holds this process's own writes; `is_current` if it holds
    /// those of others as well.
    async fn create_unread(&self, key: &ObjectKey, stored: &Bytes, is_current: bool) -> Result<Arc<Object>, Status> {
        let began = Instant::now();
        self.catch_up_to_namespace(key, is_current).await?;
        self.server.admission.admitted_unread(Operation::Create, began);
        self.store_new(key, stored).await
    }

    /// An object that was never encoded, as it would have been decoded.
    fn adopted(&self, mut object: Value) -> Result<Value, Box<Status>> {
        let refuse = |why: &str| Box::new(Status::bad_request(format!("an object of this process: {why}")));
        strict::adopt(&mut object, &self.resource.info.schema).map_err(|why| refuse(&why.to_string()))?;
        if self.mismatch(&object).is_some() {
            return Err(refuse("it is of another kind or version"));
        }
        self.stamp(&mut object);
        match self.mistyped(&mut object) {
            Some(wrong) => Err(refuse(&wrong.decoder)),
            None => Ok(object),
        }
    }

    /// Creates the object; returns it as stored, and the warnings for the client.
    pub(super) async fn create_object(
        &self,
        mut proposal: Proposal,
        dry_run: bool,
    ) -> Result<(Arc<Object>, Vec<String>), Status> {
        let object = &mut proposal.object;
        self.check_namespace(object)?;
        let base = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        let generated = object["metadata"]["name"].as_str().unwrap_or_default().is_empty() && !base.is_empty();
        let unable = |mut status: Status| {
            status.message += ", the server was not able to generate a unique name for the object";
            status
        };
        if !generated {
            let created = self.create_named(proposal, false, dry_run).await;
            // As upstream, which does not distinguish a name in the request from a generated one.
            return created.map_err(|status| match status.is(StatusReason::AlreadyExists) && !base.is_empty() {
                true => unable(status),
                false => status,
            });
        }
        for _ in 0..NAME_TRIES {
            let suffix = self.server.world.random_suffix(SUFFIX);
            proposal.object["metadata"]["name"] = names::generated_name(&base, &suffix).into();
            match self.create_named(proposal.clone(), true, dry_run).await {
                Err(status) if status.is(StatusReason::AlreadyExists) => {}
                other => return other,
            }
        }
        let named = &self.resource.info.resource;
        Err(unable(Status::already_exists(&named.group, &named.plural, &base)))
    }

    async fn create_named(
        &self,
        proposal: Proposal,
        generated_name: bool,
        dry_run: bool,
    ) -> Result<(Arc<Object>, Vec<String>), Status> {
        let Proposal { mut object, owners } = proposal;
        let strategy = &self.resource.strategy;
        let context = self.context(dry_run);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = self.key_of(&name);
        let has_version = has_version(&object);
        self.own_metadata(&mut object);
        let mut notices: Vec<String> = unique_owners(&mut object, RECEIVED).into_iter().collect();
        strategy.default(&mut object)?;
        (self.kind.default)(&mut object);
        let owners = owners.unwrap_or_else(|| self.track(None, &mut object));
        self.prepare(&context, &mut object);
        self.catch_up_to_create(&key, dry_run).await?;
        let request = self.admission(Operation::Create, &key, None, Some(&mut object), dry_run);
        let mut request = AdmissionRequest { generated_name, owners: Some(&owners), ..request };
        self.server.admission.mutate(&mut request).await?;
        let owners =
            admitted(request.rounds, (&mut object, owners), &mut notices, |object| self.prepare(&context, object));
        let rule = strategy.name_rule();
        let namespaced = self.resource.info.resource.namespaced;
        let mut wrong = names::validate_object_meta(&object["metadata"], namespaced, rule, &Path::new("metadata"));
        if self.has_core_metadata() {
            wrong.extend(names::validate_core_finalizers(&object["metadata"], &Path::new("metadata")));
        }
        wrong.extend(strategy.validate_create(&object));
        self.refuse_invalid(&name, &wrong)?;
        let mut warnings = strategy.warnings(&context, None, &object);
        let repeats = self.repeats(&key).await?;
        let request = self.admission(Operation::Create, &key, None, Some(&mut object), dry_run);
        let request = AdmissionRequest { repeats, generated_name, owners: Some(&owners), ..request };
        self.validate_status_of(&request).await?;
        self.server.admission.validate(&request).await?;
        warnings.extend(self.server.admission.warnings(&request));
        warnings.extend(notices);
        if self.resource.info.custom {
            warnings.extend(finalizer_warnings(None, &object));
        }
        conversion::to_stored(&self.server.conversions, self.resource, &mut object).await?;
        let encoded = keys::encode_with(&object, &owners).map_err(Status::internal)?;
        if dry_run {
            if self.cache().get(&key)?.is_some() {
                return Err(self.exists(&key));
            }
            self.check_joint(&key, None, &encoded)?;
            let object = Object::parse_valid(encoded).map_err(errors::document)?;
            return Ok((self.served(object.shared()).await?, warnings));
        }
        let stored = if has_version { Err(versioned()) } else { self.store_new(&key, &encoded).await };
        if let Err(status) = &stored
            // Whether a store that fails has stored it is not known.
            && (status.code < 500 || has_version)
            && !repeats
        {
            let request = self.admission(Operation::Create, &key, None, Some(&mut object), dry_run);
            self.server.admission.undo(&request).await;
        }
        Ok((self.served(stored?).await?, warnings))
    }

    fn prepare(&self, context: &RequestContext, object: &mut Value) {
        let status = self.with_status.then(|| object["status"].take()).filter(|status| !status.is_null());
        self.resource.strategy.prepare_create(context, object);
        if let Some(status) = status {
            object["status"] = status;
        }
        (self.kind.prepare_create)(self.user, object);
    }

    /// Values held by a deleted object are free only once the cache has processed its deletion.
    async fn catch_up_to_create(&self, key: &ObjectKey, dry_run: bool) -> Result<(), Status> {
        let cache = &self.server.cache;
        let is_current = cache.catch_up_own().await?;
        // Whether the object exists, a write leaves to the store.
        if dry_run && !is_current {
            cache.catch_up().await?;
        } else {
            self.catch_up_to_namespace(key, is_current).await?;
        }
        // Objects that expire have no such values; each of many that are created at once would wait for those before
        // it.
        if self.kind.lifetime.is_none() && !std::ptr::eq(self.stored(), &**cache) {
            self.stored().catch_up().await?;
        }
        Ok(())
    }

    /// Another process may have created the namespace, unless the cache holds the writes of all.
    async fn catch_up_to_namespace(&self, key: &ObjectKey, is_current: bool) -> Result<(), Status> {
        let cache = &self.server.cache;
        if !is_current && lifecycle::open(cache, &self.resource.info, key).is_err() {
            cache.catch_up().await?;
        }
        Ok(())
    }

    /// Whether the object exists already, so that the store will refuse it.
    async fn repeats(&self, key: &ObjectKey) -> Result<bool, Status> {
        let is_found = || matches!(self.cache().get(key), Ok(Some(_)));
        if is_found() && self.stored().store().written_revision().is_some() {
            // Another process may have deleted it.
            self.stored().catch_up().await?;
        }
        Ok(is_found())
    }

    /// Rejects creates while the definition is terminating: a client that recreates deleted objects would keep it from
    /// being finalized.
    fn refuse_of_terminating_kind(&self, key: &ObjectKey) -> Result<(), Status> {
        let info = &self.resource.info;
        if !info.custom {
            return Ok(());
        }
        let named = &info.resource;
        let definition = ObjectKey::cluster([&*named.plural, ".", &named.group].concat());
        let stored = self.server.cache.resource(&crate::crds::place()).get(&definition)?;
        if !stored.is_some_and(|definition| definition.is_deleting()) {
            return Ok(());
        }
        let why = "create not allowed while custom resource definition is terminating";
        Err(Status::forbidden(&named.group, &named.plural, key.name(), why))
    }

    async fn store_new(&self, key: &ObjectKey, encoded: &Bytes) -> Result<Arc<Object>, Status> {
        self.refuse_of_terminating_kind(key)?;
        let place = keys::object_key(&self.resource.info.resource, key);
        let lease = self.lease().await?;
        for _ in 0..NAMESPACE_TRIES {
            let mut guards = vec![Guard::Absent(place.clone())];
            let namespace = lifecycle::open(&self.server.cache, &self.resource.info, key)?;
            // A transaction covers one store. With a namespace in another store, an object created during the deletion
            // of its namespace may stay.
            guards.extend(namespace.filter(|_| std::ptr::eq(self.stored(), &*self.server.cache)));
            let op = Op::Put { key: place.clone(), value: encoded.clone(), lease };
            match self.commit(key, guards, op, None).await? {
                TxnOutcome::Committed { revision } => {
                    return self.cache().committed(key, encoded, revision).map_err(errors::document);
                }
                TxnOutcome::Failed { current, .. } if matches!(current.first(), Some(Some(_))) => {
                    // Whether it is being deleted is part of the message.
                    self.stored().catch_up().await?;
                    return Err(self.exists(key));
                }
                // The namespace was written concurrently; if that was its deletion, the next attempt detects it.
                TxnOutcome::Failed { .. } => drop(self.server.cache.catch_up().await?),
            }
        }
        let why = "its namespace is being written to again and again";
        Err(Status::conflict(&self.resource.info.resource.group, &self.resource.info.resource.plural, key.name(), why))
    }

    /// The lease with which the object expires, if it does.
    pub(super) async fn lease(&self) -> Result<Option<storage::LeaseId>, Status> {
        match self.kind.lifetime {
            Some(lifetime) => {
                let stored = self.stored();
                stored.leases.lease_for(lifetime, stored.store().as_ref()).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// An update or an apply that creates its object needs the right to create: the right to change existing objects is
    /// not sufficient.
    pub(super) async fn check_may_create(&self) -> Result<(), Status> {
        let mut requested = self.info.attributes();
        if let Attributes::Resource(requested) = &mut requested {
            "create".clone_into(&mut requested.verb);
        }
        authz::check(self.server.authorizer.as_ref(), self.user, &requested).await
    }

    fn exists(&self, key: &ObjectKey) -> Status {
        let named = &self.resource.info.resource;
        let mut status = Status::already_exists(&named.group, &named.plural, key.name());
        if self.cache().get(key).is_ok_and(|found| found.is_some_and(|object| object.is_deleting())) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    pub(super) fn refuse_invalid(&self, name: &str, wrong: &[apimachinery::field::Error]) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        if wrong.is_empty() { Ok(()) } else { Err(Status::invalid(&named.group, &named.kind, name, wrong)) }
    }

    /// The namespace is set from the URL; a different one in the body is an error.
    pub(super) fn check_namespace(&self, object: &mut Value) -> Result<(), Status> {
        let specified = object["metadata"]["namespace"].as_str().unwrap_or_default();
        match self.namespace() {
            Some(ns) if specified == ns => Ok(()),
            Some(ns) if specified.is_empty() => {
                object["metadata"]["namespace"] = ns.into();
                Ok(())
            }
            Some(_) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
            None => {
                if let Some(metadata) = object.metadata_mut() {
                    metadata.remove("namespace");
                }
                Ok(())
            }
        }
    }

    /// Sets the server's fields in the metadata of a new object.
    fn own_metadata(&self, object: &mut Value) {
        let uid = self.server.world.uuid();
        let Some(metadata) = object.metadata_mut() else { return };
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
            metadata.remove(field);
        }
        metadata.retain(|_, value| !value.is_null());
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), json!(self.now));
        if self.resource.strategy.has_generation() {
            metadata.insert("generation".into(), 1.into());
        }
    }
}

/// Whether a new object has the version of a stored one. kube-apiserver ignores other texts, and finds it only in its store.
fn has_version(object: &Value) -> bool {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    version.starts_with(|first: char| first.is_ascii_digit()) && version.parse().is_ok_and(|version: u64| version > 0)
}

fn versioned() -> Status {
    Status::unclassified("resourceVersion should not be set on objects to be created")
}
