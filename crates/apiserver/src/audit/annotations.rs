//! Annotations of audit events by admission, and about the latency of slow requests.

use std::time::Duration;

use ::audit::Level;
use apimachinery::duration::Duration as GoDuration;

use super::Recording;
use crate::admit::Annotation;

/// The latency of slower requests is recorded.
const SLOW: Duration = Duration::from_millis(500);

impl Recording {
    /// As [`Self::annotate`], for annotations of admission. `waited` is for mutating and for validating webhooks.
    pub fn annotate_admission(&self, annotations: Vec<Annotation>, waited: [Duration; 2]) {
        self.open.lock().waited = waited;
        let has_body = self.level() >= Level::Request;
        let recorded = annotations.into_iter().filter(|annotation| has_body || !annotation.has_body);
        self.annotate(recorded.map(|Annotation { key, value, .. }| (key, value)));
    }

    /// As upstream, the latency of a slow request is recorded with the parts for which others are responsible.
    pub(super) fn annotate_latency(&self) {
        let (total, [mutating, validating]) = {
            let open = self.open.lock();
            (self.world.now().duration_since(open.event.request_received_timestamp), open.waited)
        };
        let total = total.unsigned_abs();
        if total <= SLOW {
            return;
        }
        let parts = [("total", total), ("mutating-webhook", mutating), ("validating-webhook", validating)];
        let present = parts.into_iter().filter(|(_, duration)| !duration.is_zero());
        self.annotate(present.map(|(name, duration)| {
            (format!("apiserver.latency.k8s.io/{name}"), GoDuration::from_std(duration).to_string())
        }));
    }
}
