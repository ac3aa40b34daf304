//! `karmada scheduler`, `karmada scheduler-estimator` and `karmada descheduler`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::Context as _;
use controller_runtime::InformerSet;
use estimator::{Connections, Estimators, MemberEstimator, Settings};

use super::flags::{
    descheduler_options, enabled_estimators, estimator_settings, estimator_tls, scheduler_options, switches,
};
use super::{ComponentContext, StartedComponent, run};
use crate::flags::FlagValues;
use crate::sockets::Bound;

/// Over gRPC alone: the caches of other processes are not available.
fn estimators(around: &ComponentContext, settings: Settings) -> anyhow::Result<Estimators> {
    let timeout = settings.timeout;
    let connections = Connections::new(around.client.clone(), settings).context("setting up TLS to estimators")?;
    Ok(Estimators::new(None, Some(connections), timeout))
}

pub async fn scheduler(flags: &FlagValues<'_>) -> anyhow::Result<()> {
    let mut options = scheduler_options(flags)?;
    let settings = enabled_estimators(flags)?;
    let lease = flags.text("leader-elect-resource-name");
    run("karmada-scheduler", flags, Some(lease), async move |around| {
        options.metrics = around.registry.clone();
        options.estimators = settings.map(|settings| estimators(around, settings)).transpose()?;
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let (world, stop) = (around.world.clone(), around.stop.clone());
        let name = options.name.clone();
        let (scheduler, task) = scheduler::start(&informers, &around.client, world, options, stop);
        anyhow::ensure!(scheduler.synced().await, "the scheduler ended before it knew all bindings and clusters");
        Ok(StartedComponent { ready: format!("The scheduler {name} is ready"), tasks: vec![task] })
    })
    .await
}

pub async fn descheduler(flags: &FlagValues<'_>) -> anyhow::Result<()> {
    let (options, settings) = (descheduler_options(flags)?, estimator_settings(flags)?);
    run("karmada-descheduler", flags, Some("karmada-descheduler"), async move |around| {
        let estimators = estimators(around, settings)?;
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let (client, world, stop) = (around.client.clone(), around.world.clone(), around.stop.clone());
        let options = scheduler::DeschedulerOptions { metrics: around.registry.clone(), ..options };
        let task = tokio::spawn(async move {
            scheduler::deschedule(&informers, &client, world, estimators, options, stop).await;
        });
        Ok(StartedComponent { ready: "The descheduler is ready".to_owned(), tasks: vec![task] })
    })
    .await
}

pub async fn scheduler_estimator(flags: &FlagValues<'_>) -> anyhow::Result<()> {
    let cluster = flags.text("cluster-name");
    anyhow::ensure!(!cluster.is_empty(), "clusterName cannot be empty; give --cluster-name");
    let tls = estimator_tls(flags)?;
    let tls = tls.as_ref().map(estimator::ServerTls::config).transpose().context("setting up TLS")?;
    let bound = estimator_address(flags.parsed("server-port")?)?;
    run("karmada-scheduler-estimator", flags, None, async move |around| {
        let informers = InformerSet::until(around.client.clone(), around.world.clone(), around.stop.clone());
        let member = MemberEstimator::follow_standalone(cluster, &informers, switches(flags));
        anyhow::ensure!(member.synced().await, "the estimator ended before it knew the nodes and pods");
        let address = bound.address();
        let listener = bound.listen()?;
        let serving = estimator::serve(listener, tls, Arc::new(member), around.registry.clone(), around.stop.clone());
        let ready = format!("The estimator of cluster {cluster} is ready on {address}");
        let observing = around.world.clone().observe_steps(around.stop.clone().cancelled_owned());
        Ok(StartedComponent { ready, tasks: vec![tokio::spawn(serving), tokio::spawn(observing)] })
    })
    .await
}

/// All addresses of both families, as upstream: schedulers connect from other machines.
fn estimator_address(port: u16) -> anyhow::Result<Bound> {
    let both = Bound::new((Ipv6Addr::UNSPECIFIED, port).into(), "--server-port");
    both.or_else(|_| Bound::new((Ipv4Addr::UNSPECIFIED, port).into(), "--server-port"))
}
