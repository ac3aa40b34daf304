//! Reads descriptions out of the source of `k8s-openapi`: the schemas that its types generate carry Kubernetes' own
//! texts as string literals. The source is read instead of compiled, since compiling it takes longer than compiling
//! this crate.

use std::collections::BTreeMap;

/// The description of a type (with an empty field) or of one of its fields.
pub type Rows = BTreeMap<(String, String), String>;

/// What begins the schema of a type.
const SCHEMA: &str = "impl crate::schemars::JsonSchema for";

/// Adds the descriptions in the source of one type; a source without a schema has none.
///
/// # Errors
/// The source has a schema of another form than expected.
pub fn add_type(source: &str, rows: &mut Rows) -> Result<(), String> {
    let Some(at) = source.find(SCHEMA) else { return Ok(()) };
    let tokens = tokens(&source[at..])?;
    let strings = tokens.iter().filter_map(Token::text);
    let definition = strings.clone().next().ok_or("the schema has no name")?.to_owned();
    let macro_ = tokens.iter().position(|token| token.is_word("json_schema!")).ok_or("there is no json_schema!")?;
    let body = group(&tokens[macro_ + 1..]).and_then(group).ok_or("json_schema! has no body")?;
    for (key, value) in entries(body) {
        match (key, value) {
            ("description", [Token::Text(text), ..]) => {
                rows.insert((definition.clone(), String::new()), text.clone());
            }
            ("properties", value) => {
                for (field, property) in entries(group(value).ok_or("the properties are no object")?) {
                    if let Some(text) = description(property) {
                        rows.insert((definition.clone(), field.to_owned()), text.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Adds the descriptions of the fields of a generic type, which generates no schema, from its documentation.
///
/// # Errors
/// A field has none.
pub fn add_documented(source: &str, definition: &str, fields: &[&str], rows: &mut Rows) -> Result<(), String> {
    for field in fields {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("pub {field}:")));
        let documented = at.and_then(|at| lines.get(at.checked_sub(1)?)?.strip_prefix("/// "));
        let text = documented.ok_or_else(|| format!("{definition} does not document {field}"))?;
        rows.insert((definition.to_owned(), (*field).to_owned()), text.to_owned());
    }
    Ok(())
}

/// The description of a property: an entry of its schema, or inserted beside a reference.
fn description(property: &[Token]) -> Option<&str> {
    if let [Token::Open('{'), ..] = property {
        let found = entries(group(property)?).into_iter().find(|(key, _)| *key == "description");
        return found.and_then(|(_, value)| value.first()?.text());
    }
    let at = property.iter().position(|token| token.text() == Some("description"))?;
    property[at + 1..].iter().find_map(Token::text)
}

/// The keys and values of an object's tokens.
fn entries(tokens: &[Token]) -> Vec<(&str, &[Token])> {
    let (mut found, mut depth, mut begin) = (Vec::<(&str, usize, usize)>::new(), 0_usize, true);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Text(key) if begin && tokens.get(at + 1).is_some_and(|next| next.is_word(":")) => {
                found.push((key, at + 2, tokens.len()));
            }
            Token::Word(word) if depth == 0 && word == "," => {
                if let Some(last) = found.last_mut() {
                    last.2 = last.2.min(at);
                }
            }
            _ => {}
        }
        begin = depth == 0 && token.is_word(",");
    }
    found.into_iter().map(|(key, from, to)| (key, &tokens[from..to])).collect()
}

/// The tokens within the delimiters that the tokens begin with.
fn group(tokens: &[Token]) -> Option<&[Token]> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return tokens.get(1..at);
        }
    }
    None
}

#[derive(Debug)]
enum Token {
    /// A string literal.
    Text(String),
    Open(char),
    Close,
    /// Anything else between spaces and delimiters; `:` and `,` stand alone.
    Word(String),
}

impl Token {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn is_word(&self, text: &str) -> bool {
        matches!(self, Self::Word(word) if word == text)
    }
}

fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            _ if first.is_whitespace() => {}
            '/' if rest.starts_with('/') => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            '"' => {
                let (text, after) = literal(rest)?;
                tokens.push(Token::Text(text));
                rest = after;
            }
            '(' | '[' | '{' => tokens.push(Token::Open(first)),
            ')' | ']' | '}' => tokens.push(Token::Close),
            ',' | ':' => tokens.push(Token::Word(first.into())),
            _ => {
                let ends = |c: char| c.is_whitespace() || "\"()[]{},:".contains(c);
                let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
                tokens.push(Token::Word(format!("{first}{word}")));
                rest = after;
            }
        }
    }
    Ok(tokens)
}

/// The value of a string literal, after its first quote, and the source behind its last.
fn literal(source: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = source.chars();
    loop {
        match chars.next().ok_or("a literal has no end")? {
            '"' => return Ok((value, chars.as_str())),
            '\\' => value.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(same @ ('"' | '\'' | '\\')) => same,
                Some('u') => {
                    let (digits, after) =
                        chars.as_str().strip_prefix('{').and_then(|it| it.split_once('}')).unwrap_or_default();
                    chars = after.chars();
                    let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                    code.ok_or_else(|| format!("\\u{{{digits}}} is no character"))?
                }
                other => return Err(format!("unknown escape {other:?}")),
            }),
            plain => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = r#"
// Generated from definition a.B

/// A "quote.
impl crate::schemars::JsonSchema for B {
    fn schema_name() -> Cow<'static, str> { "a.B".into() }

    fn json_schema(__gen: &mut SchemaGenerator) -> Schema {
        crate::schemars::json_schema!({
            "description": "A \"B\".\nIt \u{e9}.",
            "type": "object",
            "properties": {
                "plain": {
                    "description": "Plain, with {braces}: yes.",
                    "type": "array",
                    "items": { "description": "not the field's", "type": "string" },
                },
                "inner": {
                    "type": "array",
                    "items": { "description": "not the field's either" },
                },
                // "commented": { "description": "no" },
                "referred": ({
                    let mut schema_obj = __gen.subschema_for::<Map<String, crate::a::C>>();
                    schema_obj.ensure_object().insert("description".into(), "Referred.".into());
                    schema_obj
                }),
                "bare": __gen.subschema_for::<Map<String, crate::a::C>>(),
                "description": { "description": "A field of that name." },
            },
            "required": ["plain"],
        })
    }
}
"#;

    #[test]
    fn types_and_fields_have_their_own_descriptions() {
        let mut rows = Rows::new();
        add_type(TYPE, &mut rows).expect("a type");
        let found: Vec<_> = rows.iter().map(|((type_, field), text)| format!("{type_} {field}: {text}")).collect();
        assert_eq!(
            found,
            [
                "a.B : A \"B\".\nIt \u{e9}.",
                "a.B description: A field of that name.",
                "a.B plain: Plain, with {braces}: yes.",
                "a.B referred: Referred.",
            ]
        );
    }

    #[test]
    fn a_source_of_another_form_is_an_error() {
        let mut rows = Rows::new();
        add_type("pub mod b;", &mut rows).expect("no type, no error");
        for (from, to, expected) in [
            ("json_schema!(", "generate(", "no json_schema!"),
            ("json_schema!({", "json_schema!(", "no body"),
            ("\\u{e9}", "\\q", "unknown escape"),
            ("\\u{e9}", "\\u{110000}", "no character"),
            ("\"properties\": {", "\"properties\": ", "no object"),
            ("\"required\"", "\"required", "no end"),
        ] {
            let error = add_type(&TYPE.replace(from, to), &mut rows).expect_err(from);
            assert!(error.contains(expected), "{from}: {error}");
        }
        // Cut anywhere, it does not panic.
        for end in (0..TYPE.len()).filter(|end| TYPE.is_char_boundary(*end)) {
            let _ = add_type(&TYPE[..end], &mut Rows::new());
        }
    }

    #[test]
    fn generic_types_are_described_by_their_documentation() {
        let source = "pub struct List<T> {\n    /// The objects.\n    pub items: Vec<T>,\n    pub other: u8,\n}\n";
        let mut rows = Rows::new();
        add_documented(source, "a.List", &["items"], &mut rows).expect("documented");
        assert_eq!(rows[&("a.List".to_owned(), "items".to_owned())], "The objects.");
        for field in ["other", "none"] {
            add_documented(source, "a.List", &[field], &mut rows).expect_err(field);
        }
    }
}
