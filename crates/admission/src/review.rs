//! AdmissionReviews: the request that a webhook gets, and the check of its response.

use apimachinery::patch::PatchError;
use apimachinery::{Status, json_patch};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::request::{Documents, Phase};
use crate::response::{self, Refusal, Response};

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// The versions of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V1Beta1,
}

impl Version {
    /// The first of a webhook's versions that the server supports.
    pub fn first_of(versions: &Value) -> Option<Self> {
        versions.as_array()?.iter().find_map(|version| match version.as_str()? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: String,
    request: Request<'a>,
}

#[derive(Serialize)]
struct Request<'a> {
    uid: &'a str,
    #[serde(flatten)]
    facts: &'a Map<String, Value>,
    object: Option<&'a Value>,
    #[serde(rename = "oldObject")]
    old_object: Option<&'a Value>,
}

/// The body of a review. `facts` is the request without its UID and objects.
pub fn encode(version: Version, uid: &str, facts: &Value, documents: &Documents) -> Result<Vec<u8>, serde_json::Error> {
    let none = Map::new();
    let request = Request {
        uid,
        facts: facts.as_object().unwrap_or(&none),
        object: documents.new.as_ref(),
        old_object: documents.old.as_ref(),
    };
    serde_json::to_vec(&Envelope { kind: KIND, api_version: format!("{GROUP}/{}", version.text()), request })
}

/// A valid response.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// The refusal, if the request is not allowed.
    pub refusal: Option<Status>,
    /// A patch of type JSONPatch.
    pub patch: Vec<u8>,
    pub annotations: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// Reads the response of a webhook.
///
/// # Errors
/// kube-apiserver's text about an invalid response.
pub fn decode(body: &[u8], version: Version, uid: &str, phase: Phase, webhook: &str) -> Result<Verdict, String> {
    let review = response::decode(body).map_err(|why| format!("failed to call webhook: {why}"))?;
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let response = review.response.ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
    if version == Version::V1 {
        check_v1(&response, &review.api_version, &review.kind, uid, phase).map_err(invalid)?;
    }
    let patch = if phase == Phase::Mutation { response.patch } else { Vec::new() };
    if !patch.is_empty() && version == Version::V1 && response.patch_type.as_deref() != Some("JSONPatch") {
        return Err(format!("unsupported patch type {:?}", response.patch_type.unwrap_or_default()));
    }
    let annotations = response.audit_annotations.into_iter();
    Ok(Verdict {
        refusal: (!response.allowed).then(|| denied(webhook, response.status)),
        patch,
        annotations: annotations.map(|(key, value)| (format!("{webhook}/{key}"), value)).collect(),
        warnings: response.warnings,
    })
}

fn check_v1(response: &Response, api_version: &str, kind: &str, uid: &str, phase: Phase) -> Result<(), String> {
    if response.uid != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if (group, version, kind) != (GROUP, "v1", KIND) {
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind={KIND}, got {group}/{version}, Kind={kind}"
        ));
    }
    let wrong = match (phase, response.patch.is_empty(), response.patch_type.as_deref()) {
        (Phase::Mutation, false, None) => "webhook returned response.patch but not response.patchType",
        (Phase::Mutation, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (Phase::Mutation, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (Phase::Validation, false, _) => "validating webhook may not return response.patch",
        (Phase::Validation, _, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(wrong.to_owned())
}

/// A refusal as clients get it: at least 400, and with the name of the webhook.
fn denied(webhook: &str, returned: Option<Refusal>) -> Status {
    let returned = returned.unwrap_or_default();
    let by = format!("admission webhook {webhook:?} denied the request");
    let why = if returned.message.is_empty() { &returned.reason } else { &returned.message };
    let is_failure = !matches!(returned.status.as_str(), "" | "Success");
    Status {
        kind: "Status".to_owned(),
        api_version: "v1".to_owned(),
        status: if is_failure { returned.status.clone() } else { "Failure".to_owned() },
        message: if why.is_empty() { format!("{by} without explanation") } else { format!("{by}: {why}") },
        code: u16::try_from(returned.code).ok().filter(|code| (400..1000).contains(code)).unwrap_or(400),
        reason: returned.reason,
        details: returned.details,
        ..Status::default()
    }
}

/// Why a patch changes nothing.
#[derive(Debug)]
pub enum Unpatched {
    /// It is no patch: its webhook has failed.
    Undecodable(String),
    /// It does not apply: the request fails.
    Inapplicable(Status),
}

impl Unpatched {
    fn into_message(self) -> String {
        match self {
            Self::Undecodable(why) => why,
            Self::Inapplicable(status) => status.message,
        }
    }
}

/// The object after a patch; `None` if there is no patch, or one without operations.
///
/// # Errors
/// If the patch is malformed, or does not apply.
pub fn patched(webhook: &str, object: Option<&Value>, patch: &[u8]) -> Result<Option<Value>, Unpatched> {
    if patch.is_empty() {
        return Ok(None);
    }
    let patch = json_patch::parse(patch).map_err(|error| match error {
        PatchError::Malformed(why) => {
            let why = why.replace("[]handlers.jsonPatchOp", "jsonpatch.Patch");
            let why = why.replace("handlers.jsonPatchOp", "jsonpatch.Operation");
            Unpatched::Undecodable(format!("received undecodable patch in webhook response: {why}"))
        }
        other => Unpatched::Inapplicable(Status::internal(other)),
    })?;
    if patch.is_empty() {
        return Ok(None);
    }
    let object = object.ok_or_else(|| {
        Unpatched::Inapplicable(Status::internal(format!(
            "admission webhook {webhook:?} attempted to modify the object, which is not supported for this operation"
        )))
    })?;
    let mut changed = object.clone();
    patch.apply(&mut changed).map_err(|error| Unpatched::Inapplicable(Status::internal(error)))?;
    Ok(Some(changed))
}

/// The object after the response of a mutating webhook; `None` if it is unchanged. `uid` is that of the review.
///
/// # Errors
/// The text of an invalid response or of a denial.
pub fn decided(body: &[u8], uid: &str, object: Option<&Value>) -> Result<Option<Value>, String> {
    let verdict = decode(body, Version::V1, uid, Phase::Mutation, "webhook")?;
    if let Some(refusal) = verdict.refusal {
        return Err(refusal.message);
    }
    patched("webhook", object, &verdict.patch).map_err(Unpatched::into_message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GVK: &str = r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview""#;

    fn read(version: Version, phase: Phase, body: &str) -> Result<Verdict, String> {
        decode(body.replace("GVK", GVK).as_bytes(), version, "u", phase, "w.x.y")
    }

    #[test]
    fn malformed_responses_are_rejected() {
        use Phase::{Mutation, Validation};
        for (version, phase, body, expected) in [
            (Version::V1, Validation, "{GVK}", "received invalid webhook response: webhook response was absent"),
            (
                Version::V1,
                Validation,
                r#"{GVK,"response":{"uid":"v","allowed":true}}"#,
                "received invalid webhook response: expected response.uid=\"u\", got \"v\"",
            ),
            (
                Version::V1,
                Validation,
                r#"{"response":{"uid":"u","allowed":true}}"#,
                "received invalid webhook response: expected webhook response of admission.k8s.io/v1, \
                 Kind=AdmissionReview, got /, Kind=",
            ),
            (
                Version::V1,
                Validation,
                r#"{GVK,"response":{"uid":"u","allowed":true,"patch":"W10="}}"#,
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
            (
                Version::V1,
                Validation,
                r#"{GVK,"response":{"uid":"u","allowed":true,"patchType":"JSONPatch"}}"#,
                "received invalid webhook response: validating webhook may not return response.patchType",
            ),
            (
                Version::V1,
                Mutation,
                r#"{GVK,"response":{"uid":"u","allowed":true,"patch":"W10="}}"#,
                "received invalid webhook response: webhook returned response.patch but not response.patchType",
            ),
            (
                Version::V1,
                Mutation,
                r#"{GVK,"response":{"uid":"u","allowed":true,"patchType":"JSONPatch"}}"#,
                "received invalid webhook response: webhook returned response.patchType but not response.patch",
            ),
            (
                Version::V1,
                Mutation,
                r#"{GVK,"response":{"uid":"u","allowed":true,"patch":"W10=","patchType":"Merge"}}"#,
                "unsupported patch type \"Merge\"",
            ),
            (
                Version::V1,
                Mutation,
                "{<",
                "failed to call webhook: couldn't get version/kind; json parse error: invalid character '<' looking for \
                 beginning of object key string",
            ),
        ] {
            assert_eq!(read(version, phase, body), Err(expected.to_owned()), "{body}");
        }
        let old = read(Version::V1Beta1, Mutation, r#"{"response":{"allowed":true,"patch":"W10="}}"#);
        assert_eq!(old.map(|verdict| verdict.patch), Ok(b"[]".to_vec()), "v1beta1 checks neither the UID nor the kind");
    }

    #[test]
    fn refusals_have_codes_reasons_and_texts() {
        for (status, code, reason, message) in [
            (json!(null), 400, "", "without explanation"),
            (json!({}), 400, "", "without explanation"),
            (json!({"message": "no", "code": 200, "status": "Success"}), 400, "", "no"),
            (json!({"message": "no", "code": 403, "reason": "Forbidden"}), 403, "Forbidden", "no"),
            (json!({"reason": "Conflict", "code": 409}), 409, "Conflict", "Conflict"),
            (json!({"message": "no", "code": 100_000}), 400, "", "no"),
        ] {
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": KIND,
                              "response": {"uid": "u", "allowed": false, "status": status,
                                           "warnings": ["w"], "auditAnnotations": {"k": "v"}}});
            let verdict = read(Version::V1, Phase::Validation, &body.to_string()).expect("a verdict");
            let refusal = verdict.refusal.expect("a refusal");
            let text = if message == "without explanation" { " " } else { ": " };
            assert_eq!(refusal.message, format!("admission webhook \"w.x.y\" denied the request{text}{message}"));
            assert_eq!((refusal.code, &*refusal.reason, &*refusal.status), (code, reason, "Failure"));
            assert_eq!(verdict.warnings, ["w"]);
            assert_eq!(verdict.annotations, [("w.x.y/k".to_owned(), "v".to_owned())]);
        }
    }

    #[test]
    fn patches() {
        let object = json!({"a": 1});
        let apply = |object: Option<&Value>, patch: &str| {
            patched("w", object, patch.as_bytes()).map_err(Unpatched::into_message)
        };
        assert_eq!(apply(Some(&object), "[]"), Ok(None));
        let add = r#"[{"op":"add","path":"/b","value":2}]"#;
        assert_eq!(apply(Some(&object), add), Ok(Some(json!({"a": 1, "b": 2}))));
        let refused = apply(None, add).expect_err("nothing to patch");
        assert!(refused.ends_with("attempted to modify the object, which is not supported for this operation"));
        for (bad, expected) in [
            ("{", "received undecodable patch in webhook response: unexpected end of JSON input"),
            (
                "{}",
                "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type \
                 jsonpatch.Patch",
            ),
            (
                r#"[{"op":"remove","path":"/c"}]"#,
                "Internal error occurred: error in remove for path: '/c': Unable to remove nonexistent key: c: missing value",
            ),
            (
                r#"[{"op":"test","path":"/a","value":2}]"#,
                "Internal error occurred: testing value /a failed: test failed",
            ),
        ] {
            assert_eq!(apply(Some(&object), bad), Err(expected.to_owned()));
        }
    }

    #[test]
    fn reviews_match_upstreams_format() {
        let facts = json!({"operation": "CREATE"});
        let documents = Documents { new: Some(json!({"kind": "K"})), old: None };
        let body = encode(Version::V1Beta1, "u", &facts, &documents).expect("JSON");
        assert_eq!(
            String::from_utf8_lossy(&body),
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u","operation":"CREATE","object":{"kind":"K"},"oldObject":null}}"#
        );
    }
}
