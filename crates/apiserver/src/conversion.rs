//! Conversion webhooks. The strategies of custom resources convert synchronously; a webhook is called between two
//! passes: the first pass over the strategy collects the objects to convert, one review converts them, and the second
//! pass receives the results in the same order. Resources without a webhook need only the first pass.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use apiextensions::Converter;
use apiextensions::conversion::Hook;
use apimachinery::resource::{Resource, ResourceInfo};
use apimachinery::{Object, Status};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;
use world::World;

use crate::cache::snapshot::Snapshot;

/// A response to a review of few objects: twice the largest object.
const MIN_RESPONSE: usize = 8 << 20;
/// Converted objects cached for further watchers of the same event, each of at most [`MAX_KEPT`] bytes: 8 MiB in total.
const KEPT: usize = 128;
const MAX_KEPT: usize = 64 << 10;

/// Sends reviews to conversion webhooks.
pub trait Caller: Send + Sync + 'static {
    /// Posts a review to the webhook of a `clientConfig`, and returns the body of a successful response of at most
    /// `limit` bytes, or the reason why there is none.
    fn call<'a>(&'a self, config: &'a Value, review: Vec<u8>, limit: usize) -> BoxFuture<'a, Result<Bytes, String>>;
}

/// The conversion webhooks of a server's definitions.
pub struct Conversions {
    world: World,
    caller: OnceLock<Arc<dyn Caller>>,
    /// By the name of the definition.
    hooks: ArcSwap<HashMap<String, Arc<Hooked>>>,
    writer: Mutex<()>,
}

impl std::fmt::Debug for Conversions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Conversions({})", self.hooks.load().len())
    }
}

/// One definition's webhook.
struct Hooked {
    group: String,
    hook: Hook,
    kept: Mutex<VecDeque<(Key, Cell)>>,
}

/// UID, resource version, and the version that is served.
type Key = (String, String, String);
/// A converted object, once it is converted.
type Cell = Arc<OnceCell<Arc<Object>>>;

impl Conversions {
    pub(crate) fn new(world: World) -> Self {
        Self { world, caller: OnceLock::new(), hooks: ArcSwap::default(), writer: Mutex::default() }
    }

    /// Reviews are sent by `caller`; only the first one counts.
    pub fn call_with(&self, caller: Arc<dyn Caller>) {
        let _ = self.caller.set(caller);
    }

    /// Sets or removes the webhook of a definition.
    pub(crate) fn set(&self, definition: &str, hook: Option<Hook>) {
        let _one_at_a_time = self.writer.lock();
        let mut hooks = HashMap::clone(&self.hooks.load());
        let group = definition.split_once('.').map_or("", |(_, group)| group).to_owned();
        let known = hooks.remove(definition);
        if let Some(hook) = hook {
            hooks.insert(definition.to_owned(), Arc::new(Hooked { group, hook, kept: Mutex::default() }));
        } else if known.is_none() {
            return;
        }
        self.hooks.store(Arc::new(hooks));
    }

    /// Whether a resource is converted by a webhook.
    pub(crate) fn has(&self, info: &ResourceInfo) -> bool {
        info.custom && self.of(info).is_some()
    }

    fn of(&self, info: &ResourceInfo) -> Option<Arc<Hooked>> {
        let hooks = self.hooks.load();
        if !info.custom || hooks.is_empty() {
            return None;
        }
        hooks.get(&format!("{}.{}", info.resource.plural, info.resource.group)).cloned()
    }
}

/// The action of conversions in the current pass.
enum Pass {
    Collect(Vec<(Value, String)>),
    Give(VecDeque<Value>),
    /// A step that converts in several directions, by what it knows.
    Settle(Settling),
}

/// The conversions that a step depends on.
#[derive(Default)]
struct Settling {
    /// An object, the version's name, and the result.
    known: Vec<(Value, String, Result<Value, String>)>,
    wanted: Vec<(Value, String)>,
}

thread_local! {
    static PASS: RefCell<Option<Pass>> = const { RefCell::new(None) };
}

/// The converter of definitions with a webhook.
pub(crate) struct ByWebhook;

impl Converter for ByWebhook {
    fn convert(&self, object: &mut Value, to_version: &str) -> Result<(), String> {
        PASS.with_borrow_mut(|pass| match pass {
            Some(Pass::Collect(requested)) => {
                requested.push((object.clone(), to_version.to_owned()));
                Err("it is converted by a webhook".to_owned())
            }
            Some(Pass::Give(results)) => {
                *object = results.pop_front().ok_or("the object has changed meanwhile")?;
                Ok(())
            }
            Some(Pass::Settle(settling)) => {
                let known = settling.known.iter().find(|(from, to, _)| to == to_version && from == object);
                let Some((.., result)) = known else {
                    let wanted = (object.clone(), to_version.to_owned());
                    // Several owners in one version need it.
                    if !settling.wanted.contains(&wanted) {
                        settling.wanted.push(wanted);
                    }
                    return Err("it is converted by a webhook".to_owned());
                };
                *object = result.clone()?;
                Ok(())
            }
            None => Err("its conversion webhook cannot be called here".to_owned()),
        })
    }
}

/// Ends a pass, also when it panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        PASS.set(None);
    }
}

fn collecting<T>(step: impl FnOnce() -> T) -> (T, Vec<(Value, String)>) {
    let _end = End;
    PASS.set(Some(Pass::Collect(Vec::new())));
    let outcome = step();
    match PASS.take() {
        Some(Pass::Collect(requested)) => (outcome, requested),
        _ => (outcome, Vec::new()),
    }
}

fn giving<T>(results: Vec<Value>, step: impl FnOnce() -> T) -> T {
    let _end = End;
    PASS.set(Some(Pass::Give(results.into())));
    step()
}

impl Hooked {
    async fn convert(
        &self,
        all: &Conversions,
        requested: Vec<(Value, String)>,
        is_list: bool,
    ) -> Result<Vec<Value>, Status> {
        let Some(to) = requested.first().map(|(_, to)| format!("{}/{to}", self.group)) else { return Ok(Vec::new()) };
        let objects: Vec<Value> = requested.into_iter().map(|(object, _)| object).collect();
        let uid = all.world.uuid();
        let review = self.hook.review(&uid, &to, is_list).map_err(Status::unclassified)?;
        let failed = |why: &str| Status::unclassified(review.failed(&objects, why));
        let body = serde_json::to_vec(&review.request(&objects)).map_err(|error| failed(&error.to_string()))?;
        let limit = MIN_RESPONSE.max(body.len().saturating_mul(4));
        let caller = all.caller.get().ok_or_else(|| failed("the server is starting"))?;
        let answer = caller.call(&self.hook.config, body, limit).await.map_err(|why| failed(&why))?;
        review.accept(&objects, &answer).map_err(Status::unclassified)
    }

    /// Shared by the watchers that are about to convert the same object.
    fn kept(&self, key: Key) -> Cell {
        let mut kept = self.kept.lock();
        if let Some((_, cell)) = kept.iter().find(|(known, _)| *known == key) {
            return Arc::clone(cell);
        }
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        let cell = Cell::default();
        kept.push_back((key, Arc::clone(&cell)));
        cell
    }
}

/// The outcome of a step that converts objects for the owners of their fields: it is repeated with the answers of the
/// webhook until it needs no others. A step without conversions runs once.
pub(crate) async fn settled<T>(all: &Conversions, resource: &Resource, step: impl Fn() -> T) -> T {
    let Some(hooked) = all.of(&resource.info) else { return step() };
    let mut settling = Settling::default();
    loop {
        let outcome = settling.run(&step);
        if settling.wanted.is_empty() {
            return outcome;
        }
        for (object, to) in std::mem::take(&mut settling.wanted) {
            let request = vec![(object.clone(), to.clone())];
            let answer = match hooked.convert(all, request, false).await {
                Ok(mut results) => results.pop().ok_or_else(|| "the webhook returned no object".to_owned()),
                Err(status) => Err(status.message),
            };
            settling.known.push((object, to, answer));
        }
    }
}

impl Settling {
    fn run<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let _end = End;
        PASS.set(Some(Pass::Settle(std::mem::take(self))));
        let outcome = step();
        if let Some(Pass::Settle(settling)) = PASS.take() {
            *self = settling;
        }
        outcome
    }
}

/// The form in which a version serves a stored object.
///
/// # Errors
/// A conversion that fails.
pub(crate) async fn served(all: &Conversions, resource: &Resource, stored: Arc<Object>) -> Result<Arc<Object>, Status> {
    let form = || resource.strategy.served_form(&stored);
    let Some(hooked) = all.of(&resource.info) else {
        return Ok(form()?.map_or(stored, Object::shared));
    };
    let (outcome, requested) = collecting(form);
    if requested.is_empty() {
        return Ok(outcome?.map_or(stored, Object::shared));
    }
    let results = hooked.convert(all, requested, false).await?;
    Ok(giving(results, form)?.map_or(stored, Object::shared))
}

/// As [`served`], once for all watchers of an event.
///
/// # Errors
/// A conversion that fails.
pub(crate) async fn served_to_watchers(
    all: &Conversions,
    resource: &Resource,
    stored: Arc<Object>,
) -> Result<Arc<Object>, Status> {
    let hooked = all.of(&resource.info).filter(|_| stored.size() <= MAX_KEPT);
    let Some(hooked) = hooked else { return served(all, resource, stored).await };
    let named = &resource.info.resource;
    if stored.api_version() == named.api_version() {
        return served(all, resource, stored).await;
    }
    let key = (stored.uid().to_owned(), stored.resource_version().to_owned(), named.version.clone());
    let cell = hooked.kept(key);
    let converted = cell.get_or_try_init(|| served(all, resource, stored)).await?;
    Ok(Arc::clone(converted))
}

/// As [`served`], for a list: one review converts all of its objects.
///
/// # Errors
/// A conversion that fails.
pub(crate) async fn served_list(
    all: &Conversions,
    resource: &Resource,
    items: Arc<Snapshot>,
) -> Result<Arc<Snapshot>, Status> {
    let form = |item: &Object| resource.strategy.served_form(item);
    let Some(hooked) = all.of(&resource.info) else { return items.converted(form) };
    // The second pass covers all objects: those without a conversion, and those that cannot be converted.
    let ((), requested) = collecting(|| items.iter().for_each(|item| drop(form(item))));
    let results = hooked.convert(all, requested, true).await?;
    giving(results, || items.converted(form))
}

/// Turns the served form of an object into the stored one.
///
/// # Errors
/// A conversion that fails; the object has not changed.
pub(crate) async fn to_stored(all: &Conversions, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let Some(hooked) = all.of(&resource.info) else { return resource.strategy.to_stored(object) };
    let (outcome, requested) = collecting(|| resource.strategy.to_stored(object));
    if requested.is_empty() {
        return outcome;
    }
    let results = hooked.convert(all, requested, false).await?;
    giving(results, || resource.strategy.to_stored(object))
}

/// An object of one version in another one.
///
/// # Errors
/// A conversion that fails.
pub(crate) async fn between(
    all: &Conversions,
    (from, to): (&Resource, &Resource),
    mut document: Value,
) -> Result<Value, Status> {
    to_stored(all, from, &mut document).await?;
    let stored = Object::from_value(&document).map_err(Status::internal)?;
    let shown = served(all, to, stored.shared()).await?;
    let mut shown = shown.to_value().map_err(Status::internal)?;
    shown["apiVersion"] = to.info.resource.api_version().into();
    Ok(shown)
}
