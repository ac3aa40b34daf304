//! Lists of objects, decoded page by page.

use std::sync::Arc;

use apimachinery::{ApiResource, Object};
use client::{Client, ListOptions};

use crate::error::Error;
use crate::paging;

pub async fn list<T, E: std::fmt::Display>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    decode: impl Fn(&Arc<Object>) -> Result<T, E>,
) -> Result<Vec<T>, Error> {
    matching(client, resource, namespace, ListOptions::default(), decode).await
}

/// The objects of a list, page by page, that the selectors of `selecting` match.
pub async fn matching<T, E: std::fmt::Display>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    selecting: ListOptions,
    decode: impl Fn(&Arc<Object>) -> Result<T, E>,
) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    each(client, resource, namespace, selecting, decode, |one| found.push(one)).await?;
    Ok(found)
}

/// Passes each object of a list, page by page, to `take`.
pub async fn each<T, E: std::fmt::Display>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    selecting: ListOptions,
    decode: impl Fn(&Arc<Object>) -> Result<T, E>,
    mut take: impl FnMut(T),
) -> Result<(), Error> {
    let attempt = format!("list {}", resource.plural);
    let failed = |error| Error::client(attempt.as_str())(error);
    paging::each(client, resource, namespace, selecting, failed, |object| {
        let one = decode(object);
        take(one.map_err(|error| Error::message(format!("{} {}: {error}", resource.kind, object.key())))?);
        Ok(())
    })
    .await
}
