//! Selectors over labels and fields: parsing, printing and matching.

mod fields;
mod parse;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use crate::field::{self, Path};
use crate::meta::LabelSelector;
use crate::names;

pub use fields::{FieldOperator, FieldRequirement, FieldSelector};

/// Why a text or a `meta/v1.LabelSelector` is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// The operator of a requirement on a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=` or `==`
    Equals,
    /// `!=`; also matches objects without the label.
    NotEquals,
    /// `in`
    In,
    /// `notin`; also matches objects without the label.
    NotIn,
    /// The key alone.
    Exists,
    /// `!` before the key.
    DoesNotExist,
    /// `>`, compared as whole numbers.
    GreaterThan,
    /// `<`, compared as whole numbers.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without duplicates.
    values: Vec<String>,
}

/// All requirements must hold.
///
/// ```
/// use std::collections::BTreeMap;
/// use apimachinery::selector::Selector;
///
/// let selector = Selector::parse("app=web,tier in (front,back),!canary")?;
/// assert!(selector.matches(&BTreeMap::from([("app", "web"), ("tier", "front")])));
/// assert!(!selector.matches(&BTreeMap::from([("app", "web")])));
/// # Ok::<(), apimachinery::selector::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Requirement {
    /// Checks the key, the values and their number.
    ///
    /// # Errors
    /// When the key is not a qualified name, a value is not a label value, or their number does not suit the operator.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, ParseError> {
        let of_key = key_complaint(key).map(|complaint| format!("key: {complaint}"));
        let mut errors: Vec<String> = of_key.into_iter().collect();
        let path = Path::new("values");
        let number = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        errors.extend(number.map(|detail| field::Error::invalid(&path, values.clone(), detail).to_string()));
        let is_number = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        for (place, value) in values.iter().enumerate().filter(|(_, value)| is_number && value.parse::<i64>().is_err())
        {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(field::Error::invalid(&path.index(place), value.as_str(), detail).to_string());
        }
        for (place, value) in values.iter().enumerate() {
            let complaints = names::is_label_value(value).join("; ");
            if !complaints.is_empty() {
                let path = path.index(place).key(key);
                errors.push(field::Error::invalid(&path, value.as_str(), complaints).to_string());
            }
        }
        match &errors[..] {
            [] => {}
            [one] => return Err(ParseError(one.clone())),
            several => return Err(ParseError(format!("[{}]", several.join(", ")))),
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// `label` is the value of the label, `None` when the object does not have it.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let among = |value: &str| self.values.iter().any(|v| v == value);
        let bound = || self.values.first().and_then(|v| v.parse::<i64>().ok());
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::Equals | Operator::In => label.is_some_and(among),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(among),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => number().zip(bound()).is_some_and(|(n, b)| n > b),
            Operator::LessThan => number().zip(bound()).is_some_and(|(n, b)| n < b),
        }
    }
}

/// Why a text is not the key of a label.
fn key_complaint(key: &str) -> Option<String> {
    let complaints = names::is_qualified_name(key).join("; ");
    (!complaints.is_empty()).then(|| field::Error::invalid(&Path::root(), key, complaints).body())
}

impl Selector {
    /// The selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches no object: the meaning of an absent `LabelSelector` where one is required.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Requirements are sorted by key.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Parses a query parameter or a `--selector`: `a=b,c in (d,e),!f,g>1`.
    ///
    /// # Errors
    /// When the text is not a label selector, with apimachinery's message.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::selector(text).map(Self::new)
    }

    /// An empty selector matches everything.
    ///
    /// # Errors
    /// When an operator is unknown, or a key or value is invalid.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<Self, ParseError> {
        let mut requirements = Vec::with_capacity(selector.match_labels.len() + selector.match_expressions.len());
        for (key, value) in &selector.match_labels {
            requirements.push(Requirement::new(key, Operator::Equals, vec![value.clone()])?);
        }
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(ParseError(format!("{other:?} is not a valid label selector operator"))),
            };
            requirements.push(Requirement::new(&expression.key, operator, expression.values.clone())?);
        }
        Ok(Self::new(requirements))
    }

    /// Exactly these labels, unchecked: for sets that a controller wrote itself.
    pub fn from_set<K: AsRef<str>, V: AsRef<str>>(labels: &BTreeMap<K, V>) -> Self {
        let requirement = |(key, value): (&K, &V)| Requirement {
            key: key.as_ref().to_owned(),
            operator: Operator::Equals,
            values: vec![value.as_ref().to_owned()],
        };
        Self::new(labels.iter().map(requirement).collect())
    }

    /// The requirements, all of which must match.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether it matches every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether an object with these labels matches.
    pub fn matches<K, V>(&self, labels: &BTreeMap<K, V>) -> bool
    where
        K: Borrow<str> + Ord,
        V: AsRef<str>,
    {
        self.matches_with(|key| labels.get(key).map(AsRef::as_ref))
    }

    /// `label` gives the value of a label by its key.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The form [`Selector::parse`] reads; also the `status.selector` of a Scale.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split_terminator(',').filter_map(|p| p.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn parsing_printing_and_matching() {
        for (text, printed, object, expected) in [
            ("", "", "", true),
            ("a=b", "a=b", "a=b", true),
            ("a == b , c", "a=b,c", "a=b,c=1", true),
            ("c,a=b", "a=b,c", "a=b", false),
            ("a!=b", "a!=b", "", true),
            ("a!=b", "a!=b", "a=b", false),
            ("a in (x, y)", "a in (x,y)", "a=y", true),
            ("a in (x,)", "a in (,x)", "a=", true),
            ("a in ( , )", "a in ()", "a=", true),
            ("a in ()", "a in ()", "a=", true),
            ("a notin ()", "a notin ()", "a=x", true),
            ("a in (y,,x,y)", "a in (,x,y)", "a=y", true),
            ("a notin (x)", "a notin (x)", "", true),
            ("a notin (x)", "a notin (x)", "a=x", false),
            ("!a", "!a", "a=", false),
            ("a>5", "a>5", "a=6", true),
            ("a<5", "a<5", "a=x", false),
            ("a=", "a=", "a=", true),
            ("example.com/a in (in,notin)", "example.com/a in (in,notin)", "example.com/a=in", true),
        ] {
            let selector = Selector::parse(text).expect(text);
            assert_eq!(selector.to_string(), printed);
            assert_eq!(selector.matches(&labels(object)), expected, "{text} on {object}");
        }
        let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                     regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let integer = "for 'Gt', 'Lt' operators, the value must be an integer";
        for (text, message) in [
            ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
            ("a (", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
            (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
            ("==b", "found '==', expected: !, identifier, or 'end of string'".to_owned()),
            ("a,,b", "found ',', expected: identifier after ','".to_owned()),
            ("a,", "found '', expected: identifier after ','".to_owned()),
            ("a in", "unable to parse requirement: found '' expected: '('".to_owned()),
            ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
            ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier".to_owned()),
            ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a=!", "unable to parse requirement: found '!', expected: identifier".to_owned()),
            ("-a", format!(r#"unable to parse requirement: <nil>: Invalid value: "-a": {name}"#)),
            ("a=é", format!(r#"unable to parse requirement: values[0][a]: Invalid value: "é": {value}"#)),
            ("a in (b,-)", format!(r#"unable to parse requirement: values[0][a]: Invalid value: "-": {value}"#)),
            ("a>b", format!(r#"unable to parse requirement: values[0]: Invalid value: "b": {integer}"#)),
            ("a>", format!(r#"unable to parse requirement: values[0]: Invalid value: "": {integer}"#)),
        ] {
            assert_eq!(Selector::parse(text), Err(ParseError(message)), "{text}");
        }
    }

    #[test]
    fn all_errors_of_a_requirement_are_reported() {
        let found = Requirement::new("a", Operator::GreaterThan, vec!["x".to_owned(), "2".to_owned()]);
        let expected = r#"[values: Invalid value: ["x","2"]: for 'Gt', 'Lt' operators, exactly one value is required, values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer]"#;
        assert_eq!(found, Err(ParseError(expected.to_owned())));
    }

    #[test]
    fn structured_selectors() {
        let selector: LabelSelector = serde_json::from_str(
            r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"Exists"},{"key":"d","operator":"In","values":["y","x"]}]}"#,
        )
        .expect("valid");
        assert_eq!(Selector::from_label_selector(&selector).map(|s| s.to_string()), Ok("a=b,c,d in (x,y)".to_owned()));
        assert!(Selector::from_label_selector(&LabelSelector::default()).is_ok_and(|s| s.is_everything()));
        assert!(!Selector::nothing().matches(&labels("")));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_printing_round_trips(text in "[a-c=!<>(), in]{0,12}") {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
