//! Log lines about unschedulable bindings: one for each cause, and one when it is resolved.

use std::time::Duration;

use controller_runtime::Failures;
use karmada_api::identity::BindingKey;
use karmada_api::work::v1alpha2::TargetCluster;

pub(crate) struct Journal(Failures<BindingKey>);

impl Default for Journal {
    /// A decision does not change until its input does, so only the first one is logged.
    fn default() -> Self {
        Self(Failures::lasting(Duration::ZERO))
    }
}

impl Journal {
    /// A result was written.
    pub fn scheduled(&self, key: &BindingKey, clusters: &[TargetCluster]) {
        let placed = || clusters.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect::<Vec<_>>().join(" ");
        tracing::debug!(name: "v2", binding = %key, clusters = placed(), "Binding was scheduled");
    }

    /// No clusters were found, or the result was refused.
    pub fn unschedulable(&self, key: &BindingKey, reason: &str, err: &str) {
        if self.0.failed(key, err) {
            tracing::warn!(binding = %key, reason, err, "Binding cannot be scheduled");
        }
    }

    /// The API server did not take a request of the pass.
    pub fn failed(&self, key: &BindingKey, error: &client::Error) {
        // That it does not answer is logged once for all.
        if !error.is_unreachable() && self.0.failed(key, &error.to_string()) {
            tracing::warn!(binding = %key, err = %error, "Scheduling fails and is retried");
        } else {
            tracing::debug!(binding = %key, err = %error, "Scheduling failed");
        }
    }

    pub fn panicked(&self, key: &BindingKey, err: &str) {
        if self.0.failed(key, err) {
            tracing::error!(binding = %key, err, "Scheduling panicked and is retried; report this");
        }
    }

    /// The binding is as it should be.
    pub fn settled(&self, key: &BindingKey) {
        if let Some(lasted) = self.0.succeeded(key) {
            tracing::info!(binding = %key, duration = ?lasted, "Binding is scheduled after failures");
        }
    }

    pub fn forget(&self, key: &BindingKey) {
        self.0.forget(key);
    }
}
