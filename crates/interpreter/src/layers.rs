//! The layers of the interpreter and their precedence.

use std::sync::Arc;

use apimachinery::meta::Time;
use karmada_api::config::v1alpha1::DependentObjectReference;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, Component, ReplicaRequirements};
use serde_json::Value;

use crate::Native;
use crate::tree::text;

/// An interpreter operation; the names are those of the configuration API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    InterpretReplica,
    InterpretComponent,
    ReviseReplica,
    Retain,
    AggregateStatus,
    InterpretStatus,
    InterpretHealth,
    InterpretDependency,
}

impl Operation {
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretStatus,
        Self::InterpretHealth,
        Self::InterpretDependency,
    ];
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{operation:?} is not supported for {kind}")]
    NotSupported { operation: Operation, kind: String },
    #[error("{operation:?} of {kind} {name}: {detail}")]
    Malformed { operation: Operation, kind: String, name: String, detail: String },
}

impl Error {
    pub fn malformed(operation: Operation, object: &Value, detail: impl Into<String>) -> Self {
        Self::Malformed {
            operation,
            kind: text(object, &["kind"]).to_owned(),
            name: text(object, &["metadata", "name"]).to_owned(),
            detail: detail.into(),
        }
    }
}

/// One implementation of the operations. A method is called only for kinds and operations that are [`Layer::enabled`].
pub trait Layer: Send + Sync {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool;

    /// Returns the replicas of a template, and the requirements of one replica.
    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error>;

    /// Returns the components of a workload with several pod templates.
    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error>;

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error>;

    /// Copies the values that the member cluster owns from `observed` to `desired`.
    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error>;

    /// Aggregates the members' statuses into the template's status. `now` is the time of changed conditions.
    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], now: Time) -> Result<(), Error>;

    /// Returns the part of a member object's status to collect; `None` if it has no status.
    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error>;

    fn interpret_health(&self, object: &Value) -> Result<bool, Error>;

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error>;
}

/// The layers in order of precedence.
#[derive(Clone)]
pub struct Interpreter {
    layers: Vec<Arc<dyn Layer>>,
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::with_layers(Vec::new())
    }
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interpreter of {} layers", self.layers.len())
    }
}

impl Interpreter {
    /// `layers` precede the native one.
    pub fn with_layers(mut layers: Vec<Arc<dyn Layer>>) -> Self {
        layers.push(Arc::new(Native));
        Self { layers }
    }

    /// Whether any layer implements `operation` for the kind.
    pub fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.layers.iter().any(|layer| layer.enabled(api_version, kind, operation))
    }

    /// [`Interpreter::enabled`] for the kind of an object.
    pub fn enabled_for(&self, object: &Value, operation: Operation) -> bool {
        self.enabled(text(object, &["apiVersion"]), text(object, &["kind"]), operation)
    }

    fn layer(&self, object: &Value, operation: Operation) -> Result<&dyn Layer, Error> {
        let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        self.layers
            .iter()
            .find(|layer| layer.enabled(api_version, kind, operation))
            .map(AsRef::as_ref)
            .ok_or_else(|| Error::NotSupported { operation, kind: format!("{api_version} {kind}") })
    }

    pub fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
        let operation = Operation::InterpretReplica;
        let (replicas, requirements) = self.layer(template, operation)?.get_replicas(template)?;
        // The scheduler would treat it as a kind without replicas and give each cluster all of them.
        if replicas < 0 {
            return Err(Error::malformed(
                operation,
                template,
                format!("the number of replicas is negative: {replicas}"),
            ));
        }
        Ok((replicas, requirements))
    }

    pub fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        self.layer(template, Operation::InterpretComponent)?.get_components(template)
    }

    pub fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        let before = identity(template).map(str::to_owned);
        self.layer(template, Operation::ReviseReplica)?.revise_replica(template, replicas)?;
        is_still(&before, template, Operation::ReviseReplica)
    }

    pub fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        let before = identity(desired).map(str::to_owned);
        self.layer(desired, Operation::Retain)?.retain(desired, observed)?;
        is_still(&before, desired, Operation::Retain)
    }

    pub fn aggregate_status(
        &self,
        template: &mut Value,
        items: &[AggregatedStatusItem],
        now: Time,
    ) -> Result<(), Error> {
        self.layer(template, Operation::AggregateStatus)?.aggregate_status(template, items, now)
    }

    pub fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error> {
        let status = self.layer(object, Operation::InterpretStatus)?.reflect_status(object)?;
        // A Work holds objects only.
        if status.as_ref().is_some_and(|status| !status.is_object()) {
            return Err(Error::malformed(Operation::InterpretStatus, object, "the status is not an object"));
        }
        Ok(status)
    }

    pub fn interpret_health(&self, object: &Value) -> Result<bool, Error> {
        self.layer(object, Operation::InterpretHealth)?.interpret_health(object)
    }

    pub fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
        self.layer(template, Operation::InterpretDependency)?.get_dependencies(template)
    }
}

/// The identity of the object.
fn identity(object: &Value) -> [&str; 4] {
    let paths: [&[&str]; 4] = [&["apiVersion"], &["kind"], &["metadata", "namespace"], &["metadata", "name"]];
    paths.map(|path| text(object, path))
}

/// A result must have the identity of the input: otherwise another object of a member would be overwritten.
fn is_still(before: &[String; 4], after: &Value, operation: Operation) -> Result<(), Error> {
    let after = identity(after);
    if *before == after {
        return Ok(());
    }
    let [api_version, kind, namespace, name] = after;
    let [_, kind_before, _, name_before] = before;
    let detail = format!("the result is another object, {api_version} {kind} {namespace}/{name}");
    Err(Error::Malformed { operation, kind: kind_before.clone(), name: name_before.clone(), detail })
}
