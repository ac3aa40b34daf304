//! The request to another server as data: its target, and headers that name the user to a server that trusts this one's
//! certificate.

use apimachinery::Status;
use apiserver::forwarding;
use http::header::{AUTHORIZATION, EXPECT, HOST, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use transport::Identity;

/// The user as whom this server itself sends requests: checks, discovery, OpenAPI.
pub fn own_identity() -> Identity {
    let masters = vec!["system:masters".to_owned()];
    Identity { user: "system:kube-aggregator".to_owned(), groups: masters, ..Identity::default() }
}

/// Path and query of the request; they stay as they are.
///
/// # Errors
/// 400 for a path that another server may read as another one than was authorized.
pub fn target(uri: &Uri) -> Result<&str, Status> {
    let inner = uri.path().trim_start_matches('/').trim_end_matches('/');
    if inner.split('/').any(|segment| segment.is_empty() || forwarding::is_dots(segment)) {
        return Err(Status::bad_request(
            "the path of a request to an aggregated API server must not have empty segments, . and ..",
        ));
    }
    Ok(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str))
}

/// The headers to send: those of the client without its credentials, and the user. `address` is the client's.
///
/// # Errors
/// 400 for a user whose name cannot be sent.
pub fn headers(received: &HeaderMap, user: &Identity, address: Option<&str>) -> Result<HeaderMap, Status> {
    let mut kept = forwarding::end_to_end(received, received.contains_key(UPGRADE));
    for name in [AUTHORIZATION, HOST, EXPECT] {
        kept.remove(name);
    }
    forwarding::remove_prefixed(&mut kept, &["impersonate-", "x-remote-"]);
    forwarding::remove_token_protocol(&mut kept);
    identify(&mut kept, user)?;
    if let Some(address) = address {
        let before: Vec<&str> =
            kept.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
        let all = before.into_iter().chain([address]).collect::<Vec<_>>().join(", ");
        if let Ok(value) = HeaderValue::from_str(&all) {
            kept.insert("x-forwarded-for", value);
        }
    }
    Ok(kept)
}

/// Names the user.
///
/// # Errors
/// 400 for a user whose name cannot be sent.
pub fn identify(headers: &mut HeaderMap, user: &Identity) -> Result<(), Status> {
    let value = |text: &str| {
        let refused =
            |_| Status::bad_request(format!("{text:?} cannot be sent to an aggregated API server in a header"));
        HeaderValue::from_bytes(text.as_bytes()).map_err(refused)
    };
    headers.insert("x-remote-user", value(&user.user)?);
    if !user.uid.is_empty() {
        headers.insert("x-remote-uid", value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append("x-remote-group", value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escaped(key));
        let name: HeaderName =
            name.parse().map_err(|_| Status::bad_request(format!("the extra field {key:?} cannot be sent")))?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(())
}

/// What is not allowed in the name of a header (RFC 9110).
const OUTSIDE_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The key of an extra field as part of a header's name.
fn escaped(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, OUTSIDE_NAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_user_replaces_all_credentials() {
        let mut received = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scope", "all"),
            ("impersonate-user", "root"),
            ("accept", "application/json"),
            ("connection", "Upgrade, x-hop"),
            ("x-hop", "1"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("x-forwarded-for", "192.0.2.1"),
            ("host", "karmada"),
        ] {
            received.append(name, HeaderValue::from_static(value));
        }
        let user = Identity {
            user: "ann".into(),
            uid: "7".into(),
            groups: vec!["dev".into(), "system:authenticated".into()],
            extra: vec![("example.com/Team".into(), vec!["ä".into(), "b".into()])],
        };
        let headers = headers(&received, &user, Some("192.0.2.9")).expect("headers");
        let expected = [
            "accept: application/json",
            "connection: Upgrade",
            "sec-websocket-protocol: v4.channel.k8s.io",
            "upgrade: websocket",
            "x-forwarded-for: 192.0.2.1, 192.0.2.9",
            "x-remote-extra-example.com%2fteam: b",
            "x-remote-extra-example.com%2fteam: ä",
            "x-remote-group: dev",
            "x-remote-group: system:authenticated",
            "x-remote-uid: 7",
            "x-remote-user: ann",
        ];
        assert_eq!(shown(&headers), expected);
        let multiline = Identity { user: "a\nb".into(), ..Identity::default() };
        let refused = super::headers(&received, &multiline, None).expect_err("not a header");
        assert_eq!(refused.code, 400);
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for (path, is_sent) in [
            ("/apis/g/v1", true),
            ("/apis/g/v1/", true),
            ("/apis/g/v1/xs?watch=1", true),
            ("/apis/g/v1/../../../api/v1/secrets", false),
            ("/apis/g/v1/%2e%2E/xs", false),
            ("/apis/g/v1//xs", false),
        ] {
            let uri: Uri = path.parse().expect("a URL");
            assert_eq!(target(&uri).ok(), is_sent.then_some(path), "{path}");
        }
    }
}
