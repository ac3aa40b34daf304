//! Documents from the events of the parser: anchors, merges, duplicate keys.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

use super::YamlError;
use super::scalar::{Booleans, Scalar, Type};
use crate::strict::MAX_FINDINGS;

/// Containers in containers. The deepest known manifests (generated CRDs) have about forty, and what reads the result
/// recurses. JSON, which has its own decoder, may nest 128 deep.
const MAX_DEPTH: usize = 64;
/// A body is at most 3 MiB, and the smallest node takes two bytes of it.
const MAX_NODES: usize = 1_500_000;
/// What anchors keep and aliases add, in bytes: a thousand copies of a large container, and harmless for the memory.
const MAX_COPIED: usize = 16 << 20;
/// What a node takes in memory without its text.
const NODE: usize = 64;
const NAMESPACE: &str = "tag:yaml.org,2002:";

/// A document and its repeated keys, of which the last counts: `line 7: key "k" already set in map`.
pub(super) struct Document {
    pub value: Value,
    pub repeated: Vec<String>,
}

/// Reads a text that has one document; without one it is null.
pub(super) fn document(text: &str, booleans: Booleans) -> Result<Document, YamlError> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        // JSON keys may be longer than YAML's limit for simple keys, and JSON is valid YAML.
        simple_key_max_lookahead: 64 * 1024,
        // Names of anchors, for the messages about their aliases.
        emit_unresolved_aliases: true,
    };
    options.set_emit_comments(false);
    let mut reader = Reader { booleans, ..Reader::default() };
    for event in Parser::new_from_str_with_options(text, options) {
        let (mut event, span) = event.map_err(|error| scan_error(&error))?;
        let line = span.start.line();
        drop_line_break_beyond_end(&mut event, span.slice(text), text);
        if let Event::Alias(anchor) = event {
            let name = span.slice(text).and_then(|alias| alias.strip_prefix('*')).unwrap_or_default();
            reader.alias(anchor, name, line)?;
        } else {
            reader.event(event, line)?;
        }
    }
    Ok(Document { value: reader.root.unwrap_or_default(), repeated: reader.repeated })
}

/// The parser ends the last line of a block scalar with a line break even where the text ends without one.
fn drop_line_break_beyond_end(event: &mut Event<'_>, source: Option<&str>, text: &str) {
    let Event::Scalar(value, ScalarStyle::Literal | ScalarStyle::Folded, ..) = event else { return };
    let is_last = || source.is_some_and(|source| !source.is_empty() && text.ends_with(source));
    let last_line = text.rsplit('\n').next().unwrap_or_default();
    if value.ends_with('\n') && !last_line.trim_matches([' ', '\t', '\r']).is_empty() && is_last() {
        value.to_mut().pop();
    }
}

/// As goyaml reports errors: the line, and what was found, without what was being read.
fn scan_error(error: &ScanError) -> YamlError {
    let info = error.info();
    let context = ["while parsing ", "while scanning "].iter().any(|words| info.starts_with(words));
    let found = info.split_once(", ").filter(|_| context).map_or(info.as_str(), |(_, found)| found);
    syntax(error.marker().line(), found)
}

fn syntax(line: usize, text: &str) -> YamlError {
    YamlError::Syntax(format!("line {line}: {text}"))
}

#[derive(Default)]
struct Reader {
    booleans: Booleans,
    root: Option<Value>,
    open: Vec<Container>,
    anchors: HashMap<usize, Value>,
    nodes: usize,
    copied: usize,
    repeated: Vec<String>,
}

/// A container whose end has not been read.
struct Container {
    anchor: usize,
    line: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    Map(Members),
}

#[derive(Default)]
struct Members {
    map: Map<String, Value>,
    /// Of merged maps, and not set here.
    inherited: HashSet<String>,
    key: Option<Key>,
}

enum Key {
    /// `<<`, whose value is merged.
    Merge,
    /// A key as text, and as Go prints it.
    Text(String, String),
}

impl Reader {
    fn event(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(syntax(line, "expected a single document, but found another one"))
            }
            Event::DocumentEnd => {
                self.root.get_or_insert_default();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(line)?;
                self.scalar(&text, style, anchor, tag.as_deref(), line)
            }
            Event::UnresolvedAlias(name) => Err(YamlError::Syntax(format!("unknown anchor '{name}' referenced"))),
            Event::SequenceStart(_, anchor, _) => self.start(anchor, line, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.start(anchor, line, Content::Map(Members::default())),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    fn count(&mut self, line: usize) -> Result<(), YamlError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(syntax(line, "the document is too large")) } else { Ok(()) }
    }

    fn start(&mut self, anchor: usize, line: usize, content: Content) -> Result<(), YamlError> {
        self.count(line)?;
        if self.open.len() == MAX_DEPTH {
            return Err(syntax(line, &format!("more than {MAX_DEPTH} containers in each other")));
        }
        if self.expects_key() {
            return Err(syntax(line, "invalid map key: only scalars are keys"));
        }
        self.open.push(Container { anchor, line, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(Container { anchor, line, content }) = self.open.pop() else { return Ok(()) };
        let value = match content {
            Content::List(items) => Value::Array(items),
            Content::Map(members) => Value::Object(members.map),
        };
        self.keep(anchor, &value, line)?;
        self.add(value, line)
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Container { content: Content::Map(Members { key: None, .. }), .. }))
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<(), YamlError> {
        let type_ = tag.map_or(Type::Unset, type_of);
        let is_plain = matches!(style, ScalarStyle::Plain);
        if self.expects_key() && text == "<<" && (type_ == Type::Merge || type_ == Type::Unset && is_plain) {
            self.set_key(Key::Merge);
            return Ok(());
        }
        let scalar = Scalar::of(text, is_plain, type_, self.booleans).map_err(YamlError::Syntax)?;
        if self.expects_key() {
            let key = scalar.key().map_err(YamlError::NotJson)?;
            let printed = if scalar.is_text() { format!("{key:?}") } else { key.clone() };
            self.keep(anchor, &Value::String(key.clone()), line)?;
            self.set_key(Key::Text(key, printed));
            return Ok(());
        }
        let value = scalar.value().map_err(YamlError::NotJson)?;
        self.keep(anchor, &value, line)?;
        self.add(value, line)
    }

    fn alias(&mut self, anchor: usize, name: &str, line: usize) -> Result<(), YamlError> {
        let Some(value) = self.anchors.get(&anchor) else {
            return Err(YamlError::Syntax(format!("anchor '{name}' value contains itself")));
        };
        let (size, depth) = size(value);
        if self.open.len() + depth > MAX_DEPTH {
            return Err(syntax(line, &format!("more than {MAX_DEPTH} containers in each other")));
        }
        self.copied += size;
        if self.copied > MAX_COPIED {
            return Err(YamlError::Syntax("document contains excessive aliasing".to_owned()));
        }
        let value = value.clone();
        if !self.expects_key() {
            return self.add(value, line);
        }
        let key = match value {
            Value::String(text) => Key::Text(text.clone(), format!("{text:?}")),
            Value::Bool(_) | Value::Number(_) => Key::Text(value.to_string(), value.to_string()),
            _ => return Err(syntax(line, "invalid map key: only scalars are keys")),
        };
        self.set_key(key);
        Ok(())
    }

    /// Keeps a value for the aliases of its anchor; a node without an anchor has 0.
    fn keep(&mut self, anchor: usize, value: &Value, line: usize) -> Result<(), YamlError> {
        if anchor == 0 {
            return Ok(());
        }
        self.copied += size(value).0;
        if self.copied > MAX_COPIED {
            return Err(syntax(line, "the values of anchors are too large"));
        }
        self.anchors.insert(anchor, value.clone());
        Ok(())
    }

    fn set_key(&mut self, key: Key) {
        if let Some(Container { content: Content::Map(members), .. }) = self.open.last_mut() {
            members.key = Some(key);
        }
    }

    fn add(&mut self, value: Value, line: usize) -> Result<(), YamlError> {
        match self.open.last_mut().map(|container| &mut container.content) {
            None => self.root = Some(value),
            Some(Content::List(items)) => items.push(value),
            Some(Content::Map(members)) => match members.key.take() {
                Some(Key::Merge) => members.merge(value)?,
                Some(Key::Text(key, printed)) => {
                    if members.set(key, value) && self.repeated.len() < MAX_FINDINGS {
                        self.repeated.push(format!("line {line}: key {printed} already set in map"));
                    }
                }
                None => return Err(syntax(line, "a value has no key")),
            },
        }
        Ok(())
    }
}

impl Members {
    /// Whether the key was set here before.
    fn set(&mut self, key: String, value: Value) -> bool {
        let is_inherited = !self.inherited.is_empty() && self.inherited.remove(&key);
        self.map.insert(key, value).is_some() && !is_inherited
    }

    /// As goyaml does, in the order of the text: a merge replaces what was set before it. Of several maps the first
    /// ones take precedence.
    fn merge(&mut self, value: Value) -> Result<(), YamlError> {
        let maps = match value {
            Value::Array(maps) => maps,
            one => vec![one],
        };
        for map in maps.into_iter().rev() {
            let Value::Object(map) = map else {
                let text = "map merge requires map or sequence of maps as the value";
                return Err(YamlError::Syntax(text.to_owned()));
            };
            for (key, value) in map {
                self.inherited.insert(key.clone());
                self.map.insert(key, value);
            }
        }
        Ok(())
    }
}

/// Bytes that a copy takes, and the number of containers in each other. The document is at most [`MAX_DEPTH`] deep.
fn size(value: &Value) -> (usize, usize) {
    let sum = |sizes: &mut dyn Iterator<Item = (usize, usize)>| {
        let (bytes, depth) = sizes.fold((NODE, 0), |all, one| (all.0 + one.0, all.1.max(one.1)));
        (bytes, depth + 1)
    };
    match value {
        Value::String(text) => (NODE + text.len(), 0),
        Value::Array(items) => sum(&mut items.iter().map(size)),
        Value::Object(map) => sum(&mut map.iter().map(|(key, value)| {
            let (bytes, depth) = size(value);
            (NODE + key.len() + bytes, depth)
        })),
        _ => (NODE, 0),
    }
}

fn type_of(tag: &Tag) -> Type {
    if tag.handle().is_empty() && tag.suffix() == "!" {
        return Type::Text;
    }
    match tag.suffix_in_namespace(NAMESPACE).as_deref() {
        Some("str") => Type::Text,
        Some("null") => Type::Null,
        Some("bool") => Type::Bool,
        Some("int") => Type::Int,
        Some("float") => Type::Float,
        Some("timestamp") => Type::Timestamp,
        Some("binary") => Type::Binary,
        Some("merge") => Type::Merge,
        // goyaml takes any other scalar for a string.
        _ => Type::Text,
    }
}
