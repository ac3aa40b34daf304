//! The task of one service: it sends pending changes in batches and retries what fails.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_runtime::Backoff;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use world::World;

use super::bulk::{self, Outcome};
use super::compare::{Comparison, MOST_PAGES, Page, query};
use super::document::{document, mappings};
use super::pending::{Mark, Pending};
use super::report::Report;
use super::service::{Access, Answer, Failure, Service, reason};
use super::source::Source;

/// Documents in a request, and their bytes: OpenSearch's documentation recommends 5 to 15 MiB.
pub(super) const BATCH: usize = 1000;
const BATCH_BYTES: usize = 5 << 20;
/// Changes are gathered for this long: OpenSearch shows documents after a second at the earliest.
const GATHER: Duration = Duration::from_millis(500);
/// The pauses after a failure.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often sources with incomplete caches are checked.
const CHECK: Duration = Duration::from_secs(5);
/// Documents that wait for their own retry. Beyond that, their sources are compared later.
const MOST_AGAIN: usize = 10_000;

const JSON: &str = "application/json";

pub(super) struct Writer {
    service: Service,
    /// `None` until the Secret has been read.
    access: watch::Receiver<Option<Access>>,
    /// The credentials of the connections.
    used: Option<Access>,
    pending: Arc<Pending>,
    report: Report,
    world: World,
    /// The next documents, in the order of sending. They stay here until the service has answered.
    held: VecDeque<Mark>,
    /// How many of them are sent at once.
    limit: usize,
    /// Differences of the last comparison.
    compared: Vec<Mark>,
    /// Documents that the service did not accept, while it did others.
    again: Vec<Mark>,
    again_at: Instant,
    again_pauses: Backoff,
    /// Known to exist.
    indexes: HashSet<String>,
    /// Why documents cannot be searched.
    unreadable: Option<String>,
}

impl Writer {
    pub fn new(
        service: Service,
        access: watch::Receiver<Option<Access>>,
        pending: Arc<Pending>,
        report: Report,
        world: World,
    ) -> Self {
        Self {
            service,
            access,
            used: None,
            pending,
            report,
            world,
            held: VecDeque::new(),
            limit: BATCH,
            compared: Vec::new(),
            again: Vec::new(),
            again_at: Instant::now(),
            again_pauses: Backoff::new(MIN_PAUSE, MAX_PAUSE),
            indexes: HashSet::new(),
            unreadable: None,
        }
    }

    /// Runs until the sender of the credentials is dropped before the first ones.
    pub async fn run(mut self) {
        let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        while self.begin().await {
            let Err(Failure { why, after }) = self.turn().await else {
                pauses.reset();
                if self.again.is_empty() {
                    self.report.succeeded();
                }
                continue;
            };
            self.report.failed(&why);
            // The service may have been recreated.
            self.indexes.clear();
            let pause = pauses.next(&self.world).max(after.unwrap_or_default());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.access.changed() => pauses.reset(),
            }
        }
    }

    /// Waits for something to do, and for the credentials. Returns false at the end.
    fn begin(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            while !self.has_work() {
                let until = match (self.again.is_empty(), self.pending.has_unknown()) {
                    (false, _) => self.again_at,
                    (true, true) => Instant::now() + CHECK,
                    (true, false) => Instant::now() + Duration::from_secs(3600),
                };
                tokio::select! {
                    () = self.pending.changed() => tokio::time::sleep(GATHER).await,
                    () = tokio::time::sleep_until(until) => {}
                }
            }
            let Some(access) = usable(&mut self.access).await else {
                return false;
            };
            if self.used.as_ref() != Some(&access) {
                self.service.set_access(access.clone());
                self.used = Some(access);
                self.indexes.clear();
            }
            true
        })
    }

    fn has_work(&self) -> bool {
        let is_due = self.again_at <= Instant::now();
        !self.held.is_empty()
            || !self.compared.is_empty()
            || self.pending.len() > 0
            || (is_due && (!self.again.is_empty() || self.pending.has_comparable()))
    }

    fn turn(&mut self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let is_due = self.again_at <= Instant::now();
            if is_due
                && self.compared.is_empty()
                && let Some(source) = self.pending.take_unknown()
            {
                match self.compare(source.clone()).await {
                    Ok(marks) => self.compared = marks,
                    Err(failure) => {
                        self.pending.unknown(&source);
                        return Err(failure);
                    }
                }
            }
            self.fill(is_due);
            if self.held.is_empty() { Ok(()) } else { self.send().await }
        })
    }

    /// Changes and differences share a batch, so that neither waits for the other.
    fn fill(&mut self, is_due: bool) {
        if !self.held.is_empty() {
            return;
        }
        if is_due {
            self.held.extend(self.again.drain(..));
        }
        let room = BATCH.saturating_sub(self.held.len());
        self.held.extend(self.pending.take(if self.compared.is_empty() { room } else { room.div_ceil(2) }));
        let room = BATCH.saturating_sub(self.held.len());
        self.held.extend(self.compared.drain(self.compared.len().saturating_sub(room)..));
    }

    async fn send(&mut self) -> Result<(), Failure> {
        let batch = Batch::of(self.held.iter().take(self.limit), &self.pending);
        for index in &batch.indexes {
            self.ensure(index).await?;
        }
        let mut rejected = batch.broken;
        if !batch.sent.is_empty() {
            let answer = self.service.send(Method::POST, bulk::PATH, "application/x-ndjson", batch.body.into()).await?;
            match answer.0 {
                StatusCode::OK => {
                    let outcomes = bulk::outcomes(&answer.1, batch.sent.len()).map_err(Failure::new)?;
                    self.settle(&batch.sent, outcomes, &mut rejected);
                }
                StatusCode::PAYLOAD_TOO_LARGE | StatusCode::BAD_REQUEST if batch.sent.len() > 1 => {
                    // One of the documents may be the reason.
                    self.limit = (batch.used / 2).max(1);
                    return Ok(());
                }
                StatusCode::PAYLOAD_TOO_LARGE | StatusCode::BAD_REQUEST => {
                    let why = format!("{} {}", answer.0.as_u16(), reason(&answer.1));
                    rejected.extend(batch.sent.into_iter().map(|sent| (sent.mark, why.clone())));
                }
                _ => return Err(Failure::unexpected("POST /_bulk", &answer)),
            }
        }
        self.held.drain(..batch.used);
        self.limit = (self.limit * 2).min(BATCH);
        if let Some((mark, why)) = rejected.first() {
            self.report.rejected(rejected.len(), &format!("{}: {why}", described(mark)));
        }
        Ok(())
    }

    fn settle(&mut self, sent: &[Sent], outcomes: Vec<Outcome>, rejected: &mut Vec<(Mark, String)>) {
        let (mut written, mut deleted, mut retried) = (0, 0, None);
        for (Sent { mark, deletes }, outcome) in sent.iter().zip(outcomes) {
            match outcome {
                Outcome::Done if *deletes => deleted += 1,
                Outcome::Done => written += 1,
                Outcome::Rejected(why) => rejected.push((mark.clone(), why)),
                Outcome::Retry(why) => {
                    retried.get_or_insert_with(|| format!("{}: {why}", described(mark)));
                    self.again.push(mark.clone());
                }
            }
        }
        self.report.count("written", written);
        self.report.count("deleted", deleted);
        match retried {
            Some(why) => {
                self.report.failed(&why);
                self.again_at = Instant::now() + self.again_pauses.next(&self.world);
                if self.again.len() > MOST_AGAIN {
                    self.again.drain(..).for_each(|mark| self.pending.unknown(&mark.source));
                }
            }
            None if self.again.is_empty() => {
                self.again_pauses.reset();
            }
            None => {}
        }
    }

    /// Creates the index with our mapping, unless it exists. If it cannot be created, the service's answer to documents
    /// decides.
    async fn ensure(&mut self, index: &str) -> Result<(), Failure> {
        if self.indexes.contains(index) {
            return Ok(());
        }
        let mut refusal = String::new();
        for mapping in mappings() {
            let (code, body) = self.request(Method::PUT, &format!("/{index}"), &mapping).await?;
            refusal = format!("{} {}", code.as_u16(), reason(&body));
            if code.is_success() || refusal.contains("already exists") || refusal.contains("already_exists") {
                refusal.clear();
                break;
            }
            // Of a field type that this service does not have.
            if !refusal.contains("mapper_parsing_exception") && !refusal.contains("No handler for type") {
                break;
            }
        }
        if !refusal.is_empty() {
            let message = format!(
                "Index {index} cannot be created: {refusal}; grant the user the right to create indexes, or create it"
            );
            self.report.warn("OpenSearchIndex", &message);
        }
        self.indexes.insert(index.to_owned());
        Ok(())
    }

    async fn request(&mut self, method: Method, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.service.send(method, path, JSON, Bytes::from(body.to_string())).await
    }

    /// The documents of a source that are out of date.
    async fn compare(&mut self, source: Arc<Source>) -> Result<Vec<Mark>, Failure> {
        self.ensure(&source.index).await?;
        let mut comparison = Comparison::new(source.clone());
        let path = format!("/{}/_search?scroll=1m&allow_partial_search_results=false", source.index);
        let mut answer = self.request(Method::POST, &path, &query(&source.place)).await?;
        match answer.0 {
            StatusCode::OK => self.unreadable = None,
            StatusCode::NOT_FOUND => return Ok(comparison.end()),
            _ => {
                self.cannot_read(&source.index, &answer);
                return Ok(comparison.end());
            }
        }
        let mut scroll = None;
        for _ in 0..MOST_PAGES {
            if answer.0 != StatusCode::OK {
                return Err(Failure::unexpected("POST /_search/scroll", &answer));
            }
            let page: Page = serde_json::from_slice(&answer.1)
                .map_err(|error| Failure::new(format!("the response to _search is not OpenSearch's: {error}")))?;
            if page.timed_out {
                return Err(Failure::new("POST /_search timed out"));
            }
            scroll = page.scroll_id.clone().or(scroll);
            let is_last = page.is_empty();
            comparison.see(page);
            let Some(id) = scroll.as_ref().filter(|_| !is_last) else { break };
            answer = self.request(Method::POST, "/_search/scroll", &json!({"scroll": "1m", "scroll_id": id})).await?;
        }
        if let Some(id) = scroll {
            // It expires after a minute in any case.
            let _ = self.request(Method::DELETE, "/_search/scroll", &json!({"scroll_id": [id]})).await;
        }
        Ok(comparison.end())
    }

    /// All documents are written then, and none is deleted before its object is.
    fn cannot_read(&mut self, index: &str, (code, body): &Answer) {
        let why = format!("{} {}", code.as_u16(), reason(body));
        if self.unreadable.as_ref() != Some(&why) {
            let message = format!(
                "Index {index} cannot be searched: {why}; documents of objects that were deleted before the start of \
                 this process stay in it; grant the user the right to search it"
            );
            self.report.warn("OpenSearchUnreadable", &message);
            self.unreadable = Some(why);
        }
    }
}

/// The credentials, once they are known; `None` at the end. Boxed, so that the compiler can prove the writer `Send`.
fn usable(access: &mut watch::Receiver<Option<Access>>) -> BoxFuture<'_, Option<Access>> {
    Box::pin(async move { access.wait_for(|access| access.is_some()).await.ok()?.clone() })
}

fn described(mark: &Mark) -> String {
    format!("{} {} of cluster {}", mark.source.place.resource.kind, mark.key, mark.source.place.cluster)
}

/// A document of a request.
struct Sent {
    mark: Mark,
    deletes: bool,
}

/// A request with documents, made from the newest known states.
#[derive(Default)]
struct Batch {
    body: Vec<u8>,
    sent: Vec<Sent>,
    /// How many marks it stands for: some need no document any more.
    used: usize,
    indexes: BTreeSet<String>,
    /// Objects that cannot be encoded.
    broken: Vec<(Mark, String)>,
}

impl Batch {
    fn of<'a>(marks: impl Iterator<Item = &'a Mark>, pending: &Pending) -> Self {
        let mut batch = Self::default();
        for mark in marks {
            if batch.body.len() >= BATCH_BYTES {
                break;
            }
            batch.used += 1;
            if pending.has(&mark.source) {
                batch.add(mark);
            }
        }
        batch
    }

    fn add(&mut self, mark: &Mark) {
        let Mark { source, uid, key } = mark;
        // An object of the same name is another one.
        let object = source.known.get(key).filter(|object| object.uid() == &**uid);
        match &object {
            Some(object) if !source.selects(object) => return,
            Some(object) => match document(source, object) {
                Ok(document) => bulk::write(&mut self.body, &source.index, uid, &document),
                Err(error) => return self.broken.push((mark.clone(), error.to_string())),
            },
            None => bulk::delete(&mut self.body, &source.index, uid),
        }
        self.indexes.insert(source.index.clone());
        self.sent.push(Sent { mark: mark.clone(), deletes: object.is_none() });
    }
}
