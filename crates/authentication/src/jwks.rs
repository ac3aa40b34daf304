//! Key sets (RFC 7517) and signatures. Only asymmetric algorithms are supported, and an algorithm works only with keys
//! of its own type: neither `none` nor a public key used as a shared secret can verify anything.

use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// Keys that a token is verified with. Issuers publish a handful, and most tokens name one of them. Each verification takes
/// 30 to 100 µs, which any client could cause for all keys of a large set with a token without `kid`.
const MAX_TRIED: usize = 64;
/// A key of 1,024 bits or fewer is not safe; one of more than 8,192 takes long to verify with.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A signature algorithm of RFC 7518.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of RFC 7518")]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    ES256,
    ES384,
    ES512,
    PS256,
    PS384,
    PS512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::RS256),
        ("RS384", Self::RS384),
        ("RS512", Self::RS512),
        ("ES256", Self::ES256),
        ("ES384", Self::ES384),
        ("ES512", Self::ES512),
        ("PS256", Self::PS256),
        ("PS384", Self::PS384),
        ("PS512", Self::PS512),
    ];

    /// By its name in tokens.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn curve(self) -> Option<Curve> {
        match self {
            Self::ES256 => Some(Curve::P256),
            Self::ES384 => Some(Curve::P384),
            Self::ES512 => Some(Curve::P521),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "P-256" => Some(Self::P256),
            "P-384" => Some(Self::P384),
            "P-521" => Some(Self::P521),
            _ => None,
        }
    }

    /// The bytes of a coordinate.
    fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    fn verification(self) -> &'static signature::EcdsaVerificationAlgorithm {
        match self {
            Self::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::P384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::P521 => &signature::ECDSA_P521_SHA512_FIXED,
        }
    }
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    Ec(Curve, Vec<u8>),
}

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

/// The public keys of an issuer.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<Key>);

/// Why a key set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not a JSON object of the expected form.
    #[error("the key set cannot be decoded: {0}")]
    Undecodable(String),
    /// No key can verify a token.
    #[error("the key set has no RSA or EC signature key")]
    Empty,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<KeyDocument>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct KeyDocument {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    n: String,
    e: String,
    crv: String,
    x: String,
    y: String,
}

impl KeySet {
    /// Parses a key set of any number of keys; the caller bounds the document. Keys of other types and for encryption are
    /// skipped.
    ///
    /// # Errors
    /// If it cannot be decoded or has no key.
    pub fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        let document: Document =
            serde_json::from_slice(document).map_err(|error| KeySetError::Undecodable(error.to_string()))?;
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self(keys)) }
    }

    /// Whether a key may have signed a token with this `kid`.
    pub fn has(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.0.iter().any(|key| key.id.as_deref() == Some(id)))
    }

    /// Whether one of the keys made the signature. A token that names a key is verified only with that key. At most the
    /// first [`MAX_TRIED`] keys of the set that are suitable are tried.
    pub fn verifies(&self, id: Option<&str>, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let named = self.0.iter().filter(|key| id.is_none_or(|id| key.id.as_deref() == Some(id)));
        let suitable = named.filter(|key| key.algorithm.is_none_or(|own| own == algorithm));
        let verifications = suitable.filter_map(|key| key.verification(algorithm));
        verifications.take(MAX_TRIED).any(|verification| verification.accepts(message, signature))
    }
}

/// A key with the parameters of an algorithm of its type.
enum Verification<'a> {
    Rsa(RsaPublicKeyComponents<&'a [u8]>, &'static RsaParameters),
    Ec(&'a [u8], &'static signature::EcdsaVerificationAlgorithm),
}

impl Verification<'_> {
    fn accepts(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(key, parameters) => key.verify(parameters, message, signature).is_ok(),
            Self::Ec(point, algorithm) => UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok(),
        }
    }
}

impl Key {
    /// `None` for an algorithm of another type of key.
    fn verification(&self, algorithm: Algorithm) -> Option<Verification<'_>> {
        match (&self.material, algorithm.rsa(), algorithm.curve()) {
            (Material::Rsa { n, e }, Some(parameters), _) => {
                Some(Verification::Rsa(RsaPublicKeyComponents { n, e }, parameters))
            }
            (Material::Ec(curve, point), _, Some(required)) if *curve == required => {
                Some(Verification::Ec(point, curve.verification()))
            }
            _ => None,
        }
    }

    fn read(document: KeyDocument) -> Option<Self> {
        if document.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let algorithm = match document.alg.as_deref() {
            Some(name) => Some(Algorithm::parse(name)?),
            None => None,
        };
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let material = match document.kty.as_str() {
            "RSA" => {
                let (n, e) = (unpadded(decode(&document.n)?), unpadded(decode(&document.e)?));
                if !RSA_BYTES.contains(&n.len()) || e.is_empty() || e.len() > 8 {
                    return None;
                }
                Material::Rsa { n, e }
            }
            "EC" => {
                let curve = Curve::parse(&document.crv)?;
                let mut point = vec![4];
                for coordinate in [&document.x, &document.y] {
                    let bytes = unpadded(decode(coordinate)?);
                    let padding = curve.size().checked_sub(bytes.len())?;
                    point.resize(point.len() + padding, 0);
                    point.extend(bytes);
                }
                Material::Ec(curve, point)
            }
            _ => return None,
        };
        Some(Self { id: document.kid, algorithm, material })
    }
}

/// A big-endian number without leading zeros.
fn unpadded(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}
