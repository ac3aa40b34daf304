//! JSON Web Tokens in compact form: the parts readable before and after the verification of the signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::jwks::{Algorithm, KeySet};

/// Larger tokens are refused before they are decoded. Servers limit headers to 16 KiB or less; TokenReviews have no
/// such limit.
const MAX_BYTES: usize = 64 << 10;

/// Why a token is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not a signed JSON Web Token.
    #[error("it is not a signed JSON Web Token: {0}")]
    Malformed(&'static str),
    /// Its algorithm is not accepted; `none` and those with shared secrets never are.
    #[error("its signature algorithm {0:?} is not accepted")]
    Algorithm(String),
    /// No key of the issuer made the signature.
    #[error("its signature is not of a key of the issuer")]
    Signature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that a verifier must understand; none are supported.
    #[serde(default)]
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

/// A token whose signature has not been verified.
#[derive(Debug)]
pub struct Token<'t> {
    /// Header and payload as they were signed.
    message: &'t str,
    payload: Vec<u8>,
    signature: Vec<u8>,
    algorithm: String,
    key: Option<String>,
    issuer: String,
}

impl<'t> Token<'t> {
    /// Splits and decodes a token. Its content is not verified.
    ///
    /// # Errors
    /// [`TokenError::Malformed`]: the text may be a token of another kind.
    pub fn parse(text: &'t str) -> Result<Self, TokenError> {
        let malformed = TokenError::Malformed;
        if text.len() > MAX_BYTES {
            return Err(malformed("it is larger than 64 KiB"));
        }
        let (message, signature) = text.rsplit_once('.').ok_or(malformed("it has no signature"))?;
        let (header, payload) = message.split_once('.').ok_or(malformed("it does not have three parts"))?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed("a part is not base64url"));
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| malformed("its header cannot be decoded"))?;
        if header.crit.is_some() {
            return Err(malformed("it has critical extensions"));
        }
        let payload = decode(payload)?;
        let claims: Unverified =
            serde_json::from_slice(&payload).map_err(|_| malformed("its payload has no issuer"))?;
        let signature = decode(signature)?;
        Ok(Self { message, payload, signature, algorithm: header.alg, key: header.kid, issuer: claims.iss })
    }

    /// The issuer that the token claims to be from.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that it claims to be signed with.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The claims, if one of the keys made the signature with one of the algorithms.
    ///
    /// # Errors
    /// [`TokenError::Algorithm`] or [`TokenError::Signature`].
    pub fn verify(&self, keys: &KeySet, accepted: &[Algorithm]) -> Result<Map<String, Value>, TokenError> {
        let algorithm = Algorithm::parse(&self.algorithm).filter(|it| accepted.contains(it));
        let algorithm = algorithm.ok_or_else(|| TokenError::Algorithm(self.algorithm.clone()))?;
        if !keys.verifies(self.key(), algorithm, self.message.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        serde_json::from_slice(&self.payload).map_err(|_| TokenError::Malformed("its payload is not an object"))
    }
}
