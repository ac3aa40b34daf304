//! `printf` of Go templates.

use serde_json::Value;

use super::functions::{text, type_name};

/// The widest a format may pad, and its largest precision.
const MAX_WIDTH: usize = 4096;

/// The flags, the width and the precision of a verb.
#[derive(Default)]
struct Verb {
    left: bool,
    plus: bool,
    space: bool,
    sharp: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// `%v`, `%d`, `%s`, `%q`, `%t`, `%x`, `%X`, `%o`, `%b`, `%c`, `%e`, `%f`, `%g`, `%T` and `%%`.
pub fn formatted(format: &str, arguments: &[&Value]) -> String {
    let mut next = arguments.iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let verb = read(&mut chars);
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(letter) => match next.next() {
                None => out.push_str(&format!("%!{letter}(MISSING)")),
                Some(value) => out.push_str(&one(letter, &verb, value)),
            },
        }
    }
    let rest: Vec<String> = next.map(|value| format!("{}={}", go_name(value), text(value))).collect();
    if !rest.is_empty() {
        out.push_str(&format!("%!(EXTRA {})", rest.join(", ")));
    }
    out
}

fn read(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Verb {
    let mut verb = Verb::default();
    while let Some(flag) = chars.next_if(|c| "-+ #0".contains(*c)) {
        match flag {
            '-' => verb.left = true,
            '+' => verb.plus = true,
            ' ' => verb.space = true,
            '#' => verb.sharp = true,
            _ => verb.zero = true,
        }
    }
    let digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut number = 0usize;
        while let Some(digit) = chars.next_if(char::is_ascii_digit).and_then(|c| c.to_digit(10)) {
            number = (number * 10 + digit as usize).min(MAX_WIDTH);
        }
        number
    };
    verb.width = digits(chars);
    if chars.next_if_eq(&'.').is_some() {
        verb.precision = Some(digits(chars));
    }
    verb
}

fn go_name(value: &Value) -> &'static str {
    if value.is_null() { "<nil>" } else { type_name(value) }
}

fn one(letter: char, verb: &Verb, value: &Value) -> String {
    if letter == 'T' {
        return padded(go_name(value).to_owned(), verb, false);
    }
    let number = match value {
        Value::Number(number) if number.is_f64() => number.as_f64().and_then(|float| float_text(letter, verb, float)),
        Value::Number(number) => number.as_i64().and_then(|whole| integer_text(letter, verb, whole)),
        _ => None,
    };
    if let Some((sign, digits)) = number {
        return numeric(sign, digits, verb);
    }
    let cut = |text: &str| match verb.precision {
        Some(length) => text.chars().take(length).collect(),
        None => text.to_owned(),
    };
    let shown = match (letter, value) {
        ('v', Value::String(text)) | ('s', Value::String(text)) => cut(text),
        ('q', Value::String(text)) => apimachinery::field::go_quoted(&cut(text)),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('t' | 'v', Value::Bool(value)) => value.to_string(),
        ('v', value) => text(value),
        (letter, Value::Array(items)) => {
            format!("[{}]", items.iter().map(|item| one(letter, &Verb::default(), item)).collect::<Vec<_>>().join(" "))
        }
        (letter, Value::Object(map)) => {
            let bare = Verb::default();
            let key = |key: &str| one(letter, &bare, &Value::from(key));
            let members: Vec<String> =
                map.iter().map(|(name, value)| format!("{}:{}", key(name), one(letter, &bare, value))).collect();
            format!("map[{}]", members.join(" "))
        }
        (letter, Value::Null) => return format!("%!{letter}(<nil>)"),
        (letter, value) => return format!("%!{letter}({}={})", go_name(value), text(value)),
    };
    padded(shown, verb, false)
}

/// The sign, if one is printed, and the digits.
type Digits = Option<(&'static str, String)>;

fn sign(verb: &Verb, negative: bool) -> &'static str {
    match negative {
        true => "-",
        false if verb.plus => "+",
        false if verb.space => " ",
        false => "",
    }
}

fn integer_text(letter: char, verb: &Verb, number: i64) -> Digits {
    let size = number.unsigned_abs();
    let sharp = |prefix: &str, digits: String| if verb.sharp { format!("{prefix}{digits}") } else { digits };
    let digits = match letter {
        'd' | 'v' => size.to_string(),
        'x' => sharp("0x", format!("{size:x}")),
        'X' => sharp("0X", format!("{size:X}")),
        'o' => sharp("0", format!("{size:o}")),
        'b' => sharp("0b", format!("{size:b}")),
        'c' | 'q' => {
            let c = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Some(("", if letter == 'c' { c.to_string() } else { format!("'{c}'") }));
        }
        _ => return None,
    };
    let digits = match verb.precision {
        Some(least) => format!("{digits:0>least$}"),
        None => digits,
    };
    Some((sign(verb, number < 0), digits))
}

fn float_text(letter: char, verb: &Verb, number: f64) -> Digits {
    let size = number.abs();
    let digits = match (letter, verb.precision) {
        ('f' | 'F', precision) => format!("{size:.*}", precision.unwrap_or(6)),
        ('e', precision) => {
            let text = format!("{size:.*e}", precision.unwrap_or(6));
            let (mantissa, exponent) = text.split_once('e')?;
            let exponent = exponent.parse::<i32>().ok()?;
            format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        ('v', None) => apimachinery::go_json::shortest(size),
        ('g', None) => apimachinery::go_json::shortest(size),
        _ => return None,
    };
    Some((sign(verb, number.is_sign_negative()), digits))
}

/// Zeros are between the sign and the digits.
fn numeric(sign: &str, digits: String, verb: &Verb) -> String {
    if verb.zero && !verb.left && verb.precision.is_none_or(|_| digits.contains('.')) {
        let width = verb.width.saturating_sub(sign.len());
        return format!("{sign}{digits:0>width$}");
    }
    padded(format!("{sign}{digits}"), verb, true)
}

fn padded(text: String, verb: &Verb, is_number: bool) -> String {
    let width = verb.width;
    match (verb.left, verb.zero && !is_number) {
        (true, _) => format!("{text:<width$}"),
        (_, true) => format!("{text:0>width$}"),
        _ => format!("{text:>width$}"),
    }
}
