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

/// client-go sends built-in kinds this way, kubectl since 1.32 included.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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
        "application/json" | "" => serde_json::from_slice(bytes)
            .map_err(|e| Status::bad_request(format!("error decoding the request body as JSON: {e}"))),
        "application/yaml" => yaml(bytes),
        PROTOBUF => kubernetes_api::protobuf::decode(bytes).map_err(|error| match error {
            ProtobufError::UnknownKind(_) => {
                Status::failure(StatusReason::UnsupportedMediaType, format!("cannot decode {PROTOBUF}: {error}"))
            }
            other => Status::bad_request(format!("error decoding the request body as protobuf: {other}")),
        }),
        other => Err(Status::failure(
            StatusReason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf"
            ),
        )),
    }
}

pub(super) fn yaml(bytes: &[u8]) -> Result<Value, Status> {
    let text = std::str::from_utf8(bytes).map_err(|_| Status::bad_request("the request body is not UTF-8"))?;
    serde_saphyr::from_str(text)
        .map_err(|e| Status::bad_request(format!("error decoding the request body as YAML: {e}")))
}

impl Call<'_> {
    /// The object of a create or update, and what the client should be warned of. Its kind may be absent; if it is
    /// there, it must be the resource's.
    pub(super) async fn object(&self, body: Body) -> Result<(Value, Vec<String>), Status> {
        let bytes = read(body).await?;
        let kind = self.resource.info.resource.kind.as_str();
        let json = match media_type(self.headers) {
            "application/json" | "" => bytes,
            _ => serde_json::to_vec(&decode(self.headers, &bytes)?).map_err(Status::internal)?.into(),
        };
        let (mut object, findings) = strict::decode(&json, &self.resource.info.schema).map_err(|e| {
            Status::bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {e}", self.info.version))
        })?;
        self.stamp(&mut object)?;
        if let Some(wrong) = self.mistyped(&object) {
            let version = &self.info.version;
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {wrong}"
            )));
        }
        Ok((object, self.field_findings(findings)?))
    }

    /// The first value of a built-in kind that has the wrong type.
    pub(super) fn mistyped(&self, object: &Value) -> Option<String> {
        let info = &self.resource.info;
        if info.custom { None } else { super::types::mismatch(&info.resource.kind, object, &info.schema) }
    }

    /// What becomes of unknown and duplicate fields: `fieldValidation`, by default warnings.
    pub(super) fn field_findings(&self, findings: Vec<String>) -> Result<Vec<String>, Status> {
        match self.info.query.text("fieldValidation") {
            Some("Ignore") => Ok(Vec::new()),
            Some("Strict") if !findings.is_empty() => {
                let kind = self.resource.info.resource.kind.as_str();
                Err(Status::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: {}",
                    self.info.version,
                    strict::error_text(&findings)
                )))
            }
            None | Some("Warn" | "Strict") => Ok(findings),
            Some(other) => {
                let path = apimachinery::field::Path::new("fieldValidation");
                let error = apimachinery::field::Error::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]);
                Err(Status::invalid("meta.k8s.io", "CreateOptions", "", &[error]))
            }
        }
    }

    /// Puts the resource's kind and version where the body left them out.
    pub(super) fn stamp(&self, object: &mut Value) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        let Some(map) = object.as_object_mut() else {
            return Err(Status::bad_request(format!("the request body is no {} object", named.kind)));
        };
        let (api_version, kind) = (named.api_version(), named.kind.as_str());
        let given = map.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() && given != kind {
            let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            return Err(Status::bad_request(format!(
                "{given} in version {version:?} cannot be handled as a {kind}: no kind {given:?} is registered here"
            )));
        }
        let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if !version.is_empty() && version != api_version {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({api_version})"
            )));
        }
        map.insert("kind".into(), kind.into());
        map.insert("apiVersion".into(), api_version.into());
        let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
        if metadata.is_null() {
            *metadata = Value::Object(Default::default());
        }
        if !metadata.is_object() {
            return Err(Status::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: metadata is no object",
                named.version
            )));
        }
        Ok(())
    }
}
