//! Reading whole stores, piece by piece: surveys, and sums that show whether two stores hold the same.

use apiserver::cache::keys;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use storage::{Error, KeyRange, KeyValue, RangeRequest, Result, Revision, Store};

use crate::installation::LOOKED_INTO;
use crate::places::Place;
use crate::survey::{Survey, must_go};

/// Keys of one read: 6 MiB of objects of 30 KiB.
const PAGE: usize = 200;

/// Receives the objects done, and how many there are.
pub type Progress<'p> = &'p mut (dyn FnMut(u64, u64) + Send);

/// Objects, and a digest of their keys and values that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of objects.
    pub objects: u64,
    /// The size of keys and values.
    pub bytes: u64,
    /// The sum of the digests of the objects.
    pub digest: u128,
}

impl Sum {
    pub(crate) fn add(&mut self, item: &KeyValue) {
        self.objects += 1;
        self.bytes += (item.key.len() + item.value.len()) as u64;
        self.digest = self.digest.wrapping_add(digest(item));
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects, {} bytes, digest {:032x}", self.objects, self.bytes, self.digest)
    }
}

pub(crate) fn digest(item: &KeyValue) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update((item.key.len() as u64).to_le_bytes());
    hasher.update(&item.key);
    hasher.update(&item.value);
    let hash: [u8; 32] = hasher.finalize().into();
    let (half, _) = hash.split_at(16);
    half.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

/// The error of a copy that differs from its source.
pub(crate) fn compare(expected: Sum, found: Sum) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Failed(format!("the copy differs from its source: {expected} were read, and {found} are stored").into()))
}

/// The keys of a store as of one revision, piece by piece.
pub(crate) struct Pages<'s> {
    store: &'s dyn Store,
    revision: Revision,
    ranges: Vec<KeyRange>,
}

impl<'s> Pages<'s> {
    pub fn all(store: &'s dyn Store, revision: Revision) -> Self {
        Self { store, revision, ranges: vec![KeyRange { start: Bytes::new(), end: Bytes::new() }] }
    }

    /// Definitions are last: objects written before them get the definitions' defaults when they are read.
    pub fn definitions_last(store: &'s dyn Store, revision: Revision) -> Self {
        let definitions = KeyRange::prefix(format!("{}apiextensions.k8s.io/customresourcedefinitions/", keys::ROOT));
        let before = KeyRange { start: Bytes::new(), end: definitions.start.clone() };
        let after = KeyRange { start: definitions.end.clone(), end: Bytes::new() };
        Self { store, revision, ranges: vec![definitions, after, before] }
    }

    /// The next items, and the number of items of the range from the first of them on. `None` at the end.
    pub async fn next(&mut self) -> Result<Option<(Vec<KeyValue>, usize)>> {
        while let Some(range) = self.ranges.pop() {
            let request = RangeRequest { range: range.clone(), revision: Some(self.revision), limit: PAGE };
            let found = self.store.range(request).await?;
            let Some(last) = found.items.last() else { continue };
            if found.count > found.items.len() {
                let start = [&last.key[..], b"\0"].concat().into();
                self.ranges.push(KeyRange { start, end: range.end });
            }
            return Ok(Some((found.items, found.count)));
        }
        Ok(None)
    }
}

/// Surveys a store as its engine stores it. `shown` translates keys of the store for output.
///
/// # Errors
/// If the store cannot be read.
pub async fn survey(
    store: &dyn Store,
    shown: &(dyn Fn(&[u8]) -> String + Sync),
    progress: Progress<'_>,
) -> Result<Survey> {
    let revision = store.revision().await?;
    let mut survey = Survey::default();
    let mut ranges = vec![KeyRange { start: Bytes::new(), end: Bytes::new() }];
    let (mut done, mut total) = (0, 0);
    while let Some(range) = ranges.pop() {
        let request = RangeRequest { range: range.clone(), revision: Some(revision), limit: PAGE };
        let (found, damaged) = store.salvage(request).await?;
        for damage in &damaged {
            survey.unreadable(&shown(&damage.key), &damage.place);
        }
        let read = found.items.len() + damaged.len();
        let last = found.items.iter().map(|item| &item.key).chain(damaged.iter().map(|it| &it.key)).max();
        if let Some(last) = last.filter(|_| found.count > read) {
            ranges.push(KeyRange { start: [&last[..], b"\0"].concat().into(), end: range.end });
        }
        total = total.max(found.count as u64);
        done += read as u64;
        for item in &found.items {
            survey.add(&item.key, &shown(&item.key), &item.value);
        }
        progress(done, total);
    }
    survey.finish(revision);
    Ok(survey)
}

/// Whether a copy takes an item.
pub(crate) fn is_taken(item: &KeyValue) -> bool {
    if matches!(Place::of(&item.key), Place::Own | Place::Unused(..)) {
        return false;
    }
    let stays = |value: &Bytes| serde_json::from_slice(value).is_ok_and(|object| must_go(&object).is_none());
    !LOOKED_INTO.iter().any(|prefix| item.key.starts_with(prefix.as_bytes())) || stays(&item.value)
}

/// The sum of the content of a copy. Objects with a lease may expire at any time and are not summed.
///
/// # Errors
/// If the store cannot be read.
pub async fn sum(store: &dyn Store, revision: Revision, progress: Progress<'_>) -> Result<Sum> {
    let (mut pages, mut sum) = (Pages::all(store, revision), Sum::default());
    let (mut done, mut total) = (0, 0);
    while let Some((items, count)) = pages.next().await? {
        total = total.max(count as u64);
        done += items.len() as u64;
        items.iter().filter(|item| item.lease.is_none() && is_taken(item)).for_each(|item| sum.add(item));
        progress(done, total);
    }
    Ok(sum)
}
