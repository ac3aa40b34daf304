//! The log lines of requests: slow ones by default, all of them at `-v=6`. A line has the path's resource and the
//! status, never a query, a header or a body.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use transport::Identity;

use crate::request::RequestInfo;

/// kube-apiserver logs the trace of a request that takes this long. Watches and other long-running requests do not
/// count.
const SLOW: Duration = Duration::from_millis(500);

/// The burst of lines, and the time after which one more is allowed. When everything is slow, more lines are useless.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(1);

/// Shared by the requests of one server.
#[derive(Default)]
pub(crate) struct RequestLog(Mutex<Budget>);

impl RequestLog {
    /// Logs the request when the answer is dropped, be it because its caller no longer waits for it.
    pub fn watch<'a>(&'a self, info: &'a RequestInfo, user: &'a Identity, started: Instant) -> Watched<'a> {
        Watched { log: self, info, user, started, status: None }
    }
}

pub(crate) struct Watched<'a> {
    log: &'a RequestLog,
    info: &'a RequestInfo,
    user: &'a Identity,
    started: Instant,
    pub status: Option<u16>,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let duration = self.started.elapsed();
        let (verb, status, user) = (self.info.verb, self.status, self.user.user.as_str());
        let err = status.is_none().then_some("ended without an answer: timed out, or the client left");
        tracing::debug!(name: "v6", verb, path = self.info.path, user, status, ?duration, err, "Request");
        if duration < SLOW || self.info.is_long_running() {
            return;
        }
        let Some(suppressed) = self.log.0.lock().take(Instant::now()) else { return };
        let suppressed = (suppressed > 0).then_some(suppressed);
        let duration = Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        let (resource, object, path) = subject(self.info);
        tracing::warn!(verb, resource, object, path, user, status, ?duration, err, suppressed, "Slow request");
    }
}

/// `PLURAL.GROUP/SUBRESOURCE` and `NAMESPACE/NAME`; the path where it is no resource's.
fn subject(info: &RequestInfo) -> (Option<String>, Option<String>, Option<&str>) {
    if !info.is_resource {
        return (None, None, Some(&info.path));
    }
    let mut resource = info.resource.clone();
    for (separator, part) in [(".", &info.group), ("/", &info.subresource)] {
        if !part.is_empty() {
            resource.push_str(separator);
            resource.push_str(part);
        }
    }
    let object = match (info.namespace.as_str(), info.name.as_str()) {
        ("", "") => None,
        ("", name) => Some(name.to_owned()),
        (namespace, name) if info.resource == "namespaces" && namespace == name => Some(name.to_owned()),
        (namespace, "") => Some(format!("{namespace}/*")),
        (namespace, name) => Some(format!("{namespace}/{name}")),
    };
    (Some(resource), object, None)
}

/// How many lines may still be written.
struct Budget {
    left: u32,
    refilled: Option<Instant>,
    suppressed: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: BURST, refilled: None, suppressed: 0 }
    }
}

impl Budget {
    /// Whether a line may be written, and the number of suppressed lines since the last one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let refilled = *self.refilled.get_or_insert(now);
        let more = now.saturating_duration_since(refilled).as_secs() / REFILL.as_secs();
        if more > 0 {
            self.left = self.left.saturating_add(u32::try_from(more).unwrap_or(BURST)).min(BURST);
            self.refilled = Some(now);
        }
        if self.left == 0 {
            self.suppressed += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_those_left_out_are_counted() {
        let (mut budget, begin) = (Budget::default(), Instant::now());
        let mut written = |second: u64, requests: usize| -> Vec<u64> {
            let now = begin + Duration::from_secs(second);
            (0..requests).filter_map(|_| budget.take(now)).collect()
        };
        assert_eq!(written(0, 100), [0; 10]);
        assert_eq!(written(0, 5), [0; 0]);
        assert_eq!(written(2, 100), [95, 0], "one more a second");
        assert_eq!(written(3600, 100), [98, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn requests_are_described_by_resource_object_and_path() {
        for (url, expected) in [
            ("/api/v1/namespaces/a/pods/p/status?token=secret", "pods/status a/p -"),
            ("/apis/apps/v1/deployments?labelSelector=x", "deployments.apps - -"),
            ("/apis/apps/v1/namespaces/a/deployments", "deployments.apps a/* -"),
            ("/api/v1/namespaces/a", "namespaces a -"),
            ("/apis/cluster.karmada.io/v1alpha1/clusters/m1", "clusters.cluster.karmada.io m1 -"),
            ("/openapi/v3?hash=1", "- - /openapi/v3"),
        ] {
            let info = RequestInfo::parse(&http::Method::GET, &url.parse().expect("a URL"));
            let (resource, object, path) = subject(&info);
            let shown = |text: Option<&str>| text.unwrap_or("-").to_owned();
            let found = [shown(resource.as_deref()), shown(object.as_deref()), shown(path)].join(" ");
            assert_eq!(found, expected, "{url}");
        }
    }
}
