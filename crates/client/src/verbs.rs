//! The API's verbs on any resource.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use futures::future::BoxFuture;
use http::Method;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use transport::{
    AcceptPayload, Changes, NewObject, NewObjects, ObjectList, Payload, WatchEverything, WatchStream, WithStatus,
};

use crate::{
    Answer, Client, DeleteOptions, Error, ListOptions, MAX_LIST_BYTES, MAX_OBJECT_BYTES, Patch, PatchOptions, Result,
    WatchOptions, WriteOptions, codec, watch,
};

impl Client {
    /// Reads an object.
    ///
    /// # Errors
    /// [`Error::Status`] when the server returns an error such as NotFound, and the errors of transport and decoding.
    /// The same holds for all verbs below.
    pub fn get<'a>(&'a self, resource: &'a ApiResource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add("get", resource);
            let path = path_of(resource, key, None)?;
            let object = self.one(codec::request(Method::GET, &path, bytes::Bytes::new(), "")?, resource).await?;
            match object.name() == key.name() {
                true => Ok(object),
                false => Err(Error::unexpected(&format!("GET {path}"), "an object of another name")),
            }
        })
    }

    /// As [`Client::get`], with `None` instead of NotFound.
    pub fn get_opt<'a>(
        &'a self,
        resource: &'a ApiResource,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<Arc<Object>>>> {
        Box::pin(async move {
            match self.get(resource, key).await {
                Ok(object) => Ok(Some(object)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Lists one page if the options have a limit, otherwise all objects; without a `namespace`, of all namespaces.
    pub fn list<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
    ) -> BoxFuture<'a, Result<ObjectList>> {
        Box::pin(async move {
            self.0.counts.add("list", resource);
            let path = options.query().after(&resource.collection_path(namespace));
            let mut request = codec::request(Method::GET, &path, bytes::Bytes::new(), "")?;
            if options.metadata_only {
                codec::metadata_only(&mut request, "PartialObjectMetadataList");
            }
            let attempt = codec::attempt(&request);
            let list = match self.answer(request, MAX_LIST_BYTES).await? {
                Answer::Payload(Payload::List(list)) => list,
                Answer::Payload(_) => return Err(Error::unexpected(&attempt, "no list")),
                Answer::Bytes(bytes) => codec::list(&attempt, resource, &bytes, self.0.owners)?,
            };
            // Readers of pages would never reach the last one.
            if options.continue_token.as_ref().is_some_and(|token| !token.is_empty() && *token == list.continue_token) {
                return Err(Error::unexpected(&attempt, "the continue token of the page before"));
            }
            Ok(list)
        })
    }

    /// Watches a resource. The stream ends when the server ends it; the caller continues from the last resource
    /// version. Errors after the start are [`transport::WatchEvent::Error`] items.
    pub fn watch<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: Option<&'a str>,
        options: &'a WatchOptions,
    ) -> BoxFuture<'a, Result<WatchStream>> {
        Box::pin(async move {
            self.0.counts.add("watch", resource);
            let path = options.query().after(&resource.collection_path(namespace));
            let mut request = codec::request(Method::GET, &path, bytes::Bytes::new(), "")?;
            let attempt = codec::attempt(&request);
            if options.metadata_only {
                codec::metadata_only(&mut request, "PartialObjectMetadata");
            }
            if self.is_in_process() {
                request.extensions_mut().insert(AcceptPayload);
            }
            let (timeout, host) = (self.0.timeout, &self.0.host);
            // The body of a refusal is part of the answer: a server that never ends it blocks no watch forever.
            let start = async {
                let (parts, body) = self.send(request).await?.into_parts();
                if parts.status.is_success() {
                    return Ok((parts, body));
                }
                let read = crate::read_body(body, MAX_OBJECT_BYTES).await;
                let bytes = read.map_err(|e| Error::transport(host, &attempt, e))?;
                Err(codec::refusal(parts.status, &bytes))
            };
            let late = |_| Error::Timeout { host: host.clone(), attempt: attempt.clone(), after: timeout };
            let (mut parts, body) = tokio::time::timeout(timeout, start).await.map_err(late)??;
            match parts.extensions.remove::<Payload>() {
                Some(Payload::Watch(stream)) => {
                    stream.lock().take().ok_or_else(|| Error::unexpected(&attempt, "a watch stream already taken"))
                }
                Some(_) => Err(Error::unexpected(&attempt, "no watch stream")),
                None => Ok(watch::events(body, resource.clone(), self.0.owners)),
            }
        })
    }

    /// All objects of a server in this process and every change; `None` for a remote server.
    ///
    /// # Errors
    /// Forbidden, unless the client may list and watch everything.
    pub fn watch_everything<'a>(&'a self) -> BoxFuture<'a, Result<Option<Changes>>> {
        Box::pin(async move {
            if !self.is_in_process() {
                return Ok(None);
            }
            let mut request = codec::request(Method::GET, "/", bytes::Bytes::new(), "")?;
            request.extensions_mut().insert(WatchEverything);
            match self.answer(request, MAX_OBJECT_BYTES).await? {
                Answer::Payload(Payload::Everything(changes)) => Ok(changes.lock().take()),
                _ => Err(Error::unexpected("watch of everything", "an unexpected response")),
            }
        })
    }

    /// Creates an object in its own namespace. A server in this process gets it as a tree.
    pub async fn create(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        if self.takes_drafts() {
            return self.create_draft(resource, tree("create", object)?, false).await;
        }
        self.create_object(resource, &encode("create", object)?, &WriteOptions::default()).await
    }

    /// Replaces an object; a resourceVersion in it makes the write conditional.
    pub async fn update(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        if self.takes_drafts() {
            return self.update_draft(resource, None, tree("update", object)?).await;
        }
        self.update_object(resource, None, &encode("update", object)?, &WriteOptions::default()).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        if self.takes_drafts() {
            return self.update_draft(resource, Some("status"), tree("update", object)?).await;
        }
        self.update_object(resource, Some("status"), &encode("update", object)?, &WriteOptions::default()).await
    }

    /// [`Client::create`] of an object that is a tree already; `with_status` as in [`PatchOptions`].
    ///
    /// # Errors
    /// As all verbs.
    pub fn create_draft<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: Value,
        with_status: bool,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add("create", resource);
            let namespace = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
            let path = resource.collection_path(namespace);
            let mut request = self.writing(Method::POST, &path, Cow::Owned(object), "application/json")?;
            if with_status {
                request.extensions_mut().insert(WithStatus);
            }
            self.one(request, resource).await
        })
    }

    /// [`Client::update`] by an object that is a tree already.
    ///
    /// # Errors
    /// As all verbs.
    pub fn update_draft<'a>(
        &'a self,
        resource: &'a ApiResource,
        subresource: Option<&'a str>,
        object: Value,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add(if subresource == Some("status") { "update_status" } else { "update" }, resource);
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let key = ObjectKey::namespaced(text("namespace"), text("name"));
            let path = path_of(resource, &key, subresource)?;
            self.one(self.writing(Method::PUT, &path, Cow::Owned(object), "application/json")?, resource).await
        })
    }

    /// As [`Client::create`], for an encoded object.
    pub fn create_object<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a Object,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add("create", resource);
            let path = options.query().after(&resource.collection_path(object.namespace()));
            self.one(codec::request(Method::POST, &path, object.json(), "application/json")?, resource).await
        })
    }

    /// Creates many small objects in a namespace, and returns the result of each, in order. A server in this process
    /// takes them in one request.
    ///
    /// # Errors
    /// When no result is known.
    pub fn create_all<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: Option<&'a str>,
        objects: Vec<NewObject>,
    ) -> BoxFuture<'a, Result<Vec<Result<Arc<Object>>>>> {
        Box::pin(async move {
            if !self.is_in_process() {
                let objects = objects.into_iter().map(|object| object.into_value(namespace.unwrap_or_default()));
                let creations = objects.map(|object| self.create_draft(resource, object, false));
                return Ok(futures::future::join_all(creations).await);
            }
            objects.iter().for_each(|_| self.0.counts.add("create", resource));
            let path = resource.collection_path(namespace);
            let mut request = codec::request(Method::POST, &path, bytes::Bytes::new(), "")?;
            request.extensions_mut().insert(NewObjects(Arc::new(Mutex::new(objects))));
            match self.answer(request, MAX_OBJECT_BYTES).await? {
                Answer::Payload(Payload::Created(outcomes)) => {
                    Ok(outcomes.into_iter().map(|outcome| outcome.map_err(Error::Status)).collect())
                }
                _ => Err(Error::unexpected(&format!("POST {path}"), "no outcomes")),
            }
        })
    }

    /// As [`Client::update`], for an encoded object.
    pub fn update_object<'a>(
        &'a self,
        resource: &'a ApiResource,
        subresource: Option<&'a str>,
        object: &'a Object,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add(if subresource == Some("status") { "update_status" } else { "update" }, resource);
            let path = options.query().after(&path_of(resource, &object.key(), subresource)?);
            self.one(codec::request(Method::PUT, &path, object.json(), "application/json")?, resource).await
        })
    }

    /// Patches an object.
    pub fn patch<'a>(
        &'a self,
        resource: &'a ApiResource,
        key: &'a ObjectKey,
        patch: &'a Patch,
        options: &'a PatchOptions,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        self.patched(resource, key, Cow::Borrowed(patch), options)
    }

    /// [`Client::patch`] by a patch that is not needed afterwards: a server in this process takes it without a copy.
    ///
    /// # Errors
    /// As all verbs.
    pub fn patch_draft<'a>(
        &'a self,
        resource: &'a ApiResource,
        key: &'a ObjectKey,
        patch: Patch,
        options: &'a PatchOptions,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        self.patched(resource, key, Cow::Owned(patch), options)
    }

    fn patched<'a>(
        &'a self,
        resource: &'a ApiResource,
        key: &'a ObjectKey,
        patch: Cow<'a, Patch>,
        options: &'a PatchOptions,
    ) -> BoxFuture<'a, Result<Arc<Object>>> {
        Box::pin(async move {
            self.0.counts.add(if options.subresource == Some("status") { "patch_status" } else { "patch" }, resource);
            let path = options.query(&patch).after(&path_of(resource, key, options.subresource)?);
            let content_type = patch.content_type();
            let document = match patch {
                Cow::Borrowed(patch) => Cow::Borrowed(patch.value()),
                Cow::Owned(patch) => Cow::Owned(patch.into_value()),
            };
            let mut request = self.writing(Method::PATCH, &path, document, content_type)?;
            if options.with_status {
                request.extensions_mut().insert(WithStatus);
            }
            // The scale of any kind is a Scale.
            let kind = if options.subresource == Some("scale") { "Scale" } else { &resource.kind };
            self.one_of(request, kind).await
        })
    }

    /// Deletes an object. Returns when the server has accepted the deletion; finalizers may delay the removal.
    pub fn delete<'a>(
        &'a self,
        resource: &'a ApiResource,
        key: &'a ObjectKey,
        options: &'a DeleteOptions,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.counts.add("delete", resource);
            self.remove(&path_of(resource, key, None)?, options).await
        })
    }

    /// Deletes the objects that the list options select.
    pub fn delete_collection<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: Option<&'a str>,
        list: &'a ListOptions,
        options: &'a DeleteOptions,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.counts.add("deletecollection", resource);
            self.remove(&list.query().after(&resource.collection_path(namespace)), options).await
        })
    }

    /// Whether requests go straight to a server in this process, not through it to another one.
    pub(crate) fn takes_drafts(&self) -> bool {
        self.is_in_process() && self.0.prefix.is_empty()
    }

    pub(crate) fn writing(
        &self,
        method: Method,
        path: &str,
        document: Cow<'_, Value>,
        content_type: &'static str,
    ) -> Result<transport::Request> {
        if self.takes_drafts() {
            return codec::draft(method, path, document.into_owned(), content_type);
        }
        let body = serde_json::to_vec(&document).map_err(|e| Error::encode(path, e))?;
        codec::request(method, path, body.into(), content_type)
    }

    async fn remove(&self, path: &str, options: &DeleteOptions) -> Result<()> {
        let body = serde_json::to_vec(options).map_err(|e| Error::encode(path, e))?;
        let request = codec::request(Method::DELETE, path, body.into(), "application/json")?;
        let attempt = codec::Attempt::of(&request);
        match self.answer(request, MAX_LIST_BYTES).await? {
            Answer::Payload(_) => Ok(()),
            Answer::Bytes(bytes) => codec::deleted(&attempt.to_string(), &bytes),
        }
    }

    /// Checks that a response over a socket is an object of the resource.
    async fn one(&self, request: transport::Request, resource: &ApiResource) -> Result<Arc<Object>> {
        self.one_of(request, &resource.kind).await
    }

    async fn one_of(&self, request: transport::Request, kind: &str) -> Result<Arc<Object>> {
        let attempt = codec::Attempt::of(&request);
        match self.answer(request, MAX_OBJECT_BYTES).await? {
            Answer::Payload(Payload::Object(object)) => Ok(object),
            Answer::Payload(_) => Err(Error::unexpected(&attempt.to_string(), "no object")),
            Answer::Bytes(bytes) => codec::object(&attempt.to_string(), kind, bytes),
        }
    }
}

fn encode(verb: &str, object: &impl Serialize) -> Result<Object> {
    Object::encode(object).map_err(|e| Error::encode(verb, e))
}

pub(crate) fn tree(verb: &str, object: &impl Serialize) -> Result<Value> {
    serde_json::to_value(object).map_err(|e| Error::encode(verb, e))
}

/// The path of one object, with a subresource if there is one.
///
/// # Errors
/// Without a name: the path would be that of the collection, all of whose objects a DELETE deletes.
pub fn path_of(resource: &ApiResource, key: &ObjectKey, subresource: Option<&str>) -> Result<String> {
    match subresource {
        _ if key.name().is_empty() => Err(Error::Unnamed),
        Some(name) if !name.is_empty() => Ok(format!("{}/{name}", resource.object_path(key))),
        _ => Ok(resource.object_path(key)),
    }
}
