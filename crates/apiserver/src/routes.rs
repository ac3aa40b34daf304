//! The routes every server has besides its resources: access and token reviews, service account tokens and
//! the documents that let others verify them.

mod documents;

use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::{ObjectKey, Status};
use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde_json::Value;
use transport::{Identity, Request, Response};

pub use documents::Documents;

use crate::auth::reviews;
use crate::auth::tokens::{self, Issuer};
use crate::errors::method_not_allowed;
use crate::flow::FlowControl;
use crate::handlers::{ownership, review};
use crate::request::RequestInfo;
use crate::state::{Route, Shared};
use crate::wire::body;
use crate::wire::{respond, warnings};

/// The review kinds of `authentication.k8s.io` and `authorization.k8s.io`: answered, never stored.
#[derive(Debug)]
pub struct Reviews;

impl Route for Reviews {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.is_resource
            && info.version == "v1"
            && matches!(info.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
            && info.resource.ends_with("reviews")
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if request.method() != Method::POST {
                return Err(method_not_allowed());
            }
            let (parts, content) = request.into_parts();
            let (review, warnings) = review::read(server, info, user, &parts, content).await?;
            let authorizer = server.authorizer.as_ref();
            let answer: Value = match info.resource.as_str() {
                "subjectaccessreviews" => reviews::subject_access_review(authorizer, review).await?,
                "localsubjectaccessreviews" => {
                    reviews::local_subject_access_review(authorizer, &info.namespace, review).await?
                }
                "selfsubjectaccessreviews" => reviews::self_subject_access_review(authorizer, user, review).await?,
                "selfsubjectrulesreviews" => reviews::self_subject_rules_review(authorizer, user, review)?,
                "selfsubjectreviews" => reviews::self_subject_review(user, review, Time::new(server.world.now())),
                "tokenreviews" => {
                    let now = server.world.now().as_second();
                    reviews::token_review(&server.authentication, review, now).await?
                }
                _ => return Err(crate::errors::no_such_resource()),
            };
            let mut response = respond::negotiated(StatusCode::CREATED, &answer, &parts.headers);
            warnings::warn(&mut response, &warnings);
            Ok(response)
        })
    }
}

/// `serviceaccounts/NAME/token`, and the issuer's public documents.
#[derive(Debug)]
pub struct Tokens {
    /// Issues the tokens.
    pub issuer: Issuer,
    /// The keys in the public documents.
    pub verifier: Arc<pki::Verifier>,
    /// Where clients find the keys, if not at the issuer (`--service-account-jwks-uri`).
    pub jwks_uri: Option<String>,
}

impl Tokens {
    async fn issue(&self, server: &Shared, info: &RequestInfo, request: Request) -> Result<Response, Status> {
        if request.method() != Method::POST {
            return Err(method_not_allowed());
        }
        let (parts, content) = request.into_parts();
        let mut requested = body::decode(&parts.headers, &body::read(content).await?)?;
        server.cache.catch_up().await?;
        let find = |plural: &str, key: ObjectKey| {
            let found = server.cache.resource(&crate::cache::keys::group_resource("", plural)).get(&key)?;
            found.ok_or_else(|| Status::not_found("", plural, key.name()))
        };
        let account = find("serviceaccounts", ObjectKey::namespaced(info.namespace.as_str(), info.name.as_str()))?;
        let bound = &requested["spec"]["boundObjectRef"];
        let name = bound["name"].as_str().unwrap_or_default();
        let bound = match bound["kind"].as_str() {
            Some("Pod") => Some(find("pods", ObjectKey::namespaced(info.namespace.as_str(), name))?),
            Some("Secret") => Some(find("secrets", ObjectKey::namespaced(info.namespace.as_str(), name))?),
            Some("Node") => Some(find("nodes", ObjectKey::cluster(name))?),
            _ => None,
        };
        let manager = ownership::manager(info, &parts.headers);
        tokens::complete(&mut requested, &manager, Time::new(server.world.now()));
        let warning = self.issuer.shorten(&mut requested);
        let answer = self.issuer.issue(&account, bound.as_deref(), requested, &server.world)?;
        let mut response = respond::negotiated(StatusCode::CREATED, &answer, &parts.headers);
        warnings::warn(&mut response, warning.as_slice());
        Ok(response)
    }
}

/// A public document about the server's keys. It may be cached for an hour.
fn public(document: &Value, media_type: &'static str) -> Response {
    let mut response = respond::value(StatusCode::OK, document);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

impl Route for Tokens {
    fn takes(&self, info: &RequestInfo) -> bool {
        matches!(info.path.as_str(), "/.well-known/openid-configuration" | "/openid/v1/jwks")
            || (info.group.is_empty() && info.resource == "serviceaccounts" && info.subresource == "token")
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if !info.is_resource && request.method() != Method::GET {
                return Err(method_not_allowed());
            }
            match info.path.as_str() {
                "/openid/v1/jwks" => {
                    let keys = self.verifier.key_set().map_err(Status::internal)?;
                    Ok(public(&keys, "application/jwk-set+json"))
                }
                "/.well-known/openid-configuration" => {
                    let own = || format!("{}/openid/v1/jwks", self.issuer.url.trim_end_matches('/'));
                    let keys = self.jwks_uri.clone().unwrap_or_else(own);
                    let document = tokens::discovery(&self.issuer.url, &keys, &self.verifier);
                    Ok(public(&document, "application/json"))
                }
                _ => self.issue(server, info, request).await,
            }
        })
    }
}

/// `/debug/api_priority_and_fairness/`.
pub(crate) struct Dumps(pub Arc<FlowControl>);

impl Route for Dumps {
    fn takes(&self, info: &RequestInfo) -> bool {
        self.0.dumps(&info.path)
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if request.method() != Method::GET {
                return Err(method_not_allowed());
            }
            Ok(respond::text(self.0.dump(info, server.world.now())))
        })
    }
}
