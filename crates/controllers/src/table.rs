//! The table of controllers, and starting those that are selected.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use crate::Context;

/// The processes in which a controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    ControlPlane,
    /// For push members in the control plane, for pull members in the agent.
    Both,
    Agent,
}

/// One controller.
pub struct Controller {
    /// As in upstream's `--controllers`.
    pub name: &'static str,
    pub watches: &'static [&'static str],
    pub writes: &'static [&'static str],
    pub place: Place,
    /// Runs until the context's token is cancelled. All are called before any future is polled.
    pub start: fn(Context) -> BoxFuture<'static, ()>,
}

const BINDINGS: &str = "resourcebindings, clusterresourcebindings";

/// Every controller there is. A new one is a module and a row.
pub static CONTROLLERS: &[Controller] = &[
    Controller {
        // Always on upstream, which has no name for it in `--controllers`.
        name: "detector",
        watches: &["every propagatable resource", "propagationpolicies, clusterpropagationpolicies"],
        writes: &["claims on templates", BINDINGS],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::detector::run(context)),
    },
    Controller {
        name: "binding",
        watches: &[BINDINGS, "overridepolicies, clusteroverridepolicies"],
        writes: &["works"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::binding::run(context)),
    },
    Controller {
        name: "dependencies-distributor",
        watches: &["resourcebindings", "every kind that is a dependency"],
        writes: &["resourcebindings of dependencies"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::dependencies::run(context)),
    },
    Controller {
        name: "execution",
        watches: &["works", "clusters", "managed objects in members"],
        writes: &["objects in members", "works/status"],
        place: Place::Both,
        start: crate::execution::run_dispatch,
    },
    Controller {
        name: "workStatus",
        watches: &["works", "managed objects in members"],
        writes: &["works/status"],
        place: Place::Both,
        start: crate::execution::run_status,
    },
    Controller {
        name: "bindingStatus",
        watches: &["works", BINDINGS],
        writes: &["status of bindings and templates"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::binding_status::run(context)),
    },
    Controller {
        name: "namespace",
        watches: &["namespaces", "clusters", "clusteroverridepolicies"],
        writes: &["works"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::namespace::run(context)),
    },
    Controller {
        name: "cluster",
        watches: &["clusters"],
        writes: &["execution namespaces", "clusters"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::cluster::run(context)),
    },
    Controller {
        name: "clusterStatus",
        watches: &["clusters", "nodes and pods in members"],
        writes: &["clusters/status"],
        place: Place::Both,
        start: |context| Box::pin(crate::cluster_status::run(context)),
    },
    Controller {
        name: "unifiedAuth",
        watches: &["clusters", "clusterroles", "clusterrolebindings"],
        writes: &["works"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::unified_auth::run(context)),
    },
    Controller {
        name: "remedy",
        watches: &["remedies", "clusters"],
        writes: &["clusters/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::remedy::run(context)),
    },
    Controller {
        // Rests while the gate `Failover` is closed.
        name: "clustertaintpolicy",
        watches: &["clustertaintpolicies", "clusters"],
        writes: &["taints of clusters"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::taint_policies::run(context)),
    },
    Controller {
        // Part of `cluster` upstream, too. Rests unless the gate `Failover` and the flags for it are on.
        name: "cluster",
        watches: &["clusters", BINDINGS],
        writes: &["eviction tasks of bindings"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::failover::run_taint_manager(context)),
    },
    Controller {
        name: "gracefulEviction",
        watches: &[BINDINGS, "clusters"],
        writes: &["eviction tasks of bindings"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::failover::run_graceful(context)),
    },
    Controller {
        name: "applicationFailover",
        watches: &[BINDINGS, "clusters"],
        writes: &["eviction tasks of bindings"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::failover::run_application(context)),
    },
    Controller {
        name: "agentcsrapproving",
        watches: &["certificatesigningrequests"],
        writes: &["certificatesigningrequests/approval"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::agent_requests::run(context)),
    },
    Controller {
        name: "workloadRebalancer",
        watches: &["workloadrebalancers"],
        writes: &["rescheduleTriggeredAt of bindings", "workloadrebalancers/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::rebalancer::run(context)),
    },
    Controller {
        name: "federatedResourceQuotaSync",
        watches: &["federatedresourcequotas", "clusters", "works"],
        writes: &["works"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::quotas::run_sync(context)),
    },
    Controller {
        name: "federatedResourceQuotaStatus",
        watches: &["federatedresourcequotas", "works"],
        writes: &["federatedresourcequotas/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::quotas::run_status(context)),
    },
    Controller {
        // Rests while the gate `FederatedQuotaEnforcement` is closed.
        name: "federatedResourceQuotaEnforcement",
        watches: &["federatedresourcequotas", "resourcebindings"],
        writes: &["federatedresourcequotas/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::quotas::run_enforcement(context)),
    },
    Controller {
        name: "federatedHorizontalPodAutoscaler",
        watches: &["federatedhpas", "scales, pods and metrics in members"],
        writes: &["scales of templates", "federatedhpas/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::scaling::run_federated(context)),
    },
    Controller {
        name: "cronFederatedHorizontalPodAutoscaler",
        watches: &["cronfederatedhpas"],
        writes: &["scales of templates", "bounds of federatedhpas", "cronfederatedhpas/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::scaling::run_cron(context)),
    },
    Controller {
        name: "hpaScaleTargetMarker",
        watches: &["horizontalpodautoscalers"],
        writes: &["labels of what they scale"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::member_scaling::run_marker(context)),
    },
    Controller {
        name: "deploymentReplicasSyncer",
        watches: &["deployments", "resourcebindings"],
        writes: &["replicas of deployments"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::member_scaling::run_syncer(context)),
    },
    Controller {
        name: "serviceExport",
        watches: &["works of serviceexports", "endpointslices of exported services in members"],
        writes: &["works of endpointslices"],
        place: Place::Both,
        start: |context| Box::pin(crate::services::run_exports(context)),
    },
    Controller {
        name: "endpointSlice",
        watches: &["works of endpointslices"],
        writes: &["imported endpointslices"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::services::run_imported_slices(context)),
    },
    Controller {
        name: "serviceImport",
        watches: &["serviceimports", "derived services"],
        writes: &["derived services"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::services::run_imports(context)),
    },
    Controller {
        // This one and the two below rest while the gate `MultiClusterService` is closed.
        name: "multiclusterservice",
        watches: &["multiclusterservices", "services", "clusters"],
        writes: &["works of multiclusterservices", "services", "resourcebindings", "multiclusterservices/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::services::run_multi_cluster(context)),
    },
    Controller {
        name: "endpointsliceCollect",
        watches: &["works of multiclusterservices", "endpointslices of their services in members"],
        writes: &["works of endpointslices"],
        place: Place::Both,
        start: |context| Box::pin(crate::services::run_collection(context)),
    },
    Controller {
        name: "endpointsliceDispatch",
        watches: &["works of endpointslices", "multiclusterservices", "clusters"],
        writes: &["works of endpointslices in consumers", "multiclusterservices/status"],
        place: Place::ControlPlane,
        start: |context| Box::pin(crate::services::run_dispatch(context)),
    },
    Controller {
        name: "certRotation",
        watches: &[],
        writes: &["certificatesigningrequests", "secret karmada-kubeconfig in the member"],
        place: Place::Agent,
        start: |context| Box::pin(crate::cert_rotation::run(context)),
    },
];

/// Those that run only when `--controllers` names them, as upstream.
const OFF_UNLESS_NAMED: [&str; 3] = ["hpaScaleTargetMarker", "deploymentReplicasSyncer", "certRotation"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}; known are {known}", known = names().join(", "))]
pub struct SelectionError(String);

/// The names that `--controllers` takes. Several controllers share the name of upstream's that includes them.
fn names() -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    CONTROLLERS.iter().map(|controller| controller.name).filter(|name| seen.insert(*name)).collect()
}

/// Whether every name in a selection is one of a controller.
///
/// # Errors
/// The first that is not.
pub fn check(selection: &[String]) -> Result<(), SelectionError> {
    for word in selection {
        let name = word.strip_prefix('-').unwrap_or(word);
        if name != "*" && !CONTROLLERS.iter().any(|controller| controller.name == name) {
            return Err(SelectionError(name.to_owned()));
        }
    }
    Ok(())
}

/// Starts the selected controllers, each in a separate task. `selection` is the value of `--controllers`: `*`, names,
/// and `-name` to exclude one; the first match decides. An empty one is `*`, and `-*` alone selects none.
///
/// # Errors
/// For an unknown name; no controller is then started.
pub fn start(context: &Context, selection: &[String]) -> Result<Vec<tokio::task::JoinHandle<()>>, SelectionError> {
    check(selection)?;
    let other_place = if context.agent_of.is_some() { Place::ControlPlane } else { Place::Agent };
    let runs_here = |controller: &&Controller| controller.place != other_place;
    let chosen = CONTROLLERS.iter().filter(runs_here).filter(|controller| is_selected(controller.name, selection));
    let metrics = &context.metrics.registry;
    let started: Vec<_> = chosen.map(|controller| (controller.start)(context.clone())).collect();
    let observed = started.into_iter().map(|running| controller_runtime::metrics::observed(metrics.clone(), running));
    // Not one of the controllers, whose number is reported.
    tokio::spawn(context.world.clone().observe_steps(context.stop.clone().cancelled_owned()));
    Ok(observed.map(tokio::spawn).collect())
}

fn is_selected(name: &str, selection: &[String]) -> bool {
    let named = selection.iter().find_map(|word| match word.strip_prefix('-') {
        Some(left_out) => (left_out == name).then_some(false),
        None => (word == name).then_some(true),
    });
    let all = selection.is_empty() || selection.iter().any(|word| word == "*");
    named.unwrap_or(all && !OFF_UNLESS_NAMED.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_by_name() {
        for (words, execution, binding) in [
            ("", true, true),
            ("*", true, true),
            ("*,-execution", false, true),
            ("binding", false, true),
            ("-binding,*", true, false),
            ("-*", false, false),
        ] {
            let words: Vec<String> = words.split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect();
            assert_eq!(is_selected("execution", &words), execution, "{words:?}");
            assert_eq!(is_selected("binding", &words), binding, "{words:?}");
        }
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert!(!is_selected("deploymentReplicasSyncer", &words("*")));
        assert!(!is_selected("deploymentReplicasSyncer", &[]));
        assert!(!is_selected("certRotation", &words("*")) && is_selected("certRotation", &words("*,certRotation")));
        assert!(is_selected("deploymentReplicasSyncer", &words("*,deploymentReplicasSyncer")));
    }
}
