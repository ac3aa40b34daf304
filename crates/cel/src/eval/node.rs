//! The checked form of an expression, ready to be evaluated and estimated.

use std::sync::Arc;

use crate::ast::{FoldKind, Id, Literal};
use crate::eval::cost::Cost;
use crate::eval::functions::Function;
use crate::re2::Pattern;

#[derive(Debug)]
pub struct Node {
    pub id: Id,
    pub kind: NodeKind,
}

#[derive(Debug)]
pub enum NodeKind {
    Constant(Literal),
    /// A declared variable.
    Variable(u16),
    /// A variable of a macro: its place on the stack of locals.
    Local(u16),
    /// A type used as a value, by name.
    TypeName(Box<str>),
    Select {
        operand: Box<Node>,
        field: Box<str>,
        test: bool,
        optional: bool,
    },
    Conditional(Box<[Node; 3]>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Call(Box<CallNode>),
    /// `in` a constant list, which costs no more than its first argument.
    Lookup(Box<CallNode>),
    /// `or` and `orValue`, whose second argument is only evaluated if the first has no value.
    Fallback(Box<CallNode>),
    /// A constant that is computed from others; it has no cost.
    Folded(Box<Node>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Fold(Box<FoldNode>),
    Bind(Box<[Node; 2]>),
    OptionalMap {
        operand: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
}

#[derive(Debug)]
pub struct CallNode {
    pub name: Box<str>,
    pub function: Function,
    pub cost: Cost,
    /// The target of a member call is the first argument.
    pub args: Box<[Node]>,
    /// The compiled pattern, if it is a literal.
    pub regex: Option<Arc<Pattern>>,
}

impl CallNode {
    /// Whether the index of a list or map is read from a variable.
    pub fn is_indexed_by_attribute(&self) -> bool {
        matches!(self.cost, Cost::Index { .. }) && self.args.get(1).is_some_and(Node::is_charged_attribute)
    }
}

/// It pushes two locals: the first variable, then the second if there is one.
#[derive(Debug)]
pub struct FoldNode {
    pub kind: FoldKind,
    pub range: Node,
    pub two: bool,
    pub predicate: Option<Node>,
    pub transform: Option<Node>,
}

impl Node {
    /// Whether it has a unit of cost because it reads a variable or a part of one. As a branch of a conditional or as an
    /// index, it does not have this unit.
    pub fn is_charged_attribute(&self) -> bool {
        self.is_attribute() && !matches!(self.kind, NodeKind::Conditional(_))
    }

    /// Whether it reads a variable or a part of one.
    pub fn is_attribute(&self) -> bool {
        match &self.kind {
            NodeKind::Variable(_) | NodeKind::Local(_) | NodeKind::Conditional(_) => true,
            NodeKind::Select { test, .. } => !test,
            NodeKind::Call(call) => matches!(call.cost, Cost::Index { .. }),
            _ => false,
        }
    }

    /// Whether the test holds for this node or a descendant. Recursion is bounded by the parser's depth.
    pub fn any(&self, test: &dyn Fn(&Node) -> bool) -> bool {
        test(self)
            || match &self.kind {
                NodeKind::Constant(_) | NodeKind::Variable(_) | NodeKind::Local(_) | NodeKind::TypeName(_) => false,
                NodeKind::Select { operand, .. } | NodeKind::Folded(operand) => operand.any(test),
                NodeKind::Conditional(parts) => parts.iter().any(|node| node.any(test)),
                NodeKind::And(terms) | NodeKind::Or(terms) => terms.iter().any(|node| node.any(test)),
                NodeKind::Call(call) | NodeKind::Lookup(call) | NodeKind::Fallback(call) => {
                    call.args.iter().any(|node| node.any(test))
                }
                NodeKind::List(entries) => entries.iter().any(|(node, _)| node.any(test)),
                NodeKind::Map(entries) => entries.iter().any(|(key, value, _)| key.any(test) || value.any(test)),
                NodeKind::Fold(fold) => {
                    fold.range.any(test)
                        || fold.predicate.as_ref().is_some_and(|node| node.any(test))
                        || fold.transform.as_ref().is_some_and(|node| node.any(test))
                }
                NodeKind::Bind(parts) => parts.iter().any(|node| node.any(test)),
                NodeKind::OptionalMap { operand, body, .. } => operand.any(test) || body.any(test),
            }
    }
}
