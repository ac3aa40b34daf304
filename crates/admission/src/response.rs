//! The response of a webhook, decoded with Go's messages about values of the wrong type.

use apimachinery::status::StatusDetails;
use apimachinery::{go_json, yaml};
use base64::Engine as _;
use serde_json::{Map, Value};

/// An AdmissionReview; all its fields may be missing.
#[derive(Debug, Default)]
pub struct Review {
    pub kind: String,
    pub api_version: String,
    pub response: Option<Response>,
}

#[derive(Debug, Default)]
pub struct Response {
    pub uid: String,
    pub allowed: bool,
    pub status: Option<Refusal>,
    pub patch: Vec<u8>,
    pub patch_type: Option<String>,
    pub audit_annotations: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// A Status of which every field may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusal {
    pub status: String,
    pub message: String,
    pub reason: String,
    pub code: i64,
    pub details: Option<Box<StatusDetails>>,
}

/// Reads a review in JSON or YAML.
///
/// # Errors
/// kube-apiserver's text.
pub fn decode(body: &[u8]) -> Result<Review, String> {
    let fields = match tree(body).map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))? {
        Value::Object(fields) => fields,
        _ => return Ok(Review::default()),
    };
    let text = |name: &str| Ok::<_, String>(text(&fields, name, name, "string")?.unwrap_or_default());
    Ok(Review {
        kind: text("kind")?,
        api_version: text("apiVersion")?,
        response: object(&fields, "response", "AdmissionReview.response", "v1.AdmissionResponse")?
            .map(Response::decode)
            .transpose()?,
    })
}

/// An object, or null.
fn tree(body: &[u8]) -> Result<Value, String> {
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let tree = if is_json {
        serde_json::from_slice(body)
            .map_err(|error| go_json::syntax_error(body).unwrap_or_else(|| error.to_string()))?
    } else {
        yaml::to_json_value(body).map_err(|error| error.to_string())?
    };
    if tree.is_object() || tree.is_null() {
        return Ok(tree);
    }
    Err(format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
         Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go_json::type_name(&tree)
    ))
}

impl Response {
    fn decode(fields: &Map<String, Value>) -> Result<Self, String> {
        let place = |name: &str| format!("AdmissionResponse.response.{name}");
        let text = |name: &str, type_: &str| text(fields, name, &place(name), type_);
        let patch = text("patch", "[]uint8")?.unwrap_or_default();
        let annotations = object(fields, "auditAnnotations", &place("auditAnnotations"), "map[string]string")?;
        let annotations = annotations.into_iter().flatten().map(|(key, value)| match value {
            Value::String(value) => Ok((key.clone(), value.clone())),
            other => Err(mistyped(other, &place("auditAnnotations"), "string")),
        });
        let warnings = field(fields, "warnings", &place("warnings"), "[]string", Value::as_array)?;
        let warnings = warnings.into_iter().flatten().map(|value| match value {
            Value::String(value) => Ok(value.clone()),
            other => Err(mistyped(other, &place("warnings"), "string")),
        });
        Ok(Self {
            uid: text("uid", "types.UID")?.unwrap_or_default(),
            allowed: field(fields, "allowed", &place("allowed"), "bool", Value::as_bool)?.unwrap_or_default(),
            status: object(fields, "status", &place("status"), "v1.Status")?.map(Refusal::decode).transpose()?,
            patch: base64::prelude::BASE64_STANDARD.decode(&patch).map_err(|error| illegal(&patch, &error))?,
            patch_type: text("patchType", "v1.PatchType")?,
            audit_annotations: annotations.collect::<Result<_, _>>()?,
            warnings: warnings.collect::<Result<_, _>>()?,
        })
    }
}

impl Refusal {
    fn decode(fields: &Map<String, Value>) -> Result<Self, String> {
        let place = |name: &str| format!("Status.response.status.{name}");
        let text =
            |name: &str, type_: &str| Ok::<_, String>(text(fields, name, &place(name), type_)?.unwrap_or_default());
        let code = |value: &Value| value.as_i64().filter(|code| i32::try_from(*code).is_ok());
        let details = |value: &Value| serde_json::from_value(value.clone()).ok();
        Ok(Self {
            status: text("status", "string")?,
            message: text("message", "string")?,
            reason: text("reason", "v1.StatusReason")?,
            code: field(fields, "code", &place("code"), "int32", code)?.unwrap_or_default(),
            details: field(fields, "details", &place("details"), "v1.StatusDetails", details)?,
        })
    }
}

/// A field that is neither missing nor null.
fn field<'v, T>(
    fields: &'v Map<String, Value>,
    name: &str,
    place: &str,
    type_: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| mistyped(value, place, type_)),
    }
}

fn text(fields: &Map<String, Value>, name: &str, place: &str, type_: &str) -> Result<Option<String>, String> {
    field(fields, name, place, type_, |value| value.as_str().map(str::to_owned))
}

fn object<'v>(
    fields: &'v Map<String, Value>,
    name: &str,
    place: &str,
    type_: &str,
) -> Result<Option<&'v Map<String, Value>>, String> {
    field(fields, name, place, type_, Value::as_object)
}

fn mistyped(value: &Value, place: &str, type_: &str) -> String {
    let found = match value {
        Value::Number(number) if type_ == "int32" => format!("number {number}"),
        other => go_json::type_name(other).to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field {place} of type {type_}")
}

fn illegal(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => text.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mistyped_responses_have_gos_messages() {
        let of_response = |response: Value| decode(json!({ "response": response }).to_string().as_bytes());
        for (response, expected) in [
            (json!({"uid": 5}), "number into Go struct field AdmissionResponse.response.uid of type types.UID"),
            (json!({"allowed": "true"}), "string into Go struct field AdmissionResponse.response.allowed of type bool"),
            (
                json!({"auditAnnotations": {"k": 5}}),
                "number into Go struct field AdmissionResponse.response.auditAnnotations of type string",
            ),
            (
                json!({"warnings": "x"}),
                "string into Go struct field AdmissionResponse.response.warnings of type []string",
            ),
            (json!({"status": [1]}), "array into Go struct field AdmissionResponse.response.status of type v1.Status"),
            (
                json!({"status": {"message": 5}}),
                "number into Go struct field Status.response.status.message of type string",
            ),
            (
                json!({"status": {"code": "403"}}),
                "string into Go struct field Status.response.status.code of type int32",
            ),
            (json!([]), "array into Go struct field AdmissionReview.response of type v1.AdmissionResponse"),
        ] {
            let found = of_response(response.clone()).expect_err("a value of the wrong type");
            assert_eq!(found, format!("json: cannot unmarshal {expected}"), "{response}");
        }
        assert_eq!(of_response(json!({"patch": "!!!"})).unwrap_err(), "illegal base64 data at input byte 0");
    }

    #[test]
    fn reviews_are_json_or_yaml() {
        let yaml = decode(b"kind: AdmissionReview\nresponse:\n  allowed: true\n").expect("a review in YAML");
        assert!(yaml.kind == "AdmissionReview" && yaml.response.is_some_and(|response| response.allowed));
        let repeated = decode(br#"{"response": {"allowed": false, "allowed": true}}"#).expect("the last value counts");
        assert!(repeated.response.is_some_and(|response| response.allowed));
        assert!(decode(b"null").is_ok_and(|review| review.response.is_none()));
        for (body, expected) in [
            ("<html>", "cannot unmarshal string into Go value of type struct"),
            ("[]", "cannot unmarshal array into Go value"),
            ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
            ("{}x", "invalid character 'x' after top-level value"),
        ] {
            let found = decode(body.as_bytes()).expect_err(body);
            assert!(found.contains(expected), "{found}");
        }
    }
}
