//! Histories drawn from seeds: users, members and a bad network do as they like, and whatever they did, nothing is ever
//! deleted or overwritten that no decision asked for, and once they stop, members are what the control plane says.
//!
//! `SEED=7 cargo test -p controllers --test it simulation` runs one history alone; `SEEDS=2000` runs that many.

mod history;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use client::{Client, DeleteOptions};
use controller_runtime::InformerSet;
use controllers::Settings;
use history::{Action, Kind};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use rules::{Witness, all, discrepancies};
use tokio_util::sync::CancellationToken;

use crate::harness::Plane;

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];

/// Histories run one after another in one control plane, so that what one leaves behind disturbs the next.
const SEEDS: u64 = 60;
/// Each share in a control plane of its own.
const SHARES: u64 = 2;

#[tokio::test(start_paused = true)]
async fn histories_end_well() {
    share(0).await;
}

#[tokio::test(start_paused = true)]
async fn more_histories_end_well() {
    share(1).await;
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn share(number: u64) {
    let seeds: Vec<u64> = match variable("SEED") {
        Some(seed) => [seed].into_iter().filter(|_| number == 0).collect(),
        None => (0..variable("SEEDS").unwrap_or(SEEDS)).filter(|seed| seed % SHARES == number).collect(),
    };
    if seeds.is_empty() {
        return;
    }
    let mut simulation = Simulation::start().await;
    for seed in seeds {
        let history = history::draw(seed);
        let outcome = simulation.run(&history).await;
        assert!(
            outcome.is_empty(),
            "{}\nafter {}\nagain with: SEED={seed} cargo test -p controllers --test it simulation",
            outcome.join("\n"),
            history.iter().map(|action| format!("{action:?}")).collect::<Vec<_>>().join("\n      "),
        );
    }
    simulation.stop.cancel();
    simulation.plane.shutdown();
}

struct Simulation {
    plane: Plane,
    witness: Witness,
    stop: CancellationToken,
}

impl Simulation {
    async fn start() -> Self {
        let settings = Settings { status_frequency: Duration::from_secs(30), ..Settings::default() };
        let plane = Plane::of(&MEMBERS, settings).await;
        let stop = CancellationToken::new();
        let run = |client: Client, names: &[&str]| {
            let informers = InformerSet::until(client.clone(), plane.world.clone(), stop.clone());
            let selection: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            kube_controllers::start(
                client,
                &informers,
                kube_controllers::Settings::default(),
                &selection,
                stop.clone(),
            )
            .expect("the controllers start");
        };
        run(plane.controlled().clone(), &["garbage-collector-controller", "namespace-controller"]);
        for member in MEMBERS {
            run(plane.member(member), &["namespace-controller"]);
        }
        let witness = Witness::new(&plane);
        let seeing = witness.clone();
        plane.network.set_guard(Arc::new(move |asked| {
            let seeing = seeing.clone();
            Box::pin(async move { seeing.see(asked).await })
        }));
        let simulation = Self { plane, witness, stop };
        assert_eq!(simulation.calm().await, [""; 0]);
        simulation
    }

    /// What went wrong in a history.
    async fn run(&mut self, history: &[Action]) -> Vec<String> {
        let mut left_behind = false;
        for action in history {
            // Members that are unjoined while they cannot be reached keep what they have.
            left_behind |= matches!(action, Action::Unjoin(_));
            action.perform(&mut self.plane).await;
        }
        let mut wrong = self.calm().await;
        if wrong.is_empty() {
            wrong = self.rest(left_behind).await;
        }
        if wrong.is_empty() {
            wrong = self.changes_nothing_again().await;
        }
        wrong.extend(self.witness.take());
        if wrong.is_empty() {
            wrong = self.clear(left_behind).await;
            wrong.extend(self.witness.take());
        }
        wrong
    }

    /// Lets everything be reached, and joins what is not joined. Answers what hinders that.
    async fn calm(&self) -> Vec<String> {
        self.plane.network.set_weather(None);
        for member in MEMBERS {
            self.plane.network.heal(member);
        }
        let resource = Cluster::api_resource();
        // Longer than the longest back-off, which is 1,000 s.
        for round in 0..=150 {
            let mut hindered = Vec::new();
            for member in MEMBERS {
                match self.plane.get(&resource, &ObjectKey::cluster(member)).await {
                    None => {
                        self.plane.join(member).await;
                        hindered.push(format!("cluster {member} has just joined"));
                    }
                    Some(cluster) if !rules::lives(&cluster) => hindered.push(format!("cluster {member} does not go")),
                    Some(cluster) if !rules::is_ready(&cluster) => {
                        hindered.push(format!("cluster {member} is not ready"))
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

    /// Waits until nothing is wrong: longer than the longest back-off, which is 1,000 s.
    async fn rest(&self, left_behind: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for seconds in [2, 3, 5, 10, 20, 40, 80, 160, 320, 640, 1_280] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            wrong = discrepancies(&self.plane).await;
            wrong.retain(|line| !(left_behind && line.contains("was left in")));
            if wrong.is_empty() {
                break;
            }
        }
        wrong
    }

    /// Controllers that start anew find nothing to do, but for templates that their policy does not select any more: these
    /// keep their propagation until then, and are rendered or matched anew now (as by upstream).
    async fn changes_nothing_again(&mut self) -> Vec<String> {
        self.plane.settle().await;
        let ungoverned = rules::ungoverned(&self.plane).await;
        let before = self.plane.network.writes();
        self.plane.restart_controllers().await;
        self.plane.settle().await;
        if ungoverned.iter().any(|(_, claimed)| *claimed) {
            return Vec::new();
        }
        let after = self.plane.network.writes();
        let more = after.into_iter().filter(|(line, count)| before.get(line) != Some(count));
        let more = more.filter(|(line, _)| !ungoverned.iter().any(|(name, _)| line.contains(&format!("/{name}"))));
        more.map(|(line, _)| format!("needless: {line}")).collect()
    }

    /// Takes away what the users made; what was propagated goes with it, what was there before stays.
    async fn clear(&self, left_behind: bool) -> Vec<String> {
        let control = &self.plane.client;
        let background = DeleteOptions::background();
        let mut resources = Kind::ALL.map(Kind::resource).to_vec();
        resources.extend([history::policies(false), history::policies(true), history::overrides()]);
        for resource in resources {
            for object in all(control, &resource, None).await {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if namespace.is_empty() || namespace == "demo" {
                    let key = match namespace {
                        "" => ObjectKey::cluster(name),
                        _ => ObjectKey::namespaced(namespace, name),
                    };
                    control.delete(&resource, &key, &background).await.expect("the deletion");
                }
            }
        }
        let wrong = self.rest(left_behind).await;
        for member in MEMBERS {
            let client = self.plane.member(member);
            for kind in Kind::ALL {
                for object in all(&client, &kind.resource(), Some("demo")).await {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let key = ObjectKey::namespaced("demo", name);
                    client.delete(&kind.resource(), &key, &background).await.expect("the deletion");
                }
            }
        }
        wrong
    }
}
