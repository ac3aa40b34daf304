//! The messages of `data/protobuf.txt`, indexed by field number for reading and by JSON name for writing. Names are
//! resolved once, here.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::scalar;

const TABLE: &str = include_str!("../../data/protobuf.txt");

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageId(u16);

#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Message(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    One,
    Repeated,
    Map,
    /// A message whose fields belong to the parent's JSON object.
    Inline,
}

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An object of its fields.
    Object,
    /// Embedded JSON.
    Embedded,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// The list of its `items`.
    Items,
    SchemaOrSchemas,
    SchemaOrNames,
    SchemaOrBool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub label: Label,
    pub type_: Type,
    /// Whether its zero value is distinct from absence.
    pub zero_counts: bool,
}

#[derive(Debug)]
pub(super) struct Message {
    pub form: Form,
    /// By number. Empty for a message that is not in the table.
    pub fields: Vec<Field>,
    /// Positions in `fields`, by JSON name.
    names: Vec<u16>,
    /// Positions in `fields` of the inlined messages.
    pub inlined: Vec<u16>,
}

impl Message {
    pub fn numbered(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[at])
    }

    /// The position in `fields` of the one with this JSON name.
    pub fn named(&self, name: &[u8]) -> Option<u16> {
        let own = |place: &u16| self.fields[usize::from(*place)].name.as_bytes();
        let at = self.names.binary_search_by(|place| own(place).cmp(name)).ok()?;
        Some(self.names[at])
    }

    fn arrange(&mut self) {
        self.fields.sort_by_key(|field| field.number);
        let (inlined, mut names): (Vec<_>, Vec<_>) =
            (0u16..).take(self.fields.len()).partition(|place| self.fields[usize::from(*place)].label == Label::Inline);
        names.sort_by_key(|place| self.fields[usize::from(*place)].name);
        (self.names, self.inlined) = (names, inlined);
    }
}

#[derive(Debug, Default)]
pub(super) struct Messages {
    all: Vec<Message>,
    by_name: HashMap<&'static str, MessageId>,
}

impl Messages {
    pub fn get(&self, id: MessageId) -> &Message {
        &self.all[usize::from(id.0)]
    }

    /// The name of a message without its package's prefix; a search, for reports.
    pub fn name(&self, id: MessageId) -> &'static str {
        let name = self.by_name.iter().find(|(_, known)| **known == id).map_or("", |(name, _)| name);
        name.trim_start_matches(['@', '~'])
    }

    /// A message that has fields.
    pub fn find(&self, name: &str) -> Option<MessageId> {
        self.by_name.get(name).copied().filter(|id| !self.get(*id).fields.is_empty())
    }

    fn id(&mut self, name: &'static str) -> MessageId {
        *self.by_name.entry(name).or_insert_with(|| {
            let form = form_of(name);
            self.all.push(Message { form, fields: Vec::new(), names: Vec::new(), inlined: Vec::new() });
            // The table has some hundreds of messages.
            MessageId((self.all.len() - 1) as u16)
        })
    }

    fn field(&mut self, message: &str, text: &'static str) -> Option<Field> {
        let mut words = text.split(' ');
        let (number, name, type_) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let (label, inner) = if let Some(inner) = type_.strip_prefix('[') {
            (Label::Repeated, inner.trim_end_matches(']'))
        } else if let Some(inner) = type_.strip_prefix('{') {
            (Label::Map, inner.trim_end_matches('}'))
        } else if name == "+" {
            (Label::Inline, type_)
        } else {
            (Label::One, type_)
        };
        let type_ = match inner {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int32" | "int64" => Type::Int,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            message => Type::Message(self.id(message)),
        };
        Some(Field { number, name, label, type_, zero_counts: scalar::zero_counts(message, name) })
    }

    fn read(table: &'static str) -> Self {
        let (mut messages, mut current) = (Self::default(), "");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix(' ') {
                None => current = line,
                Some(text) => {
                    let id = messages.id(current);
                    let field = messages.field(current, text);
                    messages.all[usize::from(id.0)].fields.extend(field);
                }
            }
        }
        messages.all.iter_mut().for_each(Message::arrange);
        messages
    }
}

fn form_of(message: &str) -> Form {
    match message.rsplit('.').next().unwrap_or(message) {
        "RawExtension" | "FieldsV1" | "JSON" => Form::Embedded,
        "Time" | "Timestamp" => Form::Time,
        "MicroTime" => Form::MicroTime,
        "Duration" => Form::Duration,
        "Quantity" => Form::Quantity,
        "IntOrString" => Form::IntOrString,
        "ExtraValue" | "OptionalNames" | "Verbs" => Form::Items,
        "JSONSchemaPropsOrArray" => Form::SchemaOrSchemas,
        "JSONSchemaPropsOrStringArray" => Form::SchemaOrNames,
        "JSONSchemaPropsOrBool" => Form::SchemaOrBool,
        _ => Form::Object,
    }
}

pub(super) fn messages() -> &'static Messages {
    static ONCE: OnceLock<Messages> = OnceLock::new();
    ONCE.get_or_init(|| Messages::read(TABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_number_and_its_name() {
        let all = messages();
        let lines = TABLE.lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(all.all.iter().map(|message| message.fields.len()).sum::<usize>(), lines, "a line was not read");
        for (name, id) in &all.by_name {
            let message = all.get(*id);
            assert!(name.contains('.'), "{name} is neither a scalar nor a message");
            for (place, field) in message.fields.iter().enumerate() {
                assert_eq!(message.numbered(field.number).map(|found| found.name), Some(field.name), "{name}");
                let named = message.named(field.name.as_bytes()).map(usize::from);
                assert_eq!(named, (field.label != Label::Inline).then_some(place), "{name}.{}", field.name);
            }
            assert_eq!((message.numbered(0).is_none(), message.named(b"")), (true, None));
        }
        assert!(all.find("@core.v1.Pod").is_some() && all.find("@core.v1.Nothing").is_none());
    }
}
