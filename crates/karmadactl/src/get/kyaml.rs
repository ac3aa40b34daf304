//! KYAML, the dialect of YAML that kubectl prints from 1.34 on: braces, brackets and quoted texts, so that no value
//! changes its type and no indentation has a meaning.

use apimachinery::go_json::json_number;
use serde_json::Value;

/// Columns of one level.
const INDENT: usize = 2;

/// The document, with its separator.
pub fn to_string(value: &Value) -> String {
    let mut out = "---\n".to_owned();
    put(&mut out, value, 0);
    out.push('\n');
    out
}

fn put(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) if text.contains('\n') => put_lines(out, text, level + 1),
        Value::String(text) => put_quoted(out, text, "\t"),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Array(items) if items.iter().all(|item| item.is_array() || item.is_object()) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                put(out, item, level);
            }
            out.push(']');
        }
        Value::Array(items) => {
            out.push_str("[\n");
            for item in items {
                indent(out, level + 1);
                put(out, item, level + 1);
                out.push_str(",\n");
            }
            indent(out, level);
            out.push(']');
        }
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(fields) => {
            out.push_str("{\n");
            for (key, value) in fields {
                indent(out, level + 1);
                match is_plain(key) {
                    true => out.push_str(key),
                    false => put_quoted(out, key, "\\t"),
                }
                out.push_str(": ");
                put(out, value, level + 1);
                out.push_str(",\n");
            }
            indent(out, level);
            out.push('}');
        }
    }
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

fn put_quoted(out: &mut String, text: &str, tab: &str) {
    out.push('"');
    text.chars().for_each(|c| put_char(out, c, tab));
    out.push('"');
}

/// Each line of the text on a line of its own, folded by a backslash.
fn put_lines(out: &mut String, text: &str, level: usize) {
    out.push_str("\"\\\n");
    for line in text.split_inclusive('\n') {
        let (line, is_ended) = line.strip_suffix('\n').map_or((line, false), |line| (line, true));
        indent(out, level);
        // White space at the start of a folded line would be dropped unless a backslash precedes it.
        out.push(if line.starts_with(char::is_whitespace) { '\\' } else { ' ' });
        line.chars().for_each(|c| put_char(out, c, "\t"));
        out.push_str(if is_ended { "\\n\\\n" } else { "\\\n" });
    }
    indent(out, level);
    out.push('"');
}

fn put_char(out: &mut String, c: char, tab: &str) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\t' => out.push_str(tab),
        '\n' => out.push_str("\\n"),
        '\0' => out.push_str("\\0"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '\u{1b}' => out.push_str("\\e"),
        '\u{85}' => out.push_str("\\N"),
        '\u{a0}' => out.push_str("\\_"),
        '\u{2028}' => out.push_str("\\L"),
        '\u{2029}' => out.push_str("\\P"),
        c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if is_printable(c) => out.push(c),
        c if u32::from(c) > 0xffff => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
    }
}

/// Whether a terminal shows the character: formats, private characters and spaces other than the ordinary one are not.
fn is_printable(c: char) -> bool {
    // Behind another character, marks are not escaped.
    c.is_ascii() || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// Whether a key needs no quotes: no parser of YAML may take it for anything but a text.
fn is_plain(key: &str) -> bool {
    let inner = key.trim_start_matches(is_word).trim_end_matches(is_word);
    let surrounded = key.starts_with(is_word) && key.ends_with(is_word);
    surrounded && inner.chars().all(|c| is_word(c) || "-./".contains(c)) && !is_ambiguous(key)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_ambiguous(key: &str) -> bool {
    const WORDS: [&str; 16] =
        ["null", "true", "t", "false", "f", "y", "yes", "n", "no", "on", "off", "inf", "infinity", "nan", "0", "1"];
    let lower = key.to_ascii_lowercase();
    WORDS.contains(&&*lower) || is_number(&lower.replace('_', "")) || is_date(key)
}

fn is_number(text: &str) -> bool {
    let of_radix =
        |prefix: &str, radix| text.strip_prefix(prefix).is_some_and(|it| i64::from_str_radix(it, radix).is_ok());
    let of_exponent = |text: &str| {
        text.split_once('p').is_some_and(|(mantissa, exponent)| {
            mantissa.chars().all(|c| c.is_ascii_hexdigit() || c == '.') && exponent.parse::<i32>().is_ok()
        })
    };
    text.parse::<f64>().is_ok()
        || of_radix("0x", 16)
        || of_radix("0o", 8)
        || of_radix("0b", 2)
        || text.strip_prefix("0x").is_some_and(of_exponent)
}

/// `2026-1-2`, which YAML 1.1 reads as a point in time.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str| text.parse::<i8>().ok().filter(|_| text.len() <= 2);
    let date = year.parse::<i16>().ok().zip(number(month)).zip(number(day));
    year.len() == 4 && date.is_some_and(|((year, month), day)| jiff::civil::Date::new(year, month, day).is_ok())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_kubectl_writes_them() {
        let value = json!({
            "apiVersion": "v1",
            "data": {"a": "b", "lines": "one\n  two\n\n\"three\"", "ends": "x\n", "tab": "a\tb", "": "\u{1b}\\", "marks": "e\u{300}\u{200b}\u{ad}\u{e000}\u{e0001}\u{2003}"},
            "lists": {"mixed": [1e20, "a", {"b": null}, ["c"]], "nested": [{"a": 1}, []], "none": [], "empty": {}},
            "keys": {"app.kubernetes.io/name": true, "no": 1.5, "0x1f": 2, "1e5": 3, "2026-01-02": 4, "2026-13-02": 5,
                     "a b": 6, "-a": 7, "1_000": 8, "é": 9, "a:b": 10, "a.": 11, "x1": 12},
        });
        expect![[r#"
            ---
            {
              apiVersion: "v1",
              data: {
                "": "\e\\",
                a: "b",
                ends: "\
                   x\n\
                  ",
                lines: "\
                   one\n\
                  \  two\n\
                   \n\
                   \"three\"\
                  ",
                marks: "è\u200b\u00ad\ue000\U000e0001\u2003",
                tab: "a	b",
              },
              keys: {
                "-a": 7,
                "0x1f": 2,
                "1_000": 8,
                "1e5": 3,
                "2026-01-02": 4,
                2026-13-02: 5,
                "a b": 6,
                "a.": 11,
                "a:b": 10,
                app.kubernetes.io/name: true,
                "no": 1.5,
                x1: 12,
                é: 9,
              },
              lists: {
                empty: {},
                mixed: [
                  100000000000000000000,
                  "a",
                  {
                    b: null,
                  },
                  [
                    "c",
                  ],
                ],
                nested: [{
                  a: 1,
                }, []],
                none: [],
              },
            }
        "#]]
        .assert_eq(&to_string(&value));
    }
}
