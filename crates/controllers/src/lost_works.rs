//! Works whose deletion their binding waits for.

use apimachinery::Object;
use karmada_api::identity::{BindingKey, WorkKey};
use karmada_api::policy::v1alpha1::PurgeMode;
use karmada_api::scope::{Binding, Scope};

use crate::{Context, templates};

/// The binding that dispatches nothing until this Work is gone: its copy is purged with mode `Directly`. Upstream polls. A
/// deleted Work that its binding requires is not rendered again by this, as upstream: `unregister` deletes Works before
/// their cluster.
pub(crate) fn binding_of(context: &Context, work: &Object) -> Option<BindingKey> {
    let at = WorkKey::of(work)?;
    Scope::ALL.into_iter().find_map(|scope| {
        let id = work.label(scope.binding_id_label())?;
        let key = templates::binding_of(work, scope)?;
        let object = context.bindings(scope).cache().get(&key)?;
        if object.is_deleting() || object.label(scope.binding_id_label()) != Some(id) {
            return None;
        }
        let tasks = Binding::decode(&object).ok()?.spec.graceful_eviction_tasks;
        let mut purged = tasks.iter().filter(|task| task.purge_mode == Some(PurgeMode::Directly));
        purged.any(|task| task.from_cluster == at.cluster()).then_some(key)
    })
}
