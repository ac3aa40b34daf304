//! Trees as encoded JSON, byte for byte as `serde_json` encodes them. Most texts need no escapes, which is seen eight
//! bytes at a time, and are then copied as they are.

use serde_json::Value;

/// Appends a value.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(_) => other(value, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            let mut before = b'[';
            for item in items {
                out.push(std::mem::replace(&mut before, b','));
                write(item, out);
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        Value::Object(members) => {
            let mut before = b'{';
            for (name, value) in members {
                out.push(std::mem::replace(&mut before, b','));
                write_text(name, out);
                out.push(b':');
                write(value, out);
            }
            out.extend_from_slice(if members.is_empty() { b"{}" } else { b"}" });
        }
    }
}

/// Appends a text in its quotation marks.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    if is_plain(text) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        other(text, out);
    }
}

/// Whether a text stands in JSON as it is.
pub fn is_plain(text: &str) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // Bit 7 of a byte is set if it is below `limit`, or if another byte before it is: enough to know whether one is.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & (ONES << 7);
    let is_byte = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    words.iter().all(|word| {
        let word = u64::from_le_bytes(*word);
        below(word, 0x20) | is_byte(word, b'"') | is_byte(word, b'\\') == 0
    }) && rest.iter().all(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
}

fn other<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("texts and numbers have an encoding, and memory takes it");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_escapes_are_those_of_the_encoder() {
        for value in [
            json!([0, -1, i64::MIN, u64::MAX, 0.1, 1e300, -0.0, 1.0, true, false, null, [], {}, [[]], {"a": {}}]),
            json!({"\u{0}\u{1f}\u{7f}\u{2028}\u{e9}": "\"\\\u{8}\u{c}\n\r\t/", "": "12345678\"", "\\": "1234567\u{1f}"}),
        ] {
            assert_eq!(written(&value), value.to_string());
        }
        for byte in 0..=0x7fu8 {
            for length in 1..20 {
                let mut text = "\u{e9}".repeat(length);
                text.insert(text.len() / 4 * 2, char::from(byte));
                assert_eq!(written(&text.as_str().into()), json!(text).to_string());
            }
        }
    }

    proptest! {
        #[test]
        fn trees_are_encoded_as_by_the_encoder(tree in super::super::tests::value()) {
            prop_assert_eq!(written(&tree), tree.to_string());
        }

        #[test]
        fn texts_are_encoded_as_by_the_encoder(text in any::<String>()) {
            prop_assert_eq!(written(&text.as_str().into()), serde_json::to_string(&text).unwrap());
        }
    }
}
