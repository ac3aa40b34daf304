//! The API servers on one store. Each has a key there under a lease, with its address, and a Lease in `kube-system`, as
//! kube-apiserver has. The endpoints of the Service `default/kubernetes` are the addresses of all servers.
//!
//! The first server after a time without one records that the store was opened, because it may have been replaced by an
//! older copy. A further server must not, because the controllers beside the first one are already writing to members.
//! A key alone proves nothing, because it may be part of the copy; a server is alive if it has written its key since
//! this one started.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
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
        let has_company = place.has_company(began).await?;
        if let Err(refusal) = place.agreement.join(&*place.store, has_company).await {
            // Another one may start at once.
            let _ = place.store.revoke_lease(lock).await;
            return Err(refusal);
        }
        if !has_company {
            first.await?;
        }
        let begun = Instant::now();
        let lease = place.store.grant_lease(TTL).await?;
        place.write_record(lease).await?;
        place.placed.extend(begun + Duration::from_secs(TTL));
        place.store.revoke_lease(lock).await.context("releasing the lock of starting servers")?;
        Ok(Entered { place, lease, others })
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
    async fn lock(&self) -> anyhow::Result<LeaseId> {
        let lease = self.store.grant_lease(TTL).await?;
        loop {
            let op = Op::Put { key: LOCK.into(), value: self.identity.clone().into(), lease: Some(lease) };
            let txn = Txn { guards: vec![Guard::Absent(LOCK.into())], ops: vec![op] };
            if let TxnOutcome::Committed { .. } = self.store.txn(txn).await? {
                return Ok(lease);
            }
            tokio::time::sleep(RETRY).await;
            self.store.keep_alive(lease).await?;
        }
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

    async fn write_record(&self, lease: LeaseId) -> storage::Result<()> {
        let value = json!({"address": self.front.address, "port": self.front.port}).to_string().into();
        let op = Op::Put { key: format!("{ROOT}{}", self.identity).into(), value, lease: Some(lease) };
        self.store.txn(Txn { guards: Vec::new(), ops: vec![op] }).await.map(drop)
    }

    /// The records of the other servers. A record of an earlier life of this one is not another server's.
    async fn others(&self) -> anyhow::Result<Vec<KeyValue>> {
        let range = RangeRequest { range: KeyRange::prefix(ROOT), revision: None, limit: 0 };
        let own = format!("{ROOT}{}_", self.name);
        let mut found = self.store.range(range).await?.items;
        found.retain(|item| !item.key.starts_with(own.as_bytes()));
        Ok(found)
    }

    /// Keeps the place of this server. False if other servers keep Leases elsewhere: they started while this one had no
    /// place. Then no Lease is written here, and the components that were elected here lose theirs.
    async fn stay(&self, lease: &mut LeaseId) -> anyhow::Result<bool> {
        let mut begun = Instant::now();
        let lock = match self.store.keep_alive(*lease).await {
            Ok(()) => None,
            Err(storage::Error::LeaseNotFound(_)) => {
                // As at a start: a server that starts meanwhile finds this one, or this one finds its record.
                let lock = self.lock().await?;
                begun = Instant::now();
                *lease = self.store.grant_lease(TTL).await?;
                Some(lock)
            }
            // The record may be about to end.
            Err(error) => return Err(error.into()),
        };
        self.write_record(*lease).await?;
        let agreed = self.agreement.agrees(&*self.store).await?;
        match agreed {
            true => self.placed.extend(begun + Duration::from_secs(TTL)),
            false => self.placed.close(),
        }
        if let Some(lock) = lock {
            self.store.revoke_lease(lock).await.context("releasing the lock of starting servers")?;
        }
        Ok(agreed)
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
}
