//! Reading request bodies: size limit, media type, one decoded tree.

use std::borrow::Cow;

use apimachinery::{Status, StatusReason, strict};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kubernetes_api::protobuf::ProtobufError;
use serde_json::Value;
use transport::{Body, Draft};

use super::Call;
use super::type_meta::{Misfit, kindless};
use crate::request::options::FieldValidation;

/// client-go sends built-in kinds this way, kubectl since 1.32 included.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The prefix of every Kubernetes protobuf document.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes of a body that an error shows.
const SHOWN: usize = 30;

/// kube-apiserver's bound on request bodies.
const LIMIT: usize = 3 * 1024 * 1024;

/// The whole body. Most come in one piece, which is not copied.
pub(crate) async fn read(mut body: Body) -> Result<Bytes, Status> {
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Status::bad_request(format!("reading the request body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > LIMIT {
            return Err(Status::failure(
                StatusReason::RequestEntityTooLarge,
                format!("Request entity too large: limit is {LIMIT}"),
            ));
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}

/// The media type without parameters; JSON when the header is absent.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    text.split(';').next().unwrap_or(text).trim()
}

/// Decodes an object in any of the accepted forms.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Status> {
    match media_type(headers) {
        "application/json" | "" => serde_json::from_slice(bytes).map_err(|e| {
            Status::bad_request(format!("error decoding the request body as JSON: {}", json_error(bytes, &e)))
        }),
        "application/yaml" => yaml(bytes),
        PROTOBUF => kubernetes_api::protobuf::decode(bytes).map_err(|error| match error {
            ProtobufError::UnknownKind(_) => {
                Status::failure(StatusReason::UnsupportedMediaType, format!("cannot decode {PROTOBUF}: {error}"))
            }
            other => Status::bad_request(format!("error decoding the request body as protobuf: {other}")),
        }),
        _ => Err(Status::failure(
            StatusReason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Go's message for malformed JSON; serde's where the syntax is valid.
pub(super) fn json_error(json: &[u8], error: &serde_json::Error) -> String {
    apimachinery::go_json::syntax_error(json).unwrap_or_else(|| error.to_string())
}

/// The start of a body, as kube-apiserver shows one that it cannot read.
fn summary(bytes: &[u8]) -> String {
    let (head, more) = if bytes.len() > SHOWN { (&bytes[..SHOWN], " ...") } else { (bytes, "") };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

fn yaml(bytes: &[u8]) -> Result<Value, Status> {
    apimachinery::yaml::to_json_value(first_document(bytes)).map_err(|e| Status::bad_request(e.to_string()))
}

/// Go reads the first document of a stream and does not look at the others.
pub(super) fn first_document(stream: &[u8]) -> &[u8] {
    let (mut at, mut begun) = (0, false);
    for line in stream.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        let is_mark =
            |mark: &[u8]| line.strip_prefix(mark).is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace));
        if begun && (is_mark(b"---") || is_mark(b"...")) {
            return &stream[..at];
        }
        begun |= !text.is_empty() && !text.starts_with(b"#") && !text.starts_with(b"%");
        at += line.len();
    }
    stream
}

/// A refusal quotes the YAML reader; of warnings each is one.
fn yaml_findings(twice: Vec<String>, unknown: Vec<String>, validation: FieldValidation) -> Vec<String> {
    if twice.is_empty() || validation != FieldValidation::Strict {
        return [twice, unknown].concat();
    }
    [vec![format!("yaml: unmarshal errors:\n  {}", twice.join("\n  "))], unknown].concat()
}

impl Call<'_> {
    /// The object of a create or update, and the warnings about its fields.
    pub(super) async fn object(&self, body: Body, validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
        let (object, findings) = match self.draft.and_then(Draft::take) {
            Some(mut draft) => {
                let findings = strict::adopt(&mut draft, &self.resource.info.schema)
                    .map_err(|why| self.unreadable(draft.to_string(), &why.to_string()))?;
                (self.fitting(draft, None, validation)?, findings)
            }
            None => {
                let bytes = read(body).await?;
                let (object, findings) = self.decoded(&bytes, validation)?;
                (self.fitting(object, Some(&bytes), validation)?, findings)
            }
        };
        Ok((object, self.field_findings(findings, validation)?))
    }

    fn unreadable(&self, document: impl AsRef<[u8]>, why: &str) -> Status {
        let (kind, summary) = (&self.resource.info.resource.kind, summary(document.as_ref()));
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
    }

    /// The tree of a body, along the schema.
    fn decoded(&self, bytes: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
        match media_type(self.headers) {
            "application/json" | "" => self.strictly(bytes).map_err(|error| {
                let why = json_error(bytes, &error);
                self.unreadable(bytes, &format!("couldn't get version/kind; json parse error: {why}"))
            }),
            PROTOBUF if !bytes.starts_with(MAGIC) => {
                let magic = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
                Err(self.unreadable(bytes, magic))
            }
            "application/yaml" => {
                let read = apimachinery::yaml::to_json_value_warned(first_document(bytes));
                let (mut tree, twice) = read.map_err(|e| Status::bad_request(e.to_string()))?;
                let unknown = strict::prune(&mut tree, &self.resource.info.schema);
                Ok((tree, yaml_findings(twice, unknown, validation)))
            }
            _ => {
                // Unknown fields of a protobuf message are not reported.
                let mut tree = decode(self.headers, bytes)?;
                strict::prune(&mut tree, &self.resource.info.schema);
                Ok((tree, Vec::new()))
            }
        }
    }

    /// The object with its kind and version, once it is known to be of this resource and to have values of the right types.
    /// `body` is its document, which some refusals show; a draft has none.
    fn fitting(&self, mut object: Value, body: Option<&[u8]>, validation: FieldValidation) -> Result<Value, Status> {
        let kind = self.resource.info.resource.kind.as_str();
        let unusable = |given: &str, version: &str, why: &str| {
            Status::bad_request(format!("{given} in version {version:?} cannot be handled as a {kind}: {why}"))
        };
        if let Some(misfit) = self.misfit(&object) {
            let document = body.map_or_else(|| object.to_string().into_bytes().into(), Cow::Borrowed);
            return Err(match misfit {
                Misfit::Unreadable(why) => self.unreadable(document, &why),
                Misfit::Kindless if validation == FieldValidation::Ignore => {
                    unusable(kind, &self.info.version, &kindless(&document))
                }
                Misfit::Kindless => self.unreadable(&document, &kindless(&document)),
                Misfit::Unusable { kind, version, why } => unusable(&kind, &version, &why),
                Misfit::OtherVersion(given) => self.other_version(&given),
                Misfit::OtherKind(status) => status,
            });
        }
        self.stamp(&mut object);
        match self.mistyped(&mut object) {
            Some(wrong) => Err(unusable(kind, &self.info.version, &wrong.decoder)),
            None => Ok(object),
        }
    }

    /// Decodes JSON along the schema. Upstream reads a custom resource as an untyped document first, and only then
    /// checks it against its schema, so duplicate fields are reported first, at any depth.
    fn strictly(&self, bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
        let schema = &self.resource.info.schema;
        let (object, findings) = strict::decode(bytes, schema)?;
        if findings.is_empty() || !self.resource.info.custom {
            return Ok((object, findings));
        }
        let (mut untyped, mut findings) = strict::decode_reporting_duplicates(bytes)?;
        findings.extend(strict::prune(&mut untyped, schema));
        Ok((object, findings))
    }

    /// The first value of a built-in kind, or of the metadata of a custom one, that has the wrong type. Where there is
    /// none, nulls in lists and maps become zeros, as Go's decoder makes them.
    pub(super) fn mistyped(&self, object: &mut Value) -> Option<super::types::Mismatch> {
        let info = &self.resource.info;
        if info.custom {
            return super::types::metadata_mismatch(object, &info.schema);
        }
        super::types::mismatch(&info.resource.kind, object, &info.schema)
    }

    /// Applies the field validation: ignores, warns of, or refuses unknown and duplicate fields.
    pub(super) fn field_findings(
        &self,
        findings: Vec<String>,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Strict if !findings.is_empty() => {
                let kind = self.resource.info.resource.kind.as_str();
                Err(Status::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: {}",
                    self.info.version,
                    strict::error_text(&findings)
                )))
            }
            FieldValidation::Warn | FieldValidation::Strict => Ok(findings),
        }
    }
}
