//! `karmada scheduler`, `karmada scheduler-estimator` and `karmada descheduler`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::Context as _;
use controller_runtime::InformerSet;
use estimator::{Connections, Estimators, MemberEstimator, Settings};

use super::flags::{descheduler_options, estimator_settings, estimator_tls, scheduler_options, switches};
use super::{Begun, Surroundings, run};
use crate::flags::Given;
use crate::sockets::Bound;

/// Over gRPC alone: the caches of other processes are not available.
fn estimators(around: &Surroundings, settings: Settings) -> anyhow::Result<Estimators> {
    let timeout = settings.timeout;
    let connections = Connections::new(around.client.clone(), settings).context("setting up TLS to estimators")?;
    Ok(Estimators::new(None, Some(connections), timeout))
}

pub async fn scheduler(given: &Given<'_>) -> anyhow::Result<()> {
    let mut options = scheduler_options(given)?;
    let settings = if given.is_true("enable-scheduler-estimator")? { Some(estimator_settings(given)?) } else { None };
    let lease = given.text("leader-elect-resource-name");
    run("karmada-scheduler", given, Some(lease), async move |around| {
        options.metrics = around.registry.clone();
        options.estimators = settings.map(|settings| estimators(around, settings)).transpose()?;
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let (world, stop) = (around.world.clone(), around.stop.clone());
        let name = options.name.clone();
        let (scheduler, task) = scheduler::start(&informers, &around.client, world, options, stop);
        anyhow::ensure!(scheduler.synced().await, "the scheduler ended before it knew all bindings and clusters");
        Ok(Begun { ready: format!("The scheduler {name} is ready"), tasks: vec![task] })
    })
    .await
}

pub async fn descheduler(given: &Given<'_>) -> anyhow::Result<()> {
    let (options, settings) = (descheduler_options(given)?, estimator_settings(given)?);
    run("karmada-descheduler", given, Some("karmada-descheduler"), async move |around| {
        let estimators = estimators(around, settings)?;
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let (client, world, stop) = (around.client.clone(), around.world.clone(), around.stop.clone());
        let options = scheduler::DeschedulerOptions { metrics: around.registry.clone(), ..options };
        let task = tokio::spawn(async move {
            scheduler::deschedule(&informers, &client, world, estimators, options, stop).await;
        });
        Ok(Begun { ready: "The descheduler is ready".to_owned(), tasks: vec![task] })
    })
    .await
}

pub async fn scheduler_estimator(given: &Given<'_>) -> anyhow::Result<()> {
    let cluster = given.text("cluster-name");
    anyhow::ensure!(!cluster.is_empty(), "clusterName cannot be empty; give --cluster-name");
    let tls = estimator_tls(given)?;
    let tls = tls.as_ref().map(estimator::ServerTls::config).transpose().context("setting up TLS")?;
    let bound = estimator_address(given.parsed("server-port")?)?;
    run("karmada-scheduler-estimator", given, None, async move |around| {
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let member = MemberEstimator::follow_alone(cluster, &informers, switches(given));
        anyhow::ensure!(member.synced().await, "the estimator ended before it knew the nodes and pods");
        let address = bound.address();
        let listener = bound.listen()?;
        let serving = estimator::serve(listener, tls, Arc::new(member), around.registry.clone(), around.stop.clone());
        let ready = format!("The estimator of cluster {cluster} is ready on {address}");
        Ok(Begun { ready, tasks: vec![tokio::spawn(serving)] })
    })
    .await
}

/// All addresses of both families, as upstream: schedulers connect from other machines.
fn estimator_address(port: u16) -> anyhow::Result<Bound> {
    let both = Bound::new((Ipv6Addr::UNSPECIFIED, port).into(), "--server-port");
    both.or_else(|_| Bound::new((Ipv4Addr::UNSPECIFIED, port).into(), "--server-port"))
}
