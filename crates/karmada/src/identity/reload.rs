//! Files that are read again when they change. A file that cannot be used is refused: the last valid one stays in
//! effect.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use metrics::{Counters, Description, Registry};
use tokio_util::sync::CancellationToken;

use crate::certificates::Changes;

const AUTHENTICATION: Description = Description::counter(
    "apiserver_authentication_config_controller_automatic_reloads_total",
    &["status"],
    "Reloads of --authentication-config: success, failure.",
);
const AUTHORIZATION: Description = Description::counter(
    "apiserver_authorization_config_controller_automatic_reloads_total",
    &["status"],
    "Reloads of --authorization-config: success, failure.",
);
const ENCRYPTION: Description = Description::counter(
    "apiserver_encryption_config_controller_automatic_reloads_total",
    &["status"],
    "Reloads of --encryption-provider-config: success, failure.",
);
pub const METRICS: &[Description] = &[AUTHENTICATION, AUTHORIZATION, ENCRYPTION];

/// For file systems that report no changes.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Authentication,
    Authorization,
    Encryption,
    Tokens,
}

impl Kind {
    fn flag(self) -> &'static str {
        match self {
            Self::Authentication => "--authentication-config",
            Self::Authorization => "--authorization-config",
            Self::Encryption => "--encryption-provider-config",
            Self::Tokens => "--token-auth-file",
        }
    }

    /// `None` where kube-apiserver has no metric.
    fn metric(self) -> Option<&'static Description> {
        match self {
            Self::Authentication => Some(&AUTHENTICATION),
            Self::Authorization => Some(&AUTHORIZATION),
            Self::Encryption => Some(&ENCRYPTION),
            Self::Tokens => None,
        }
    }
}

/// A configuration that follows its file.
pub trait Followed: Send {
    fn kind(&self) -> Kind;

    fn file(&self) -> PathBuf;

    /// Takes the file's configuration if it has changed. Returns whether it has.
    fn reload(&mut self) -> BoxFuture<'_, anyhow::Result<bool>>;
}

/// Reloads until `stop`.
pub async fn follow(mut followed: Vec<Box<dyn Followed>>, registry: Registry, stop: CancellationToken) {
    let parents: Vec<PathBuf> = followed.iter().filter_map(|it| Some(it.file().parent()?.to_owned())).collect();
    let counters: Vec<Option<Counters>> =
        followed.iter().map(|it| it.kind().metric().map(|metric| registry.counters(metric))).collect();
    let count = |counters: &Option<Counters>, status| counters.iter().for_each(|it| it.increment(&[status]));
    let mut changes = Changes::of(&parents);
    // A file may have changed since the start read it.
    loop {
        for (followed, counters) in followed.iter_mut().zip(&counters) {
            let (flag, file) = (followed.kind().flag(), followed.file());
            match followed.reload().await {
                Ok(true) => {
                    count(counters, "success");
                    tracing::info!(flag, file = %file.display(), "Configuration was reloaded");
                }
                Ok(false) => {}
                Err(error) => {
                    count(counters, "failure");
                    let err = format!("{error:#}");
                    tracing::error!(flag, err, "Configuration cannot be reloaded; the last valid one stays in effect");
                }
            }
        }
        if !changes.settled(LONGEST, &stop).await {
            return;
        }
    }
}

/// The content of a file at the last attempt: an unchanged file is not tried again.
#[derive(Default)]
pub struct LoadedContent(Option<Vec<u8>>);

impl LoadedContent {
    pub fn new(content: Vec<u8>) -> Self {
        Self(Some(content))
    }

    /// Whether the content is new.
    pub fn takes(&mut self, content: &[u8]) -> bool {
        let is_new = self.0.as_deref() != Some(content);
        if is_new {
            self.0 = Some(content.to_vec());
        }
        is_new
    }
}
