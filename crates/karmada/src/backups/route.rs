//! The server's URLs for backups: `GET /karmada/store/backup`, and `/karmada/store/backup/with-keys`, which adds the
//! keys of the data directory. They are not resources: a role grants each by `nonResourceURLs`, and system:masters has
//! both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use apimachinery::{Status, StatusReason};
use apiserver::request::RequestInfo;
use apiserver::{Route, Shared, method_not_allowed};
use bytes::Bytes;
use futures::future::BoxFuture;
use storage::embedded::EmbeddedStore;
use storage::embedded::backup::Backup;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use transport::{BoxError, Identity, Request, Response};

use super::keys;

/// The path of backups.
pub const URL: &str = "/karmada/store/backup";
pub const URL_WITH_KEYS: &str = "/karmada/store/backup/with-keys";
/// The media type of the body.
pub const TYPE: &str = "application/vnd.karmada.backup";

/// The maximum number of concurrent backups. Each uses a few buffers of a megabyte, and retains history.
const AT_ONCE: usize = 2;
/// A client that reads nothing for this long is disconnected, because its backup retains history.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves backups of the store.
pub struct Backups {
    store: EmbeddedStore,
    data_dir: PathBuf,
    slots: Arc<Semaphore>,
}

impl Backups {
    pub fn new(store: EmbeddedStore, data_dir: &Path) -> Self {
        Self { store, data_dir: data_dir.to_owned(), slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    async fn answer(&self, server: &Shared, user: &Identity, with_keys: bool) -> Result<Response, Status> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let why = format!("{AT_ONCE} backups are being taken; retry when one has ended");
            Status::failure(StatusReason::TooManyRequests, why)
        })?;
        if let Some(damage) = self.store.damages().first() {
            let why = format!("no backup is taken of a damaged store: {damage}; restore it from an earlier backup");
            return Err(Status::internal(why));
        }
        let data_dir = self.data_dir.clone();
        let files = match with_keys {
            true => tokio::task::spawn_blocking(move || keys::read(&data_dir)).await.context("reading the keys"),
            false => Ok(Ok(Vec::new())),
        };
        let files = files.flatten().map_err(|error| Status::internal(format!("{error:#}")))?;
        let backup = self.store.backup(server.world.now().into(), files);
        let backup = backup.map_err(|error| Status::internal(error.to_string()))?;
        tracing::info!(user = user.user, revision = backup.header().revision, with_keys, "Sending a backup");
        let (pieces, received) = mpsc::channel(1);
        tokio::spawn(send(backup, pieces, server.ending(), slot));
        let frames = futures::stream::unfold(received, async |mut received| Some((received.recv().await?, received)));
        let mut response = http::Response::new(transport::stream(frames));
        response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(TYPE));
        Ok(response)
    }
}

/// Sends pieces as they are read; ends if the client disconnects or is slow, or the server stops.
async fn send(
    mut backup: Backup,
    pieces: mpsc::Sender<Result<Bytes, BoxError>>,
    ending: CancellationToken,
    slot: OwnedSemaphorePermit,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = ending.cancelled() => Err("the server stops".to_owned()),
            next = backup.piece() => next.map_err(|error| error.to_string()),
        };
        let (piece, last) = match next {
            Ok(Some(piece)) => (piece, false),
            Ok(None) => break,
            Err(why) => {
                tracing::error!(error = why, "A backup cannot be completed");
                (backup.abort(&why), true)
            }
        };
        match tokio::time::timeout(PATIENCE, pieces.send(Ok(piece))).await {
            Ok(Ok(())) if !last => {}
            Ok(_) => break,
            Err(_) => {
                tracing::warn!(seconds = PATIENCE.as_secs(), "A client took nothing of a backup and is cut off");
                break;
            }
        }
    }
    drop(slot);
}

impl Route for Backups {
    fn takes(&self, info: &RequestInfo) -> bool {
        !info.is_resource && [URL, URL_WITH_KEYS].contains(&info.path.as_str())
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if request.method() != http::Method::GET {
                return Err(method_not_allowed());
            }
            self.answer(server, user, info.path == URL_WITH_KEYS).await
        })
    }
}
