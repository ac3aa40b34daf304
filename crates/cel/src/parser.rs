//! A recursive-descent parser. Depth and size are bounded, which bounds every later walk over the tree.

use crate::ast::{Ast, Expr, ExprKind, Id};
use crate::issues::Issues;
use crate::lexer::{Spanned, Token, tokens};

/// The maximum number of characters of an expression (cel-go's default).
pub const MAX_SOURCE: usize = 100_000;

/// The maximum depth of the tree (cel-go's default). Walks use at most a few KiB of stack per level.
pub const MAX_DEPTH: usize = 250;

/// Parses `source`, including macros.
///
/// # Errors
/// The errors found before parsing stops.
pub fn parse(source: &str) -> Result<Ast, Issues> {
    let mut issues = Issues::new(source);
    let size = source.chars().count();
    if size > MAX_SOURCE {
        let mut issues = Issues::new("");
        issues.report(0, format!("expression code point size exceeds limit: size: {size}, limit {MAX_SOURCE}"));
        return Err(issues);
    }
    let tokens = tokens(source, &mut issues);
    let mut parser =
        Parser { tokens, at: 0, depth: 0, positions: Vec::new(), depths: Vec::new(), issues, failed: false };
    let root = parser.expression();
    if !parser.failed && parser.token() != &Token::End {
        let found = parser.describe();
        let one_too_many = parser.tokens.get(parser.at + 1).is_some_and(|next| next.token == Token::End);
        let what = if one_too_many { "extraneous" } else { "mismatched" };
        parser.syntax_error(&format!("{what} input '{found}' expecting <EOF>"));
    }
    if parser.issues.is_empty() { Ok(Ast { root, positions: parser.positions }) } else { Err(parser.issues) }
}

pub(crate) const PRIMARY: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Reserved words: not identifiers in an expression, and fields only in escaped form.
pub(crate) const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

/// Binary operators by precedence, weakest first; `&&` and `||` have their own levels.
const RELATIONS: [(&str, &str); 6] =
    [("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_")];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];

pub(crate) struct Parser {
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
    pub(crate) positions: Vec<u32>,
    /// The depth below each node, which bounds chains that are built without recursion.
    depths: Vec<u16>,
    issues: Issues,
    failed: bool,
}

impl Parser {
    pub(crate) fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].token
    }

    pub(crate) fn position(&self) -> u32 {
        self.tokens[self.at.min(self.tokens.len() - 1)].position
    }

    pub(crate) fn describe(&self) -> String {
        match self.token() {
            Token::End => "<EOF>".to_owned(),
            _ => self.tokens[self.at].text.to_string(),
        }
    }

    pub(crate) fn advance(&mut self) {
        if self.token() != &Token::End {
            self.at += 1;
        }
    }

    /// After the first syntax error the rest is skipped: later errors are mostly consequences.
    pub(crate) fn syntax_error(&mut self, what: &str) {
        if !self.failed {
            let position = self.position();
            self.issues.report(position, format!("Syntax error: {what}"));
        }
        self.failed = true;
        self.at = self.tokens.len() - 1;
    }

    /// Reports an error that does not stop parsing.
    pub(crate) fn report(&mut self, position: u32, what: &str) {
        self.issues.report(position, what);
    }

    pub(crate) fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.token(), Token::Symbol(found) if *found == symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn expect(&mut self, symbol: &str) {
        if self.accept(symbol) {
            return;
        }
        let found = self.describe();
        // Upstream's parser inserts a token if the rest is an expression then.
        let is_last = self.token() == &Token::End && matches!(symbol, ")" | "]" | "}") && self.open_brackets() == 1;
        match is_last {
            true => self.syntax_error(&format!("missing '{symbol}' at '{found}'")),
            false => self.syntax_error(&format!("mismatched input '{found}' expecting '{symbol}'")),
        }
    }

    /// Expects the end of a literal after one of its items.
    pub(crate) fn expect_end_of_items(&mut self, symbol: &str) {
        if !self.accept(symbol) {
            let found = self.describe();
            self.syntax_error(&format!("mismatched input '{found}' expecting {{'{symbol}', ','}}"));
        }
    }

    /// Whether a literal ends after a comma; anything that begins no item is an error.
    pub(crate) fn ends_after_comma(&mut self, symbol: &str) -> bool {
        let is_item = !matches!(self.token(), Token::End | Token::Symbol(")" | "]" | "}" | ","));
        if !is_item {
            self.expect(symbol);
        }
        !is_item
    }

    fn open_brackets(&self) -> usize {
        let mut open = 0usize;
        for spanned in &self.tokens[..self.at.min(self.tokens.len())] {
            match spanned.token {
                Token::Symbol("(" | "[" | "{") => open += 1,
                Token::Symbol(")" | "]" | "}") => open = open.saturating_sub(1),
                _ => {}
            }
        }
        open
    }

    /// Builds a node. `below` is the depth of its deepest child.
    pub(crate) fn node(&mut self, position: u32, kind: ExprKind, below: u16) -> Expr {
        let id = self.positions.len() as Id;
        self.positions.push(position);
        let depth = below.saturating_add(1);
        self.depths.push(depth);
        if usize::from(depth) > MAX_DEPTH {
            self.too_deep();
            return Expr { id, kind: ExprKind::Malformed };
        }
        Expr { id, kind }
    }

    fn too_deep(&mut self) {
        if !self.failed {
            self.issues.report(0, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        }
        self.failed = true;
        self.at = self.tokens.len() - 1;
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    pub(crate) fn place(&self, expr: &Expr) -> u32 {
        self.positions.get(expr.id as usize).copied().unwrap_or(0)
    }

    pub(crate) fn below(&self, expr: &Expr) -> u16 {
        self.depths.get(expr.id as usize).copied().unwrap_or(0)
    }

    pub(crate) fn deepest<'a>(&self, exprs: impl IntoIterator<Item = &'a Expr>) -> u16 {
        exprs.into_iter().map(|expr| self.below(expr)).max().unwrap_or(0)
    }

    pub(crate) fn call(&mut self, position: u32, function: &str, args: Vec<Expr>) -> Expr {
        let below = self.deepest(&args);
        self.node(position, ExprKind::Call { function: function.into(), target: None, args }, below)
    }

    pub(crate) fn expression(&mut self) -> Expr {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.too_deep();
        }
        let expr = if self.failed { self.node(0, ExprKind::Malformed, 0) } else { self.ternary() };
        self.depth -= 1;
        expr
    }

    fn ternary(&mut self) -> Expr {
        let condition = self.logical("||", "_||_", |parser| parser.logical("&&", "_&&_", Self::relation));
        let position = self.position();
        if !self.accept("?") {
            return condition;
        }
        let yes = self.logical("||", "_||_", |parser| parser.logical("&&", "_&&_", Self::relation));
        self.expect(":");
        let no = self.expression();
        self.call(position, "_?_:_", vec![condition, yes, no])
    }

    /// A chain of `&&` or `||` is one call with many arguments: the operands commute, and long chains stay shallow.
    fn logical(&mut self, symbol: &str, function: &str, operand: impl Fn(&mut Self) -> Expr) -> Expr {
        let first = operand(self);
        let position = self.position();
        let mut terms = vec![first];
        while self.accept(symbol) {
            terms.push(operand(self));
        }
        match terms.pop() {
            Some(only) if terms.is_empty() => only,
            last => {
                terms.extend(last);
                self.call(position, function, terms)
            }
        }
    }

    fn relation(&mut self) -> Expr {
        let mut left = self.binary(&SUMS, |parser| parser.binary(&PRODUCTS, Self::unary));
        loop {
            let position = self.position();
            let operator = match self.token() {
                Token::Symbol(symbol) => RELATIONS.iter().find(|(text, _)| text == symbol).map(|(_, name)| *name),
                Token::Ident(name) if &**name == "in" => Some("@in"),
                _ => None,
            };
            let Some(operator) = operator else { return left };
            self.advance();
            let right = self.binary(&SUMS, |parser| parser.binary(&PRODUCTS, Self::unary));
            left = self.call(position, operator, vec![left, right]);
        }
    }

    fn binary(&mut self, operators: &[(&str, &str)], operand: impl Fn(&mut Self) -> Expr) -> Expr {
        let mut left = operand(self);
        loop {
            let position = self.position();
            let Token::Symbol(symbol) = *self.token() else { return left };
            let Some((_, name)) = operators.iter().find(|(text, _)| *text == symbol) else { return left };
            self.advance();
            let right = operand(self);
            left = self.call(position, name, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Expr {
        let position = self.position();
        let symbol = match self.token() {
            Token::Symbol(symbol @ ("!" | "-")) => *symbol,
            _ => return self.member(),
        };
        let mut count = 0;
        while self.accept(symbol) {
            count += 1;
        }
        if symbol == "-" && count == 1 && matches!(self.token(), Token::Int(_) | Token::Float(_)) {
            let literal = self.number(true, position);
            return self.postfix(literal);
        }
        let operand = self.member();
        // Pairs of the same operator cancel out.
        if count % 2 == 0 {
            return operand;
        }
        self.call(position, if symbol == "!" { "!_" } else { "-_" }, vec![operand])
    }

    fn member(&mut self) -> Expr {
        let primary = self.primary();
        self.postfix(primary)
    }
}
