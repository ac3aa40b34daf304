//! What all answers of API servers have in common: they are objects, with metadata that are an object, and so are the items
//! of lists and the rows of Tables. Commands rely on it where they change what they have read.

use serde_json::Value;

/// An answer, decoded and checked.
///
/// # Errors
/// If it is not JSON, or of another form; `attempt` names the request.
pub fn decode(attempt: &str, bytes: &[u8]) -> Result<Value, client::Error> {
    let failed = |why: String| client::Error::Decode { attempt: attempt.to_owned(), why };
    let answer = serde_json::from_slice(bytes).map_err(|error| failed(error.to_string()))?;
    check(&answer).map_err(failed)?;
    Ok(answer)
}

/// # Errors
/// The first part that is of another form.
pub fn check(answer: &Value) -> Result<(), String> {
    object(answer, "it")?;
    let parts = match answer["kind"].as_str() {
        Some("Table") => "rows",
        Some(kind) if kind.ends_with("List") => "items",
        _ => return Ok(()),
    };
    let mut each = answer[parts].as_array().into_iter().flatten().enumerate();
    each.try_for_each(|(at, part)| object(part, &format!("{parts}[{at}]")))
}

/// The text of a field; empty where it is absent or no text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Labels and annotations may be anything that [`Value::get_mut`] can look at; metadata are written to.
fn object(value: &Value, name: &str) -> Result<(), String> {
    match (value, &value["metadata"]) {
        (Value::Object(_), Value::Object(_) | Value::Null) => Ok(()),
        (Value::Object(_), _) => Err(format!("{name} has metadata that are not an object")),
        _ => Err(format!("{name} is not an object")),
    }
}

/// Takes the items out of a list; `None` for an answer that is not a list.
pub fn take_items(list: &mut Value) -> Option<Vec<Value>> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_other_forms_are_named() {
        for (answer, expected) in [
            (json!({}), ""),
            (json!({"kind": "Pod", "metadata": {"name": "a"}, "items": [7]}), ""),
            (json!({"kind": "PodList", "metadata": null, "items": [{"metadata": {}}]}), ""),
            (json!(7), "it is not an object"),
            (json!([]), "it is not an object"),
            (json!({"metadata": "x"}), "it has metadata that are not an object"),
            (json!({"kind": "PodList", "items": [{}, "x"]}), "items[1] is not an object"),
            (json!({"kind": "List", "items": [{"metadata": []}]}), "items[0] has metadata that are not an object"),
            (json!({"kind": "Table", "rows": [null]}), "rows[0] is not an object"),
        ] {
            let found = decode("GET /a", answer.to_string().as_bytes())
                .map_or_else(|error| error.to_string(), |_| String::new());
            assert!(found.ends_with(expected) && found.is_empty() == expected.is_empty(), "{answer}: {found}");
        }
    }
}
