//! The EndpointSlices of members, followed only in the namespaces where a mechanism requires them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use controller_runtime::{Event, Informer, Selection};
use karmada_api::constants::labels;
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;

use super::slices;
use crate::members::Member;

/// The followed namespaces, by cluster.
#[derive(Clone, Default)]
pub(super) struct Followed(Arc<Mutex<BTreeMap<(ClusterName, String), Namespace>>>);

struct Namespace {
    member: Arc<Member>,
    informer: Informer,
    selection: Selection,
    services: BTreeSet<String>,
}

impl Namespace {
    fn stop(&self) {
        self.member.informers.stop_selected(&slices(), &self.selection);
    }
}

impl Followed {
    /// The slices of a Service's namespace in a member; `note` is called with the names of Services whose slices
    /// changed.
    pub(super) fn start(
        &self,
        member: &Arc<Member>,
        service: &ObjectKey,
        selector: &str,
        note: impl Fn(&str) + Clone + Send + Sync + 'static,
    ) -> Informer {
        let namespace = service.namespace().unwrap_or_default().to_owned();
        let mut followed = self.0.lock();
        let place = (member.name.clone(), namespace.clone());
        // After a reconnection, informers of the former connection receive no events.
        let known = followed.get_mut(&place).filter(|known| Arc::ptr_eq(&known.member, member));
        if let Some(known) = known {
            known.services.insert(service.name().to_owned());
            return known.informer.clone();
        }
        let selection =
            Selection { namespace: Some(namespace), label_selector: Some(selector.to_owned()), ..Selection::default() };
        let informer = member.informers.selected(&slices(), selection.clone());
        informer.cache().add_label_index(labels::KUBERNETES_SERVICE_NAME);
        let noting = note.clone();
        informer.subscribe(move |event| {
            let old = match event {
                Event::Updated { old, .. } => Some(old),
                Event::Added { .. } | Event::Deleted(_) => None,
            };
            let mut names: Vec<&str> =
                old.into_iter().chain([event.object()]).filter_map(|it| service_of(it)).collect();
            names.dedup();
            names.into_iter().for_each(&noting);
        });
        let former = followed.remove(&place);
        let mut services = former.map(|former| former.services).unwrap_or_default();
        services.insert(service.name().to_owned());
        let known = Namespace { member: member.clone(), informer: informer.clone(), selection, services };
        followed.insert(place.clone(), known);
        drop(followed);
        // Services without slices have no events: their pass runs when their absence is known.
        let (first, all, member) = (informer.clone(), self.clone(), member.clone());
        tokio::spawn(async move {
            if first.synced().await {
                let services = all
                    .0
                    .lock()
                    .get(&place)
                    .filter(|it| Arc::ptr_eq(&it.member, &member))
                    .map(|it| it.services.clone());
                services.iter().flatten().for_each(|service| note(service));
            }
        });
        informer
    }

    /// A Service is required no longer.
    pub(super) fn end(&self, cluster: &ClusterName, service: &ObjectKey) {
        let place = (cluster.clone(), service.namespace().unwrap_or_default().to_owned());
        let mut followed = self.0.lock();
        let Some(namespace) = followed.get_mut(&place) else { return };
        namespace.services.remove(service.name());
        if namespace.services.is_empty()
            && let Some(ended) = followed.remove(&place)
        {
            ended.stop();
        }
    }

    /// Ends everything of a cluster that is not this process's any more.
    pub(super) fn end_cluster(&self, cluster: &str) {
        self.0.lock().retain(|(name, _), namespace| {
            let stays = *name != *cluster;
            if !stays {
                namespace.stop();
            }
            stays
        });
    }
}

fn service_of(slice: &Object) -> Option<&str> {
    slice.label(labels::KUBERNETES_SERVICE_NAME)
}
