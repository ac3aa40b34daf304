//! Several writes that are stored together.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use futures::future::BoxFuture;
use http::Method;
use serde::Serialize;
use serde_json::Value;
use transport::{AcceptPayload, Payload, Request, Together, WithStatus};

use crate::verbs::{path_of, tree};
use crate::{Answer, Client, Error, MAX_OBJECT_BYTES, Patch, PatchOptions, Result, codec};

/// One of the writes of [`Client::write_together`].
#[derive(Clone, Debug)]
pub enum Write<'a> {
    /// Creates an object in its own namespace.
    Create {
        /// The resource of the object.
        resource: &'a ApiResource,
        /// The object.
        object: Value,
        /// As in [`PatchOptions`].
        with_status: bool,
    },
    /// Replaces an object; a resourceVersion in it makes the write conditional.
    Update {
        /// The resource of the object.
        resource: &'a ApiResource,
        /// The object.
        object: Value,
    },
    /// Patches an object.
    Patch {
        /// The resource of the object.
        resource: &'a ApiResource,
        /// The key of the object.
        key: &'a ObjectKey,
        /// The change.
        patch: Patch,
        /// How it is written.
        options: PatchOptions,
    },
}

impl<'a> Write<'a> {
    /// A write that creates an object.
    ///
    /// # Errors
    /// [`Error::Encode`] when the object has no JSON form.
    pub fn create(resource: &'a ApiResource, object: &impl Serialize) -> Result<Self> {
        Ok(Self::Create { resource, object: tree("create", object)?, with_status: false })
    }

    /// A write that replaces an object.
    ///
    /// # Errors
    /// As [`Write::create`].
    pub fn update(resource: &'a ApiResource, object: &impl Serialize) -> Result<Self> {
        Ok(Self::Update { resource, object: tree("update", object)? })
    }
}

impl Client {
    /// Stores several writes of different objects in one transaction of a server in this process, and returns the
    /// objects in the order of the writes. `None` if nothing was stored, because one of them was refused, an object has
    /// changed, or the server is remote: the caller then sends them one after another.
    ///
    /// # Errors
    /// When it is unknown whether the writes were stored.
    pub fn write_together<'a>(&'a self, writes: Vec<Write<'a>>) -> BoxFuture<'a, Result<Option<Vec<Arc<Object>>>>> {
        Box::pin(async move {
            if !self.takes_drafts() || writes.len() < 2 {
                return Ok(None);
            }
            let requests = writes.into_iter().map(|write| self.part(write)).collect::<Result<Vec<_>>>()?;
            let Some(first) = requests.first() else { return Ok(None) };
            let path = first.uri().path().to_owned();
            let mut request = codec::request(first.method().clone(), &path, bytes::Bytes::new(), "")?;
            let attempt = codec::attempt(&request);
            request.extensions_mut().insert(Together::new(requests));
            match self.answer(request, MAX_OBJECT_BYTES).await {
                Ok(Answer::Payload(Payload::Together(objects))) => Ok(Some(objects)),
                Ok(_) => Err(Error::unexpected(&attempt, "no objects")),
                Err(error) if error.is_conflict() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// The request that one of the writes would be.
    fn part(&self, write: Write<'_>) -> Result<Request> {
        let (verb, resource, mut request) = match write {
            Write::Create { resource, object, with_status } => {
                let namespace = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
                let path = resource.collection_path(namespace);
                let mut request = self.writing(Method::POST, &path, Cow::Owned(object), "application/json")?;
                if with_status {
                    request.extensions_mut().insert(WithStatus);
                }
                ("create", resource, request)
            }
            Write::Update { resource, object } => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let path = path_of(resource, &ObjectKey::namespaced(text("namespace"), text("name")), None)?;
                ("update", resource, self.writing(Method::PUT, &path, Cow::Owned(object), "application/json")?)
            }
            Write::Patch { resource, key, patch, options } => {
                let path = path_of(resource, key, options.subresource)?;
                let (path, content_type) = (options.query(&patch).after(&path), patch.content_type());
                let verb = if options.subresource == Some("status") { "patch_status" } else { "patch" };
                let mut request = self.writing(Method::PATCH, &path, Cow::Owned(patch.into_value()), content_type)?;
                if options.with_status {
                    request.extensions_mut().insert(WithStatus);
                }
                (verb, resource, request)
            }
        };
        self.0.counts.add(verb, resource);
        request.headers_mut().insert(http::header::USER_AGENT, self.0.user_agent.clone());
        request.extensions_mut().insert(AcceptPayload);
        Ok(request)
    }
}
