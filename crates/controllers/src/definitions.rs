//! CustomResourceDefinitions in members: a member's API enablements are read again as soon as one of ours is
//! established there, not at the next regular status collection.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::Object;
use controller_runtime::{Event, WorkQueue};
use karmada_api::cluster::v1alpha1::ApiEnablement;
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use serde::Deserialize;

/// A server publishes new kinds with a delay after a definition is established: the first check may be too early. Later
/// ones follow after doubling pauses.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A group and version, and a kind.
type Served = (String, String);

#[derive(Default)]
pub(crate) struct Definitions {
    /// The clusters to check, if this process does that.
    looking: OnceLock<Arc<WorkQueue<ClusterName>>>,
    /// Kinds that are established and not known to be served, by cluster.
    awaited: Mutex<HashMap<ClusterName, Awaited>>,
}

#[derive(Default)]
struct Awaited {
    kinds: BTreeSet<Served>,
    /// Checks that did not find all of them.
    looks: u32,
}

impl Definitions {
    pub(crate) fn recheck_with(&self, queue: Arc<WorkQueue<ClusterName>>) {
        // There is one such controller in the process.
        let _ = self.looking.set(queue);
    }

    /// Records a definition in a member; `known` are the member's known API enablements.
    pub(crate) fn note(&self, cluster: &ClusterName, event: &Event, known: &[ApiEnablement]) {
        let Some(queue) = self.looking.get() else { return };
        if let Event::Deleted(_) = event {
            return queue.add(cluster.clone());
        }
        let missing: Vec<Served> = established(event.object()).into_iter().filter(|it| !is_in(it, known)).collect();
        if missing.is_empty() {
            return;
        }
        let mut awaited = self.awaited.lock();
        let awaited = awaited.entry(cluster.clone()).or_default();
        let before = awaited.kinds.len();
        awaited.kinds.extend(missing);
        if awaited.kinds.len() > before {
            awaited.looks = 0;
            queue.add(cluster.clone());
        }
    }

    /// When to probe a member again that served `found`; `None` if no definition is expected there, or has been
    /// expected for longer than `regular`.
    pub(crate) fn again(&self, cluster: &str, found: &[ApiEnablement], regular: Duration) -> Option<Duration> {
        let mut all = self.awaited.lock();
        let awaited = all.get_mut(cluster)?;
        awaited.kinds.retain(|kind| !is_in(kind, found));
        let pause = FIRST_PAUSE.saturating_mul(1 << awaited.looks.min(16));
        awaited.looks += 1;
        let is_over = awaited.kinds.is_empty() || pause >= regular;
        if is_over {
            all.remove(cluster);
        }
        (!is_over).then_some(pause)
    }

    pub(crate) fn forget(&self, cluster: &str) {
        self.awaited.lock().remove(cluster);
    }
}

fn is_in((version, kind): &Served, served: &[ApiEnablement]) -> bool {
    let mut groups = served.iter().filter(|it| it.group_version == *version);
    groups.any(|group| group.resources.iter().any(|resource| resource.kind == *kind))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<apimachinery::meta::Condition>,
}

/// The kinds that an established definition serves.
fn established(object: &Object) -> Vec<Served> {
    let Ok(Definition { spec, status }) = object.decode::<Definition>() else { return Vec::new() };
    if !status.conditions.iter().any(|it| it.type_ == "Established" && it.status == "True") {
        return Vec::new();
    }
    let served = spec.versions.iter().filter(|version| version.served);
    served.map(|version| (format!("{}/{}", spec.group, version.name), spec.names.kind.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(established: &str) -> Event {
        let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.g"},
            "spec": {"group": "g", "names": {"kind": "A"}, "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]},
            "status": {"conditions": [{"type": "Established", "status": established}]}});
        let object = Arc::new(Object::parse(object.to_string()).unwrap());
        Event::Added { object, initial: false }
    }

    fn serving(version: &str) -> Vec<ApiEnablement> {
        serde_json::from_value(json!([{"groupVersion": version, "resources": [{"kind": "A", "name": "as"}]}])).unwrap()
    }

    #[test]
    fn a_member_is_probed_when_a_definition_is_expected_there() {
        for (established, known, looks) in
            [("False", "g/v0", 0), ("True", "g/v1", 0), ("True", "g/v0", 1), ("True", "other/v1", 1)]
        {
            let definitions = Definitions::default();
            let queue = Arc::new(WorkQueue::new());
            definitions.recheck_with(queue.clone());
            definitions.note(&ClusterName::from("m1"), &definition(established), &serving(known));
            definitions.note(&ClusterName::from("m1"), &definition(established), &serving(known));
            assert_eq!(queue.metrics().adds, looks, "{established} {known}");
        }
    }

    #[test]
    fn early_probes_are_repeated_with_growing_pauses() {
        let definitions = Definitions::default();
        definitions.recheck_with(Arc::new(WorkQueue::new()));
        let regular = Duration::from_secs(10);
        assert_eq!(definitions.again("m1", &[], regular), None);
        definitions.note(&ClusterName::from("m1"), &definition("True"), &[]);
        let pauses: Vec<u128> =
            std::iter::from_fn(|| definitions.again("m1", &[], regular)).map(|it| it.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000]);
        definitions.note(&ClusterName::from("m1"), &definition("True"), &[]);
        assert_eq!(definitions.again("m1", &serving("g/v1"), regular), None);
    }
}
