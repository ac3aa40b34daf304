//! Evaluates the expressions of webhooks and policies on a request.

use std::rc::Rc;
use std::sync::Arc;

use apiserver::auth::authz::{Attributes, Authorizer, ResourceAttributes, Selectors};
use cel::authorization::{Authorize, Check, Decision};
use cel::budget::Meter;
use cel::types::ANY;
use cel::{EvalError, Program, Value as CelValue};
use kubernetes_api::expressions::{
    CONDITIONS_BUDGET, EXPRESSION_BUDGET, NAMESPACE, REQUEST, RequiredType, Scope, slot,
};
use serde_json::Value;
use transport::Identity;

use crate::request::{Documents, Facts};
use crate::rights::Rights;

/// Why an expression has no value, in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The cost budget is exhausted, for all further expressions as well.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
    /// The expression does not compile or fails.
    #[error("{0}")]
    Expression(String),
}

/// An expression and its program. A stored one that does not compile fails when it is evaluated.
#[derive(Debug)]
pub struct Expression {
    pub source: String,
    program: Result<Program, String>,
}

impl Expression {
    pub fn new(scope: &Scope, source: &str, required_type: RequiredType) -> Self {
        Self { source: source.to_owned(), program: scope.compile(source, required_type) }
    }

    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    fn uses(&self, number: usize) -> bool {
        let number = u16::try_from(number).ok();
        self.program().zip(number).is_some_and(|(program, number)| program.uses(number))
    }
}

/// The objects that expressions read.
pub struct Inputs<'a> {
    pub documents: &'a Documents,
    /// The request without its objects.
    pub request: &'a Value,
    pub namespace: Option<&'a Value>,
    pub params: Option<&'a Value>,
    pub authorizer: Arc<dyn Authorizer>,
    pub rights: Arc<Rights>,
    pub user: &'a Identity,
    pub facts: &'a Facts,
}

/// The remaining cost budget of a policy's expressions.
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    pub fn new(cost: u64) -> Self {
        Self(cost)
    }
}

/// The variables of an evaluation, by their numbers.
pub struct Bound<'a> {
    values: Vec<Option<CelValue<'a>>>,
    /// Why variables of the policy have no value, by their numbers.
    failures: Vec<(usize, String)>,
}

impl<'a> Inputs<'a> {
    pub fn bind(&self) -> Bound<'a> {
        let any = |value: Option<&'a Value>| value.map_or(Ok(CelValue::Null), |value| CelValue::from_json(value, &ANY));
        let mut values = vec![None; slot::FIRST_VARIABLE];
        values[slot::OBJECT] = any(self.documents.new.as_ref()).ok();
        values[slot::OLD_OBJECT] = any(self.documents.old.as_ref()).ok();
        values[slot::REQUEST] = CelValue::from_json(self.request, &REQUEST).ok();
        let namespace = self.namespace.map(|namespace| CelValue::from_json(namespace, &NAMESPACE));
        values[slot::NAMESPACE_OBJECT] = namespace.unwrap_or(Ok(CelValue::Null)).ok();
        values[slot::PARAMS] = any(self.params).ok();
        let authorize = authorize(Arc::clone(&self.authorizer), Arc::clone(&self.rights), self.user.clone());
        let facts = self.facts;
        let own = Check {
            group: facts.group.clone(),
            resource: facts.resource.clone(),
            subresource: facts.subresource.clone(),
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            ..Check::default()
        };
        values[slot::AUTHORIZER] = Some(CelValue::authorizer(Rc::clone(&authorize)));
        values[slot::REQUEST_RESOURCE] = Some(CelValue::resource_check(authorize, own));
        Bound { values, failures: Vec::new() }
    }
}

fn authorize(authorizer: Arc<dyn Authorizer>, rights: Arc<Rights>, user: Identity) -> Rc<Authorize> {
    Rc::new(move |check: &Check| {
        let account = check.service_account.as_ref().map(|(namespace, name)| Identity {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..Identity::default()
        });
        let requested = match &check.path {
            Some(path) => Attributes::Path { verb: check.verb.clone(), path: path.clone() },
            None => Attributes::Resource(ResourceAttributes {
                verb: check.verb.clone(),
                group: check.group.clone(),
                version: "*".to_owned(),
                resource: check.resource.clone(),
                subresource: check.subresource.clone(),
                namespace: check.namespace.clone(),
                name: check.name.clone(),
                selectors: Selectors::of(&check.field_selector, &check.label_selector),
            }),
        };
        let decision = rights.known(&*authorizer, account.as_ref().unwrap_or(&user), requested);
        Decision { allowed: decision.is_allowed(), reason: decision.reason().to_owned(), error: None }
    })
}

impl<'a> Bound<'a> {
    /// Evaluates the variables of a policy that `used` needs, and binds them. A variable that fails is reported by the
    /// expression that uses it.
    pub fn declare(&mut self, variables: &'a [(String, Expression)], used: &[&Expression], budget: &mut Budget) {
        let number = |index: usize| slot::FIRST_VARIABLE + index;
        let mut needed = vec![false; variables.len()];
        for index in (0..variables.len()).rev() {
            let later = variables[index + 1..].iter().zip(&needed[index + 1..]).filter(|(_, needed)| **needed);
            let mut later = later.map(|((_, expression), _)| expression);
            needed[index] = later.any(|it| it.uses(number(index))) || used.iter().any(|it| it.uses(number(index)));
        }
        for (index, (name, expression)) in variables.iter().enumerate() {
            let value = needed[index].then(|| self.value(expression, budget)).and_then(|value| {
                let fails = |why: Failure| format!("composited variable {name:?} fails to evaluate: {why}");
                value.map_err(|why| self.failures.push((number(index), fails(why)))).ok()
            });
            self.values.push(value);
        }
    }

    fn value(&self, expression: &'a Expression, budget: &mut Budget) -> Result<CelValue<'a>, Failure> {
        let program = expression.program.as_ref();
        let program = program.map_err(|why| Failure::Expression(format!("compilation error: {why}")))?;
        let mut meter = Meter::new(EXPRESSION_BUDGET.min(budget.0));
        let value = program.eval(&self.values, &mut meter);
        if meter.spent() >= budget.0 {
            budget.0 = 0;
            return Err(Failure::OutOfBudget);
        }
        budget.0 -= meter.spent();
        value.map_err(|error| {
            let unbound = error == EvalError::failed("no such attribute");
            let mut failed = self.failures.iter().filter(|(number, _)| unbound && expression.uses(*number));
            Failure::Expression(failed.next().map_or_else(|| error.to_string(), |(_, why)| why.clone()))
        })
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Why it has none.
    pub fn eval(&self, expression: &'a Expression, budget: &mut Budget) -> Result<CelValue<'a>, Failure> {
        self.value(expression, budget).map_err(|failure| match failure {
            Failure::OutOfBudget => failure,
            Failure::Expression(why) => {
                Failure::Expression(format!("expression '{}' resulted in error: {why}", expression.source))
            }
        })
    }
}

/// The `matchConditions` of a webhook or policy.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Expression>);

impl Conditions {
    pub fn of(parent: &Value, has_params: bool) -> Self {
        let scope = Scope::new(has_params);
        let conditions = parent["matchConditions"].as_array().into_iter().flatten();
        let source = |condition: &Value| condition["expression"].as_str().unwrap_or_default().to_owned();
        Self(conditions.map(|condition| Expression::new(&scope, &source(condition), RequiredType::Bool)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions are true. One that is false outweighs those that fail.
    ///
    /// # Errors
    /// The conditions that fail.
    pub fn hold(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let (bound, mut budget) = (inputs.bind(), Budget::new(CONDITIONS_BUDGET));
        let mut errors: Vec<String> = Vec::new();
        for expression in &self.0 {
            match bound.eval(expression, &mut budget) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(failure) => errors.push(failure.to_string()),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}
