//! TLS to etcd with the certificates of the moment: they are read again for each connection, as kube-apiserver does, because
//! they may have been renewed.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_rustls::TlsConnector;

use crate::endpoint::{Certificates, Renewal, SettingsError};

pub(crate) struct Tls {
    /// Of the last valid certificates.
    last: Mutex<TlsConnector>,
    renewal: Option<Renewal>,
}

impl Tls {
    pub fn new(certificates: &Certificates, renewal: Option<Renewal>) -> Result<Self, SettingsError> {
        Ok(Self { last: Mutex::new(connector(certificates)?), renewal })
    }

    /// For one connection. Files that are being replaced may not fit each other; then the former ones are used once more.
    pub async fn connector(&self) -> TlsConnector {
        if let Some(Renewal(read)) = self.renewal.clone() {
            let read = move || read().and_then(|read| connector(&read).map_err(|error| error.to_string()));
            match tokio::task::spawn_blocking(read).await {
                Ok(Ok(renewed)) => *self.last.lock() = renewed,
                Ok(Err(error)) => {
                    tracing::warn!(
                        err = error,
                        "the certificates for etcd cannot be read again; the former ones are used"
                    );
                }
                // It ends with the runtime.
                Err(_) => {}
            }
        }
        self.last.lock().clone()
    }
}

fn connector(certificates: &Certificates) -> Result<TlsConnector, SettingsError> {
    Ok(TlsConnector::from(Arc::new(certificates.config()?)))
}
