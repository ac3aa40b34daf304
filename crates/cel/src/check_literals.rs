//! Checks of literal arguments that would fail in every evaluation: patterns, times, and the arguments of `format`.

use std::sync::Arc;

use apimachinery::duration::Duration;

use crate::ast::{Id, Literal};
use crate::budget::EvalError;
use crate::check::Checker;
use crate::eval::functions::printf::{Piece, pieces, refused};
use crate::eval::node::{Node, NodeKind};
use crate::types::Type;
use crate::{re2, times};

impl Checker<'_> {
    /// Reports literal arguments of a call that fail in every evaluation; returns a literal pattern, compiled.
    pub(crate) fn literals(&mut self, id: Id, name: &str, args: &[Node]) -> Option<Arc<re2::Pattern>> {
        match (name, args) {
            ("matches" | "find" | "findAll", [_, pattern, ..]) => {
                match re2::compile(literal(pattern)?) {
                    Ok(compiled) => return Some(Arc::new(compiled)),
                    // As upstream, only the literals of the language's own functions are checked.
                    Err(_) if name == "matches" => self.report(pattern.id, "invalid matches argument"),
                    Err(why) => drop(self.fault.get_or_insert_with(|| why.to_string())),
                }
            }
            ("duration", [text]) if literal(text).is_some_and(|text| text.parse::<Duration>().is_err()) => {
                self.report(text.id, "invalid duration argument");
            }
            ("timestamp", [Node { id, kind: NodeKind::Constant(Literal::Int(seconds)), .. }])
                if times::from_seconds(*seconds).is_err() =>
            {
                self.report(*id, "invalid timestamp argument");
            }
            ("timestamp", [text]) if literal(text).is_some_and(|text| times::parse_timestamp(text).is_err()) => {
                self.report(text.id, "invalid timestamp argument");
            }
            ("format", [pattern, Node { kind: NodeKind::List(items), .. }]) => {
                self.format(id, literal(pattern)?, items)
            }
            _ => {}
        }
        None
    }

    fn format(&mut self, id: Id, pattern: &str, items: &[(Node, bool)]) {
        // Their number is known at run time only.
        if items.iter().any(|(_, optional)| *optional) {
            return;
        }
        let mut at = id;
        let requested = pieces(pattern, items.len(), |piece| match piece {
            Piece::Clause { index, letter, .. } => {
                match items.get(index).and_then(|(item, _)| self.misfit(letter, item)) {
                    Some(item) => {
                        at = item.id;
                        Err(refused(letter, &self.type_name(item.id)))
                    }
                    None => Ok(()),
                }
            }
            Piece::Text(_) => Ok(()),
        });
        match requested {
            Err(EvalError::Failed(why)) => self.report(at, why),
            Ok(requested) if requested < items.len() => {
                let (expected, got) = (requested, items.len());
                let what = "too many arguments supplied to string.format";
                self.report(id, format!("{what} (expected {expected}, got {got})"));
            }
            _ => {}
        }
    }

    /// The node, or the node inside a literal, whose type the clause does not take.
    fn misfit<'n>(&self, letter: char, node: &'n Node) -> Option<&'n Node> {
        let fits = match self.type_of(node.id) {
            Type::Dyn | Type::Error | Type::Param(_) => true,
            Type::Int | Type::Uint => !matches!(letter, 'f' | 'e'),
            Type::Double => matches!(letter, 's' | 'f' | 'e'),
            Type::String => matches!(letter, 's' | 'f' | 'e' | 'x' | 'X'),
            Type::Bytes => matches!(letter, 's' | 'x' | 'X'),
            Type::Bool => matches!(letter, 's' | 'b'),
            Type::Optional(_) | Type::Opaque(_) | Type::Object(_) => false,
            _ => letter == 's',
        };
        if !fits {
            return Some(node);
        }
        match &node.kind {
            NodeKind::List(items) if letter == 's' => items.iter().find_map(|(item, _)| self.misfit(letter, item)),
            NodeKind::Map(entries) if letter == 's' => entries
                .iter()
                .find_map(|(key, value, _)| self.misfit(letter, key).or_else(|| self.misfit(letter, value))),
            _ => None,
        }
    }

    /// The name of a type without its parameters.
    fn type_name(&self, id: Id) -> String {
        match self.type_of(id) {
            Type::List(_) => "list".to_owned(),
            Type::Map(_) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            Type::Null => "null_type".to_owned(),
            Type::Type(_) => "type".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            other => other.to_string(),
        }
    }
}

fn literal(node: &Node) -> Option<&str> {
    match &node.kind {
        NodeKind::Constant(Literal::String(text)) => Some(text),
        _ => None,
    }
}
