//! Writes of one caller that are committed together: each is authorized, admitted and validated as a separate request,
//! waits before its commit, and one transaction of the store contains them all. If one of them is refused, none is
//! stored.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apimachinery::{ObjectKey, Status, StatusReason};
use futures::future::{BoxFuture, join_all};
use http::StatusCode;
use storage::{Guard, Op, Txn, TxnOutcome};
use tokio::sync::{mpsc, oneshot};
use transport::{Identity, Payload, Request, Response};

use crate::cache::keys;
use crate::errors;
use crate::limits::fairness::writers::Writing;
use crate::request::RequestInfo;
use crate::state::Shared;
use crate::wire::respond;

/// Writes of one request: the Works of a binding for as many clusters.
const MOST: usize = 64;

/// Handles one of the requests, as if it had been sent separately.
pub(crate) type Answer<'a> =
    Box<dyn Fn(RequestInfo, Request) -> BoxFuture<'a, Result<Response, Status>> + Send + Sync + 'a>;

/// The place of one write in the common transaction, as an extension of its request.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Place>);

struct Place {
    number: usize,
    table: mpsc::UnboundedSender<(usize, Arrival)>,
    /// It has handed over its transaction.
    taken: AtomicBool,
    /// Whether any of the writes has joint writes.
    joined: Arc<AtomicBool>,
}

/// The report of a write to the coordinator.
enum Arrival {
    Waits(Txn, oneshot::Sender<Result<TxnOutcome, Status>>),
    /// It was answered without a write: there is no change, or it was refused.
    Ended(Option<Status>),
}

impl Seat {
    /// Commits this write's part of the common transaction.
    pub(crate) async fn commit(&self, guards: Vec<Guard>, ops: Vec<Op>) -> Result<TxnOutcome, Status> {
        let (reply, answer) = oneshot::channel();
        let waits = Arrival::Waits(Txn { guards, ops }, reply);
        if self.0.taken.swap(true, Relaxed) || self.0.table.send((self.0.number, waits)).is_err() {
            return Err(given_up("one write has one part in the transaction"));
        }
        answer.await.unwrap_or_else(|_| Err(given_up("another write was refused")))
    }

    /// Only one write may bring joint writes along: two of them may change the same object.
    pub(crate) fn join(&self) -> Result<(), Status> {
        match self.0.joined.swap(true, Relaxed) {
            false => Ok(()),
            true => Err(given_up("several writes change other objects")),
        }
    }
}

/// Nothing was stored; the caller sends the writes one after another.
fn given_up(why: &str) -> Status {
    Status::failure(StatusReason::Conflict, format!("none of the writes was stored: {why}"))
}

fn one_revision(resource: &str) -> Status {
    given_up(&format!("the store would give several changes of {resource} one revision"))
}

/// A resource of which several objects are written.
fn written_twice(infos: &[RequestInfo]) -> Option<&str> {
    let mut resources = std::collections::BTreeSet::new();
    infos.iter().find(|&info| !resources.insert((&*info.group, &*info.resource))).map(|info| &*info.resource)
}

/// A special route, such as a proxy, cannot commit here.
///
/// # Errors
/// If the request is to be committed with others.
pub(crate) fn check_route(parts: &http::request::Parts) -> Result<(), Status> {
    match parts.extensions.get::<Seat>() {
        Some(_) => Err(given_up(&format!("{} is written elsewhere", parts.uri.path()))),
        None => Ok(()),
    }
}

/// Executes the writes and returns the objects in their order.
///
/// # Errors
/// A conflict if none was stored; the store's error if that is unknown.
pub(crate) async fn write(
    server: &Shared,
    user: &Identity,
    requests: Vec<Request>,
    answer: Answer<'_>,
) -> Result<Response, Status> {
    if requests.len() > MOST {
        return Err(given_up(&format!("{} are more than {MOST}", requests.len())));
    }
    let infos: Vec<RequestInfo> = requests.iter().map(|it| RequestInfo::parse(it.method(), it.uri())).collect();
    if let Some(other) = infos.iter().find(|info| !matches!(info.verb, "create" | "update" | "patch")) {
        return Err(given_up(&format!("{} {} is neither a create nor an update", other.verb, other.path)));
    }
    if let Some(other) = infos.iter().find(|info| server.cache.is_apart(&info.group, &info.resource)) {
        return Err(given_up(&format!("{} are in a store of their own", other.resource)));
    }
    // Known before the writes are admitted and encoded for nothing.
    if server.cache.store().shares_revisions()
        && let Some(resource) = written_twice(&infos)
    {
        return Err(one_revision(resource));
    }
    let _turns = follow(server, user, &infos).await;
    let (table, arrivals) = mpsc::unbounded_channel();
    let (count, joined) = (requests.len(), Arc::<AtomicBool>::default());
    let writes = requests.into_iter().zip(infos.clone()).enumerate().map(|(number, (mut request, info))| {
        let place = Place { number, table: table.clone(), taken: AtomicBool::new(false), joined: Arc::clone(&joined) };
        request.extensions_mut().insert(Seat(Arc::new(place)));
        let (table, answering) = (table.clone(), answer(info, request));
        async move {
            let answer = answering.await;
            // Without effect where the write has waited.
            drop(table.send((number, Arrival::Ended(answer.as_ref().err().cloned()))));
            answer
        }
    });
    let (answers, committed) = futures::join!(join_all(writes), commit(server, count, arrivals));
    committed?;
    let mut objects = Vec::with_capacity(count);
    for (number, answer) in answers.into_iter().enumerate() {
        let response = answer.map_err(Status::internal)?;
        if let Some(info) = infos.get(number).filter(|_| number > 0) {
            server.counted.beside(info, response.status());
        }
        match response.into_parts().0.extensions.remove::<Payload>() {
            Some(Payload::Object(object)) => objects.push(object),
            _ => return Err(Status::internal("a write was answered without its object")),
        }
    }
    Ok(respond::payload(StatusCode::OK, Payload::Together(objects)))
}

/// Waits for the other writers of these objects, in the order of the objects, so that no two callers wait for each other.
async fn follow<'s>(server: &'s Shared, user: &Identity, infos: &[RequestInfo]) -> Vec<Writing<'s>> {
    let named = infos.iter().filter(|info| !info.name.is_empty());
    let mut places: Vec<_> = named
        .map(|info| (&info.group, &info.resource, ObjectKey::namespaced(info.scope(), info.name.as_str())))
        .collect();
    places.sort();
    places.dedup();
    let mut turns = Vec::with_capacity(places.len());
    for (group, plural, key) in &places {
        turns.push(server.writers.follow((group, plural), key, &user.user).await);
    }
    turns
}

/// Waits until each write has handed over its part or has ended without one, and commits the parts.
async fn commit(
    server: &Shared,
    count: usize,
    mut arrivals: mpsc::UnboundedReceiver<(usize, Arrival)>,
) -> Result<(), Status> {
    let mut waiting = Vec::with_capacity(count);
    let mut refused = None;
    for _ in 0..count {
        match arrivals.recv().await {
            Some((number, Arrival::Waits(txn, reply))) => waiting.push((number, txn, reply)),
            Some((_, Arrival::Ended(refusal))) => refused = refused.or(refusal),
            None => return Err(given_up("a write ended early")),
        }
    }
    // Their replies are dropped.
    if let Some(refusal) = refused {
        return Err(given_up(&refusal.message));
    }
    waiting.sort_by_key(|(number, ..)| *number);
    let (txns, replies): (Vec<_>, Vec<_>) = waiting.into_iter().map(|(_, txn, reply)| (txn, reply)).unzip();
    let store = server.cache.store();
    if store.shares_revisions()
        && let Some(place) = changed_twice(&txns)
    {
        return Err(one_revision(place));
    }
    let outcomes = match store.txn_all(txns).await {
        Ok(outcomes) => outcomes,
        Err(storage::Error::OverLimit(why)) => return Err(given_up(&why)),
        Err(error) => {
            let status = errors::store(error);
            replies.into_iter().for_each(|reply| drop(reply.send(Err(status.clone()))));
            return Err(status);
        }
    };
    if outcomes.iter().any(|outcome| matches!(outcome, TxnOutcome::Failed { .. })) {
        return Err(given_up("one of the objects has changed"));
    }
    outcomes.into_iter().zip(replies).for_each(|(outcome, reply)| drop(reply.send(Ok(outcome))));
    Ok(())
}

/// A resource of which the transactions change several objects. Where all of them get one revision, a client that resumes a
/// watch after the first of these changes would miss the others.
fn changed_twice(txns: &[Txn]) -> Option<&str> {
    let mut places = std::collections::BTreeSet::new();
    txns.iter().flat_map(|txn| &txn.ops).find_map(|op| {
        let (Op::Put { key, .. } | Op::Delete { key }) = op;
        let (place, _) = keys::split(key)?;
        (!places.insert(place)).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_changes_of_one_resource_are_found() {
        let put = |key: &'static str| Txn {
            guards: vec![Guard::Absent("/registry/core/namespaces/ns".into())],
            ops: vec![Op::Put { key: key.into(), value: "".into(), lease: None }],
        };
        let works = ["/registry/work.karmada.io/works/es-a/w", "/registry/work.karmada.io/works/es-b/w"];
        let template = "/registry/apps/deployments/ns/d";
        for (keys, expected) in [
            (vec![works[0], template], None),
            (vec![works[0], template, works[1]], Some("work.karmada.io/works")),
            (vec![], None),
        ] {
            let txns: Vec<_> = keys.into_iter().map(put).collect();
            assert_eq!(changed_twice(&txns), expected);
        }
    }
}
