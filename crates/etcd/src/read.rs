//! Reading ranges: a range of the store is one or several ranges of etcd, each read in pages, all at one revision.

use bytes::Bytes;
use storage::{KeyRange, KeyValue, RangeRequest, RangeResponse, Result, Revision};

use crate::failure::Access;
use crate::inner::Inner;
use crate::txn::{key_value, revision};
use crate::wire;

/// Keys of the first page, and the bounds within which the size of pages adapts to the size of values.
const FIRST_PAGE: usize = 500;
const PAGES: std::ops::RangeInclusive<usize> = 10..=10_000;
/// Bytes of a page: below this the next one has twice as many keys, beyond four times this half as many.
const PAGE_BYTES: usize = 2 << 20;
/// Ranges with fewer keys than this are not divided.
const WORTH_DIVIDING: usize = 1000;

/// Pages of a range of etcd.
struct Pages<'a> {
    inner: &'a Inner,
    revision: Option<Revision>,
    /// The store's revision when the first page was read.
    newest: Revision,
    page: usize,
}

impl Pages<'_> {
    /// One page from `start` on.
    async fn next(&mut self, range: &KeyRange, limit: Option<usize>, keys_only: bool) -> Result<wire::RangeResponse> {
        let page = limit.map_or(self.page, |limit| limit.min(self.page));
        let request = wire::RangeRequest {
            key: range.start.clone(),
            range_end: range.end.clone(),
            limit: i64::try_from(page).unwrap_or(i64::MAX),
            revision: self.revision.unwrap_or(0).cast_signed(),
            keys_only,
            count_only: false,
        };
        self.send(request).await.inspect(|found| {
            let bytes: usize = found.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
            self.page = next_page(self.page, bytes, found.more);
        })
    }

    async fn count(&mut self, range: &KeyRange) -> Result<usize> {
        let request = wire::RangeRequest {
            key: range.start.clone(),
            range_end: range.end.clone(),
            revision: self.revision.unwrap_or(0).cast_signed(),
            count_only: true,
            ..Default::default()
        };
        Ok(usize::try_from(self.send(request).await?.count).unwrap_or(0))
    }

    async fn send(&mut self, request: wire::RangeRequest) -> Result<wire::RangeResponse> {
        let at = self.revision;
        let found = self.inner.range(request, at).await?;
        let newest = revision(found.header.as_ref());
        // Whatever follows is read at the revision of the first page.
        self.revision = self.revision.or(Some(newest));
        if self.newest == 0 {
            self.newest = newest;
        }
        Ok(found)
    }
}

fn next_page(page: usize, bytes: usize, more: bool) -> usize {
    let next = match bytes {
        _ if !more => page,
        0..PAGE_BYTES => page * 2,
        bytes if bytes > 4 * PAGE_BYTES => page / 2,
        _ => page,
    };
    next.clamp(*PAGES.start(), *PAGES.end())
}

/// The range after a key of it.
fn beyond(range: &KeyRange, key: &[u8]) -> KeyRange {
    KeyRange { start: [key, b"\0"].concat().into(), end: range.end.clone() }
}

impl Inner {
    pub(crate) async fn read(&self, request: RangeRequest) -> Result<RangeResponse> {
        let mut pages = Pages { inner: self, revision: request.revision, newest: 0, page: FIRST_PAGE };
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let (mut items, mut count) = (Vec::new(), 0);
        let ranges = self.layout.ranges(&request.range);
        if ranges.is_empty() {
            // An empty range; the revision is still checked.
            let none = KeyRange { start: self.layout.marker(), end: Bytes::new() };
            pages.count(&none).await?;
        }
        for range in ranges {
            if items.len() >= limit {
                count += pages.count(&range).await?;
                continue;
            }
            let mut rest = range;
            for page in 0.. {
                let found = pages.next(&rest, Some(limit - items.len()), false).await?;
                if page == 0 {
                    count += usize::try_from(found.count).unwrap_or(0);
                }
                let last = found.kvs.last().map(|kv| kv.key.clone());
                items.extend(found.kvs.into_iter().filter_map(|kv| key_value(kv, &self.layout)));
                match last.filter(|_| found.more && items.len() < limit) {
                    Some(last) => rest = beyond(&rest, &last),
                    None => break,
                }
            }
        }
        Ok(RangeResponse { items, count, revision: pages.newest })
    }

    /// The keys in a range of etcd.
    pub(crate) async fn count(&self, range: &KeyRange) -> Result<usize> {
        Pages { inner: self, revision: None, newest: 0, page: FIRST_PAGE }.count(range).await
    }

    pub(crate) async fn read_one(&self, key: &[u8], at: Option<Revision>) -> Result<Option<KeyValue>> {
        let request = wire::RangeRequest {
            key: self.layout.to_etcd(key),
            revision: at.unwrap_or(0).cast_signed(),
            ..Default::default()
        };
        let found = self.range(request, at).await?;
        Ok(found.kvs.into_iter().next().and_then(|kv| key_value(kv, &self.layout)))
    }

    /// Divides a range by its keys, which are read without their values.
    pub(crate) async fn divide(&self, range: KeyRange, parts: usize) -> Result<Vec<KeyRange>> {
        let mut pages = Pages { inner: self, revision: None, newest: 0, page: *PAGES.end() };
        let ranges = self.layout.ranges(&range);
        let mut counts = Vec::with_capacity(ranges.len());
        for part in &ranges {
            counts.push(pages.count(part).await?);
        }
        let total: usize = counts.iter().sum();
        if parts < 2 || total < WORTH_DIVIDING {
            return Ok(vec![range]);
        }
        let each = total.div_ceil(parts);
        let (mut shares, mut start, mut seen) = (Vec::new(), range.start.clone(), 0);
        for (part, count) in ranges.iter().zip(counts) {
            if count == 0 {
                continue;
            }
            let mut rest = part.clone();
            loop {
                let found = pages.next(&rest, None, true).await?;
                for kv in &found.kvs {
                    if seen == each
                        && let Some(key) = self.layout.to_store(&kv.key)
                    {
                        shares.push(KeyRange { start: std::mem::replace(&mut start, key.clone()), end: key });
                        seen = 0;
                    }
                    seen += 1;
                }
                match found.kvs.last().filter(|_| found.more) {
                    Some(last) => rest = beyond(&rest, &last.key),
                    None => break,
                }
            }
        }
        shares.push(KeyRange { start, end: range.end });
        Ok(shares)
    }

    /// A range request of etcd. A revision that has been compacted or is in the future is named with the bounds.
    async fn range(&self, request: wire::RangeRequest, at: Option<Revision>) -> Result<wire::RangeResponse> {
        if at == Some(0) {
            // For etcd, revision 0 is the newest one. Nothing was stored at it.
            return match self.oldest().await? {
                0 => Ok(wire::RangeResponse { header: Some(self.header().await?), ..Default::default() }),
                oldest => Err(storage::Error::Compacted { requested: 0, oldest }),
            };
        }
        let before = self.newest();
        match self.connections.request::<_, wire::RangeResponse>(wire::RANGE, request, Access::Read).await {
            Ok(found) => {
                self.observe(found.header.as_ref(), before)?;
                Ok(found)
            }
            Err(failure) => Err(self.error_at(failure, Access::Read, at.unwrap_or(0)).await),
        }
    }

    async fn header(&self) -> Result<wire::ResponseHeader> {
        let revision = self.revision().await?.cast_signed();
        Ok(wire::ResponseHeader { revision, ..Default::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_adapt_to_the_size_of_values() {
        for (page, bytes, more, next) in [
            (500, 100_000, true, 1000),
            (500, 100_000, false, 500),
            (500, 4 << 20, true, 500),
            (500, 500 << 20, true, 250),
            (15, 500 << 20, true, 10),
            (10_000, 0, true, 10_000),
        ] {
            assert_eq!(next_page(page, bytes, more), next, "{page} keys, {bytes} bytes");
        }
    }
}
