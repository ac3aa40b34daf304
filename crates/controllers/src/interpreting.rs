//! The interpreter of this process: the users' customizations, their webhooks, the shipped customizations, the built-in
//! kinds, in this order. Decisions stay pure functions of an [`Interpreter`]; the shell sends the webhook requests
//! between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use client::{Client, Endpoint};
use controller_runtime::InformerSet;
use interpreter::lua::{Aside, Budget, Clock, Engine};
use interpreter::webhook::{Answer, Conversation, Hook, Hooks, Question, Response};
use interpreter::{Customizations, Interpreter, Layer, Scripts, shipped};
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::{
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, ServiceReference,
};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Handle, RuntimeFlavor};
use world::World;

use crate::stores::Store;
use crate::{Connector, metrics};

/// The maximum number of rounds of webhook requests in one decision: the requests of a round depend on earlier
/// responses, and no decision has more than two operations in sequence.
const ROUNDS: usize = 4;
/// The documented time-out of a webhook that names none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Scripts at once that have a thread of their own; more share those of all others, which bounds what they take.
const ASIDE: usize = 2;

/// A script runs for up to a second: what else waits for its thread goes on meanwhile, where there is more than one.
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
    connector: Connector,
    world: World,
    /// One connection for each webhook, recreated when its address changes.
    clients: Mutex<HashMap<String, (Endpoint, Client)>>,
}

impl Interpreting {
    /// Follows customizations and webhook configurations. Until their caches are complete those that are missing do not
    /// count; the controllers wait for them.
    pub(crate) fn follow(
        control: &InformerSet,
        connector: Connector,
        world: &World,
        registry: &::metrics::Registry,
    ) -> Self {
        let time = world.clone();
        let clock: Clock = Arc::new(move || time.now());
        let engine = Engine::running_aside(clock, Budget::default(), aside());
        let pool = engine.clone();
        registry.collect(move |samples| {
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
        let store: Store<ResourceInterpreterCustomization> = Store::follow(&[&informer], |object| object.decode());
        let layer = customizations.clone();
        informer.subscribe(move |_| {
            let all = store.all();
            layer.replace(Scripts::of_customizations(engine.clone(), all.iter().map(AsRef::as_ref)));
        });
        let hooks: Arc<RwLock<Arc<Hooks>>> = Arc::default();
        let informer = control.informer(&ResourceInterpreterWebhookConfiguration::api_resource());
        let store: Store<ResourceInterpreterWebhookConfiguration> =
            Store::follow(&[&informer], |object| object.decode());
        let newest = hooks.clone();
        informer.subscribe(move |_| {
            let all = store.all();
            *newest.write() = Arc::new(Hooks::of_configurations(all.iter().map(AsRef::as_ref)));
        });
        let plain = Interpreter::with_layers(vec![customizations.clone(), shipped.clone()]);
        Self {
            customizations,
            shipped,
            hooks,
            plain,
            control: control.clone(),
            connector,
            world: world.clone(),
            clients: Mutex::default(),
        }
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
            let asked = questions.into_iter().map(|question| async {
                let answer = match hooks.get(&question.hook) {
                    Some(hook) => self.call(hook, &question).await,
                    None => Err("it is not configured any more".to_owned()),
                };
                (question, answer)
            });
            for (question, answer) in futures::future::join_all(asked).await {
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
            let (endpoint, path) = self.endpoint(hook).await?;
            let client = self.client(&hook.name, endpoint)?;
            let answer = client.request(http::Method::POST, &path, Some(question.body(&uid))).await;
            Response::decode(&answer.map_err(|error| error.to_string())?, &uid)
        };
        let late = |_| Err(format!("context deadline exceeded after {timeout:?}"));
        tokio::time::timeout(timeout, call).await.unwrap_or_else(late)
    }

    fn client(&self, name: &str, endpoint: Endpoint) -> Result<Client, String> {
        let mut clients = self.clients.lock();
        if let Some((known, client)) = clients.get(name)
            && *known == endpoint
        {
            return Ok(client.clone());
        }
        let client = match (self.connector)(&endpoint) {
            Some(client) => client,
            None => Client::from_endpoint(&endpoint).map_err(|error| error.to_string())?,
        };
        clients.insert(name.to_owned(), (endpoint, client.clone()));
        Ok(client)
    }

    /// The endpoint of a webhook, and the request path.
    async fn endpoint(&self, hook: &Hook) -> Result<(Endpoint, String), String> {
        let config = &hook.webhook.client_config;
        let ca_bundle = match config.ca_bundle.as_str() {
            "" => None,
            text => Some(base64::prelude::BASE64_STANDARD.decode(text).map_err(|error| format!("caBundle: {error}"))?),
        };
        let (server, path, server_name) = match (&config.service, &config.url) {
            (Some(service), _) => {
                let path = service.path.clone().unwrap_or_default();
                let name = format!("{}.{}.svc", service.name, service.namespace);
                (self.service(service).await?, path, Some(name))
            }
            (None, Some(url)) => {
                let after_scheme = url.find("://").map_or(0, |at| at + 3);
                let at = url[after_scheme..].find('/').map_or(url.len(), |at| at + after_scheme);
                (url[..at].to_owned(), url[at..].to_owned(), None)
            }
            (None, None) => return Err("it has neither a service nor a url".to_owned()),
        };
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        // The URL is data of the control plane, too: templates are not sent to metadata services.
        Ok((Endpoint { server, ca_bundle, server_name, guarded: true, ..Endpoint::default() }, path))
    }

    /// The address of a Service: as the control plane knows it, or by its name in DNS.
    async fn service(&self, reference: &ServiceReference) -> Result<String, String> {
        let resource = ApiResource::namespaced("", "v1", "Service", "services");
        let (namespace, name) = (reference.namespace.as_str(), reference.name.as_str());
        let key = ObjectKey::namespaced(namespace, name);
        let port = reference.port.unwrap_or(443);
        let found = self.control.client().get_opt(&resource, &key).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(format!("https://{name}.{namespace}.svc:{port}")) };
        let tree = found.to_value().map_err(|error| error.to_string())?;
        let spec = &tree["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(format!("https://{}:{port}", spec["externalName"].as_str().unwrap_or_default()));
        }
        let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if !ports.iter().any(|it| it["port"] == port) {
            return Err(format!("service {key} has no port {port}"));
        }
        match spec["clusterIP"].as_str().unwrap_or_default() {
            "" | "None" => Err(format!("service {key} is headless")),
            address if address.contains(':') => Ok(format!("https://[{address}]:{port}")),
            address => Ok(format!("https://{address}:{port}")),
        }
    }
}
