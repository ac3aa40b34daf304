//! Shipped customizations for kinds of other projects. Each is one or more files of Lua in `lua/`, with the same
//! restrictions as users' scripts and with `lua/shared.lua` in front; the operations are the functions that they
//! define.

use std::sync::LazyLock;

use crate::lua::Engine;
use crate::{Operation, Scripts};

#[cfg(test)]
mod tests;

/// A kind and its script.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub source: &'static str,
}

macro_rules! shipped {
    ($($api_version:literal $kind:literal $($file:literal)+,)*) => {
        &[$(Shipped {
            api_version: $api_version,
            kind: $kind,
            source: concat!(include_str!("../lua/shared.lua"), $(include_str!(concat!("../lua/", $file, ".lua"))),+),
        },)*]
    };
}

/// A new kind is a file and a row; shared parts are in a separate file before it.
pub const SHIPPED: &[Shipped] = shipped! {
    "apps.kruise.io/v1alpha1" "AdvancedCronJob" "kruise-advancedcronjob",
    "apps.kruise.io/v1alpha1" "BroadcastJob" "kruise-broadcastjob",
    "apps.kruise.io/v1alpha1" "CloneSet" "kruise-cloneset" "kruise-replicated",
    "apps.kruise.io/v1alpha1" "DaemonSet" "kruise-daemonset",
    "apps.kruise.io/v1alpha1" "SidecarSet" "kruise-sidecarset",
    "apps.kruise.io/v1alpha1" "UnitedDeployment" "kruise-uniteddeployment",
    "apps.kruise.io/v1beta1" "StatefulSet" "kruise-statefulset" "kruise-replicated",
    "argoproj.io/v1alpha1" "Workflow" "argo-workflow",
    "batch.volcano.sh/v1alpha1" "Job" "volcano-job",
    "flink.apache.org/v1beta1" "FlinkDeployment" "flink-deployment",
    "helm.toolkit.fluxcd.io/v2beta1" "HelmRelease" "flux-helmrelease",
    "kubeflow.org/v1" "Notebook" "kubeflow-notebook",
    "kubeflow.org/v1" "PyTorchJob" "kubeflow-pytorchjob",
    "kubeflow.org/v1" "TFJob" "kubeflow-tfjob",
    "kubeflow.org/v2beta1" "MPIJob" "kubeflow-mpijob",
    "kustomize.toolkit.fluxcd.io/v1" "Kustomization" "flux-kustomization",
    "kyverno.io/v1" "ClusterPolicy" "kyverno-policy",
    "kyverno.io/v1" "Policy" "kyverno-policy",
    "ray.io/v1" "RayCluster" "ray-cluster",
    "ray.io/v1" "RayJob" "ray-job",
    "ray.io/v1" "RayService" "ray-service",
    "source.toolkit.fluxcd.io/v1" "GitRepository" "flux-gitrepository" "flux-source",
    "source.toolkit.fluxcd.io/v1beta2" "Bucket" "flux-bucket" "flux-source",
    "source.toolkit.fluxcd.io/v1beta2" "HelmChart" "flux-helmchart" "flux-source",
    "source.toolkit.fluxcd.io/v1beta2" "HelmRepository" "flux-helmrepository" "flux-source",
    "source.toolkit.fluxcd.io/v1beta2" "OCIRepository" "flux-ocirepository" "flux-source",
    "sparkoperator.k8s.io/v1beta2" "SparkApplication" "spark-application",
};

impl Shipped {
    pub fn operations(&self) -> impl Iterator<Item = Operation> {
        let defines = |operation: &Operation| self.source.contains(&format!("\nfunction {}(", operation.function()));
        Operation::ALL.into_iter().filter(defines)
    }
}

/// The operations of each, computed once per process.
static OPERATIONS: LazyLock<Vec<Vec<Operation>>> =
    LazyLock::new(|| SHIPPED.iter().map(|shipped| shipped.operations().collect()).collect());

/// The shipped customizations as a layer.
pub fn layer(engine: Engine) -> Scripts {
    let mut scripts = Scripts::none(engine);
    for (shipped, operations) in SHIPPED.iter().zip(OPERATIONS.iter()) {
        scripts.add_all(shipped.api_version, shipped.kind, operations.iter().copied(), shipped.source);
    }
    scripts
}
