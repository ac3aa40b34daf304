//! Bearer tokens of WebSocket clients that cannot set headers, such as browsers: a subprotocol contains the token.
//! Another subprotocol must be offered, too, because the server never selects that of the token.

use apimachinery::Status;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

use super::unauthorized;
use crate::forwarding::TOKEN_PROTOCOL;

/// The token among the subprotocols of a WebSocket request, if there is one.
///
/// # Errors
/// 401 for several tokens, one that is not UTF-8 in base64url, and one without another subprotocol.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<String>, Status> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || !is_websocket(headers) {
        return Ok(None);
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let (mut token, mut has_other) = (None, false);
    for protocol in values.flat_map(|value| value.split(',').map(str::trim)) {
        let Some(encoded) = protocol.strip_prefix(TOKEN_PROTOCOL) else {
            has_other = true;
            continue;
        };
        let decoded = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if token.replace(decoded.ok_or_else(unauthorized)?).is_some() {
            return Err(unauthorized());
        }
    }
    match token.filter(|token| !token.is_empty()) {
        Some(_) if !has_other => Err(unauthorized()),
        token => Ok(token),
    }
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let has = |name, part: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|it| it.trim().eq_ignore_ascii_case(part))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_subprotocols() {
        let with = |token: &str| format!("{TOKEN_PROTOCOL}{token}");
        for (protocols, upgrade, expected) in [
            (format!("v5.channel.k8s.io, {}", with("dG9rZW4")), "WebSocket", Ok(Some("token"))),
            (format!("{},v4.channel.k8s.io", with("dG9rZW4")), "websocket", Ok(Some("token"))),
            (format!("{},v4.channel.k8s.io", with("dG9rZW4")), "SPDY/3.1", Ok(None)),
            ("v5.channel.k8s.io".to_owned(), "websocket", Ok(None)),
            (format!("a, {}", with("")), "websocket", Ok(None)),
            (with("dG9rZW4"), "websocket", Err(())),
            (format!("a, {}, {}", with("dG9rZW4"), with("b3RoZXI")), "websocket", Err(())),
            (format!("a, {}", with("!")), "websocket", Err(())),
            (format!("a, {}", with("dG9rZW4=")), "websocket", Err(())),
            (format!("a, {}", with("_w")), "websocket", Err(())),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().expect("a header"));
            headers.insert(UPGRADE, upgrade.parse().expect("a header"));
            headers.insert(CONNECTION, "keep-alive, Upgrade".parse().expect("a header"));
            let found = token(&headers).map_err(|status| assert_eq!(status.code, 401));
            assert_eq!(found, expected.map(|token| token.map(str::to_owned)), "{protocols} {upgrade}");
        }
    }
}
