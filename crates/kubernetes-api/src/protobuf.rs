//! The protobuf form of built-in kinds, in which client-go sends request bodies. One walk over the table
//! `data/protobuf.txt` serves every kind, in both directions.

use std::collections::BTreeSet;

use apimachinery::GroupVersionKind;
use serde_json::{Map, Value, json};

mod encode;
mod messages;
mod scalar;
mod tape;
mod wire;

pub use encode::{encode, encode_event, encode_list};

use messages::{Form, Label, MessageId, Type, messages};
use wire::Reader;

const MAGIC: &[u8] = b"k8s\0";
/// The limit of nested messages, and of nested JSON containers: a message may be two levels of JSON, and contain deep
/// JSON itself. The JSON decoder (serde_json) reads 128 levels, and the decoded object is stored and must be readable.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin with the Kubernetes protobuf prefix")]
    NoMagic,
    #[error("no protobuf form of {0} is known")]
    UnknownKind(GroupVersionKind),
    #[error("malformed protobuf: {0}")]
    Malformed(&'static str),
    #[error("the object is nested too deeply")]
    TooDeep,
    #[error("embedded JSON: {0}")]
    Json(String),
}

/// Decodes an enveloped object (`k8s\0`, then `runtime.Unknown`) to its JSON tree; `apiVersion` and `kind` are read
/// from the envelope.
///
/// # Errors
/// When the bytes have no such envelope, the kind has no protobuf form, or the message is malformed.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    decode_noting(bytes, &mut None)
}

/// As [`decode`], with the fields that have a value and are not in the table, each once: the object lacks them.
///
/// # Errors
/// As [`decode`].
pub fn decode_with_unknown(bytes: &[u8]) -> Result<(Value, Vec<UnknownField>), ProtobufError> {
    let mut skipped = Some(BTreeSet::new());
    let object = decode_noting(bytes, &mut skipped)?;
    let unknown = skipped.unwrap_or_default().into_iter();
    let unknown = unknown.map(|(id, number)| UnknownField { message: messages().name(id).to_owned(), number });
    Ok((object, unknown.collect()))
}

/// A field of a newer version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownField {
    /// The message that has it, such as `apps.v1.DeploymentSpec`.
    pub message: String,
    /// Its number.
    pub number: u32,
}

/// The fields that were skipped, if they are noted.
type Skipped = Option<BTreeSet<(MessageId, u32)>>;

fn decode_noting(bytes: &[u8], skipped: &mut Skipped) -> Result<Value, ProtobufError> {
    let mut unknown = Reader::new(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, value)) = unknown.field()? {
        match number {
            1 => {
                let mut meta = Reader::new(value.bytes()?);
                while let Some((number, value)) = meta.field()? {
                    match number {
                        1 => api_version = value.text()?,
                        2 => kind = value.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let gvk = GroupVersionKind::from_api_version(&api_version, &kind)
        .map_err(|_| ProtobufError::Malformed("the envelope's apiVersion"))?;
    let id = message_of(&gvk).ok_or(ProtobufError::UnknownKind(gvk))?;
    let mut object = Map::new();
    message(id, raw, &mut object, 0, skipped)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    let object = Value::Object(object);
    if levels(&object) > MAX_DEPTH { Err(ProtobufError::TooDeep) } else { Ok(object) }
}

/// The depth of nested containers. Decoding creates at most three hundred levels.
fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Option kinds of `meta/v1` are accepted in any group and version.
fn message_of(gvk: &GroupVersionKind) -> Option<MessageId> {
    let package = match gvk.group.as_str() {
        "" => format!("@core.{}", gvk.version),
        "apiextensions.k8s.io" => format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{}", gvk.version),
        "apiregistration.k8s.io" => format!("k8s.io.kube_aggregator.pkg.apis.apiregistration.{}", gvk.version),
        group => format!("@{}.{}", group.split('.').next().unwrap_or(group), gvk.version),
    };
    let find = |name: String| messages().find(&name);
    find(format!("{package}.{}", gvk.kind)).or_else(|| find(format!("~apis.meta.v1.{}", gvk.kind)))
}

fn message(
    id: MessageId,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
    skipped: &mut Skipped,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let message = messages().get(id);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        // Fields of newer clients are not in the table.
        let Some(field) = message.numbered(number) else {
            if let Some(skipped) = skipped.as_mut().filter(|_| message.form == Form::Object && !value.is_zero()) {
                skipped.insert((id, number));
            }
            continue;
        };
        match field.label {
            Label::Inline => {
                if let Type::Message(inner) = field.type_ {
                    self::message(inner, value.bytes()?, object, depth + 1, skipped)?;
                }
            }
            Label::Repeated => {
                let item = one(field.type_, &value, depth, skipped)?;
                if let Value::Array(list) = object.entry(field.name).or_insert_with(|| json!([])) {
                    list.push(item);
                }
            }
            Label::Map => {
                let (key, item) = entry(field.type_, value.bytes()?, depth, skipped)?;
                if let Value::Object(map) = object.entry(field.name).or_insert_with(|| json!({})) {
                    map.insert(key, item);
                }
            }
            Label::One => {
                let item = one(field.type_, &value, depth, skipped)?;
                if !scalar::is_unset(field, &item) {
                    object.insert(field.name.into(), item);
                }
            }
        }
    }
    Ok(())
}

fn entry(type_: Type, bytes: &[u8], depth: usize, skipped: &mut Skipped) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut item) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => key = value.text()?,
            2 => item = Some(one(type_, &value, depth, skipped)?),
            _ => {}
        }
    }
    let empty = match type_ {
        Type::Message(_) => json!({}),
        _ => "".into(),
    };
    Ok((key, item.unwrap_or(empty)))
}

fn one(type_: Type, value: &wire::Value<'_>, depth: usize, skipped: &mut Skipped) -> Result<Value, ProtobufError> {
    Ok(match type_ {
        Type::String => value.text()?.into(),
        Type::Bool => (value.integer()? != 0).into(),
        Type::Int => value.integer()?.into(),
        Type::Double => scalar::number(value.double()?),
        Type::Bytes => scalar::base64(value.bytes()?).into(),
        Type::Message(id) => {
            let (bytes, form) = (value.bytes()?, messages().get(id).form);
            if form == Form::Embedded {
                return scalar::embedded(bytes);
            }
            let mut object = Map::new();
            message(id, bytes, &mut object, depth + 1, skipped)?;
            scalar::json_form(form, bytes, object)?
        }
    })
}

#[cfg(test)]
mod tests;
