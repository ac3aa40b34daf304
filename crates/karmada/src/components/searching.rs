//! `karmada search`: search.karmada.io for another API server (APIService `v1alpha1.search.karmada.io`).
//!
//! ResourceRegistries are stored here. Clusters, Secrets and discovery are read from the API server in front, objects
//! from the members, as upstream's karmada-search does. Registries with an OpenSearch backend have their objects written
//! there.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::auth::authn::FrontProxy;
use apiserver::{Admission, Route};
use client::{Client, Mapper};
use controllers::{Members, Settings};
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

use super::aggregated_server::{AggregatedServer, Front, FrontSocket, front_proxy, kept, store};
use crate::engine::Engine;
use crate::flags::FlagValues;
use crate::registry_admission::RegistryAdmission;
use fleet_api::opensearch;
use fleet_api::proxy::ClusterProxy;
use fleet_api::search::{Offers, Search};

const GROUP: &str = "search.karmada.io";
/// The name in upstream's APIService.
const SERVICE: &str = "karmada-search.karmada-system.svc";

/// `members` are those of the control plane that `control` reaches.
async fn open(
    control: Client,
    members: Members,
    front: FrontProxy,
    engine: Engine,
    offers: Offers,
    allow_http: bool,
    world: &World,
) -> anyhow::Result<AggregatedServer> {
    let proxy = Arc::new(ClusterProxy::new(Arc::new(|_| None), allow_http));
    proxy.clusters_in(members.clusters());
    proxy.control_plane(control.clone());
    let search = Arc::new(Search::new(proxy, offers));
    let admission: Vec<Arc<dyn Admission>> = vec![Arc::new(RegistryAdmission::with_control_plane(&control))];
    search.beside(Mapper::new(control));
    search.connect(members);
    let mut resources = crate::resources::resources_of(GROUP, true);
    resources.retain(|it| offers.has(&it.info.resource.plural));
    let routes: Vec<Arc<dyn Route>> = vec![search];
    AggregatedServer::open(front, engine, (resources, admission), routes, world).await
}

pub async fn search(flags: &FlagValues<'_>, data_dir: PathBuf, allow_http: bool) -> anyhow::Result<()> {
    let world = World::system();
    let socket = FrontSocket::bind(flags, &world)?;
    let control = super::connect("karmada-search", flags).await?;
    let Front { proxy: front, following } = front_proxy(flags, &control, &world).await?;
    let (engine, data) = kept(store(flags)?, &data_dir, SERVICE, &world).await?;
    let member_burst = flags.parsed("cluster-api-burst")?;
    let mut settings = Settings { member_burst, allow_http_endpoints: allow_http, ..Settings::default() };
    if flags.is_set("cluster-api-qps") {
        settings.member_qps = flags.parsed("cluster-api-qps")?;
    }
    let offers = Offers { search: !flags.is_true("disable-search")?, proxying: !flags.is_true("disable-proxy")? };
    let stop = CancellationToken::new();
    let members = Members::follow(control.clone(), world.clone(), &settings, stop.clone());
    let opened = open(control.clone(), members.clone(), front, engine, offers, allow_http, &world).await?;
    if offers.search {
        let own = Client::in_process(opened.service(), Identity::system("karmada-search"));
        opensearch::Context::new(own, control, &members, opened.server.shared()).start(stop.child_token());
    }
    let served = opened.serve("search API server", socket, following, &data).await;
    stop.cancel();
    served
}
