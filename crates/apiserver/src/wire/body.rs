//! Request bodies: size limit, media types, decoding.

use apimachinery::{Status, StatusReason};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kubernetes_api::protobuf::ProtobufError;
use serde_json::Value;
use transport::Body;

use crate::request::options::FieldValidation;

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
/// client-go sends built-in kinds this way, kubectl since 1.32 included.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The prefix of every Kubernetes protobuf document.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// Bytes of a body that an error shows.
const SHOWN: usize = 30;

/// kube-apiserver's bound on request bodies.
const LIMIT: usize = 3 * 1024 * 1024;

/// The whole body. Most arrive in one piece, which is not copied.
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

/// The media type of a patch, without parameters; JSON when the header is absent.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    text.split(';').next().unwrap_or(text).trim()
}

/// The media type of an object, one of those that are accepted: in any case, and with valid parameters. JSON when the
/// header is absent or empty.
pub(crate) fn object_type(headers: &HeaderMap) -> Option<&'static str> {
    const TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    match name.trim() {
        "" => Some(JSON),
        name => TYPES.into_iter().find(|known| known.eq_ignore_ascii_case(name) && are_parameters(parameters)),
    }
}

/// Whether Go's parser of media types reads these parameters.
fn are_parameters(mut text: &str) -> bool {
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return true;
        }
        let Some((name, value)) = text.split_once('=') else { return false };
        let value = value.trim_start();
        let end = match value.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map(|at| at + 2),
            None => Some(value.find([';', ' ', '\t']).unwrap_or(value.len())),
        };
        let Some(end) = end.filter(|end| *end > 0 && is_token(name.trim_end())) else { return false };
        let rest = value[end..].trim_start();
        match rest.strip_prefix(';') {
            Some(rest) => text = rest,
            None => return rest.is_empty(),
        }
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
}

/// Decodes an object in any of the accepted forms.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Status> {
    match object_type(headers) {
        Some(JSON) => serde_json::from_slice(bytes).map_err(|e| {
            Status::bad_request(format!("error decoding the request body as JSON: {}", json_error(bytes, &e)))
        }),
        Some(YAML) => yaml(bytes),
        Some(_) => kubernetes_api::protobuf::decode(bytes).map_err(|error| match error {
            ProtobufError::UnknownKind(_) => {
                Status::failure(StatusReason::UnsupportedMediaType, format!("cannot decode {PROTOBUF}: {error}"))
            }
            other => Status::bad_request(format!("error decoding the request body as protobuf: {other}")),
        }),
        None => Err(Status::failure(
            StatusReason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Go's message for malformed JSON; serde's where the syntax is valid.
pub(crate) fn json_error(json: &[u8], error: &serde_json::Error) -> String {
    apimachinery::go_json::syntax_error(json).unwrap_or_else(|| error.to_string())
}

/// The start of a body, as kube-apiserver shows one that it cannot read.
pub(crate) fn summary(bytes: &[u8]) -> String {
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

/// Go reads the first document of a stream and ignores the others.
pub(crate) fn first_document(stream: &[u8]) -> &[u8] {
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
pub(crate) fn yaml_findings(twice: Vec<String>, unknown: Vec<String>, validation: FieldValidation) -> Vec<String> {
    if twice.is_empty() || validation != FieldValidation::Strict {
        return [twice, unknown].concat();
    }
    [vec![format!("yaml: unmarshal errors:\n  {}", twice.join("\n  "))], unknown].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_as_by_go() {
        for (text, expected) in [
            ("", Some(JSON)),
            ("Application/JSON", Some(JSON)),
            ("application/json; Charset=UTF-8", Some(JSON)),
            ("application/json ; charset=\"a;b\" ; x=y;", Some(JSON)),
            ("APPLICATION/yaml", Some(YAML)),
            ("application/json;;", None),
            ("application/json; charset", None),
            ("application/json; charset=", None),
            ("application/json; cha set=a", None),
            ("application/json, application/yaml", None),
            ("text/plain", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, text.parse().expect("a header"))]);
            assert_eq!(object_type(&headers), expected, "{text}");
        }
        assert_eq!(object_type(&HeaderMap::new()), Some(JSON));
    }
}
