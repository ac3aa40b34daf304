//! The signature under `cluster-info` by which a newcomer that knows a bootstrap token recognises its control plane.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A compact JWS (RFC 7515, HS256) without its payload. The key is the token's secret, its id the token's.
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
