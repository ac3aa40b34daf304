//! Objects of an earlier installation in a store, and the reasons to refuse the store.

use storage::{Error, Guard, KeyRange, KeyValue, Op, RangeRequest, Result, Store, Txn, TxnOutcome};

use crate::survey::{Survey, must_go};

/// Marks a target whose copy is not complete.
pub const UNFINISHED: &str = "/adoption/unfinished";
/// The places of objects that may have to go.
pub(crate) const LOOKED_INTO: [&str; 3] = [
    "/registry/admissionregistration.k8s.io/mutatingwebhookconfigurations/",
    "/registry/admissionregistration.k8s.io/validatingwebhookconfigurations/",
    "/registry/apiregistration.k8s.io/apiservices/",
];

/// The reason to refuse a store: a control plane that was not adopted, or an incomplete copy.
///
/// # Errors
/// If the store cannot be read.
pub async fn obstacle(store: &dyn Store) -> Result<Option<String>> {
    if let Some(unfinished) = unfinished(store).await? {
        return Ok(Some(unfinished));
    }
    for prefix in LOOKED_INTO {
        let range = RangeRequest { range: KeyRange::prefix(prefix), revision: None, limit: 0 };
        let (found, _) = store.salvage(range).await?;
        let reason = found.items.iter().find_map(|item| {
            let reason = must_go(&serde_json::from_slice(&item.value).ok()?)?;
            Some(format!("{}: {reason}; prepare it with `karmada store adopt`", String::from_utf8_lossy(&item.key)))
        });
        if reason.is_some() {
            return Ok(reason);
        }
    }
    Ok(None)
}

/// Whether a store is the target of a copy that is not complete.
///
/// # Errors
/// The store cannot be read.
pub async fn unfinished(store: &dyn Store) -> Result<Option<String>> {
    let mark = store.get(UNFINISHED.into(), None).await?;
    Ok(mark.map(|mark| {
        let mark = String::from_utf8_lossy(&mark.value);
        format!("it holds an unfinished copy ({mark}): repeat `karmada store copy`")
    }))
}

/// The objects that must not be taken over, with their keys and revisions.
///
/// # Errors
/// The store cannot be read.
pub async fn to_remove(store: &dyn Store, survey: &Survey) -> Result<Vec<KeyValue>> {
    let mut found = Vec::new();
    for key in survey.before.iter().filter_map(|step| step.key.clone()) {
        found.extend(store.get(key, None).await?);
    }
    Ok(found)
}

/// Removes objects, unless one of them has changed.
///
/// # Errors
/// One has changed; the store cannot be written.
pub async fn remove(store: &dyn Store, items: &[KeyValue]) -> Result<()> {
    for item in items {
        let guards = vec![Guard::ModRevision(item.key.clone(), item.mod_revision)];
        let ops = vec![Op::Delete { key: item.key.clone() }];
        if let TxnOutcome::Failed { .. } = store.txn(Txn { guards, ops }).await? {
            let key = String::from_utf8_lossy(&item.key);
            return Err(Error::Failed(
                format!("{key} has changed meanwhile; stop all servers on this store and repeat").into(),
            ));
        }
    }
    Ok(())
}
