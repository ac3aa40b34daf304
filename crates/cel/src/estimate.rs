//! Estimates the maximum cost of an expression from the declared sizes of its inputs.
//!
//! The estimate may be too low, never too high: an expression is rejected by it, and an accepted one still runs within
//! the budget. Costs and sizes saturate.

use std::sync::Arc;

use crate::ast::{FoldKind, Literal};
use crate::eval::node::{CallNode, FoldNode, Node, NodeKind};
use crate::program::Program;
use crate::types::{Kind, Shape, Type};

/// The size of a value.
#[derive(Clone, Default)]
struct Extent {
    /// The maximum number of characters, bytes or elements; `None` if unknown.
    size: Option<u64>,
    shape: Option<Arc<Shape>>,
    /// The elements of a list or values of a map that an expression constructs.
    items: Option<Box<Extent>>,
}

impl Extent {
    fn sized(size: u64) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    fn of(shape: &Arc<Shape>) -> Self {
        // A scalar of fixed width has no size, as upstream.
        let size = shape.max_elements.or(match shape.kind {
            Kind::Bool | Kind::Int | Kind::Double | Kind::Object(_) => Some(0),
            _ => None,
        });
        Self { size, shape: Some(Arc::clone(shape)), items: None }
    }

    fn element(&self) -> Self {
        if let Some(items) = &self.items {
            return (**items).clone();
        }
        match self.shape.as_ref().map(|shape| &shape.kind) {
            Some(Kind::List { items, .. }) => Self::of(items),
            Some(Kind::Map { values }) => Self::of(values),
            _ => Self::default(),
        }
    }

    fn field(&self, name: &str) -> Self {
        match self.shape.as_ref().map(|shape| &shape.kind) {
            Some(Kind::Object(object)) => object.field(name).map_or_else(Self::default, |f| Self::of(&f.shape)),
            _ => self.element(),
        }
    }

    /// Either of two values.
    fn union(self, other: Self) -> Self {
        let size = match (self.size, other.size) {
            (Some(a), Some(b)) => Some(a.max(b)),
            _ => None,
        };
        Self { size, shape: self.shape.or(other.shape), items: self.items.or(other.items) }
    }
}

fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn sum(costs: impl IntoIterator<Item = u64>) -> u64 {
    costs.into_iter().fold(0, u64::saturating_add)
}

impl Program {
    /// The maximum cost of an evaluation.
    pub fn max_cost(&self) -> u64 {
        Estimator { program: self, locals: Vec::new() }.node(&self.root).0
    }
}

struct Estimator<'a> {
    program: &'a Program,
    locals: Vec<Extent>,
}

/// A cost, and the size of the value.
type Estimate = (u64, Extent);

impl Estimator<'_> {
    fn type_of(&self, node: &Node) -> &Type {
        self.program.types.get(node.id as usize).unwrap_or(&Type::Dyn)
    }

    /// The size of a value without a declared size.
    fn size(&self, node: &Node, extent: &Extent) -> u64 {
        match (extent.size, self.type_of(node)) {
            (Some(size), _) => size,
            (
                None,
                Type::Bool
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Null
                | Type::Timestamp
                | Type::Duration
                | Type::Type(_)
                | Type::Opaque(_),
            ) => 1,
            _ => u64::MAX,
        }
    }

    /// Recursion is bounded by the parser's depth.
    fn node(&mut self, node: &Node) -> Estimate {
        match &node.kind {
            NodeKind::Constant(literal) => (0, constant(literal)),
            NodeKind::TypeName(_) => (0, Extent::sized(1)),
            NodeKind::Variable(slot) => {
                let shape = self.program.shapes.get(usize::from(*slot)).and_then(Option::as_ref);
                (1, shape.map_or_else(Extent::default, Extent::of))
            }
            NodeKind::Local(place) => (1, self.locals.get(usize::from(*place)).cloned().unwrap_or_default()),
            NodeKind::Select { operand, field, test, optional } => {
                let (cost, extent) = self.node(operand);
                // Presence tests are free, as upstream, and so are fields of optional values.
                let is_free = *test || !optional && matches!(self.type_of(operand), Type::Optional(_));
                let cost = cost.saturating_add(u64::from(!is_free));
                (cost, if *test { Extent::sized(1) } else { extent.field(field) })
            }
            NodeKind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let (cost, (yes, a), (no, b)) = (self.node(condition).0, self.node(yes), self.node(no));
                (cost.saturating_add(yes.max(no)), a.union(b))
            }
            NodeKind::And(terms) | NodeKind::Or(terms) => {
                (sum(terms.iter().map(|term| self.node(term).0).collect::<Vec<_>>()), Extent::sized(1))
            }
            NodeKind::Call(call) | NodeKind::Lookup(call) | NodeKind::Fallback(call) => self.call(call),
            NodeKind::Folded(node) => self.node(node),
            NodeKind::List(entries) => {
                let mut items = None;
                let mut cost = 10;
                for (node, _) in entries {
                    let (item, extent) = self.node(node);
                    let extent = Extent { size: Some(self.size(node, &extent)), ..extent };
                    cost = sum([cost, item]);
                    items = Some(match items {
                        None => extent,
                        Some(before) => Extent::union(before, extent),
                    });
                }
                let size = Some(entries.len() as u64);
                (cost, Extent { size, shape: None, items: items.map(Box::new) })
            }
            NodeKind::Map(entries) => {
                let mut items = None;
                let mut cost = 30;
                for (key, value, _) in entries {
                    let (value, extent) = self.node(value);
                    cost = sum([cost, self.node(key).0, value]);
                    items = Some(match items {
                        None => extent,
                        Some(before) => Extent::union(before, extent),
                    });
                }
                let size = Some(entries.len() as u64);
                (cost, Extent { size, shape: None, items: items.map(Box::new) })
            }
            NodeKind::Fold(fold) => self.fold(fold),
            NodeKind::Bind(parts) => {
                let (cost, extent) = self.node(&parts[0]);
                let (body, extent) = self.with_local(extent, &parts[1]);
                (cost.saturating_add(body), extent)
            }
            NodeKind::OptionalMap { operand, body, .. } => {
                let (cost, extent) = self.node(operand);
                let (body, extent) = self.with_local(extent, body);
                (sum([cost, body, 1]), extent)
            }
        }
    }

    fn with_local(&mut self, extent: Extent, body: &Node) -> Estimate {
        self.locals.push(extent);
        let estimate = self.node(body);
        self.locals.pop();
        estimate
    }

    fn fold(&mut self, fold: &FoldNode) -> Estimate {
        let (range_cost, range) = self.node(&fold.range);
        let is_map = matches!(self.type_of(&fold.range), Type::Map(_));
        let element = range.element();
        let scope = self.locals.len();
        match (fold.two, is_map) {
            (true, _) => self.locals.extend([Extent::sized(0), element.clone()]),
            // Keys are assumed to be short: their length is not declared.
            (false, true) => self.locals.push(Extent::sized(0)),
            (false, false) => self.locals.push(element.clone()),
        }
        let predicate = fold.predicate.as_ref().map_or(0, |node| self.node(node).0);
        let (transform, made) = fold.transform.as_ref().map_or((0, element), |node| self.node(node));
        self.locals.truncate(scope);
        // The steps of the expanded loops of these macros: reading and writing the accumulator.
        let (start, step, end) = match fold.kind {
            FoldKind::All => (0, 3, 1),
            FoldKind::Exists => (0, 4, 1),
            FoldKind::ExistsOne => (0, 2, 2),
            FoldKind::Filter => (10, 13, 1),
            FoldKind::List => (10, 12, 1),
            FoldKind::Map => (30, 3, 1),
            FoldKind::MapEntry => (30, 2, 1),
        };
        let rounds = self.size(&fold.range, &range);
        let loops = rounds.saturating_mul(sum([predicate, transform, step]));
        let cost = sum([range_cost, start, loops, end]);
        let extent = match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Extent::sized(1),
            _ => Extent { size: Some(rounds), shape: None, items: Some(Box::new(made)) },
        };
        (cost, extent)
    }

    fn call(&mut self, call: &CallNode) -> Estimate {
        let args: Vec<Estimate> = call.args.iter().map(|arg| self.node(arg)).collect();
        let before = sum(args.iter().map(|(cost, _)| *cost));
        let sizes: Vec<u64> = call.args.iter().zip(&args).map(|(node, (_, extent))| self.size(node, extent)).collect();
        let first = sizes.first().copied().unwrap_or(0);
        let second = sizes.get(1).copied().unwrap_or(0);
        let is_list = |index: usize| call.args.get(index).is_some_and(|arg| matches!(self.type_of(arg), Type::List(_)));
        let is_text = |index: usize| {
            call.args.get(index).is_some_and(|arg| matches!(self.type_of(arg), Type::String | Type::Bytes))
        };
        let extent = |index: usize| args.get(index).map(|(_, extent)| extent.clone()).unwrap_or_default();
        let (cost, result) = match &*call.name {
            "_==_" | "_!=_" => (tenth(first.min(second)), Extent::sized(1)),
            "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) && is_text(1) => (tenth(first.min(second)), Extent::sized(1)),
            "_+_" if is_text(0) => {
                let size = first.saturating_add(second);
                (tenth(size), Extent::sized(size))
            }
            "_+_" if is_list(0) => {
                (1, Extent { size: Some(first.saturating_add(second)), ..extent(0).union(extent(1)) })
            }
            "@in" if is_list(1) => (second, Extent::sized(1)),
            "_[_]" | "_[?_]" => (1, extent(0).element()),
            "dyn" => (1, extent(0)),
            "orValue" | "or" => (1, extent(0).union(extent(1))),
            "value" | "optional.of" | "optional.ofNonZeroValue" => (1, extent(0)),
            "startsWith" | "endsWith" => (tenth(second), Extent::sized(1)),
            "matches" => {
                let cost = tenth(first.saturating_add(1)).saturating_mul(second.div_ceil(4));
                (cost, Extent::sized(1))
            }
            "find" | "findAll" => {
                let cost = tenth(first.saturating_add(1)).saturating_mul(second.div_ceil(4));
                (cost, Extent { size: Some(first), shape: None, items: Some(Box::new(Extent::sized(first))) })
            }
            "contains" => (tenth(first).saturating_mul(tenth(second)), Extent::sized(1)),
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                (first.saturating_mul(second).saturating_add(1), Extent::sized(1))
            }
            // The length of a printed number or time is unknown, as upstream.
            "string" if !is_text(0) => (1, Extent::default()),
            "string" | "bytes" => (tenth(first), extent(0)),
            "isSorted" | "sum" | "min" | "max" => (first, extent(0).element()),
            "indexOf" | "lastIndexOf" if is_list(0) => (first, Extent::sized(1)),
            "lowerAscii" | "upperAscii" | "trim" | "substring" | "strings.quote" if is_text(0) => {
                (tenth(first), Extent::sized(first))
            }
            "split" => {
                let piece = Some(Box::new(Extent::sized(first)));
                (tenth(first), Extent { size: Some(first), shape: None, items: piece })
            }
            "charAt" => (1, Extent::sized(1)),
            "url" | "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver" | "isSemver"
            | "validate" => (tenth(first), Extent::sized(1)),
            "timestamp" | "duration" | "size" | "isURL" => (1, Extent::sized(1)),
            // For all others, the size of the result is that of the first argument: rather too small than too large.
            _ => (1, Extent { size: Some(first.min(1 << 22)), ..extent(0) }),
        };
        (before.saturating_add(cost), result)
    }
}

fn constant(literal: &Literal) -> Extent {
    Extent::sized(match literal {
        Literal::String(text) => text.len() as u64,
        Literal::Bytes(data) => data.len() as u64,
        _ => 1,
    })
}
