//! One issuer: which of its tokens are valid, and the users they name.

use serde_json::{Map, Value, json};

use crate::expressions::{self, Expression};
use crate::jwks::{Algorithm, KeySet};
use crate::token::{Token, TokenError};

/// A clock may be this many seconds behind that of the issuer.
const NOT_BEFORE_LEEWAY: f64 = 300.0;

/// The path of the discovery document behind the URL of an issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The user that a token names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Empty without one.
    pub uid: String,
    /// The groups, without `system:authenticated`.
    pub groups: Vec<String>,
    /// Further attributes, by key.
    pub extra: Vec<(String, Vec<String>)>,
}

/// Why an issuer's token names no user. The client gets a 401 alone; the reason is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The token is not one of the issuer.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It was not issued for this server.
    #[error("its audience {0:?} is not one of the issuer's audiences")]
    Audience(Vec<String>),
    /// It has no `exp`, or that has passed.
    #[error("it has expired or has no exp")]
    Expired,
    /// Its `nbf` is in the future.
    #[error("it is not valid yet")]
    NotYetValid,
    /// A claim is missing or has another type.
    #[error("claim {name:?} {why}")]
    Claim {
        /// The claim.
        name: String,
        /// The error in it.
        why: &'static str,
    },
    /// A rule does not hold.
    #[error("{0}")]
    Rule(String),
    /// An expression has no value.
    #[error("{0}")]
    Expression(String),
}

/// The source of a part of the user.
#[derive(Debug)]
pub(crate) enum Source {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

/// A condition on claims.
#[derive(Debug)]
pub(crate) enum ClaimRule {
    Value { claim: String, value: String },
    Expression { expression: Expression, message: String },
}

/// A compiled issuer of a configuration.
#[derive(Debug)]
pub struct Issuer {
    /// `iss` of its tokens.
    pub url: String,
    /// The URL of its discovery document, if it is not below [`Self::url`].
    pub(crate) discovery_url: Option<String>,
    /// The authority of its serving certificate, in PEM; `None` trusts the machine's authorities.
    pub certificate_authority: Option<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) claim_rules: Vec<ClaimRule>,
    pub(crate) username: Source,
    pub(crate) groups: Option<Source>,
    pub(crate) uid: Option<Source>,
    pub(crate) extra: Vec<(String, Expression)>,
    pub(crate) user_rules: Vec<(Expression, String)>,
}

impl Issuer {
    /// The URL of the discovery document.
    pub fn discovery(&self) -> String {
        match &self.discovery_url {
            Some(url) => url.clone(),
            None => format!("{}{WELL_KNOWN}", self.url.trim_end_matches('/')),
        }
    }

    /// The user of a token, if `keys` verify it and it is valid at `seconds` since the epoch.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn user(&self, token: &Token<'_>, keys: &KeySet, seconds: i64) -> Result<User, Refusal> {
        let claims = token.verify(keys, &self.algorithms)?;
        if claims.get("iss").and_then(Value::as_str) != Some(&self.url) {
            return Err(claim("iss", "is not the issuer"));
        }
        self.check_audience(&claims)?;
        check_time(&claims, seconds)?;
        self.mapped(claims)
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), Refusal> {
        let found = texts(claims.get("aud")).ok_or(claim("aud", "is neither a string nor a list of strings"))?;
        if found.iter().any(|audience| self.audiences.contains(audience)) {
            return Ok(());
        }
        Err(Refusal::Audience(found))
    }

    fn mapped(&self, claims: Map<String, Value>) -> Result<User, Refusal> {
        let claims = expressions::document(claims);
        let mut user = User { name: self.name(&claims)?, ..User::default() };
        user.groups = self.groups(&claims)?;
        user.uid = match &self.uid {
            None => String::new(),
            Some(Source::Claim { name, .. }) => required(&claims, name)?.to_owned(),
            Some(Source::Expression(expression)) => expression.string(&claims).map_err(Refusal::Expression)?,
        };
        for (key, expression) in &self.extra {
            let values = expression.strings(&claims).map_err(Refusal::Expression)?;
            if !values.is_empty() {
                user.extra.push((key.clone(), values));
            }
        }
        if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
            user.extra.push(("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]));
        }
        self.claim_rules.iter().try_for_each(|rule| rule.check(&claims))?;
        if !self.user_rules.is_empty() {
            let document = user.document();
            for (expression, message) in &self.user_rules {
                hold(expression, message, &document)?;
            }
        }
        Ok(user)
    }

    fn name(&self, claims: &Value) -> Result<String, Refusal> {
        let (name, prefix) = match &self.username {
            Source::Expression(expression) => {
                let name = expression.string(claims).map_err(Refusal::Expression)?;
                if name.is_empty() {
                    return Err(Refusal::Rule("the expression of the user name evaluated to an empty name".to_owned()));
                }
                return Ok(name);
            }
            Source::Claim { name, prefix } => (name, prefix),
        };
        let value = required(claims, name)?;
        if value.is_empty() {
            return Err(claim(name, "is empty"));
        }
        // At an issuer that does not verify addresses, a person may register the address of another one.
        if name == "email" && !claims["email_verified"].is_null() && claims["email_verified"] != true {
            return Err(claim("email_verified", "is not true"));
        }
        Ok(format!("{prefix}{value}"))
    }

    fn groups(&self, claims: &Value) -> Result<Vec<String>, Refusal> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Source::Expression(expression)) => expression.strings(claims).map_err(Refusal::Expression),
            Some(Source::Claim { name, prefix }) => {
                if claims[name].is_null() {
                    if !claims["_claim_names"][name].is_null() {
                        return Err(claim(name, "is a distributed claim, which this server does not resolve"));
                    }
                    return Ok(Vec::new());
                }
                let groups = texts(claims.get(name));
                let groups = groups.ok_or(claim(name, "is neither a string nor a list of strings"))?;
                Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
            }
        }
    }
}

impl ClaimRule {
    fn check(&self, claims: &Value) -> Result<(), Refusal> {
        match self {
            Self::Expression { expression, message } => hold(expression, message, claims),
            Self::Value { claim: name, value } => match claims[name].as_str() {
                Some(found) if found == value => Ok(()),
                Some(_) => Err(claim(name, "does not have the required value")),
                None => Err(claim(name, "is required and is not a string")),
            },
        }
    }
}

impl User {
    fn document(&self) -> Value {
        let extra: Map<String, Value> = self.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        json!({"username": self.name, "uid": self.uid, "groups": self.groups, "extra": extra})
    }
}

fn hold(expression: &Expression, message: &str, document: &Value) -> Result<(), Refusal> {
    if expression.bool(document).map_err(Refusal::Expression)? {
        return Ok(());
    }
    Err(Refusal::Rule(match message {
        "" => format!("validation expression '{}' failed", expression.source),
        message => format!("validation expression '{}' failed: {message}", expression.source),
    }))
}

fn claim(name: &str, why: &'static str) -> Refusal {
    Refusal::Claim { name: name.to_owned(), why }
}

fn required<'c>(claims: &'c Value, name: &str) -> Result<&'c str, Refusal> {
    match claims.get(name) {
        None | Some(Value::Null) => Err(claim(name, "is missing")),
        Some(value) => value.as_str().ok_or(claim(name, "is not a string")),
    }
}

/// A string, or a list of strings only.
fn texts(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(many) => many.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

fn check_time(claims: &Map<String, Value>, seconds: i64) -> Result<(), Refusal> {
    let now = seconds as f64;
    let time = |name: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(claim(name, "is not a number")),
    };
    if time("exp")?.is_none_or(|exp| exp <= now) {
        return Err(Refusal::Expired);
    }
    if time("nbf")?.is_some_and(|nbf| nbf > now + NOT_BEFORE_LEEWAY) {
        return Err(Refusal::NotYetValid);
    }
    Ok(())
}
