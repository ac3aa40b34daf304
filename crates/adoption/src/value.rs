//! The values of a kube-apiserver as objects in the form that this program stores: JSON in the stored version.

use apimachinery::object::ObjectTree as _;
use apiserver::cache::keys;
use bytes::Bytes;
use kubernetes_api::protobuf::{self, UnknownField};
use prost::Message as _;
use serde_json::Value;

use crate::form::{self, Form};
use crate::versions::{self, Older};

const MAGIC: &[u8] = b"k8s\0";

/// The envelope of protobuf values, `runtime.Unknown`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Envelope {
    /// The kind of the value.
    #[prost(message, optional, tag = "1")]
    pub kind: Option<EnvelopeKind>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub raw: Vec<u8>,
    /// Empty: the value is not compressed.
    #[prost(string, tag = "3")]
    pub encoding: String,
    /// Empty for protobuf.
    #[prost(string, tag = "4")]
    pub content_type: String,
}

/// The kind of an enveloped value, `runtime.TypeMeta`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnvelopeKind {
    /// `apps/v1`.
    #[prost(string, tag = "1")]
    pub api_version: String,
    /// `Deployment`.
    #[prost(string, tag = "2")]
    pub kind: String,
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// How it is stored.
    pub form: Form,
    /// The version in which it is stored.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// The object in the form that this program stores; `None` if it is stored so.
    pub value: Option<Bytes>,
    /// The fields of a newer version, which the object lacks. Each is there once.
    pub unknown: Vec<UnknownField>,
}

/// Why a value is not understood. The object is unknown then, not absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// No encryption key was configured.
    #[error(
        "it is encrypted with {0:?}: give the encryption configuration of its kube-apiserver with --encryption-provider-config"
    )]
    Encrypted(String),
    /// The envelope is malformed.
    #[error("its protobuf envelope is malformed: {0}")]
    Envelope(String),
    /// The message is malformed, or its kind unknown.
    #[error("{api_version} {kind}: {why}")]
    Message {
        /// The version of the envelope.
        api_version: String,
        /// The kind of the envelope.
        kind: String,
        /// The reason.
        why: String,
    },
    /// It is not JSON, or not an object of an API.
    #[error("it is not an object: {0}")]
    Json(String),
    /// It is neither JSON nor protobuf.
    #[error("it is neither JSON nor protobuf")]
    Form,
}

/// Decodes a value for a server: `None` if it is stored in this program's form, which only the first bytes decide.
///
/// # Errors
/// Why it cannot be decoded.
pub fn readable(value: &Bytes) -> Result<Option<Bytes>, Unreadable> {
    if let Some(api_version) = form::is_own(value)
        && !may_be_older(api_version)
    {
        return Ok(None);
    }
    read_noting(value, false).map(|read| read.value)
}

/// Whether any kind of the version has an older form.
fn may_be_older(api_version: &[u8]) -> bool {
    api_version.windows(6).any(|part| part == b"k8s.io") || api_version == b"autoscaling/v1"
}

/// Reads a value, and notes its unknown fields.
///
/// # Errors
/// Why it is not understood.
pub fn read(value: &Bytes) -> Result<Read, Unreadable> {
    read_noting(value, true)
}

fn read_noting(value: &Bytes, noting: bool) -> Result<Read, Unreadable> {
    match Form::of(value) {
        Form::Encrypted(provider) => Err(Unreadable::Encrypted(provider)),
        Form::Other => Err(Unreadable::Form),
        Form::Protobuf => protobuf(value, noting),
        Form::Json => json(value),
    }
}

/// The envelope of a protobuf value.
///
/// # Errors
/// It is malformed, or its content is not protobuf.
pub fn envelope(value: &[u8]) -> Result<Envelope, Unreadable> {
    let message = value.strip_prefix(MAGIC).ok_or(Unreadable::Form)?;
    let envelope = Envelope::decode(message).map_err(|error| Unreadable::Envelope(error.to_string()))?;
    if envelope.encoding.is_empty() && envelope.content_type.is_empty() {
        return Ok(envelope);
    }
    let Envelope { encoding, content_type, .. } = envelope;
    Err(Unreadable::Envelope(format!("its content has the type {content_type:?} and the encoding {encoding:?}")))
}

fn protobuf(value: &Bytes, noting: bool) -> Result<Read, Unreadable> {
    let envelope = envelope(value)?;
    let EnvelopeKind { api_version, kind } = envelope.kind.clone().unwrap_or_default();
    let refused = |why: String| Unreadable::Message { api_version: api_version.clone(), kind: kind.clone(), why };
    let older = versions::older(&api_version, &kind);
    let decode = |bytes: &[u8]| match noting {
        true => protobuf::decode_with_unknown(bytes),
        false => protobuf::decode(bytes).map(|object| (object, Vec::new())),
    };
    let decoded = match older {
        // The message has the numbers of the stored version.
        Some(Older::Same(stored) | Older::Shares(stored)) => {
            let kind = Some(EnvelopeKind { api_version: stored.to_owned(), kind: kind.clone() });
            let renamed = [MAGIC, &Envelope { kind, ..envelope }.encode_to_vec()].concat();
            decode(&renamed)
        }
        Some(Older::Served | Older::Devices(_)) | None => decode(value),
    };
    let (mut object, unknown) = decoded.map_err(|error| refused(error.to_string()))?;
    if let Some(older @ (Older::Served | Older::Devices(_))) = older {
        versions::convert(older, &mut object).map_err(refused)?;
    }
    let value = Some(stored(&mut object).map_err(refused)?);
    Ok(Read { form: Form::Protobuf, api_version, kind, value, unknown })
}

fn json(value: &Bytes) -> Result<Read, Unreadable> {
    let own = form::is_own(value).is_some();
    let mut object: Value = serde_json::from_slice(value).map_err(|error| Unreadable::Json(error.to_string()))?;
    let text = |field: &str| object[field].as_str().filter(|text| is_name(text)).map(str::to_owned);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        return Err(Unreadable::Json("apiVersion or kind is missing or invalid".to_owned()));
    };
    if !object["metadata"].is_object() {
        return Err(Unreadable::Json("metadata is missing".to_owned()));
    }
    let older = versions::older(&api_version, &kind);
    if own && older.is_none() {
        return Ok(Read { form: Form::Json, api_version, kind, value: None, unknown: Vec::new() });
    }
    let refused = |why: String| Unreadable::Message { api_version: api_version.clone(), kind: kind.clone(), why };
    if let Some(older) = older {
        versions::convert(older, &mut object).map_err(refused)?;
    }
    let value = Some(stored(&mut object).map_err(refused)?);
    Ok(Read { form: Form::Json, api_version, kind, value, unknown: Vec::new() })
}

/// Whether a text can be a version or a kind.
fn is_name(text: &str) -> bool {
    /// A group of 253 characters would leave no space for the version.
    const LONGEST: usize = 250;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'-');
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_part)
}

/// Fills in the defaults of built-in kinds, as kube-apiserver does when it reads, and encodes.
fn stored(object: &mut Value) -> Result<Bytes, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    if let Some(resource) = versions::built_in(&text("apiVersion"), &text("kind")) {
        resource.strategy.default(object).map_err(|error| error.to_string())?;
    }
    if let Some(metadata) = object.metadata_mut() {
        metadata.remove("selfLink");
    }
    keys::encode(object).map_err(|error| error.to_string())
}
