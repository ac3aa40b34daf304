//! Definitions that the control plane brings itself, written at start in as few transactions as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiextensions::definition::default_definition;
use apiextensions::naming::Claim;
use apiextensions::{CustomResourceDefinition, definition_validation, naming};
use apimachinery::{ApiResource, Object, ObjectKey};
use serde_json::{Value, json};
use storage::{Guard, Op, Txn, TxnOutcome};

use super::{Definitions, GROUP, InstallError, PLURAL};
use crate::cache::keys;

/// Bytes of definitions in one transaction: a third of the 1.5 MiB that every engine takes, etcd included.
const BATCH: usize = 512 * 1024;

/// Retries after concurrent writes of the same definitions.
const TRIES: usize = 5;

/// A validated definition to write, and its inputs.
struct Proposed {
    tree: Value,
    typed: CustomResourceDefinition,
    stored: Option<Arc<Object>>,
}

/// One definition to write, guarded by its inputs.
struct Write {
    guard: Guard,
    key: bytes::Bytes,
    value: bytes::Bytes,
}

impl Definitions {
    /// Creates missing definitions and updates changed ones; others are not changed. Written definitions are
    /// established at once, so that a start costs one or two durable writes instead of two for each definition.
    pub(super) async fn install(&self, crds: Vec<Value>) -> Result<(), InstallError> {
        if crds.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let writes = self.plan(&crds)?;
            if writes.is_empty() {
                return Ok(());
            }
            if let Some(revision) = self.write_all(writes).await? {
                self.server.cache.reach(revision).await;
                return Ok(());
            }
            self.server.cache.catch_up().await.map_err(InstallError::Cache)?;
        }
        Err(InstallError::Contended)
    }

    fn plan(&self, crds: &[Value]) -> Result<Vec<Write>, InstallError> {
        let mut settled: Vec<Claim> = self.all().iter().filter_map(|object| Claim::read(&object.json()).ok()).collect();
        let mut writes = Vec::new();
        for Proposed { mut tree, mut typed, stored } in self.proposed(crds)? {
            typed.status = naming::desired_status(&typed, &settled, self.now());
            settled.retain(|other| other.definition() != typed.metadata.name);
            settled.push(Claim::from(&typed));
            let name = &typed.metadata.name;
            let encode = |source| InstallError::Encode { name: name.clone(), source };
            tree["status"] = serde_json::to_value(&typed.status).map_err(encode)?;
            let resource = ApiResource::cluster(GROUP, "v1", "CustomResourceDefinition", PLURAL);
            let key = keys::object_key(&resource, &ObjectKey::cluster(name.as_str()));
            let guard = match &stored {
                Some(object) => Guard::ModRevision(key.clone(), object.revision()),
                None => Guard::Absent(key.clone()),
            };
            let value = keys::encode(&tree).map_err(encode)?;
            writes.push(Write { guard, key, value });
        }
        Ok(writes)
    }

    /// The definitions that differ from the stored ones, in their order. Requests are served only after validation,
    /// which is half of a first start's work, so it runs on all processors.
    fn proposed(&self, crds: &[Value]) -> Result<Vec<Proposed>, InstallError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        // Randomness is drawn in their order, so that a history repeats.
        let crds: Vec<(&Value, String)> = crds.iter().map(|crd| (crd, self.uid_for(crd))).collect();
        let propose_all = || {
            let mut proposed = Vec::new();
            // They differ in length by far.
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((crd, uid)) = crds.get(at) else { return proposed };
                proposed.push((at, self.propose(crd, uid)));
            }
        };
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(propose_all)).collect();
            let mut all = propose_all();
            for other in others {
                all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().filter_map(|(_, proposed)| proposed.transpose()).collect()
    }

    /// Empty for a definition that is stored.
    fn uid_for(&self, crd: &Value) -> String {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        if matches!(self.stored(name), Ok(Some(_))) { String::new() } else { self.server.world.uuid() }
    }

    /// `None` when the stored definition has this spec already.
    fn propose(&self, crd: &Value, uid: &str) -> Result<Option<Proposed>, InstallError> {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut tree = crd.clone();
        default_definition(&mut tree);
        let stored = self.stored(&name).map_err(InstallError::Cache)?;
        let old = match &stored {
            Some(object) => {
                let mut old =
                    object.to_value().map_err(|source| InstallError::Encode { name: name.clone(), source })?;
                default_definition(&mut old);
                if old["spec"] == tree["spec"] || object.is_deleting() {
                    return Ok(None);
                }
                Some(old)
            }
            None => None,
        };
        self.merge_metadata(&mut tree, old.as_ref(), uid);
        let invalid = |why: String| InstallError::Invalid { name: name.clone(), why };
        let typed = CustomResourceDefinition::from_value(&tree).map_err(|error| invalid(error.to_string()))?;
        let wrong = definition_validation::validate(&typed);
        if !wrong.is_empty() {
            return Err(invalid(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")));
        }
        Ok(Some(Proposed { tree, typed, stored }))
    }

    /// Sets the server's metadata, and keeps others' additions to an existing definition.
    fn merge_metadata(&self, tree: &mut Value, old: Option<&Value>, uid: &str) {
        let source_metadata = tree["metadata"].take();
        let mut metadata = match old {
            Some(old) => {
                tree["status"] = old["status"].clone();
                let mut metadata = old["metadata"].clone();
                metadata["generation"] = (metadata["generation"].as_i64().unwrap_or(0) + 1).into();
                metadata
            }
            None => json!({
                "name": source_metadata["name"], "uid": uid, "generation": 1,
                "creationTimestamp": self.now().to_string(),
            }),
        };
        for field in ["labels", "annotations"] {
            for (key, value) in source_metadata[field].as_object().into_iter().flatten() {
                metadata[field][key] = value.clone();
            }
        }
        tree["metadata"] = metadata;
        tree["apiVersion"] = format!("{GROUP}/v1").into();
        tree["kind"] = "CustomResourceDefinition".into();
    }

    /// The revision of the last transaction, `None` when a guard failed.
    async fn write_all(&self, writes: Vec<Write>) -> Result<Option<u64>, InstallError> {
        let mut revision = None;
        let mut txn = Txn::default();
        let mut size = 0;
        for write in writes {
            if size + write.value.len() > BATCH && !txn.ops.is_empty() {
                let Some(committed) = self.commit(std::mem::take(&mut txn)).await? else { return Ok(None) };
                revision = Some(committed);
                size = 0;
            }
            size += write.value.len();
            txn.guards.push(write.guard);
            txn.ops.push(Op::Put { key: write.key, value: write.value, lease: None });
        }
        if txn.ops.is_empty() { Ok(revision) } else { self.commit(txn).await }
    }

    async fn commit(&self, txn: Txn) -> Result<Option<u64>, InstallError> {
        Ok(match self.server.cache.store().txn(txn).await? {
            TxnOutcome::Committed { revision } => Some(revision),
            TxnOutcome::Failed { .. } => None,
        })
    }
}
