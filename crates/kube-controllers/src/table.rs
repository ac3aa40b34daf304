//! The table of controllers, and the start of the selected ones.

use std::sync::Arc;

use client::{Client, Mapper};
use controller_runtime::InformerSet;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Settings};
use crate::running::{Running, Start};

/// A controller.
pub struct Controller {
    /// The name in kube-controller-manager's `--controllers`.
    pub name: &'static str,
    /// The name before Kubernetes 1.28, which is still accepted.
    pub alias: &'static str,
    pub watches: &'static [&'static str],
    pub writes: &'static [&'static str],
    pub start: Start,
}

/// All controllers. A new one is a module and a row.
pub static CONTROLLERS: &[Controller] = &[
    Controller {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        watches: &["namespaces", "serviceaccounts"],
        writes: &["serviceaccounts"],
        start: |context, starting| Box::pin(crate::per_namespace::run_default_accounts(context, starting)),
    },
    Controller {
        name: "serviceaccount-token-controller",
        alias: "serviceaccount-token",
        watches: &["secrets", "serviceaccounts"],
        writes: &["secrets"],
        start: |context, starting| Box::pin(crate::tokens::run(context, starting)),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        watches: &["namespaces", "configmaps"],
        writes: &["configmaps"],
        start: |context, starting| Box::pin(crate::per_namespace::run_root_ca(context, starting)),
    },
    Controller {
        name: "namespace-controller",
        alias: "namespace",
        watches: &["namespaces"],
        writes: &["namespaces", "*"],
        start: |context, starting| Box::pin(crate::namespaces::run(context, starting)),
    },
    Controller {
        name: "garbage-collector-controller",
        alias: "garbagecollector",
        watches: &["*"],
        writes: &["*"],
        start: |context, starting| Box::pin(crate::gc::run(context, starting)),
    },
    Controller {
        name: "clusterrole-aggregation-controller",
        alias: "clusterrole-aggregation",
        watches: &["clusterroles"],
        writes: &["clusterroles"],
        start: |context, starting| Box::pin(crate::cluster_roles::run(context, starting)),
    },
    Controller {
        name: "certificatesigningrequest-approving-controller",
        alias: "csrapproving",
        watches: &["certificatesigningrequests"],
        writes: &["certificatesigningrequests"],
        start: |context, starting| Box::pin(crate::certificates::run_approving(context, starting)),
    },
    Controller {
        name: "certificatesigningrequest-signing-controller",
        alias: "csrsigning",
        watches: &["certificatesigningrequests"],
        writes: &["certificatesigningrequests"],
        start: |context, starting| Box::pin(crate::certificates::run_signing(context, starting)),
    },
    Controller {
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        watches: &["certificatesigningrequests"],
        writes: &["certificatesigningrequests"],
        start: |context, starting| Box::pin(crate::certificates::run_cleaning(context, starting)),
    },
    Controller {
        name: "resourcequota-controller",
        alias: "resourcequota",
        watches: &["resourcequotas", "*"],
        writes: &["resourcequotas"],
        start: |context, starting| Box::pin(crate::resource_quotas::run(context, starting)),
    },
    Controller {
        name: "bootstrap-signer-controller",
        alias: "bootstrapsigner",
        watches: &["secrets", "configmaps"],
        writes: &["configmaps"],
        start: |context, starting| Box::pin(crate::bootstrap_tokens::run_signer(context, starting)),
    },
    Controller {
        name: "token-cleaner-controller",
        alias: "tokencleaner",
        watches: &["secrets"],
        writes: &["secrets"],
        start: |context, starting| Box::pin(crate::bootstrap_tokens::run_cleaner(context, starting)),
    },
    Controller {
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        watches: &["persistentvolumeclaims", "pods"],
        writes: &["persistentvolumeclaims"],
        start: |context, starting| Box::pin(crate::volume_protection::run_claims(context, starting)),
    },
    Controller {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        watches: &["persistentvolumes"],
        writes: &["persistentvolumes"],
        start: |context, starting| Box::pin(crate::volume_protection::run_volumes(context, starting)),
    },
    Controller {
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        watches: &["jobs"],
        writes: &["jobs"],
        start: |context, starting| Box::pin(crate::finished_jobs::run(context, starting)),
    },
    Controller {
        name: "flowschema-controller",
        alias: "flowschema",
        watches: &["flowschemas", "prioritylevelconfigurations"],
        writes: &["flowschemas/status"],
        start: |context, starting| Box::pin(crate::flow_schemas::run(context, starting)),
    },
    Controller {
        name: "validatingadmissionpolicy-status-controller",
        alias: "validatingadmissionpolicy-status",
        watches: &["validatingadmissionpolicies", "customresourcedefinitions"],
        writes: &["validatingadmissionpolicies/status"],
        start: |context, starting| Box::pin(crate::policy_types::run(context, starting)),
    },
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}; known are {known}", known = CONTROLLERS.iter().map(|c| c.name).collect::<Vec<_>>().join(", "))]
pub struct SelectionError(String);

/// Validates a selection.
///
/// # Errors
/// The first name that is not a controller.
pub fn check(selection: &[String]) -> Result<(), SelectionError> {
    for word in selection {
        let name = word.strip_prefix('-').unwrap_or(word);
        if name != "*" && !CONTROLLERS.iter().any(|controller| controller.is(name)) {
            return Err(SelectionError(name.to_owned()));
        }
    }
    Ok(())
}

/// Starts the selected controllers, each on its own task. `selection` has the format of `--controllers`: `*`, names,
/// and `-name` to exclude one; the first match decides, and an empty selection means all. `informers` may be shared
/// with other controllers of the same server: each resource is then watched and cached once. Must be called inside a
/// tokio runtime.
///
/// # Errors
/// An unknown name; no controller is started then.
pub fn start(
    client: Client,
    informers: &InformerSet,
    settings: Settings,
    selection: &[String],
    stop: CancellationToken,
) -> Result<Running, SelectionError> {
    check(selection)?;
    let context = Context {
        mapper: Mapper::new(client.clone()),
        informers: informers.clone(),
        client,
        settings: Arc::new(settings),
        stop,
    };
    let chosen = CONTROLLERS.iter().filter(|controller| controller.is_selected(selection));
    Ok(Running::new(&context, chosen.map(|controller| controller.start)))
}

impl Controller {
    fn is(&self, name: &str) -> bool {
        self.name == name || self.alias == name
    }

    fn is_selected(&self, selection: &[String]) -> bool {
        let named = selection.iter().find_map(|word| match word.strip_prefix('-') {
            Some(left_out) => self.is(left_out).then_some(false),
            None => self.is(word).then_some(true),
        });
        named.unwrap_or_else(|| selection.is_empty() || selection.iter().any(|word| word == "*"))
    }
}
