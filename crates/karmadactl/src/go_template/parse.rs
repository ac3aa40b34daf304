//! The pieces of a Go template into a tree.

use serde_json::{Value, json};

use super::functions;
use super::lex::{self, Piece, Token};

/// Blocks in blocks, and parentheses in parentheses; a stack is finite.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Text(String),
    Print(Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
    Break,
    Continue,
}

/// Commands whose results go from one to the next, and the variables that take the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    pub variables: Vec<String>,
    pub declares: bool,
    pub commands: Vec<Command>,
}

/// Operands; the first may be a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Command(pub Vec<Operand>);

#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub base: Base,
    pub fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    Dot,
    Variable(String),
    Literal(Value),
    Function(String),
    Parenthesis(Box<Pipeline>),
}

/// # Errors
/// In Go's words.
pub fn template(text: &str) -> Result<Vec<Node>, String> {
    let located = |why: String| format!("template: output:1: {why}");
    let pieces = lex::pieces(text).map_err(located)?;
    let mut parser = Parser { pieces: pieces.into_iter(), variables: vec![String::new()], depth: 0 };
    let (nodes, end) = parser.block().map_err(located)?;
    match end {
        End::Eof => Ok(nodes),
        End::Else(_) => Err(located("unexpected {{else}}".into())),
        End::Block => Err(located("unexpected {{end}}".into())),
    }
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    /// The names in scope, innermost last.
    variables: Vec<String>,
    depth: usize,
}

/// The end of a block.
enum End {
    Eof,
    Block,
    /// With the action after `else`, as in `{{else if .x}}`.
    Else(Vec<Token>),
}

impl Parser {
    fn block(&mut self) -> Result<(Vec<Node>, End), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} nested blocks"));
        }
        let scope = self.variables.len();
        let mut nodes = Vec::new();
        let end = loop {
            let Some(piece) = self.pieces.next() else { break End::Eof };
            let tokens = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(tokens) => tokens,
            };
            match tokens.first() {
                Some(Token::Word(word)) if word == "end" => break End::Block,
                Some(Token::Word(word)) if word == "else" => break End::Else(tokens[1..].to_vec()),
                Some(Token::Word(word)) if word == "break" => nodes.push(Node::Break),
                Some(Token::Word(word)) if word == "continue" => nodes.push(Node::Continue),
                Some(Token::Word(word)) if matches!(word.as_str(), "if" | "with" | "range") => {
                    nodes.push(self.control(&word.clone(), &tokens[1..])?);
                }
                _ => nodes.push(Node::Print(self.pipeline(&tokens)?)),
            }
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn control(&mut self, word: &str, tokens: &[Token]) -> Result<Node, String> {
        let scope = self.variables.len();
        let pipeline = self.pipeline(tokens)?;
        let (body, end) = self.block()?;
        let otherwise = match end {
            End::Eof => return Err("unexpected EOF".into()),
            End::Block => Vec::new(),
            End::Else(tokens) => match tokens.first() {
                None => match self.block()? {
                    (nodes, End::Block) => nodes,
                    _ => return Err("unexpected EOF".into()),
                },
                // `{{else if}}` shares the `{{end}}`.
                Some(Token::Word(next)) if next == "if" || next == "with" => {
                    vec![self.control(&next.clone(), &tokens[1..])?]
                }
                Some(_) => return Err("unexpected operand in else".into()),
            },
        };
        self.variables.truncate(scope);
        Ok(match word {
            "if" => Node::If(pipeline, body, otherwise),
            "with" => Node::With(pipeline, body, otherwise),
            _ => Node::Range(pipeline, body, otherwise),
        })
    }

    fn pipeline(&mut self, tokens: &[Token]) -> Result<Pipeline, String> {
        let mut pipeline = Pipeline::default();
        let mut rest = tokens;
        let sign = tokens.iter().position(|token| matches!(token, Token::Declare | Token::Assign));
        if let Some(at) = sign {
            pipeline.declares = tokens[at] == Token::Declare;
            for token in &tokens[..at] {
                match token {
                    Token::Variable(name) => pipeline.variables.push(name.clone()),
                    Token::Comma => {}
                    _ => return Err("unexpected operand before assignment".into()),
                }
            }
            rest = &tokens[at + 1..];
        }
        let commands = self.commands(rest, 0)?;
        if commands.is_empty() {
            return Err("missing value for command".into());
        }
        if pipeline.declares {
            self.variables.extend(pipeline.variables.iter().cloned());
        }
        pipeline.commands = commands;
        Ok(pipeline)
    }

    fn commands(&self, tokens: &[Token], depth: usize) -> Result<Vec<Command>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} nested parentheses"));
        }
        let mut commands = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        let mut at = 0;
        // Whether fields that follow are of the operand before them.
        let mut joins = false;
        while let Some(token) = tokens.get(at) {
            at += 1;
            let base = match token {
                Token::Pipe => {
                    commands.push(Command(std::mem::take(&mut operands)));
                    joins = false;
                    continue;
                }
                Token::Field(names) => {
                    match operands.last_mut().filter(|_| joins) {
                        Some(before) => before.fields.extend(names.iter().cloned()),
                        None => operands.push(Operand { base: Base::Dot, fields: names.clone() }),
                    }
                    joins = false;
                    continue;
                }
                Token::Word(word) if word.is_empty() => {
                    joins = false;
                    continue;
                }
                Token::Word(word) => self.word(word)?,
                Token::Variable(name) if self.variables.contains(name) => Base::Variable(name.clone()),
                Token::Variable(name) => return Err(format!("undefined variable \"${name}\"")),
                Token::Text(text) => Base::Literal(json!(text)),
                Token::Number(number) => Base::Literal(number_value(*number)),
                Token::Open => {
                    let end = close(&tokens[at..]).ok_or("unclosed left paren")?;
                    let inner = self.commands(&tokens[at..at + end], depth + 1)?;
                    at += end + 1;
                    Base::Parenthesis(Box::new(Pipeline { commands: inner, ..Pipeline::default() }))
                }
                Token::Close => return Err("unexpected right paren".into()),
                Token::Declare | Token::Assign | Token::Comma => return Err("unexpected sign in operand".into()),
            };
            joins = matches!(base, Base::Variable(_) | Base::Parenthesis(_));
            operands.push(Operand { base, fields: Vec::new() });
        }
        if !operands.is_empty() {
            commands.push(Command(operands));
        }
        Ok(commands)
    }

    fn word(&self, word: &str) -> Result<Base, String> {
        match word {
            "true" => Ok(Base::Literal(json!(true))),
            "false" => Ok(Base::Literal(json!(false))),
            "nil" => Ok(Base::Literal(Value::Null)),
            word if functions::is_known(word) => Ok(Base::Function(word.to_owned())),
            word => Err(format!("function {word:?} not defined")),
        }
    }
}

/// Whole numbers stay whole.
fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 { json!(number as i64) } else { json!(number) }
}

/// The position of the parenthesis that closes the one before the tokens.
fn close(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    for (position, token) in tokens.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close if depth == 0 => return Some(position),
            Token::Close => depth -= 1,
            _ => {}
        }
    }
    None
}
