//! What users of the crate hold: an environment, and programs compiled in it.

use std::sync::Arc;

use crate::budget::{EvalError, Meter};
use crate::check::check;
use crate::eval::Evaluation;
use crate::issues::Issues;
use crate::node::{Node, NodeKind};
use crate::parser::parse;
use crate::types::{Shape, Type};
use crate::value::Value;

/// The variables an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    names: Vec<(Box<str>, Type)>,
    /// Where a variable is a document, its shape, which bounds its size.
    shapes: Vec<Option<Arc<Shape>>>,
}

impl Env {
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

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(&self, source: &str) -> Result<Program, Issues> {
        let ast = parse(source)?;
        let checked = check(source, &ast, &self.names)?;
        Ok(Program { root: checked.root, types: checked.types, shapes: self.shapes.clone() })
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    /// The type of each node, by its id.
    pub(crate) types: Vec<Type>,
    pub(crate) shapes: Vec<Option<Arc<Shape>>>,
}

impl Program {
    /// The type of the expression.
    pub fn result_type(&self) -> &Type {
        self.types.get(self.root.id as usize).unwrap_or(&Type::Error)
    }

    /// Whether the variable declared as number `slot` occurs.
    pub fn uses(&self, slot: u16) -> bool {
        self.root.any(&|node| matches!(node.kind, NodeKind::Variable(found) if found == slot))
    }

    /// Evaluates with the variables in the order of their declaration. An unbound one fails when it is met.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn eval<'a>(&'a self, variables: &[Option<Value<'a>>], meter: &mut Meter) -> Result<Value<'a>, EvalError> {
        Evaluation::new(variables, meter).eval(&self.root)
    }
}
