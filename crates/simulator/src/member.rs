//! A member cluster: its API server and its controllers.

use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::{ApiResource, ObjectKey};
use apiserver::auth::authn::{Authentication, Lookup};
use apiserver::documents::version::VersionInfo;
use apiserver::routes::Reviews;
use apiserver::{ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use controller_runtime::InformerSet;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use storage::Store;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity};
use world::World;

use crate::advertised::Advertised;
use crate::custom_api::Annotated;
use crate::flavour;
use crate::metrics_api::Metrics;
use crate::options::MemberOptions;
use crate::plan::kubelet::Pace;
use crate::plan::{Kind, node};
use crate::shell::Shell;

/// The namespaces of every cluster.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The users of the member's API server, and its routes besides objects.
pub struct Access {
    pub authentication: Box<dyn FnOnce(Arc<dyn Lookup>) -> Authentication + Send>,
    pub authorization: Authorization,
    pub routes: Vec<Arc<dyn Route>>,
    /// Signing of service account tokens and certificates; each controller runs only if its keys are set.
    pub controllers: kube_controllers::Settings,
}

impl Default for Access {
    /// Callers in this process only, with all rights.
    fn default() -> Self {
        Self {
            authentication: Box::new(|_| Authentication::default()),
            authorization: Authorization::AlwaysAllow,
            routes: vec![Arc::new(Reviews)],
            controllers: kube_controllers::Settings::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("starting the API server of member {member}")]
    Server { member: String, source: apiserver::StartError },
    #[error("choosing the admission plugins of member {member}")]
    Admission { member: String, source: apiserver::admit::plugins::SwitchError },
    #[error("starting the controllers of member {member}")]
    Controllers { member: String, source: kube_controllers::SelectionError },
    #[error("creating {object} in member {member}")]
    Bootstrap { member: String, object: String, source: client::Error },
}

/// A running member. Dropping it does not stop its tasks; [`Member::stop`] does.
pub struct Member {
    name: String,
    server: ApiServer,
    client: Client,
    controllers: kube_controllers::Running,
    stop: CancellationToken,
    shell: Option<Shell>,
}

impl Member {
    /// Returns when the API server serves, the namespaces exist and the controllers run. Continues with the content of
    /// the store.
    ///
    /// # Errors
    /// When the store cannot be read, or the first objects cannot be written.
    pub fn start(
        options: MemberOptions,
        store: Arc<dyn Store>,
        world: World,
        access: Access,
    ) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move {
            let mut routes = access.routes;
            routes.push(Arc::new(Metrics { default: options.load }));
            // Before the documents, which omit groups without resources.
            routes.insert(0, Arc::new(Annotated));
            let mut admission = flavour::admission(&world)
                .map_err(|source| StartError::Admission { member: options.name.clone(), source })?;
            let advertised = Advertised::default();
            admission.push(advertised.observer());
            let config = ServerConfig {
                store,
                world: world.clone(),
                resources: flavour::resources(),
                admission,
                authentication: access.authentication,
                authorization: access.authorization,
                routes,
                crds: Vec::new(),
                converters: Default::default(),
                version: VersionInfo::default(),
            };
            let member = options.name.clone();
            let server = ApiServer::start(config)
                .await
                .map_err(|source| StartError::Server { member: member.clone(), source })?;
            let client = Client::in_process(server.service(), Identity::system(flavour::COMPONENT));
            bootstrap(&client, &options, &world).await?;
            let stop = CancellationToken::new();
            tokio::spawn(advertised.run(Arc::clone(server.shared()), stop.clone()));
            let informers = InformerSet::until(client.clone(), world.clone(), stop.clone());
            let controllers =
                kube_controllers::start(client.clone(), &informers, access.controllers, &[], stop.clone())
                    .map_err(|source| StartError::Controllers { member: member.clone(), source })?;
            let pace = Pace { start: options.pod_start, job_run: options.job_run };
            let shell =
                if options.bare { None } else { Some(Shell::start(&informers, world, pace, stop.clone()).await) };
            Ok(Self { name: member, server, client, controllers, shell, stop })
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client in this process, with all rights.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API server, to be served on a socket or called in this process.
    pub fn service(&self) -> ApiService {
        self.server.service()
    }

    /// Stops the controllers, then the server. The store stays open: it belongs to the caller.
    pub async fn stop(self) {
        self.stop.cancel();
        self.controllers.ended().await;
        if let Some(shell) = self.shell {
            shell.ended().await;
        }
        self.server.shutdown();
    }
}

/// Creates the namespaces and nodes of a new member; existing ones are unchanged.
async fn bootstrap(client: &Client, options: &MemberOptions, world: &World) -> Result<(), StartError> {
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for name in NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(client, options, &namespaces, &ObjectKey::cluster(name), object).await?;
    }
    for (index, shape) in options.nodes.iter().enumerate() {
        let key = ObjectKey::cluster(node::name(&options.name, index));
        let object = node::object(&options.name, index, shape, Time::new(world.now()));
        ensure(client, options, Kind::Node.resource(), &key, object).await?;
    }
    Ok(())
}

async fn ensure(
    client: &Client,
    options: &MemberOptions,
    resource: &ApiResource,
    key: &ObjectKey,
    object: Value,
) -> Result<(), StartError> {
    let failed = |source| StartError::Bootstrap {
        member: options.name.clone(),
        object: format!("{} {key}", resource.plural),
        source,
    };
    if client.get_opt(resource, key).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    match client.create(resource, &object).await {
        Err(error) if !error.is_already_exists() => Err(failed(error)),
        _ => Ok(()),
    }
}
