//! Bootstrap tokens `ID.SECRET`: their format, the signatures in `cluster-info`, and the pins by which a new cluster
//! verifies the certificate of its control plane.

use std::collections::BTreeMap;

use aws_lc_rs::{constant_time, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{Error, holder};

/// The type of the Secrets that hold tokens.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of these Secrets.
pub const SECRET_NAMESPACE: &str = "kube-system";
/// Their names are this and the id of the token.
pub const SECRET_NAME_PREFIX: &str = "bootstrap-token-";

/// The Secret of a bootstrap token as clients store it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TokenSecret {
    /// [`SECRET_TYPE`], if it is a token's.
    #[serde(rename = "type")]
    pub type_: String,
    data: Option<BTreeMap<String, String>>,
}

impl TokenSecret {
    /// A Secret with these fields.
    pub fn new<'a>(type_: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let data = fields.into_iter().map(|(field, text)| (field.to_owned(), STANDARD.encode(text))).collect();
        Self { type_: type_.to_owned(), data: Some(data) }
    }

    /// The text of a field; `None` if it is absent, empty or not UTF-8.
    pub fn text(&self, field: &str) -> Option<String> {
        let bytes = STANDARD.decode(self.data.as_ref()?.get(field)?).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// Whether the token may expire. One whose `expiration` cannot be parsed has expired.
    pub fn expires(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.contains_key("expiration"))
    }
}

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
/// 32 of 36 characters: each takes five bits of a random byte, and all have the same probability.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The id and the secret of a token; `None` if the text is not a token.
pub fn split(token: &str) -> Option<(&str, &str)> {
    token.split_once('.').filter(|(id, secret)| is_id(id) && is_part(secret, SECRET_LENGTH))
}

/// Whether the text is the id of a token.
pub fn is_id(text: &str) -> bool {
    is_part(text, ID_LENGTH)
}

fn is_part(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A new token from the cryptographic library's random numbers.
///
/// # Errors
/// The library has no random numbers.
pub fn generate() -> Result<String, Error> {
    let mut bytes = [0; ID_LENGTH + SECRET_LENGTH];
    rand::fill(&mut bytes).map_err(|_| Error::Random)?;
    let mut text: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect();
    text.insert(ID_LENGTH, '.');
    Ok(text)
}

/// Compares secrets in constant time.
pub fn is_same(one: &str, other: &str) -> bool {
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Whether `signature` is the [`detached_signature`] of the content with this token.
pub fn is_signed(token_id: &str, token_secret: &str, content: &[u8], signature: &str) -> bool {
    is_same(&detached_signature(token_id, token_secret, content), signature)
}

/// The pin of a certificate (PEM): `sha256:` and the hash of its public key.
///
/// # Errors
/// The certificate cannot be parsed.
pub fn pin(certificate: &str) -> Result<String, Error> {
    let der = holder::pem_to_der(certificate)?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| Error::ParseCertificate(error.to_string()))?;
    Ok(format!("sha256:{}", hex::encode(Sha256::digest(parsed.public_key().raw))))
}

/// The certificates of a bundle (PEM), each as PEM.
pub fn certificates(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let begins = |part: &&str| part.contains("-----BEGIN CERTIFICATE-----");
    bundle.split_inclusive(END).filter(begins).map(|part| format!("{}\n", part.trim())).collect()
}

/// A compact JWS (RFC 7515, HS256) without its payload. The key is the token's secret, the key id the token's id.
pub fn detached_signature(token_id: &str, token_secret: &str, content: &[u8]) -> String {
    let header = URL_SAFE_NO_PAD.encode(serde_json::json!({"alg": "HS256", "kid": token_id}).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, token_secret.as_bytes());
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_a_form() {
        for (text, expected) in [
            ("abcdef.0123456789abcdef", Some(("abcdef", "0123456789abcdef"))),
            ("abcdef", None),
            ("abcde.0123456789abcdef", None),
            ("abcdef.0123456789abcde", None),
            ("ABCDEF.0123456789abcdef", None),
            ("abcdef.0123456789abcdef.", None),
            ("abcd\u{e9}.0123456789abcdef", None),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
        let token = generate().expect("random numbers");
        assert!(split(&token).is_some(), "{token}");
        assert_ne!(token, generate().expect("random numbers"));
    }

    #[test]
    fn invalid_signatures_are_rejected() {
        let (id, secret, content) = ("abcdef", "0123456789abcdef", b"kubeconfig".as_slice());
        let signature = detached_signature(id, secret, content);
        assert!(is_signed(id, secret, content, &signature));
        assert!(!is_signed(id, "0123456789abcdeX", content, &signature));
        assert!(!is_signed("ghijkl", secret, content, &signature));
        assert!(!is_signed(id, secret, b"another", &signature));
        assert!(!is_signed(id, secret, content, ""));
    }

    #[test]
    fn the_pin_is_that_of_the_public_key() {
        let world = world::World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 1);
        let (authority, _) = crate::Authority::generate("karmada", &world).expect("an authority");
        let (other, _) = crate::Authority::generate("karmada", &world).expect("an authority");
        let bundle = format!("# mine\n{}{}", authority.certificate(), other.certificate());
        let pins: Vec<String> = certificates(&bundle).iter().map(|pem| pin(pem).expect("a pin")).collect();
        assert_eq!(pins[0], pin(authority.certificate()).expect("a pin"));
        assert!(pins.len() == 2 && pins[0] != pins[1]);
        assert!(pins.iter().all(|pin| pin.len() == 7 + 64 && pin.starts_with("sha256:")), "{pins:?}");
    }

    #[test]
    fn the_signature_is_that_of_the_whole_token() {
        let signature = detached_signature("abcdef", "0123456789abcdef", b"{\"exp\":4102444800}");
        let (header, tag) = signature.split_once("..").expect("two parts");
        assert_eq!(URL_SAFE_NO_PAD.decode(header).expect("base64"), br#"{"alg":"HS256","kid":"abcdef"}"#);
        let whole = format!("{header}.{}.{tag}", URL_SAFE_NO_PAD.encode("{\"exp\":4102444800}"));
        let key = jsonwebtoken::DecodingKey::from_secret(b"0123456789abcdef");
        let rules = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256);
        jsonwebtoken::decode::<serde_json::Value>(&whole, &key, &rules).expect("another implementation verifies it");
    }
}
