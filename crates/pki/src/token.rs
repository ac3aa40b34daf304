//! Service account tokens: JSON Web Tokens with Kubernetes' claims, signed and verified.
//!
//! A verifier checks the signature and returns the claims. The authenticator checks validity, audience and whether the
//! account exists.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use parking_lot::RwLock;
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, holder};

/// The name and uid of an object that a bound token refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The claim `kubernetes.io` of a bound token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    /// Seconds since the epoch; set on tokens whose lifetime is extended beyond the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// The claims of bound and of legacy tokens (those in Secrets), which have different names for the same claims. Times
/// are seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
    pub iss: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jti: String,
    #[serde(rename = "kubernetes.io", skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", skip_serializing_if = "String::is_empty")]
    pub legacy_namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", skip_serializing_if = "String::is_empty")]
    pub legacy_secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name", skip_serializing_if = "String::is_empty")]
    pub legacy_account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid", skip_serializing_if = "String::is_empty")]
    pub legacy_uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    pub sub: String,
}

/// The issuer of the tokens in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

impl Claims {
    /// A token without expiry for a Secret of type `kubernetes.io/service-account-token`.
    pub fn legacy(namespace: &str, account: &str, uid: &str, secret: &str) -> Self {
        Self {
            iss: LEGACY_ISSUER.into(),
            legacy_namespace: namespace.into(),
            legacy_secret: secret.into(),
            legacy_account: account.into(),
            legacy_uid: uid.into(),
            sub: format!("system:serviceaccount:{namespace}:{account}"),
            ..Self::default()
        }
    }
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}

/// A new P-256 key for tokens, in PEM (PKCS #8).
pub fn generate_key() -> Result<String, Error> {
    Ok(KeyPair::generate().map_err(Error::GenerateKey)?.serialize_pem())
}

/// Signs tokens with a replaceable key.
#[derive(Debug)]
pub struct Signers(RwLock<Arc<Signer>>);

impl Signers {
    pub fn new(signer: Signer) -> Self {
        Self(RwLock::new(Arc::new(signer)))
    }

    pub fn current(&self) -> Arc<Signer> {
        Arc::clone(&self.0.read())
    }

    pub fn replace(&self, signer: Signer) {
        *self.0.write() = Arc::new(signer);
    }
}

/// Signs tokens.
pub struct Signer {
    key: EncodingKey,
    header: Header,
    public_pem: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.header.kid.as_deref().unwrap_or_default())
    }
}

impl Signer {
    /// Loads a private key in PEM: RSA (RS256), P-256 (ES256) or P-384 (ES384).
    pub fn from_pem(private_key: &str) -> Result<Self, Error> {
        let pair = KeyPair::from_pem(private_key).map_err(Error::ParseKey)?;
        let algorithm = match pair.algorithm() {
            rsa if *rsa == rcgen::PKCS_RSA_SHA256 => Algorithm::RS256,
            p256 if *p256 == rcgen::PKCS_ECDSA_P256_SHA256 => Algorithm::ES256,
            p384 if *p384 == rcgen::PKCS_ECDSA_P384_SHA384 => Algorithm::ES384,
            _ => return Err(Error::TokenAlgorithm),
        };
        let key = match algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(private_key.as_bytes()),
            _ => EncodingKey::from_ec_pem(private_key.as_bytes()),
        };
        let public_pem = pair.public_key_pem();
        let mut header = Header::new(algorithm);
        header.typ = None;
        header.kid = Some(key_id(&public_pem)?);
        Ok(Self { key: key.map_err(Error::TokenKey)?, header, public_pem })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, Error> {
        jsonwebtoken::encode(&self.header, claims, &self.key).map_err(Error::SignToken)
    }

    /// The public key, for [`Verifier::from_pems`].
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }
}

/// base64url(SHA-256(DER of the public key)), as in kube-apiserver.
pub(crate) fn key_id(public_pem: &str) -> Result<String, Error> {
    Ok(URL_SAFE_NO_PAD.encode(Sha256::digest(holder::pem_to_der(public_pem)?)))
}

struct PublicKey {
    id: String,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Verifies tokens with any of several public keys. They are replaceable, for rotation.
pub struct Verifier {
    keys: RwLock<Arc<Vec<PublicKey>>>,
    replaced: AtomicU64,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.read().iter().map(|key| &key.id)).finish()
    }
}

impl Verifier {
    /// Loads keys in PEM, public or private.
    pub fn from_pems<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        Ok(Self { keys: RwLock::new(Arc::new(public_keys(keys)?)), replaced: AtomicU64::new(0) })
    }

    /// Replaces the keys.
    ///
    /// # Errors
    /// A key cannot be read; the previous keys are kept.
    pub fn replace<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let keys = public_keys(keys)?;
        let same = self.keys.read().iter().map(|key| &key.id).eq(keys.iter().map(|key| &key.id));
        if !same {
            *self.keys.write() = Arc::new(keys);
            self.replaced.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// How often the keys were replaced: a token that was verified before may be signed with a removed key.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Acquire)
    }

    /// The claims of a token with a valid signature, unchecked. `None` for a foreign or forged token.
    pub fn verify(&self, token: &str) -> Option<Claims> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        let keys = Arc::clone(&self.keys.read());
        let candidates = keys.iter().filter(|key| {
            key.algorithm == header.alg && header.kid.as_ref().is_none_or(|id| id.is_empty() || *id == key.id)
        });
        candidates.into_iter().find_map(|key| {
            let mut validation = Validation::new(key.algorithm);
            validation.required_spec_claims.clear();
            // The authenticator checks it, on the world's clock.
            validation.validate_exp = false;
            validation.validate_aud = false;
            jsonwebtoken::decode::<Claims>(token, &key.key, &validation).ok().map(|decoded| decoded.claims)
        })
    }

    /// The document of `/openid/v1/jwks`.
    pub fn key_set(&self) -> Result<serde_json::Value, Error> {
        let present = Arc::clone(&self.keys.read());
        let mut keys = Vec::with_capacity(present.len());
        for key in present.iter() {
            let mut jwk = Jwk::from_decoding_key(&key.key, Some(key.algorithm)).map_err(Error::TokenKey)?;
            jwk.common.key_id = Some(key.id.clone());
            jwk.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Signature);
            keys.push(jwk);
        }
        Ok(serde_json::json!({ "keys": keys }))
    }

    /// The distinct signing algorithms, for the issuer's discovery document.
    pub fn algorithms(&self) -> Vec<String> {
        let mut names: Vec<String> = self.keys.read().iter().map(|key| format!("{:?}", key.algorithm)).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Without duplicates.
fn public_keys<'a>(pems: impl IntoIterator<Item = &'a str>) -> Result<Vec<PublicKey>, Error> {
    let mut keys: Vec<PublicKey> = Vec::new();
    for pem in pems {
        let key = public_key(pem)?;
        if !keys.iter().any(|known| known.id == key.id) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn public_key(pem: &str) -> Result<PublicKey, Error> {
    let private = pem.contains("PRIVATE KEY");
    let public_pem = if private { Signer::from_pem(pem)?.public_pem } else { pem.to_owned() };
    let ec = DecodingKey::from_ec_pem(public_pem.as_bytes());
    let key = match ec {
        Ok(key) => key,
        Err(_) => DecodingKey::from_rsa_pem(public_pem.as_bytes()).map_err(Error::TokenKey)?,
    };
    // An uncompressed point is 1 + 2 x 32 bytes on P-256 and 1 + 2 x 48 bytes on P-384.
    let algorithm = match (key.family(), key.try_get_as_bytes().map(<[u8]>::len)) {
        (AlgorithmFamily::Rsa, _) => Algorithm::RS256,
        (AlgorithmFamily::Ec, Ok(65)) => Algorithm::ES256,
        (AlgorithmFamily::Ec, Ok(97)) => Algorithm::ES384,
        _ => return Err(Error::TokenAlgorithm),
    };
    Ok(PublicKey { id: key_id(&public_pem)?, algorithm, key })
}
