//! The acts of the demonstration. Each does one thing through the API and waits until watches show its outcome.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use serde_json::{Value, json};
use tokio::time::Instant;
use world::World;

use super::observed::{Observed, deployments};
use super::screen::{Screen, Tone};
use super::view::{Member, Placement, View};
use crate::member::RunningMember;
use crate::up::ControlPlane;

const REPLICAS: i64 = 4;
/// The replicas that nginx is scaled to in a member while the control plane cannot reach it.
const DRIFTED: i64 = 5;

/// The story so far.
pub struct Steps<'a> {
    plane: &'a ControlPlane,
    screen: &'a mut Screen,
    begun: Instant,
    /// The timeout of each act.
    patience: Duration,
    observed: Option<Observed>,
}

impl<'a> Steps<'a> {
    pub fn new(plane: &'a ControlPlane, screen: &'a mut Screen, begun: Instant, patience: Duration) -> Self {
        Self { plane, screen, begun, patience, observed: None }
    }

    /// Plays all acts.
    ///
    /// # Errors
    /// The action that failed, or the state that was not observed in time.
    pub async fn play(&mut self, world: &World) -> anyhow::Result<()> {
        let names: Vec<String> = self.plane.members().iter().map(|member| member.name().to_owned()).collect();
        let [first, second, third, ..] = names.as_slice() else { bail!("the story needs three member clusters") };
        self.start(names.len()).await?;
        self.observed = Some(Observed::new(self.plane, world));
        self.join(&names).await?;
        self.propagate([first, second]).await?;
        self.relocate([second, third], first).await?;
        self.lose(third, [second, third]).await?;
        self.recover(third, [second, third]).await
    }

    async fn start(&mut self, members: usize) -> anyhow::Result<()> {
        if !self.plane.ready().await {
            bail!("the components ended before they were ready");
        }
        self.act("Started", &format!("a control plane and {members} simulated member clusters in this process"));
        Ok(())
    }

    async fn join(&mut self, names: &[String]) -> anyhow::Result<()> {
        self.plane.members().join(self.plane.client()).await?;
        self.observe("the members to be Ready", View::unready).await?;
        let names = match names {
            [first, .., last] if names.len() > 5 => format!("{first} to {last}"),
            names => names.join(", "),
        };
        self.saw(Tone::Good, "Joined", &format!("{names}: all Ready"));
        Ok(())
    }

    async fn propagate(&mut self, chosen: [&str; 2]) -> anyhow::Result<()> {
        let client = self.plane.client();
        client.create(&deployments(), &deployment()).await.context("creating Deployment nginx")?;
        client.create(&policies(), &policy(chosen)).await.context("creating PropagationPolicy nginx")?;
        let names = chosen.join(" and ");
        let replicas = format!("Deployment nginx with {REPLICAS} replicas");
        self.act("Created", &format!("{replicas}; a PropagationPolicy divides them over {names}"));
        let placement = halves(chosen);
        let view = self.observe("nginx to be propagated", |view| view.missing(&placement)).await?;
        self.saw(Tone::Good, "Observed", &view.summary());
        Ok(())
    }

    async fn relocate(&mut self, chosen: [&str; 2], left: &str) -> anyhow::Result<()> {
        let elsewhere = Patch::Merge(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": chosen}}}}));
        let key = ObjectKey::namespaced("default", "nginx");
        let patched = self.plane.client().patch(&policies(), &key, &elsewhere, &PatchOptions::default()).await;
        patched.context("changing PropagationPolicy nginx")?;
        self.act("Changed", &format!("the PropagationPolicy: {} instead", chosen.join(" and ")));
        let placement = halves(chosen);
        let view = self.observe("nginx to move", |view| view.missing(&placement)).await?;
        self.saw(Tone::Good, "Observed", &format!("{}; {left} no longer has it", view.summary()));
        Ok(())
    }

    async fn lose(&mut self, lost: &str, chosen: [&str; 2]) -> anyhow::Result<()> {
        let member = self.running(lost)?;
        member.outage().context("this member cannot be interrupted")?.begin();
        let scaled = Patch::Merge(json!({"spec": {"replicas": DRIFTED}}));
        let key = ObjectKey::namespaced("default", "nginx");
        let patched = member.client().patch(&deployments(), &key, &scaled, &PatchOptions::default()).await;
        patched.with_context(|| format!("scaling nginx in {lost}"))?;
        let meanwhile = format!("meanwhile nginx is scaled to {DRIFTED} inside {lost}");
        self.act("Stopped", &format!("the API server of {lost}; {meanwhile}"));
        let placement = halves(chosen);
        let view = self.observe("the loss to be noticed", |view| view.not_lost(lost, &placement, DRIFTED)).await?;
        let readiness = view.member(lost).map(Member::readiness).unwrap_or_default();
        let kept = format!("nginx stays assigned to {}, nothing is deleted", chosen.join(" and "));
        self.saw(Tone::Bad, "Observed", &format!("{lost} {readiness}; {kept}"));
        Ok(())
    }

    async fn recover(&mut self, lost: &str, chosen: [&str; 2]) -> anyhow::Result<()> {
        self.running(lost)?.outage().context("this member cannot be interrupted")?.end();
        self.act("Started", &format!("the API server of {lost} again"));
        let placement = halves(chosen);
        let view = self.observe("the member to be back", |view| view.missing(&placement)).await?;
        let readiness = view.member(lost).map(Member::readiness).unwrap_or_default();
        self.saw(Tone::Good, "Observed", &format!("{lost} {readiness}; {}; the scaling is undone", view.summary()));
        Ok(())
    }

    fn running(&self, name: &str) -> anyhow::Result<&'a RunningMember> {
        let plane: &'a ControlPlane = self.plane;
        plane
            .members()
            .iter()
            .find(|member| member.name() == name)
            .with_context(|| format!("there is no member {name}"))
    }

    /// Waits until `missing` returns nothing.
    async fn observe(&self, what: &str, missing: impl Fn(&View) -> Option<String>) -> anyhow::Result<View> {
        let observed = self.observed.as_ref().context("nothing is observed yet")?;
        let deadline = Instant::now() + self.patience;
        loop {
            let view = observed.view();
            let Some(missing) = missing(&view) else { return Ok(view) };
            if tokio::time::timeout_at(deadline, observed.changed.notified()).await.is_err() {
                return Err(anyhow!("waited {} s for {what}: {missing}", self.patience.as_secs()));
            }
        }
    }

    fn act(&mut self, verb: &str, text: &str) {
        self.saw(Tone::Action, verb, text);
    }

    fn saw(&mut self, tone: Tone, verb: &str, text: &str) {
        self.screen.line(self.begun.elapsed(), tone, verb, text);
    }
}

fn halves(chosen: [&str; 2]) -> Placement {
    chosen.map(|name| (name.to_owned(), REPLICAS / 2)).into()
}

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

fn deployment() -> Value {
    let labels = json!({"app": "nginx"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "labels": labels},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}},
    })
}

/// Without weights the replicas are divided equally.
fn policy(chosen: [&str; 2]) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": {
                "clusterAffinity": {"clusterNames": chosen},
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}},
    })
}
