//! Layers of scripts: the users' customizations, and the shipped ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::meta::Time;
use karmada_api::config::v1alpha1::{
    CustomizationRules, DependentObjectReference, LuaRule, ResourceInterpreterCustomization,
};
use karmada_api::work::v1alpha2::{AggregatedStatusItem, Component, ReplicaRequirements};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lua::{Call, Engine, Script, ScriptError, Shape};
use crate::native::dependencies::validated;
use crate::native::requirements::{normalize, normalized};
use crate::tree::text;
use crate::{Error, Layer, Operation};

#[cfg(test)]
mod tests;

impl Operation {
    /// The function that a script defines for it.
    pub fn function(self) -> &'static str {
        match self {
            Self::InterpretReplica => "GetReplicas",
            Self::InterpretComponent => "GetComponents",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretStatus => "ReflectStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::InterpretDependency => "GetDependencies",
        }
    }
}

/// The rules of a customization by operation, without empty ones.
pub fn rules(rules: &CustomizationRules) -> impl Iterator<Item = (Operation, &str)> {
    fn script(rule: &Option<LuaRule>) -> &str {
        rule.as_ref().map_or("", |rule| rule.lua_script.as_str())
    }
    [
        (Operation::InterpretReplica, script(&rules.replica_resource)),
        (Operation::InterpretComponent, script(&rules.component_resource)),
        (Operation::ReviseReplica, script(&rules.replica_revision)),
        (Operation::Retain, script(&rules.retention)),
        (Operation::AggregateStatus, script(&rules.status_aggregation)),
        (Operation::InterpretStatus, script(&rules.status_reflection)),
        (Operation::InterpretHealth, script(&rules.health_interpretation)),
        (Operation::InterpretDependency, script(&rules.dependency_interpretation)),
    ]
    .into_iter()
    .filter(|(_, script)| !script.is_empty())
}

/// By operation; only dependencies may have several scripts.
type Rules = BTreeMap<Operation, Vec<Script>>;

/// Scripts by kind.
#[derive(Clone, Debug)]
pub struct Scripts {
    engine: Engine,
    /// By kind and version, looked up without a copy of either.
    kinds: HashMap<String, HashMap<String, Rules>>,
}

impl Scripts {
    pub fn none(engine: Engine) -> Self {
        Self { engine, kinds: HashMap::new() }
    }

    /// For each kind and operation the first script counts, by the names of the customizations; for dependencies all
    /// scripts count.
    pub fn of_customizations<'a>(
        engine: Engine,
        customizations: impl IntoIterator<Item = &'a ResourceInterpreterCustomization>,
    ) -> Self {
        let mut scripts = Self::none(engine);
        let mut sorted: Vec<_> = customizations.into_iter().collect();
        sorted.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        for customization in sorted {
            let target = &customization.spec.target;
            for (operation, source) in rules(&customization.spec.customizations) {
                scripts.add_all(&target.api_version, &target.kind, [operation], source);
            }
        }
        scripts
    }

    /// A script that does not compile returns that error for every call.
    fn add(&mut self, api_version: &str, kind: &str, operation: Operation, script: Script) {
        let versions = self.kinds.entry(kind.to_owned()).or_default();
        let rules = versions.entry(api_version.to_owned()).or_default();
        let scripts = rules.entry(operation).or_default();
        if scripts.is_empty() || operation == Operation::InterpretDependency {
            scripts.push(script);
        }
    }

    /// One script for several operations of a kind.
    pub fn add_all(
        &mut self,
        api_version: &str,
        kind: &str,
        operations: impl IntoIterator<Item = Operation>,
        source: &str,
    ) {
        let script = self.engine.script(source);
        for operation in operations {
            self.add(api_version, kind, operation, script.clone());
        }
    }

    /// The kinds with scripts, and their operations.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, Vec<Operation>)> {
        self.kinds.iter().flat_map(|(kind, versions)| {
            let operations = |rules: &Rules| rules.keys().copied().collect();
            versions.iter().map(move |(version, rules)| (version.as_str(), kind.as_str(), operations(rules)))
        })
    }

    fn rules(&self, api_version: &str, kind: &str) -> Option<&Rules> {
        self.kinds.get(kind)?.get(api_version)
    }

    fn scripts(&self, object: &Value, operation: Operation) -> &[Script] {
        let rules = self.rules(text(object, &["apiVersion"]), text(object, &["kind"]));
        rules.and_then(|rules| rules.get(&operation)).map_or(&[], Vec::as_slice)
    }

    /// The results of the first script's function for the object and further arguments.
    fn call(
        &self,
        operation: Operation,
        object: &Value,
        arguments: &[&Value],
        references: &[&Value],
    ) -> Result<Vec<Value>, Error> {
        let failed = |error: &ScriptError| Error::malformed(operation, object, error.to_string());
        let Some(script) = self.scripts(object, operation).first() else {
            return Err(crate::native::unsupported(operation, object));
        };
        self.run(script, operation, arguments, references).map_err(|error| failed(&error))
    }

    fn run(
        &self,
        script: &Script,
        operation: Operation,
        arguments: &[&Value],
        references: &[&Value],
    ) -> Result<Vec<Value>, ScriptError> {
        let lists = matches!(operation, Operation::InterpretDependency | Operation::InterpretComponent);
        let shape = if lists { Shape::List } else { Shape::Object };
        let call = Call { function: operation.function(), arguments, shape, references };
        self.engine.call(script, &call)
    }

    /// The single table that a function must return.
    fn object(
        &self,
        operation: Operation,
        object: &Value,
        arguments: &[&Value],
        references: &[&Value],
    ) -> Result<Value, Error> {
        match self.call(operation, object, arguments, references)?.into_iter().next() {
            Some(value @ Value::Object(_)) => Ok(value),
            other => Err(expected(operation, object, "table", &other.unwrap_or_default())),
        }
    }
}

/// Lua's name for the type of a value.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "table",
    }
}

fn expected(operation: Operation, object: &Value, what: &str, got: &Value) -> Error {
    let kind = match got {
        // A table of the other type.
        Value::Array(_) if what == "table" => "a list",
        Value::Object(_) if what == "table" => "a table that is no list",
        other => kind_of(other),
    };
    Error::malformed(operation, object, format!("expect the returned requires type is {what} but got {kind}"))
}

fn decoded<T: for<'de> Deserialize<'de>>(operation: Operation, object: &Value, value: &Value) -> Result<T, Error> {
    T::deserialize(value).map_err(|error| Error::malformed(operation, object, error.to_string()))
}

impl Layer for Scripts {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.rules(api_version, kind).is_some_and(|rules| rules.contains_key(&operation))
    }

    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
        let operation = Operation::InterpretReplica;
        let mut values = self.call(operation, template, &[template], &[])?.into_iter();
        let first = values.next().unwrap_or_default();
        let Some(replicas) = first.as_f64() else {
            let detail = format!("result type {} is not number", kind_of(&first));
            return Err(Error::malformed(operation, template, detail));
        };
        let requirements = match values.next().unwrap_or_default() {
            Value::Null => None,
            value @ Value::Object(_) => {
                let mut requirements: ReplicaRequirements = decoded(operation, template, &value)?;
                normalize(&mut requirements.resource_request)
                    .map_err(|detail| Error::malformed(operation, template, detail))?;
                Some(requirements)
            }
            other => return Err(expected(operation, template, "table", &other)),
        };
        Ok((replicas as i32, requirements))
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        let operation = Operation::InterpretComponent;
        match self.call(operation, template, &[template], &[])?.into_iter().next().unwrap_or_default() {
            Value::Null => Ok(Vec::new()),
            value @ Value::Array(_) => normalized(decoded(operation, template, &value)?)
                .map_err(|detail| Error::malformed(operation, template, detail)),
            other => Err(expected(operation, template, "table", &other)),
        }
    }

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        let revised = self.object(Operation::ReviseReplica, template, &[template, &json!(replicas)], &[template])?;
        *template = revised;
        Ok(())
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        let retained = self.object(Operation::Retain, desired, &[desired, observed], &[desired, observed])?;
        *desired = retained;
        Ok(())
    }

    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], _now: Time) -> Result<(), Error> {
        let operation = Operation::AggregateStatus;
        let items = match items {
            // Scripts written for upstream test for nil: there, an absent list is nil.
            [] => Value::Null,
            items => {
                serde_json::to_value(items).map_err(|error| Error::malformed(operation, template, error.to_string()))?
            }
        };
        let mut aggregated = self.object(operation, template, &[template, &items], &[])?;
        match aggregated.get_mut("status").map(Value::take) {
            Some(status) if status.is_object() => template["status"] = status,
            Some(status) => {
                let detail = format!("the status in the result is not an object but a {}", kind_of(&status));
                return Err(Error::malformed(operation, template, detail));
            }
            // Otherwise a mistake in a script would clear the status.
            None if aggregated["kind"] != template["kind"] => {
                let detail = "the result is not the object, and it has no status";
                return Err(Error::malformed(operation, template, detail));
            }
            None => {
                template.as_object_mut().map(|fields| fields.remove("status"));
            }
        }
        Ok(())
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error> {
        self.object(Operation::InterpretStatus, object, &[object], &[]).map(Some)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, Error> {
        let operation = Operation::InterpretHealth;
        let value = self.call(operation, object, &[object], &[])?.into_iter().next().unwrap_or_default();
        value.as_bool().ok_or_else(|| expected(operation, object, "boolean", &value))
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
        let operation = Operation::InterpretDependency;
        let mut united: Vec<DependentObjectReference> = Vec::new();
        for script in self.scripts(template, operation) {
            let values = self.run(script, operation, &[template], &[]);
            let values = values.map_err(|error| Error::malformed(operation, template, error.to_string()))?;
            let value = values.into_iter().next().unwrap_or_default();
            if !value.is_array() {
                return Err(expected(operation, template, "table", &value));
            }
            for reference in validated(template, decoded(operation, template, &value)?)? {
                if !united.contains(&reference) {
                    united.push(reference);
                }
            }
        }
        united.sort_by(|a, b| {
            let key = |it: &DependentObjectReference| {
                (it.api_version.clone(), it.kind.clone(), it.namespace.clone(), it.name.clone())
            };
            key(a).cmp(&key(b))
        });
        Ok(united)
    }
}

/// The layer of the users' customizations, replaced as a whole when one of them changes.
#[derive(Debug)]
pub struct Customizations(RwLock<Arc<Scripts>>);

impl Customizations {
    pub fn new(engine: Engine) -> Self {
        Self(RwLock::new(Arc::new(Scripts::none(engine))))
    }

    pub fn replace(&self, scripts: Scripts) {
        *self.0.write() = Arc::new(scripts);
    }

    fn current(&self) -> Arc<Scripts> {
        self.0.read().clone()
    }
}

impl Layer for Customizations {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.0.read().enabled(api_version, kind, operation)
    }

    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
        self.current().get_replicas(template)
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        self.current().get_components(template)
    }

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        self.current().revise_replica(template, replicas)
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        self.current().retain(desired, observed)
    }

    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], now: Time) -> Result<(), Error> {
        self.current().aggregate_status(template, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error> {
        self.current().reflect_status(object)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, Error> {
        self.current().interpret_health(object)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
        self.current().get_dependencies(template)
    }
}
