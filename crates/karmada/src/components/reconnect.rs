//! Kubeconfigs that change while a component runs: it reconnects with the new credentials. Requests in flight continue
//! on the previous connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{Client, Switch};
use futures::future::BoxFuture;
use world::Level;

use crate::certificates::Changes;

/// Connects with the files, or with the given kubeconfig.
pub type Connect = Box<dyn Fn(Option<Arc<str>>) -> BoxFuture<'static, client::Result<Client>> + Send + Sync>;

/// A client that follows its kubeconfig `files`, which an administrator or the kubelet changes, and `rotated`, which
/// takes precedence where a component renews its credentials.
pub fn following(
    client: &Client,
    files: Vec<PathBuf>,
    rotated: Arc<Level<Option<Arc<str>>>>,
    connect: Connect,
) -> Client {
    let Some((client, switch)) = client.switchable() else { return client.clone() };
    tokio::spawn(follow(files, rotated, switch, connect));
    client
}

async fn follow(files: Vec<PathBuf>, rotated: Arc<Level<Option<Arc<str>>>>, switch: Switch, connect: Connect) {
    let parents: Vec<PathBuf> = files.iter().filter_map(|file| file.parent().map(Path::to_owned)).collect();
    let mut changes = Changes::of(&parents);
    let (mut known, mut last) = (read(&files), None);
    loop {
        let next = tokio::select! {
            biased;
            next = rotated.wait_for(|now| *now != last) => {
                last = next.clone();
                next
            }
            () = changes.next() => {
                let read = read(&files);
                // A file that is being replaced is read with the next change.
                if read == known || read.iter().any(Option::is_none) {
                    continue;
                }
                known = read;
                None
            }
        };
        let shown = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        match connect(next).await {
            Ok(client) => {
                switch.to(&client);
                tracing::info!(file = shown, "Kubeconfig has changed; reconnecting");
            }
            Err(error) => {
                tracing::warn!(file = shown, err = %error, "Kubeconfig cannot be used; the one before is");
            }
        }
    }
}

fn read(files: &[PathBuf]) -> Vec<Option<String>> {
    files.iter().map(|file| std::fs::read_to_string(file).ok()).collect()
}
