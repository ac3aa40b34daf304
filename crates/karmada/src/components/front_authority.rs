//! The authorities of the API server in front: a renewed one is trusted without a restart.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use apimachinery::{ApiResource, ObjectKey};
use apiserver::auth::authn::ClientAuthority;
use client::Client;
use controller_runtime::{Event, InformerSet, Selection};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::certificates::Changes;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// For file systems that report no changes.
const LONGEST: Duration = Duration::from_hours(24);

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

/// The authorities that the API server in front publishes.
///
/// # Errors
/// The ConfigMap cannot be read, or names no authority.
pub async fn read(control: &Client) -> anyhow::Result<Published> {
    let key = ObjectKey::namespaced(NAMESPACE, NAME);
    let found =
        control.get(&config_maps(), &key).await.context("reading the certificate authority of front proxies")?;
    published(&found.to_value()?)
}

/// The ConfigMap that kube-apiserver publishes for aggregated servers.
#[derive(Debug, PartialEq)]
pub struct Published {
    pub authority: String,
    pub names: Vec<String>,
}

fn published(config_map: &Value) -> anyhow::Result<Published> {
    let text = |key: &str| config_map["data"][key].as_str().unwrap_or_default().to_owned();
    let authority = text("requestheader-client-ca-file");
    anyhow::ensure!(
        !authority.is_empty(),
        "ConfigMap kube-system/extension-apiserver-authentication names no requestheader-client-ca-file; give \
         --requestheader-client-ca-file"
    );
    let names = text("requestheader-allowed-names");
    let names =
        if names.is_empty() { Vec::new() } else { serde_json::from_str(&names).context("its allowed names")? };
    Ok(Published { authority, names })
}

/// The source of the authorities.
pub enum Origin {
    /// `--requestheader-client-ca-file`, and its content when it was last read.
    File { path: PathBuf, last: String },
    /// The ConfigMap that the API server in front publishes.
    Published(Client),
}

/// The authorities and their source.
pub struct Following {
    pub origin: Origin,
    pub authority: ClientAuthority,
    pub world: World,
}

impl Following {
    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let Self { origin, authority, world } = self;
        match origin {
            Origin::File { path, last } => follow_file(path, last, &authority, &stop).await,
            Origin::Published(control) => {
                let selection = Selection {
                    namespace: Some(NAMESPACE.to_owned()),
                    field_selector: Some(format!("metadata.name={NAME}")),
                    ..Selection::default()
                };
                let informers = InformerSet::until(control, world, stop.clone());
                informers.selected(&config_maps(), selection).subscribe(move |event| note(&authority, event));
                stop.cancelled().await;
            }
        }
    }
}

/// A missing or unreadable ConfigMap is ignored.
fn note(authority: &ClientAuthority, event: &Event) {
    if matches!(event, Event::Deleted(_)) {
        return;
    }
    let found = event.object().to_value().map_err(anyhow::Error::from).and_then(|object| published(&object));
    match found {
        Ok(found) => replace(authority, &found.authority),
        Err(error) => unusable(&error),
    }
}

async fn follow_file(path: PathBuf, mut last: String, authority: &ClientAuthority, stop: &CancellationToken) {
    let directory = path.parent().map(PathBuf::from).unwrap_or_default();
    let mut changes = Changes::of(&[directory]);
    loop {
        match std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display())) {
            Ok(text) if text == last => {}
            Ok(text) => {
                replace(authority, &text);
                last = text;
            }
            Err(error) => unusable(&error),
        }
        if !changes.settled(LONGEST, stop).await {
            return;
        }
    }
}

fn replace(authority: &ClientAuthority, bundle: &str) {
    match authority.replace(bundle) {
        Ok(()) => tracing::info!("Authorities of the front proxy were read"),
        Err(error) => unusable(&anyhow::Error::from(error)),
    }
}

fn unusable(error: &anyhow::Error) {
    tracing::warn!(
        err = format!("{error:#}"),
        "Authorities of the front proxy cannot be read; the present ones are used"
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_published_authority_is_read() {
        let of = |data: Value| published(&json!({ "data": data })).map_err(|error| error.to_string());
        let both = json!({"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": "[\"front\"]"});
        assert_eq!(of(both), Ok(Published { authority: "PEM".into(), names: vec!["front".into()] }));
        let authority_only = of(json!({"requestheader-client-ca-file": "PEM"}));
        assert_eq!(authority_only, Ok(Published { authority: "PEM".into(), names: Vec::new() }));
        assert!(of(json!({})).is_err_and(|error| error.contains("--requestheader-client-ca-file")));
    }
}
