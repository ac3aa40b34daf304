//! Replies of other programs: webhooks, issuers of tokens, aggregated API servers.

use authentication::{Algorithm, Discovery, KeySet, Token};
use serde_json::Value;

use crate::json_documents;

const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"];

/// An object, and the reply of an admission webhook to it. Only a patch changes the object.
pub(crate) fn admission_review(input: &[u8]) {
    let object = json_documents(input).into_iter().next();
    let mut documents = serde_json::Deserializer::from_slice(input).into_iter::<Value>();
    let is_first = documents.next().is_some_and(|first| first.is_ok());
    let at = if is_first { documents.byte_offset() } else { 0 };
    for body in [input, input.get(at..).unwrap_or_default()] {
        if let Ok(Some(changed)) = admission::decided(body, "1", object.as_ref()) {
            assert!(changed.is_object(), "{changed}");
        }
    }
}

/// The decision of a webhook about a token: an identity has a name, and only audiences that were requested.
pub(crate) fn token_review(input: &[u8]) {
    let Ok(review) = serde_json::from_slice::<Value>(input) else { return };
    let requested_audiences = ["a".to_owned(), "b".to_owned()];
    let Some((identity, audiences)) =
        identity::reviewed_user(&review["status"], &requested_audiences, &requested_audiences[..1])
    else {
        return;
    };
    assert!(!identity.user.is_empty() && !audiences.is_empty());
    assert!(audiences.iter().all(|audience| requested_audiences.contains(audience)));
}

/// A discovery document, a key set, or a token; a random token has no valid signature.
pub(crate) fn oidc(input: &[u8]) {
    Discovery::parse(input, "https://issuer.example").ok();
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (keys, token) = (KeySet::parse(&input[..end]), std::str::from_utf8(input.get(end + 1..).unwrap_or_default()));
    KeySet::parse(input).ok();
    let Ok(token) = token else { return };
    let Ok(token) = Token::parse(token) else { return };
    let accepted: Vec<Algorithm> = ALGORITHMS.iter().filter_map(|name| Algorithm::parse(name)).collect();
    assert!(token.verify(&KeySet::default(), &accepted).is_err(), "nothing has signed it");
    if let Ok(keys) = keys {
        assert!(token.verify(&keys, &[]).is_err(), "no algorithm is accepted");
        token.verify(&keys, &accepted).ok();
    }
}

/// The discovery of an aggregated API server: its resources, and its OpenAPI documents.
pub(crate) fn api_service(input: &[u8]) {
    if let Ok(resources) = aggregation::listed_resources(input) {
        assert!(resources.is_array(), "{resources}");
    }
    if let Some(url) = aggregation::openapi_url(input, "g.example", "v1") {
        assert!(url.starts_with("/openapi/v3/apis/g.example/v1"), "{url}");
    }
    apiserver::documents::openapi::ExternalSpec::new(input.to_vec()).ok();
}
