//! The discovery document of an issuer: `ISSUER/.well-known/openid-configuration`.

use serde::Deserialize;

/// The purpose of a discovery document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Where the key set is; begins with `https://`.
    pub jwks_uri: String,
}

/// Why a discovery document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// It is not a JSON object of the expected form.
    #[error("the discovery document cannot be decoded: {0}")]
    Undecodable(String),
    /// It belongs to another issuer.
    #[error("the discovery document is of issuer {found:?}, not of {expected:?}")]
    OtherIssuer {
        /// The issuer of the configuration.
        expected: String,
        /// The issuer of the document.
        found: String,
    },
    /// Keys are fetched over verified connections only.
    #[error("jwks_uri {0:?} of the discovery document is not an https URL")]
    KeySetUrl(String),
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    issuer: String,
    #[serde(default)]
    jwks_uri: String,
}

impl Discovery {
    /// Reads the document of the issuer at `issuer`.
    ///
    /// # Errors
    /// If it is not that issuer's, or names no key set.
    pub fn parse(document: &[u8], issuer: &str) -> Result<Self, DiscoveryError> {
        let document: Document =
            serde_json::from_slice(document).map_err(|error| DiscoveryError::Undecodable(error.to_string()))?;
        if document.issuer != issuer {
            return Err(DiscoveryError::OtherIssuer { expected: issuer.to_owned(), found: document.issuer });
        }
        if !document.jwks_uri.starts_with("https://") {
            return Err(DiscoveryError::KeySetUrl(document.jwks_uri));
        }
        Ok(Self { jwks_uri: document.jwks_uri })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_other_issuers_are_rejected() {
        let check = |document: &str, expected: Result<&str, &str>| {
            let found = Discovery::parse(document.as_bytes(), "https://i").map(|it| it.jwks_uri);
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{document}");
        };
        check(r#"{"issuer":"https://i","jwks_uri":"https://i/keys","x":1}"#, Ok("https://i/keys"));
        check(
            r#"{"issuer":"https://j","jwks_uri":"https://i/keys"}"#,
            Err(r#"the discovery document is of issuer "https://j", not of "https://i""#),
        );
        check(
            r#"{"issuer":"https://i","jwks_uri":"http://i/keys"}"#,
            Err(r#"jwks_uri "http://i/keys" of the discovery document is not an https URL"#),
        );
        check(
            r#"{"issuer":7}"#,
            Err(
                "the discovery document cannot be decoded: invalid type: integer `7`, expected a string at line 1 column 11",
            ),
        );
    }
}
