//! The request to a member and the headers of its response, as data: path, headers, impersonated user.
//!
//! Not here: the credential. The connection to the member adds it, and no header of the client can replace it.

use apimachinery::{Status, StatusReason};
use apiserver::auth::authn::{AUTHENTICATED, UNAUTHENTICATED};
use apiserver::forwarding;
use http::header::{AUTHORIZATION, EXPECT, HOST, UPGRADE};
use http::{HeaderMap, HeaderValue, Uri};
use transport::Identity;

/// `apis`, group, version, `clusters`, NAME, `proxy`: the segments before the member's path.
const PREFIX_SEGMENTS: usize = 6;

#[derive(Debug)]
pub struct Outgoing {
    /// Path and query, relative to the member's API server.
    pub target: String,
    pub headers: HeaderMap,
    /// Whether the client requests an upgrade (exec, attach, port-forward).
    pub upgrade: bool,
}

/// # Errors
/// The request has no user, or its path or user cannot be sent to the member.
pub fn outgoing(uri: &Uri, headers: &HeaderMap, user: &Identity) -> Result<Outgoing, Status> {
    let path = member_path(uri.path())?;
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let upgrade = headers.contains_key(UPGRADE);
    let mut kept = forwarding::end_to_end(headers, upgrade);
    for name in [AUTHORIZATION, HOST, EXPECT] {
        kept.remove(name);
    }
    forwarding::remove_prefixed(&mut kept, &["impersonate-", "x-remote-"]);
    forwarding::remove_token_protocol(&mut kept);
    impersonate(&mut kept, user)?;
    Ok(Outgoing { target, headers: kept, upgrade })
}

/// The path after `/proxy`, with its escapes; `/` if it is empty.
fn member_path(path: &str) -> Result<&str, Status> {
    let mut rest = path;
    let mut segment = "";
    for _ in 0..PREFIX_SEGMENTS {
        rest = rest.trim_start_matches('/');
        let end = rest.find('/').unwrap_or(rest.len());
        (segment, rest) = rest.split_at(end);
    }
    if segment != "proxy" {
        // The legacy form `/watch/clusters/...` does not exist for proxies.
        return Err(Status::failure(StatusReason::NotFound, "the server could not find the requested resource"));
    }
    if rest.split('/').any(forwarding::is_dots) {
        // `..` would leave the path of the endpoint.
        return Err(Status::bad_request("the path of a proxied request must not hold the segments . and .."));
    }
    Ok(if rest.is_empty() { "/" } else { rest })
}

/// The member authorizes this user with its own rules. UID and extras are not sent: impersonating them needs rights
/// that `karmada-impersonator` does not have.
fn impersonate(headers: &mut HeaderMap, user: &Identity) -> Result<(), Status> {
    if user.user.is_empty() {
        return Err(super::failed("no user found for request"));
    }
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| Status::bad_request(format!("the name {text:?} cannot be sent to a member cluster")))
    };
    headers.insert("impersonate-user", value(&user.user)?);
    for group in user.groups.iter().filter(|group| !matches!(group.as_str(), AUTHENTICATED | UNAUTHENTICATED)) {
        headers.append("impersonate-group", value(group)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use http::HeaderName;

    use super::*;

    const BASE: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy";

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let parsed = lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        parsed.collect()
    }

    fn shown(headers: &HeaderMap) -> String {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("text"))).collect();
        lines.sort();
        lines.concat()
    }

    fn ann() -> Identity {
        let groups = ["system:masters", "system:authenticated", "dev"].map(str::to_owned).to_vec();
        Identity { user: "ann".into(), uid: "7".into(), groups, extra: vec![("k".into(), vec!["v".into()])] }
    }

    fn check_path(rest: &str, expected: &str) {
        let uri: Uri = format!("{BASE}{rest}").parse().expect("a URL");
        let target = outgoing(&uri, &HeaderMap::new(), &ann()).map(|out| out.target).map_err(|status| status.message);
        assert_eq!(target.unwrap_or_else(|message| message), expected, "{rest}");
    }

    #[test]
    fn the_members_path_follows_the_proxys() {
        check_path("", "/");
        check_path("/", "/");
        check_path("?a=b", "/?a=b");
        check_path("/api/v1/pods?watch=true&labelSelector=a%3Db", "/api/v1/pods?watch=true&labelSelector=a%3Db");
        check_path(
            "/api/v1/namespaces/a/services/x:80/proxy/a%2Fb//c/",
            "/api/v1/namespaces/a/services/x:80/proxy/a%2Fb//c/",
        );
        let refused = "the path of a proxied request must not hold the segments . and ..";
        check_path("/../../other", refused);
        check_path("/%2E%2e/other", refused);
        check_path("/.hidden/..x", "/.hidden/..x");
    }

    fn check_headers(received: &[(&'static str, &'static str)], expected: &Expect) {
        let uri: Uri = format!("{BASE}/api").parse().expect("a URL");
        expected.assert_eq(&shown(&outgoing(&uri, &headers(received), &ann()).expect("a request").headers));
    }

    #[test]
    fn the_user_is_impersonated_without_credentials() {
        let received = [
            ("accept", "application/json"),
            ("authorization", "Bearer secret"),
            ("impersonate-user", "root"),
            ("impersonate-extra-x", "y"),
            ("x-remote-user", "root"),
            ("host", "karmada"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
        ];
        check_headers(
            &received,
            &expect![[r#"
            accept: application/json
            content-length: 3
            impersonate-group: dev
            impersonate-group: system:masters
            impersonate-user: ann
        "#]],
        );
    }

    #[test]
    fn upgrades_lose_tokens_among_the_subprotocols() {
        let received = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
        ];
        check_headers(
            &received,
            &expect![[r#"
            connection: Upgrade
            impersonate-group: dev
            impersonate-group: system:masters
            impersonate-user: ann
            sec-websocket-protocol: v5.channel.k8s.io
            upgrade: websocket
        "#]],
        );
    }

    #[test]
    fn a_request_without_a_user_is_rejected() {
        let uri: Uri = format!("{BASE}/api").parse().expect("a URL");
        let refused = outgoing(&uri, &HeaderMap::new(), &Identity::default()).expect_err("no user");
        assert_eq!((refused.code, refused.message.as_str()), (500, "no user found for request"));
    }
}
