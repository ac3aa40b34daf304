//! Small languages: selectors, paths, and formatted scalars.

use apimachinery::duration::Duration;
use apimachinery::int_or_string::IntOrString;
use apimachinery::jsonpath::JsonPath;
use apimachinery::managed_fields::PathElement;
use apimachinery::quantity::Quantity;
use apimachinery::selector::{FieldSelector, Selector};

use crate::json_documents;

/// Printing and parsing a selector gives the same selector; a JSONPath is evaluated on any document.
pub(crate) fn selectors(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(selector) = Selector::parse(text) {
        let printed = selector.to_string();
        let again = Selector::parse(&printed).unwrap_or_else(|e| panic!("{e}: {printed:?} of {text:?}"));
        assert_eq!(again, selector, "{printed:?}");
        assert_eq!(selector.matches_with(|_| None), again.matches_with(|_| None));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let printed = selector.to_string();
        let again = FieldSelector::parse(&printed).unwrap_or_else(|e| panic!("{e}: {printed:?} of {text:?}"));
        // As upstream, requirements are in the order of their texts, which in `text` need not be canonical.
        assert_eq!(FieldSelector::parse(&again.to_string()).as_ref(), Ok(&again), "{printed:?}");
    }
    // The path is one line, the document follows.
    let (path, document) = text.split_once('\n').unwrap_or((text, "{}"));
    if let Ok(path) = JsonPath::parse(path) {
        path.beginning().count();
        for document in json_documents(document.as_bytes()) {
            path.find(&document);
        }
    }
}

pub(crate) fn values(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(quantity) = text.parse::<Quantity>() {
        let printed = quantity.to_string();
        let again: Quantity = printed.parse().unwrap_or_else(|e| panic!("{e}: {printed:?} of {text:?}"));
        assert_eq!(again, quantity, "{text:?} printed as {printed:?}");
        assert_eq!(again.to_string(), printed);
        let _ = (quantity + quantity, quantity.times(3), quantity.value(), quantity.milli_value(), quantity.as_f64());
    }
    if let Ok(duration) = text.parse::<Duration>() {
        assert_eq!(duration.to_string().parse::<Duration>().as_ref(), Ok(&duration), "{text:?}");
    }
    if let Ok(element) = PathElement::parse(text) {
        assert_eq!(PathElement::parse(&element.encode()).as_ref(), Ok(&element), "{text:?}");
    }
    if let Ok(value) = serde_json::from_str::<IntOrString>(text) {
        value.scaled(i64::MAX, true).ok();
        value.scaled(7, false).ok();
    }
    for rule in [apimachinery::names::is_qualified_name, apimachinery::names::is_label_value] {
        rule(text);
    }
    let (format, rest) = text.split_once('\n').unwrap_or(("duration", text));
    apiextensions::formats::matches(format, rest);
    if format.len() < 200
        && let Ok(pattern) = apiextensions::re2::compile(format)
    {
        pattern.is_match(rest);
    }
    jiff_of(text);
}

fn jiff_of(text: &str) {
    let quoted = serde_json::Value::from(text);
    if let Ok(time) = serde_json::from_value::<apimachinery::meta::Time>(quoted) {
        let printed = serde_json::to_value(time).expect("a time prints");
        let again: apimachinery::meta::Time = serde_json::from_value(printed.clone()).expect("a printed time parses");
        assert_eq!(serde_json::to_value(again).expect("a time prints"), printed);
    }
}
