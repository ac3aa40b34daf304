//! The type checker for calls and macros.

use crate::ast::{Expr, Fold, FoldKind, Id};
use crate::check::Checker;
use crate::declarations::{Declarations, Overload};
use crate::eval::cost::Cost;
use crate::eval::functions::{self, Function};
use crate::eval::node::{CallNode, FoldNode, Node, NodeKind};
use crate::operands::qualified_name;
use crate::types::Type;
use crate::unify::{Solution, same};

impl Checker<'_> {
    pub(crate) fn call(&mut self, id: Id, function: &str, target: Option<&Expr>, args: &[Expr]) -> Node {
        // `math.greatest(1)` calls a function with a dot in its name, unless `math` is a variable.
        let qualified = target.and_then(qualified_name).filter(|name| !self.is_variable(name));
        let qualified = qualified.map(|name| format!("{}.{function}", name.trim_start_matches('.')));
        let known = |name: &str| Declarations::all().overloads(name).is_some();
        let (name, target) = match qualified {
            Some(name) if known(&name) => (name, None),
            _ => (function.trim_start_matches('.').to_owned(), target),
        };
        let nodes: Vec<Node> = target.into_iter().chain(args).map(|arg| self.expr(arg)).collect();
        let (Some(overloads), Some(function)) = (Declarations::all().overloads(&name), functions::find(&name)) else {
            return self.undeclared(id, &name);
        };
        if matches!(&*name, "_&&_" | "_||_") {
            nodes.iter().for_each(|node| self.require_bool(node));
            let kind = if name == "_&&_" { NodeKind::And(nodes.into()) } else { NodeKind::Or(nodes.into()) };
            return self.finish(id, Type::Bool, kind);
        }
        let types: Vec<Type> = nodes.iter().map(|node| self.type_of(node.id)).collect();
        let Some(result) = self.resolve(overloads, target.is_some(), &types) else {
            if !types.iter().any(|type_| matches!(type_, Type::Error)) {
                self.no_overload(id, &name, target.is_some(), &types);
            }
            return self.failed(id);
        };
        let function: Function = match &result {
            Type::Duration if name == "sum" => functions::sum_durations,
            _ => function,
        };
        let kind = match &*name {
            "_?_:_" => match <[Node; 3]>::try_from(nodes) {
                Ok(nodes) => NodeKind::Conditional(Box::new(nodes)),
                Err(_) => return self.failed(id),
            },
            _ => {
                let regex = self.literals(id, &name, &nodes);
                let cost = Cost::of(&name, &nodes);
                NodeKind::Call(Box::new(CallNode { name: name.into(), function, cost, args: nodes.into(), regex }))
            }
        };
        self.finish(id, result, kind)
    }

    fn require_bool(&mut self, node: &Node) {
        let type_ = self.type_of(node.id);
        if !matches!(type_, Type::Error) && !self.solution.try_assign(&type_, &Type::Bool) {
            self.report(node.id, format!("expected type 'bool' but found '{type_}'"));
        }
    }

    pub(crate) fn no_overload(&mut self, id: Id, name: &str, member: bool, types: &[Type]) {
        let print = |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let applied = match types.split_first() {
            Some((first, rest)) if member => format!("{first}.({})", print(rest)),
            _ => format!("({})", print(types)),
        };
        self.report(id, format!("found no matching overload for '{name}' applied to '{applied}'"));
    }

    /// The result of the matching overload; `dyn` if several overloads match with different results.
    fn resolve(&mut self, overloads: &[Overload], member: bool, args: &[Type]) -> Option<Type> {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let logical = args.len() > 2 && is_logical(overload);
            if !logical && overload.params.len() != args.len() {
                continue;
            }
            let before = self.solution.checkpoint();
            let base = self.solution.reserve(overload.type_params);
            let params: Vec<Type> = overload.params.iter().map(|param| Solution::instantiate(param, base)).collect();
            let fits = args
                .iter()
                .enumerate()
                .all(|(index, arg)| self.solution.assign(arg, &params[index.min(params.len() - 1)]));
            if !fits {
                self.solution.roll_back(before);
                continue;
            }
            let found = self.solution.resolve(&Solution::instantiate(&overload.result, base), false);
            result = Some(match result {
                None => found,
                Some(before) if same(&before, &found) => before,
                Some(_) => Type::Dyn,
            });
        }
        result
    }

    /// Types of the two variables of a fold.
    fn range_types(&mut self, range: &Node) -> (Type, Type) {
        match self.type_of(range.id) {
            Type::List(items) => (Type::Int, (*items).clone()),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Param(_) => (Type::Dyn, Type::Dyn),
            Type::Error => (Type::Error, Type::Error),
            other => {
                let what = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.report(range.id, format!("expression of type '{other}' {what}"));
                (Type::Error, Type::Error)
            }
        }
    }

    pub(crate) fn fold(&mut self, id: Id, fold: &Fold) -> Node {
        let range = self.expr(&fold.range);
        let (first, second) = self.range_types(&range);
        let is_list = matches!(self.type_of(range.id), Type::List(_));
        // The single variable of a fold is the element of a list and the key of a map.
        let single = if is_list { second.clone() } else { first.clone() };
        let scope = self.locals.len();
        match &fold.second {
            Some(name) => {
                self.locals.push((fold.first.clone(), first.clone()));
                self.locals.push((name.clone(), second));
            }
            None => self.locals.push((fold.first.clone(), single.clone())),
        }
        let predicate = fold.predicate.as_ref().map(|predicate| self.predicate(id, fold.kind, predicate));
        let transform = fold.transform.as_ref().map(|transform| self.expr(transform));
        self.locals.truncate(scope);
        let made = transform.as_ref().map_or(Type::Dyn, |node| self.type_of(node.id));
        let type_ = match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Filter => Type::list(single),
            FoldKind::List => Type::list(made),
            FoldKind::Map => Type::map(first, made),
            FoldKind::MapEntry => match made {
                made @ (Type::Map(_) | Type::Error) => made,
                Type::Dyn | Type::Param(_) => Type::map(Type::Dyn, Type::Dyn),
                other => {
                    self.no_overload(id, "cel.@mapInsert", false, &[Type::map(Type::Dyn, Type::Dyn), other]);
                    Type::Error
                }
            },
        };
        let two = fold.second.is_some();
        let node = FoldNode { kind: fold.kind, range, two, predicate, transform };
        self.finish(id, type_, NodeKind::Fold(Box::new(node)))
    }

    fn predicate(&mut self, id: Id, kind: FoldKind, predicate: &Expr) -> Node {
        let node = self.expr(predicate);
        let type_ = self.type_of(node.id);
        if !self.solution.try_assign(&type_, &Type::Bool) {
            match kind {
                FoldKind::All | FoldKind::Exists => self.require_bool(&node),
                FoldKind::ExistsOne => self.no_overload(id, "_?_:_", false, &[type_, Type::Int, Type::Int]),
                _ => {
                    let list = Type::list(Type::Dyn);
                    self.no_overload(id, "_?_:_", false, &[type_, list.clone(), list]);
                }
            }
        }
        node
    }

    pub(crate) fn optional_map(&mut self, id: Id, operand: &Expr, name: &str, body: &Expr, flat: bool) -> Node {
        let operand = self.expr(operand);
        let inner = match self.type_of(operand.id) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Error => Type::Error,
            other => {
                self.no_overload(id, "hasValue", true, &[other]);
                Type::Error
            }
        };
        self.locals.push((name.into(), inner));
        let body = self.expr(body);
        self.locals.pop();
        let made = self.type_of(body.id);
        let type_ = match (flat, made) {
            (false, made) => Type::optional(made),
            (true, made @ (Type::Optional(_) | Type::Error)) => made,
            (true, Type::Dyn | Type::Param(_)) => Type::Dyn,
            (true, other) => {
                let optional = Type::optional(Type::Dyn);
                self.no_overload(id, "_?_:_", false, &[Type::Bool, other, optional]);
                Type::Error
            }
        };
        let kind = NodeKind::OptionalMap { operand: Box::new(operand), body: Box::new(body), flat };
        self.finish(id, type_, kind)
    }
}

/// `&&` and `||` take any number of operands.
fn is_logical(overload: &Overload) -> bool {
    matches!(overload.params.as_slice(), [Type::Bool, Type::Bool]) && matches!(overload.result, Type::Bool)
}
