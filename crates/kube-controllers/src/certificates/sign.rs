//! Signs approved requests for the signers of kube-controller-manager.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Patch, PatchOptions};
use controller_runtime::Next;
use serde_json::{Value, json};

use super::{APPROVED, Csr, DENIED, FAILED, failed, policy, run_over_all};
use crate::context::Context;
use crate::error::Result;
use crate::resources::CERTIFICATE_REQUESTS;
use crate::running::Starting;

/// The minimum lifetime; shorter requests are extended to it.
const SHORTEST: Duration = Duration::from_secs(600);

pub(crate) async fn run(context: Context, starting: Starting) {
    if context.settings.signing_authority.is_some() {
        run_over_all(context, starting, "certificatesigningrequest-signing-controller", reconcile).await;
    }
}

async fn reconcile(context: Context, key: ObjectKey, object: Arc<Object>, csr: Csr) -> Result<Next> {
    let ready = csr.is(APPROVED) && !csr.is(DENIED) && !csr.is(FAILED) && !csr.is_issued();
    if !ready || !policy::is_signer(&csr.spec.signer_name) {
        return Ok(Next::Done);
    }
    let status: Value = match sign(&context, &key, &csr)? {
        Ok(certificate) => json!({"certificate": STANDARD.encode(certificate)}),
        Err(why) => {
            json!({"conditions": csr.conditions_with(FAILED, "SignerValidationFailure", why, context.now())})
        }
    };
    let patch = json!({"metadata": {"resourceVersion": object.resource_version()}, "status": status});
    match context.client.patch(&CERTIFICATE_REQUESTS, &key, &Patch::Merge(patch), &PatchOptions::status()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// The certificate, or why the request fails.
fn sign(context: &Context, key: &ObjectKey, csr: &Csr) -> Result<std::result::Result<String, String>> {
    let pem = match csr.pem() {
        Ok(pem) => pem,
        Err(why) => return Ok(Err(why)),
    };
    let checked = pki::request::read(&pem)
        .map_err(|error| error.to_string())
        .and_then(|request| policy::check(&csr.spec.signer_name, &request, &csr.spec.usages));
    if let Err(why) = checked {
        return Ok(Err(why));
    }
    let Some(authority) = &context.settings.signing_authority else { return Ok(Err("no authority".to_owned())) };
    let usages: Vec<&str> = csr.spec.usages.iter().map(String::as_str).collect();
    let lifetime = lifetime(csr.spec.expiration_seconds, context.settings.signing_duration);
    let certificate = pki::request::sign(&authority.get(), &pem, &usages, lifetime, context.informers.world());
    certificate.map(Ok).map_err(|source| failed(key, source))
}

fn lifetime(requested: Option<u32>, longest: Duration) -> Duration {
    requested.map_or(longest, |seconds| Duration::from_secs(seconds.into()).max(SHORTEST).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_bounded() {
        let check = |requested: Option<u32>, expected: u64| {
            assert_eq!(
                lifetime(requested, Duration::from_secs(86_400)),
                Duration::from_secs(expected),
                "{requested:?}"
            );
        };
        check(None, 86_400);
        check(Some(1), 600);
        check(Some(3_600), 3_600);
        check(Some(u32::MAX), 86_400);
    }
}
