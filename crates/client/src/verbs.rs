//! The verbs of the API on any resource.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use http::Method;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use transport::{AcceptPayload, Changes, NewObjects, ObjectList, Payload, WatchEverything, WatchStream, WithStatus};

use crate::{
    Answer, Client, DeleteOptions, Error, ListOptions, MAX_LIST_BYTES, MAX_OBJECT_BYTES, Patch, PatchOptions, Result,
    WatchOptions, WriteOptions, codec, watch,
};

impl Client {
    /// # Errors
    /// NotFound, among the others every request can fail with; so for all verbs below.
    pub async fn get(&self, resource: &ApiResource, key: &ObjectKey) -> Result<Arc<Object>> {
        self.0.counts.add("get", resource);
        let path = resource.object_path(key);
        let object = self.one(codec::request(Method::GET, &path, bytes::Bytes::new(), "")?, resource).await?;
        match object.name() == key.name {
            true => Ok(object),
            false => Err(Error::unexpected(&format!("GET {path}"), "an object of another name")),
        }
    }

    /// `None` instead of NotFound.
    pub async fn get_opt(&self, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Arc<Object>>> {
        match self.get(resource, key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One page if the options have a limit, else everything. `namespace` `None` means all.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<ObjectList> {
        self.0.counts.add("list", resource);
        let path = options.query().after(&resource.collection_path(namespace));
        let mut request = codec::request(Method::GET, &path, bytes::Bytes::new(), "")?;
        if options.metadata_only {
            codec::metadata_only(&mut request, "PartialObjectMetadataList");
        }
        let attempt = codec::attempt(&request);
        match self.answer(request, MAX_LIST_BYTES).await? {
            Answer::Payload(Payload::List(list)) => Ok(list),
            Answer::Payload(_) => Err(Error::unexpected(&attempt, "no list")),
            Answer::Bytes(bytes) => codec::list(&attempt, resource, &bytes, self.0.owners),
        }
    }

    /// The stream ends when the server ends it; continue from the last revision seen. Errors after the start come as
    /// [`transport::WatchEvent::Error`].
    pub async fn watch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &WatchOptions,
    ) -> Result<WatchStream> {
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
        let timeout = self.0.timeout;
        let start = tokio::time::timeout(timeout, self.send(request)).await;
        let response = start.map_err(|_| Error::Timeout { attempt: attempt.clone(), after: timeout })??;
        let (mut parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let read = crate::read_body(body, MAX_OBJECT_BYTES).await;
            let bytes = read.map_err(|e| Error::transport(&attempt, e))?;
            return Err(codec::refusal(parts.status, &bytes));
        }
        match parts.extensions.remove::<Payload>() {
            Some(Payload::Watch(stream)) => {
                stream.lock().take().ok_or_else(|| Error::unexpected(&attempt, "a watch stream already taken"))
            }
            Some(_) => Err(Error::unexpected(&attempt, "no watch stream")),
            None => Ok(watch::events(body, self.0.owners)),
        }
    }

    /// Every object of the server and every change of any, if it is in this process; `None` for a server far away.
    ///
    /// # Errors
    /// Forbidden, unless the client may list and watch everything.
    pub async fn watch_everything(&self) -> Result<Option<Changes>> {
        if !self.is_in_process() {
            return Ok(None);
        }
        let mut request = codec::request(Method::GET, "/", bytes::Bytes::new(), "")?;
        request.extensions_mut().insert(WatchEverything);
        match self.answer(request, MAX_OBJECT_BYTES).await? {
            Answer::Payload(Payload::Everything(changes)) => Ok(changes.lock().take()),
            _ => Err(Error::unexpected("watch of everything", "something else")),
        }
    }

    /// The namespace is taken from the object.
    pub async fn create(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        self.create_object(resource, &encode("create", object)?, &WriteOptions::default()).await
    }

    /// Replaces; a resourceVersion in the object makes the write conditional on it.
    pub async fn update(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        self.update_object(resource, None, &encode("update", object)?, &WriteOptions::default()).await
    }

    pub async fn update_status(&self, resource: &ApiResource, object: &impl Serialize) -> Result<Arc<Object>> {
        self.update_object(resource, Some("status"), &encode("update", object)?, &WriteOptions::default()).await
    }

    pub async fn create_object(
        &self,
        resource: &ApiResource,
        object: &Object,
        options: &WriteOptions,
    ) -> Result<Arc<Object>> {
        self.0.counts.add("create", resource);
        let path = options.query().after(&resource.collection_path(object.namespace()));
        self.one(codec::request(Method::POST, &path, object.json().clone(), "application/json")?, resource).await
    }

    /// Creates many small objects of a namespace at once, and answers what became of each, in their order. A server in this
    /// process takes them in one request.
    ///
    /// # Errors
    /// When nothing is known of any of them.
    pub async fn create_all(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        objects: Vec<Value>,
    ) -> Result<Vec<Result<Arc<Object>>>> {
        if !self.is_in_process() {
            let creations = objects.iter().map(|object| self.create(resource, object));
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
    }

    pub async fn update_object(
        &self,
        resource: &ApiResource,
        subresource: Option<&str>,
        object: &Object,
        options: &WriteOptions,
    ) -> Result<Arc<Object>> {
        self.0.counts.add(if subresource == Some("status") { "update_status" } else { "update" }, resource);
        let path = options.query().after(&with_subresource(resource.object_path(&object.key()), subresource));
        self.one(codec::request(Method::PUT, &path, object.json().clone(), "application/json")?, resource).await
    }

    pub async fn patch(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        patch: &Patch,
        options: &PatchOptions,
    ) -> Result<Arc<Object>> {
        self.0.counts.add(if options.subresource == Some("status") { "patch_status" } else { "patch" }, resource);
        let path = options.query(patch).after(&with_subresource(resource.object_path(key), options.subresource));
        let body = serde_json::to_vec(patch.value()).map_err(|e| Error::encode(&path, e))?;
        let mut request = codec::request(Method::PATCH, &path, body.into(), patch.content_type())?;
        if options.with_status {
            request.extensions_mut().insert(WithStatus);
        }
        self.one(request, resource).await
    }

    /// Returns once the server accepted; finalizers may keep the object for longer.
    pub async fn delete(&self, resource: &ApiResource, key: &ObjectKey, options: &DeleteOptions) -> Result<()> {
        self.0.counts.add("delete", resource);
        self.remove(&resource.object_path(key), options).await
    }

    /// Deletes what the list options select.
    pub async fn delete_collection(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<()> {
        self.0.counts.add("deletecollection", resource);
        self.remove(&list.query().after(&resource.collection_path(namespace)), options).await
    }

    async fn remove(&self, path: &str, options: &DeleteOptions) -> Result<()> {
        let body = serde_json::to_vec(options).map_err(|e| Error::encode(path, e))?;
        let request = codec::request(Method::DELETE, path, body.into(), "application/json")?;
        self.answer(request, MAX_LIST_BYTES).await.map(|_| ())
    }

    /// What comes over a socket may be anything; what is taken for an object of the resource must be one.
    async fn one(&self, request: transport::Request, resource: &ApiResource) -> Result<Arc<Object>> {
        let attempt = codec::attempt(&request);
        match self.answer(request, MAX_OBJECT_BYTES).await? {
            Answer::Payload(Payload::Object(object)) => Ok(object),
            Answer::Payload(_) => Err(Error::unexpected(&attempt, "no object")),
            Answer::Bytes(bytes) => codec::object(&attempt, resource, bytes),
        }
    }
}

fn encode(verb: &str, object: &impl Serialize) -> Result<Object> {
    Object::encode(object).map_err(|e| Error::encode(verb, e))
}

fn with_subresource(path: String, subresource: Option<&str>) -> String {
    match subresource {
        Some(name) => format!("{path}/{name}"),
        None => path,
    }
}
