//! Members of an encoded JSON object, found without decoding it. For documents that were decoded once and are therefore
//! known to be valid; of an invalid one the answer is `None` or some part of it, never a panic.

use std::ops::Range;

/// Where the value of the first member of this name stands in an encoded object. The name must be one that JSON does not
/// escape.
pub fn member(json: &[u8], name: &str) -> Option<Range<usize>> {
    let mut at = skip_space(json, 0);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = skip_space(json, at);
        let key = at..end_of_text(json, at)?;
        at = skip_space(json, key.end);
        if json.get(at) != Some(&b':') {
            return None;
        }
        let start = skip_space(json, at + 1);
        let end = end_of_value(json, start)?;
        if json.get(key.start + 1..key.end - 1) == Some(name.as_bytes()) {
            return Some(start..end);
        }
        at = skip_space(json, end);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

fn skip_space(json: &[u8], from: usize) -> usize {
    let rest = json.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

/// The end of the text that begins with a quotation mark at `from`.
fn end_of_text(json: &[u8], from: usize) -> Option<usize> {
    if json.get(from) != Some(&b'"') {
        return None;
    }
    let mut at = from + 1;
    loop {
        at += json.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if json[at] == b'"' {
            return Some(at + 1);
        }
        // Whatever is escaped, its first byte does not count; a \u has no quotation marks in its digits.
        at += 2;
    }
}

fn end_of_value(json: &[u8], from: usize) -> Option<usize> {
    match json.get(from)? {
        b'"' => end_of_text(json, from),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, from);
            loop {
                at += json.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
                match json[at] {
                    b'"' => at = end_of_text(json, at)?,
                    b'{' | b'[' => {
                        depth += 1;
                        at += 1;
                    }
                    _ => {
                        depth -= 1;
                        at += 1;
                        if depth == 0 {
                            return Some(at);
                        }
                    }
                }
            }
        }
        _ => {
            let rest = &json[from..];
            let length = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
            Some(from + length.unwrap_or(rest.len())).filter(|end| *end > from)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::member;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\"\\\\{}\\[\\]:,a\\n\u{e4}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\]{0,2}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_finds_what_decoding_finds(tree in value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let text = text.unwrap();
            for name in ["a", "b", "c", "metadata"] {
                let found = member(text.as_bytes(), name).map(|span| text[span].to_owned());
                let found = found.map(|text| serde_json::from_str::<Value>(&text).unwrap());
                prop_assert_eq!(found.as_ref(), tree.get(name));
            }
        }

        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,a1 ".to_vec()), 0..40)) {
            let _ = member(&bytes, "a");
        }
    }

    #[test]
    fn the_member_is_the_objects_own() {
        let text = json!({"a": {"metadata": 1}, "metadata": {"x": "}\""}}).to_string();
        assert_eq!(member(text.as_bytes(), "metadata").map(|span| &text[span]), Some(r#"{"x":"}\""}"#));
        assert_eq!(member(b"[1]", "metadata"), None);
    }
}
