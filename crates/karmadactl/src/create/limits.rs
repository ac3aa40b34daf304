//! `create namespace|quota|poddisruptionbudget|priorityclass`

use apimachinery::selector::{Operator, Selector};
use apimachinery::{ApiResource, quantity};
use clap::Args;
use serde_json::{Map, Value, json};

use super::kinds::{Common, Draft};
use crate::error::Error;
use crate::resources;

#[derive(Args)]
pub struct QuotaArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Pairs RESOURCE=QUANTITY of the limit, separated by commas.
    #[arg(long, default_value = "")]
    hard: String,
    /// Scopes that all tracked objects must match, separated by commas.
    #[arg(long, default_value = "")]
    scopes: String,
}

#[derive(Args)]
pub struct BudgetArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Maximum number or percentage of unavailable pods.
    #[arg(long, default_value = "")]
    max_unavailable: String,
    /// Minimum number or percentage of available pods.
    #[arg(long, default_value = "")]
    min_available: String,
    /// Label selector of the pods.
    #[arg(long, default_value = "")]
    selector: String,
}

#[derive(Args)]
pub struct PriorityArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Text about the use of the class.
    #[arg(long, default_value = "")]
    description: String,
    /// Make it the class of pods without one.
    #[arg(long)]
    global_default: bool,
    /// Policy of preempting pods with lower priority.
    #[arg(long, default_value = "PreemptLowerPriority")]
    preemption_policy: String,
    /// Priority of the pods.
    #[arg(long, default_value_t = 0)]
    value: i32,
}

pub fn namespace(name: &str) -> Draft {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {}, "status": {}});
    Draft::new(resources::NAMESPACE.clone(), "", object)
}

impl QuotaArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        let mut spec = Map::new();
        if !self.hard.is_empty() {
            spec.insert("hard".to_owned(), hard(&self.hard)?);
        }
        if !self.scopes.is_empty() {
            spec.insert("scopes".to_owned(), self.scopes.split(',').collect());
        }
        let object = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec, "status": {},
        });
        let resource = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
        Ok(Draft::new(resource, "failed to create quota: ", object))
    }
}

/// `cpu=1,memory=1Gi`
fn hard(text: &str) -> Result<Value, Error> {
    let mut limits = Map::new();
    for pair in text.split(',') {
        let mut parts = pair.split('=');
        let (Some(resource), Some(amount), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::message(format!("Invalid argument syntax {pair}, expected <resource>=<value>")));
        };
        let amount = quantity::stored(amount).map_err(|error| Error::message(error.to_string()))?;
        limits.insert(resource.to_owned(), amount.into());
    }
    Ok(Value::Object(limits))
}

impl BudgetArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        let (minimum, maximum) = (self.min_available.as_str(), self.max_unavailable.as_str());
        let refuse = |text: &str| Err(Error::message(text));
        match (self.selector.is_empty(), minimum.is_empty(), maximum.is_empty()) {
            (true, _, _) => return refuse("a selector must be specified"),
            (_, true, true) => return refuse("one of min-available or max-unavailable must be specified"),
            (_, false, false) => return refuse("min-available and max-unavailable cannot be both specified"),
            _ => {}
        }
        let selector = Selector::parse(&self.selector).map_err(|error| Error::message(error.to_string()))?;
        let mut spec = json!({"selector": label_selector(&selector)});
        for (flag, field, text) in
            [("min-available", "minAvailable", minimum), ("max-unavailable", "maxUnavailable", maximum)]
        {
            if text.is_empty() {
                continue;
            }
            let digits = text.strip_suffix('%').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return Err(Error::message(format!("invalid format specified for {flag}")));
            }
            spec[field] = text.parse::<i32>().map_or_else(|_| text.into(), Value::from);
        }
        let status = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": spec, "status": status,
        });
        let resource = ApiResource::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
        Ok(Draft::new(resource, "failed to create poddisruptionbudgets: ", object))
    }
}

/// A selector as objects have it.
fn label_selector(selector: &Selector) -> Value {
    let mut labels = Map::new();
    let mut expressions = Vec::new();
    for requirement in selector.requirements() {
        let values = requirement.values();
        let operator = match requirement.operator() {
            Operator::Equals => {
                labels.insert(requirement.key().to_owned(), values.first().cloned().unwrap_or_default().into());
                continue;
            }
            Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan => "Gt",
            Operator::LessThan => "Lt",
        };
        let mut expression = json!({"key": requirement.key(), "operator": operator});
        if !values.is_empty() {
            expression["values"] = json!(values);
        }
        expressions.push(expression);
    }
    let mut out = Map::new();
    if !expressions.is_empty() {
        out.insert("matchExpressions".to_owned(), expressions.into());
    }
    if !labels.is_empty() {
        out.insert("matchLabels".to_owned(), labels.into());
    }
    Value::Object(out)
}

impl PriorityArgs {
    pub(super) fn draft(&self, name: &str) -> Draft {
        let mut object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "preemptionPolicy": self.preemption_policy, "value": self.value,
        });
        if !self.description.is_empty() {
            object["description"] = self.description.as_str().into();
        }
        if self.global_default {
            object["globalDefault"] = true.into();
        }
        let resource = ApiResource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
        Draft::new(resource, "failed to create priorityclass: ", object)
    }
}
