//! The state that the controllers of one server share.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::Time;
use client::{Client, Mapper};
use controller_runtime::InformerSet;
use pki::{Authority, Signers};
use tokio_util::sync::CancellationToken;
use world::Level;

/// The inputs of the controllers besides the API. A controller without its input does not run, because it cannot
/// compute its output. Each input may change while the controllers run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The authority of the server's certificate, for `kube-root-ca.crt` and token Secrets (`--root-ca-file`).
    pub root_ca_pem: Option<Arc<Level<Arc<str>>>>,
    /// Signs the tokens in Secrets (`--service-account-private-key-file`).
    pub token_signer: Option<Arc<Signers>>,
    /// Signs certificate requests (`--cluster-signing-cert-file`, `--cluster-signing-key-file`).
    pub signing_authority: Option<Arc<Level<Arc<Authority>>>>,
    /// The maximum lifetime of a signed certificate (`--cluster-signing-duration`), a year by default.
    pub signing_duration: Duration,
    /// Concurrent reconciles per controller. Upstream gives most controllers 5 workers and the garbage collector 20.
    pub workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            root_ca_pem: None,
            token_signer: None,
            signing_authority: None,
            signing_duration: Duration::from_secs(365 * 24 * 3600),
            workers: 10,
        }
    }
}

/// The context of the controllers. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub(crate) client: Client,
    pub(crate) informers: InformerSet,
    pub(crate) settings: Arc<Settings>,
    pub(crate) mapper: Mapper,
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Calls `queue_all` when the root CA changes, until the controllers stop.
    pub(crate) fn on_new_root_ca(&self, queue_all: impl Fn() + Send + 'static) {
        let (root, stop) = (self.settings.root_ca_pem.clone(), self.stop.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            let Some(root) = root else { return };
            let mut known = root.get();
            loop {
                known = root.wait_for(|now| *now != known).await;
                queue_all();
            }
        }));
    }

    /// The time in the API's format.
    pub(crate) fn now(&self) -> Time {
        Time::new(self.informers.world().now())
    }
}
