//! Requests in kubectl's form: query parameters for the field manager, dry runs and validation; the server's warnings
//! go to stderr.

use apimachinery::url::{Query, segment};
use apimachinery::{ApiResource, ObjectKey, Status, StatusReason};
use client::Client;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use crate::{Context, answers};

pub const JSON: &str = "application/json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The largest list that a server of many thousand objects answers in one page.
const MAX_BYTES: usize = 64 << 20;

/// The options that the writes of one command share.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub field_manager: String,
    pub dry_run: bool,
    /// `Strict`, `Warn` or `Ignore`; `None` leaves the choice to the server.
    pub validation: Option<&'static str>,
}

impl WriteOptions {
    pub fn query(&self) -> Query {
        Query::default()
            .with_some("dryRun", self.dry_run.then_some("All"))
            .with_some("fieldManager", Some(&self.field_manager))
            .with_some("fieldValidation", self.validation)
    }
}

/// A request and its answer, read whole. No time-out applies, as in kubectl.
///
/// # Errors
/// The server's Status when it refuses.
pub fn send<'a>(
    context: &'a Context,
    client: &'a Client,
    method: Method,
    path: &'a str,
    body: Option<(&'a str, Vec<u8>)>,
) -> BoxFuture<'a, Result<Value, client::Error>> {
    Box::pin(async move {
        let attempt = attempt(&method, path);
        let bytes = raw(context, client, method, path, body).await?;
        answers::decode(&attempt, &bytes)
    })
}

/// How errors name a request.
fn attempt(method: &Method, path: &str) -> String {
    format!("{method} {}", path.split('?').next().unwrap_or(path))
}

/// As [`send`], for answers of any form.
///
/// # Errors
/// The server's Status when it refuses.
pub fn raw<'a>(
    context: &'a Context,
    client: &'a Client,
    method: Method,
    path: &'a str,
    body: Option<(&'a str, Vec<u8>)>,
) -> BoxFuture<'a, Result<bytes::Bytes, client::Error>> {
    // Boxed: the compiler cannot prove callers' futures `Send` through the nested ones.
    Box::pin(async move {
        let attempt = attempt(&method, path);
        let request = request(method, path, body)
            .map_err(|error| client::Error::Request { attempt: attempt.clone(), why: error.to_string() })?;
        let (parts, body) = client.send(request).await?.into_parts();
        warnings(&parts.headers).for_each(|text| context.warn(&text));
        let bytes = whole(body).await.map_err(|why| client::Error::Decode { attempt, why })?;
        if parts.status.is_success() { Ok(bytes) } else { Err(refusal(parts.status, &bytes)) }
    })
}

/// A body, read whole. Not an `async fn`: the compiler cannot prove that one `Send`.
pub fn whole(body: transport::Body) -> BoxFuture<'static, Result<bytes::Bytes, String>> {
    let read = Limited::new(body, MAX_BYTES).collect();
    Box::pin(read.map(|whole| whole.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string())))
}

fn request(method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> Result<transport::Request, http::Error> {
    let mut builder = http::Request::builder().method(method).uri(path).header(http::header::ACCEPT, JSON);
    let body = match body {
        Some((content_type, bytes)) => {
            builder = builder.header(http::header::CONTENT_TYPE, content_type);
            transport::full(bytes)
        }
        None => transport::empty(),
    };
    builder.body(body)
}

/// The server's Status, or a constructed one for a response in another form.
pub fn refusal(code: StatusCode, body: &[u8]) -> client::Error {
    if let Ok(mut status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
    {
        if status.code == 0 {
            status.code = code.as_u16();
        }
        return status.into();
    }
    let text: String = String::from_utf8_lossy(body).lines().next().unwrap_or_default().chars().take(200).collect();
    let mut status = Status::unclassified(format!("the server answered {}: {text}", code.as_u16()));
    status.code = code.as_u16();
    if code == StatusCode::NOT_FOUND {
        status.reason = StatusReason::NotFound.as_str().to_owned();
    }
    status.into()
}

fn warnings(headers: &http::HeaderMap) -> impl Iterator<Item = String> {
    headers.get_all(http::header::WARNING).iter().filter_map(|value| warning_text(value.to_str().ok()?))
}

/// The text of a `Warning` header (RFC 7234: `299 - "TEXT"`).
pub fn warning_text(value: &str) -> Option<String> {
    let quoted = value.get(value.find('"')? + 1..value.rfind('"')?)?;
    let mut text = String::with_capacity(quoted.len());
    let mut escaped = false;
    for c in quoted.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            c => {
                text.push(c);
                escaped = false;
            }
        }
    }
    Some(text)
}

/// Reads an object.
///
/// # Errors
/// NotFound, among the others every request can fail with.
pub fn get<'a>(
    context: &'a Context,
    client: &'a Client,
    resource: &'a ApiResource,
    key: &'a ObjectKey,
    subresource: Option<&'a str>,
) -> BoxFuture<'a, Result<Value, client::Error>> {
    Box::pin(
        async move { send(context, client, Method::GET, &client::path_of(resource, key, subresource)?, None).await },
    )
}

/// As [`get`], with the error of [`absent`].
///
/// # Errors
/// NotFound, among the others every request can fail with.
pub async fn get_named(
    context: &Context,
    client: &Client,
    resource: &ApiResource,
    key: &ObjectKey,
    subresource: Option<&str>,
) -> Result<Value, client::Error> {
    match get(context, client, resource, key, subresource).await {
        Err(error) => Err(absent(client, key, error).await),
        found => found,
    }
}

/// `error` of reading the object of `key`, or that its namespace does not exist, which kubectl reports instead.
pub async fn absent(client: &Client, key: &ObjectKey, error: client::Error) -> client::Error {
    let Some(namespace) = key.namespace().filter(|&it| error.is_not_found() && it != "default") else { return error };
    let path = format!("/api/v1/namespaces/{}", segment(namespace));
    client.document(&path, JSON).await.err().filter(client::Error::is_not_found).unwrap_or(error)
}

/// Creates an object; its namespace is that of `key`.
///
/// # Errors
/// The server's refusal.
pub fn create<'a>(
    context: &'a Context,
    client: &'a Client,
    resource: &'a ApiResource,
    key: &'a ObjectKey,
    object: &'a Value,
    options: &'a WriteOptions,
) -> BoxFuture<'a, Result<Value, client::Error>> {
    Box::pin(async move {
        let path = options.query().after(&resource.collection_path(key.namespace()));
        send(context, client, Method::POST, &path, Some((JSON, object.to_string().into_bytes()))).await
    })
}

/// A patch in one of the content types above.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    pub content_type: &'static str,
    pub value: &'a Value,
    pub subresource: Option<&'a str>,
    /// Server-side apply: take fields from other owners.
    pub force: bool,
}

/// # Errors
/// The server's refusal.
pub fn patch<'a>(
    context: &'a Context,
    client: &'a Client,
    resource: &'a ApiResource,
    key: &'a ObjectKey,
    patch: Patch<'a>,
    options: &'a WriteOptions,
) -> BoxFuture<'a, Result<Value, client::Error>> {
    Box::pin(async move {
        let query = options.query().with_some("force", patch.force.then_some("true"));
        let path = query.after(&client::path_of(resource, key, patch.subresource)?);
        let body = patch.value.to_string().into_bytes();
        send(context, client, Method::PATCH, &path, Some((patch.content_type, body))).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_unquoted() {
        for (value, expected) in [
            (r#"299 - "a b""#, Some("a b")),
            (r#"299 host "say \"x\" \\""#, Some(r#"say "x" \"#)),
            ("299 - none", None),
            ("\"", None),
        ] {
            assert_eq!(warning_text(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn queries_are_escaped() {
        let options = WriteOptions { field_manager: "a b".into(), dry_run: true, validation: Some("Strict") };
        assert_eq!(options.query().after("/p"), "/p?dryRun=All&fieldManager=a%20b&fieldValidation=Strict");
        assert_eq!(WriteOptions::default().query().after("/p"), "/p");
    }
}
