//! Random histories of exports, imports, MultiClusterServices, slices, restarts and unresponsive members against a
//! model: at the end each member has exactly the slices of its providers, and nothing remains of deleted objects.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];
const SERVICES: [&str; 2] = ["web", "api"];
/// One history here takes as long as this many of the simulation, after which `SEEDS` counts.
const SHARE: u64 = 40;

/// The existing objects. Members are numbered.
#[derive(Default)]
struct Model {
    /// Addresses of slices, by member, Service and number.
    slices: BTreeMap<(usize, usize, usize), String>,
    /// The members of each export and import, and the lists of each MultiClusterService.
    exports: BTreeMap<usize, BTreeSet<usize>>,
    imports: BTreeMap<usize, BTreeSet<usize>>,
    services: BTreeMap<usize, (BTreeSet<usize>, BTreeSet<usize>)>,
}

fn named(members: &BTreeSet<usize>) -> Vec<&'static str> {
    members.iter().map(|at| MEMBERS[*at]).collect()
}

fn slice_name(service: usize, number: usize) -> String {
    format!("{}-{number}", SERVICES[service])
}

impl Model {
    fn expected(&self, member: usize, service: usize) -> (String, String) {
        let (mut plain, mut derived) = (BTreeSet::new(), BTreeSet::new());
        for ((at, of, number), address) in &self.slices {
            if *of != service {
                continue;
            }
            let (name, provider) = (slice_name(service, *number), MEMBERS[*at]);
            if *at == member {
                plain.insert(format!("{name}={address}"));
            }
            let lists = self.services.get(&service);
            let is_derived = |(providers, consumers): &(BTreeSet<usize>, BTreeSet<usize>)| {
                providers.contains(at) && consumers.contains(&member) && *at != member
            };
            if lists.is_some_and(is_derived) {
                plain.insert(format!("{provider}-{name}={address}"));
            }
            let exports = self.exports.get(&service).is_some_and(|it| it.contains(at));
            if exports && self.imports.get(&service).is_some_and(|it| it.contains(&member)) {
                derived.insert(format!("imported-{provider}-{name}={address}"));
            }
        }
        let join = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
        (join(plain), join(derived))
    }

    /// How many Works with slices there are.
    fn works(&self) -> usize {
        let collected = self.slices.keys().filter(|(at, of, _)| {
            let exported = self.exports.get(of).is_some_and(|it| it.contains(at));
            exported || self.services.get(of).is_some_and(|(providers, _)| providers.contains(at))
        });
        let copies = self.slices.keys().map(|(at, of, _)| match self.services.get(of) {
            Some((providers, consumers)) if providers.contains(at) => consumers.iter().filter(|it| *it != at).count(),
            _ => 0,
        });
        collected.count() + copies.sum::<usize>()
    }
}

struct History {
    plane: Plane,
    model: Model,
    random: StdRng,
}

impl History {
    /// One or more members.
    fn some(&mut self) -> BTreeSet<usize> {
        let first = self.random.random_range(0..MEMBERS.len());
        let random = &mut self.random;
        let mut some: BTreeSet<usize> = (0..MEMBERS.len()).filter(|_| random.random_range(0..3) == 0).collect();
        some.insert(first);
        some
    }

    async fn step(&mut self) {
        let service = self.random.random_range(0..SERVICES.len());
        let name = SERVICES[service];
        match self.random.random_range(0..20) {
            0..8 => self.change_slice(service).await,
            8..10 => self.toggle(service, true).await,
            10..12 => self.toggle(service, false).await,
            12..15 => {
                let lists = (self.some(), self.some());
                let (providers, consumers) = (named(&lists.0), named(&lists.1));
                match self.model.services.insert(service, lists) {
                    Some(_) => change(&self.plane, name, &providers, &consumers).await,
                    None => multi_cluster(&self.plane, name, &providers, &consumers).await,
                }
            }
            15 => {
                if self.model.services.remove(&service).is_some() {
                    let (resource, client) = (MultiClusterService::api_resource(), &self.plane.client);
                    delete(client, &resource, name).await;
                    self.plane
                        .until("the end", async || get(client, &resource, &key(name)).await.is_none().then_some(()))
                        .await;
                }
            }
            16 => self.plane.restart_controllers().await,
            17 => self.plane.overlap_controllers(Duration::from_secs(3)),
            18 => {
                let member = MEMBERS[self.random.random_range(0..MEMBERS.len())];
                if self.plane.network.is_cut(member) {
                    self.plane.network.heal(member);
                } else {
                    self.plane.network.cut(member);
                }
            }
            // Users change objects written by Karmada.
            _ => {
                let client = self.plane.client.clone();
                let list = client.list(&slices(), Some("demo"), &ListOptions::default()).await.expect("a list").items;
                if let Some(first) = list.first() {
                    delete(&client, &slices(), first.name()).await;
                }
            }
        }
        let pause = Duration::from_millis(self.random.random_range(0..2_000));
        tokio::time::sleep(pause).await;
    }

    async fn change_slice(&mut self, service: usize) {
        let member = self.random.random_range(0..MEMBERS.len());
        // Slices of different members have the same names.
        let number = self.random.random_range(0..2);
        let (place, name) = ((member, service, number), slice_name(service, number));
        if self.random.random_range(0..4) == 0 && self.model.slices.remove(&place).is_some() {
            delete(&self.plane.member(MEMBERS[member]), &slices(), &name).await;
            return;
        }
        let address =
            format!("10.{}.{}.{}", member + 1, self.random.random_range(0..250), self.random.random_range(1..250));
        endpoints(&self.plane, MEMBERS[member], &name, SERVICES[service], &[&address]).await;
        self.model.slices.insert(place, address);
    }

    /// An export or import is created, changed or deleted.
    async fn toggle(&mut self, service: usize, exports: bool) {
        let members = self.some();
        let removes = self.random.random_range(0..3) == 0;
        let (known, kind, resource) = match exports {
            true => (&mut self.model.exports, "ServiceExport", ServiceExport::api_resource()),
            false => (&mut self.model.imports, "ServiceImport", ServiceImport::api_resource()),
        };
        let (name, policy) = (SERVICES[service], key(&format!("{}-{}", SERVICES[service], kind.to_lowercase())));
        match (known.contains_key(&service), removes) {
            (true, true) => {
                known.remove(&service);
                delete(&self.plane.client, &policies(), policy.name()).await;
                delete(&self.plane.client, &resource, name).await;
            }
            (true, false) => {
                let names = named(&members);
                known.insert(service, members);
                let spec = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": names}}}});
                self.plane.merge(&policies(), &policy, spec, PatchOptions::default()).await;
            }
            (false, _) => {
                let (plane, client) = (&self.plane, &self.plane.client);
                plane
                    .until("the policy is gone", async || {
                        get(client, &policies(), &policy).await.is_none().then_some(())
                    })
                    .await;
                plane
                    .until("it is gone", async || get(client, &resource, &key(name)).await.is_none().then_some(()))
                    .await;
                let names = named(&members);
                known.insert(service, members);
                match exports {
                    true => export(&self.plane, name, &names).await,
                    false => import(&self.plane, name, &names).await,
                }
            }
        }
    }

    async fn check(&self, seed: u64) {
        for member in MEMBERS {
            self.plane.network.heal(member);
        }
        for (at, member) in MEMBERS.iter().enumerate() {
            let client = self.plane.member(member);
            for (service, name) in SERVICES.iter().enumerate() {
                let (plain, derived) = self.model.expected(at, service);
                println!("seed {seed}: {member} {name}");
                until(&self.plane, &client, name, &plain).await;
                until(&self.plane, &client, &format!("derived-{name}"), &derived).await;
            }
        }
        let count = async || (works(&self.plane).await.len() == self.model.works()).then_some(());
        self.plane.until(&format!("seed {seed}: {} Works", self.model.works()), count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn histories_equal_the_model() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let seeds = number("SEEDS").map_or(6, |seeds| seeds.div_ceil(SHARE));
    let first = number("SEED").unwrap_or(0);
    for seed in first..first + seeds {
        let stop = CancellationToken::new();
        let plane = joined(&MEMBERS, &stop).await;
        for name in SERVICES {
            service(&plane, name).await;
        }
        let mut history = History { plane, model: Model::default(), random: StdRng::seed_from_u64(seed) };
        for _ in 0..40 {
            history.step().await;
        }
        history.check(seed).await;
        stop.cancel();
        history.plane.shutdown().await;
    }
}
