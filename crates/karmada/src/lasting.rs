//! Deletions that can only be mistakes, and that the members would follow: those of Karmada's own definitions, of the
//! execution namespace of a joined cluster, and of a namespace with credentials of clusters.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Status;
use apiserver::cache::Event;
use apiserver::{Admission, AdmissionRequest, Operation};
use futures::future::BoxFuture;
use karmada_api::crd_names;
use karmada_api::names::cluster_of_namespace;
use parking_lot::Mutex;
use serde::Deserialize;

const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");
const NAMESPACES: (&str, &str) = ("", "namespaces");
const CLUSTERS: &str = "cluster.karmada.io/clusters";
/// Groups that other projects define too; their definitions may be replaced.
const OWN: &str = ".karmada.io";
/// At most this many clusters are named in a refusal.
const NAMED: usize = 3;

/// What a stored Cluster keeps from being deleted.
struct Known {
    is_leaving: bool,
    /// The namespaces of its Secrets.
    credentials: BTreeSet<String>,
}

pub struct Lasting {
    definitions: BTreeSet<String>,
    clusters: Mutex<BTreeMap<String, Known>>,
}

impl Default for Lasting {
    fn default() -> Self {
        Self { definitions: crd_names().filter(|name| name.ends_with(OWN)).collect(), clusters: Mutex::default() }
    }
}

impl Lasting {
    /// Why a namespace must stay, if it must.
    fn holds(&self, namespace: &str) -> Option<String> {
        let clusters = self.clusters.lock();
        let joined = |name: &&str| clusters.get(*name).is_some_and(|known| !known.is_leaving);
        if let Some(name) = cluster_of_namespace(namespace).filter(joined) {
            return Some(format!(
                "it holds the Works of cluster {name}, and their deletion deletes its workloads; first run: karmadactl unjoin {name}"
            ));
        }
        let users: Vec<&str> = clusters
            .iter()
            .filter(|(_, known)| known.credentials.contains(namespace))
            .map(|(name, _)| name.as_str())
            .collect();
        let more = if users.len() > NAMED { ", ..." } else { "" };
        let named = users.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        (!users.is_empty())
            .then(|| format!("it holds credentials of joined clusters ({named}{more}); first unjoin them"))
    }
}

impl Admission for Lasting {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        [DEFINITIONS, NAMESPACES].contains(&(group, plural))
    }

    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    fn concerns_metadata(&self, _: &str, _: &str, _: &[&str]) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        if place != CLUSTERS {
            return;
        }
        match (&event.current, &event.previous) {
            (Some(object), _) => {
                let refs = object.decode::<Stored>().unwrap_or_default().spec;
                let credentials = [refs.secret_ref, refs.impersonator_secret_ref].into_iter().flatten();
                let credentials = credentials.map(|it| it.namespace).collect();
                let known = Known { is_leaving: object.is_deleting(), credentials };
                self.clusters.lock().insert(object.name().to_owned(), known);
            }
            (None, Some(object)) => {
                self.clusters.lock().remove(object.name());
            }
            (None, None) => {}
        }
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let name = request.key.name();
        let is_deleted = |(group, plural)| request.operation == Operation::Delete && request.is_for(group, plural);
        let outcome = match () {
            () if is_deleted(DEFINITIONS) && self.definitions.contains(name) => {
                let why = "the control plane needs this definition, and its deletion deletes all objects of the kind";
                Err(Status::forbidden(DEFINITIONS.0, DEFINITIONS.1, name, why))
            }
            () if is_deleted(NAMESPACES) => match self.holds(name) {
                Some(why) => Err(Status::forbidden(NAMESPACES.0, NAMESPACES.1, name, &why)),
                None => Ok(()),
            },
            () => Ok(()),
        };
        Box::pin(std::future::ready(outcome))
    }
}

/// The part of a stored Cluster that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    secret_ref: Option<Reference>,
    impersonator_secret_ref: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    namespace: String,
}
