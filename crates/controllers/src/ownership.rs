//! The Works of a binding: those with its permanent id, except those of another binding with the same id. A binding that
//! was copied by hand has the id of its original.

use std::sync::Arc;

use apimachinery::Object;
use karmada_api::ApiType;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use propagation::works::Rendered;

use crate::unrendered::Failures;
use crate::{Context, templates};

/// The index of bindings by their permanent id.
pub(crate) const BY_ID: &str = "permanent-id";

/// The Works of a binding in the cache.
pub(crate) fn works_of(context: &Context, binding: &Binding) -> Vec<Arc<Object>> {
    let id = binding.permanent_id();
    if id.is_empty() {
        return Vec::new();
    }
    let mut works = context.works.cache().by_index(binding.scope.binding_id_label(), id);
    works.retain(|work| other_owner(context, binding, work).is_none());
    works
}

/// Those among them, and newer ones that this process wrote.
pub(crate) fn newest_works_of(context: &Context, binding: &Binding) -> Vec<Arc<Object>> {
    let (label, id) = (binding.scope.binding_id_label(), binding.permanent_id());
    let is_own = |work: &Object| work.label(label) == Some(id) && other_owner(context, binding, work).is_none();
    context.written_works.over(works_of(context, binding), is_own)
}

/// The other binding that a Work belongs to: the one that the Work names, if it exists and has the id in the Work.
fn other_owner(context: &Context, binding: &Binding, work: &Object) -> Option<BindingKey> {
    let (own, id) = (binding.scope.binding_id_label(), binding.permanent_id());
    // Nearly always, so nothing else is read.
    if work.label(own) == Some(id) && context.bindings(binding.scope).cache().count(BY_ID, id) < 2 {
        return None;
    }
    Scope::ALL.into_iter().find_map(|scope| {
        let label = scope.binding_id_label();
        let id = work.label(label)?;
        let key = templates::binding_of(work, scope).filter(|key| *key != binding.key())?;
        let other = context.bindings(scope).cache().get(&key).filter(|other| !other.is_deleting())?;
        (other.label(label) == Some(id)).then_some(key)
    })
}

/// The rendered Work, unless another binding has one of this name.
///
/// # Errors
/// The other binding, and what to change; `failures` gets it as well.
pub(crate) fn own(
    context: &Context,
    binding: &Binding,
    rendered: Rendered,
    failures: &mut Failures,
) -> Result<Rendered, String> {
    let existing = context.written_works.get(&rendered.work.key()).filter(|existing| !existing.is_deleting());
    let Some(other) = existing.and_then(|existing| other_owner(context, binding, &existing)) else {
        return Ok(rendered);
    };
    let error = refusal(context, binding, &rendered.work, &rendered.cluster, &other);
    failures.insert(rendered.cluster, error.clone());
    Err(error)
}

fn refusal(context: &Context, binding: &Binding, work: &Work, cluster: &str, other: &BindingKey) -> String {
    let owner = format!("{} {other}", Binding::kind(other.scope()));
    let template = |object: &Arc<Object>| templates::reference_in(object);
    let theirs = context.bindings(other.scope()).cache().get(other).as_ref().and_then(template);
    let (ours, work) = (&binding.spec.resource, work.key());
    let is_same =
        |it: &ObjectReference| (&it.kind, &it.namespace, &it.name) == (&ours.kind, &ours.namespace, &ours.name);
    match theirs.as_ref().is_some_and(is_same) {
        true => format!(
            "{owner} propagates the same template: work {work} belongs to it, and stays as it is; delete one of the two \
             bindings"
        ),
        false => format!(
            "the copy in cluster {cluster} has the name of another one: work {work} belongs to {owner}; change the name in \
             one of the override policies"
        ),
    }
}
