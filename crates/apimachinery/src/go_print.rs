//! Go's `%v` format for the values of a document, which error texts of kube-apiserver contain.

use std::fmt;

use serde_json::Value;

/// Prints `map[a:1 b:[x y]]`; the keys are sorted, strings have no quotes.
pub struct GoPrint<'v>(pub &'v Value);

impl fmt::Display for GoPrint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => value.fmt(f),
            Value::Number(value) => match value.as_f64().filter(|_| value.is_f64()) {
                Some(number) => f.write_str(&float(number)),
                None => value.fmt(f),
            },
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                f.write_str("[")?;
                for (position, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if position == 0 { "" } else { " " }, GoPrint(item))?;
                }
                f.write_str("]")
            }
            Value::Object(map) => {
                f.write_str("map[")?;
                let mut members: Vec<_> = map.iter().collect();
                members.sort_by_key(|(key, _)| *key);
                for (position, (key, value)) in members.into_iter().enumerate() {
                    write!(f, "{}{key}:{}", if position == 0 { "" } else { " " }, GoPrint(value))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A number as `%v` prints a `float64`: in scientific notation from a million on.
pub fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}

#[test]
fn values_print_as_in_gos_fmt() {
    let value = serde_json::json!({"spec": {"b": ["x", 1, null, 1e-7], "a": {"on": true}}, "empty": {}});
    assert_eq!(GoPrint(&value).to_string(), "map[empty:map[] spec:map[a:map[on:true] b:[x 1 <nil> 1e-07]]]");
}

#[test]
fn floats_print_as_in_gos_fmt() {
    for (number, expected) in [
        (0.0, "0"),
        (1.5, "1.5"),
        (123_456.5, "123456.5"),
        (1e6, "1e+06"),
        (2_147_483_648.0, "2.147483648e+09"),
        (1e20, "1e+20"),
        (1.25e21, "1.25e+21"),
        (1e-7, "1e-07"),
        (0.0001, "0.0001"),
    ] {
        assert_eq!(float(number), expected);
    }
}
