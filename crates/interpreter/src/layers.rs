//! The layers of the interpreter and the precedence among them.

use std::sync::Arc;

use apimachinery::meta::Time;
use karmada_api::config::v1alpha1::DependentObjectReference;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, Component, ReplicaRequirements};
use serde_json::Value;

use crate::Native;
use crate::tree::text;

/// A question about an object; the names are those of the configuration API.
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

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{operation:?} is not known for {kind}")]
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

/// One source of answers. A method is called only for kinds and operations the layer is [`Layer::enabled`] for.
pub trait Layer: Send + Sync {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool;

    /// Replicas of a template, and what each needs.
    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error>;

    /// The parts of a workload that runs several kinds of pods.
    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error>;

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error>;

    /// Takes over into `desired` what the member cluster owns of `observed`.
    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error>;

    /// Folds the members' statuses into the template's status. `now` is for conditions that turn.
    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], now: Time) -> Result<(), Error>;

    /// What is reported of a member's object; `None` when it has no status.
    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error>;

    fn interpret_health(&self, object: &Value) -> Result<bool, Error>;

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error>;
}

/// The layers, strongest first.
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
    /// `layers` come before the native one.
    pub fn with_layers(mut layers: Vec<Arc<dyn Layer>>) -> Self {
        layers.push(Arc::new(Native));
        Self { layers }
    }

    /// Whether any layer answers `operation` for the kind.
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
        self.layer(template, Operation::InterpretReplica)?.get_replicas(template)
    }

    pub fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        self.layer(template, Operation::InterpretComponent)?.get_components(template)
    }

    pub fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        let asked = identity(template).map(str::to_owned);
        self.layer(template, Operation::ReviseReplica)?.revise_replica(template, replicas)?;
        is_still(&asked, template, Operation::ReviseReplica)
    }

    pub fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        let asked = identity(desired).map(str::to_owned);
        self.layer(desired, Operation::Retain)?.retain(desired, observed)?;
        is_still(&asked, desired, Operation::Retain)
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
        // What a Work can hold.
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

/// Which object it is.
fn identity(object: &Value) -> [&str; 4] {
    let paths: [&[&str]; 4] = [&["apiVersion"], &["kind"], &["metadata", "namespace"], &["metadata", "name"]];
    paths.map(|path| text(object, path))
}

/// Who changes an object must not make another of it: it would be written over whatever bears that name in a member.
fn is_still(asked: &[String; 4], answered: &Value, operation: Operation) -> Result<(), Error> {
    let answered = identity(answered);
    if *asked == answered {
        return Ok(());
    }
    let [api_version, kind, namespace, name] = answered;
    let [_, asked_kind, _, asked_name] = asked;
    let detail = format!("the answer is another object, {api_version} {kind} {namespace}/{name}");
    Err(Error::Malformed { operation, kind: asked_kind.clone(), name: asked_name.clone(), detail })
}
