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
