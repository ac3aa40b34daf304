//! How the process is operated: its description at `/statusz` and `/flagz`, and the steps of its shutdown.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apiserver::serve::{Goaway, Limits};
use apiserver::zpages::{Component, Pages};
use apiserver::{ApiServer, Route};
use karmadactl::version::Build;
use world::World;

/// The version of Kubernetes whose API this program serves.
const EMULATED: &str = "1.36";
const SERVER_PATHS: &[&str] = &["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];
const PROBE_PATHS: &[&str] = &["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"];

static PROCESS: OnceLock<Component> = OnceLock::new();

/// Describes this process by its command and flags, once, at its start.
pub fn describe(command: &str, flags: Vec<(String, String)>, world: &World) {
    // A second description would be that of a command that does not run.
    let _ = PROCESS.set(component(command, flags, world));
}

fn component(command: &str, flags: Vec<(String, String)>, world: &World) -> Component {
    let build = Build::this();
    // The control plane in one process is, for its clients, the API server.
    let (name, paths) = match command {
        "up" | "apiserver" => ("apiserver", SERVER_PATHS),
        "aggregated-apiserver" | "search" => (command, SERVER_PATHS),
        _ => (command, PROBE_PATHS),
    };
    Component {
        name: format!("karmada-{name}"),
        started: world.now(),
        built_with: build.go_version,
        version: build.version,
        emulated: EMULATED.into(),
        flags,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    }
}

/// This process, if it has been described.
pub fn process() -> Option<&'static Component> {
    PROCESS.get()
}

/// The pages of this process, for an API server.
pub fn pages(world: &World) -> Option<Arc<dyn Route>> {
    let component = process()?.clone();
    Some(Arc::new(Pages { component, world: world.clone() }))
}

/// Settings of an API server that its operator chooses.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    pub shutdown: Shutdown,
    /// The share of HTTP/2 requests after which their client is sent elsewhere.
    pub goaway_chance: f64,
    /// The number of streams of an HTTP/2 connection, if it is not the default.
    pub streams_per_connection: Option<u32>,
    /// `--tracing-config-file`; no spans are recorded without it.
    pub tracing: Option<PathBuf>,
}

impl Operation {
    /// The limits of a socket with these settings.
    pub fn limits(&self, limits: Limits, world: &World) -> Limits {
        let goaway = Goaway { chance: self.goaway_chance, world: world.clone() };
        Limits {
            goaway: (self.goaway_chance > 0.0).then_some(goaway),
            streams_per_connection: self.streams_per_connection.unwrap_or(limits.streams_per_connection),
            ..limits
        }
    }
}

/// The steps of a shutdown, with kube-apiserver's flags.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shutdown {
    /// How long everything is served after `/readyz` has begun to fail: load balancers turn away meanwhile.
    pub delay: Duration,
    /// Refuse requests after that, with the time to retry.
    pub refuses: bool,
    /// The period over which watches end.
    pub watches: Duration,
}

impl Shutdown {
    /// Reports the shutdown, and waits until load balancers have noticed it.
    pub async fn begin(&self, server: &ApiServer) {
        server.announce_shutdown();
        if !self.delay.is_zero() {
            tracing::info!(delay = ?self.delay, "Shutdown is announced at /readyz");
            tokio::time::sleep(self.delay).await;
        }
        if self.refuses {
            server.refuse_requests();
        }
    }

    /// Ends the watches, over their period. Other requests are still answered.
    pub async fn end_watches(&self, server: &ApiServer) {
        server.end_watches_within(self.watches);
        tokio::time::sleep(self.watches).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_flags() {
        let world = World::system();
        let limits = |operation: Operation| operation.limits(Limits::default(), &world);
        let usual = limits(Operation::default());
        assert!(usual.goaway.is_none() && usual.streams_per_connection == 1000);
        let chosen =
            limits(Operation { goaway_chance: 0.01, streams_per_connection: Some(250), ..Operation::default() });
        assert_eq!(chosen.streams_per_connection, 250);
        assert!(chosen.goaway.is_some_and(|goaway| goaway.chance > 0.0));
    }

    #[test]
    fn commands_have_upstreams_names() {
        for (command, name) in
            [("up", "karmada-apiserver"), ("scheduler", "karmada-scheduler"), ("search", "karmada-search")]
        {
            assert_eq!(component(command, Vec::new(), &World::system()).name, name);
        }
    }
}
