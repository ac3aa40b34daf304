//! The conditions of a webhook: expressions on the review's spec.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cel::budget::{EXPRESSION_LIMIT, Meter};
use cel::types::{Field, Kind, ObjectShape, Shape};
use cel::{Env, Program, Type, Value as CelValue};
use serde_json::Value;

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    source: String,
    program: Program,
}

impl Condition {
    /// # Errors
    /// Why it does not compile, or is no condition.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        let program = Env::new().with_document("request", &REQUEST, false).compile(source);
        let program = program.map_err(|issues| format!("compilation failed: {issues}"))?;
        if !matches!(program.result_type(), Type::Bool) {
            return Err(format!("must evaluate to bool but got {}", program.result_type().runtime_name()));
        }
        if let Some(fault) = program.fault() {
            return Err(format!("program instantiation failed: {fault}"));
        }
        Ok(Self { source: source.to_owned(), program })
    }

    fn holds(&self, spec: &Value) -> Result<bool, String> {
        let failed = |error: cel::EvalError| format!("expression '{}' resulted in error: {error}", self.source);
        let bound = CelValue::from_json(spec, &REQUEST).map_err(failed)?;
        let value = self.program.eval(&[Some(bound)], &mut Meter::new(EXPRESSION_LIMIT)).map_err(failed)?;
        Ok(matches!(value, CelValue::Bool(true)))
    }

    /// Whether all conditions are true. One that is false outweighs those that fail.
    ///
    /// # Errors
    /// The conditions that fail.
    pub(crate) fn all_hold(conditions: &[Self], spec: &Value) -> Result<bool, String> {
        let mut errors = Vec::new();
        for condition in conditions {
            match condition.holds(spec) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => errors.push(why),
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
    }
}

/// The shape of `request`: `authorization.k8s.io/v1.SubjectAccessReviewSpec`.
static REQUEST: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let requirement = |name| of(name, vec![("key", text()), ("operator", text()), ("values", list(text()))]);
    let selector = |name, requirement_name| {
        of(name, vec![("rawSelector", text()), ("requirements", list(requirement(requirement_name)))])
    };
    let mut resource: Vec<(&str, Arc<Shape>)> =
        ["namespace", "verb", "group", "version", "resource", "subresource", "name"].map(|name| (name, text())).into();
    resource
        .push(("fieldSelector", selector("kubernetes.FieldSelectorAttributes", "kubernetes.FieldSelectorRequirement")));
    resource
        .push(("labelSelector", selector("kubernetes.LabelSelectorAttributes", "kubernetes.LabelSelectorRequirement")));
    of(
        "kubernetes.SubjectAccessReviewSpec",
        vec![
            ("resourceAttributes", of("kubernetes.ResourceAttributes", resource)),
            ("nonResourceAttributes", of("kubernetes.NonResourceAttributes", vec![("path", text()), ("verb", text())])),
            ("user", text()),
            ("groups", list(text())),
            ("extra", Arc::new(Shape::new(Kind::Map { values: list(text()) }, 2))),
            ("uid", text()),
        ],
    )
});

fn text() -> Arc<Shape> {
    Arc::new(Shape::new(Kind::String, 2))
}

fn list(items: Arc<Shape>) -> Arc<Shape> {
    Arc::new(Shape::new(Kind::List { items, identity: Default::default() }, 2))
}

fn of(name: &str, fields: Vec<(&str, Arc<Shape>)>) -> Arc<Shape> {
    // `namespace` is a reserved word of the language.
    let escaped = |name: &str| cel::types::escape(name).unwrap_or_else(|| name.to_owned());
    let fields: BTreeMap<Box<str>, Field> =
        fields.into_iter().map(|(name, shape)| (escaped(name).into(), Field { name: name.into(), shape })).collect();
    Arc::new(Shape::new(Kind::Object(Arc::new(ObjectShape { name: name.into(), fields })), 2))
}
