//! A control plane that is killed and restarted with all its objects.

use std::time::Duration;

use anyhow::Context as _;
use client::Client;
use tokio::time::Instant;

use super::documents::{create, deployment, deployments};
use super::watched::Watched;
use crate::figures::line;
use crate::fleet::{Fleet, connect};

/// Kills the control plane as `kill -9` does, restarts it, and creates one more Deployment as soon as that is possible.
pub(super) async fn restart(fleet: &mut Fleet, watched: &Watched, replicas: u32) -> anyhow::Result<()> {
    let Some(started) = &mut fleet.started else { return Ok(()) };
    let begun = Instant::now();
    started.restart_plane()?;
    line("restart: process to ready (s)", format!("{:.3}", begun.elapsed().as_secs_f64()));
    line("restart: CPU until ready (s)", format!("{:.2}", started.plane.cpu_seconds()?));
    let (now, most) = started.plane.resident_mib()?;
    line("restart: RSS when ready, now / most (MiB)", format!("{now:.1} / {most:.1}"));
    let control: Client = connect(&started.plane.kubeconfig).await?;
    let name = "after-restart".to_owned();
    let sent = Instant::now();
    create(&control, &deployments(), &deployment(&name, replicas)).await?;
    let present = watched.present(std::slice::from_ref(&name)).await?;
    let at = present.get(&name).copied().context("the Deployment was not seen")?;
    line("restart: first change sent to present (s)", format!("{:.3}", (at - sent).as_secs_f64()));
    line("restart: process start to first change present (s)", format!("{:.3}", (at - begun).as_secs_f64()));
    fleet.control = control;
    // The backlog.
    let mut used = started.plane.cpu_seconds()?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = started.plane.cpu_seconds()?;
        if now - used < 0.2 {
            break;
        }
        used = now;
    }
    line("restart: CPU until everything was reconciled (s)", format!("{used:.2}"));
    line("restart: until everything was reconciled (s)", format!("{:.1}", begun.elapsed().as_secs_f64()));
    let (now, most) = started.plane.resident_mib()?;
    line("restart: RSS afterwards, now / most (MiB)", format!("{now:.1} / {most:.1}"));
    Ok(())
}
