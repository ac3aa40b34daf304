//! Works whose deletion their binding waits for.

use std::collections::HashSet;

use apimachinery::Object;
use karmada_api::identity::{BindingKey, WorkKey};
use karmada_api::policy::v1alpha1::PurgeMode;
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;

use crate::{Context, templates};

/// Works that were to be written while they were being deleted.
#[derive(Default)]
pub(crate) struct Awaited(Mutex<HashSet<WorkKey>>);

impl Awaited {
    /// Before the Work is read again to be written: its end is not missed.
    pub(crate) fn note(&self, key: WorkKey) {
        self.0.lock().insert(key);
    }

    fn ended(&self, key: &WorkKey) -> bool {
        self.0.lock().remove(key)
    }
}

/// The binding that is rendered when this Work is gone: it was to be written, or its copy is purged with mode `Directly`
/// and the binding dispatches nothing until then. Upstream retries and polls. Another deleted Work that its binding
/// requires is not rendered again by this, as upstream: `unregister` deletes Works before their cluster.
pub(crate) fn binding_of(context: &Context, work: &Object) -> Option<BindingKey> {
    let at = WorkKey::of(work)?;
    let is_awaited = context.awaited_works.ended(&at);
    Scope::ALL.into_iter().find_map(|scope| {
        let id = work.label(scope.binding_id_label())?;
        let key = templates::binding_of(work, scope)?;
        let object = context.bindings(scope).cache().get(&key)?;
        if object.is_deleting() || object.label(scope.binding_id_label()) != Some(id) {
            return None;
        }
        let tasks = Binding::decode(&object).ok()?.spec.graceful_eviction_tasks;
        let mut purged = tasks.iter().filter(|task| task.purge_mode == Some(PurgeMode::Directly));
        (is_awaited || purged.any(|task| task.from_cluster == at.cluster())).then_some(key)
    })
}
