//! The interpreter of this process: the users' customizations, their webhooks, the shipped customizations, the built-in
//! kinds, in this order. Decisions stay pure functions of an [`Interpreter`]; the shell sends the webhook requests
//! between them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::webhooks::{self, ClientConfig, Target, Webhooks};
use controller_runtime::{Event, InformerSet};
use interpreter::lua::{Aside, Budget, Clock, Engine};
use interpreter::webhook::{Answer, Conversation, Hook, Hooks, Question, Response};
use interpreter::{Changes, Customizations, Interpreter, Layer, Scripts, shipped};
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::{
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, ServiceReference,
};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use world::World;

use crate::reinterpreting::Feed;
use crate::stores::Store;
use crate::{Connector, Settings, metrics};

/// The maximum number of rounds of webhook requests in one decision: the requests of a round depend on earlier
/// responses, and no decision has more than two operations in sequence.
const ROUNDS: usize = 4;
/// The documented timeout of a webhook without one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The number of concurrent scripts with a separate thread; further ones share a thread, which bounds their processor
/// time.
const ASIDE: usize = 2;

/// A script runs for up to a second: other tasks of its thread continue meanwhile, if there is more than one thread.
fn aside() -> Aside {
    let running = AtomicUsize::new(0);
    Arc::new(move |run| {
        let has_threads = Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        let before = running.fetch_add(1, Ordering::Relaxed);
        if has_threads && before < ASIDE {
            tokio::task::block_in_place(run);
        } else {
            run();
        }
        running.fetch_sub(1, Ordering::Relaxed);
    })
}

pub(crate) struct Interpreting {
    customizations: Arc<Customizations>,
    shipped: Arc<Scripts>,
    hooks: Arc<RwLock<Arc<Hooks>>>,
    /// Without webhooks, which is nearly always.
    plain: Interpreter,
    control: InformerSet,
    webhooks: Webhooks,
    world: World,
    feeds: Feeds,
}

/// The controllers that follow changes of the interpretation.
type Feeds = Arc<Mutex<Vec<Weak<Feed>>>>;

/// Passes a change on to the controllers. The initial list is not a change, nor is an object that cannot be decoded: its
/// last valid state remains in use.
fn publish<T: ApiType>(feeds: &Feeds, event: &Event, changes: fn(Option<&T>, Option<&T>) -> Changes) {
    let decode = T::from_object;
    let changes = match event {
        Event::Added { initial: true, .. } => return,
        Event::Added { object, .. } => decode(object).map(|new| changes(None, Some(&new))),
        Event::Updated { old, new } => match (decode(old), decode(new)) {
            (Ok(old), Ok(new)) => Ok(changes(Some(&old), Some(&new))),
            (Err(_), Ok(new)) => Ok(changes(None, Some(&new))),
            (_, Err(error)) => Err(error),
        },
        Event::Deleted(object) => decode(object).map(|old| changes(Some(&old), None)),
    };
    let Some(changes) = changes.ok().filter(|changes| !changes.is_empty()) else { return };
    feeds.lock().retain(|feed| feed.upgrade().inspect(|feed| feed.add(changes.clone())).is_some());
}

impl Interpreting {
    /// Follows customizations and webhook configurations. Until their caches are complete those that are missing do not
    /// count; the controllers wait for them.
    pub(crate) fn follow(control: &InformerSet, connector: Connector, world: &World, settings: &Settings) -> Self {
        let time = world.clone();
        let clock: Clock = Arc::new(move || time.now());
        let quotas = settings.gates.resource_quota_estimate;
        let engine = Engine::running_aside(clock, Budget::default(), aside(), quotas);
        let pool = engine.clone();
        settings.metrics.collect(move |samples| {
            let uses = pool.uses();
            for (family, way, count) in [
                (&metrics::POOL_GETS, "pool", uses.from_pool),
                (&metrics::POOL_GETS, "new", uses.new),
                (&metrics::POOL_PUTS, "pool", uses.to_pool),
                (&metrics::POOL_PUTS, "destroyed", uses.destroyed),
            ] {
                samples.counter(family, &["luavm", way], count);
            }
            true
        });
        let customizations = Arc::new(Customizations::new(engine.clone()));
        let shipped = Arc::new(shipped::layer(engine.clone()));
        let informer = control.informer(&ResourceInterpreterCustomization::api_resource());
        let store = Store::follow(&[&informer], ResourceInterpreterCustomization::from_object);
        let layer = customizations.clone();
        let feeds = Feeds::default();
        let changed = feeds.clone();
        informer.subscribe(move |event| {
            let all = store.all();
            layer.replace(Scripts::of_customizations(engine.clone(), all.iter().map(AsRef::as_ref)));
            publish(&changed, event, Changes::of_customization);
        });
        let hooks: Arc<RwLock<Arc<Hooks>>> = Arc::default();
        let informer = control.informer(&ResourceInterpreterWebhookConfiguration::api_resource());
        let store = Store::follow(&[&informer], ResourceInterpreterWebhookConfiguration::from_object);
        let (newest, changed) = (hooks.clone(), feeds.clone());
        informer.subscribe(move |event| {
            let all = store.all();
            *newest.write() = Arc::new(Hooks::of_configurations(all.iter().map(AsRef::as_ref)));
            publish(&changed, event, Changes::of_configuration);
        });
        let plain = Interpreter::with_layers(vec![customizations.clone(), shipped.clone()]);
        Self {
            customizations,
            shipped,
            hooks,
            plain,
            control: control.clone(),
            webhooks: Webhooks::new(move |endpoint| connector(endpoint)),
            world: world.clone(),
            feeds,
        }
    }

    /// The changes of the interpretation from now on.
    pub(crate) fn changes(&self) -> Arc<Feed> {
        let feed = Arc::new(Feed::default());
        self.feeds.lock().push(Arc::downgrade(&feed));
        feed
    }

    /// The result of `decide`. It is called again until every webhook request has a response, and must have no side
    /// effects.
    pub(crate) async fn decide<T>(&self, decide: impl Fn(&Interpreter) -> T) -> T {
        let hooks = self.hooks.read().clone();
        if hooks.is_empty() {
            return decide(&self.plain);
        }
        let conversation = Arc::new(Conversation::new(hooks.clone()));
        let layers: Vec<Arc<dyn Layer>> = vec![self.customizations.clone(), conversation.clone(), self.shipped.clone()];
        let interpreter = Interpreter::with_layers(layers);
        for _ in 0..ROUNDS {
            let decision = decide(&interpreter);
            let questions = conversation.take_questions();
            if questions.is_empty() {
                return decision;
            }
            let calls = questions.into_iter().map(|question| async {
                let answer = match hooks.get(&question.hook) {
                    Some(hook) => self.call(hook, &question).await,
                    None => Err("it is not configured any more".to_owned()),
                };
                (question, answer)
            });
            for (question, answer) in futures::future::join_all(calls).await {
                conversation.answer(question, answer);
            }
        }
        decide(&interpreter)
    }

    async fn call(&self, hook: &Hook, question: &Question) -> Answer {
        let uid = self.world.uuid();
        let seconds = hook.webhook.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let timeout = seconds.map_or(TIMEOUT, Duration::from_secs);
        let call = async {
            let target = self.target(hook).await?;
            let client = self.webhooks.client(&target.endpoint).map_err(|error| error.to_string())?;
            let answer = client.request(http::Method::POST, &target.path, Some(question.body(&uid))).await;
            Response::decode(&answer.map_err(|error| error.to_string())?, &uid)
        };
        let late = |_| Err(format!("context deadline exceeded after {timeout:?}"));
        tokio::time::timeout(timeout, call).await.unwrap_or_else(late)
    }

    /// The endpoint of a webhook, and the path at which it is called.
    async fn target(&self, hook: &Hook) -> Result<Target, String> {
        let config = &hook.webhook.client_config;
        let reference = |service: &ServiceReference| webhooks::ServiceReference {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: service.path.clone(),
            port: service.port.and_then(|port| u16::try_from(port).ok()),
        };
        let config = ClientConfig {
            url: config.url.clone(),
            service: config.service.as_ref().map(reference),
            ca_bundle: config.ca_bundle.clone(),
        };
        let service = match &config.service {
            Some(reference) => self.service(reference).await?,
            None => None,
        };
        config.target(service.as_ref())
    }

    async fn service(&self, reference: &webhooks::ServiceReference) -> Result<Option<Value>, String> {
        let resource = ApiResource::namespaced("", "v1", "Service", "services");
        let key = ObjectKey::namespaced(&reference.namespace, &reference.name);
        let found = self.control.client().get_opt(&resource, &key).await.map_err(|error| error.to_string())?;
        found.map(|service| service.to_value()).transpose().map_err(|error| error.to_string())
    }
}
