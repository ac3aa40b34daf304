//! Validation of numbers: the range of their type, bounds and factors.

use apimachinery::field::ErrorList;
use apimachinery::schema::{Constraints, Schema, Type};
use serde_json::Value;

use super::constraints::{add, wrong};
use super::kinds::format_of;
use crate::trail::Trail;

/// As upstream, a bound that is within the range of the type is compared with a whole number as a whole number.
pub(super) fn check(schema: &Schema, value: &Value, path: &Trail<'_>, errors: &mut ErrorList) {
    let Some(number) = value.as_f64() else { return };
    let range = Range::of(schema);
    range.check("Checked", number, value.as_i64(), path, errors);
    let Some(constraints) = &schema.constraints else { return };
    check_factor(constraints, number, value, path, errors);
    if let Some(min) = constraints.minimum {
        let is_whole = range.check("Minimum boundary", min, None, path, errors);
        let is_low = |order: std::cmp::Ordering| order.is_lt() || (constraints.exclusive_minimum && order.is_eq());
        let (bound, order) = compare(value, number, min, is_whole);
        if is_low(order) {
            let what = if constraints.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            add(errors, wrong(path, value.clone(), format!("should be {what} {bound}")));
        }
    }
    if let Some(max) = constraints.maximum {
        let is_whole = range.check("Maximum boundary", max, None, path, errors);
        let is_high = |order: std::cmp::Ordering| order.is_gt() || (constraints.exclusive_maximum && order.is_eq());
        let (bound, order) = compare(value, number, max, is_whole);
        if is_high(order) {
            let what = if constraints.exclusive_maximum { "less than" } else { "less than or equal to" };
            add(errors, wrong(path, value.clone(), format!("should be {what} {bound}")));
        }
    }
}

/// The bound as shown, and how the value compares with it.
fn compare(value: &Value, number: f64, bound: f64, is_in_range: bool) -> (String, std::cmp::Ordering) {
    match value.as_i64().filter(|_| is_in_range) {
        // Saturates, as bounds beyond 64 bits are never reached.
        Some(number) => ((bound as i64).to_string(), number.cmp(&(bound as i64))),
        None => (
            apimachinery::go_print::float(bound),
            // Not `total_cmp`, by which -0.0 is below 0.
            number.partial_cmp(&bound).unwrap_or(std::cmp::Ordering::Equal),
        ),
    }
}

fn check_factor(constraints: &Constraints, number: f64, value: &Value, path: &Trail<'_>, errors: &mut ErrorList) {
    if let Some(factor) = constraints.multiple_of.filter(|factor| *factor > 0.0)
        && ((number / factor) - (number / factor).round()).abs() > 1e-9
    {
        let factor = apimachinery::go_print::float(factor);
        add(errors, wrong(path, value.clone(), format!("should be a multiple of {factor}")));
    }
}

/// The numbers that a type and its format allow.
struct Range<'s> {
    type_: Type,
    format: &'s str,
}

impl<'s> Range<'s> {
    fn of(schema: &'s Schema) -> Self {
        let type_ = if schema.int_or_string { Type::Any } else { schema.type_ };
        Self { type_, format: format_of(schema).unwrap_or_default() }
    }

    fn contains(&self, number: f64, whole: Option<i64>) -> bool {
        let is_whole = number.fract() == 0.0;
        match (self.type_, self.format) {
            (Type::Integer, "int32") => match whole {
                Some(whole) => i32::try_from(whole).is_ok(),
                None => is_whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            },
            // 2^63 itself is beyond the range.
            (Type::Integer, _) => {
                whole.is_some() || (is_whole && number >= i64::MIN as f64 && number < i64::MAX as f64)
            }
            (Type::Number, "float") => number.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    /// Adds an error for a number outside of the range.
    fn check(&self, what: &str, number: f64, whole: Option<i64>, path: &Trail<'_>, errors: &mut ErrorList) -> bool {
        let is_inside = self.contains(number, whole);
        if !is_inside {
            let type_ = if self.type_ == Type::Number { "number" } else { "integer" };
            let format = match self.format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let why = format!("{what} value must be of type {type_} {format} in {}", path.shown());
            add(errors, super::constraints::unplaced(path, why));
        }
        is_inside
    }
}
