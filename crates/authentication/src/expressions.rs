//! The expressions of a configuration: on `claims`, and on the `user` that they were mapped to.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cel::budget::{EXPRESSION_LIMIT, Meter};
use cel::types::{ANY, Field, Kind, ObjectShape, Shape};
use cel::{Env, Program, Type, Value as CelValue};
use serde_json::{Map, Value};

/// The type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredType {
    Bool,
    String,
    /// A string or a list of strings.
    Strings,
}

impl RequiredType {
    fn accepts(self, found: &Type) -> bool {
        let is_text = |type_: &Type| matches!(type_, Type::String) || type_.is_dyn();
        match (self, found) {
            (Self::Bool, Type::Bool) => true,
            (Self::String, found) => is_text(found),
            (Self::Strings, Type::List(items)) => is_text(items),
            (Self::Strings, found) => is_text(found),
            _ => false,
        }
    }

    fn refusal(self) -> &'static str {
        match self {
            Self::Bool => "must evaluate to bool",
            Self::String => "must evaluate to string",
            Self::Strings => "must evaluate to one of [string list(string)]",
        }
    }
}

/// The variable of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Claims,
    User,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pub source: String,
    program: Program,
    variable: Variable,
}

impl Expression {
    /// # Errors
    /// Why it does not compile, or has another type.
    pub fn compile(source: &str, variable: Variable, required_type: RequiredType) -> Result<Self, String> {
        let env = match variable {
            Variable::Claims => Env::new().with("claims", Type::map(Type::String, Type::Dyn)),
            Variable::User => Env::new().with_document("user", &USER, false),
        };
        let program = env.compile(source).map_err(|issues| format!("compilation failed: {issues}"))?;
        if !required_type.accepts(program.result_type()) {
            return Err(required_type.refusal().to_owned());
        }
        if let Some(fault) = program.fault() {
            return Err(format!("program instantiation failed: {fault}"));
        }
        Ok(Self { source: source.to_owned(), program, variable })
    }

    fn eval<T>(&self, document: &Value, read: impl FnOnce(CelValue<'_>) -> Option<T>) -> Result<T, String> {
        let shape = match self.variable {
            Variable::Claims => &ANY,
            Variable::User => &**USER,
        };
        let bound = CelValue::from_json(document, shape).map_err(|error| error.to_string())?;
        let mut meter = Meter::new(EXPRESSION_LIMIT);
        let value = self.program.eval(&[Some(bound)], &mut meter);
        let value = value.map_err(|error| format!("expression '{}' resulted in error: {error}", self.source))?;
        let found = value.type_name().into_owned();
        read(value).ok_or_else(|| format!("expression '{}' evaluated to {found}", self.source))
    }

    pub fn bool(&self, document: &Value) -> Result<bool, String> {
        self.eval(document, |value| match value {
            CelValue::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub fn string(&self, document: &Value) -> Result<String, String> {
        self.eval(document, |value| text(&value))
    }

    /// A string is a list of one, unless it is empty; null is an empty list.
    pub fn strings(&self, document: &Value) -> Result<Vec<String>, String> {
        self.eval(document, |value| match value {
            CelValue::Null => Some(Vec::new()),
            CelValue::List(items) => {
                let items = items.iter().map(|item| item.ok().and_then(|item| text(&item)));
                items.filter(|item| item.as_deref() != Some("")).collect()
            }
            value => text(&value).map(|value| if value.is_empty() { Vec::new() } else { vec![value] }),
        })
    }

    /// Whether the source reads `claims.NAME`, for claims that must be used together.
    pub fn reads(&self, name: &str) -> bool {
        let claim_path = format!("claims.{name}");
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.source.match_indices(&claim_path).any(|(at, _)| {
            let before = self.source[..at].chars().next_back();
            let after = self.source[at + claim_path.len()..].chars().next();
            !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word)
        })
    }
}

fn text(value: &CelValue<'_>) -> Option<String> {
    match value {
        CelValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The claims as an expression reads them.
pub(crate) fn document(claims: Map<String, Value>) -> Value {
    Value::Object(claims)
}

/// The shape of `user`.
static USER: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let text = || Arc::new(Shape::new(Kind::String, 2));
    let list = || Arc::new(Shape::new(Kind::List { items: text(), identity: Default::default() }, 2));
    let fields = [
        ("username", text()),
        ("uid", text()),
        ("groups", list()),
        ("extra", Arc::new(Shape::new(Kind::Map { values: list() }, 2))),
    ];
    let fields: BTreeMap<Box<str>, Field> =
        fields.into_iter().map(|(name, shape)| (name.into(), Field { name: name.into(), shape })).collect();
    Arc::new(Shape::new(Kind::Object(Arc::new(ObjectShape { name: "kubernetes.UserInfo".into(), fields })), 2))
});
