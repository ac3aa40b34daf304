//! One issuer, configured by kube-apiserver's flags `--oidc-*`.

use crate::config::ConfigurationError;
use crate::document::{IssuerDocument, Jwt, Mapping};
use crate::issuer::{ClaimRule, Issuer};
use crate::jwks::Algorithm;
use crate::validation;

/// The flags `--oidc-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--oidc-issuer-url`.
    pub issuer_url: String,
    /// `--oidc-client-id`: the audience.
    pub client_id: String,
    /// `--oidc-username-claim`.
    pub username_claim: String,
    /// `--oidc-username-prefix`; `-` for no prefix. Without it, names other than addresses have the issuer as prefix.
    pub username_prefix: String,
    /// `--oidc-groups-claim`.
    pub groups_claim: String,
    /// `--oidc-groups-prefix`.
    pub groups_prefix: String,
    /// `--oidc-required-claim`, each `claim=value`.
    pub required_claims: Vec<String>,
    /// `--oidc-signing-algs`.
    pub signing_algs: Vec<String>,
    /// The content of `--oidc-ca-file`.
    pub certificate_authority: String,
}

impl Flags {
    /// The issuer.
    ///
    /// # Errors
    /// [`ConfigurationError::Invalid`] naming the flag.
    pub fn issuer(&self, disallowed_issuers: &[String]) -> Result<Issuer, ConfigurationError> {
        let invalid = |why: String| ConfigurationError::Invalid(why);
        if self.issuer_url.is_empty() || self.client_id.is_empty() {
            return Err(invalid("--oidc-issuer-url and --oidc-client-id must be set together".to_owned()));
        }
        let claim = if self.username_claim.is_empty() { "sub" } else { &self.username_claim };
        let prefix = match self.username_prefix.as_str() {
            "-" => String::new(),
            "" if claim == "email" => String::new(),
            "" => format!("{}#", self.issuer_url),
            prefix => prefix.to_owned(),
        };
        let mut jwt = Jwt {
            issuer: IssuerDocument {
                url: self.issuer_url.clone(),
                audiences: vec![self.client_id.clone()],
                certificate_authority: self.certificate_authority.clone(),
                ..IssuerDocument::default()
            },
            ..Jwt::default()
        };
        jwt.claim_mappings.username = Mapping { claim: claim.to_owned(), prefix: Some(prefix), ..Mapping::default() };
        if !self.groups_claim.is_empty() {
            let prefix = Some(self.groups_prefix.clone());
            jwt.claim_mappings.groups = Mapping { claim: self.groups_claim.clone(), prefix, ..Mapping::default() };
        }
        let issuer = validation::issuer(jwt, disallowed_issuers);
        let mut issuer =
            issuer.map_err(|errors| invalid(format!("--oidc-*: {}", ConfigurationError::invalid(&errors))))?;
        for pair in &self.required_claims {
            let (claim, value) = pair
                .split_once('=')
                .filter(|(claim, _)| !claim.is_empty())
                .ok_or_else(|| invalid(format!("--oidc-required-claim: {pair:?} is not of the form claim=value")))?;
            issuer.claim_rules.push(ClaimRule::Value { claim: claim.to_owned(), value: value.to_owned() });
        }
        let algorithm = |name: &String| {
            let why = || invalid(format!("--oidc-signing-algs: {name:?} is not one of {}", names().join(", ")));
            Algorithm::parse(name).ok_or_else(why)
        };
        issuer.algorithms = match self.signing_algs.as_slice() {
            [] => vec![Algorithm::RS256],
            names => names.iter().map(algorithm).collect::<Result<_, _>>()?,
        };
        Ok(issuer)
    }
}

fn names() -> Vec<&'static str> {
    Algorithm::ALL.iter().map(|(name, _)| *name).collect()
}
