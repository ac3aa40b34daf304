//! Runs one history in its own control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, Patch, PatchOptions};
use controller_runtime::InformerSet;
use controllers::{Eviction, Settings};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::history::Action;
use super::kinds::{Kind, definition, definitions};
use super::perform::{HOLD, binding_of};
use super::policies::{overrides, policies};
use super::read::{all, clusters, condition, is_present, is_template, name, text};
use super::restored::{self, Backup, Untouched};
use super::state::State;
use super::witness::Witness;
use super::{MEMBERS, members, plane};
use crate::harness::{Plane, Serves, get, namespaces};

/// The discrepancies of a history.
pub async fn run(seed: u64, history: &[Action]) -> Vec<String> {
    let mut simulation = Simulation::start(seed).await;
    if std::env::var_os("TRACE").is_some() {
        simulation.plane.network.record(true);
    }
    let wrong = simulation.history(history).await;
    simulation.end().await;
    wrong
}

/// All requests to the servers in a history.
pub async fn record(seed: u64, history: &[Action]) -> Vec<String> {
    let mut simulation = Simulation::start(seed).await;
    simulation.plane.network.record(false);
    simulation.history(history).await;
    let recorded = simulation.plane.network.recorded();
    simulation.end().await;
    recorded
}

/// The allocations of a history, and whether they are still referenced.
pub async fn traces(seed: u64, history: &[Action]) -> Vec<(String, Box<dyn Fn() -> bool>)> {
    let mut simulation = Simulation::start(seed).await;
    let traces = simulation.plane.traces();
    simulation.history(history).await;
    simulation.end().await;
    traces
}

/// The resources that histories and controllers need; every other resource would add watches to each history.
pub fn serves(plural: &str) -> bool {
    const SERVED: &[&str] = &[
        "propagationpolicies",
        "clusterpropagationpolicies",
        "overridepolicies",
        "clusteroverridepolicies",
        "resourcebindings",
        "clusterresourcebindings",
        "works",
        "clusters",
        "resourceinterpretercustomizations",
        "resourceinterpreterwebhookconfigurations",
        "namespaces",
        "secrets",
        "events",
        "configmaps",
        "deployments",
        "clusterroles",
        "clusterrolebindings",
        "leases",
        "remedies",
        "nodes",
        "pods",
        "priorityclasses",
        "services",
        "customresourcedefinitions",
        "apiservices",
    ];
    SERVED.contains(&plural)
}

/// Creates a missing object; returns that it is missing or terminating.
async fn made(client: &Client, resource: &ApiResource, object: Value) -> Option<String> {
    let what = format!("{} {}", resource.kind, name(&object));
    match get(client, resource, &ObjectKey::cluster(name(&object))).await {
        Some(found) if is_present(&found) => None,
        Some(found) => Some(format!("{what} is not removed: {}", found["status"]["conditions"])),
        None => {
            drop(client.create(resource, &object).await);
            Some(format!("{what} has just been made"))
        }
    }
}

/// Changes of bindings, for debugging.
fn changed(before: &[Value], after: &[Value]) -> Vec<String> {
    let show = |binding: &Value| {
        let now = after.iter().find(|it| it["metadata"]["uid"] == binding["metadata"]["uid"])?;
        let parts = ["metadata", "spec", "status"].into_iter().filter(|part| now[*part] != binding[*part]);
        Some(parts.map(|part| format!("  {} was {}\n  and is {}", name(binding), binding[part], now[part])).collect())
    };
    before.iter().filter_map(show).flat_map(|lines: Vec<String>| lines).collect()
}

/// Kubernetes' controllers for one server, until `stop`.
fn run_controllers(plane: &Plane, client: Client, names: &[&str], stop: &CancellationToken) {
    let informers = InformerSet::until(client.clone(), plane.world.clone(), stop.clone());
    let selection: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let settings = kube_controllers::Settings::default();
    kube_controllers::start(client, &informers, settings, &selection, stop.clone()).expect("the controllers start");
}

/// Kubernetes' own controllers in the control plane, which the result stops, and in members.
pub fn run_kubernetes_in(plane: &Plane, members: &[&str], stop: &CancellationToken) -> CancellationToken {
    let control = run_kubernetes(plane, stop);
    for member in members {
        run_controllers(plane, plane.member(member), &["namespace-controller"], stop);
    }
    control
}

fn run_kubernetes(plane: &Plane, stop: &CancellationToken) -> CancellationToken {
    let stop = stop.child_token();
    let names = ["garbage-collector-controller", "namespace-controller"];
    run_controllers(plane, plane.controlled().clone(), &names, &stop);
    stop
}

struct Simulation {
    plane: Plane,
    witness: Witness,
    stop: CancellationToken,
    /// Whether a policy was lazy: then templates are touched until they match it.
    lazy: bool,
    /// A member was unreachable, or did not serve a kind: its watchers retry after up to half a minute.
    cut_off: bool,
    /// Members that are unjoined while they are unreachable keep their objects.
    left_behind: bool,
    /// Bindings with evictions.
    evicted: BTreeSet<String>,
    /// A cluster's workloads were evicted: any binding may be one of those.
    driven_out: bool,
    backup: Option<Backup>,
    /// Set after a restore.
    untouched: Option<Untouched>,
    /// Stops the controllers of Kubernetes in the control plane.
    stop_kubernetes: CancellationToken,
    /// By binding with suspended scheduling: its UID and its clusters at that time.
    suspended: BTreeMap<String, (Value, Value)>,
}

impl Simulation {
    async fn start(seed: u64) -> Self {
        let mut settings = Settings { status_frequency: Duration::from_secs(30), ..Settings::default() };
        settings.gates.preemption = true;
        if seed % 2 == 1 {
            settings.gates.failover = true;
            settings.gates.stateful_failover = true;
            settings.eviction =
                Eviction { by_taints: true, rate: Some(10.0).filter(|_| seed % 4 == 1), ..Eviction::default() };
        }
        settings.workers = 8;
        let plane = Plane::seeded(&MEMBERS, settings, seed, Serves(serves)).await;
        let stop = CancellationToken::new();
        let stop_kubernetes = run_kubernetes_in(&plane, &MEMBERS, &stop);
        plane.network.mute_events();
        let witness = Witness::new(&plane, &MEMBERS);
        let seeing = witness.clone();
        plane.network.set_guard(Arc::new(move |sent| {
            let seeing = seeing.clone();
            Box::pin(async move { seeing.see(sent).await })
        }));
        let (evicted, suspended) = (BTreeSet::new(), BTreeMap::new());
        let (lazy, cut_off, left_behind, driven_out) = (false, false, false, false);
        let (backup, untouched) = (None, None);
        let simulation = Self {
            plane,
            witness,
            stop,
            lazy,
            cut_off,
            left_behind,
            evicted,
            driven_out,
            backup,
            untouched,
            stop_kubernetes,
            suspended,
        };
        simulation.serve().await;
        assert_eq!(simulation.calm().await, [""; 0]);
        simulation
    }

    async fn end(self) {
        self.stop.cancel();
        self.plane.shutdown().await;
    }

    async fn history(&mut self, history: &[Action]) -> Vec<String> {
        for action in history {
            self.plane.network.note(action);
            action.perform(&mut self.plane).await;
            self.witness.forget_deleted(action);
            if let Some(untouched) = &mut self.untouched {
                untouched.forget(action);
            }
            self.remember(action).await;
        }
        let mut wrong = self.calm().await;
        if self.cut_off || self.untouched.is_some() {
            tokio::time::sleep(Duration::from_secs(40)).await;
        }
        if wrong.is_empty() {
            wrong = self.rest().await;
        }
        if let Some(mut untouched) = self.untouched.take() {
            wrong.extend(untouched.rest(&self.plane).await);
            self.untouched = Some(untouched);
        }
        if wrong.is_empty() {
            wrong = self.changes_nothing_again().await;
        }
        wrong.extend(self.witness.take());
        if wrong.is_empty() {
            wrong = self.clear().await;
            wrong.extend(self.witness.take());
        }
        wrong
    }

    /// Confirms every held member; before that it must be unchanged.
    async fn resume(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for member in MEMBERS {
            let Some(since) = restored::pending(&self.plane, member).await else { continue };
            match &mut self.untouched {
                Some(untouched) => wrong.extend(untouched.release(&self.plane, member).await),
                None => wrong.push(format!("{member} is held, and no backup was put back")),
            }
            restored::confirm(&self.plane, member, &since).await;
        }
        wrong
    }

    async fn restore(&mut self, raised: bool) {
        let Some(backup) = self.backup.take() else { return };
        self.plane.stop_controllers().await;
        self.stop_kubernetes.cancel();
        self.plane.restore_beneath(&backup.store, raised).await;
        self.witness.follow(&self.plane);
        let deleted = self.witness.take_deleted();
        self.untouched = Some(Untouched::read(&self.plane, &backup, &deleted).await);
        self.plane.restart_controllers().await;
        self.stop_kubernetes = run_kubernetes(&self.plane, &self.stop);
        self.left_behind = true;
        self.suspended.clear();
    }

    async fn remember(&mut self, action: &Action) {
        match action {
            Action::Backup => {
                self.backup = Some(Backup::of(&self.plane).await);
                self.witness.take_deleted();
            }
            Action::Restore { raised } => self.restore(*raised).await,
            Action::Unjoin(_) | Action::Rejoin(_) => self.left_behind = true,
            Action::Cut(_) | Action::NetworkFaults(_) | Action::DropDefinition(_) => self.cut_off = true,
            Action::Policy { spec, .. } => self.lazy |= spec.is_lazy(),
            // It may write results from outdated state.
            Action::Overlap(_) => {
                self.left_behind = true;
                self.witness.two_processes();
            }
            // Suspended scheduling does not keep a workload in a cluster.
            Action::Taint(_, "NoExecute") => {
                self.driven_out = true;
                self.suspended.clear();
            }
            Action::Evict { kind, n, .. } => {
                let (_, key) = binding_of(*kind, *n);
                self.suspended.remove(key.name());
                self.evicted.insert(key.name().to_owned());
            }
            Action::SuspendScheduling { kind, n, on } => {
                let (resource, key) = binding_of(*kind, *n);
                match self.plane.get(&resource, &key).await.filter(|_| *on && !self.driven_out) {
                    Some(mut binding) => {
                        let was = (binding["metadata"]["uid"].take(), binding["spec"]["clusters"].take());
                        self.suspended.entry(key.name().to_owned()).or_insert(was);
                    }
                    None => drop(self.suspended.remove(key.name())),
                }
            }
            _ => {}
        }
    }

    /// Makes everything reachable, and joins missing members. Returns the obstacles.
    async fn calm(&self) -> Vec<String> {
        self.plane.network.set_faults(None);
        for member in MEMBERS {
            self.plane.network.heal(member);
        }
        let resource = Cluster::api_resource();
        // Longer than the longest back-off, which is 1,000 s.
        for round in 0..=150 {
            let mut hindered = self.serve().await;
            for member in MEMBERS {
                match self.plane.get(&resource, &ObjectKey::cluster(member)).await {
                    None => {
                        self.plane.join(member).await;
                        hindered.push(format!("cluster {member} has just joined"));
                    }
                    Some(cluster) if !is_present(&cluster) => {
                        self.resume_in(member).await;
                        hindered.push(format!("cluster {member} is not removed"));
                    }
                    Some(cluster) if condition(&cluster, "Ready") != "True" => {
                        hindered.push(format!("cluster {member} is not ready"));
                    }
                    Some(_) => {}
                }
            }
            if hindered.is_empty() || round == 150 {
                return hindered;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        Vec::new()
    }

    /// Creates missing namespaces and definitions, and releases held templates. Returns the obstacles.
    async fn serve(&self) -> Vec<String> {
        let mut hindered = Vec::new();
        for kind in Kind::ALL {
            for object in all(&self.plane.client, &kind.resource(), kind.namespace()).await {
                if !is_present(&object)
                    && object["metadata"]["finalizers"].as_array().is_some_and(|held| held.contains(&json!(HOLD)))
                {
                    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                    let key = kind.key(name(&object));
                    drop(self.plane.client.patch(&kind.resource(), &key, &patch, &PatchOptions::default()).await);
                }
            }
        }
        let servers = MEMBERS.map(|member| (member, self.plane.member(member)));
        for (server, client) in servers.into_iter().chain([("control", self.plane.client.clone())]) {
            hindered.extend(made(&client, &definitions(), definition()).await.map(|is| format!("{server}: {is}")));
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}});
        hindered.extend(made(&self.plane.client, &namespaces(), namespace).await);
        hindered
    }

    /// Changes an irrelevant field of every template.
    async fn touch(&self) {
        for kind in Kind::ALL {
            for object in
                all(&self.plane.client, &kind.resource(), kind.namespace()).await.iter().filter(|it| is_template(it))
            {
                let version = text(object, "/metadata/resourceVersion");
                let patch = Patch::Merge(json!({"metadata": {"annotations": {"touched": version}}}));
                let (resource, key) = (kind.resource(), kind.key(name(object)));
                drop(self.plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
            }
        }
    }

    /// A binding with suspended scheduling keeps its clusters (as upstream).
    async fn resume_in(&self, member: &str) {
        let client = &self.plane.client;
        for scope in Scope::ALL {
            let resource = Binding::api_resource(scope);
            for binding in all(client, &resource, None).await {
                let spec = &binding["spec"];
                if spec["suspension"]["scheduling"] == true && clusters(&spec["clusters"]).contains_key(member) {
                    let key = ObjectKey::namespaced(text(&binding, "/metadata/namespace"), name(&binding));
                    let patch = Patch::Merge(json!({"spec": {"suspension": {"scheduling": null}}}));
                    drop(client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
                }
            }
        }
    }

    /// Waits until there are no discrepancies: longer than the longest back-off, which is 1,000 s.
    async fn rest(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for seconds in [2, 3, 5, 10, 20, 40, 80, 160, 320, 640, 1_280] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let touched = self.resume().await;
            if !touched.is_empty() {
                return touched;
            }
            let state = State::read(&self.plane).await;
            let names = state.bindings.iter().map(|binding| name(binding).to_owned());
            let driven_out: BTreeSet<String> = names.filter(|_| self.driven_out).collect();
            wrong = plane::discrepancies(&state, if self.driven_out { &driven_out } else { &self.evicted });
            wrong.extend(self.moved(&state));
            wrong.extend(members::discrepancies(&self.plane, &state).await);
            wrong.retain(|line| !(self.left_behind && line.contains("was left in")));
            if wrong.is_empty() {
                break;
            }
            if self.lazy {
                self.touch().await;
            }
        }
        wrong
    }

    /// Bindings that were scheduled while suspended.
    fn moved(&self, state: &State) -> Vec<String> {
        let look = |binding: &Value| {
            let (uid, was) = self.suspended.get(name(binding))?;
            // Workloads always leave a deleted cluster.
            if self.left_behind || binding["metadata"]["uid"] != *uid {
                return None;
            }
            let spec = &binding["spec"];
            if spec["suspension"]["scheduling"] != true {
                return Some(format!("binding {} is not suspended any more", name(binding)));
            }
            let is = &spec["clusters"];
            (is != was).then(|| format!("binding {} is suspended in {was}, and now in {is}", name(binding)))
        };
        state.bindings.iter().filter_map(look).collect()
    }

    /// Restarted controllers write nothing, except for templates that their policy no longer selects: these keep their
    /// propagation until then, and are rendered or matched now (as upstream).
    async fn changes_nothing_again(&mut self) -> Vec<String> {
        self.plane.settle().await;
        let state = State::read(&self.plane).await;
        let before = self.plane.network.writes();
        self.plane.restart_controllers().await;
        self.plane.settle().await;
        // Their dependencies are looked up again, too.
        if state.ungoverned().any(|(kind, _, claimed)| claimed || kind == Kind::Deployment) {
            return Vec::new();
        }
        let after = self.plane.network.writes();
        let more = after.into_iter().filter(|(line, count)| before.get(line) != Some(count));
        // The reason for unschedulability may have changed.
        let unplaced: Vec<&str> =
            state.bindings.iter().filter(|it| condition(it, "Scheduled") != "True").map(name).collect();
        let excused = |line: &str| {
            state.ungoverned().any(|(_, it, _)| line.contains(&format!("/{}", name(it))))
                || unplaced.iter().any(|name| line.contains(&format!("/{name}")))
        };
        let mut needless: Vec<String> =
            more.filter(|(line, _)| !excused(line)).map(|(line, _)| format!("needless: {line}")).collect();
        if !needless.is_empty() {
            let now = State::read(&self.plane).await;
            needless.extend(changed(&state.bindings, &now.bindings));
            needless.extend(MEMBERS.iter().flat_map(|member| changed(&state.works[member], &now.works[member])));
        }
        needless
    }

    /// Deletes the users' objects; propagated copies are deleted with them, other objects are kept.
    async fn clear(&mut self) -> Vec<String> {
        let resources = Kind::ALL.map(|kind| (kind.resource(), kind.namespace()));
        let policy_kinds = [false, true].map(|wide| (wide, (!wide).then_some("demo")));
        let of_policies = policy_kinds
            .into_iter()
            .flat_map(|(wide, namespace)| [(policies(wide), namespace), (overrides(wide), namespace)]);
        let control = &self.plane.client;
        for (resource, namespace) in resources.into_iter().chain(of_policies) {
            for object in all(control, &resource, namespace).await {
                if Kind::of(&object).is_none() || is_template(&object) {
                    let key = match namespace {
                        None => ObjectKey::cluster(name(&object)),
                        Some(namespace) => ObjectKey::namespaced(namespace, name(&object)),
                    };
                    control.delete(&resource, &key, &DeleteOptions::background()).await.expect("the deletion");
                }
            }
        }
        self.serve().await;
        let mut wrong = self.rest().await;
        let state = State::read(&self.plane).await;
        wrong.extend(state.bindings.iter().map(|binding| format!("binding {} is left", name(binding))));
        wrong.extend(state.works.values().flatten().map(|work| format!("Work {} is left", name(work))));
        wrong
    }
}
