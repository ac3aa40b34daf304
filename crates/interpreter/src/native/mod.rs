//! The built-in kinds.

pub mod aggregate;
pub mod dependencies;
pub mod health;
pub mod job_status;
pub mod load_balancer;
pub mod reflect;
pub mod replicas;
pub mod requirements;
pub mod retain;

use apimachinery::meta::Time;
use karmada_api::config::v1alpha1::DependentObjectReference;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, Component, ReplicaRequirements};
use serde_json::Value;

use crate::{Error, Kind, Layer, Operation};

/// The last layer: the built-in interpretation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Layer for Native {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        use Kind as K;
        if operation == Operation::InterpretStatus {
            return true;
        }
        let Some(kind) = Kind::named(api_version, kind) else { return false };
        match operation {
            Operation::InterpretReplica => {
                matches!(kind, K::Deployment | K::ReplicaSet | K::StatefulSet | K::Job | K::Pod)
            }
            Operation::ReviseReplica => matches!(kind, K::Deployment | K::ReplicaSet | K::StatefulSet | K::Job),
            Operation::Retain => matches!(
                kind,
                K::Deployment
                    | K::Pod
                    | K::Service
                    | K::ServiceAccount
                    | K::PersistentVolumeClaim
                    | K::PersistentVolume
                    | K::Job
                    | K::Secret
            ),
            Operation::AggregateStatus => !matches!(kind, K::ServiceAccount | K::Secret | K::ServiceImport),
            Operation::InterpretHealth => matches!(
                kind,
                K::Deployment
                    | K::StatefulSet
                    | K::ReplicaSet
                    | K::DaemonSet
                    | K::Service
                    | K::Ingress
                    | K::PersistentVolumeClaim
                    | K::Pod
                    | K::PodDisruptionBudget
            ),
            Operation::InterpretDependency => {
                kind.pod_template().is_some() || matches!(kind, K::Ingress | K::ServiceImport)
            }
            Operation::InterpretComponent | Operation::InterpretStatus => false,
        }
    }

    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
        replicas::get(template)
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        Err(unsupported(Operation::InterpretComponent, template))
    }

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        replicas::revise(template, replicas)
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        retain::retain(desired, observed)
    }

    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], now: Time) -> Result<(), Error> {
        aggregate::aggregate(template, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error> {
        reflect::reflect(object)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, Error> {
        health::healthy(object)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
        dependencies::validated(template, dependencies::dependencies(template)?)
    }
}

/// The error of a kind that the layer is not enabled for.
pub fn unsupported(operation: Operation, object: &Value) -> Error {
    Error::NotSupported {
        operation,
        kind: format!(
            "{} {}",
            object["apiVersion"].as_str().unwrap_or_default(),
            object["kind"].as_str().unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::raw::RawJson;
    use serde_json::json;

    use super::*;

    fn objects() -> [Value; 13] {
        let pod = json!({
            "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "serviceAccountName": "s", "imagePullSecrets": [{"name": "p"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
            "volumes": [{"configMap": {"name": "c"}, "csi": {"nodePublishSecretRef": {"name": "n"}}, "projected": {"sources": [{"secret": {"name": "j"}}]}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": 5}}, "volumeMounts": [{}],
                "env": [{"valueFrom": {"secretKeyRef": {"name": "e"}}}], "envFrom": [{"configMapRef": {"name": "f"}}]}],
            "initContainers": [{"name": "i"}], "overhead": {"cpu": 1},
        });
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
        let workload = |api: &str, kind: &str| {
            json!({"apiVersion": api, "kind": kind, "spec": {"replicas": 2, "parallelism": 2, "completions": 3, "template": template,
                    "selector": {"matchLabels": {"a": "b"}}, "volumeClaimTemplates": [{"metadata": {"name": "v"}}],
                    "updateStrategy": {"rollingUpdate": {"partition": 1}}},
                "status": {"replicas": 2, "observedGeneration": 1, "numberReady": 1, "active": 1, "startTime": "t",
                    "conditions": [{"type": "Failed", "status": "True"}]}})
        };
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}},
            "status": {"active": [{"name": "a"}], "lastScheduleTime": "t"}});
        let of = |api: &str, kind: &str, spec: Value, status: Value| json!({"apiVersion": api, "kind": kind, "spec": spec, "status": status});
        let ingress = json!({"loadBalancer": {"ingress": [{"ip": "i", "hostname": "h", "ports": [{"port": 1, "protocol": "TCP"}]}]}});
        [
            workload("apps/v1", "Deployment"),
            workload("apps/v1", "StatefulSet"),
            workload("apps/v1", "DaemonSet"),
            workload("batch/v1", "Job"),
            cron,
            of(
                "v1",
                "Pod",
                pod.clone(),
                json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": {}}], "conditions": [{"type": "Ready"}]}),
            ),
            of(
                "v1",
                "Service",
                json!({"type": "LoadBalancer", "clusterIP": "c", "healthCheckNodePort": 1}),
                ingress.clone(),
            ),
            of("networking.k8s.io/v1", "Ingress", json!({"tls": [{"secretName": "s"}]}), ingress),
            of("v1", "PersistentVolumeClaim", json!({"volumeName": "v"}), json!({"phase": "Bound"})),
            of("v1", "PersistentVolume", json!({"claimRef": {"name": "c"}}), json!({"phase": "Bound"})),
            of(
                "policy/v1",
                "PodDisruptionBudget",
                json!({}),
                json!({"currentHealthy": 1, "disruptedPods": {"p": "t"}}),
            ),
            of(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({}),
                json!({"currentReplicas": 1, "currentMetrics": []}),
            ),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "i"}]}),
        ]
    }

    /// No operation panics, and a failed aggregation leaves the template unchanged.
    #[test]
    fn documents_of_unusual_shapes() {
        let now = || Time::new("2026-01-02T03:04:05Z".parse().unwrap());
        for whole in objects() {
            let kind = Kind::of(&whole).expect("a native kind");
            crate::shapes::distorted(&whole, &mut |object| {
                if Kind::of(object) != Some(kind) {
                    return;
                }
                let _ = (Native.get_replicas(object), Native.interpret_health(object), Native.get_dependencies(object));
                let _ = (Native.retain(&mut object.clone(), &whole), Native.retain(&mut whole.clone(), object));
                let _ = Native.revise_replica(&mut object.clone(), 3);
                if let Ok(Some(status)) = Native.reflect_status(object) {
                    assert!(status.is_object(), "{status}");
                }
                let status = (!object["status"].is_null()).then(|| RawJson::from_value(&object["status"]));
                let item = |status| AggregatedStatusItem { cluster_name: "m".to_owned(), status, ..Default::default() };
                for items in [vec![], vec![item(None)], vec![item(status.clone()), item(status)]] {
                    for template in [object, &whole] {
                        let mut folded = template.clone();
                        match Native.aggregate_status(&mut folded, &items, now()) {
                            Ok(()) => assert!(folded["status"].is_object() || folded == *template, "{folded}"),
                            Err(_) => assert_eq!(folded, *template),
                        }
                    }
                }
            });
        }
    }
}
