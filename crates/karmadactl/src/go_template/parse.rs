//! The pieces of a Go template into trees.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::functions;
use super::lex::{self, Kind, Number, Piece, Token};

/// Blocks in blocks, and parentheses in parentheses; a stack is finite.
const MAX_DEPTH: usize = 64;

/// The name of the template itself.
pub const MAIN: &str = "output";

/// The trees of a template by their names.
pub type Trees = BTreeMap<String, Vec<Node>>;

/// Where a node is in the source, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of messages: of several fields, that of the second.
    pub at: usize,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Text(String),
    Print(Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
    Template(String, Option<Pipeline>, Place),
    Break,
    Continue,
}

/// Commands whose results go from one to the next, and the variables that take the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    pub variables: Vec<String>,
    pub declares: bool,
    pub commands: Vec<Command>,
}

/// Operands; the first may be a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub operands: Vec<Operand>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub base: Base,
    pub fields: Vec<String>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    Dot,
    Variable(String),
    Literal(Value),
    Nil,
    Function(String),
    Parenthesis(Box<Pipeline>),
}

/// # Errors
/// In Go's words.
pub fn template(text: &str) -> Result<Trees, String> {
    let located = |(at, why): (usize, String)| {
        let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("template: {MAIN}:{line}: {why}")
    };
    let pieces = lex::pieces(text).map_err(located)?;
    let (pieces, trees) = (pieces.into_iter(), Trees::new());
    let mut parser =
        Parser { text, pieces, tokens: Vec::new(), next: 0, end: 0, variables: Vec::new(), depth: 0, ranges: 0, trees };
    parser.main().map_err(|why| located((parser.end, why)))?;
    Ok(parser.trees)
}

struct Parser<'t> {
    text: &'t str,
    pieces: std::vec::IntoIter<Piece>,
    /// The current action.
    tokens: Vec<Token>,
    next: usize,
    /// The end of the current action.
    end: usize,
    /// The names in scope, innermost last.
    variables: Vec<String>,
    depth: usize,
    /// Ranges around the current action.
    ranges: usize,
    trees: Trees,
}

/// The end of a list of nodes.
enum End {
    Block,
    /// The action after `else`, as in `{{else if .x}}`, is not read yet.
    Else,
}

const KEYWORDS: [&str; 10] = ["block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"];

type Parsed<T> = Result<T, String>;

impl Parser<'_> {
    fn main(&mut self) -> Parsed<()> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            if let Some(node) = self.piece(piece, true)? {
                match node {
                    Ok(node) => nodes.push(node),
                    Err(End::Block) => return Err("unexpected {{end}}".into()),
                    Err(End::Else) => return Err("unexpected {{else}}".into()),
                }
            }
        }
        self.add(MAIN.to_owned(), nodes)
    }

    fn word(&self, token: &Token) -> &str {
        &self.text[token.start..token.end]
    }

    /// The next token; `None` at the end of the action.
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn skip_space(&mut self) {
        if self.peek().is_some_and(|token| token.kind == Kind::Space) {
            self.next += 1;
        }
    }

    fn next_token(&mut self) -> Option<Token> {
        self.skip_space();
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    fn unexpected(&self, token: Option<&Token>, context: &str) -> String {
        let shown = match token {
            None => "\"}}\"".to_owned(),
            Some(token) => match self.word(token) {
                word if token.kind == Kind::Dot || KEYWORDS.contains(&word) => format!("<{word}>"),
                word if word.len() > 10 => format!("{:?}...", word.chars().take(10).collect::<String>()),
                word => format!("{word:?}"),
            },
        };
        format!("unexpected {shown} in {context}")
    }

    fn expect_end(&mut self, context: &str) -> Parsed<()> {
        match self.next_token() {
            None => Ok(()),
            token => Err(self.unexpected(token.as_ref(), context)),
        }
    }

    /// The nodes up to `{{end}}` or `{{else}}`.
    fn list(&mut self) -> Parsed<(Vec<Node>, End)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} nested blocks"));
        }
        let mut nodes = Vec::new();
        let end = loop {
            let Some(piece) = self.pieces.next() else { return Err("unexpected EOF".into()) };
            match self.piece(piece, false)? {
                None => {}
                Some(Ok(node)) => nodes.push(node),
                Some(Err(end)) => break end,
            }
        };
        self.depth -= 1;
        Ok((nodes, end))
    }

    /// A node, or the end of a list; `None` for a definition.
    fn piece(&mut self, piece: Piece, is_top: bool) -> Parsed<Option<Result<Node, End>>> {
        let (tokens, end) = match piece {
            Piece::Text(text) => return Ok(Some(Ok(Node::Text(text)))),
            Piece::Action(tokens, end) => (tokens, end),
        };
        (self.tokens, self.next, self.end) = (tokens, 0, end);
        self.skip_space();
        let word = self.peek().filter(|token| token.kind == Kind::Word).map(|token| self.word(token).to_owned());
        let Some(word) = word.filter(|word| KEYWORDS.contains(&word.as_str())) else {
            return Ok(Some(Ok(Node::Print(self.pipeline("command", true)?))));
        };
        if word == "define" && !is_top {
            return Err(self.unexpected(self.peek(), "command"));
        }
        self.next += 1;
        match word.as_str() {
            "define" => self.definition("define clause", None).map(|_| None),
            "end" => self.expect_end("end").map(|()| Some(Err(End::Block))),
            "else" => self.end_of_branch().map(|()| Some(Err(End::Else))),
            "break" | "continue" => {
                let shown = format!("{{{{{word}}}}}");
                self.expect_end(&shown)?;
                match self.ranges {
                    0 => Err(format!("{shown} outside {{{{range}}}}")),
                    _ => Ok(Some(Ok(if word == "break" { Node::Break } else { Node::Continue }))),
                }
            }
            "template" => self.inclusion().map(|node| Some(Ok(node))),
            "block" => self.block().map(|node| Some(Ok(node))),
            control => self.control(control).map(|node| Some(Ok(node))),
        }
    }

    /// After `else`, the action ends, or begins another branch.
    fn end_of_branch(&mut self) -> Parsed<()> {
        self.skip_space();
        match self.peek() {
            Some(token) if matches!(self.word(token), "if" | "with") => Ok(()),
            _ => self.expect_end("else"),
        }
    }

    fn control(&mut self, word: &str) -> Parsed<Node> {
        let scope = self.variables.len();
        let pipeline = self.pipeline(word, true)?;
        self.ranges += usize::from(word == "range");
        let (body, end) = self.list()?;
        self.ranges -= usize::from(word == "range");
        let otherwise = match end {
            End::Block => Vec::new(),
            End::Else => {
                let next = self.peek().map(|token| self.word(token).to_owned());
                match next {
                    // `{{else if}}` shares the `{{end}}`.
                    Some(next) if next == word => {
                        self.next += 1;
                        vec![self.control(word)?]
                    }
                    Some(_) => return Err(self.unexpected(self.peek(), "else")),
                    None => match self.list()? {
                        (nodes, End::Block) => nodes,
                        (_, End::Else) => return Err("expected end; found {{else}}".into()),
                    },
                }
            }
        };
        self.variables.truncate(scope);
        Ok(match word {
            "if" => Node::If(pipeline, body, otherwise),
            "with" => Node::With(pipeline, body, otherwise),
            _ => Node::Range(pipeline, body, otherwise),
        })
    }

    /// The name of a template.
    fn name(&mut self, context: &str) -> Parsed<(String, Token)> {
        match self.next_token() {
            Some(token @ Token { kind: Kind::Text(_), .. }) => match &token.kind {
                Kind::Text(name) => Ok((name.clone(), token)),
                _ => Err(self.unexpected(Some(&token), context)),
            },
            token => Err(self.unexpected(token.as_ref(), context)),
        }
    }

    /// The body of a template, whose name is read here unless it is known.
    fn definition(&mut self, context: &str, name: Option<String>) -> Parsed<String> {
        let name = match name {
            Some(name) => name,
            None => {
                let (name, _) = self.name(context)?;
                self.expect_end(context)?;
                name
            }
        };
        let outer = (std::mem::take(&mut self.variables), std::mem::take(&mut self.ranges));
        let (nodes, end) = self.list()?;
        (self.variables, self.ranges) = outer;
        match end {
            End::Block => self.add(name.clone(), nodes).map(|()| name),
            End::Else => Err(format!("unexpected {{{{else}}}} in {context}")),
        }
    }

    /// An empty template may be replaced.
    fn add(&mut self, name: String, nodes: Vec<Node>) -> Parsed<()> {
        let is_empty =
            |nodes: &[Node]| nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()));
        match self.trees.get(&name) {
            Some(known) if !is_empty(known) && !is_empty(&nodes) => {
                Err(format!("template: multiple definition of template {name:?}"))
            }
            Some(known) if !is_empty(known) => Ok(()),
            _ => {
                self.trees.insert(name, nodes);
                Ok(())
            }
        }
    }

    fn inclusion(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let (name, token) = self.name(context)?;
        self.skip_space();
        let pipeline = match self.peek() {
            None => None,
            Some(_) => Some(self.pipeline(context, true)?),
        };
        Ok(Node::Template(name, pipeline, self.whole_action(token.start)))
    }

    /// The action with its braces, for messages.
    fn whole_action(&self, at: usize) -> Place {
        let start = self.text[..at].rfind("{{").unwrap_or(at);
        let end = self.text[self.end..].find("}}").map_or(self.end, |braces| self.end + braces + 2);
        Place { at, start, end }
    }

    fn block(&mut self) -> Parsed<Node> {
        let context = "block clause";
        let (name, token) = self.name(context)?;
        let pipeline = self.pipeline(context, true)?;
        let place = self.whole_action(token.start);
        let name = self.definition(context, Some(name))?;
        Ok(Node::Template(name, Some(pipeline), place))
    }

    /// Up to the end of the action, or to the closing parenthesis.
    fn pipeline(&mut self, context: &str, is_action: bool) -> Parsed<Pipeline> {
        let (variables, declares) = self.declarations(context)?;
        let mut commands: Vec<Command> = Vec::new();
        loop {
            let token = self.next_token();
            match token.as_ref().map(|token| &token.kind) {
                None if is_action => break,
                Some(Kind::Close) if !is_action => break,
                Some(
                    Kind::Word
                    | Kind::Field
                    | Kind::Dot
                    | Kind::Variable
                    | Kind::Text(_)
                    | Kind::Number(_)
                    | Kind::Open,
                ) if !token.as_ref().is_some_and(|token| KEYWORDS.contains(&self.word(token))) => {
                    self.next -= 1;
                    commands.push(self.command()?);
                }
                _ => return Err(self.unexpected(token.as_ref(), context)),
            }
        }
        if commands.is_empty() {
            return Err(format!("missing value for {context}"));
        }
        for (stage, command) in commands.iter().enumerate().skip(1) {
            if matches!(&command.operands[..], [Operand { base: Base::Dot | Base::Nil | Base::Literal(_), fields, .. }, ..] if fields.is_empty())
            {
                return Err(format!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(Pipeline { variables, declares, commands })
    }

    fn declarations(&mut self, context: &str) -> Parsed<(Vec<String>, bool)> {
        let mut names = Vec::new();
        loop {
            self.skip_space();
            let before = self.next;
            let name = match self.peek() {
                Some(token) if token.kind == Kind::Variable => self.word(token)[1..].to_owned(),
                _ => return Ok((names, true)),
            };
            self.next += 1;
            let sign = self.next_token();
            match sign.as_ref().map(|sign| &sign.kind) {
                Some(kind @ (Kind::Declare | Kind::Assign)) => {
                    let declares = *kind == Kind::Declare;
                    names.push(name);
                    self.variables.extend(names.iter().cloned());
                    return Ok((names, declares));
                }
                Some(Kind::Sign) if sign.as_ref().is_some_and(|sign| self.word(sign) == ",") => {
                    names.push(name);
                    if context != "range" || names.len() > 1 {
                        return Err(format!("too many declarations in {context}"));
                    }
                    self.skip_space();
                    if self.peek().is_some_and(|token| token.kind != Kind::Variable) {
                        return Err("range can only initialize variables".into());
                    }
                }
                _ => {
                    self.next = before;
                    return Ok((names, true));
                }
            }
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut operands: Vec<Operand> = Vec::new();
        loop {
            self.skip_space();
            operands.extend(self.operand()?);
            match self.peek().map(|token| &token.kind) {
                Some(Kind::Space) => {}
                None | Some(Kind::Close) => break,
                Some(Kind::Pipe) => {
                    self.next += 1;
                    break;
                }
                _ => return Err(self.unexpected(self.peek(), "operand")),
            }
        }
        match (operands.first(), operands.last()) {
            (Some(first), Some(last)) => {
                let place = Place { at: first.place.start, start: first.place.start, end: last.place.end };
                Ok(Command { operands, place })
            }
            _ => Err("empty command".into()),
        }
    }

    /// A term and the fields that follow it.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(token) = self.peek().cloned() else { return Ok(None) };
        self.next += 1;
        let mut fields = Vec::new();
        let base = match &token.kind {
            Kind::Field => {
                fields.push(self.word(&token)[1..].to_owned());
                Base::Dot
            }
            Kind::Dot => Base::Dot,
            Kind::Variable => {
                let name = self.word(&token)[1..].to_owned();
                if !name.is_empty() && !self.variables.contains(&name) {
                    return Err(format!("undefined variable \"${name}\""));
                }
                Base::Variable(name)
            }
            Kind::Text(text) => Base::Literal(json!(text)),
            Kind::Number(Number::Integer(number)) => Base::Literal(json!(number)),
            Kind::Number(Number::Float(number)) => Base::Literal(json!(number)),
            Kind::Word => self.function(&token)?,
            Kind::Open => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(format!("more than {MAX_DEPTH} nested parentheses"));
                }
                let inner = self.pipeline("parenthesized pipeline", false)?;
                self.depth -= 1;
                Base::Parenthesis(Box::new(inner))
            }
            _ => {
                self.next -= 1;
                return Ok(None);
            }
        };
        let takes_fields = !matches!(base, Base::Literal(_) | Base::Nil) && token.kind != Kind::Dot;
        let mut place = Place { at: token.start, start: token.start, end: self.tokens[self.next - 1].end };
        let own = fields.len();
        while let Some(field) = self.peek().filter(|token| token.kind == Kind::Field).cloned() {
            if !takes_fields {
                return Err(format!("unexpected . after term {:?}", self.word(&token)));
            }
            if fields.len() == own {
                place.at = field.start;
            }
            fields.push(self.word(&field)[1..].to_owned());
            place.end = field.end;
            self.next += 1;
        }
        Ok(Some(Operand { base, fields, place }))
    }

    fn function(&self, token: &Token) -> Parsed<Base> {
        match self.word(token) {
            "true" => Ok(Base::Literal(json!(true))),
            "false" => Ok(Base::Literal(json!(false))),
            "nil" => Ok(Base::Nil),
            word if KEYWORDS.contains(&word) => Err(self.unexpected(Some(token), "operand")),
            word if functions::arity(word).is_some() => Ok(Base::Function(word.to_owned())),
            word => Err(format!("function {word:?} not defined")),
        }
    }
}
