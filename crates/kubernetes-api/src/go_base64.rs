//! Base64 as Go reads it: line breaks are skipped, and bits beyond the last byte do not count.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The form in which Go writes the same bytes; `None` if `text` has it, or is not Base64.
pub fn canonical(text: &str) -> Option<String> {
    let is_wrapped = text.bytes().any(|byte| matches!(byte, b'\r' | b'\n'));
    // Only the last four letters can have stray bits.
    let is_padded = || text.ends_with('=');
    if !is_wrapped && !is_padded() {
        return None;
    }
    let mut dense: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    let end = dense.len().checked_sub(4).filter(|at| dense.is_char_boundary(*at)).unwrap_or_default();
    let last = LENIENT.decode(&dense[end..]).ok()?;
    dense.truncate(end);
    STANDARD.encode_string(last, &mut dense);
    (dense != text).then_some(dense)
}

/// The bytes of a text; `None` if it is not Base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().or_else(|| STANDARD.decode(canonical(text)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_by_go() {
        for (text, stored, bytes) in [
            ("", None, Some("")),
            ("YWJj", None, Some("abc")),
            ("YWI=", None, Some("ab")),
            ("YWJj\nZGVm\n", Some("YWJjZGVm"), Some("abcdef")),
            ("YWJj\r\nZA==", Some("YWJjZA=="), Some("abcd")),
            ("YW\nI=", Some("YWI="), Some("ab")),
            ("YWJ=", Some("YWI="), Some("ab")),
            ("YR==", Some("YQ=="), Some("a")),
            ("\n", Some(""), Some("")),
            ("YWJj ZGVm", None, None),
            ("YWJ", None, None),
            ("é=", None, None),
        ] {
            assert_eq!(canonical(text).as_deref(), stored, "{text:?}");
            assert_eq!(decode(text), bytes.map(|it| it.as_bytes().to_vec()), "{text:?}");
        }
    }
}
