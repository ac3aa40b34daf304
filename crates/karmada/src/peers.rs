//! The API servers on one store. Each has a key there under a lease, with its address, and a Lease in `kube-system`, as
//! kube-apiserver has. The endpoints of the Service `default/kubernetes` are the addresses of all servers.
//!
//! The first server after a time without one records that the store was opened, because it may have been replaced by an
//! older copy. A further server must not, because the controllers beside the first one are already writing to members.
//! A key alone proves nothing, because it may be part of the copy; a server is alive if it has written its key since
//! this one started.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use apimachinery::{ApiResource, ObjectKey};
use apiserver::bootstrap::objects::Front;
use apiserver::health::Gate;
use client::{Client, DeleteOptions, Fence, ListOptions, Preconditions};
use serde_json::{Value, json};
use storage::{Guard, KeyRange, KeyValue, LeaseId, Op, RangeRequest, Revision, Store, Txn, TxnOutcome};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::data_dir::DataDir;
use crate::external::agreement::Agreement;

/// Outside the keys of objects.
pub const ROOT: &str = "/karmada-rs/servers/";
/// The server that starts.
const LOCK: &str = "/karmada-rs/starting";
/// Seconds after which a server that was killed is no endpoint any more, as with kube-apiserver.
const TTL: u64 = 15;
/// A further server waits that long at its start.
const RENEWAL: Duration = Duration::from_millis(2_500);
const RETRY: Duration = Duration::from_millis(100);
/// kube-apiserver's duration of its Lease, in seconds. Leases that ended are removed.
const LEASE_SECONDS: i64 = 3_600;
const LABEL: &str = "apiserver.kubernetes.io/identity";

/// The servers on a store, as one that starts finds them.
pub struct Peers {
    place: Place,
    /// The addresses of the other servers.
    pub others: Vec<IpAddr>,
}

/// A server that has its place.
pub struct Entered {
    place: Place,
    lease: LeaseId,
    others: Vec<IpAddr>,
}

/// The lock of starting servers, held by this one.
struct Lock {
    lease: LeaseId,
    /// Of its key.
    revision: Revision,
}

struct Place {
    store: Arc<dyn Store>,
    front: Front,
    /// The name of the server's Lease, the same at each start.
    name: String,
    /// The identity of this process.
    identity: String,
    /// Where resources are apart.
    agreement: Agreement,
    /// Open while no server that keeps Leases elsewhere can have started: as long as this one has its place.
    placed: Fence,
    world: World,
}

/// The task that renews the key and the Lease.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// The other servers remove this one from the endpoints soon.
    pub async fn leave(self) {
        self.stop.cancel();
        // A panic has been logged.
        let _ = self.task.await;
    }
}

impl Peers {
    /// # Errors
    /// The store cannot be read.
    pub async fn find(
        store: Arc<dyn Store>,
        front: Front,
        agreement: Agreement,
        data: &DataDir,
        world: &World,
    ) -> anyhow::Result<Self> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = format!("{} {}", host.trim(), crate::cli::absolute(data.root()));
        let name = format!("apiserver-{:08x}", apimachinery::hash::fnv1a32(place.as_bytes()));
        let identity = format!("{name}_{}", world.uuid());
        let placed = Fence::until(Instant::now());
        let place = Place { store, front, name, identity, agreement, placed, world: world.clone() };
        let others = addresses(&place.others().await?);
        Ok(Self { place, others })
    }

    /// Open while Leases may be written.
    pub fn placed(&self) -> Fence {
        self.place.placed.clone()
    }

    /// Registers this server, which started when the store was at `began`. Calls `first` before, unless another server
    /// is alive. Servers do this one after another.
    ///
    /// # Errors
    /// If the store cannot be read or written, other servers keep Leases elsewhere, or `first` failed.
    pub async fn enter(
        self,
        began: Revision,
        first: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Entered> {
        let Self { place, others } = self;
        let lock = place.lock().await?;
        let registered = place.holding(&lock, place.register(&lock, began, first)).await;
        // Another one may start at once.
        place.release(&lock).await;
        Ok(Entered { lease: registered?, place, others })
    }
}

impl Entered {
    /// Renews the registration until it is removed. The gate is closed while other servers keep Leases elsewhere.
    pub fn run(self, client: Client, gate: Gate) -> Running {
        let stop = CancellationToken::new();
        gate.set(true);
        let task = tokio::spawn(self.keep(client, gate, stop.clone()));
        Running { stop, task }
    }

    async fn keep(self, client: Client, gate: Gate, stop: CancellationToken) {
        let Self { place, mut lease, mut others } = self;
        let mut round = 0_u64;
        loop {
            let renewed = async {
                gate.set(place.stay(&mut lease).await?);
                place.renew(&client, &mut others, round).await
            };
            if let Some(Err(error)) = stop.run_until_cancelled(renewed).await {
                tracing::warn!(err = %format!("{error:#}"), "The place among the API servers cannot be renewed; retrying");
            }
            round = round.wrapping_add(1);
            if stop.run_until_cancelled(tokio::time::sleep(RENEWAL)).await.is_none() {
                break;
            }
        }
        if let Err(error) = place.store.revoke_lease(lease).await {
            tracing::warn!(err = %error, "This server stays an endpoint of default/kubernetes for {TTL} s");
        }
    }
}

impl Place {
    /// Waits until no other server starts.
    async fn lock(&self) -> anyhow::Result<Lock> {
        let lease = self.store.grant_lease(TTL).await?;
        loop {
            let op = Op::Put { key: LOCK.into(), value: self.identity.clone().into(), lease: Some(lease) };
            let txn = Txn { guards: vec![Guard::Absent(LOCK.into())], ops: vec![op] };
            if let TxnOutcome::Committed { revision } = self.store.txn(txn).await? {
                return Ok(Lock { lease, revision });
            }
            tokio::time::sleep(RETRY).await;
            self.store.keep_alive(lease).await?;
        }
    }

    /// Renews the lock until the work is done, which waits for the leases of other servers and for the store.
    async fn holding<T>(&self, lock: &Lock, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            never = self.keep_lock(lock) => match never {},
        }
    }

    async fn keep_lock(&self, lock: &Lock) -> Infallible {
        loop {
            tokio::time::sleep(Duration::from_secs(TTL / 3)).await;
            // Whether it is held decides the transaction that relies on it.
            if let Err(error) = self.store.keep_alive(lock.lease).await {
                tracing::warn!(err = %error, "The lock of starting servers cannot be renewed");
            }
        }
    }

    async fn release(&self, lock: &Lock) {
        match self.store.revoke_lease(lock.lease).await {
            Ok(()) | Err(storage::Error::LeaseNotFound(_)) => {}
            Err(error) => tracing::warn!(err = %error, "Servers that start wait for the end of a lock, up to {TTL} s"),
        }
    }

    /// See [`Peers::enter`]. Returns the lease of the record.
    async fn register(
        &self,
        lock: &Lock,
        began: Revision,
        first: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<LeaseId> {
        let has_company = self.has_company(began).await?;
        self.agreement.join(&*self.store, has_company).await?;
        if !has_company {
            first.await?;
        }
        let begun = Instant::now();
        let lease = self.store.grant_lease(TTL).await?;
        self.write_record(lease, Some(lock)).await?;
        self.placed.extend(begun + Duration::from_secs(TTL));
        Ok(lease)
    }

    /// Whether another server is alive. Waits for the end of the leases of those that are not.
    async fn has_company(&self, began: Revision) -> anyhow::Result<bool> {
        loop {
            let others = self.others().await?;
            if let Some(decided) = is_company(&others, began) {
                return Ok(decided);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Writes the record of this server.
    ///
    /// # Errors
    /// The lock that it relies on is another one's: this process or the store was stopped for longer than its lease.
    async fn write_record(&self, lease: LeaseId, lock: Option<&Lock>) -> anyhow::Result<()> {
        let value = json!({"address": self.front.address, "port": self.front.port}).to_string().into();
        let op = Op::Put { key: format!("{ROOT}{}", self.identity).into(), value, lease: Some(lease) };
        let guards = lock.map(|lock| Guard::ModRevision(LOCK.into(), lock.revision)).into_iter().collect();
        match self.store.txn(Txn { guards, ops: vec![op] }).await? {
            TxnOutcome::Committed { .. } => Ok(()),
            TxnOutcome::Failed { .. } => bail!(
                "the lock of starting servers ended meanwhile, as after a pause of more than {TTL} s; another server may \
                 have started: start this one again"
            ),
        }
    }

    /// The records of the other servers. A record of an earlier life of this one is not another server's.
    async fn others(&self) -> anyhow::Result<Vec<KeyValue>> {
        let own = format!("{ROOT}{}_", self.name);
        let mut found = records(&*self.store).await?;
        found.retain(|item| !item.key.starts_with(own.as_bytes()));
        Ok(found)
    }

    /// Keeps the place of this server. False if other servers keep Leases elsewhere: they started while this one had no
    /// place. Then no Lease is written here, and the components that were elected here lose theirs.
    async fn stay(&self, lease: &mut LeaseId) -> anyhow::Result<bool> {
        let mut begun = Instant::now();
        match self.store.keep_alive(*lease).await {
            Ok(()) => self.write_record(*lease, None).await?,
            Err(storage::Error::LeaseNotFound(_)) => {
                // As at a start: a server that starts meanwhile finds this one, or this one finds its record.
                let lock = self.lock().await?;
                begun = Instant::now();
                let replaced = self.holding(&lock, self.replace(&lock)).await;
                self.release(&lock).await;
                *lease = replaced?;
            }
            // The record may be about to end.
            Err(error) => return Err(error.into()),
        }
        let agreed = self.agreement.agrees(&*self.store).await?;
        match agreed {
            true => self.placed.extend(begun + Duration::from_secs(TTL)),
            false => self.placed.close(),
        }
        Ok(agreed)
    }

    /// Writes the record with a new lease, which it returns.
    async fn replace(&self, lock: &Lock) -> anyhow::Result<LeaseId> {
        let lease = self.store.grant_lease(TTL).await?;
        self.write_record(lease, Some(lock)).await?;
        Ok(lease)
    }

    async fn renew(&self, client: &Client, known: &mut Vec<IpAddr>, round: u64) -> anyhow::Result<()> {
        let others = addresses(&self.others().await?);
        if others != *known {
            crate::bootstrap::ensure_front(client, self.front, &others).await?;
            tracing::info!(?others, "The endpoints of default/kubernetes have changed");
            *known = others;
        }
        // kube-apiserver renews every 10 s, and removes ended Leases every hour.
        if round.is_multiple_of(4) {
            self.renew_identity(client).await.context("renewing the Lease of this server")?;
        }
        if round.is_multiple_of(1_440) {
            remove_ended(client, self.world.now().as_second()).await.context("removing the Leases of ended servers")?;
        }
        Ok(())
    }

    async fn renew_identity(&self, client: &Client) -> anyhow::Result<()> {
        let key = ObjectKey::namespaced("kube-system", self.name.as_str());
        let live = client.get_opt(&leases(), &key).await?.map(|lease| lease.to_value()).transpose()?;
        let now = self.world.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        match live {
            Some(mut lease) => {
                lease["spec"]["holderIdentity"] = json!(self.identity);
                lease["spec"]["renewTime"] = json!(now);
                client.update(&leases(), &lease).await?;
            }
            None => {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"namespace": "kube-system", "name": self.name, "labels": {LABEL: "kube-apiserver"}},
                    "spec": {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}});
                client.create(&leases(), &lease).await?;
            }
        }
        Ok(())
    }
}

/// `None` while it is unknown: no record has been written since this server began, and some exist.
fn is_company(others: &[KeyValue], began: Revision) -> Option<bool> {
    if others.is_empty() {
        return Some(false);
    }
    others.iter().any(|record| record.mod_revision > began).then_some(true)
}

fn leases() -> ApiResource {
    ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
}

/// The addresses of all servers on a store; none if it belongs to one server.
///
/// # Errors
/// The store cannot be read.
pub async fn registered(store: &dyn Store) -> anyhow::Result<Vec<IpAddr>> {
    Ok(addresses(&records(store).await?))
}

/// The records of all servers.
async fn records(store: &dyn Store) -> storage::Result<Vec<KeyValue>> {
    let range = RangeRequest { range: KeyRange::prefix(ROOT), revision: None, limit: 0 };
    Ok(store.range(range).await?.items)
}

fn address(record: &[u8]) -> Option<IpAddr> {
    let record: Value = serde_json::from_slice(record).ok()?;
    record["address"].as_str()?.parse().ok()
}

fn addresses(servers: &[KeyValue]) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = servers.iter().filter_map(|record| address(&record.value)).collect();
    found.sort();
    found.dedup();
    found
}

async fn remove_ended(client: &Client, now: i64) -> anyhow::Result<()> {
    let options = ListOptions { label_selector: Some(format!("{LABEL}=kube-apiserver")), ..ListOptions::default() };
    for lease in client.list(&leases(), Some("kube-system"), &options).await?.items {
        let tree = lease.to_value()?;
        if has_ended(&tree["spec"], now) {
            let unchanged = Preconditions { uid: None, resource_version: Some(lease.resource_version().to_owned()) };
            let options = DeleteOptions { preconditions: Some(unchanged), ..DeleteOptions::default() };
            match client.delete(&leases(), &lease.key(), &options).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a Lease has expired; `now` in seconds since 1970. A Lease without a time has not.
fn has_ended(spec: &Value, now: i64) -> bool {
    let renewed = spec["renewTime"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let duration = spec["leaseDurationSeconds"].as_i64().unwrap_or(LEASE_SECONDS);
    renewed.is_some_and(|renewed| renewed.as_second().saturating_add(duration) < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_its_duration_after_its_renewal() {
        let spec = |renewed: &str, seconds: i64| json!({"renewTime": renewed, "leaseDurationSeconds": seconds});
        let now = "2026-01-01T01:00:00Z".parse::<jiff::Timestamp>().expect("a time").as_second();
        for (spec, expected) in [
            (spec("2026-01-01T00:59:50.123456Z", 3_600), false),
            (spec("2026-01-01T00:00:00.000000Z", 3_600), false),
            (spec("2025-12-31T23:59:59.000000Z", 3_600), true),
            (spec("2026-01-01T00:59:50.000000Z", 5), true),
            (spec("soon", 5), false),
            (json!({}), false),
        ] {
            assert_eq!(has_ended(&spec, now), expected, "{spec}");
        }
    }

    fn record(key: &str, value: &str, mod_revision: Revision) -> KeyValue {
        let (key, value) = (key.to_owned().into(), value.to_owned().into());
        KeyValue { key, value, create_revision: 1, mod_revision, lease: None }
    }

    #[test]
    fn records_without_an_address_are_skipped() {
        let servers = [
            r#"{"address": "192.0.2.7", "port": 6443}"#,
            r#"{"address": "192.0.2.3", "port": 6443}"#,
            r#"{"address": null, "port": 6443}"#,
            "{",
            r#"{"address": "192.0.2.3", "port": 6443}"#,
        ];
        let found = addresses(&servers.map(|value| record("a", value, 1)));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.3", "192.0.2.7"]);
    }

    #[test]
    fn a_server_is_alive_if_it_has_written_since() {
        for (what, written, expected) in [
            ("none", &[][..], Some(false)),
            ("a record of before, as in a copy", &[7], None),
            ("the present revision", &[10], None),
            ("one that is renewed", &[7, 11], Some(true)),
        ] {
            let others: Vec<KeyValue> = written.iter().map(|at| record("a", "{}", *at)).collect();
            assert_eq!(is_company(&others, 10), expected, "{what}");
        }
    }

    async fn put(store: &dyn Store, key: &'static str, ttl: u64) {
        let lease = Some(store.grant_lease(ttl).await.expect("granted"));
        let ops = vec![Op::Put { key: key.into(), value: "{}".into(), lease }];
        store.txn(Txn { guards: Vec::new(), ops }).await.expect("written");
    }

    fn place(store: &storage::memory::MemoryStore, name: &str) -> Place {
        let front = Front { cluster_ip: [10, 0, 0, 1].into(), address: None, port: 6443 };
        let (name, identity) = (name.to_owned(), format!("{name}_1"));
        let (agreement, placed) = (Agreement::default(), Fence::until(Instant::now()));
        Place { store: Arc::new(store.clone()), front, name, identity, agreement, placed, world: World::system() }
    }

    /// After a restored copy, the leases of servers that are gone may last longer than the lock's.
    #[tokio::test(start_paused = true)]
    async fn the_lock_is_held_while_a_server_waits() {
        let store = storage::memory::MemoryStore::new();
        put(&store, "/karmada-rs/servers/gone_1", 3 * TTL).await;
        let began = store.revision().await.expect("a revision");
        let (started, (first, second)) = (Instant::now(), (place(&store, "a"), place(&store, "b")));
        let first = Peers { place: first, others: Vec::new() };
        let second = Peers { place: second, others: Vec::new() };
        let opened = std::sync::atomic::AtomicUsize::new(0);
        let opening = async || {
            opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        let (first, second) = tokio::join!(first.enter(began, opening()), second.enter(began, opening()));
        assert!(first.is_ok() && second.is_ok());
        assert!(started.elapsed() >= Duration::from_secs(3 * TTL));
        assert_eq!(opened.into_inner(), 1, "the second one finds the first");
        assert_eq!(store.get(LOCK.into(), None).await.expect("read"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lost_the_lock_is_not_registered() {
        let store = storage::memory::MemoryStore::new();
        let peers = Peers { place: place(&store, "a"), others: Vec::new() };
        let lost = async {
            let held = store.get(LOCK.into(), None).await?.expect("held");
            Ok(store.revoke_lease(held.lease.expect("with a lease")).await?)
        };
        let error = peers.enter(1, lost).await.err().expect("refused").to_string();
        assert!(error.contains("the lock of starting servers ended meanwhile"), "{error}");
        assert!(records(&store).await.expect("read").is_empty());
    }
}
