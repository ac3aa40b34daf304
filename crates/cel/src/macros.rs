//! Macros: `has`, the folds over lists and maps, `cel.bind`, `optMap`, `sortBy`.

use crate::ast::{Expr, ExprKind, Fold, FoldKind};
use crate::parser::Parser;

/// Builds the node of `target.function(args)`, which may be a macro.
pub(crate) fn call(
    parser: &mut Parser,
    position: u32,
    target: Option<Expr>,
    function: &str,
    mut args: Vec<Expr>,
) -> Expr {
    match target {
        None if function == "has" && args.len() == 1 => has(parser, position, args.remove(0)),
        Some(target) if is_name(&target, "cel") && function == "bind" && args.len() == 3 => {
            bind(parser, position, args)
        }
        Some(target) => match fold_kind(function, args.len()) {
            Some(kind) => fold(parser, position, kind, target, args),
            None if matches!(function, "optMap" | "optFlatMap") && args.len() == 2 => {
                optional_map(parser, position, target, args, function == "optFlatMap")
            }
            None if function == "sortBy" && args.len() == 2 => sort_by(parser, position, target, args),
            None => plain(parser, position, Some(target), function, args),
        },
        None => plain(parser, position, None, function, args),
    }
}

fn plain(parser: &mut Parser, position: u32, target: Option<Expr>, function: &str, mut args: Vec<Expr>) -> Expr {
    // More than two numbers are compared as a list.
    let extreme = matches!(function, "greatest" | "least") && target.as_ref().is_some_and(|t| is_name(t, "math"));
    if extreme && args.len() > 2 {
        let below = deepest(parser, &args);
        let entries = args.into_iter().map(|value| crate::ast::Entry { value, optional: false }).collect();
        args = vec![parser.node(position, ExprKind::List(entries), below)];
    }
    let below = deepest(parser, args.iter().chain(&target));
    parser.node(position, ExprKind::Call { function: function.into(), target: target.map(Box::new), args }, below)
}

fn deepest<'a>(parser: &Parser, exprs: impl IntoIterator<Item = &'a Expr>) -> u16 {
    exprs.into_iter().map(|expr| parser.below(expr)).max().unwrap_or(0)
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, ExprKind::Ident(found) if **found == *name)
}

fn has(parser: &mut Parser, position: u32, argument: Expr) -> Expr {
    let below = parser.below(&argument);
    match argument.kind {
        ExprKind::Select { operand, field, test: false, optional: false } => {
            parser.node(position, ExprKind::Select { operand, field, test: true, optional: false }, below)
        }
        _ => {
            let at = parser.place(&argument);
            parser.report(at, "invalid argument to has() macro");
            parser.node(position, ExprKind::Malformed, below)
        }
    }
}

/// The variable that a macro argument names.
fn variable(parser: &mut Parser, argument: &Expr, what: &str) -> Box<str> {
    match &argument.kind {
        ExprKind::Ident(name) if !name.starts_with('.') => name.clone(),
        _ => {
            let at = parser.place(argument);
            parser.report(at, what);
            "".into()
        }
    }
}

fn bind(parser: &mut Parser, position: u32, args: Vec<Expr>) -> Expr {
    let below = deepest(parser, &args);
    let mut args = args.into_iter();
    let (Some(name), Some(value), Some(body)) = (args.next(), args.next(), args.next()) else {
        return parser.node(position, ExprKind::Malformed, below);
    };
    let name = variable(parser, &name, "cel.bind() variable names must be simple identifiers");
    parser.node(position, ExprKind::Bind { name, value: Box::new(value), body: Box::new(body) }, below)
}

fn optional_map(parser: &mut Parser, position: u32, target: Expr, args: Vec<Expr>, flat: bool) -> Expr {
    let below = deepest(parser, args.iter().chain([&target]));
    let mut args = args.into_iter();
    let (Some(name), Some(body)) = (args.next(), args.next()) else {
        return parser.node(position, ExprKind::Malformed, below);
    };
    let what = if flat {
        "optFlatMap() variable name must be a simple identifier"
    } else {
        "optMap() variable name must be a simple identifier"
    };
    let name = variable(parser, &name, what);
    let kind = ExprKind::OptionalMap { operand: Box::new(target), name, body: Box::new(body), flat };
    parser.node(position, kind, below)
}

/// `list.sortBy(item, key)` binds the list to a variable, maps it to the keys, and sorts it by them.
fn sort_by(parser: &mut Parser, position: u32, target: Expr, args: Vec<Expr>) -> Expr {
    const INPUT: &str = "@__sortBy_input__";
    if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Message { .. }) {
        let at = parser.place(&target);
        let kinds = "a list, identifier, comprehension, call or select expression";
        parser.report(at, &format!("sortBy can only be applied to {kinds}"));
        return parser.node(position, ExprKind::Malformed, 0);
    }
    let below = deepest(parser, args.iter().chain([&target]));
    let range = parser.node(position, ExprKind::Ident(INPUT.into()), 0);
    let items = parser.node(position, ExprKind::Ident(INPUT.into()), 0);
    let keys = fold(parser, position, (FoldKind::List, false), range, args);
    let body = plain(parser, position, Some(items), "@sortByAssociatedKeys", vec![keys]);
    let kind = ExprKind::Bind { name: INPUT.into(), value: Box::new(target), body: Box::new(body) };
    parser.node(position, kind, below.saturating_add(2))
}

/// Whether a call with this name and number of arguments is a fold, and whether it has two variables. The checker
/// reports wrong numbers, because such a function does not exist.
fn fold_kind(function: &str, args: usize) -> Option<(FoldKind, bool)> {
    Some(match (function, args) {
        ("all", 2 | 3) => (FoldKind::All, args == 3),
        ("exists", 2 | 3) => (FoldKind::Exists, args == 3),
        ("exists_one" | "existsOne", 2 | 3) => (FoldKind::ExistsOne, args == 3),
        ("filter", 2) => (FoldKind::Filter, false),
        ("map", 2 | 3) => (FoldKind::List, false),
        ("transformList", 3 | 4) => (FoldKind::List, true),
        ("transformMap", 3 | 4) => (FoldKind::Map, true),
        ("transformMapEntry", 3 | 4) => (FoldKind::MapEntry, true),
        _ => return None,
    })
}

fn fold(parser: &mut Parser, position: u32, (kind, two): (FoldKind, bool), range: Expr, mut args: Vec<Expr>) -> Expr {
    let below = deepest(parser, args.iter().chain([&range]));
    let last = args.pop();
    let mut args = args.into_iter();
    let what = match kind {
        FoldKind::List | FoldKind::Filter if !two => "argument is not an identifier",
        _ => "argument must be a simple name",
    };
    let mut name = |parser: &mut Parser| {
        let argument = args.next()?;
        Some(variable(parser, &argument, what))
    };
    let first = name(parser).unwrap_or_default();
    let second = if two { name(parser) } else { None };
    if second.as_deref().is_some_and(|second| second == &*first && !second.is_empty()) {
        parser.report(position, &format!("duplicate variable name: {first}"));
    }
    let (predicate, transform) = match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter => (last, None),
        FoldKind::List | FoldKind::Map | FoldKind::MapEntry => (args.next(), last),
    };
    parser.node(position, ExprKind::Fold(Box::new(Fold { kind, range, first, second, predicate, transform })), below)
}
