//! Deletes settled and abandoned requests.

use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::{Object, ObjectKey};
use client::DeleteOptions;
use controller_runtime::Next;

use super::{APPROVED, Csr, DENIED, FAILED, run_over_all};
use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::CERTIFICATE_REQUESTS;
use crate::running::Starting;
use crate::timing::wait;

/// Seconds after which an issued, denied or failed request is deleted.
const SETTLED: i64 = 3_600;
const PENDING: i64 = 24 * 3_600;

pub(crate) async fn run(context: Context, starting: Starting) {
    run_over_all(context, starting, "certificatesigningrequest-cleaner-controller", reconcile).await;
}

async fn reconcile(context: Context, key: ObjectKey, object: Arc<Object>, csr: Csr) -> Result<Next> {
    let Some(at) = csr.expiry() else { return Ok(Next::Done) };
    if let Some(wait) = wait(at, context.now()) {
        return Ok(Next::After(wait));
    }
    let Some(live) = context.client.get_opt(&CERTIFICATE_REQUESTS, &key).await? else { return Ok(Next::Done) };
    let csr: Csr = decoded(&live, live.decode())?;
    if live.uid() != object.uid() || csr.expiry().is_none_or(|at| wait(at, context.now()).is_some()) {
        // The object has changed; its event will queue it.
        return Ok(Next::Done);
    }
    let options = DeleteOptions::default().only_uid(live.uid());
    match context.client.delete(&CERTIFICATE_REQUESTS, &key, &options).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

impl Csr {
    /// When it expires; `None` while it is approved and not yet signed.
    fn expiry(&self) -> Option<Time> {
        let after = |time: Option<Time>, seconds| {
            time.map(|time| Time::new(time.timestamp() + jiff::SignedDuration::from_secs(seconds)))
        };
        // kubectl sets the time of an approval by its own clock, which may be behind by more than an hour: the certificate
        // would be gone before it is read.
        let created = self.metadata.creation_timestamp;
        let updated = |type_| self.condition(type_)?.last_update_time.max(created);
        let settled = |type_| after(updated(type_), SETTLED);
        match settled(DENIED).or(settled(FAILED)) {
            Some(at) => Some(at),
            None if self.is(APPROVED) => settled(APPROVED).filter(|_| self.is_issued()),
            None => after(self.metadata.creation_timestamp, PENDING),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_expire_by_their_state() {
        let check = |condition: &str, certificate: &str, expected: Option<&str>| {
            let mut csr = json!({"metadata": {"creationTimestamp": "2026-11-21T00:00:00Z"}, "status": {"certificate": certificate}});
            if !condition.is_empty() {
                csr["status"]["conditions"] = json!([{"type": condition, "lastUpdateTime": "2026-11-21T02:00:00Z"}]);
            }
            let csr: Csr = serde_json::from_value(csr).expect("a request");
            assert_eq!(csr.expiry().map(|at| at.to_string()).as_deref(), expected, "{condition} {certificate}");
        };
        check("", "", Some("2026-11-22T00:00:00Z"));
        check("Denied", "", Some("2026-11-21T03:00:00Z"));
        check("Failed", "", Some("2026-11-21T03:00:00Z"));
        check("Approved", "", None);
        check("Approved", "eA==", Some("2026-11-21T03:00:00Z"));
        let behind = json!({"metadata": {"creationTimestamp": "2026-11-21T00:00:00Z"}, "status": {"certificate": "eA==",
            "conditions": [{"type": "Approved", "lastUpdateTime": "2026-11-19T02:00:00Z"}]}});
        let behind: Csr = serde_json::from_value(behind).expect("a request");
        assert_eq!(behind.expiry().map(|at| at.to_string()).as_deref(), Some("2026-11-21T01:00:00Z"));
    }
}
