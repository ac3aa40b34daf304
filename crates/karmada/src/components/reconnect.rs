//! Kubeconfigs, and certificates that they name, that change while a component runs: it reconnects with the new
//! credentials. Requests in flight continue on the previous connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{Client, Switch};
use futures::future::BoxFuture;
use world::Level;

use crate::certificates::Changes;

/// Connects with the files, or with the given kubeconfig.
pub type Connect = Box<dyn Fn(Option<Arc<str>>) -> BoxFuture<'static, client::Result<Client>> + Send + Sync>;

/// The files to follow: the kubeconfig, and those that it names at the moment.
pub type Followed = Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>;

/// A client that follows its kubeconfig's `files`, which an administrator or the kubelet changes, and `rotated`, which
/// takes precedence where a component renews its credentials.
pub fn following(client: &Client, files: Followed, rotated: Arc<Level<Option<Arc<str>>>>, connect: Connect) -> Client {
    let Some((client, switch)) = client.switchable() else { return client.clone() };
    tokio::spawn(follow(files, rotated, switch, connect));
    client
}

async fn follow(followed: Followed, rotated: Arc<Level<Option<Arc<str>>>>, switch: Switch, connect: Connect) {
    let mut files = followed();
    let mut changes = changes_of(&files);
    let (mut known, mut last) = (read(&files), None);
    loop {
        let next = tokio::select! {
            biased;
            next = rotated.wait_for(|now| *now != last) => {
                last = next.clone();
                next
            }
            () = changes.next() => {
                // Watched before they are read: no change in between is lost.
                while files != followed() {
                    files = followed();
                    changes = changes_of(&files);
                }
                let read = read(&files);
                // A file that is being replaced is read with the next change.
                let is_replaced = known.iter().zip(&read).any(|(known, read)| known.is_some() && read.is_none());
                if read == known || is_replaced {
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

fn changes_of(files: &[PathBuf]) -> Changes {
    let parents: Vec<PathBuf> = files.iter().filter_map(|file| file.parent().map(Path::to_owned)).collect();
    Changes::of(&parents)
}

fn read(files: &[PathBuf]) -> Vec<Option<String>> {
    files.iter().map(|file| std::fs::read_to_string(file).ok()).collect()
}

#[cfg(test)]
mod tests {
    use client::kubeconfig::Places;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    async fn reconnected(connections: &mut UnboundedReceiver<()>) {
        let next = tokio::time::timeout(std::time::Duration::from_secs(30), connections.recv());
        next.await.expect("a connection").expect("the client is followed");
    }

    #[tokio::test]
    async fn certificates_that_a_kubeconfig_names_are_followed() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let file = folder.path().join("config");
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
        let naming = |certificate: &Path| {
            let text = format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
                 clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
                 users: [{{name: u, user: {{client-certificate: '{0}', client-key: '{0}'}}}}]\n",
                certificate.display()
            );
            write(&file, &text);
        };
        let (first, second) = (other.path().join("first"), folder.path().join("second"));
        write(&first, "1");
        write(&second, "1");
        naming(&first);
        let places = Places::of_component("--kubeconfig", Some(file.clone()));
        let client = Client::from_flags(&places, None).await.expect("a client");
        let (sender, mut connections) = unbounded_channel();
        let connect: Connect = Box::new(move |_| {
            let (client, sender) = (client.clone(), sender.clone());
            Box::pin(async move {
                let _ = sender.send(());
                Ok(client)
            })
        });
        let client = Client::from_flags(&places, None).await.expect("a client");
        let followed = places.clone();
        let _client = following(&client, Box::new(move || followed.followed(None)), Default::default(), connect);
        // The task watches the files before it waits for the first time.
        tokio::task::yield_now().await;
        write(&first, "2");
        reconnected(&mut connections).await;
        naming(&second);
        reconnected(&mut connections).await;
        write(&second, "2");
        reconnected(&mut connections).await;
    }
}
