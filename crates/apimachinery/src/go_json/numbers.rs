//! Numbers as Go prints them: with the digits that read back as the same number.

use serde_json::Number;

/// As `encoding/json` prints a number: with an exponent only below 1e-6 and from 1e21 on.
pub fn json_number(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float == 0.0 || (1e-6..1e21).contains(&float.abs()) => float.to_string(),
        Some(float) => exponential(float, 1),
        None => number.to_string(),
    }
}

/// As goyaml prints a number: with an exponent below 1e-4 and from 1e6 on, unless it is a whole number of 64 bits.
pub fn yaml_number(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        // Its JSON has neither fraction nor exponent, so it is read as a whole number.
        Some(float) => whole(float).map_or_else(|| shortest(float), |whole| whole.to_string()),
        None => number.to_string(),
    }
}

/// What a whole float becomes when its JSON is read again, if that fits into 64 bits.
pub fn whole(float: f64) -> Option<Number> {
    if float.fract() != 0.0 || float.abs() >= 1e20 {
        return None;
    }
    let digits = float.to_string();
    digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from)).ok()
}

/// As `%v` prints a float: with an exponent below 1e-4 and from 1e6 on.
pub fn shortest(float: f64) -> String {
    if float == 0.0 || (1e-4..1e6).contains(&float.abs()) { float.to_string() } else { exponential(float, 2) }
}

/// [`shortest`] of a number in 32 bits.
pub fn shortest_f32(float: f32) -> String {
    if float == 0.0 || (1e-4..1e6).contains(&float.abs()) { float.to_string() } else { exponential(float, 2) }
}

/// `digits` is the least number of digits of the exponent.
fn exponential(float: impl std::fmt::LowerExp, digits: usize) -> String {
    let text = format!("{float:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_go() {
        for (text, json, yaml) in [
            ("1", "1", "1"),
            ("-0.5", "-0.5", "-0.5"),
            ("1.0", "1", "1"),
            ("1e6", "1000000", "1000000"),
            ("1234567.5", "1234567.5", "1.2345675e+06"),
            ("123456789012.5", "123456789012.5", "1.234567890125e+11"),
            ("0.0001", "0.0001", "0.0001"),
            ("0.00001", "0.00001", "1e-05"),
            ("-2.5e-9", "-2.5e-9", "-2.5e-09"),
            ("-92233724775808.05e3", "-92233724775808050", "-92233724775808050"),
            ("1.5e18", "1500000000000000000", "1500000000000000000"),
            ("1e19", "10000000000000000000", "10000000000000000000"),
            ("-1e19", "-10000000000000000000", "-1e+19"),
            ("1e20", "100000000000000000000", "1e+20"),
            ("1e21", "1e+21", "1e+21"),
            ("1.5e300", "1.5e+300", "1.5e+300"),
            ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
        ] {
            let number: Number = serde_json::from_str(text).expect("a number");
            assert_eq!((json_number(&number).as_str(), yaml_number(&number).as_str()), (json, yaml), "{text}");
        }
    }
}
