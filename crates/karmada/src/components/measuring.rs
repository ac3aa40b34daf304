//! `karmada metrics-adapter`: the metrics APIs over members for another API server (APIServices
//! `v1beta1.metrics.k8s.io`, `v1beta1.custom.metrics.k8s.io`, `v1beta2.custom.metrics.k8s.io`,
//! `v1beta1.external.metrics.k8s.io`).
//!
//! Clusters and Secrets are read from the API server in front, metrics from the members. The process stores nothing.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::Route;
use apiserver::auth::authn::FrontProxy;
use controllers::{Members, Settings};
use fleet_api::measured::Measured;
use metrics_adapter::{Fleet, MetricsApi, published};
use tokio_util::sync::CancellationToken;
use world::World;

use super::aggregated_server::{AggregatedServer, Front, FrontSocket, front_proxy};
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::flags::FlagValues;
use crate::listed_metrics::{self, Offered};
use crate::probes::Addresses;

/// The name in upstream's APIServices.
const SERVICE: &str = "karmada-metrics-adapter.karmada-system.svc";

/// `members` are those of the control plane in front.
async fn open(members: Members, front: FrontProxy, engine: Engine, world: &World) -> anyhow::Result<AggregatedServer> {
    let measured = Arc::new(Measured::default());
    measured.connect(members);
    let api = Arc::new(MetricsApi::new(Arc::clone(&measured) as Arc<dyn Fleet>));
    let routes: Vec<Arc<dyn Route>> = vec![Arc::clone(&api) as Arc<dyn Route>];
    let aggregated_server = AggregatedServer::open(front, engine, (Vec::new(), Vec::new()), routes, world).await?;
    let server = Arc::clone(aggregated_server.server.shared());
    let stop = server.ending();
    let publish = move |offered: &Offered| {
        let generation = server.apis.load().generation + 1;
        server.apis.store(Arc::new(published(generation, &offered.by_group())));
    };
    publish(&Offered::default());
    tokio::spawn(listed_metrics::follow(api, measured, world.clone(), stop, publish));
    Ok(aggregated_server)
}

pub async fn metrics_adapter(flags: &FlagValues<'_>, data_dir: PathBuf, allow_http: bool) -> anyhow::Result<()> {
    let world = World::system();
    let metrics = super::flags::plain_address(flags, "metrics-bind-address")?;
    let probes = Addresses { metrics, health: None }.bind()?;
    let socket = FrontSocket::bind(flags, &world)?;
    let control = super::connect("karmada-metrics-adapter", flags).await?;
    let Front { proxy: front, following } = front_proxy(flags, &control, &world).await?;
    let engine = Engine::open(Kind::Memory, &data_dir, false, &world).await?;
    let data = DataDir::open(&data_dir, &[SERVICE.to_owned()], &world)?;
    let settings = settings(flags, allow_http)?;
    let stop = CancellationToken::new();
    let members = Members::follow(control, world.clone(), &settings, stop.clone());
    let opened = open(members, front, engine, &world).await?;
    let probes = probes.open(&opened.server.shared().metrics, &stop)?;
    let served = opened.serve("metrics adapter", socket, following, &data).await;
    stop.cancel();
    probes.ended().await;
    served
}

fn settings(flags: &FlagValues<'_>, allow_http: bool) -> anyhow::Result<Settings> {
    let member_burst = flags.parsed("cluster-api-burst")?;
    let mut settings = Settings { member_burst, allow_http_endpoints: allow_http, ..Settings::default() };
    if flags.is_set("cluster-api-qps") {
        settings.member_qps = flags.parsed("cluster-api-qps")?;
    }
    Ok(settings)
}
