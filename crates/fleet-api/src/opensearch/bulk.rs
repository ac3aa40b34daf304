//! Requests of `_bulk`, and what their responses say about each document.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

/// Appends a document that replaces one of the same id. The document has no line break.
pub(super) fn write(body: &mut Vec<u8>, index: &str, id: &str, document: &[u8]) {
    action(body, "index", index, id);
    body.extend_from_slice(document);
    body.push(b'\n');
}

/// Appends a deletion.
pub(super) fn delete(body: &mut Vec<u8>, index: &str, id: &str) {
    action(body, "delete", index, id);
}

fn action(body: &mut Vec<u8>, verb: &str, index: &str, id: &str) {
    body.extend_from_slice(json!({ verb: { "_index": index, "_id": id } }).to_string().as_bytes());
    // The last line needs it, too.
    body.push(b'\n');
}

/// The fields of the response that are read.
pub(super) const PATH: &str = "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";

/// The outcome for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// A later attempt can succeed.
    Retry(String),
    /// The same document fails again.
    Rejected(String),
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    items: Vec<BTreeMap<String, Item>>,
}

#[derive(Deserialize)]
struct Item {
    status: u16,
    error: Option<ItemError>,
}

#[derive(Default, Deserialize)]
struct ItemError {
    #[serde(default, rename = "type")]
    type_: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// One outcome for each of `count` documents, in their order.
///
/// # Errors
/// The response is not that of a bulk request of so many documents.
pub(super) fn outcomes(body: &[u8], count: usize) -> Result<Vec<Outcome>, String> {
    let response: Response =
        serde_json::from_slice(body).map_err(|error| format!("the response to _bulk is not OpenSearch's: {error}"))?;
    if response.items.len() != count {
        return Err(format!("the response to _bulk has {} items instead of {count}", response.items.len()));
    }
    Ok(response.items.into_iter().map(|item| outcome(&item)).collect())
}

fn outcome(item: &BTreeMap<String, Item>) -> Outcome {
    let Some((verb, item)) = item.first_key_value() else {
        return Outcome::Retry("the response lacks the document".to_owned());
    };
    let (type_, reason) = match &item.error {
        Some(error) => (error.type_.as_deref().unwrap_or_default(), error.reason.as_deref().unwrap_or_default()),
        None => ("", ""),
    };
    let why = || format!("{} {type_}: {}", item.status, short(reason));
    match item.status {
        200..=299 => Outcome::Done,
        // Also of an index that does not exist.
        404 if verb == "delete" => Outcome::Done,
        // Missing rights and blocks of a full disk end without a change of the object.
        401 | 403 | 404 | 429 | 500.. => Outcome::Retry(why()),
        _ => Outcome::Rejected(why()),
    }
}

/// A text of the server for a log line.
pub(super) fn short(text: &str) -> String {
    let mut cut: String = text.chars().take(300).map(|it| if it.is_control() { ' ' } else { it }).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_ends_with_a_line_break() {
        let mut body = Vec::new();
        write(&mut body, "kubernetes-pod", "u\"1", b"{}");
        delete(&mut body, "kubernetes-pod", "u2");
        let expected = "{\"index\":{\"_id\":\"u\\\"1\",\"_index\":\"kubernetes-pod\"}}\n{}\n\
            {\"delete\":{\"_id\":\"u2\",\"_index\":\"kubernetes-pod\"}}\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn responses_are_read_by_document() {
        let done = vec![Outcome::Done];
        let retry = |text: &str| vec![Outcome::Retry(text.to_owned())];
        let rejected = |text: &str| vec![Outcome::Rejected(text.to_owned())];
        for (response, expected) in [
            (r#"{"errors":false,"items":[{"index":{"status":201}}]}"#, Ok(done.clone())),
            (r#"{"items":[{"delete":{"status":404,"result":"not_found"}}]}"#, Ok(done)),
            (r#"{"items":[{"index":{"status":429,"error":{"type":"t","reason":"r"}}}]}"#, Ok(retry("429 t: r"))),
            (r#"{"items":[{"index":{"status":403,"error":{"type":"t","reason":"r"}}}]}"#, Ok(retry("403 t: r"))),
            (
                r#"{"items":[{"index":{"status":400,"error":{"type":"t","reason":"a\nb"}}}]}"#,
                Ok(rejected("400 t: a b")),
            ),
            (r#"{"items":[{"index":{"status":400,"error":{"type":null}}}]}"#, Ok(rejected("400 : "))),
            (r#"{"items":[{}]}"#, Ok(retry("the response lacks the document"))),
            (r#"{"items":[]}"#, Err("the response to _bulk has 0 items instead of 1")),
            (r#"{"took":1}"#, Err("the response to _bulk has 0 items instead of 1")),
            ("<html>", Err("the response to _bulk is not OpenSearch's")),
            (r#"{"items":[{"index":{"status":-1}}]}"#, Err("the response to _bulk is not OpenSearch's")),
        ] {
            let found = outcomes(response.as_bytes(), 1);
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected), "{response}"),
                Err(why) => assert!(found.as_ref().is_err_and(|it| it.starts_with(why)), "{response}: {found:?}"),
            }
        }
    }
}
