//! Discovery of the clusters of a Cluster API management cluster (`--cluster-api-kubeconfig`).
//!
//! A provisioned cluster is joined with the kubeconfig of its Secret `NAME-kubeconfig`, as `karmadactl join` does, and
//! unjoined when it is deleted in the management cluster. [`origin`] decides. A Cluster is unjoined only if it was
//! joined here, and the management cluster itself answers that its origin does not exist: a lost connection, an unknown
//! resource or another server at the same address is no such answer.

mod endpoint;
mod origin;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use base64::Engine as _;
use client::kubeconfig::Places;
use client::{Client, DeleteOptions, Patch, PatchOptions, Preconditions};
use controller_runtime::{
    Backoff, Event, EventRecorder, InformerSet, Involved, Next, Selection, WorkQueue, run_workers,
};
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmadactl::join::{self, JoinOptions, Member};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::World;

use origin::{MARK, Mark, Origin, Registered, Step, plan};

const GROUP: &str = "cluster.x-k8s.io";
/// The type of Cluster API's Secrets.
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
const SUFFIX: &str = "-kubeconfig";
/// Joins at once: each waits for tokens of its member.
const WORKERS: usize = 5;
/// When a report is checked again without an event: Secrets of other types are not watched.
const AGAIN: Duration = Duration::from_secs(60);

/// The management cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--cluster-api-kubeconfig`
    pub kubeconfig: PathBuf,
    /// `--cluster-api-context`; the current one if it is `None`.
    pub context: Option<String>,
}

impl Settings {
    /// The settings of both flags; `None` without a kubeconfig.
    ///
    /// # Errors
    /// A context without a kubeconfig.
    pub fn of(kubeconfig: &str, context: &str) -> anyhow::Result<Option<Self>> {
        let context = Some(context.to_owned()).filter(|context| !context.is_empty());
        if kubeconfig.is_empty() {
            anyhow::ensure!(
                context.is_none(),
                "--cluster-api-context names a context of --cluster-api-kubeconfig; set both"
            );
            return Ok(None);
        }
        Ok(Some(Self { kubeconfig: kubeconfig.into(), context }))
    }
}

/// Follows the management cluster until `stop`; `control` has the caches of the control plane.
pub fn start(settings: Settings, control: InformerSet, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        let followed = stop.clone();
        stop.run_until_cancelled(async move {
            let management = connect(&settings, control.world()).await;
            follow(management, control, followed).await;
        })
        .await;
    })
}

struct Management {
    client: Client,
    /// The UID of its namespace kube-system.
    id: String,
    clusters: ApiResource,
}

/// Retries until the management cluster answers.
fn connect<'a>(settings: &'a Settings, world: &'a World) -> BoxFuture<'a, Management> {
    Box::pin(async move {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut reported = String::new();
        loop {
            match try_connect(settings).await {
                Ok(management) => {
                    let (server, version) = (management.id.as_str(), management.clusters.api_version());
                    tracing::info!(id = server, version, "Clusters of the Cluster API management cluster are followed");
                    return management;
                }
                Err(why) if why != reported => {
                    tracing::warn!(err = %why, "The Cluster API management cluster cannot be followed; it is retried");
                    reported = why;
                }
                Err(_) => {}
            }
            tokio::time::sleep(pauses.next(world)).await;
        }
    })
}

async fn try_connect(settings: &Settings) -> Result<Management, String> {
    let places = Places::of_component("--cluster-api-kubeconfig", Some(settings.kubeconfig.clone()));
    let client = places.connect(settings.context.as_deref()).await.map_err(|error| error.to_string())?.client;
    let id = id_of(&client).await?;
    let discovery = client.discovery().await.map_err(|error| error.to_string())?;
    let preferred = discovery.preferred();
    let clusters = preferred.iter().find(|it| it.resource.group == GROUP && it.resource.plural == "clusters");
    let clusters = clusters.ok_or_else(|| format!("it does not serve clusters.{GROUP}; install Cluster API there"))?;
    Ok(Management { client, id, clusters: clusters.resource.clone() })
}

/// The UID of the namespace kube-system.
async fn id_of(management: &Client) -> Result<String, String> {
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let found = management.get(&namespaces, &ObjectKey::cluster("kube-system")).await;
    found.map(|namespace| namespace.uid().to_owned()).map_err(|error| format!("get namespace kube-system: {error}"))
}

struct Shared {
    management: Management,
    control: Client,
    recorder: EventRecorder,
    /// The last report about each cluster.
    reported: Mutex<HashMap<ObjectKey, String>>,
}

async fn follow(management: Management, control: InformerSet, stop: CancellationToken) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let informers = InformerSet::until(management.client.clone(), control.world().clone(), stop.child_token());
    let clusters = informers.informer(&management.clusters);
    let keys = queue.clone();
    clusters.subscribe(move |event| keys.add(event.object().key()));
    let kubeconfigs =
        Selection { field_selector: Some(format!("type={SECRET_TYPE}")), metadata_only: true, ..Selection::default() };
    let keys = queue.clone();
    informers.selected(&secrets(), kubeconfigs).subscribe(move |event| {
        let secret = event.object();
        if let (Some(name), Some(namespace)) = (secret.name().strip_suffix(SUFFIX), secret.namespace()) {
            keys.add(ObjectKey::namespaced(namespace, name));
        }
    });
    // Clusters whose origin was deleted while no process was running, and names that become free.
    let keys = queue.clone();
    control.informer(&Cluster::api_resource()).subscribe(move |event| {
        let state = |object: &Object| (Mark::of(object), object.is_deleting());
        match event {
            // Clusters report their status often.
            Event::Updated { old, new } if state(old) == state(new) => {}
            event => Mark::of(event.object()).iter().for_each(|mark| keys.add(mark.key())),
        }
    });
    let (client, world) = (control.client().clone(), control.world().clone());
    let recorder = EventRecorder::start(client.clone(), world, "cluster-api-detector", stop.clone());
    let shared = Arc::new(Shared { management, control: client, recorder, reported: Mutex::default() });
    if clusters.synced().await {
        run_workers("cluster-api-detector", queue, WORKERS, stop, move |key| reconcile(shared.clone(), key)).await;
    }
}

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

fn reconcile(shared: Arc<Shared>, key: ObjectKey) -> BoxFuture<'static, Result<Next, String>> {
    Box::pin(async move {
        let done = shared.pass(&key).await;
        if let Err(why) = &done {
            shared.report(&key, "ClusterAPIFailed", why);
        }
        done
    })
}

impl Shared {
    async fn pass(&self, key: &ObjectKey) -> Result<Next, String> {
        let text = |error: client::Error| error.to_string();
        let origin = self.origin(key).await?;
        let registered =
            self.control.get_opt(&Cluster::api_resource(), &ObjectKey::cluster(key.name())).await.map_err(text)?;
        let is_provisioned = origin.as_ref().is_some_and(|it| it.is_provisioned && !it.is_deleting);
        let kubeconfig = if is_provisioned { self.kubeconfig(key).await? } else { None };
        let hash = kubeconfig.as_deref().map(hash);
        let state = Registered::of(registered.as_deref(), &self.management.id, key);
        match (plan(origin.as_ref(), &state, hash.as_deref()), registered) {
            (Step::Join, _) => {
                let (Some(origin), Some(kubeconfig)) = (origin, kubeconfig) else { return Ok(Next::Done) };
                self.join(key, &origin, &kubeconfig).await?;
            }
            (Step::Adopt, Some(cluster)) => {
                let (Some(origin), Some(kubeconfig)) = (origin, kubeconfig) else { return Ok(Next::Done) };
                self.write(&cluster, &self.mark(key, &origin, &kubeconfig), Some(&kubeconfig)).await?;
            }
            (Step::Follow { mark, renew }, Some(cluster)) => {
                self.write(&cluster, &mark, kubeconfig.filter(|_| renew).as_deref()).await?;
            }
            (Step::Unjoin, Some(cluster)) => self.unjoin(key, &cluster).await?,
            (Step::Report(reason, why), _) => {
                self.report(key, reason, &why);
                return Ok(Next::After(AGAIN));
            }
            (Step::Nothing | Step::Adopt | Step::Follow { .. } | Step::Unjoin, _) => {
                self.reported.lock().remove(key);
            }
        }
        Ok(Next::Done)
    }

    /// `None` if the management cluster answers that it does not exist.
    async fn origin(&self, key: &ObjectKey) -> Result<Option<Origin>, String> {
        let Management { client, id, clusters } = &self.management;
        match client.get(clusters, key).await {
            Ok(object) => Ok(Some(Origin::of(&object))),
            Err(error) if error.is_absence_of(key.name()) => {
                let found = id_of(client).await?;
                if found != *id {
                    return Err(format!(
                        "another cluster (ID {found}) answers instead of the management cluster (ID {id}); nothing is \
                         unjoined. Correct --cluster-api-kubeconfig and restart"
                    ));
                }
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn kubeconfig(&self, key: &ObjectKey) -> Result<Option<String>, String> {
        let name = format!("{}{SUFFIX}", key.name());
        let secret = ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
        let found = self.management.client.get_opt(&secrets(), &secret).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(None) };
        let tree = found.to_value().map_err(|error| error.to_string())?;
        let text = tree["data"]["value"].as_str().ok_or_else(|| format!("Secret {secret} has no key value"))?;
        let bytes = base64::prelude::BASE64_STANDARD.decode(text).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(Some).ok_or_else(|| format!("key value of Secret {secret} is not a text in base64"))
    }

    fn mark(&self, key: &ObjectKey, origin: &Origin, kubeconfig: &str) -> Mark {
        Mark {
            management: self.management.id.clone(),
            namespace: key.namespace().unwrap_or_default().to_owned(),
            name: key.name().to_owned(),
            uid: origin.uid.clone(),
            kubeconfig: hash(kubeconfig),
            paused: origin.is_paused,
        }
    }

    async fn join(&self, key: &ObjectKey, origin: &Origin, kubeconfig: &str) -> Result<(), String> {
        join::cluster_name(&[key.name().to_owned()]).map_err(|error| error.to_string())?;
        let mark = self.mark(key, origin, kubeconfig);
        let options = JoinOptions { annotations: [(MARK.to_owned(), mark.text())].into(), ..JoinOptions::default() };
        let joined = join::join(&self.control, &member(kubeconfig)?, key.name(), &options).await;
        joined.map_err(|error| error.to_string())?;
        self.reported.lock().remove(key);
        self.recorder.normal(self.involved(key), "ClusterAPIJoined", format!("{key} of Cluster API is joined"));
        tracing::info!(cluster = key.name(), origin = %key, "Cluster of Cluster API is joined");
        Ok(())
    }

    /// Writes the mark after the registration is renewed, so that an interrupted renewal is repeated.
    async fn write(&self, cluster: &Object, mark: &Mark, kubeconfig: Option<&str>) -> Result<(), String> {
        if let Some(kubeconfig) = kubeconfig {
            let member = member(kubeconfig)?;
            let options = JoinOptions::default();
            let renewed = karmadactl::renewal::renew(&self.control, &member, cluster, &options).await;
            renewed.map_err(|error| error.to_string())?;
            tracing::info!(cluster = cluster.name(), "Registration follows the new kubeconfig of Cluster API");
        }
        let patch = Patch::Merge(json!({"metadata": {"uid": cluster.uid(), "annotations": {MARK: mark.text()}}}));
        let key = ObjectKey::cluster(cluster.name());
        let patched = self.control.patch(&Cluster::api_resource(), &key, &patch, &PatchOptions::default()).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    async fn unjoin(&self, key: &ObjectKey, cluster: &Object) -> Result<(), String> {
        let name = cluster.name();
        let preconditions = Preconditions { uid: Some(cluster.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::background() };
        match self.control.delete(&Cluster::api_resource(), &ObjectKey::cluster(name), &options).await {
            Err(error) if !error.is_not_found() => return Err(error.to_string()),
            _ => {}
        }
        let why = format!(
            "{key} of Cluster API is deleted: Cluster {name} is unjoined. If the cluster no longer answers and the Cluster \
             stays, run: karmadactl unjoin {name} --force"
        );
        tracing::info!(cluster = name, origin = %key, "{why}");
        self.recorder.normal(self.involved(key), "ClusterAPIUnjoined", why);
        Ok(())
    }

    /// Reports a reason once.
    fn report(&self, key: &ObjectKey, reason: &'static str, why: &str) {
        let message = format!("{key} of Cluster API: {why}");
        if self.reported.lock().insert(key.clone(), message.clone()).as_ref() == Some(&message) {
            return;
        }
        tracing::warn!(cluster = key.name(), origin = %key, reason, "{message}");
        self.recorder.warning(self.involved(key), reason, message);
    }

    /// The control plane may lack the namespace, so the event is in the namespace default.
    fn involved(&self, key: &ObjectKey) -> Involved {
        Involved {
            api_version: self.management.clusters.api_version(),
            kind: "Cluster".to_owned(),
            name: key.name().to_owned(),
            ..Involved::default()
        }
    }
}

fn member(kubeconfig: &str) -> Result<Member, String> {
    let endpoint = endpoint::endpoint(kubeconfig).map_err(|why| format!("its kubeconfig cannot be used: {why}"))?;
    Ok(Member {
        client: Client::from_endpoint(&endpoint).map_err(|error| error.to_string())?,
        endpoint: endpoint.server,
        insecure_skip_tls_verify: endpoint.insecure,
        authority: endpoint.ca_bundle,
        proxy_url: endpoint.proxy_url,
    })
}

fn hash(kubeconfig: &str) -> String {
    let digest = Sha256::digest(kubeconfig.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_needs_a_kubeconfig() {
        assert_eq!(Settings::of("", "").unwrap(), None);
        let both = Settings::of("capi.config", "a").unwrap();
        assert_eq!(both.map(|it| (it.kubeconfig, it.context)), Some(("capi.config".into(), Some("a".to_owned()))));
        assert!(Settings::of("", "a").is_err_and(|error| error.to_string().contains("set both")));
    }
}
