//! A member cluster as a value: its API server and everything that runs behind it.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::authn::{Authentication, Lookup};
use apiserver::routes::Reviews;
use apiserver::version::VersionInfo;
use apiserver::{ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use controller_runtime::InformerSet;
use serde_json::{Value, json};
use storage::Store;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity};
use world::World;

use crate::options::MemberOptions;

/// The namespaces every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who may use the member's API server, and what it answers besides objects.
pub struct Access {
    pub authentication: Box<dyn FnOnce(Arc<dyn Lookup>) -> Authentication + Send>,
    pub authorization: Authorization,
    pub routes: Vec<Arc<dyn Route>>,
    /// What service accounts, tokens and certificate requests are made with; without keys there are none.
    pub controllers: kube_controllers::Settings,
}

impl Default for Access {
    /// Callers in this process only, who may do everything.
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
}

impl Member {
    /// Answers when the API server serves, the namespaces exist and the controllers run. What the store holds from
    /// before is taken up.
    ///
    /// # Errors
    /// When the store cannot be read, or the first objects cannot be written.
    pub async fn start(
        options: MemberOptions,
        store: Arc<dyn Store>,
        world: World,
        access: Access,
    ) -> Result<Self, StartError> {
        let config = ServerConfig {
            store,
            world: world.clone(),
            resources: kubernetes_api::resources(),
            admission: Vec::new(),
            authentication: access.authentication,
            authorization: access.authorization,
            routes: access.routes,
            crds: Vec::new(),
            converters: Default::default(),
            version: VersionInfo::default(),
        };
        let member = options.name.clone();
        let server =
            ApiServer::start(config).await.map_err(|source| StartError::Server { member: member.clone(), source })?;
        let client = Client::in_process(server.service(), Identity::system("member"));
        let stop = CancellationToken::new();
        let informers = InformerSet::until(client.clone(), world, stop.clone());
        let controllers = kube_controllers::start(client.clone(), &informers, access.controllers, &[], stop.clone())
            .map_err(|source| StartError::Controllers { member: member.clone(), source })?;
        let started = Self { name: member, server, client, controllers, stop };
        started.bootstrap().await?;
        Ok(started)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client in this process, with every right.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API server, to be served on a socket or called in this process.
    pub fn service(&self) -> ApiService {
        self.server.service()
    }

    /// Ends the controllers, then the server. The store stays open: it is the caller's.
    pub async fn stop(self) {
        self.stop.cancel();
        self.controllers.ended().await;
        self.server.shutdown();
    }

    async fn bootstrap(&self) -> Result<(), StartError> {
        let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
        for name in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.ensure(&namespaces, &ObjectKey::cluster(name), object).await?;
        }
        Ok(())
    }

    async fn ensure(&self, resource: &ApiResource, key: &ObjectKey, object: Value) -> Result<(), StartError> {
        let failed = |source| StartError::Bootstrap {
            member: self.name.clone(),
            object: format!("{} {key}", resource.plural),
            source,
        };
        if self.client.get_opt(resource, key).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        match self.client.create(resource, &object).await {
            Err(error) if !error.is_already_exists() => Err(failed(error)),
            _ => Ok(()),
        }
    }
}
