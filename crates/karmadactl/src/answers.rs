//! What all answers of API servers have in common: they are objects, with metadata that are an object, and so are the items
//! of lists and the rows of Tables. Commands rely on it where they change what they have read.

use apimachinery::Status;
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

/// As [`decode`], for objects and lists, which have a kind.
///
/// # Errors
/// The Status that a server returns as a success.
pub fn object(attempt: &str, bytes: &[u8]) -> Result<Value, client::Error> {
    let answer = decode(attempt, bytes)?;
    match answer["kind"].as_str() {
        None | Some("") => {
            Err(client::Error::Decode { attempt: attempt.to_owned(), why: "Object 'Kind' is missing".to_owned() })
        }
        Some("Status") if answer["status"] == "Failure" => match serde_json::from_value::<Status>(answer) {
            Ok(status) => Err(status.into()),
            Err(error) => Err(client::Error::Decode { attempt: attempt.to_owned(), why: error.to_string() }),
        },
        Some(_) => Ok(answer),
    }
}

/// # Errors
/// The first part that is of another form.
pub fn check(answer: &Value) -> Result<(), String> {
    is_object(answer, "it")?;
    let parts = match answer["kind"].as_str() {
        Some("Table") => "rows",
        Some(kind) if kind.ends_with("List") => "items",
        _ => return Ok(()),
    };
    let mut each = answer[parts].as_array().into_iter().flatten().enumerate();
    each.try_for_each(|(at, part)| is_object(part, &format!("{parts}[{at}]")))
}

/// The text of a field; empty where it is absent or no text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Labels and annotations may be anything that [`Value::get_mut`] can look at; metadata are written to.
fn is_object(value: &Value, name: &str) -> Result<(), String> {
    match (value, &value["metadata"]) {
        (Value::Object(_), Value::Object(_) | Value::Null) => Ok(()),
        (Value::Object(_), _) => Err(format!("{name} has metadata that are not an object")),
        _ => Err(format!("{name} is not an object")),
    }
}

/// Takes the items out of a list; `None` for an answer that is not a list. Null is a list without items.
pub fn take_items(list: &mut Value) -> Option<Vec<Value>> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        Some(Value::Null) => list["kind"].as_str().is_some_and(|kind| kind.ends_with("List")).then(Vec::new),
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

    #[test]
    fn objects_have_a_kind_and_are_no_failures() {
        for (answer, expected) in [
            (json!({"kind": "Pod"}), ""),
            (json!({"kind": "Status", "status": "Success"}), ""),
            (json!({"metadata": {}}), "cannot understand the answer to GET /a: Object 'Kind' is missing"),
            (json!({"kind": "Status", "status": "Failure", "message": "no", "code": 500}), "no"),
        ] {
            let found = object("GET /a", answer.to_string().as_bytes());
            assert_eq!(found.map_or_else(|error| error.to_string(), |_| String::new()), expected, "{answer}");
        }
        let items = |mut list: Value| take_items(&mut list).map(|items| items.len());
        assert_eq!(items(json!({"kind": "PodList", "items": null})), Some(0));
        assert_eq!(items(json!({"kind": "PodList"})), None);
        assert_eq!(items(json!({"kind": "PodList", "items": [{}]})), Some(1));
        assert_eq!(items(json!({"kind": "Pod"})), None);
    }
}
