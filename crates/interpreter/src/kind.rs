//! The kinds of the native layer, by exact group and version.

use serde_json::Value;

use crate::tree::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Pod,
    Service,
    ServiceAccount,
    Secret,
    PersistentVolume,
    PersistentVolumeClaim,
    Ingress,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    ServiceImport,
}

impl Kind {
    pub fn of(object: &Value) -> Option<Self> {
        Self::named(text(object, &["apiVersion"]), text(object, &["kind"]))
    }

    pub fn named(api_version: &str, kind: &str) -> Option<Self> {
        Some(match (api_version, kind) {
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            ("v1", "Pod") => Self::Pod,
            ("v1", "Service") => Self::Service,
            ("v1", "ServiceAccount") => Self::ServiceAccount,
            ("v1", "Secret") => Self::Secret,
            ("v1", "PersistentVolume") => Self::PersistentVolume,
            ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim,
            ("networking.k8s.io/v1", "Ingress") => Self::Ingress,
            ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget,
            ("autoscaling/v2", "HorizontalPodAutoscaler") => Self::HorizontalPodAutoscaler,
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Self::ServiceImport,
            _ => return None,
        })
    }

    /// The path of the pod's metadata and spec; empty for a Pod itself.
    pub fn pod_template(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet | Self::DaemonSet | Self::Job => {
                Some(&["spec", "template"])
            }
            Self::CronJob => Some(&["spec", "jobTemplate", "spec", "template"]),
            Self::Pod => Some(&[]),
            _ => None,
        }
    }
}
