//! The syntax tree. Macros are represented as folds over a range, not as the expansion into calls of the specification.

/// The number of an expression in its tree; an index into positions and types.
pub type Id = u32;

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub id: Id,
    pub kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Literal(Literal),
    /// A leading dot, for names resolved outside every scope, is part of the name.
    Ident(Box<str>),
    Select {
        operand: Box<Expr>,
        field: Box<str>,
        /// `has(a.b)`.
        test: bool,
        /// `a.?b`.
        optional: bool,
    },
    /// Operators are calls of functions named `_+_`, `!_`, `_[_]`, `_?_:_`…
    Call {
        function: Box<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Entry>),
    Map(Vec<(Expr, Entry)>),
    /// `Name{field: value}`.
    Message {
        name: Box<str>,
        fields: Vec<(Box<str>, Entry)>,
    },
    Fold(Box<Fold>),
    /// `cel.bind(name, value, body)`.
    Bind {
        name: Box<str>,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `a.optMap(v, body)`, or `optFlatMap` where `flat`.
    OptionalMap {
        operand: Box<Expr>,
        name: Box<str>,
        body: Box<Expr>,
        flat: bool,
    },
    /// A syntax error; it never reaches the checker.
    Malformed,
}

/// An element of a list or a value of a map; `optional` if it is written with `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub value: Expr,
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `filter(x, predicate)`.
    Filter,
    /// `map(x, [predicate,] transform)` and `transformList(i, x, [predicate,] transform)`.
    List,
    /// `transformMap(k, v, [predicate,] transform)`.
    Map,
    /// `transformMapEntry(k, v, [predicate,] {key: value})`.
    MapEntry,
}

/// A macro over the elements of a list or map.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub kind: FoldKind,
    pub range: Expr,
    /// Index or key; with a single variable, it is bound to list elements and map keys.
    pub first: Box<str>,
    pub second: Option<Box<str>>,
    pub predicate: Option<Expr>,
    /// The transform; `None` for macros with a predicate only.
    pub transform: Option<Expr>,
}

/// A parsed expression with the position of every node, in characters from the start of the source.
#[derive(Clone, Debug)]
pub struct Ast {
    pub root: Expr,
    pub positions: Vec<u32>,
}
