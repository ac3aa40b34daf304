//! Encodes an object's JSON as the enveloped message for clients without JSON. Zero values are omitted; every decoder
//! fills them in.

use std::str::FromStr;

use apimachinery::GroupVersionKind;
use apimachinery::duration::Duration;

use super::messages::{Field, Form, Label, MessageId, Type, messages};
use super::tape::{Kind, Node, Place, Tape};
use super::{MAGIC, MAX_DEPTH, ProtobufError, message_of};
use crate::go_base64;

/// Encodes an object or a list from JSON, with its envelope.
///
/// # Errors
/// When the kind has no protobuf form, or a value does not fit its field.
pub fn encode(json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    encode_list(json, std::iter::empty())
}

/// [`encode`] for a list whose items are passed separately; `list` is the list without items.
///
/// # Errors
/// As [`encode`].
pub fn encode_list<'i>(list: &[u8], items: impl Iterator<Item = &'i [u8]> + Clone) -> Result<Vec<u8>, ProtobufError> {
    // The protobuf form is shorter than JSON.
    let size = list.len() + items.clone().map(<[u8]>::len).sum::<usize>();
    let mut out = Vec::with_capacity(size);
    envelope(list, items, &mut out)?;
    Ok(out)
}

/// A frame of a watch: its length in four bytes, big-endian, then `WatchEvent`.
///
/// # Errors
/// As [`encode`].
pub fn encode_event(type_: &str, json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let mut out = vec![0; 4];
    delimited(1, type_.as_bytes(), &mut out);
    nested(2, &mut out, |out| nested(1, out, |out| envelope(json, std::iter::empty(), out)))?;
    let length = u32::try_from(out.len() - 4).map_err(|_| ProtobufError::Malformed("the event is too large"))?;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Ok(out)
}

fn envelope<'i>(json: &[u8], items: impl Iterator<Item = &'i [u8]>, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let mut tape = Tape::default();
    let object = tape.read(json)?;
    let text_of = |name| object.member(name).filter(|value| value.kind() == Kind::Text).map(Node::text).transpose();
    let (api_version, kind) = (text_of("apiVersion")?.unwrap_or_default(), text_of("kind")?.unwrap_or_default());
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| ProtobufError::Malformed("the object's kind"));
    let gvk = GroupVersionKind::from_api_version(text(&api_version)?, text(&kind)?)
        .map_err(|_| ProtobufError::Malformed("the object's apiVersion"))?;
    let id = message_of(&gvk).ok_or(ProtobufError::UnknownKind(gvk))?;
    out.extend_from_slice(MAGIC);
    nested(1, out, |out| {
        delimited(1, &api_version, out);
        delimited(2, &kind, out);
        Ok(())
    })?;
    nested(2, out, |out| {
        let mut found = Vec::new();
        Encoder { out, found: &mut found }.message(id, object, 0)?;
        // The items of a list are its last field.
        let message = messages().get(id);
        let field = message.named(b"items").map(|place| &message.fields[usize::from(place)]);
        let mut tape = Tape::default();
        for item in items {
            let field = field.ok_or(TYPE_MISMATCH)?;
            Encoder { out, found: &mut found }.value(field, tape.read(item)?, 0)?;
        }
        Ok(())
    })?;
    // Content encoding and content type are empty.
    delimited(3, b"", out);
    delimited(4, b"", out);
    Ok(())
}

fn varint(mut bits: u64, out: &mut Vec<u8>) {
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

fn integer(number: u32, value: i64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3, out);
    varint(value as u64, out);
}

fn delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A nested field, written in place: its length is inserted before its content afterwards.
fn nested(
    number: u32,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    let start = begin(number, out);
    content(out)?;
    end(start, out);
    Ok(())
}

/// Begins a nested field and returns the offset of its content, the argument of [`end`].
fn begin(number: u32, out: &mut Vec<u8>) -> usize {
    varint(u64::from(number) << 3 | 2, out);
    // Most lengths take one byte.
    out.push(0);
    out.len()
}

fn end(start: usize, out: &mut Vec<u8>) {
    let length = out.len() - start;
    let more = (length.max(1).ilog2() / 7) as usize;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + length, start + more);
    }
    let mut bits = length;
    for byte in &mut out[start - 1..start + more] {
        *byte = bits as u8 | 0x80;
        bits >>= 7;
    }
    out[start + more - 1] &= 0x7f;
}

const TYPE_MISMATCH: ProtobufError = ProtobufError::Malformed("a value does not have the type of its field");

struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// The fields of the messages being written, with their values; those of the innermost message are last.
    found: &'o mut Vec<(u16, Place)>,
}

impl Encoder<'_> {
    /// The fields of a message, by number.
    fn message(&mut self, id: MessageId, object: Node<'_>, depth: usize) -> Result<(), ProtobufError> {
        if depth > MAX_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        let (message, begin) = (messages().get(id), self.found.len());
        self.found.extend(message.inlined.iter().map(|place| (*place, object.place())));
        for (name, value) in object.members() {
            let place = message.named(&name.text()?);
            self.found.extend(place.map(|place| (place, value.place())));
        }
        // The sort is stable: of several members with one name, the last one is used.
        self.found[begin..].sort_by_key(|(place, _)| *place);
        for at in begin..self.found.len() {
            let (place, value) = self.found[at];
            if self.found.get(at + 1).is_none_or(|(next, _)| *next != place) {
                self.field(&message.fields[usize::from(place)], object.elsewhere(value), depth)?;
            }
        }
        self.found.truncate(begin);
        Ok(())
    }

    /// A message with only one field, which is given by its JSON name.
    fn single(&mut self, id: MessageId, name: &[u8], value: Node<'_>, depth: usize) -> Result<(), ProtobufError> {
        let message = messages().get(id);
        match message.named(name) {
            Some(place) => self.field(&message.fields[usize::from(place)], value, depth),
            None => Ok(()),
        }
    }

    fn field(&mut self, field: &Field, value: Node<'_>, depth: usize) -> Result<(), ProtobufError> {
        match (field.label, field.type_, value.kind()) {
            (Label::Inline, Type::Message(inner), _) => {
                let before = self.out.len();
                let start = begin(field.number, self.out);
                self.message(inner, value, depth + 1)?;
                if self.out.len() == start {
                    self.out.truncate(before);
                } else {
                    end(start, self.out);
                }
                Ok(())
            }
            (_, _, Kind::Null) => Ok(()),
            (Label::Repeated, _, Kind::List) => value.children().try_for_each(|item| self.value(field, item, depth)),
            (Label::Map, _, Kind::Map) => value.members().try_for_each(|(key, member)| {
                let start = begin(field.number, self.out);
                delimited(1, &key.text()?, self.out);
                self.value(&Field { number: 2, ..*field }, member, depth)?;
                end(start, self.out);
                Ok(())
            }),
            _ => self.value(field, value, depth),
        }
    }

    fn value(&mut self, field: &Field, value: Node<'_>, depth: usize) -> Result<(), ProtobufError> {
        let Field { number, type_, .. } = *field;
        match (type_, value.kind()) {
            // A typed reader decodes null in a list or map as a zero value. Older stores may contain such objects.
            (Type::Message(id), Kind::Null) if messages().get(id).form != Form::Embedded => {
                delimited(number, b"", self.out)
            }
            (Type::String | Type::Bytes, Kind::Null) => delimited(number, b"", self.out),
            (Type::Bool | Type::Int, Kind::Null) => integer(number, 0, self.out),
            (Type::Message(id), _) => {
                let start = begin(number, self.out);
                self.embedded(id, value, depth + 1)?;
                end(start, self.out);
            }
            (Type::String, Kind::Text) => delimited(number, &value.text()?, self.out),
            (Type::Bool, Kind::Bool) => integer(number, i64::from(value.is_true()), self.out),
            (Type::Int, Kind::Number) => integer(number, whole(value)?, self.out),
            (Type::Double, Kind::Number) => {
                varint(u64::from(number) << 3 | 1, self.out);
                let double = value.number()?.as_f64().ok_or(TYPE_MISMATCH)?;
                self.out.extend_from_slice(&double.to_le_bytes());
            }
            (Type::Bytes, Kind::Text) => {
                let bytes = go_base64::decode(text(&value.text()?)?).ok_or(TYPE_MISMATCH)?;
                delimited(number, &bytes, self.out);
            }
            _ => return Err(TYPE_MISMATCH),
        }
        Ok(())
    }

    /// A message of any JSON form.
    fn embedded(&mut self, id: MessageId, value: Node<'_>, depth: usize) -> Result<(), ProtobufError> {
        match (messages().get(id).form, value.kind()) {
            (Form::Embedded, _) => nested(1, self.out, |out| value.write(out))?,
            (Form::Time | Form::MicroTime, Kind::Text) => {
                let at = jiff::Timestamp::from_str(text(&value.text()?)?).map_err(|_| TYPE_MISMATCH)?;
                integer(1, at.as_second(), self.out);
                integer(2, i64::from(at.subsec_nanosecond()), self.out);
            }
            (Form::Duration, Kind::Text) => {
                let duration: Duration = text(&value.text()?)?.parse().map_err(|_| TYPE_MISMATCH)?;
                integer(1, duration.as_nanos(), self.out);
            }
            (Form::Quantity, Kind::Text) => delimited(1, &value.text()?, self.out),
            (Form::Quantity, Kind::Number) => delimited(1, value.number()?.to_string().as_bytes(), self.out),
            (Form::IntOrString, Kind::Number) => {
                integer(1, 0, self.out);
                integer(2, whole(value)?, self.out);
            }
            (Form::IntOrString, Kind::Text) => {
                integer(1, 1, self.out);
                delimited(3, &value.text()?, self.out);
            }
            (Form::SchemaOrSchemas, Kind::List) => self.single(id, b"jSONSchemas", value, depth)?,
            (Form::SchemaOrNames, Kind::List) => self.single(id, b"property", value, depth)?,
            (Form::SchemaOrBool, Kind::Bool) => integer(1, i64::from(value.is_true()), self.out),
            (Form::SchemaOrBool, _) => {
                integer(1, 1, self.out);
                self.single(id, b"schema", value, depth)?;
            }
            (Form::SchemaOrSchemas | Form::SchemaOrNames, _) => self.single(id, b"schema", value, depth)?,
            (_, Kind::List) => self.single(id, b"items", value, depth)?,
            (_, Kind::Map) => self.message(id, value, depth)?,
            _ => return Err(TYPE_MISMATCH),
        }
        Ok(())
    }
}

fn whole(value: Node<'_>) -> Result<i64, ProtobufError> {
    value.number()?.as_i64().ok_or(TYPE_MISMATCH)
}

fn text(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| TYPE_MISMATCH)
}
