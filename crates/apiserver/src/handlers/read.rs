//! get and list.

use std::sync::Arc;

use apimachinery::go_json::type_name;
use apimachinery::selector::{FieldSelector, Selector};
use apimachinery::status::ListMeta;
use apimachinery::{Object, ObjectKey, Status, StatusReason};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{KeyRange, RangeRequest};
use transport::{ObjectList, Payload, Response};

use super::Call;
use super::filter::Filter;
use crate::cache::keys;
use crate::cache::snapshot::Snapshot;
use crate::conversion;
use crate::errors;
use crate::limits::fairness::give_way;
use crate::request::Query;
use crate::request::options::{self, ListOptions, VersionMatch};
use crate::wire::negotiate::{Encoding, Shape};
use crate::wire::rows::Rows;
use crate::wire::splice::Splice;
use crate::wire::{respond, shape};

/// Go ignores the surplus bits at the end.
const TOKENS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Objects of the store that are decoded before others have a turn.
const DECODED_AT_ONCE: usize = 64;

/// Go's message for JSON that is not a token.
fn mismatch(json: &[u8]) -> Option<String> {
    let found: Value = serde_json::from_slice(json).ok()?;
    if found.is_null() {
        return None;
    }
    let Value::Object(fields) = &found else {
        return Some(format!(
            "json: cannot unmarshal {} into Go value of type storage.continueToken",
            type_name(&found)
        ));
    };
    let wrong =
        [("v", "string"), ("rv", "int64"), ("start", "string")].into_iter().find_map(|(field, expected_type)| {
            let value = fields.get(field)?;
            let fits = if expected_type == "string" { value.is_string() } else { value.is_i64() };
            (!fits && !value.is_null()).then_some((field, expected_type, value))
        });
    let (field, expected_type, value) = wrong?;
    let found = if value.is_number() && expected_type == "int64" {
        format!("number {value}")
    } else {
        type_name(value).to_owned()
    };
    Some(format!("json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {expected_type}"))
}

/// Where a list continues; the content of the opaque token, in kube-apiserver's form.
#[derive(Default, Serialize, Deserialize)]
struct Continue {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    /// The rest of the last object's key after the list's prefix, and a zero byte: the smallest key after it.
    #[serde(default)]
    start: String,
}

impl Continue {
    const VERSION: &str = "meta.k8s.io/v1";
    /// Instead of a revision: continues at the current state.
    const NEWEST: i64 = -1;

    fn parse(token: &str) -> Result<Self, Status> {
        let invalid =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let json = TOKENS.decode(token).map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                // The beginning of the incomplete group.
                base64::DecodeError::InvalidLength(length) => length / 4 * 4,
                base64::DecodeError::InvalidPadding => token.find('=').unwrap_or(token.len()),
            };
            invalid(format!("illegal base64 data at input byte {at}"))
        })?;
        if let Some(why) = apimachinery::go_json::syntax_error(&json).or_else(|| mismatch(&json)) {
            return Err(invalid(why));
        }
        let found: Option<Self> = serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
        let found = found.unwrap_or_default();
        if found.v != Self::VERSION {
            return Err(invalid(format!("server does not recognize this encoded version {}", found.v)));
        }
        if found.rv == 0 {
            return Err(invalid(format!("incorrect encoded start resourceVersion (version {})", Self::VERSION)));
        }
        if found.start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {})", Self::VERSION)));
        }
        // A key below the list's prefix has no part that leads out of it.
        let inside = found.start.strip_prefix('/').unwrap_or(&found.start);
        if inside.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(found.start));
        }
        Ok(found)
    }

    fn encode(revision: i64, start: String) -> String {
        let token = Self { v: Self::VERSION.into(), rv: revision, start };
        TOKENS.encode(serde_json::to_vec(&token).unwrap_or_default())
    }
}

/// A part of a list.
pub(super) struct Page {
    pub items: Arc<Snapshot>,
    /// The number of remaining objects; with selectors, at least one if there are any.
    pub remaining: usize,
    pub revision: u64,
}

impl Call<'_> {
    pub(super) fn filter(&self) -> Result<Filter, Status> {
        self.filter_of(&self.info.query)
    }

    pub(super) fn filter_of(&self, query: &Query) -> Result<Filter, Status> {
        let labels = Selector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|e| Status::bad_request(e.to_string()))?;
        for (path, ..) in fields.requirements() {
            let path = path.as_str();
            // Custom resources without a namespace have no label for it.
            let has_namespace = self.resource.info.resource.namespaced || !self.resource.info.custom;
            let known = path == "metadata.name"
                || (path == "metadata.namespace" && has_namespace)
                || self.resource.info.selectable_fields.iter().any(|field| field.trim_start_matches('.') == path);
            if !known {
                return Err(Status::bad_request(if let Some(kind) = self.kind.selected_as {
                    format!("field label {path:?} not supported for {kind}")
                } else if self.resource.info.custom || !self.resource.info.selectable_fields.is_empty() {
                    format!("field label not supported: {path}")
                } else {
                    format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }));
            }
        }
        Ok(Filter::new(labels, fields, self.resource, &self.server.conversions))
    }

    pub(crate) async fn get(&self) -> Result<Response, Status> {
        let requested = options::revision(self.info.query.get("resourceVersion").unwrap_or_default());
        match requested.map_err(Status::unclassified)? {
            None => drop(self.stored().catch_up().await?),
            Some(0) => {}
            Some(revision) => drop(self.stored().not_older_than(revision).await?),
        }
        self.admit().await?;
        let stored = self.cache().get(&self.key())?.ok_or_else(|| self.not_found(&self.info.name))?;
        self.reply(StatusCode::OK, &self.served(stored).await?)
    }

    pub(super) async fn list(&self) -> Result<Response, Status> {
        let filter = self.filter()?;
        let options = ListOptions::parse(&self.info.query, false)?;
        // Before the objects are collected, and again, without waiting in between, before the response is built.
        self.admit().await?;
        let page = self.page(&options, &filter).await?;
        self.admit().await?;
        self.reply_list(page, &filter).await
    }

    /// The page of a list with these options, in stored form.
    pub(super) async fn page(&self, options: &ListOptions, filter: &Filter) -> Result<Page, Status> {
        let (revision, limit) = (options.resource_version, options.limit);
        if !options.continue_token.is_empty() {
            return self.page_continued(options, filter).await;
        }
        let at = match (revision, options.version_match) {
            (Some(revision), Some(VersionMatch::Exact)) => return self.page_at(revision, None, limit, filter).await,
            // Older clients page through a known version without resourceVersionMatch.
            (Some(revision), None) if revision > 0 && limit > 0 => {
                return self.page_at(revision, None, limit, filter).await;
            }
            (None, _) => self.stored().catch_up().await?,
            (Some(0), _) => self.stored().revision(),
            (Some(revision), _) => self.stored().not_older_than(revision).await?,
        };
        // From the cache, `resourceVersion=0` ignores the limit, as kube-apiserver does.
        let limit = if revision == Some(0) { 0 } else { limit };
        if limit == 0 && filter.is_everything() {
            let (items, newest) = self.cache().all(self.namespace())?;
            return Ok(Page { items, remaining: 0, revision: at.max(newest) });
        }
        let (items, remaining, newest) = self.scan(None, limit, filter).await?;
        Ok(Page { items: own(items), remaining, revision: at.max(newest) })
    }

    /// Up to `limit` (0: all) objects of the cache after a key, how many remain, and the newest change among all
    /// objects. A long scan yields to others regularly; it reads the state at its beginning.
    async fn scan(
        &self,
        after: Option<&ObjectKey>,
        limit: usize,
        filter: &Filter,
    ) -> Result<(Vec<Arc<Object>>, usize, u64), Status> {
        if filter.is_everything() {
            return self.cache().list(self.namespace(), after, limit, |_| true);
        }
        let (all, newest) = self.cache().all(self.namespace())?;
        let first = after.map_or(0, |after| all.partition_point(|object| object.key() <= *after));
        let most = if limit == 0 { usize::MAX } else { limit };
        let mut kept = Vec::new();
        for (n, piece) in all[first..].chunks(filter.piece()).enumerate() {
            if kept.len() > most {
                break;
            }
            if n > 0 {
                give_way().await;
            }
            if filter.is_converted() {
                kept.extend(filter.select(piece.to_vec()).await?);
            } else {
                kept.extend(piece.iter().filter(|object| filter.accepts(object)).cloned());
            }
        }
        let remaining = kept.len().saturating_sub(most);
        kept.truncate(most);
        Ok((kept, remaining, newest))
    }

    /// The next page. If nothing was written since the first page, the cache is still its snapshot; otherwise the store
    /// is read at that revision.
    async fn page_continued(&self, options: &ListOptions, filter: &Filter) -> Result<Page, Status> {
        let from = Continue::parse(&options.continue_token)?;
        if options.resource_version.is_some_and(|revision| revision > 0) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let limit = options.limit;
        let after = self.key_before(&from.start);
        let Ok(revision) = u64::try_from(from.rv) else {
            let at = self.stored().catch_up().await?;
            let (items, remaining, newest) = self.scan(Some(&after), limit, filter).await?;
            return Ok(Page { items: own(items), remaining, revision: at.max(newest) });
        };
        self.stored().not_older_than(revision).await?;
        let (items, remaining, newest) = self.scan(Some(&after), limit, filter).await?;
        if newest <= revision {
            return Ok(Page { items: own(items), remaining, revision });
        }
        match self.page_at(revision, Some(&after), limit, filter).await {
            Err(status) if status.is(StatusReason::Expired) => Err(self.expired_continue(&after)),
            other => other,
        }
    }

    /// 410 with a token that continues at the current state: inconsistent, but complete.
    fn expired_continue(&self, after: &ObjectKey) -> Status {
        let mut status = Status::failure(
            StatusReason::Expired,
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.metadata.continue_token = Continue::encode(Continue::NEWEST, self.start_after(after));
        status
    }

    /// The object before the start of a token.
    fn key_before(&self, start: &str) -> ObjectKey {
        let start = start.strip_suffix('\0').unwrap_or(start);
        let across = self.resource.info.resource.namespaced && self.namespace().is_none();
        match start.split_once('/').filter(|_| across) {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => self.key_of(start),
        }
    }

    fn start_after(&self, key: &ObjectKey) -> String {
        match key.namespace().filter(|_| self.namespace().is_none()) {
            Some(namespace) => format!("{namespace}/{}\0", key.name()),
            None => format!("{}\0", key.name()),
        }
    }

    async fn page_at(
        &self,
        revision: u64,
        after: Option<&ObjectKey>,
        limit: usize,
        filter: &Filter,
    ) -> Result<Page, Status> {
        self.stored().not_older_than(revision).await?;
        let named = &self.resource.info.resource;
        let mut range = KeyRange::prefix(keys::prefix(named, self.namespace()));
        if let Some(after) = after {
            range.start = next_key(&keys::object_key(named, after));
        }
        let mut items = Vec::new();
        // With selectors a page may take several reads.
        let remaining = loop {
            let requested = if limit == 0 { 0 } else { limit - items.len() };
            let request = RangeRequest { range: range.clone(), revision: Some(revision), limit: requested };
            let read = self.stored().store().range(request).await.map_err(errors::store)?;
            let remaining = read.count.saturating_sub(read.items.len());
            let last = read.items.last().map(|stored| next_key(&stored.key));
            let mut candidates = Vec::new();
            for (n, stored) in read.items.into_iter().enumerate() {
                if n % DECODED_AT_ONCE == DECODED_AT_ONCE - 1 {
                    give_way().await;
                }
                let object = keys::with_revision(&stored.value, stored.mod_revision).map_err(errors::document)?;
                if filter.is_converted() {
                    candidates.push(object.shared());
                } else if filter.accepts(&object) {
                    items.push(object.shared());
                }
            }
            items.extend(filter.select(candidates).await?);
            match last {
                Some(last) if remaining > 0 && items.len() < limit => range.start = last,
                _ => break remaining,
            }
        };
        Ok(Page { items: own(items), remaining, revision })
    }

    /// The continue token after a page; empty on the last one.
    pub(super) fn token_after(&self, page: &Page) -> String {
        match page.items.last() {
            Some(last) if page.remaining > 0 => {
                Continue::encode(page.revision.cast_signed(), self.start_after(&last.key()))
            }
            _ => String::new(),
        }
    }

    pub(super) async fn reply_list(&self, page: Page, filter: &Filter) -> Result<Response, Status> {
        let token = self.token_after(&page);
        let Page { items, remaining, revision } = page;
        let items = conversion::served_list(&self.server.conversions, self.resource, items).await?;
        let remaining = (remaining > 0 && filter.is_everything()).then_some(remaining as u64);
        if self.shared {
            let list =
                ObjectList { items: items.to_vec(), resource_version: revision, continue_token: token, remaining };
            return Ok(respond::payload(StatusCode::OK, Payload::List(list)));
        }
        let meta = ListMeta {
            continue_token: token,
            remaining_item_count: remaining.map(|count| count as i64),
            resource_version: revision.to_string(),
        };
        self.list_response(items, &meta).await
    }

    /// A list in one of its shapes, as bytes.
    async fn list_response(&self, items: Arc<Snapshot>, meta: &ListMeta) -> Result<Response, Status> {
        let (encoding, form) = (self.accepted.encoding, self.form()?);
        if form.shape == Shape::Whole {
            let mut head = shape::list_head(self.resource, meta, form);
            if encoding == Encoding::Protobuf {
                head.extend_from_slice(b"]}");
                return respond::protobuf_list(&head, &items);
            }
            let accounts = self.wire.map(|wire| wire.accounts(&self.user.user));
            let spliced = Splice::new(head, shape::implied_head(self.resource), &items, accounts);
            let held = if items.is_shared() { 0 } else { items.size() };
            return Ok(respond::list(spliced, held, encoding).await);
        }
        let rows = Rows::new(self.resource, items, meta, form, self.now);
        respond::rows(rows, encoding)
    }
}

fn own(items: Vec<Arc<Object>>) -> Arc<Snapshot> {
    Arc::new(Snapshot::own(items))
}

/// The smallest key after a key.
fn next_key(key: &[u8]) -> bytes::Bytes {
    [key, &[0]].concat().into()
}
