//! The parser for literals, names, calls and selections.

use crate::ast::{Entry, Expr, ExprKind, Literal};
use crate::lexer::Token;
use crate::macros;
use crate::parser::{PRIMARY, Parser, RESERVED};

impl Parser {
    /// Selections, indexes and calls after an operand.
    pub(crate) fn postfix(&mut self, mut operand: Expr) -> Expr {
        loop {
            if self.failed() {
                return operand;
            }
            let position = self.position();
            if self.accept(".") {
                let optional = self.accept("?");
                let Some(name) = self.field_name() else { return operand };
                let call_position = self.position();
                if !optional && self.accept("(") {
                    let args = self.arguments(")");
                    operand = macros::call(self, call_position, Some(operand), &name, args);
                } else {
                    let below = self.below(&operand);
                    let kind = ExprKind::Select { operand: Box::new(operand), field: name, test: false, optional };
                    operand = self.node(position, kind, below);
                }
            } else if self.accept("[") {
                let function = if self.accept("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression();
                self.expect("]");
                operand = self.call(position, function, vec![operand, index]);
            } else if matches!(self.token(), Token::Symbol("{")) {
                let Some(name) = qualified_name(&operand) else { return operand };
                self.advance();
                let fields = self.message_fields();
                let below = fields.iter().map(|(_, entry)| self.below(&entry.value)).max().unwrap_or(0);
                operand = self.node(position, ExprKind::Message { name: name.into(), fields }, below);
            } else {
                return operand;
            }
        }
    }

    fn field_name(&mut self) -> Option<Box<str>> {
        let name = match self.token() {
            Token::Ident(name) if !matches!(&**name, "in" | "true" | "false" | "null") => name.clone(),
            Token::QuotedIdent(name) => name.clone(),
            token => {
                let is_literal = matches!(token, Token::Ident(name) if **name != *"in");
                let found = self.describe();
                self.syntax_error(&match is_literal {
                    true => format!("mismatched input '{found}' expecting IDENTIFIER"),
                    false => format!("no viable alternative at input '.{found}'"),
                });
                return None;
            }
        };
        self.advance();
        Some(name)
    }

    /// Comma-separated expressions up to and including `end`.
    fn arguments(&mut self, end: &str) -> Vec<Expr> {
        let mut args = Vec::new();
        if self.accept(end) {
            return args;
        }
        loop {
            args.push(self.expression());
            if !self.accept(",") {
                self.expect(end);
                return args;
            }
        }
    }

    fn message_fields(&mut self) -> Vec<(Box<str>, Entry)> {
        let mut fields = Vec::new();
        if self.accept(",") {
            self.expect("}");
            return fields;
        }
        while !self.failed() && !self.accept("}") {
            let optional = self.accept("?");
            let Some(name) = self.field_name() else { return fields };
            self.expect(":");
            let value = self.expression();
            fields.push((name, Entry { value, optional }));
            if !self.accept(",") {
                self.expect_end_of_items("}");
                return fields;
            }
            if self.ends_after_comma("}") {
                return fields;
            }
        }
        fields
    }

    pub(crate) fn primary(&mut self) -> Expr {
        let position = self.position();
        match self.token().clone() {
            Token::Ident(name) => self.name_or_call(position, &name),
            Token::Symbol(".") => {
                self.advance();
                match self.token().clone() {
                    Token::Ident(name) => self.name_or_call(position, &format!(".{name}")),
                    _ => self.no_operand(),
                }
            }
            Token::Symbol("(") => {
                self.advance();
                let inner = self.expression();
                self.expect(")");
                inner
            }
            Token::Symbol("[") => self.list(position),
            Token::Symbol("{") => self.map(position),
            Token::Int(_) | Token::Uint(_) | Token::Float(_) => self.number(false, position),
            Token::String(text) => self.literal(position, Literal::String(text)),
            Token::Bytes(data) => self.literal(position, Literal::Bytes(data)),
            Token::QuotedIdent(_) | Token::Symbol(_) | Token::End => self.no_operand(),
        }
    }

    fn no_operand(&mut self) -> Expr {
        let found = self.describe();
        self.syntax_error(&format!("mismatched input '{found}' expecting {PRIMARY}"));
        self.node(0, ExprKind::Malformed, 0)
    }

    fn literal(&mut self, position: u32, literal: Literal) -> Expr {
        self.advance();
        self.node(position, ExprKind::Literal(literal), 0)
    }

    pub(crate) fn number(&mut self, negative: bool, position: u32) -> Expr {
        let (literal, what) = match self.token() {
            Token::Int(text) => (int(text, negative).map(Literal::Int), "int"),
            Token::Uint(text) => (uint(text).map(Literal::Uint), "uint"),
            Token::Float(text) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                (number.map(|number| Literal::Double(if negative { -number } else { number })), "double")
            }
            _ => return self.no_operand(),
        };
        match literal {
            Some(literal) => self.literal(position, literal),
            None => {
                self.report(position, &format!("invalid {what} literal"));
                self.literal(position, Literal::Int(0))
            }
        }
    }

    fn name_or_call(&mut self, position: u32, name: &str) -> Expr {
        match name {
            "true" | "false" => return self.literal(position, Literal::Bool(name == "true")),
            "null" => return self.literal(position, Literal::Null),
            "in" => return self.no_operand(),
            _ => {}
        }
        self.advance();
        let call_position = self.position();
        if self.accept("(") {
            let args = self.arguments(")");
            return macros::call(self, call_position, None, name, args);
        }
        if RESERVED.contains(&name.trim_start_matches('.')) {
            self.report(position, &format!("reserved identifier: {name}"));
        }
        self.node(position, ExprKind::Ident(name.into()), 0)
    }

    fn list(&mut self, position: u32) -> Expr {
        self.advance();
        let mut entries = Vec::new();
        let is_empty = self.accept(",");
        if is_empty {
            self.expect("]");
        }
        while !is_empty && !self.failed() && !self.accept("]") {
            let optional = self.accept("?");
            entries.push(Entry { value: self.expression(), optional });
            if !self.accept(",") {
                self.expect_end_of_items("]");
                break;
            }
            if self.ends_after_comma("]") {
                break;
            }
        }
        let below = self.deepest(entries.iter().map(|entry| &entry.value));
        self.node(position, ExprKind::List(entries), below)
    }

    fn map(&mut self, position: u32) -> Expr {
        self.advance();
        let mut entries = Vec::new();
        let is_empty = self.accept(",");
        if is_empty {
            self.expect("}");
        }
        while !is_empty && !self.failed() && !self.accept("}") {
            let optional = self.accept("?");
            let key = self.expression();
            self.expect(":");
            entries.push((key, Entry { value: self.expression(), optional }));
            if !self.accept(",") {
                self.expect_end_of_items("}");
                break;
            }
            if self.ends_after_comma("}") {
                break;
            }
        }
        let below = self.deepest(entries.iter().flat_map(|(key, entry)| [key, &entry.value]));
        self.node(position, ExprKind::Map(entries), below)
    }
}

fn int(text: &str, negative: bool) -> Option<i64> {
    let magnitude = uint(text)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn uint(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `a.b.c` as one name, if the expression consists of names and dots only.
pub fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select { operand, field, test: false, optional: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}
