//! `--sort-by`: the order of values, as kubectl's.

use std::cmp::Ordering;

use apimachinery::jsonpath::{JsonPath, shown};
use apimachinery::quantity::Quantity;
use serde_json::Value;

/// The value that an object is sorted by.
pub fn key<'a>(path: &'a JsonPath, object: &'a Value) -> Option<&'a Value> {
    path.find(object).into_iter().next()
}

/// Missing values first, then numbers and quantities by value, then other values by their text.
pub fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return a.is_some().cmp(&b.is_some()) };
    let (a, b) = (shown(a), shown(b));
    match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        // By kind, because an order by value here and by text there would have circles.
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_ordered_as_kubectl_orders_them() {
        for (less, more) in [
            (None, Some(json!(null))),
            (None, Some(json!("a"))),
            (Some(json!(2)), Some(json!(10))),
            (Some(json!("2")), Some(json!("10"))),
            (Some(json!("900Mi")), Some(json!("2Gi"))),
            (Some(json!("s-10")), Some(json!("s-2"))),
            (Some(json!("10")), Some(json!("1z"))),
            (Some(json!("2")), Some(json!("1z"))),
            (Some(json!("2026-11-26T09:59:59Z")), Some(json!("2026-11-26T10:00:00Z"))),
        ] {
            assert_eq!(compare(less.as_ref(), more.as_ref()), Ordering::Less, "{less:?} {more:?}");
            assert_eq!(compare(more.as_ref(), less.as_ref()), Ordering::Greater, "{less:?} {more:?}");
        }
        assert_eq!(compare(Some(&json!("1024Mi")), Some(&json!("1Gi"))), Ordering::Equal);
    }
}
