//! Works whose deletion concerns their binding: it requires them, or waits until they are gone.

use apimachinery::Object;
use karmada_api::identity::{BindingKey, WorkKey};
use karmada_api::scope::{Binding, Scope};
use propagation::works;

use crate::Context;

/// The binding to render after the deletion of a Work. Upstream recreates a Work only when its binding changes.
pub(crate) fn binding_of(context: &Context, work: &Object) -> Option<BindingKey> {
    let at = WorkKey::of(work)?;
    Scope::ALL.into_iter().find_map(|scope| {
        let id = work.label(scope.binding_id_label())?;
        let name = work.annotation(scope.binding_name_annotation())?;
        let namespace = scope.binding_namespace_annotation().and_then(|key| work.annotation(key));
        let key = BindingKey::namespaced(namespace.unwrap_or_default(), name);
        let object = context.bindings(scope).cache().get(&key)?;
        if object.is_deleting() || object.label(scope.binding_id_label()) != Some(id) {
            return None;
        }
        let spec = Binding::decode(&object).ok()?.spec;
        let is_target = works::targets(&spec).iter().any(|target| target.name == at.cluster());
        let is_leaving = spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == at.cluster());
        (is_target || is_leaving).then_some(key)
    })
}
