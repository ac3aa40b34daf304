//! One validating or mutating policy: its compiled expressions, and their decision about a request.

use apimachinery::StatusReason;
use cel::Value as CelValue;
use kubernetes_api::expressions::{BUDGET, RequiredType, Scope};
use serde_json::Value;

use crate::computed::to_json;
use crate::expressions::{Bound, Budget, Conditions, Expression, Failure, Inputs};
use crate::matching::Criteria;

/// Bytes of a message that an expression computes; a longer one is replaced.
const MAX_MESSAGE: usize = 5 * 1024;
/// Bytes of an audit annotation; a longer one is cut.
const MAX_ANNOTATION: usize = 10 * 1024;

/// A policy, ready to be evaluated.
#[derive(Debug)]
pub struct Policy {
    pub name: String,
    pub fails_closed: bool,
    /// `apiVersion` and `kind` of parameters.
    pub params: Option<(String, String)>,
    pub criteria: Criteria,
    pub conditions: Conditions,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
    /// The mutations of a mutating policy.
    pub mutations: Vec<Mutation>,
    pub is_reinvoked: bool,
}

/// How a mutating policy changes an object.
#[derive(Debug)]
pub enum Mutation {
    /// An object that is merged into the request's.
    Configuration(Expression),
    /// A list of operations.
    Patch(Expression),
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: StatusReason,
}

/// The violation of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    pub message: String,
    pub reason: StatusReason,
    /// The number of the validation.
    pub validation: usize,
}

impl Denial {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: StatusReason::Invalid, validation: 0 }
    }
}

/// The decision of a policy about a request, for one parameter.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// Subject to the actions of the binding.
    pub denials: Vec<Denial>,
    /// Audit annotations that failed: the request is denied whatever the actions are.
    pub failed_annotations: Vec<Denial>,
    pub annotations: Vec<(String, String)>,
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

impl Policy {
    pub fn of(policy: &Value) -> Self {
        let (name, spec) = (text(&policy["metadata"], "name").to_owned(), &policy["spec"]);
        let params = &spec["paramKind"];
        let params =
            params.is_object().then(|| (text(params, "apiVersion").to_owned(), text(params, "kind").to_owned()));
        let mut scope = Scope::new(params.is_some());
        let mut variables = Vec::new();
        for variable in items(spec, "variables") {
            let expression = Expression::new(&scope, text(variable, "expression"), RequiredType::Any);
            scope.declare(text(variable, "name"), expression.program());
            variables.push((text(variable, "name").to_owned(), expression));
        }
        let (of_messages, of_mutations) = (scope.without_authorizer(), scope.clone().with_mutations());
        let validations = items(spec, "validations").map(|it| Validation::of(it, &scope, &of_messages)).collect();
        let annotations = items(spec, "auditAnnotations").map(|annotation| {
            let key = format!("{name}/{}", text(annotation, "key"));
            (key, Expression::new(&scope, text(annotation, "valueExpression"), RequiredType::StringOrNull))
        });
        Self {
            fails_closed: spec["failurePolicy"] != "Ignore",
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            conditions: Conditions::of(spec, params.is_some()),
            annotations: annotations.collect(),
            mutations: items(spec, "mutations").map(|it| Mutation::of(it, &of_mutations)).collect(),
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            params,
            variables,
            validations,
            name,
        }
    }

    /// Evaluates the policy on a request.
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        match self.conditions.hold(inputs) {
            Ok(true) => {}
            Ok(false) => return outcome,
            Err(why) => {
                outcome.denials.extend(self.fails_closed.then(|| Denial::new(why)));
                return outcome;
            }
        }
        let (mut bound, mut budget) = (inputs.bind(), Budget::new(BUDGET));
        let messages = self.validations.iter().filter_map(|it| it.message_expression.as_ref());
        let used = self.validations.iter().map(|it| &it.expression).chain(messages);
        bound.declare(&self.variables, &used.collect::<Vec<_>>(), &mut budget);
        for (number, validation) in self.validations.iter().enumerate() {
            let denial = match bound.eval(&validation.expression, &mut budget) {
                Ok(CelValue::Bool(true)) => None,
                Ok(_) => Some(validation.denial(&bound, &mut budget)),
                Err(failure) => {
                    let denial = self.fails_closed.then(|| Denial::new(failure.to_string()));
                    if failure == Failure::OutOfBudget {
                        // As upstream, one violation stands for all.
                        outcome.denials = denial.into_iter().collect();
                        return outcome;
                    }
                    denial
                }
            };
            outcome.denials.extend(denial.map(|denial| Denial { validation: number, ..denial }));
        }
        self.annotate(inputs, &mut outcome);
        outcome
    }

    /// Evaluates the audit annotations, which have a budget of their own.
    fn annotate(&self, inputs: &Inputs<'_>, outcome: &mut Outcome) {
        if self.annotations.is_empty() {
            return;
        }
        let (mut bound, mut budget) = (inputs.bind(), Budget::new(BUDGET));
        let used: Vec<&Expression> = self.annotations.iter().map(|(_, expression)| expression).collect();
        bound.declare(&self.variables, &used, &mut budget);
        for (key, expression) in &self.annotations {
            match bound.eval(expression, &mut budget) {
                Ok(CelValue::String(value)) if !value.trim().is_empty() => {
                    outcome.annotations.push((key.clone(), cut(value.trim(), MAX_ANNOTATION).to_owned()));
                }
                Ok(_) => {}
                Err(failure) => {
                    let denial = self.fails_closed.then(|| Denial::new(failure.to_string()));
                    outcome.failed_annotations.extend(denial);
                }
            }
        }
    }
}

impl Policy {
    /// The object or the operations of a mutation.
    ///
    /// # Errors
    /// The reason for their absence.
    pub fn patch(&self, mutation: &Mutation, inputs: &Inputs<'_>) -> Result<Value, String> {
        let (Mutation::Configuration(expression) | Mutation::Patch(expression)) = mutation;
        let (mut bound, mut budget) = (inputs.bind(), Budget::new(BUDGET));
        bound.declare(&self.variables, &[expression], &mut budget);
        let value = bound.eval(expression, &mut budget).map_err(|failure| failure.to_string())?;
        to_json(&value).map_err(|why| match mutation {
            Mutation::Configuration(_) => why,
            Mutation::Patch(_) => {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
            }
        })
    }
}

impl Mutation {
    fn of(mutation: &Value, scope: &Scope) -> Self {
        let source = |field: &str| text(&mutation[field], "expression");
        if mutation["patchType"] == "JSONPatch" {
            return Self::Patch(Expression::new(scope, source("jsonPatch"), RequiredType::Patches));
        }
        Self::Configuration(Expression::new(scope, source("applyConfiguration"), RequiredType::Object))
    }
}

impl Validation {
    fn of(validation: &Value, scope: &Scope, of_messages: &Scope) -> Self {
        let message = Some(text(validation, "messageExpression")).filter(|source| !source.trim().is_empty());
        Self {
            expression: Expression::new(scope, text(validation, "expression"), RequiredType::Bool),
            message: text(validation, "message").trim().to_owned(),
            message_expression: message.map(|source| Expression::new(of_messages, source, RequiredType::String)),
            reason: StatusReason::parse(text(validation, "reason")).unwrap_or(StatusReason::Invalid),
        }
    }

    /// The computed message if it is usable, otherwise the fixed one, otherwise the expression.
    fn denial<'a>(&'a self, bound: &Bound<'a>, budget: &mut Budget) -> Denial {
        let computed = self.message_expression.as_ref().and_then(|expression| bound.eval(expression, budget).ok());
        let computed = match &computed {
            Some(CelValue::String(text)) => text.trim(),
            _ => "",
        };
        let is_usable = !computed.is_empty() && computed.len() <= MAX_MESSAGE && !computed.contains('\n');
        let message = match (is_usable, self.message.as_str()) {
            (true, _) => computed.to_owned(),
            (false, "") => format!("failed expression: {}", self.expression.source.trim()),
            (false, message) => message.to_owned(),
        };
        Denial { message, reason: self.reason, validation: 0 }
    }
}

/// At most `limit` bytes, without half a character.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
