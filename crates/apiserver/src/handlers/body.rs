//! Reading request bodies: size limit, media type, one decoded tree.

use apimachinery::{Status, StatusReason, strict};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kubernetes_api::protobuf::ProtobufError;
use serde_json::Value;
use transport::Body;

use super::Call;
use super::type_meta::{Misfit, kindless};
use crate::request::options::FieldValidation;

/// client-go sends built-in kinds this way, kubectl since 1.32 included.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What every Kubernetes protobuf document begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes of a body that an error shows.
const SHOWN: usize = 30;

/// kube-apiserver's bound on request bodies.
const LIMIT: usize = 3 * 1024 * 1024;

pub(crate) async fn read(mut body: Body) -> Result<Bytes, Status> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Status::bad_request(format!("reading the request body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > LIMIT {
            return Err(Status::failure(
                StatusReason::RequestEntityTooLarge,
                format!("Request entity too large: limit is {LIMIT}"),
            ));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// The media type without parameters; JSON when the header is absent.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
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

/// What Go says of malformed JSON; serde's words where the syntax is not what is wrong.
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
    /// The object of a create or update, and what the client should be warned of.
    pub(super) async fn object(&self, body: Body, validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
        let bytes = read(body).await?;
        let kind = self.resource.info.resource.kind.as_str();
        let unreadable = |why: String| {
            let summary = summary(&bytes);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
            ))
        };
        let no_json = |error: serde_json::Error| {
            unreadable(format!("couldn't get version/kind; json parse error: {}", json_error(&bytes, &error)))
        };
        let (mut object, findings) = match media_type(self.headers) {
            "application/json" | "" => self.strictly(&bytes).map_err(no_json)?,
            PROTOBUF if !bytes.starts_with(MAGIC) => {
                let magic = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
                return Err(unreadable(magic.into()));
            }
            "application/yaml" => {
                let read = apimachinery::yaml::to_json_value_warned(first_document(&bytes));
                let (mut tree, twice) = read.map_err(|e| Status::bad_request(e.to_string()))?;
                let unknown = strict::prune(&mut tree, &self.resource.info.schema);
                (tree, yaml_findings(twice, unknown, validation))
            }
            _ => {
                // Fields that a protobuf message does not know are nobody's concern.
                let mut tree = decode(self.headers, &bytes)?;
                strict::prune(&mut tree, &self.resource.info.schema);
                (tree, Vec::new())
            }
        };
        let unusable = |given: &str, version: &str, why: &str| {
            Status::bad_request(format!("{given} in version {version:?} cannot be handled as a {kind}: {why}"))
        };
        match self.misfit(&object) {
            None => {}
            Some(Misfit::Unreadable(why)) => return Err(unreadable(why)),
            Some(Misfit::Kindless) if validation == FieldValidation::Ignore => {
                return Err(unusable(kind, &self.info.version, &kindless(&bytes)));
            }
            Some(Misfit::Kindless) => return Err(unreadable(kindless(&bytes))),
            Some(Misfit::Unusable { kind, version, why }) => return Err(unusable(&kind, &version, &why)),
            Some(Misfit::OtherVersion(given)) => return Err(self.other_version(&given)),
            Some(Misfit::OtherKind(status)) => return Err(status),
        }
        self.stamp(&mut object);
        if let Some(wrong) = self.mistyped(&mut object) {
            return Err(unusable(kind, &self.info.version, &wrong.decoder));
        }
        Ok((object, self.field_findings(findings, validation)?))
    }

    /// Decodes JSON along the schema. Upstream reads a custom resource as a document without a type first, and only then
    /// holds it against its schema, so what is there twice is told first, wherever it is.
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

    /// What becomes of unknown and duplicate fields.
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
