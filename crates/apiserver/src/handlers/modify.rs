//! Changes of stored objects: read, change, write, and again after writes of others.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};

use super::Call;
use super::ownership::{Live, Proposal};
use super::update::{Changed, Written};
use crate::conversion;

/// Retries after concurrent writes; kube-apiserver gives a patch as many.
const TRIES: usize = 5;

impl Call<'_> {
    /// Reads, applies `change`, and writes; repeats after concurrent writes, unless the change names the version it is
    /// based on.
    pub(crate) async fn modify(
        &self,
        key: &ObjectKey,
        dry_run: bool,
        change: impl Fn(&Live<'_>) -> Result<Proposal, Status>,
    ) -> Result<Changed, Status> {
        // One of a crowd of writers would be in time; the others would do their work in vain.
        let _writing = match dry_run {
            true => None,
            false => self.follow_writers(key).await,
        };
        // A write that was just acknowledged may not be in the cache yet. With its predecessor, a change would appear
        // as a no-op, and the newest resourceVersion as a conflict.
        let mut is_current = self.stored().catch_up_own().await?;
        if !is_current && dry_run {
            self.stored().catch_up().await?;
            is_current = true;
        }
        let mut stored = self.found(key, &mut is_current).await?;
        for _ in 0..TRIES {
            let attempt = self.attempt(key, &stored, dry_run, &change).await;
            let is_of_store = match &attempt {
                Ok((written, _)) => !matches!(written, Written::Unchanged(_)),
                Err(status) => status.code >= 500,
            };
            if !is_of_store && let Some(newer) = self.newer_once(key, &stored, &mut is_current).await? {
                stored = newer;
                continue;
            }
            match attempt? {
                (Written::Done(changed) | Written::Unchanged(changed), _) => return Ok(changed),
                (Written::Raced(_), true) => return Err(self.conflict(key)),
                (Written::Raced(None), false) => return Err(self.not_found(key.name())),
                (Written::Raced(Some(newer)), false) => stored = newer,
            }
        }
        Err(self.conflict(key))
    }

    /// One attempt of [`Call::modify`], and whether the change names the version it is based on.
    async fn attempt(
        &self,
        key: &ObjectKey,
        stored: &Arc<Object>,
        dry_run: bool,
        change: &impl Fn(&Live<'_>) -> Result<Proposal, Status>,
    ) -> Result<(Written, bool), Status> {
        let served = self.served(Arc::clone(stored)).await?;
        let json = served.json();
        let live = Live::of(&json)?;
        let new = match self.server.conversions.has(&self.resource.info) {
            true => Box::pin(conversion::settled(&self.server.conversions, self.resource, || change(&live))).await?,
            false => change(&live)?,
        };
        let named_version = self.check_preconditions(&live.tree, &new.object)?;
        Ok((self.write(key, stored, &served, &live, new, dry_run).await?, named_version))
    }

    /// The cached object. It does not exist only if a current cache lacks it; `is_current` is whether this one is.
    pub(super) async fn found(&self, key: &ObjectKey, is_current: &mut bool) -> Result<Arc<Object>, Status> {
        if !*is_current && self.cache().get(key)?.is_none() {
            self.stored().catch_up().await?;
            *is_current = true;
        }
        self.cache().get(key)?.ok_or_else(|| self.not_found(key.name()))
    }

    /// As [`Call::newer`], for an answer without a write; `None` if the cache was current before.
    pub(super) async fn newer_once(
        &self,
        key: &ObjectKey,
        stored: &Object,
        is_current: &mut bool,
    ) -> Result<Option<Arc<Object>>, Status> {
        match std::mem::replace(is_current, true) {
            true => Ok(None),
            false => self.newer(key, stored).await,
        }
    }

    /// The object, if writes of other processes have changed it since it was read from the cache.
    ///
    /// # Errors
    /// It does not exist any more; the store cannot be read.
    pub(super) async fn newer(&self, key: &ObjectKey, stored: &Object) -> Result<Option<Arc<Object>>, Status> {
        self.stored().catch_up().await?;
        let newest = self.cache().get(key)?.ok_or_else(|| self.not_found(key.name()))?;
        Ok((newest.revision() != stored.revision()).then_some(newest))
    }
}
