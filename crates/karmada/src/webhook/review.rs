//! AdmissionReview and ConversionReview: one tree in, one tree out.

use apiextensions::Converter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_api::admission::webhooks::Webhook;
use karmada_api::admission::{self, Denied, Operation, Written};
use karmada_api::work::BindingConverter;
use serde_json::{Value, json};

use super::difference;
use crate::rules::{Refusal, Review, Rules};

/// The response to a review at the path of `webhook`, and its code.
pub async fn answer(rules: &Rules, webhook: &Webhook, review: &Value) -> (Value, u16) {
    let request = &review["request"];
    // A missing id counts as an empty one.
    let uid = request["uid"].as_str().unwrap_or_default();
    let (response, code) = match admit(rules, webhook, request).await {
        Ok(Verdict { patch, message, warnings }) => {
            let mut response = json!({ "uid": uid, "allowed": true, "status": { "metadata": {}, "code": 200 } });
            if !message.is_empty() {
                response["status"]["message"] = json!(message);
            }
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
            if !patch.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(Value::Array(patch).to_string()));
            }
            (response, 200)
        }
        Err(refusal) => {
            let (code, reason, message) = refusal.denied().answer();
            (refused(uid, code, reason, &message), code)
        }
    };
    // The response has the version of the request.
    let version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1");
    (json!({ "apiVersion": version, "kind": "AdmissionReview", "response": response }), code)
}

fn refused(uid: &str, code: u16, reason: &str, message: &str) -> Value {
    let mut status = json!({ "metadata": {}, "message": message, "code": code });
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    json!({ "uid": uid, "allowed": false, "status": status })
}

/// The response to a body that is not a review; it has no version.
pub fn unread(code: u16, message: &str) -> Value {
    json!({ "response": refused("", code, "", message) })
}

/// The outcome of an admitted request: the changed object, or messages about it.
#[derive(Default)]
struct Verdict {
    patch: Vec<Value>,
    message: String,
    /// `Warning` headers of the API server that sent the review.
    warnings: Vec<String>,
}

async fn admit(rules: &Rules, webhook: &Webhook, request: &Value) -> Result<Verdict, Refusal> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let operation = text(&request["operation"]);
    let Some(operation) = Operation::from_wire(&operation) else {
        return Err(
            Denied::Undecodable(format!("operation {operation:?} is not one this webhook is called for")).into()
        );
    };
    let kind = &request["kind"];
    let (group, version, kind) = (text(&kind["group"]), text(&kind["version"]), text(&kind["kind"]));
    if webhook.group != "*" && (group != webhook.group || kind != webhook.kind) {
        let expected_kind = webhook.kind;
        return Err(Denied::Undecodable(format!(
            "unable to decode {group}/{version}, Kind={kind} into {expected_kind}"
        ))
        .into());
    }
    let namespace = text(&request["namespace"]);
    let old = Some(&request["oldObject"]).filter(|old| old.is_object());
    let review = Review {
        operation,
        group: &group,
        version: &version,
        kind: &kind,
        namespace: &namespace,
        old,
        dry_run: request["dryRun"] == true,
    };
    let object = match operation {
        Operation::Delete => old.unwrap_or(&Value::Null),
        _ => &request["object"],
    };
    if !object.is_object() {
        return Err(Denied::Undecodable("there is no content to decode".to_owned()).into());
    }
    if !webhook.mutating {
        // Within the API server, the object has been checked against its schema; here it has not.
        admission::decodes(webhook.group, webhook.kind, object)?;
        rules.validate(review, object).await?;
        let message = rules.charge_quotas(review, object).await?;
        let warnings = match operation {
            Operation::Delete => Vec::new(),
            _ => {
                let unreadable = rules.unreadable(review, object, &request["userInfo"]).await;
                let unreadable = &unreadable;
                let written = Written { group: &group, kind: &kind, object, old, by_own_server: false, unreadable };
                admission::warnings(&written, &rules.options)
            }
        };
        return Ok(Verdict { message, warnings, ..Verdict::default() });
    }
    let mut changed = object.clone();
    rules.mutate(review, &mut changed)?;
    admission::encoded(webhook.kind, &mut changed);
    Ok(Verdict { patch: difference::patch(object, &changed), ..Verdict::default() })
}

/// Converts bindings between their versions.
pub fn conversion(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let version = desired.rsplit('/').next().unwrap_or_default();
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Result<Vec<Value>, String> = objects
        .into_iter()
        .map(|mut object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            if !matches!(kind, "ResourceBinding" | "ClusterResourceBinding") {
                return Err(format!("{kind} is not converted here"));
            }
            BindingConverter.convert(&mut object, version).map(|()| object)
        })
        .collect();
    let response = match converted {
        Ok(objects) => {
            json!({ "uid": request["uid"], "convertedObjects": objects, "result": { "metadata": {}, "status": "Success" } })
        }
        Err(why) => {
            let result = json!({ "metadata": {}, "status": "Failure", "message": why });
            json!({ "uid": request["uid"], "convertedObjects": null, "result": result })
        }
    };
    let version = review["apiVersion"].as_str().unwrap_or("apiextensions.k8s.io/v1");
    json!({ "apiVersion": version, "kind": "ConversionReview", "response": response })
}
