//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

use super::ParseError;

/// The operator of a requirement on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `=` or `==`
    Equals,
    /// `!=`
    NotEquals,
}

/// The field's path, the operator and the value.
pub type FieldRequirement = (String, FieldOperator, String);

/// All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// The selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether the fields exist is for the caller to check.
    ///
    /// # Errors
    /// When the text is not a field selector.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut requirements = Vec::new();
        let mut terms = split_terms(text);
        terms.sort_unstable();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (path, operator, value) = split_operator(term)
                .ok_or_else(|| ParseError(format!("invalid selector: '{text}'; can't understand '{term}'")))?;
            let value = unescape(value)?;
            // Without a field and a value it requires nothing.
            if !path.is_empty() || !value.is_empty() {
                requirements.push((path.to_owned(), operator, value));
            }
        }
        Ok(Self { requirements })
    }

    /// The requirements, all of which must match.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether it has no requirements.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value a field must have for an object to match; lets a list by name become a get.
    pub fn exact(&self, path: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|(p, op, _)| p == path && *op == FieldOperator::Equals);
        found.map(|(_, _, value)| value.as_str())
    }

    /// `field` gives the value at a path; an absent field counts as empty.
    pub fn matches_with<'a>(&self, field: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|(path, operator, value)| {
            let equal = field(path).as_deref().unwrap_or_default() == value;
            equal == (*operator == FieldOperator::Equals)
        })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_operator(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let (path, value) = term.split_once('=')?;
    Some(match path.strip_suffix('!') {
        Some(path) => (path, FieldOperator::NotEquals, value),
        None => (path, FieldOperator::Equals, value.strip_prefix('=').unwrap_or(value)),
    })
}

fn unescape(value: &str) -> Result<String, ParseError> {
    let mut result = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(special @ ('\\' | ',' | '=')) => result.push(special),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(ParseError(format!("invalid field selector: invalid escape sequence: {sequence}")));
                }
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(ParseError(format!("invalid field selector: unescaped character in value: {code}")));
            }
            _ => result.push(c),
        }
    }
    Ok(result)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (path, operator, value)) in self.requirements.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let symbol = if *operator == FieldOperator::Equals { "=" } else { "!=" };
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{path}{symbol}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_and_matching() {
        for (text, printed, name, expected) in [
            ("", "", "a", true),
            ("metadata.name=a", "metadata.name=a", "a", true),
            ("metadata.name==b,", "metadata.name=b", "a", false),
            ("metadata.name!=b", "metadata.name!=b", "a", true),
            ("metadata.name=a\\,b\\=c", "metadata.name=a\\,b\\=c", "a,b=c", true),
            ("x=", "x=", "a", true),
            ("x!y=z", "x!y=z", "a", false),
            ("z=,=,a=", "a=,z=", "a", true),
        ] {
            let selector = FieldSelector::parse(text).expect(text);
            assert_eq!(selector.to_string(), printed);
            let field = |path: &str| (path == "metadata.name").then(|| Cow::from(name.to_owned()));
            assert_eq!(selector.matches_with(field), expected, "{text}");
        }
        let refusal = |text| FieldSelector::parse(text).expect_err(text).to_string();
        assert_eq!(refusal("x,b=2,a"), "invalid selector: 'x,b=2,a'; can't understand 'a'");
        assert_eq!(refusal("a=b=c"), "invalid field selector: unescaped character in value: 61");
        for text in ["a", "a!b", "a=b=c", "a=\\x", "a=b\\"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }
}
