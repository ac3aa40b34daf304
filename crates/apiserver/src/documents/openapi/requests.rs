//! Types of request and response bodies that no resource has.

use serde_json::{Map, Value, json};

use super::schema::type_text;

/// `Status` with its parts.
pub fn status(
    name: &str,
    mut details: Map<String, Value>,
    cause: &Value,
    meta: Map<String, Value>,
) -> [(String, Value); 3] {
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": "integer", "format": "int32", "description": description});
    details.insert("description".into(), "What the failure concerns.".into());
    let status = json!({"type": "object", "description": "The outcome of a request without another response.", "properties": {
        "apiVersion": type_text("apiVersion"), "kind": type_text("kind"), "metadata": meta,
        "code": number("The HTTP status code."), "message": text("The outcome for people."),
        "reason": text("The outcome for programs."), "status": text("Success or Failure."), "details": details}});
    let details = json!({"type": "object", "description": "What a failure concerns.", "properties": {
        "causes": {"type": "array", "items": cause, "x-kubernetes-list-type": "atomic",
            "description": "What is wrong, field by field."},
        "group": text("The group of the resource."), "kind": text("The resource or its kind."),
        "name": text("The name of the object."), "uid": text("The UID of the object."),
        "retryAfterSeconds": number("Seconds after which the request may be repeated.")}});
    let cause = json!({"type": "object", "description": "One error.", "properties": {
        "field": text("The path of the field."), "message": text("The error for people."),
        "reason": text("The error for programs.")}});
    [(name.to_owned(), status), (format!("{name}Details"), details), (format!("{name}Cause"), cause)]
}
