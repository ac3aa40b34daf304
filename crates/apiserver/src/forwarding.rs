//! Shared code of proxies to other servers: the forwarded headers, and upgraded connections.

mod deadline;
mod upgrade;

use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub use deadline::complete_by;
pub use upgrade::{Joins, Permit, join};

/// Headers that concern one connection only (RFC 9110, 7.6.1), besides those that `Connection` names.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// WebSocket clients that cannot set headers send their bearer token as a subprotocol.
pub(crate) const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The end-to-end headers of another server's response. Cross-origin rules are those of our server.
pub fn answer_headers(code: StatusCode, headers: &HeaderMap) -> HeaderMap {
    let mut kept = end_to_end(headers, code == StatusCode::SWITCHING_PROTOCOLS);
    remove_prefixed(&mut kept, &["access-control-"]);
    kept
}

/// Whether a segment of a path is `.` or `..`, also escaped: it would leave the path that was authorized.
pub fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// The headers without those of a single connection. `upgrade` keeps the request for an upgrade.
pub fn end_to_end(headers: &HeaderMap, upgrade: bool) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !HOP_BY_HOP.contains(&name.as_str()) && !named.iter().any(|other| other == name.as_str()) {
            kept.append(name.clone(), value.clone());
        }
    }
    if let (true, Some(protocol)) = (upgrade, headers.get(UPGRADE)) {
        kept.insert(UPGRADE, protocol.clone());
        kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    kept
}

/// Removes headers by the beginnings of their names. Servers behind CGI and WSGI do not distinguish `_` from `-`.
pub fn remove_prefixed(headers: &mut HeaderMap, prefixes: &[&str]) {
    let begins = |name: &str, prefix: &str| {
        let mut dashed = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
        prefix.bytes().all(|byte| dashed.next() == Some(byte))
    };
    let matches = |name: &&HeaderName| prefixes.iter().any(|prefix| begins(name.as_str(), prefix));
    let names: Vec<HeaderName> = headers.keys().filter(matches).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Removes bearer tokens among the subprotocols of WebSocket.
pub fn remove_token_protocol(headers: &mut HeaderMap) {
    // Whatever else is in a value, it must not hide a token.
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .flat_map(|value| value.split(',').map(|protocol| protocol.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    if !offered.iter().any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        return;
    }
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    let rest: Vec<String> = offered.into_iter().filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
    if let Ok(value) = HeaderValue::from_str(&rest.join(", "))
        && !rest.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let input = [
            ("content-type", "application/json"),
            ("access-control-allow-origin", "*"),
            ("connection", "close"),
            ("upgrade", "h2c"),
        ];
        let headers: HeaderMap = input
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let kept = answer_headers(StatusCode::OK, &headers);
        assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["content-type"]);
        let kept = answer_headers(StatusCode::SWITCHING_PROTOCOLS, &headers);
        assert_eq!(kept.get("upgrade").map(HeaderValue::as_bytes), Some(&b"h2c"[..]));
    }

    #[test]
    fn prefixes_are_found_behind_underscores() {
        let mut headers = HeaderMap::new();
        for name in
            ["x-remote-user", "x_remote_user", "x-remote_extra-a", "X_Remote-Group", "x-remot", "xx-remote-user"]
        {
            headers.append(HeaderName::from_bytes(name.as_bytes()).expect("a name"), HeaderValue::from_static("a"));
        }
        remove_prefixed(&mut headers, &["impersonate-", "x-remote-"]);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-remot", "xx-remote-user"]);
    }

    #[test]
    fn a_token_is_removed_from_among_any_subprotocols() {
        for (input, left) in [
            (&b"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2Vj"[..], Some("v4.channel.k8s.io")),
            (b"\xe4, base64url.bearer.authorization.k8s.io.c2Vj, v4.channel.k8s.io", None),
            (b"base64url.bearer.authorization.k8s.io.c2Vj", None),
            (b"v5.channel.k8s.io", Some("v5.channel.k8s.io")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_bytes(input).expect("a value"));
            remove_token_protocol(&mut headers);
            let kept = headers.get(SEC_WEBSOCKET_PROTOCOL).map(|value| String::from_utf8_lossy(value.as_bytes()));
            let has_token = kept.as_ref().is_some_and(|kept| kept.contains(TOKEN_PROTOCOL));
            assert!(!has_token, "{kept:?}");
            assert!(left.is_none() || kept.as_deref() == left, "{kept:?}");
        }
    }

    #[test]
    fn dots_are_found_behind_escapes() {
        for (segment, expected) in [(".", true), ("%2E%2e", true), (".a", false), ("...", false), ("", false)] {
            assert_eq!(is_dots(segment), expected, "{segment}");
        }
    }
}
