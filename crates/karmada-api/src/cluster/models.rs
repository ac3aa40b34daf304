//! Resource models: the grades of a cluster's nodes.

use apimachinery::quantity::{Quantity, stored};
use serde_json::{Value, json};

use super::types::ResourceModel;

/// The upper end of the last grade.
const UNBOUNDED: &str = "9223372036854775807";

/// Nine grades over cpu and memory, each as wide as all before it.
pub fn default_models() -> Value {
    const CPU: [&str; 10] = ["0", "1", "2", "4", "8", "16", "32", "64", "128", UNBOUNDED];
    const MEMORY: [&str; 10] = ["0", "4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti", UNBOUNDED];
    let range = |name: &str, bounds: &[&str; 10], grade: usize| json!({ "name": name, "min": bounds[grade], "max": bounds[grade + 1] });
    (0..9)
        .map(|grade| json!({ "grade": grade, "ranges": [range("cpu", &CPU, grade), range("memory", &MEMORY, grade)] }))
        .collect()
}

fn list(object: &mut Value) -> Option<&mut Vec<Value>> {
    object.pointer_mut("/spec/resourceModels").and_then(Value::as_array_mut)
}

pub fn is_empty(object: &Value) -> bool {
    object.pointer("/spec/resourceModels").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Sorts the grades, and removes the lower bound of the first and the upper bound of the last.
pub fn standardise(object: &mut Value) {
    let Some(models) = list(object) else { return };
    models.sort_by_key(|model| model["grade"].as_u64().unwrap_or_default());
    if let Some(first) = models.first_mut() {
        bound(first, "min", "0");
    }
    if let Some(last) = models.last_mut() {
        bound(last, "max", UNBOUNDED);
    }
}

/// Writes the bounds in their canonical form, as a typed object has them: `2000m` becomes `2`, a number becomes text.
pub fn respell(object: &mut Value) {
    let ranges = list(object).into_iter().flatten().filter_map(|model| model.get_mut("ranges")?.as_array_mut());
    for range in ranges.flatten().filter_map(Value::as_object_mut) {
        for end in ["min", "max"] {
            let Some(value) = range.get_mut(end).filter(|value| !value.is_null()) else { continue };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let Ok(canonical) = stored(&text) {
                *value = json!(canonical);
            }
        }
    }
}

fn bound(model: &mut Value, end: &str, value: &str) {
    let ranges = model.get_mut("ranges").and_then(Value::as_array_mut);
    for range in ranges.into_iter().flatten().filter_map(Value::as_object_mut) {
        range.insert(end.to_owned(), json!(value));
    }
}

/// Validates the models; returns the first error.
pub fn validate(models: &[ResourceModel]) -> Result<(), &'static str> {
    let mut sorted: Vec<&ResourceModel> = models.iter().collect();
    sorted.sort_by_key(|model| model.grade);
    let unbounded = amount(UNBOUNDED)?;
    let mut lower: Option<Vec<(&str, Quantity)>> = None;
    for (index, model) in sorted.iter().enumerate() {
        if sorted.get(index + 1).is_some_and(|next| next.grade == model.grade) {
            return Err("The grade of each models should not be the same");
        }
        if lower.as_ref().is_some_and(|lower| lower.len() != model.ranges.len()) {
            return Err("The number of resource types should be the same");
        }
        let mut ends = Vec::with_capacity(model.ranges.len());
        for (place, range) in model.ranges.iter().enumerate() {
            let (min, max) = (amount(range.min.as_str())?, amount(range.max.as_str())?);
            if min >= max {
                return Err("The max value of each resource must be greater than the min value");
            }
            match lower.as_ref().map(|lower| lower[place]) {
                None if min != Quantity::ZERO => {
                    return Err("The min value of each resource in the first model should be 0");
                }
                Some((name, _)) if name != range.name => {
                    return Err("The resource types of each models should be the same");
                }
                Some((_, end)) if end != min => {
                    return Err("Model intervals for resources must be contiguous and non-overlapping");
                }
                _ => {}
            }
            if index + 1 == sorted.len() && max != unbounded {
                return Err("The max value of each resource in the last model should be MaxInt64");
            }
            ends.push((range.name.as_str(), max));
        }
        lower = Some(ends);
    }
    Ok(())
}

fn amount(text: &str) -> Result<Quantity, &'static str> {
    text.parse()
        .map_err(|_| "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_validated() {
        let model = |grade: u64, min: &str, max: &str| json!({"grade": grade, "ranges": [{"name": "cpu", "min": min, "max": max}]});
        for (models, expected) in [
            (default_models(), Ok(())),
            (json!([model(1, "6000m", UNBOUNDED), model(0, "0", "6")]), Ok(())),
            (
                json!([model(0, "0", UNBOUNDED), model(0, "0", UNBOUNDED)]),
                Err("The grade of each models should not be the same"),
            ),
            (json!([model(0, "1", UNBOUNDED)]), Err("The min value of each resource in the first model should be 0")),
            (
                json!([model(0, "0", "2"), model(1, "3", UNBOUNDED)]),
                Err("Model intervals for resources must be contiguous and non-overlapping"),
            ),
            (json!([model(0, "0", "2")]), Err("The max value of each resource in the last model should be MaxInt64")),
            (json!([model(0, "0", "0")]), Err("The max value of each resource must be greater than the min value")),
            (
                json!([model(0, "0", "2"), {"grade": 1, "ranges": []}]),
                Err("The number of resource types should be the same"),
            ),
        ] {
            let parsed: Vec<ResourceModel> = serde_json::from_value(models.clone()).unwrap();
            assert_eq!(validate(&parsed), expected, "{models}");
        }
    }

    #[test]
    fn models_are_standardised() {
        let mut object = json!({"spec": {"resourceModels": [
            {"grade": 2, "ranges": [{"name": "cpu", "min": "4", "max": "8"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "4"}]},
        ]}});
        standardise(&mut object);
        assert_eq!(
            object["spec"]["resourceModels"],
            json!([
                {"grade": 1, "ranges": [{"name": "cpu", "min": "0", "max": "4"}]},
                {"grade": 2, "ranges": [{"name": "cpu", "min": "4", "max": UNBOUNDED}]},
            ])
        );
    }
}
