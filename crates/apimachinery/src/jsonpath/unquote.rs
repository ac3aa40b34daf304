//! Go's escapes in quoted text.

/// The text between quotes without its escapes; `None` if one is invalid.
pub fn unquoted(text: &str, quote: char) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let kind = rest.chars().next()?;
        rest = &rest[kind.len_utf8()..];
        let byte = match kind {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            c if c == quote => u8::try_from(c).ok()?,
            'x' => u8::try_from(number(&mut rest, 2, 16)?).ok()?,
            'u' | 'U' => {
                let c = char::from_u32(number(&mut rest, if kind == 'u' { 4 } else { 8 }, 16)?)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            '0'..='7' => {
                let first = kind.to_digit(8)?;
                u8::try_from(first * 64 + number(&mut rest, 2, 8)?).ok()?
            }
            _ => return None,
        };
        out.push(byte);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn number(rest: &mut &str, digits: usize, radix: u32) -> Option<u32> {
    let text = rest.get(..digits).filter(|text| text.chars().all(|c| c.is_digit(radix)))?;
    *rest = &rest[digits..];
    u32::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_gos() {
        for (text, expected) in [
            (r"a\tb\n", Some("a\tb\n")),
            (r"\u00e9\x41\101\U0001F600", Some("éAA😀")),
            (r"\'", Some("'")),
            (r#"\""#, None),
            (r"\q", None),
            (r"\x4", None),
            (r"\400", None),
            (r"\ud800", None),
        ] {
            assert_eq!(unquoted(text, '\'').as_deref(), expected, "{text}");
        }
    }
}
