//! Reading request bodies: size limit, media type, one decoded tree.

use apimachinery::{Status, StatusReason};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde_json::Value;
use transport::Body;

use super::Call;

/// kube-apiserver's bound on request bodies.
const LIMIT: usize = 3 * 1024 * 1024;

pub(super) async fn read(mut body: Body) -> Result<Bytes, Status> {
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
pub(super) fn decode(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Status> {
    match media_type(headers) {
        "application/json" | "" => serde_json::from_slice(bytes)
            .map_err(|e| Status::bad_request(format!("error decoding the request body as JSON: {e}"))),
        "application/yaml" => yaml(bytes),
        other => Err(Status::failure(
            StatusReason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json, application/yaml"
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
    /// The object of a create or update. Its kind may be absent; if it is there, it must be the resource's.
    pub(super) async fn object(&self, body: Body) -> Result<Value, Status> {
        let mut object = decode(self.headers, &read(body).await?)?;
        self.stamp(&mut object)?;
        Ok(object)
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
