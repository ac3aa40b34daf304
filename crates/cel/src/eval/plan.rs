//! What cel-go computes when it plans an expression, and an evaluation gets without a cost: literals of constants,
//! conversions of constants, membership in constant lists. Here they are evaluated each time, and count as work.

use super::node::{Node, NodeKind};
use crate::ast::{Id, Literal};

/// The functions that convert their only argument to the type of their name.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

impl Node {
    /// The planned form. Recursion is bounded by the parser's depth.
    pub fn planned(mut self) -> Self {
        self.children(&mut |child| {
            let own = std::mem::replace(child, Self { id: child.id, kind: NodeKind::Constant(Literal::Null) });
            *child = own.planned();
        });
        let Self { id, kind } = self;
        Self { id, kind: plan(id, kind) }
    }

    fn is_constant(&self) -> bool {
        matches!(self.kind, NodeKind::Constant(_) | NodeKind::Folded(_))
    }

    /// Whether it is a constant list of values that cel-go can look up.
    fn is_lookup(&self) -> bool {
        let NodeKind::Folded(inner) = &self.kind else { return false };
        let NodeKind::List(entries) = &inner.kind else { return false };
        entries.iter().all(|(item, _)| {
            matches!(&item.kind, NodeKind::Constant(literal) if !matches!(literal, Literal::Null | Literal::Bytes(_)))
        })
    }

    /// Calls `visit` with every direct child.
    pub fn children(&mut self, visit: &mut dyn FnMut(&mut Self)) {
        match &mut self.kind {
            NodeKind::Constant(_) | NodeKind::Variable(_) | NodeKind::Local(_) | NodeKind::TypeName(_) => {}
            NodeKind::Select { operand, .. } | NodeKind::Folded(operand) => visit(operand),
            NodeKind::Conditional(parts) => parts.iter_mut().for_each(visit),
            NodeKind::And(terms) | NodeKind::Or(terms) => terms.iter_mut().for_each(visit),
            NodeKind::Call(call) | NodeKind::Lookup(call) | NodeKind::Fallback(call) => {
                call.args.iter_mut().for_each(visit);
            }
            NodeKind::List(entries) => entries.iter_mut().for_each(|(item, _)| visit(item)),
            NodeKind::Map(entries) => entries.iter_mut().for_each(|(key, value, _)| {
                visit(key);
                visit(value);
            }),
            NodeKind::Fold(fold) => {
                visit(&mut fold.range);
                fold.predicate.iter_mut().chain(&mut fold.transform).for_each(visit);
            }
            NodeKind::Bind(parts) => parts.iter_mut().for_each(visit),
            NodeKind::OptionalMap { operand, body, .. } => {
                visit(operand);
                visit(body);
            }
        }
    }
}

fn plan(id: Id, kind: NodeKind) -> NodeKind {
    let is_constant = match &kind {
        NodeKind::List(entries) => entries.iter().all(|(item, optional)| !optional && item.is_constant()),
        NodeKind::Map(entries) => {
            entries.iter().all(|(key, value, optional)| !optional && key.is_constant() && value.is_constant())
        }
        NodeKind::Call(call) => {
            CONVERSIONS.contains(&&*call.name) && call.args.len() == 1 && call.args[0].is_constant()
        }
        _ => false,
    };
    match kind {
        kind if is_constant => NodeKind::Folded(Box::new(Node { id, kind })),
        NodeKind::Call(call) if &*call.name == "@in" && call.args.last().is_some_and(Node::is_lookup) => {
            NodeKind::Lookup(call)
        }
        NodeKind::Call(call) if matches!(&*call.name, "or" | "orValue") => NodeKind::Fallback(call),
        kind => kind,
    }
}
