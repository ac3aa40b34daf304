//! The public interface: environments, and programs compiled in them.

use std::sync::Arc;

use crate::budget::{EvalError, Meter};
use crate::check::check;
use crate::eval::Evaluation;
use crate::eval::node::{Node, NodeKind};
use crate::issues::Issues;
use crate::parser::parse;
use crate::types::{Shape, Type};
use crate::value::Value;

/// The variables that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    names: Vec<(Box<str>, Type)>,
    /// The shape of a variable that is a document, which bounds its size.
    shapes: Vec<Option<Arc<Shape>>>,
    has_mutations: bool,
}

impl Env {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable of a type.
    #[must_use]
    pub fn with(mut self, name: &str, type_: Type) -> Self {
        self.names.push((name.into(), type_));
        self.shapes.push(None);
        self
    }

    /// Declares a variable that is a document; `optional` wraps it.
    #[must_use]
    pub fn with_document(mut self, name: &str, shape: &Arc<Shape>, optional: bool) -> Self {
        let type_ = if optional { Type::optional(shape.type_()) } else { shape.type_() };
        self.names.push((name.into(), type_));
        self.shapes.push(Some(Arc::clone(shape)));
        self
    }

    /// Allows expressions to construct `Object{field: value}`, its parts `Object.field{}`, and `JSONPatch{op: ...}`.
    /// Their values are maps.
    #[must_use]
    pub fn with_mutations(mut self) -> Self {
        self.has_mutations = true;
        self
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// The syntax and type errors.
    pub fn compile(&self, source: &str) -> Result<Program, Issues> {
        let ast = parse(source)?;
        let checked = check(source, &ast, &self.names, self.has_mutations)?;
        Ok(Program { root: checked.root, types: checked.types, shapes: self.shapes.clone(), fault: checked.fault })
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    /// The type of each node, by its id.
    pub(crate) types: Vec<Type>,
    pub(crate) shapes: Vec<Option<Arc<Shape>>>,
    fault: Option<String>,
}

impl Program {
    /// The type of the expression.
    pub fn result_type(&self) -> &Type {
        self.types.get(self.root.id as usize).unwrap_or(&Type::Error)
    }

    /// Why the expression fails in every evaluation, although it is well typed: an invalid pattern. Upstream refuses to
    /// instantiate such a program.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether the expression uses the variable declared as number `slot`.
    pub fn uses(&self, slot: u16) -> bool {
        self.root.any(&|node| matches!(node.kind, NodeKind::Variable(found) if found == slot))
    }

    /// Evaluates the expression with the variables in the order of their declaration. Using an unbound variable is an
    /// error.
    ///
    /// # Errors
    /// Why the expression has no value.
    pub fn eval<'a>(&'a self, variables: &[Option<Value<'a>>], meter: &mut Meter) -> Result<Value<'a>, EvalError> {
        Evaluation::new(variables, meter).eval(&self.root)
    }
}
