//! The routes every server has besides its resources: access and token reviews, service account tokens and
//! the documents that let others verify them.

use std::sync::Arc;

use apimachinery::{ObjectKey, Status};
use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use serde_json::Value;
use transport::{Identity, Request, Response};

use crate::handlers::{body, method_not_allowed, review};
use crate::request::RequestInfo;
use crate::server::{Route, Shared};
use crate::tokens::{self, Issuer};
use crate::{respond, reviews};

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
                "subjectaccessreviews" => reviews::subject_access_review(authorizer, review)?,
                "localsubjectaccessreviews" => {
                    reviews::local_subject_access_review(authorizer, &info.namespace, review)?
                }
                "selfsubjectaccessreviews" => reviews::self_subject_access_review(authorizer, user, review)?,
                "selfsubjectrulesreviews" => reviews::self_subject_rules_review(authorizer, user, review)?,
                "selfsubjectreviews" => reviews::self_subject_review(user, review),
                "tokenreviews" => {
                    let now = server.world.now().as_second();
                    reviews::token_review(&server.authentication, review, now).await?
                }
                _ => return Err(crate::handlers::no_such_resource()),
            };
            let mut response = respond::negotiated(StatusCode::CREATED, &answer, &parts.headers);
            respond::warn(&mut response, &warnings);
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
}

impl Tokens {
    async fn issue(&self, server: &Shared, info: &RequestInfo, request: Request) -> Result<Response, Status> {
        if request.method() != Method::POST {
            return Err(method_not_allowed());
        }
        let (parts, content) = request.into_parts();
        let wanted = body::decode(&parts.headers, &body::read(content).await?)?;
        server.cache.catch_up().await?;
        let find = |plural: &str, key: ObjectKey| {
            let found = server.cache.resource(&crate::keys::group_resource("", plural)).get(&key)?;
            found.ok_or_else(|| Status::not_found("", plural, &key.name))
        };
        let account = find("serviceaccounts", ObjectKey::namespaced(info.namespace.as_str(), info.name.as_str()))?;
        let bound = &wanted["spec"]["boundObjectRef"];
        let name = bound["name"].as_str().unwrap_or_default();
        let bound = match bound["kind"].as_str() {
            Some("Pod") => Some(find("pods", ObjectKey::namespaced(info.namespace.as_str(), name))?),
            Some("Secret") => Some(find("secrets", ObjectKey::namespaced(info.namespace.as_str(), name))?),
            Some("Node") => Some(find("nodes", ObjectKey::cluster(name))?),
            _ => None,
        };
        let answer = self.issuer.issue(&account, bound.as_deref(), wanted, &server.world)?;
        Ok(respond::negotiated(StatusCode::CREATED, &answer, &parts.headers))
    }
}

/// A public document about the server's keys. It may be kept for an hour.
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
            match info.path.as_str() {
                "/openid/v1/jwks" => {
                    let keys = self.verifier.key_set().map_err(Status::internal)?;
                    Ok(public(&keys, "application/jwk-set+json"))
                }
                "/.well-known/openid-configuration" => {
                    let keys = format!("{}/openid/v1/jwks", self.issuer.url.trim_end_matches('/'));
                    let document = tokens::discovery(&self.issuer.url, &keys, &self.verifier);
                    Ok(public(&document, "application/json"))
                }
                _ => self.issue(server, info, request).await,
            }
        })
    }
}
