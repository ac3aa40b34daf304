//! Workload affinity and anti-affinity (gate WorkloadAffinity): the bindings in a group with another, and their
//! clusters. Only namespaced bindings have groups, and a group ends with its namespace.

use std::sync::Arc;

use apimachinery::Object;
use controller_runtime::{Cache, Event};
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::Peers;

const TOGETHER: &str = "workload-affinity-group";
const APART: &str = "workload-anti-affinity-group";

/// The groups of a binding as index values.
fn groups(binding: &Binding) -> [Option<String>; 2] {
    let groups = binding.spec.workload_affinity_groups.as_ref();
    let named = |group: &String| (!group.is_empty()).then(|| format!("{}/{group}", binding.metadata.namespace));
    [groups.and_then(|it| named(&it.affinity_group)), groups.and_then(|it| named(&it.anti_affinity_group))]
}

pub(crate) fn is_grouped(binding: &Binding) -> bool {
    groups(binding).iter().any(Option::is_some)
}

/// Indexes bindings by group. Decodes every changed binding, so it is skipped if the gate is off.
pub(crate) fn index(bindings: &Cache) {
    for (place, name) in [TOGETHER, APART].into_iter().enumerate() {
        bindings.add_index(name, move |object| {
            let groups = Binding::decode(object).map(|binding| groups(&binding)).unwrap_or_default();
            groups.into_iter().nth(place).flatten().into_iter().collect()
        });
    }
}

/// Those whose chances may be better after a change of a binding of their group.
pub(crate) fn affected(bindings: &Cache, event: &Event) -> Vec<BindingKey> {
    let old = match event {
        Event::Updated { old, .. } if event.changes_generation() => Some(old),
        Event::Updated { .. } => return Vec::new(),
        _ => None,
    };
    let states = [Some(event.object()), old].into_iter().flatten();
    let named = states.filter_map(|object| Some(groups(&Binding::decode(object).ok()?)));
    let members = named.flat_map(|groups| [TOGETHER, APART].into_iter().zip(groups)).flat_map(|(index, group)| {
        let found = group.map(|group| bindings.by_index(index, &group)).unwrap_or_default();
        found.into_iter().map(|object| BindingKey::of(&object))
    });
    let own = BindingKey::of(event.object());
    let mut keys: Vec<BindingKey> = members.filter(|key| *key != own).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The results of a binding's groups.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    together: Vec<Vec<TargetCluster>>,
    apart: Vec<Vec<TargetCluster>>,
}

impl Neighbours {
    /// `newest` returns the last written object if the cache is behind.
    pub fn of(binding: &Binding, bindings: &Cache, newest: impl Fn(&BindingKey) -> Option<Arc<Object>>) -> Self {
        let own = binding.key();
        let results = |index: &str, group: Option<String>| -> Vec<Vec<TargetCluster>> {
            let members = group.map(|group| bindings.by_index(index, &group)).unwrap_or_default();
            let others = members.iter().map(|object| BindingKey::of(object)).filter(|key| *key != own);
            others.filter_map(|key| Some(Binding::decode(&*newest(&key)?).ok()?.spec.clusters)).collect()
        };
        let [together, apart] = groups(binding);
        Self { together: results(TOGETHER, together), apart: results(APART, apart) }
    }

    pub fn peers(&self) -> Peers<'_> {
        Peers { together: slices(&self.together), apart: slices(&self.apart) }
    }
}

fn slices(results: &[Vec<TargetCluster>]) -> Vec<&[TargetCluster]> {
    results.iter().map(Vec::as_slice).collect()
}
