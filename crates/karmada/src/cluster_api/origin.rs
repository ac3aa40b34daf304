//! The decision about one cluster of a management cluster: join, follow, unjoin, or leave it as it is.

use apimachinery::{Object, ObjectKey};
use serde::{Deserialize, Serialize};

/// The annotation of a Cluster that was joined for a cluster of a management cluster. Only such a Cluster is unjoined.
pub const MARK: &str = "karmada-rs.io/cluster-api";
/// `clusterctl move` sets it on the objects that it deletes in the source.
const MOVED: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// A `clusters.cluster.x-k8s.io` of the management cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub uid: String,
    pub is_provisioned: bool,
    pub is_deleting: bool,
    /// Its deletion does not delete the cluster: it is being moved to another management cluster.
    pub is_paused: bool,
}

impl Origin {
    pub fn of(object: &Object) -> Self {
        let tree = object.to_value().unwrap_or_default();
        Self {
            uid: object.uid().to_owned(),
            is_provisioned: tree["status"]["phase"] == "Provisioned",
            is_deleting: object.is_deleting(),
            is_paused: tree["spec"]["paused"] == true || object.annotation(MOVED).is_some(),
        }
    }
}

/// The content of [`MARK`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The UID of the namespace kube-system of the management cluster.
    pub management: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// A hash of the kubeconfig that the Cluster was registered with.
    pub kubeconfig: String,
    #[serde(default)]
    pub paused: bool,
}

impl Mark {
    pub fn of(cluster: &Object) -> Option<Self> {
        serde_json::from_str(&cluster.annotation(MARK)?).ok()
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), self.name.as_str())
    }
}

/// The Cluster of the same name in the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    Absent,
    /// Joined by a user, or for another origin.
    Foreign,
    /// Joined for an origin that was moved from another management cluster.
    Moved,
    Ours {
        mark: Mark,
        is_deleting: bool,
    },
}

impl Registered {
    pub fn of(cluster: Option<&Object>, management: &str, key: &ObjectKey) -> Self {
        let Some(cluster) = cluster else { return Self::Absent };
        match Mark::of(cluster) {
            Some(mark) if mark.management == management && mark.key() == *key => {
                Self::Ours { mark, is_deleting: cluster.is_deleting() }
            }
            Some(mark) if mark.paused && mark.name == key.name() && !cluster.is_deleting() => Self::Moved,
            _ => Self::Foreign,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    Join,
    /// Renew the registration, if the kubeconfig leads to the same cluster, and take over the Cluster.
    Adopt,
    /// Renew the registration, if the kubeconfig has changed, and write this mark.
    Follow {
        mark: Mark,
        renew: bool,
    },
    Unjoin,
    /// A report with its reason; nothing is changed.
    Report(&'static str, String),
}

/// `origin` is `None` only if the management cluster has answered that it does not exist. `kubeconfig` is the hash of
/// the kubeconfig, if there is one.
pub fn plan(origin: Option<&Origin>, registered: &Registered, kubeconfig: Option<&str>) -> Step {
    match (origin, registered) {
        (_, Registered::Ours { is_deleting: true, .. }) => Step::Nothing,
        (Some(origin), Registered::Ours { mark, .. }) if !origin.is_deleting && origin.uid == mark.uid => {
            let renew = kubeconfig.is_some_and(|it| it != mark.kubeconfig) && origin.is_provisioned;
            let mut followed = Mark { paused: origin.is_paused, ..mark.clone() };
            if let Some(kubeconfig) = kubeconfig.filter(|_| renew) {
                kubeconfig.clone_into(&mut followed.kubeconfig);
            }
            if followed == *mark { Step::Nothing } else { Step::Follow { mark: followed, renew } }
        }
        // Deleted, being deleted, or recreated.
        (origin, Registered::Ours { mark, .. }) => {
            let is_same = origin.is_some_and(|it| it.uid == mark.uid);
            if mark.paused || (is_same && origin.is_some_and(|it| it.is_paused)) {
                let why = "it was paused when it was deleted, as clusterctl move does; the Cluster stays. If the cluster no \
                           longer exists, run: karmadactl unjoin";
                return Step::Report("ClusterAPIMoved", format!("{why} {}", mark.name));
            }
            Step::Unjoin
        }
        (Some(origin), _) if origin.is_deleting || !origin.is_provisioned => Step::Nothing,
        (Some(_), Registered::Absent | Registered::Moved) => match (kubeconfig, registered) {
            (Some(_), Registered::Moved) => Step::Adopt,
            (Some(_), _) => Step::Join,
            (None, _) => {
                Step::Report("ClusterAPIKubeconfig", "its Secret with the kubeconfig does not exist yet".to_owned())
            }
        },
        (Some(_), Registered::Foreign) => {
            let why = "a Cluster of this name was joined by a user or for another cluster, and stays as it is; to have it \
                       managed by Cluster API, unjoin it, or give one of them another name";
            Step::Report("ClusterAPIConflict", why.to_owned())
        }
        (None, _) => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Option<Origin> {
        let has = |word: &str| text.split(' ').any(|it| it == word);
        let uid = if has("new") { "u2" } else { "u1" };
        (!text.is_empty()).then(|| Origin {
            uid: uid.to_owned(),
            is_provisioned: has("provisioned"),
            is_deleting: has("deleting"),
            is_paused: has("paused"),
        })
    }

    fn registered(text: &str) -> Registered {
        let has = |word: &str| text.split(' ').any(|it| it == word);
        let mark = Mark {
            management: "m".to_owned(),
            namespace: "ns".to_owned(),
            name: "c".to_owned(),
            uid: "u1".to_owned(),
            kubeconfig: "k1".to_owned(),
            paused: has("paused"),
        };
        match text {
            "" => Registered::Absent,
            "foreign" => Registered::Foreign,
            "moved" => Registered::Moved,
            _ => Registered::Ours { mark, is_deleting: has("deleting") },
        }
    }

    #[test]
    fn steps() {
        for (of_origin, of_cluster, kubeconfig, expected) in [
            ("provisioned", "", Some("k1"), "Join"),
            ("provisioned", "", None, "ClusterAPIKubeconfig"),
            ("provisioned deleting", "", Some("k1"), "Nothing"),
            ("pending", "", Some("k1"), "Nothing"),
            ("provisioned", "foreign", Some("k1"), "ClusterAPIConflict"),
            ("pending", "foreign", Some("k1"), "Nothing"),
            ("provisioned", "moved", Some("k1"), "Adopt"),
            ("provisioned", "moved", None, "ClusterAPIKubeconfig"),
            ("provisioned deleting", "moved", Some("k1"), "Nothing"),
            ("", "moved", None, "Nothing"),
            ("", "foreign", None, "Nothing"),
            ("", "", None, "Nothing"),
            ("provisioned", "ours", Some("k1"), "Nothing"),
            // The state of an existing cluster unjoins nothing, nor does a missing Secret.
            ("failed", "ours", Some("k2"), "Nothing"),
            ("provisioned", "ours", None, "Nothing"),
            ("provisioned", "ours", Some("k2"), "Follow k2 true false"),
            ("provisioned paused", "ours", Some("k1"), "Follow k1 false true"),
            ("provisioned", "ours paused", Some("k1"), "Follow k1 false false"),
            ("", "ours", None, "Unjoin"),
            ("provisioned deleting", "ours", Some("k1"), "Unjoin"),
            ("provisioned new", "ours", Some("k1"), "Unjoin"),
            ("", "ours deleting", None, "Nothing"),
            ("provisioned new", "ours deleting", Some("k1"), "Nothing"),
            // Moved to another management cluster.
            ("", "ours paused", None, "ClusterAPIMoved"),
            ("provisioned deleting paused", "ours", Some("k1"), "ClusterAPIMoved"),
        ] {
            let found = match plan(origin(of_origin).as_ref(), &registered(of_cluster), kubeconfig) {
                Step::Report(reason, _) => reason.to_owned(),
                Step::Follow { mark, renew } => format!("Follow {} {renew} {}", mark.kubeconfig, mark.paused),
                step => format!("{step:?}"),
            };
            assert_eq!(found, expected, "{of_origin:?} {of_cluster:?} {kubeconfig:?}");
        }
    }

    #[test]
    fn a_cluster_is_ours_by_its_mark_only() {
        let key = ObjectKey::namespaced("ns", "c");
        let ours = |management: &str, namespace: &str| {
            let mark = format!(
                "{{\"management\":\"{management}\",\"namespace\":\"{namespace}\",\"name\":\"c\",\"uid\":\"u\",\"kubeconfig\":\"k\"}}"
            );
            let tree = serde_json::json!({"metadata": {"name": "c", "annotations": {MARK: mark}}});
            matches!(Registered::of(Some(&Object::from_value(&tree).unwrap()), "m", &key), Registered::Ours { .. })
        };
        assert!(ours("m", "ns") && !ours("other", "ns") && !ours("m", "other") && !ours("\\u0000\",", "ns"));
    }
}
