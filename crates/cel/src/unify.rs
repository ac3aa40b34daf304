//! Resolves type parameters by unification.

use std::sync::Arc;

use crate::types::Type;

/// The type variables of one expression.
#[derive(Debug, Default)]
pub struct Solution {
    bindings: Vec<Option<Type>>,
    /// Previous bindings, which undo a failed attempt at the cost of its own changes.
    undo: Vec<(u32, Option<Type>)>,
}

/// A state of a [`Solution`] to return to.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    bindings: usize,
    undo: usize,
}

impl Solution {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { bindings: self.bindings.len(), undo: self.undo.len() }
    }

    pub fn roll_back(&mut self, to: Checkpoint) {
        while self.undo.len() > to.undo {
            let Some((number, before)) = self.undo.pop() else { return };
            if let Some(slot) = self.bindings.get_mut(number as usize) {
                *slot = before;
            }
        }
        self.bindings.truncate(to.bindings);
    }

    /// As [`Solution::assign`]; a failed attempt changes nothing.
    pub fn try_assign(&mut self, from: &Type, to: &Type) -> bool {
        let before = self.checkpoint();
        let fits = self.assign(from, to);
        if !fits {
            self.roll_back(before);
        }
        fits
    }

    pub fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Param(self.bindings.len() as u32 - 1)
    }

    /// A declared type with its parameters, numbered from zero, replaced by variables from `base` on.
    pub fn instantiate(type_: &Type, base: u32) -> Type {
        map_type(type_, &|number| Type::Param(number + base))
    }

    pub fn reserve(&mut self, count: u32) -> u32 {
        let base = self.bindings.len() as u32;
        self.bindings.extend((0..count).map(|_| None));
        base
    }

    /// The type with all solved variables replaced. Unsolved ones stay, or become `dyn`.
    pub fn resolve(&self, type_: &Type, unsolved_is_dyn: bool) -> Type {
        map_type(type_, &|number| match self.bindings.get(number as usize) {
            Some(Some(bound)) => self.resolve(bound, unsolved_is_dyn),
            _ if unsolved_is_dyn => Type::Dyn,
            _ => Type::Param(number),
        })
    }

    fn bound(&self, type_: &Type) -> Type {
        let mut type_ = type_.clone();
        while let Type::Param(number) = type_ {
            match self.bindings.get(number as usize) {
                Some(Some(next)) => type_ = next.clone(),
                _ => break,
            }
        }
        type_
    }

    /// Whether `from` is assignable to `to`; solves variables. After a failure the solution may have changed: return to
    /// a checkpoint.
    pub fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let (plain_from, plain_to) = (self.bound(from), self.bound(to));
        match (&plain_from, &plain_to) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (_, Type::Param(number)) => self.bind(*number, &plain_from),
            (Type::Param(number), _) => self.bind(*number, &plain_to),
            (a, b) if a.is_dyn() || b.is_dyn() => {
                self.widen(to, &plain_from);
                true
            }
            (Type::Null, b) if nullable(b) => true,
            (a, Type::Null) if nullable(a) => {
                self.widen(to, &plain_from);
                true
            }
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a), Type::Map(b)) => self.assign(&a.0, &b.0) && self.assign(&a.1, &b.1),
            // Values of type `type` are comparable with one another.
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => same_leaf(a, b),
        }
    }

    /// Widens a variable that is bound to a special type to the general type to unify.
    fn widen(&mut self, to: &Type, type_: &Type) {
        if let Type::Param(number) = to
            && let Some(slot) = self.bindings.get_mut(*number as usize)
            && matches!(slot, Some(bound) if !bound.is_dyn() && !matches!(bound, Type::Param(_)))
            && (type_.is_dyn() || matches!(slot, Some(Type::Null)))
        {
            self.undo.push((*number, slot.replace(type_.clone())));
        }
    }

    fn bind(&mut self, number: u32, type_: &Type) -> bool {
        if self.mentions(type_, number) {
            return false;
        }
        match self.bindings.get_mut(number as usize) {
            Some(slot) => {
                self.undo.push((number, slot.replace(type_.clone())));
                true
            }
            None => false,
        }
    }

    fn mentions(&self, type_: &Type, number: u32) -> bool {
        match self.bound(type_) {
            Type::Param(found) => found == number,
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.mentions(&inner, number),
            Type::Map(entry) => self.mentions(&entry.0, number) || self.mentions(&entry.1, number),
            _ => false,
        }
    }
}

fn nullable(type_: &Type) -> bool {
    matches!(
        type_,
        Type::Null | Type::Object(_) | Type::Duration | Type::Timestamp | Type::Opaque(_) | Type::Optional(_)
    )
}

/// Equality of types without components.
fn same_leaf(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Opaque(a), Type::Opaque(b)) => a == b,
        (Type::Object(a), Type::Object(b)) => Arc::ptr_eq(a, b),
        (Type::List(_) | Type::Map(_) | Type::Optional(_) | Type::Type(_) | Type::Opaque(_) | Type::Object(_), _) => {
            false
        }
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Whether two solved types are the same.
pub fn same(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) | (Type::Type(a), Type::Type(b)) => {
            same(a, b)
        }
        (Type::Map(a), Type::Map(b)) => same(&a.0, &b.0) && same(&a.1, &b.1),
        (Type::Param(a), Type::Param(b)) => a == b,
        (a, b) => same_leaf(a, b),
    }
}

fn map_type(type_: &Type, param: &dyn Fn(u32) -> Type) -> Type {
    match type_ {
        Type::Param(number) => param(*number),
        Type::List(inner) => Type::list(map_type(inner, param)),
        Type::Optional(inner) => Type::optional(map_type(inner, param)),
        Type::Type(inner) => Type::type_of(map_type(inner, param)),
        Type::Map(entry) => Type::map(map_type(&entry.0, param), map_type(&entry.1, param)),
        other => other.clone(),
    }
}
