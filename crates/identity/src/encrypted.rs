//! A store with encrypted values: the engine below stores ciphertext, callers see plaintext.

use std::sync::Arc;

use apiserver::cache::keys;
use arc_swap::ArcSwap;
use bytes::Bytes;
use encryption::{Configuration, Envelope, Kms, OpenError, Seed, Seeds};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use storage::{
    Change, Damage, Error, KeyRange, KeyValue, LeaseId, Op, RangeRequest, RangeResponse, Result, Revision, Store, Txn,
    TxnOutcome, WatchStream,
};
use tokio_util::sync::CancellationToken;

use crate::kms::{CHECK, RECHECK, Service, SystemRandom};

/// The providers of a server, replaceable while it serves.
pub struct Encryption(ArcSwap<Active>);

struct Active {
    configuration: Configuration,
    services: Vec<Arc<Service>>,
    /// Ends the checks of the services.
    stop: CancellationToken,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Seeds for Active {
    fn current(&self, kms: &str) -> Option<(Seed, Envelope)> {
        self.service(kms)?.current()
    }

    fn known(&self, kms: &str, envelope: &Envelope) -> Option<Seed> {
        self.service(kms)?.known(envelope)
    }

    fn is_current(&self, kms: &str, key_id: &str) -> bool {
        self.service(kms).is_some_and(|service| service.is_current(key_id))
    }
}

impl Active {
    fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.iter().find(|service| service.kms.name == name)
    }

    /// Fails if a service does not answer: values could be neither read nor written.
    async fn start(configuration: Configuration) -> std::result::Result<Self, String> {
        let services: Vec<_> = configuration.services().into_iter().map(|kms| Arc::new(Service::new(kms))).collect();
        for service in &services {
            let checked = service.check().await;
            checked.map_err(|why| format!("key management service {:?}: {why}", service.kms.name))?;
        }
        Ok(Self { configuration, services, stop: CancellationToken::new() })
    }
}

/// Receives whether all key management services are healthy.
pub type OnHealth = Arc<dyn Fn(bool) + Send + Sync>;

impl Encryption {
    /// Providers of a configuration. Each of its key management services must answer.
    ///
    /// # Errors
    /// The service that does not answer, and why.
    pub async fn start(configuration: Configuration) -> std::result::Result<Self, String> {
        Ok(Self(ArcSwap::from_pointee(Active::start(configuration).await?)))
    }

    /// Takes another configuration: for new values and reads from now on.
    ///
    /// # Errors
    /// As [`Self::start`]; the present configuration stays then.
    pub async fn replace(&self, configuration: Configuration, health: &OnHealth) -> std::result::Result<(), String> {
        self.0.store(Arc::new(Active::start(configuration).await?));
        self.watch_services(health);
        Ok(())
    }

    /// Checks the services at intervals, until the configuration is replaced, and reports whether they are well. The
    /// protocol gives no other notice of a rotation.
    pub fn watch_services(&self, health: &OnHealth) {
        health(true);
        let active = self.0.load_full();
        let (services, stop, health) = (active.services.clone(), active.stop.clone(), Arc::clone(health));
        if services.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let mut pause = CHECK;
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                let mut is_well = true;
                for service in &services {
                    if let Err(err) = service.check().await {
                        let kms = &service.kms.name;
                        tracing::warn!(
                            kms,
                            err,
                            "Key management service is not well; writes of its resources may fail"
                        );
                        is_well = false;
                    }
                }
                health(is_well);
                pause = if is_well { CHECK } else { RECHECK };
            }
        });
    }
}

/// The resource that a key belongs to.
fn resource_of(key: &[u8]) -> Option<(&str, &str)> {
    let (place, _) = keys::split(key)?;
    let (group, resource) = place.split_once('/')?;
    Some((if group == "core" { "" } else { group }, resource))
}

/// The key that a value is bound to, by the key of the store: the engine's key, if it differs. A value at another key
/// cannot be decrypted.
pub type Places = Arc<dyn Fn(&Bytes) -> Bytes + Send + Sync>;

/// A store that encrypts values before they reach the engine below.
pub struct EncryptedStore {
    below: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    places: Places,
}

impl EncryptedStore {
    /// For an engine that stores values at the store's keys.
    pub fn new(below: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        Self::at(below, encryption, Arc::new(Bytes::clone))
    }

    /// For an engine that stores values at other keys, such as etcd with kube-apiserver's keys.
    pub fn at(below: Arc<dyn Store>, encryption: Arc<Encryption>, places: Places) -> Self {
        Self { below, encryption, places }
    }

    async fn opened(&self, item: KeyValue) -> Result<KeyValue> {
        self.encryption.open(item, &self.places).await.map_err(|(damage, _)| Error::Damaged(damage))
    }

    /// Batches with decrypted values.
    fn readable(&self, batches: WatchStream) -> WatchStream {
        let (encryption, places) = (Arc::clone(&self.encryption), Arc::clone(&self.places));
        let readable = batches.then(move |batch| {
            let (encryption, places) = (Arc::clone(&encryption), Arc::clone(&places));
            async move {
                let mut batch = batch?;
                let mut changes = Vec::with_capacity(batch.changes.len());
                for (revision, change) in batch.changes {
                    changes.push((revision, readable(&encryption, &places, change).await));
                }
                batch.changes = changes;
                Ok(batch)
            }
        });
        Box::pin(readable)
    }

    fn sealed(&self, mut txn: Txn) -> Result<Txn> {
        for op in &mut txn.ops {
            let Op::Put { key, value, .. } = op else { continue };
            *value = self.encryption.seal(key, &(self.places)(key), value.clone())?;
        }
        Ok(txn)
    }

    async fn outcome(&self, outcome: TxnOutcome) -> Result<TxnOutcome> {
        let TxnOutcome::Failed { current, revision } = outcome else { return Ok(outcome) };
        let mut opened = Vec::with_capacity(current.len());
        for item in current {
            opened.push(match item {
                Some(item) => Some(self.opened(item).await?),
                None => None,
            });
        }
        Ok(TxnOutcome::Failed { current: opened, revision })
    }
}

impl Encryption {
    /// The value to store: encrypted for `place` if the resource of `key` is.
    ///
    /// # Errors
    /// Why it cannot be encrypted.
    pub fn seal(&self, key: &[u8], place: &[u8], value: Bytes) -> Result<Bytes> {
        let active = self.0.load_full();
        let providers = resource_of(key).and_then(|(group, resource)| active.configuration.providers(group, resource));
        let Some(providers) = providers.filter(|providers| !providers.writes_plaintext()) else { return Ok(value) };
        match providers.seal(&value, place, &SystemRandom, &*active) {
            Ok(sealed) => Ok(sealed.map_or(value, Bytes::from)),
            Err(error) => {
                let key = String::from_utf8_lossy(key);
                Err(Error::Failed(format!("the value of {key} cannot be encrypted: {error}").into()))
            }
        }
    }

    /// The item with its plaintext, or why it is unknown, with the stored item.
    async fn open(&self, item: KeyValue, places: &Places) -> std::result::Result<KeyValue, (Damage, KeyValue)> {
        let active = self.0.load_full();
        let providers =
            resource_of(&item.key).and_then(|(group, resource)| active.configuration.providers(group, resource));
        let Some(providers) = providers else { return Ok(item) };
        let place = places(&item.key);
        let mut opened = providers.open(&item.value, &place, &*active);
        if let Err(OpenError::NeedsSeed { kms, envelope }) = &opened {
            if let Err(why) = decrypt_seed(&active, kms, envelope).await {
                let why = format!("it cannot be decrypted: key management service {:?}: {why}", kms.name);
                let remedy = format!("check the service {:?}, then read again", kms.name);
                return Err((undecryptable(&item.key, why, remedy), item));
            }
            opened = providers.open(&item.value, &place, &*active);
        }
        match opened {
            Ok(opened) => Ok(KeyValue { value: opened.plaintext.map_or(item.value, Bytes::from), ..item }),
            Err(error) => {
                let damage = undecryptable(&item.key, format!("it cannot be decrypted: {error}"), error.remedy());
                Err((damage, item))
            }
        }
    }
}

async fn decrypt_seed(active: &Active, kms: &Kms, envelope: &Envelope) -> std::result::Result<(), String> {
    let service = active.service(&kms.name).ok_or("it is not configured")?;
    service.decrypt(envelope).await.map(drop)
}

fn undecryptable(key: &Bytes, why: String, remedy: String) -> Damage {
    Damage { remedy: Some(remedy.into()), ..Damage::new(key.clone(), why) }
}

/// A change as the cache reads it. A value that cannot be decrypted stays encrypted: it is not an object, so the cache
/// reports it as unknown.
async fn readable(encryption: &Encryption, places: &Places, change: Change) -> Change {
    let open = async |item: KeyValue| match encryption.open(item, places).await {
        Ok(item) => item,
        Err((damage, item)) => {
            tracing::error!(%damage, "A change in the store cannot be read");
            item
        }
    };
    match change {
        Change::Put { current, previous } => {
            let previous = match previous {
                Some(previous) => Some(open(previous).await),
                None => None,
            };
            Change::Put { current: open(current).await, previous }
        }
        // The caller has the value.
        Change::Delete { previous } if previous.value.is_empty() => Change::Delete { previous },
        Change::Delete { previous } => Change::Delete { previous: open(previous).await },
    }
}

impl Store for EncryptedStore {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.below.revision()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        Box::pin(async move {
            match self.below.get(key, revision).await? {
                Some(item) => self.opened(item).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(async move {
            let mut response = self.below.range(request).await?;
            for item in &mut response.items {
                *item = self.opened(item.clone()).await?;
            }
            Ok(response)
        })
    }

    fn salvage(&self, request: RangeRequest) -> BoxFuture<'_, Result<(RangeResponse, Vec<Damage>)>> {
        Box::pin(async move {
            let (response, mut damaged) = self.below.salvage(request).await?;
            let mut items = Vec::with_capacity(response.items.len());
            for item in response.items {
                match self.encryption.open(item, &self.places).await {
                    Ok(item) => items.push(item),
                    Err((damage, _)) => damaged.push(damage),
                }
            }
            damaged.sort();
            Ok((RangeResponse { items, ..response }, damaged))
        })
    }

    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        self.below.shares(range, parts)
    }

    fn written_revision(&self) -> Option<Revision> {
        self.below.written_revision()
    }

    fn shares_revisions(&self) -> bool {
        self.below.shares_revisions()
    }

    fn is_shared(&self) -> bool {
        self.below.is_shared()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        Box::pin(async move {
            let outcome = self.below.txn(self.sealed(txn)?).await?;
            self.outcome(outcome).await
        })
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        Box::pin(async move {
            let mut sealed = Vec::with_capacity(txns.len());
            for txn in txns {
                sealed.push(self.sealed(txn)?);
            }
            let mut outcomes = Vec::new();
            for outcome in self.below.txn_all(sealed).await? {
                outcomes.push(self.outcome(outcome).await?);
            }
            Ok(outcomes)
        })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move { Ok(self.readable(self.below.watch(range, after).await?)) })
    }

    fn follow(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move { Ok(self.readable(self.below.follow(range, after).await?)) })
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        self.below.request_progress()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.below.compact(revision)
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.below.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.below.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.below.revoke_lease(lease)
    }

    fn is_stale(&self, key: Bytes) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let active = self.encryption.0.load_full();
            let providers =
                resource_of(&key).and_then(|(group, resource)| active.configuration.providers(group, resource));
            let Some(providers) = providers else { return false };
            // A value that cannot be read now is no reason to write.
            let Ok(Some(stored)) = self.below.get(key.clone(), None).await else { return false };
            !providers.is_current(&stored.value, &*active)
        })
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        self.below.verify()
    }
}
