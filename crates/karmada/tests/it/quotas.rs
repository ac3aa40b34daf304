//! Enforcement of FederatedResourceQuotas in our API server: after every step of random histories, `status.overallUsed`
//! is the sum over the stored bindings, and growth exceeds no limit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use apimachinery::quantity::Quantity;
use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use karmada::apiserver::Opened;
use karmada::engine::Kind;
use karmada::reach::Listen;
use serde_json::{Value, json};
use world::World;

const NAMESPACE: &str = "default";

fn bindings() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
}

fn quotas() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "FederatedResourceQuota", "federatedresourcequotas")
}

async fn open(directory: &Path, world: &World) -> Opened {
    let admission = karmada_api::admission::Options { quota_enforcement: true, ..Default::default() };
    let options = karmada::apiserver::Options {
        data_dir: directory.to_owned(),
        store: Kind::Embedded,
        listen: Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "karmada"),
        token_auth_file: None,
        admission_config: None,
        identity: Default::default(),
        service_accounts: Default::default(),
        audit: Default::default(),
        overload: Default::default(),
        aggregation: Default::default(),
        services: Default::default(),
        plugins: Default::default(),
        admission,
        resource_models: true,
        events: Default::default(),
        backups: None,
        operation: Default::default(),
    };
    karmada::apiserver::open(&options, Arc::new(|_| None), world).await.expect("a server")
}

/// A binding in the model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    /// CPU of one replica, in thousandths.
    request: i64,
    clusters: BTreeMap<String, i64>,
    /// Replicas of its single component; those of clusters do not count then.
    component: Option<i64>,
    has_finalizer: bool,
    deleting: bool,
}

impl Known {
    fn usage(&self) -> i64 {
        match self.component {
            Some(replicas) => self.request * replicas * i64::try_from(self.clusters.len()).expect("few"),
            None => self.request * self.clusters.values().sum::<i64>(),
        }
    }

    fn spec(&self) -> Value {
        let clusters = self.clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas}));
        let needs = json!({"resourceRequest": {"cpu": format!("{}m", self.request), "memory": "1Gi"}});
        let mut spec = json!({"clusters": clusters.collect::<Vec<_>>(),
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "namespace": NAMESPACE}});
        match self.component {
            Some(replicas) => {
                spec["components"] = json!([{"name": "a", "replicas": replicas, "replicaRequirements": needs}]);
            }
            None => spec["replicaRequirements"] = needs,
        }
        spec
    }
}

struct Dice(World);

impl Dice {
    fn below(&self, bound: u64) -> i64 {
        i64::try_from(self.0.random_u64() % bound).expect("small")
    }

    fn binding(&self) -> Known {
        let mut known = Known { request: [100, 250, 1000][self.below(3) as usize], ..Known::default() };
        for n in 0..self.below(4) {
            known.clusters.insert(format!("m{n}"), self.below(4));
        }
        known.component = (self.below(4) == 0).then(|| self.below(3));
        known.has_finalizer = self.below(4) == 0;
        known
    }
}

/// A server and its expected state.
struct Run {
    opened: Opened,
    client: Client,
    world: World,
    dice: Dice,
    known: BTreeMap<String, Known>,
    limit: i64,
    step: usize,
    seed: u64,
    refusals: usize,
    /// The last revision at which usage was compared.
    compared: u64,
}

/// The usage of a stored binding, in thousandths of a CPU.
fn usage(binding: &Value) -> i64 {
    let cpu = |needs: &Value| {
        let text = needs["resourceRequest"]["cpu"].as_str().unwrap_or("0");
        text.strip_suffix('m').map_or_else(|| text.parse().map(|cpus: i64| 1000 * cpus), str::parse).expect("a request")
    };
    let spec = &binding["spec"];
    let clusters = spec["clusters"].as_array().map_or(&[][..], Vec::as_slice);
    match spec["components"].as_array() {
        Some(components) => {
            let of = |it: &Value| it["replicas"].as_i64().unwrap_or_default() * cpu(&it["replicaRequirements"]);
            components.iter().map(of).sum::<i64>() * i64::try_from(clusters.len()).expect("few")
        }
        None => {
            let replicas = clusters.iter().map(|it| it["replicas"].as_i64().unwrap_or_default());
            replicas.sum::<i64>() * cpu(&spec["replicaRequirements"])
        }
    }
}

fn is_quota(error: &client::Error) -> bool {
    error.status().is_some_and(|status| status.code == 403 && status.reason == "QuotaExceeded")
}

impl Run {
    async fn start(directory: &Path, seed: u64) -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), seed);
        let opened = open(directory, &world).await;
        let client = opened.client("test");
        let dice = Dice(World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), seed + 1_000_000));
        let known = BTreeMap::new();
        let mut run = Self { opened, client, world, dice, known, limit: 0, step: 0, seed, refusals: 0, compared: 0 };
        run.create_quota().await;
        run.compared = run.revision().await;
        run
    }

    async fn create_quota(&mut self) {
        self.limit = 2000 + 1000 * self.dice.below(12);
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": NAMESPACE}, "spec": {"overall": {"cpu": format!("{}m", self.limit)}}});
        self.client.create(&quotas(), &quota).await.expect("a quota");
    }

    fn place(&self) -> String {
        format!("seed {} step {}", self.seed, self.step)
    }

    /// Whether the rules allow a change of a binding.
    fn fits(&self, name: &str, new: &Known) -> bool {
        let old = self.known.get(name).map_or(0, Known::usage);
        let sum = self.known.values().map(Known::usage).sum::<i64>() - old + new.usage();
        new.usage() <= old || sum <= self.limit
    }

    async fn create(&self, name: &str, new: &Known, dry_run: bool) -> Result<(), client::Error> {
        let finalizers = if new.has_finalizer { json!(["test/held"]) } else { json!([]) };
        let object = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": finalizers}, "spec": new.spec()});
        let options = client::WriteOptions { dry_run, ..Default::default() };
        self.client
            .create_object(&bindings(), &apimachinery::Object::from_value(&object).expect("JSON"), &options)
            .await?;
        Ok(())
    }

    /// With an outdated version if `stale`.
    async fn replace(&self, name: &str, new: &Known, stale: bool) -> Result<(), client::Error> {
        let mut patch = json!({"spec": new.spec()});
        for field in ["components", "replicaRequirements"] {
            if patch["spec"].get(field).is_none() {
                patch["spec"][field] = Value::Null;
            }
        }
        if stale {
            patch["metadata"] = json!({"resourceVersion": "1"});
        }
        let key = ObjectKey::namespaced(NAMESPACE, name);
        self.client.patch(&bindings(), &key, &Patch::Merge(patch), &PatchOptions::default()).await?;
        Ok(())
    }

    fn expect(&mut self, name: &str, new: Known, found: Result<(), client::Error>) {
        match (self.fits(name, &new), found) {
            (true, Ok(())) => drop(self.known.insert(name.to_owned(), new)),
            (false, Err(error)) if is_quota(&error) => self.refusals += 1,
            (fits, found) => panic!("{}: fits: {fits}, {name} {new:?} among {:?}: {found:?}", self.place(), self.known),
        }
    }

    fn any(&self) -> Option<String> {
        let names: Vec<&String> = self.known.iter().filter(|(_, it)| !it.deleting).map(|(name, _)| name).collect();
        let place = usize::try_from(self.dice.below(names.len().max(1) as u64)).expect("small");
        names.get(place).map(|name| (*name).clone())
    }

    async fn delete(&mut self, name: &str) {
        let key = ObjectKey::namespaced(NAMESPACE, name);
        self.client.delete(&bindings(), &key, &DeleteOptions::default()).await.expect("deleted");
        match self.known.get_mut(name) {
            Some(known) if known.has_finalizer => known.deleting = true,
            _ => drop(self.known.remove(name)),
        }
    }

    async fn release(&mut self) {
        let Some(name) = self.known.iter().find(|(_, it)| it.deleting).map(|(name, _)| name.clone()) else { return };
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let key = ObjectKey::namespaced(NAMESPACE, name.as_str());
        self.client.patch(&bindings(), &key, &patch, &PatchOptions::default()).await.expect("released");
        self.known.remove(&name);
    }

    /// Concurrent writers: any of them may be rejected, but the result is consistent.
    async fn crowd(&mut self) {
        let new: Vec<(String, Known)> = (0..6).map(|n| (format!("c{}-{n}", self.step), self.dice.binding())).collect();
        let outcomes = futures::future::join_all(new.iter().map(|(name, known)| self.create(name, known, false))).await;
        for ((name, known), outcome) in new.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => drop(self.known.insert(name, known)),
                Err(error) if is_quota(&error) && known.usage() > 0 => self.refusals += 1,
                Err(error) => panic!("{}: {error}", self.place()),
            }
        }
        let sum: i64 = self.known.values().map(Known::usage).sum();
        let before: i64 = self
            .known
            .iter()
            .filter(|(name, _)| !name.starts_with(&format!("c{}-", self.step)))
            .map(|(_, it)| it.usage())
            .sum();
        assert!(sum <= self.limit || sum == before, "{}: {sum} of {}", self.place(), self.limit);
    }

    async fn restart(self, directory: &Path) -> Self {
        let Self { opened, client, world, dice, known, limit, step, seed, refusals, compared } = self;
        drop(client);
        opened.close().await.expect("closed");
        let opened = open(directory, &world).await;
        let client = opened.client("test");
        Self { opened, client, world, dice, known, limit, step, seed, refusals, compared }
    }

    async fn change_limit(&mut self) {
        self.limit = 1000 + 1000 * self.dice.below(14);
        let patch = Patch::Merge(json!({"spec": {"overall": {"cpu": format!("{}m", self.limit)}}}));
        let key = ObjectKey::namespaced(NAMESPACE, "q");
        self.client.patch(&quotas(), &key, &patch, &PatchOptions::default()).await.expect("a limit");
    }

    async fn act(&mut self) {
        match self.dice.below(14) {
            0..=2 => {
                let (name, new) = (format!("b{}", self.step), self.dice.binding());
                let found = self.create(&name, &new, false).await;
                self.expect(&name, new, found);
            }
            3..=5 => {
                let Some(name) = self.any() else { return };
                // Scaled, moved, or both.
                let new = Known { has_finalizer: self.known[&name].has_finalizer, ..self.dice.binding() };
                let found = self.replace(&name, &new, false).await;
                self.expect(&name, new, found);
            }
            6 => {
                let Some(name) = self.any() else { return };
                let new = self.dice.binding();
                let error = self.replace(&name, &new, true).await.expect_err("a stale version");
                assert!(error.is_conflict(), "{}: {error}", self.place());
            }
            7 | 8 => {
                let Some(name) = self.any() else { return };
                self.delete(&name).await;
            }
            9 => self.release().await,
            10 => self.crowd().await,
            11 => {
                let new = self.dice.binding();
                let found = self.create("dry", &new, true).await;
                let fits = self.fits("dry", &new);
                assert_eq!(fits, found.is_ok(), "{}: {found:?}", self.place());
            }
            12 => {
                let Some(name) = self.any() else { return };
                // Neither the status nor an annotation is charged.
                let key = ObjectKey::namespaced(NAMESPACE, name);
                let patch = json!({"status": {"schedulerObservedGeneration": self.step}});
                self.client
                    .patch(&bindings(), &key, &Patch::Merge(patch), &PatchOptions::status())
                    .await
                    .expect("a status");
            }
            _ => self.change_limit().await,
        }
    }

    async fn revision(&self) -> u64 {
        let list = self.client.list(&bindings(), Some(NAMESPACE), &ListOptions::default()).await;
        list.expect("a list").resource_version
    }

    async fn at(&self, revision: u64, resource: &ApiResource) -> Vec<Value> {
        let path = resource.collection_path(Some(NAMESPACE));
        let path = format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let list = self.client.document(&path, "application/json").await.expect("a list of the past");
        let list: Value = serde_json::from_slice(&list).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// At every revision since the last step, including those between concurrent writes.
    async fn check_revisions(&mut self) {
        let newest = self.revision().await;
        for revision in self.compared + 1..=newest {
            let sum: i64 = self.at(revision, &bindings()).await.iter().map(usage).sum();
            let sum: Quantity = format!("{sum}m").parse().expect("a quantity");
            for quota in self.at(revision, &quotas()).await {
                let used = quota["status"]["overallUsed"]["cpu"].as_str().unwrap_or("0");
                let used: Quantity = used.parse().expect("a quantity");
                assert_eq!(used, sum, "{} revision {revision}: {}", self.place(), quota["status"]);
            }
        }
        self.compared = newest;
    }

    async fn check(&self) {
        let place = self.place();
        let list = self.client.list(&bindings(), Some(NAMESPACE), &ListOptions::default()).await.expect("a list");
        let names: Vec<&str> = list.items.iter().map(|it| it.name()).collect();
        assert_eq!(names, self.known.keys().collect::<Vec<_>>(), "{place}");
        let quota = self.client.get(&quotas(), &ObjectKey::namespaced(NAMESPACE, "q")).await.expect("the quota");
        let status = quota.to_value().expect("JSON")["status"].clone();
        let used =
            status["overallUsed"]["cpu"].as_str().map_or(Quantity::ZERO, |text| text.parse().expect("a quantity"));
        let sum: i64 = self.known.values().map(Known::usage).sum();
        let sum: Quantity = format!("{sum}m").parse().expect("a quantity");
        assert_eq!(used, sum, "{place}: {status} {:?}", self.known);
        assert_eq!(status["overallUsed"].get("memory"), None, "{place}");
    }
}

#[tokio::test]
async fn usage_is_the_sum_over_bindings_after_every_step() {
    let runs = std::env::var("QUOTA_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12_u64);
    let mut refusals = 0;
    for seed in 0..runs {
        let directory = tempfile::tempdir().expect("a directory");
        let mut run = Run::start(directory.path(), seed).await;
        for step in 0..60 {
            run.step = step;
            if step % 20 == 19 {
                run = run.restart(directory.path()).await;
            }
            run.act().await;
            run.check().await;
            run.check_revisions().await;
        }
        refusals += run.refusals;
        run.opened.close().await.expect("closed");
    }
    assert!(refusals > 0, "no write was refused: the limits are too high to prove anything");
}

#[tokio::test]
async fn an_uncounted_quota_counts_existing_bindings() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = Run::start(directory.path(), 1).await;
    run.client
        .delete(&quotas(), &ObjectKey::namespaced(NAMESPACE, "q"), &DeleteOptions::default())
        .await
        .expect("gone");
    let three = Known { request: 1000, clusters: [("m0".to_owned(), 3)].into(), ..Known::default() };
    run.create("before", &three, false).await.expect("no quota limits it");
    run.known.insert("before".into(), three.clone());
    run.create_quota().await;
    run.limit = 5000;
    let patch = Patch::Merge(json!({"spec": {"overall": {"cpu": "5"}}}));
    run.client
        .patch(&quotas(), &ObjectKey::namespaced(NAMESPACE, "q"), &patch, &PatchOptions::default())
        .await
        .expect("a limit");
    let found = run.create("after", &three, false).await;
    run.expect("after", three.clone(), found);
    assert_eq!(run.refusals, 1, "three and three are more than five");
    let two = Known { request: 1000, clusters: [("m0".to_owned(), 2)].into(), ..Known::default() };
    let found = run.create("after", &two, false).await;
    run.expect("after", two, found);
    run.check().await;
    run.opened.close().await.expect("closed");
}
