//! The way back: an object's tree as the enveloped message that clients without JSON read. Zero values are left out;
//! every decoder takes them for what they are.

use std::borrow::Cow;
use std::str::FromStr;

use apimachinery::GroupVersionKind;
use apimachinery::duration::Duration;
use base64::Engine as _;

use super::tree::{Members, Tree, member};
use super::{Field, Label, MAGIC, MAX_DEPTH, ProtobufError, Type, message_of, messages, scalar};

/// Encodes an object or a list, given as JSON, with its envelope.
///
/// # Errors
/// When the kind has no protobuf form, or a value does not fit its field.
pub fn encode(json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    encode_list(json, std::iter::empty())
}

/// [`encode`] of a list whose items are given one by one; `list` is the rest of it.
///
/// # Errors
/// As [`encode`].
pub fn encode_list<'i>(list: &[u8], items: impl Iterator<Item = &'i [u8]>) -> Result<Vec<u8>, ProtobufError> {
    let mut out = Vec::with_capacity(list.len());
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

fn read(json: &[u8]) -> Result<Tree<'_>, ProtobufError> {
    serde_json::from_slice(json).map_err(|error| ProtobufError::Json(error.to_string()))
}

fn envelope<'i>(json: &[u8], items: impl Iterator<Item = &'i [u8]>, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let object = read(json)?;
    let (api_version, kind) = (object.text("apiVersion"), object.text("kind"));
    let gvk = GroupVersionKind::from_api_version(api_version, kind)
        .map_err(|_| ProtobufError::Malformed("the object's apiVersion"))?;
    let name = message_of(&gvk).ok_or(ProtobufError::UnknownKind(gvk))?;
    out.extend_from_slice(MAGIC);
    nested(1, out, |out| {
        delimited(1, api_version.as_bytes(), out);
        delimited(2, kind.as_bytes(), out);
        Ok(())
    })?;
    nested(2, out, |out| {
        if let Tree::Map(members) = &object {
            message(name, members, out, 0)?;
        }
        // The items of a list are its last field.
        let field = messages().get(name).and_then(|fields| fields.iter().find(|(_, field)| field.name == "items"));
        for item in items {
            let (number, field) = field.ok_or(MISFIT)?;
            value(*number, &field.type_, &read(item)?, out, 0)?;
        }
        Ok(())
    })?;
    // Content encoding and content type: none.
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

/// A field whose content is written in place: its length is known, and put before it, afterwards.
fn nested(
    number: u32,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    varint(u64::from(number) << 3 | 2, out);
    let at = out.len();
    out.push(0);
    content(out)?;
    let length = out.len() - at - 1;
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out[at] = short;
    } else {
        let mut prefix = Vec::with_capacity(10);
        varint(length as u64, &mut prefix);
        out.splice(at..=at, prefix);
    }
    Ok(())
}

fn message(name: &str, object: &Members<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let Some(fields) = messages().get(name) else { return Ok(()) };
    for (number, field) in fields {
        encode_field(*number, field, object, out, depth)?;
    }
    Ok(())
}

fn encode_field(
    number: u32,
    field: &Field,
    object: &Members<'_>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if let (Label::Inline, Type::Message(inner)) = (field.label, &field.type_) {
        let mut part = Vec::new();
        message(inner, object, &mut part, depth + 1)?;
        if !part.is_empty() {
            delimited(number, &part, out);
        }
        return Ok(());
    }
    match (field.label, member(object, field.name)) {
        (_, None | Some(Tree::Null)) => Ok(()),
        (Label::Repeated, Some(Tree::List(items))) => {
            items.iter().try_for_each(|item| value(number, &field.type_, item, out, depth))
        }
        (Label::Map, Some(Tree::Map(members))) => members.iter().try_for_each(|(key, member)| {
            nested(number, out, |out| {
                delimited(1, key.as_bytes(), out);
                value(2, &field.type_, member, out, depth)
            })
        }),
        (_, Some(one)) => value(number, &field.type_, one, out, depth),
    }
}

fn value(number: u32, type_: &Type, value: &Tree<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
    match (type_, value) {
        (Type::Message(name), value) => return nested(number, out, |out| embedded(name, value, out, depth + 1)),
        (type_, Tree::Raw(json)) => return self::value(number, type_, &read(json.get().as_bytes())?, out, depth),
        (Type::String, Tree::Text(text)) => delimited(number, text.as_bytes(), out),
        (Type::Bool, Tree::Bool(flag)) => integer(number, i64::from(*flag), out),
        (Type::Int, Tree::Number(n)) => integer(number, n.as_i64().ok_or(MISFIT)?, out),
        (Type::Double, Tree::Number(n)) => {
            varint(u64::from(number) << 3 | 1, out);
            out.extend_from_slice(&n.as_f64().ok_or(MISFIT)?.to_le_bytes());
        }
        (Type::Bytes, Tree::Text(text)) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(&**text).map_err(|_| MISFIT)?;
            delimited(number, &bytes, out);
        }
        _ => return Err(MISFIT),
    }
    Ok(())
}

const MISFIT: ProtobufError = ProtobufError::Malformed("a value does not have the type of its field");

/// A message, whatever its JSON form is.
fn embedded(name: &str, value: &Tree<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
    if let Some(number) = scalar::raw_field(name) {
        return nested(number, out, |out| {
            serde_json::to_writer(out, value).map_err(|error| ProtobufError::Json(error.to_string()))
        });
    }
    if let Tree::Raw(json) = value {
        return embedded(name, &read(json.get().as_bytes())?, out, depth);
    }
    let under = |key: &'static str| vec![(Cow::Borrowed(key), value.clone())];
    let short = name.rsplit('.').next().unwrap_or(name);
    match (short, value) {
        ("Time" | "Timestamp" | "MicroTime", Tree::Text(text)) => {
            let at = jiff::Timestamp::from_str(text).map_err(|_| MISFIT)?;
            integer(1, at.as_second(), out);
            integer(2, i64::from(at.subsec_nanosecond()), out);
        }
        ("Duration", Tree::Text(text)) => {
            integer(1, text.parse::<Duration>().map_err(|_| MISFIT)?.as_nanos(), out);
        }
        ("Quantity", Tree::Text(text)) => delimited(1, text.as_bytes(), out),
        ("Quantity", Tree::Number(n)) => delimited(1, n.to_string().as_bytes(), out),
        ("IntOrString", Tree::Number(n)) => {
            integer(1, 0, out);
            integer(2, n.as_i64().ok_or(MISFIT)?, out);
        }
        ("IntOrString", Tree::Text(text)) => {
            integer(1, 1, out);
            delimited(3, text.as_bytes(), out);
        }
        ("JSONSchemaPropsOrArray", Tree::List(_)) => message(name, &under("jSONSchemas"), out, depth)?,
        ("JSONSchemaPropsOrStringArray", Tree::List(_)) => message(name, &under("property"), out, depth)?,
        ("JSONSchemaPropsOrBool", Tree::Bool(flag)) => integer(1, i64::from(*flag), out),
        ("JSONSchemaPropsOrBool", _) => {
            integer(1, 1, out);
            message(name, &under("schema"), out, depth)?;
        }
        ("JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray", _) => message(name, &under("schema"), out, depth)?,
        (_, Tree::List(_)) => message(name, &under("items"), out, depth)?,
        (_, Tree::Map(map)) => message(name, map, out, depth)?,
        _ => return Err(MISFIT),
    }
    Ok(())
}
