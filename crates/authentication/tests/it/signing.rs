//! An issuer's keys and tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RsaEncoding,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The header and the payload of a token, without signature.
pub fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()))
}

pub struct Ec {
    key: EcdsaKeyPair,
    curve: &'static str,
    algorithm: &'static str,
}

impl Ec {
    pub fn new(curve: &'static str) -> Self {
        let (algorithm, signing): (_, &EcdsaSigningAlgorithm) = match curve {
            "P-256" => ("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING),
            "P-384" => ("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => ("ES512", &ECDSA_P521_SHA512_FIXED_SIGNING),
        };
        Self { key: EcdsaKeyPair::generate(signing).expect("a key"), curve, algorithm }
    }

    pub fn jwk(&self, id: &str) -> Value {
        let point = &self.key.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({"kty": "EC", "kid": id, "crv": self.curve, "x": encoded(x), "y": encoded(y)})
    }

    pub fn sign(&self, id: Option<&str>, claims: &Value) -> String {
        let mut header = json!({ "alg": self.algorithm });
        if let Some(id) = id {
            header["kid"] = id.into();
        }
        self.sign_with(&header, claims)
    }

    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", encoded(signature))
    }
}

pub struct Rsa(RsaKey);

impl Rsa {
    pub fn new() -> Self {
        Self(RsaKey::generate(KeySize::Rsa2048).expect("a key"))
    }

    pub fn numbers(&self) -> (Vec<u8>, Vec<u8>) {
        let public = self.0.public_key();
        let (n, e) = (public.modulus(), public.exponent());
        (n.big_endian_without_leading_zero().to_vec(), e.big_endian_without_leading_zero().to_vec())
    }

    pub fn jwk(&self, id: &str) -> Value {
        let (n, e) = self.numbers();
        json!({"kty": "RSA", "kid": id, "use": "sig", "n": encoded(n), "e": encoded(e)})
    }

    pub fn sign(&self, algorithm: &str, id: &str, claims: &Value) -> String {
        let encoding: &'static dyn RsaEncoding = match algorithm {
            "RS256" => &signature::RSA_PKCS1_SHA256,
            "RS384" => &signature::RSA_PKCS1_SHA384,
            "RS512" => &signature::RSA_PKCS1_SHA512,
            "PS256" => &signature::RSA_PSS_SHA256,
            "PS384" => &signature::RSA_PSS_SHA384,
            _ => &signature::RSA_PSS_SHA512,
        };
        let message = message(&json!({"alg": algorithm, "kid": id}), claims);
        let mut out = vec![0; self.0.public_modulus_len()];
        self.0.sign(encoding, &SystemRandom::new(), message.as_bytes(), &mut out).expect("a signature");
        format!("{message}.{}", encoded(out))
    }
}
