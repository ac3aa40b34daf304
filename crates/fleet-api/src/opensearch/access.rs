//! The credentials for a service, read from its Secret again whenever that changes.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use controller_runtime::{Informer, InformerSet, Selection};
use tokio::sync::{Notify, watch};
use tokio::time::{Duration, timeout};

use super::report::Report;
use super::service::Access;
use super::wanted::Backend;

/// How long the first read of a Secret takes before the reason is reported.
const PATIENCE: Duration = Duration::from_secs(10);

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

fn selection((namespace, name): &(String, String)) -> Selection {
    Selection {
        namespace: Some(namespace.clone()),
        field_selector: Some(format!("metadata.name={name}")),
        ..Selection::default()
    }
}

/// Ends the watch of a Secret.
pub(super) fn forget(control: &InformerSet, secret: &(String, String)) {
    control.stop_selected(&secrets(), &selection(secret));
}

/// Sends the credentials of a service to its writer, and their changes.
pub(super) async fn follow(
    control: InformerSet,
    backend: Backend,
    report: Report,
    access: watch::Sender<Option<Access>>,
) {
    let Some(secret) = backend.secret.clone() else {
        report_unverified(&backend, &Access::default());
        access.send_replace(Some(Access::default()));
        return access.closed().await;
    };
    let informer = control.selected(&secrets(), selection(&secret));
    let changed = Arc::new(Notify::new());
    let wake = Arc::downgrade(&changed);
    informer.subscribe(move |_| {
        if let Some(changed) = wake.upgrade() {
            changed.notify_one();
        }
    });
    let mut reported = String::new();
    loop {
        match timeout(PATIENCE, informer.synced()).await {
            Ok(true) => break,
            // The service has ended.
            Ok(false) => return,
            Err(_) => {}
        }
        let why = informer.trouble().unwrap_or_else(|| "the control plane does not answer".to_owned());
        if why != reported {
            let (namespace, name) = &secret;
            let message = format!(
                "Secret {namespace}/{name} with the credentials for OpenSearch cannot be read: {why}; nothing is written \
                 before"
            );
            report.warn("OpenSearchSecret", &message);
            reported = why;
        }
    }
    loop {
        let found = read(&informer, &secret, &report);
        let is_new = access.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&found);
            *known = Some(found.clone());
            is_new
        });
        if is_new {
            report_unverified(&backend, &found);
        }
        tokio::select! {
            () = changed.notified() => {}
            () = access.closed() => return,
        }
    }
}

/// Without usable credentials, requests are sent without them, as upstream does: a service may require none.
fn read(informer: &Informer, (namespace, name): &(String, String), report: &Report) -> Access {
    let problem = match informer.cache().get(&ObjectKey::namespaced(namespace.as_str(), name.as_str())) {
        None => "does not exist".to_owned(),
        Some(secret) => match Access::of(&secret) {
            Ok(access) if access.has_user() => return access,
            Ok(access) => {
                tracing::info!(secret = %format!("{namespace}/{name}"), "Secret for OpenSearch has no username");
                return access;
            }
            Err(why) => format!("is invalid: {why}"),
        },
    };
    let message = format!(
        "Secret {namespace}/{name} with the credentials for OpenSearch {problem}; requests have no credentials; \
         create it with the keys username and password"
    );
    report.warn("OpenSearchSecret", &message);
    Access::default()
}

fn report_unverified(backend: &Backend, access: &Access) {
    let is_https = backend.addresses.iter().any(|address| address.starts_with("https:"));
    if is_https && access.authorities.is_none() {
        let message = "The certificate of OpenSearch is not verified: its Secret has no key ca.crt";
        tracing::warn!(addresses = ?hosts(backend), "{message}");
    }
}

/// Addresses without passwords.
fn hosts(backend: &Backend) -> Vec<String> {
    backend.addresses.iter().map(|address| super::service::without_user(address).0).collect()
}
