//! The type checker: resolves names and overloads, and turns the syntax tree into the checked form.

use crate::aggregates;
use crate::ast::{Ast, Entry, Expr, ExprKind, Id, Literal};
use crate::declarations::type_named;
use crate::eval::node::{Node, NodeKind};
use crate::issues::Issues;
use crate::operands::qualified_name;
use crate::types::Type;
use crate::unify::{Solution, same};

/// A checked tree with the type of each node.
#[derive(Debug)]
pub struct Checked {
    pub root: Node,
    pub types: Vec<Type>,
    pub fault: Option<String>,
}

/// Checks `ast` where `variables` are declared.
///
/// # Errors
/// The type errors, each with its position in `source`.
pub fn check(source: &str, ast: &Ast, variables: &[(Box<str>, Type)], has_mutations: bool) -> Result<Checked, Issues> {
    let mut checker = Checker {
        variables,
        has_mutations,
        locals: Vec::new(),
        solution: Solution::default(),
        positions: &ast.positions,
        types: vec![Type::Error; ast.positions.len()],
        issues: Issues::new(source),
        fault: None,
    };
    let mut root = checker.expr(&ast.root);
    if !checker.issues.is_empty() {
        return Err(checker.issues.sorted());
    }
    let types: Vec<Type> = checker.types.iter().map(|type_| checker.solution.resolve(type_, true)).collect();
    for (id, why) in aggregates::mixed(&mut root, &types) {
        checker.report(id, why);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues.sorted());
    }
    Ok(Checked { root: root.planned(), types, fault: checker.fault })
}

pub(crate) struct Checker<'a> {
    variables: &'a [(Box<str>, Type)],
    /// Whether `Object` and `JSONPatch` can be constructed.
    has_mutations: bool,
    /// The variables of the enclosing macros, innermost last; the index is the place on the evaluator's stack.
    pub(crate) locals: Vec<(Box<str>, Type)>,
    pub(crate) solution: Solution,
    positions: &'a [u32],
    types: Vec<Type>,
    issues: Issues,
    /// Why a well-typed expression fails in every evaluation.
    pub(crate) fault: Option<String>,
}

impl Checker<'_> {
    pub(crate) fn report(&mut self, id: Id, message: impl Into<String>) {
        let position = self.positions.get(id as usize).copied().unwrap_or(0);
        self.issues.report(position, message);
    }

    pub(crate) fn type_of(&self, id: Id) -> Type {
        let type_ = self.types.get(id as usize).cloned().unwrap_or(Type::Error);
        self.solution.resolve(&type_, false)
    }

    pub(crate) fn finish(&mut self, id: Id, type_: Type, kind: NodeKind) -> Node {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = type_;
        }
        Node { id, kind }
    }

    pub(crate) fn failed(&mut self, id: Id) -> Node {
        self.finish(id, Type::Error, NodeKind::Constant(Literal::Null))
    }

    /// Recursion is bounded by the parser's depth.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Node {
        match &expr.kind {
            ExprKind::Literal(literal) => {
                let type_ = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.finish(expr.id, type_, NodeKind::Constant(literal.clone()))
            }
            ExprKind::Ident(name) => self.name(expr.id, name),
            ExprKind::Select { operand, field, test, optional } => self.select(expr, operand, field, *test, *optional),
            ExprKind::Call { function, target, args } => self.call(expr.id, function, target.as_deref(), args),
            ExprKind::List(entries) => self.list(expr.id, entries),
            ExprKind::Map(entries) => self.map(expr.id, entries),
            ExprKind::Message { name, fields } => self.message(expr.id, name, fields),
            ExprKind::Fold(fold) => self.fold(expr.id, fold),
            ExprKind::Bind { name, value, body } => {
                let value = self.expr(value);
                let value_type = self.type_of(value.id);
                self.locals.push((name.clone(), value_type));
                let body = self.expr(body);
                self.locals.pop();
                let type_ = self.type_of(body.id);
                self.finish(expr.id, type_, NodeKind::Bind(Box::new([value, body])))
            }
            ExprKind::OptionalMap { operand, name, body, flat } => {
                self.optional_map(expr.id, operand, name, body, *flat)
            }
            ExprKind::Malformed => self.failed(expr.id),
        }
    }

    pub(crate) fn undeclared(&mut self, id: Id, name: &str) -> Node {
        self.report(id, format!("undeclared reference to '{}' (in container '')", name.trim_start_matches('.')));
        self.failed(id)
    }

    fn name(&mut self, id: Id, name: &str) -> Node {
        let global = name.strip_prefix('.');
        if global.is_none()
            && let Some(place) = self.locals.iter().rposition(|(local, _)| **local == *name)
        {
            let type_ = self.locals[place].1.clone();
            return self.finish(id, type_, NodeKind::Local(place as u16));
        }
        let plain = global.unwrap_or(name);
        if let Some(slot) = self.variables.iter().position(|(variable, _)| **variable == *plain) {
            let type_ = self.variables[slot].1.clone();
            return self.finish(id, type_, NodeKind::Variable(slot as u16));
        }
        match type_named(plain) {
            Some(type_) => self.finish(id, Type::type_of(type_), NodeKind::TypeName(plain.into())),
            None => self.undeclared(id, name),
        }
    }

    /// Whether a name is a variable, so that `a.b` is a selection and not a qualified name.
    pub(crate) fn is_variable(&self, name: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        self.locals.iter().any(|(local, _)| **local == *first)
            || self.variables.iter().any(|(variable, _)| **variable == *first)
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool, optional: bool) -> Node {
        if !test
            && !optional
            && let Some(name) = qualified_name(expr)
            && !self.is_variable(&name)
            && let Some(type_) = type_named(&name)
        {
            return self.finish(expr.id, Type::type_of(type_), NodeKind::TypeName(name.into()));
        }
        if let Some(slot) = self.dotted_variable(expr, test || optional) {
            let type_ = self.variables[slot].1.clone();
            return self.finish(expr.id, type_, NodeKind::Variable(slot as u16));
        }
        let node = self.expr(operand);
        let operand_type = self.type_of(node.id);
        let (inner, was_optional) = match &operand_type {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let found = self.field_type(expr.id, &inner, field);
        let type_ = match (test, was_optional || optional) {
            (true, _) => Type::Bool,
            (false, true) => Type::optional(found),
            (false, false) => found,
        };
        let kind = NodeKind::Select { operand: Box::new(node), field: field.into(), test, optional };
        self.finish(expr.id, type_, kind)
    }

    /// A variable whose declared name has a dot, such as `authorizer.requestResource`.
    fn dotted_variable(&self, expr: &Expr, is_modified: bool) -> Option<usize> {
        if is_modified || !self.variables.iter().any(|(variable, _)| variable.contains('.')) {
            return None;
        }
        let name = qualified_name(expr)?;
        let (first, _) = name.split_once('.')?;
        if self.locals.iter().any(|(local, _)| **local == *first) {
            return None;
        }
        self.variables.iter().position(|(variable, _)| **variable == *name)
    }

    fn field_type(&mut self, id: Id, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Object(object) => match object.field(field) {
                Some(found) => found.shape.type_(),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Map(entry) => {
                // Fields of a map are its keys, which must be strings.
                let fits = self.solution.assign(&Type::String, &entry.0);
                if !fits {
                    self.report(id, format!("type '{operand}' does not support field selection"));
                }
                entry.1.clone()
            }
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Error => Type::Error,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Error
            }
        }
    }

    /// Objects and patches of admission policies: maps with special types.
    fn message(&mut self, id: Id, name: &str, fields: &[(Box<str>, Entry)]) -> Node {
        let plain = name.trim_start_matches('.');
        let type_ = match plain {
            _ if !self.has_mutations => return self.undeclared(id, name),
            "Object" => Type::OBJECT,
            "JSONPatch" => Type::JSON_PATCH,
            // The parts of an object are as dynamic as the object itself.
            _ if plain.starts_with("Object.") => Type::Dyn,
            _ => return self.undeclared(id, name),
        };
        let mut nodes = Vec::with_capacity(fields.len());
        for (field, entry) in fields {
            let (value, value_type) = self.entry(entry);
            let is_path = plain == "JSONPatch" && matches!(&**field, "op" | "path" | "from");
            if plain == "JSONPatch" && !is_path && &**field != "value" {
                self.report(id, format!("undefined field '{field}'"));
            } else if is_path && !self.solution.assign(&value_type, &Type::String) {
                let why = format!("expected type of field '{field}' is 'string' but provided type is '{value_type}'");
                self.report(id, why);
            }
            let key = Node { id, kind: NodeKind::Constant(Literal::String(field.clone())) };
            nodes.push((key, value, entry.optional));
        }
        self.finish(id, type_, NodeKind::Map(nodes.into()))
    }

    fn list(&mut self, id: Id, entries: &[Entry]) -> Node {
        let mut nodes = Vec::with_capacity(entries.len());
        let mut joined = None;
        for entry in entries {
            let (node, type_) = self.entry(entry);
            joined = Some(self.join(joined, type_));
            nodes.push((node, entry.optional));
        }
        let items = joined.unwrap_or_else(|| self.solution.fresh());
        self.finish(id, Type::list(items), NodeKind::List(nodes.into()))
    }

    fn map(&mut self, id: Id, entries: &[(Expr, Entry)]) -> Node {
        let mut nodes = Vec::with_capacity(entries.len());
        let (mut keys, mut values) = (None, None);
        for (key, entry) in entries {
            let key = self.expr(key);
            let key_type = self.type_of(key.id);
            let (value, value_type) = self.entry(entry);
            keys = Some(self.join(keys, as_key(key_type)));
            values = Some(self.join(values, value_type));
            nodes.push((key, value, entry.optional));
        }
        let keys = keys.unwrap_or_else(|| self.solution.fresh());
        let values = values.unwrap_or_else(|| self.solution.fresh());
        self.finish(id, Type::map(keys, values), NodeKind::Map(nodes.into()))
    }

    fn entry(&mut self, entry: &Entry) -> (Node, Type) {
        let node = self.expr(&entry.value);
        let type_ = self.type_of(node.id);
        if !entry.optional {
            return (node, type_);
        }
        match type_ {
            Type::Optional(inner) => (node, (*inner).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => (node, Type::Dyn),
            other => {
                self.report(node.id, format!("expected type 'optional_type({other})' but found '{other}'"));
                (node, Type::Error)
            }
        }
    }

    /// The element type after adding an element of type `next`: `dyn` if the types differ.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if same(&before, &next) {
            return before;
        }
        if self.solution.try_assign(&next, &before) {
            return if next.is_dyn() { next } else { before };
        }
        if self.solution.try_assign(&before, &next) {
            return next;
        }
        Type::Dyn
    }
}

/// Only scalars can be keys. Anything else fails at run time, and must not enlarge the type: maps of maps as keys
/// double it at every level.
fn as_key(type_: Type) -> Type {
    match type_ {
        Type::Bool | Type::Int | Type::Uint | Type::String | Type::Double | Type::Error => type_,
        _ => Type::Dyn,
    }
}
