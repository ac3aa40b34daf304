//! Validation of numbers: the range of their type, bounds and factors.

use std::cmp::Ordering;

use apimachinery::field::ErrorList;
use apimachinery::go_print;
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
    let bounds = [
        ("Minimum boundary", constraints.minimum, constraints.exclusive_minimum, Ordering::Less, "greater than"),
        ("Maximum boundary", constraints.maximum, constraints.exclusive_maximum, Ordering::Greater, "less than"),
    ];
    for (name, bound, is_exclusive, outside, relation) in bounds {
        let Some(bound) = bound else { continue };
        let is_in_range = range.check(name, bound, None, path, errors);
        let whole = value.as_i64().filter(|_| is_in_range);
        let order = match whole {
            // Saturates, as bounds beyond 64 bits are never reached.
            Some(whole) => whole.cmp(&(bound as i64)),
            // Not `total_cmp`, by which -0.0 is below 0.
            None => number.partial_cmp(&bound).unwrap_or(Ordering::Equal),
        };
        if order == outside || (is_exclusive && order.is_eq()) {
            let or_equal = if is_exclusive { "" } else { " or equal to" };
            let shown = if whole.is_some() { (bound as i64).to_string() } else { go_print::float(bound) };
            add(errors, wrong(path, value.clone(), format!("should be {relation}{or_equal} {shown}")));
        }
    }
}

fn check_factor(constraints: &Constraints, number: f64, value: &Value, path: &Trail<'_>, errors: &mut ErrorList) {
    if let Some(factor) = constraints.multiple_of.filter(|factor| *factor > 0.0)
        && ((number / factor) - (number / factor).round()).abs() > 1e-9
    {
        let factor = go_print::float(factor);
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
