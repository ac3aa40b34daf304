//! Lists, page by page: no list of many thousand objects is in memory as one body.

use std::sync::Arc;

use apimachinery::{ApiResource, Object};
use client::{Client, ListOptions};

/// Objects of a page.
const PAGE: usize = 500;

/// Passes every object that `selecting` matches to `take`.
///
/// # Errors
/// A page that cannot be read, by `failed`, and the first error of `take`.
pub async fn each<E>(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    selecting: ListOptions,
    failed: impl Fn(client::Error) -> E,
    mut take: impl FnMut(&Arc<Object>) -> Result<(), E>,
) -> Result<(), E> {
    let mut options = ListOptions { limit: PAGE, ..selecting };
    loop {
        let page = client.list(resource, namespace, &options).await.map_err(&failed)?;
        page.items.iter().try_for_each(&mut take)?;
        if page.continue_token.is_empty() {
            return Ok(());
        }
        options.continue_token = Some(page.continue_token);
    }
}
