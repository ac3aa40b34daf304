//! Custom resources at run time: definitions in the store become served resources, and leave again.
//!
//! The task here follows the definitions in the watch cache, decides with `apiextensions`, and writes status directly
//! to the store, guarded by the revision that the decision is based on. A definition is served before its status
//! reports it. Two definitions of one plural cannot exist (their name is the plural and the group);
//! `apiextensions::naming` resolves conflicts of kinds.

mod deletion;
mod install;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiextensions::conversion::Hook;
use apiextensions::{Compilation, Converter, CustomResourceDefinition, DefinitionStrategy, naming};
use apimachinery::meta::Time;
use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use apimachinery::schema::TypeOf;
use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use storage::{Guard, Op, Txn, TxnOutcome};
use tokio_util::sync::CancellationToken;
use transport::ApiService;

use crate::cache::keys;
use crate::cache::{Event, Selection, Subscription};
use crate::conversion;
use crate::state::Shared;

/// Between attempts to read the definitions after one of them could not be read.
const RETRY: Duration = Duration::from_secs(1);

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// Where definitions are stored.
pub(crate) fn place() -> String {
    keys::group_resource(GROUP, PLURAL)
}

/// Converters by the name of the definition they belong to (`works.work.karmada.io`).
pub type Converters = BTreeMap<String, Arc<dyn Converter>>;

/// Why definitions could not be installed at start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum InstallError {
    #[error("the CustomResourceDefinition {name:?} is not valid: {why}")]
    Invalid { name: String, why: String },
    #[error("the CustomResourceDefinition {name:?} cannot be encoded")]
    Encode { name: String, source: serde_json::Error },
    #[error("the CustomResourceDefinitions could not be written; other clients keep changing them")]
    Contended,
    #[error("the CustomResourceDefinitions could not be written")]
    Store(#[from] storage::Error),
    #[error("the CustomResourceDefinitions could not be read")]
    Cache(#[source] apimachinery::Status),
}

/// The registered state of a definition, to distinguish a change of status from one of the schema.
struct Registered {
    group: String,
    plural: String,
    /// A digest of the spec and the accepted names: their tree is ten times as large as the definition.
    digest: [u8; 32],
    is_deleting: bool,
}

/// Synchronizes the registry with the stored definitions.
pub struct Definitions {
    server: Arc<Shared>,
    service: ApiService,
    converters: Converters,
    object_meta: Option<TypeOf>,
    registered: Mutex<BTreeMap<String, Registered>>,
    /// Definitions whose instances are being deleted right now.
    deleting: Mutex<std::collections::BTreeSet<String>>,
}

/// The resource `customresourcedefinitions` itself.
pub fn definitions_resource() -> Option<Resource> {
    let gvk = GroupVersionKind::new(GROUP, "v1", "CustomResourceDefinition");
    let info = ResourceInfo {
        resource: ApiResource::cluster(GROUP, "v1", "CustomResourceDefinition", PLURAL),
        singular: "customresourcedefinition".into(),
        list_kind: "CustomResourceDefinitionList".into(),
        short_names: vec!["crd".into(), "crds".into()],
        categories: vec!["api-extensions".into()],
        verbs: ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            .map(str::to_owned)
            .to_vec(),
        subresources: vec![Subresource::Status],
        selectable_fields: Vec::new(),
        custom: false,
        schema: kubernetes_api::schema_for(&gvk)?,
    };
    Some(Resource { info: Arc::new(info), strategy: Arc::new(DefinitionStrategy) })
}

impl Definitions {
    /// `service` is the server's own: instances of deleted definitions are deleted through it.
    pub fn new(server: Arc<Shared>, service: ApiService, converters: Converters) -> Arc<Self> {
        server.registry.replace(GROUP, PLURAL, definitions_resource());
        Arc::new(Self {
            server,
            service,
            converters,
            object_meta: object_meta(),
            registered: Mutex::default(),
            deleting: Mutex::default(),
        })
    }

    /// Installs `crds` and registers everything that is stored. Afterwards all of it is served, and the events from
    /// here on are for [`Definitions::run`].
    ///
    /// # Errors
    /// When a definition of ours is not valid or the store does not take them.
    pub fn prepare<'a>(self: &'a Arc<Self>, crds: Vec<Value>) -> BoxFuture<'a, Result<Subscription, InstallError>> {
        Box::pin(async move {
            self.install(crds).await?;
            let subscription = self.subscribe().map_err(InstallError::Cache)?;
            for object in subscription.initial.iter() {
                self.reconcile(object).await;
            }
            Ok(subscription)
        })
    }

    /// Follows the definitions until `stop`.
    pub fn run(self: Arc<Self>, mut subscription: Subscription, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let event = tokio::select! {
                    biased;
                    event = subscription.events.recv() => event,
                    () = stop.cancelled() => return,
                };
                match event {
                    Some(event) => self.absorb(&event).await,
                    // Too slow for the feed: start again with the current state.
                    None => {
                        subscription = match self.subscribe() {
                            Ok(subscription) => subscription,
                            Err(error) => {
                                tracing::error!(%error, "the CustomResourceDefinitions cannot be read; those that are known stay");
                                tokio::time::sleep(RETRY).await;
                                continue;
                            }
                        };
                        self.forget_missing(&subscription.initial);
                        for object in subscription.initial.iter() {
                            self.reconcile(object).await;
                        }
                    }
                }
            }
        })
    }

    fn subscribe(&self) -> Result<Subscription, apimachinery::Status> {
        let cache = self.server.cache.resource(&keys::group_resource(GROUP, PLURAL));
        cache.subscribe(Selection::default(), self.server.cache.revision())
    }

    async fn absorb(self: &Arc<Self>, event: &Event) {
        match (&event.current, &event.previous) {
            (Some(object), _) => {
                // Only the newest state counts; older events of the same definition are overtaken.
                let newest = self.stored(object.name()).ok().flatten();
                self.reconcile(newest.as_ref().unwrap_or(object)).await;
            }
            (None, Some(previous)) => {
                if matches!(self.stored(previous.name()), Ok(None)) {
                    self.unregister(previous.name());
                    self.forget(previous.name());
                }
                // Its names are free now; other definitions of its group may have waited for them.
                for object in self.of_group(group_of(previous.name())) {
                    self.reconcile(&object).await;
                }
            }
            (None, None) => {}
        }
    }

    fn stored(&self, name: &str) -> Result<Option<Arc<Object>>, apimachinery::Status> {
        self.server.cache.resource(&keys::group_resource(GROUP, PLURAL)).get(&ObjectKey::cluster(name))
    }

    fn all(&self) -> Vec<Arc<Object>> {
        self.server
            .cache
            .resource(&keys::group_resource(GROUP, PLURAL))
            .list(None, None, 0, |_| true)
            .map_or_else(|_| Vec::new(), |(all, ..)| all)
    }

    fn of_group(&self, group: &str) -> impl Iterator<Item = Arc<Object>> {
        self.all().into_iter().filter(move |object| group_of(object.name()) == group)
    }

    /// The names that definitions of a group hold.
    fn claims(&self, group: &str) -> Vec<naming::Claim> {
        self.of_group(group).filter_map(|object| naming::Claim::read(&object.json()).ok()).collect()
    }

    fn forget_missing(&self, present: &[Arc<Object>]) {
        let gone: Vec<String> = {
            let registered = self.registered.lock();
            let missing = |name: &&String| !present.iter().any(|object| object.name() == name.as_str());
            registered.keys().filter(missing).cloned().collect()
        };
        for name in gone {
            self.unregister(&name);
            self.forget(&name);
        }
    }

    /// Brings one definition to where it should be. Failures are logged; the next event or start tries again.
    async fn reconcile(self: &Arc<Self>, object: &Arc<Object>) {
        let Ok(tree) = object.to_value() else { return };
        let crd = match CustomResourceDefinition::from_value(&tree) {
            Ok(crd) => crd,
            Err(error) => {
                let name = object.name();
                tracing::warn!(object = name, err = %error, "CustomResourceDefinition cannot be decoded and is not served");
                return;
            }
        };
        if object.is_deleting() {
            self.register(&crd, object);
            self.start_deletion(&crd);
            return;
        }
        let others = self.claims(&crd.spec.group);
        let status = naming::desired_status(&crd, &others, self.now());
        let desired = CustomResourceDefinition { status, ..crd.clone() };
        self.register(&desired, object);
        if desired.status != crd.status {
            self.write_status(tree, &desired, object).await;
        }
    }

    fn now(&self) -> Time {
        Time::new(self.server.world.now())
    }

    /// Serves an established definition. For status changes it is already registered, at no cost.
    fn register(&self, crd: &CustomResourceDefinition, object: &Object) {
        if !crd.condition_is_true("Established") {
            return;
        }
        let name = crd.metadata.name.clone();
        let digest = digest(crd);
        let mut registered = self.registered.lock();
        let is_deleting = object.is_deleting();
        if let Some(known) = registered.get_mut(&name).filter(|known| known.digest == digest) {
            if known.is_deleting != is_deleting {
                known.is_deleting = is_deleting;
                self.server.registry.touch();
            }
            return;
        }
        let (group, plural) = (crd.spec.group.clone(), crd.spec.names.plural.clone());
        let built_in = |resource: &Resource| {
            !resource.info.custom && resource.info.resource.plural == plural && resource.info.resource.group == group
        };
        if self.server.registry.snapshot().iter().any(built_in) {
            tracing::warn!(object = %name, "CustomResourceDefinition names a built-in resource and is ignored");
            return;
        }
        // A converter in this process needs no webhook.
        let own = self.converters.get(&name).cloned();
        let hook = if own.is_some() { None } else { Hook::of(crd) };
        let by_webhook = || hook.is_some().then(|| Arc::new(conversion::ByWebhook) as Arc<dyn Converter>);
        let converter = own.or_else(by_webhook);
        self.server.conversions.set(&name, hook);
        let compilation =
            Compilation { object_meta: self.object_meta.as_ref(), converter, schema_revision: object.revision() };
        let resources = apiextensions::resources(crd, &compilation);
        self.server.registry.replace(&group, &plural, resources);
        registered.insert(name, Registered { group, plural, digest, is_deleting });
    }

    fn unregister(&self, name: &str) {
        if let Some(gone) = self.registered.lock().remove(name) {
            self.server.registry.replace(&gone.group, &gone.plural, []);
            self.server.conversions.set(name, None);
        }
    }

    /// Drops the server's state of a resource without a definition: its watch cache and its series in the metrics.
    fn forget(&self, name: &str) {
        let (Some((plural, group)), server) = (name.split_once('.'), &self.server) else { return };
        // A built-in resource of the same name has its own.
        let is_served = |resource: &Resource| {
            let named = &resource.info.resource;
            named.plural == plural && named.group == group
        };
        if server.registry.snapshot().iter().any(is_served) {
            return;
        }
        server.cache.retire(&keys::group_resource(group, plural));
        server.counted.forget(group, plural);
    }

    /// Writes a status decided on `object`. A lost race is no failure: the newer state brings its own event.
    async fn write_status(&self, mut tree: Value, desired: &CustomResourceDefinition, object: &Object) {
        let Ok(status) = serde_json::to_value(&desired.status) else { return };
        tree["status"] = status;
        if let Err(error) = self.write(&tree, object, false).await {
            tracing::warn!(object = object.name(), err = %error, "Status of the CustomResourceDefinition cannot be written");
        }
    }

    /// Puts or removes the stored definition if it is still the one that was read; `false` when it is not.
    async fn write(&self, tree: &Value, read: &Object, remove: bool) -> Result<bool, storage::Error> {
        let resource = ApiResource::cluster(GROUP, "v1", "CustomResourceDefinition", PLURAL);
        let key = keys::object_key(&resource, &read.key());
        let encoded = keys::encode(tree).map_err(|error| storage::Error::Failed(error.to_string().into()))?;
        let op = if remove {
            Op::Delete { key: key.clone() }
        } else {
            Op::Put { key: key.clone(), value: encoded, lease: None }
        };
        let revision = read.revision();
        let txn = Txn { guards: vec![Guard::ModRevision(key, revision)], ops: vec![op] };
        Ok(matches!(self.server.cache.store().txn(txn).await?, TxnOutcome::Committed { .. }))
    }
}

/// The group of a definition: its name is the plural and the group.
fn group_of(definition: &str) -> &str {
    definition.split_once('.').map_or("", |(_, group)| group)
}

/// Changes with the served properties of a definition.
fn digest(crd: &CustomResourceDefinition) -> [u8; 32] {
    use sha2::Digest as _;
    let mut hasher = sha2::Sha256::new();
    // Strings, numbers and lists of them can be encoded, and a hash takes any bytes.
    let _ = serde_json::to_writer(&mut hasher, &(&crd.spec, &crd.status.accepted_names));
    hasher.finalize().into()
}

/// The type of `metadata`, from a built-in kind.
fn object_meta() -> Option<TypeOf> {
    let schemas = kubernetes_api::schemas();
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let root = schemas.iter().find(|(_, node)| node.definition.as_deref() == Some(name))?.0;
    Some(TypeOf { schemas, root })
}
