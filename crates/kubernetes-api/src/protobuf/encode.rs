//! The way back: an object's tree as the enveloped message that clients without JSON read. Zero values are left out;
//! every decoder takes them for what they are.

use std::str::FromStr;

use apimachinery::GroupVersionKind;
use apimachinery::duration::Duration;
use base64::Engine as _;
use serde_json::{Map, Value};

use super::{Field, Label, MAGIC, MAX_DEPTH, ProtobufError, Type, message_of, messages, scalar};

/// Encodes an object or a list with its envelope.
///
/// # Errors
/// When the kind has no protobuf form, or a value does not fit its field.
pub fn encode(object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let gvk = GroupVersionKind::from_api_version(api_version, kind)
        .map_err(|_| ProtobufError::Malformed("the object's apiVersion"))?;
    let name = message_of(&gvk).ok_or(ProtobufError::UnknownKind(gvk))?;
    let mut raw = Vec::new();
    if let Value::Object(map) = object {
        message(name, map, &mut raw, 0)?;
    }
    let mut meta = Vec::new();
    delimited(1, api_version.as_bytes(), &mut meta);
    delimited(2, kind.as_bytes(), &mut meta);
    let mut out = MAGIC.to_vec();
    delimited(1, &meta, &mut out);
    delimited(2, &raw, &mut out);
    // Content encoding and content type: none.
    delimited(3, b"", &mut out);
    delimited(4, b"", &mut out);
    Ok(out)
}

/// A frame of a watch: its length in four bytes, big-endian, then `WatchEvent`.
///
/// # Errors
/// As [`encode`].
pub fn encode_event(type_: &str, object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let mut raw = Vec::new();
    delimited(1, &encode(object)?, &mut raw);
    let mut event = Vec::new();
    delimited(1, type_.as_bytes(), &mut event);
    delimited(2, &raw, &mut event);
    let length = u32::try_from(event.len()).map_err(|_| ProtobufError::Malformed("the event is too large"))?;
    Ok([&length.to_be_bytes()[..], &event].concat())
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

fn message(name: &str, object: &Map<String, Value>, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
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
    object: &Map<String, Value>,
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
    match (field.label, object.get(field.name)) {
        (_, None | Some(Value::Null)) => Ok(()),
        (Label::Repeated, Some(Value::Array(items))) => {
            items.iter().try_for_each(|item| value(number, &field.type_, item, out, depth))
        }
        (Label::Map, Some(Value::Object(members))) => members.iter().try_for_each(|(key, member)| {
            let mut entry = Vec::new();
            delimited(1, key.as_bytes(), &mut entry);
            value(2, &field.type_, member, &mut entry, depth)?;
            delimited(number, &entry, out);
            Ok(())
        }),
        (_, Some(one)) => value(number, &field.type_, one, out, depth),
    }
}

fn value(number: u32, type_: &Type, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
    match (type_, value) {
        (Type::String, Value::String(text)) => delimited(number, text.as_bytes(), out),
        (Type::Bool, Value::Bool(flag)) => integer(number, i64::from(*flag), out),
        (Type::Int, Value::Number(n)) => integer(number, n.as_i64().ok_or(MISFIT)?, out),
        (Type::Double, Value::Number(n)) => {
            varint(u64::from(number) << 3 | 1, out);
            out.extend_from_slice(&n.as_f64().ok_or(MISFIT)?.to_le_bytes());
        }
        (Type::Bytes, Value::String(text)) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| MISFIT)?;
            delimited(number, &bytes, out);
        }
        (Type::Message(name), value) => {
            let mut part = Vec::new();
            embedded(name, value, &mut part, depth + 1)?;
            delimited(number, &part, out);
        }
        _ => return Err(MISFIT),
    }
    Ok(())
}

const MISFIT: ProtobufError = ProtobufError::Malformed("a value does not have the type of its field");

/// A message, whatever its JSON form is.
fn embedded(name: &str, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), ProtobufError> {
    if let Some(number) = scalar::raw_field(name) {
        let json = serde_json::to_vec(value).map_err(|error| ProtobufError::Json(error.to_string()))?;
        delimited(number, &json, out);
        return Ok(());
    }
    let under = |key: &str| Map::from_iter([(key.to_owned(), value.clone())]);
    let short = name.rsplit('.').next().unwrap_or(name);
    match (short, value) {
        ("Time" | "Timestamp" | "MicroTime", Value::String(text)) => {
            let at = jiff::Timestamp::from_str(text).map_err(|_| MISFIT)?;
            integer(1, at.as_second(), out);
            integer(2, i64::from(at.subsec_nanosecond()), out);
        }
        ("Duration", Value::String(text)) => {
            integer(1, text.parse::<Duration>().map_err(|_| MISFIT)?.as_nanos(), out);
        }
        ("Quantity", Value::String(text)) => delimited(1, text.as_bytes(), out),
        ("Quantity", Value::Number(n)) => delimited(1, n.to_string().as_bytes(), out),
        ("IntOrString", Value::Number(n)) => {
            integer(1, 0, out);
            integer(2, n.as_i64().ok_or(MISFIT)?, out);
        }
        ("IntOrString", Value::String(text)) => {
            integer(1, 1, out);
            delimited(3, text.as_bytes(), out);
        }
        ("JSONSchemaPropsOrArray", Value::Array(_)) => message(name, &under("jSONSchemas"), out, depth)?,
        ("JSONSchemaPropsOrStringArray", Value::Array(_)) => message(name, &under("property"), out, depth)?,
        ("JSONSchemaPropsOrBool", Value::Bool(flag)) => integer(1, i64::from(*flag), out),
        ("JSONSchemaPropsOrBool", _) => {
            integer(1, 1, out);
            message(name, &under("schema"), out, depth)?;
        }
        ("JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray", _) => message(name, &under("schema"), out, depth)?,
        (_, Value::Array(_)) => message(name, &under("items"), out, depth)?,
        (_, Value::Object(map)) => message(name, map, out, depth)?,
        _ => return Err(MISFIT),
    }
    Ok(())
}
