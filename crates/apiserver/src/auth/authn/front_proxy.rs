//! Requests from another API server (front proxy): its client certificate identifies the proxy, headers name the user.
//! Without that certificate the headers are ignored.

use http::HeaderMap;
use transport::Identity;

use super::ClientAuthority;
use super::impersonation::percent_decode;
use crate::request::peer::Peer;

/// The front proxies and their headers (`--requestheader-*`).
pub struct FrontProxy {
    /// The authority of the proxies' client certificates.
    pub authority: ClientAuthority,
    /// Common names; empty are all that the authority signed.
    pub allowed_names: Vec<String>,
    /// In lower case, like all header names here; the first present one is used.
    pub user_headers: Vec<String>,
    /// The headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// The headers with the user's groups; all values count.
    pub group_headers: Vec<String>,
    /// The beginnings of headers with extra fields.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// With kube-apiserver's names of headers.
    pub fn new(authority: ClientAuthority, allowed_names: Vec<String>) -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            authority,
            allowed_names,
            user_headers: one("x-remote-user"),
            uid_headers: one("x-remote-uid"),
            group_headers: one("x-remote-group"),
            extra_prefixes: one("x-remote-extra-"),
        }
    }

    /// The user that the headers name; `None` if the peer is not a front proxy or names no user.
    pub(super) fn authenticate(&self, peer: &Peer, headers: &HeaderMap, seconds: i64) -> Option<Identity> {
        let proxy = self.authority.authenticate(peer, seconds)??;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&proxy.user) {
            return None;
        }
        let user = first(headers, &self.user_headers)?;
        Some(Identity {
            user,
            uid: first(headers, &self.uid_headers).unwrap_or_default(),
            groups: self.group_headers.iter().flat_map(|name| all(headers, name)).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> Vec<(String, Vec<String>)> {
        let mut extra: Vec<(String, Vec<String>)> = Vec::new();
        for name in headers.keys() {
            let Some(key) = self.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()))
            else {
                continue;
            };
            let key = percent_decode(key);
            extra.push((key, all(headers, name.as_str()).collect()));
        }
        extra.sort();
        extra
    }
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let values: Vec<_> = headers.get_all(name).iter().collect();
    // Names may have any letters: headers carry them in UTF-8.
    values.into_iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned))
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().flat_map(|name| all(headers, name)).find(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use pki::{Authority, KeyPairPem};
    use rustls::pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    use world::World;

    use super::*;

    fn peer(pair: &KeyPairPem) -> Peer {
        let certificates =
            CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(|it| it.expect("a certificate"));
        Peer::new("127.0.0.1:1".parse().expect("an address"), certificates)
    }

    #[test]
    fn headers_of_untrusted_peers_are_ignored() {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let seconds = world.now().as_second();
        let (authority, _) = Authority::generate("front-proxy-ca", &world).expect("an authority");
        let (other, _) = Authority::generate("other-ca", &world).expect("an authority");
        let client = |authority: &Authority, name: &str| authority.issue_client(name, &[], &world).expect("a pair");
        let believed = ClientAuthority::from_pem(authority.certificate()).expect("an authority");
        let proxy = FrontProxy::new(believed, vec!["front-proxy-client".to_owned()]);
        let mut headers = HeaderMap::new();
        let trusted_peer = peer(&client(&authority, "front-proxy-client"));
        assert_eq!(proxy.authenticate(&trusted_peer, &headers, seconds), None, "no user is named");
        for (name, value) in [
            ("x-remote-user", "ann"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.com%2fteam", "a"),
        ] {
            headers.append(name, value.parse().expect("a header"));
        }
        let ann = Identity {
            user: "ann".into(),
            uid: String::new(),
            groups: vec!["dev".into(), "ops".into()],
            extra: vec![("example.com/team".into(), vec!["a".into()])],
        };
        assert_eq!(proxy.authenticate(&trusted_peer, &headers, seconds), Some(ann));
        let mut other_headers = HeaderMap::new();
        for (name, value) in [("x-remote-user", "josé"), ("x-remote-group", "équipe"), ("x-remote-extra-team", "ä")]
        {
            other_headers.append(name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a header"));
        }
        let jose = proxy.authenticate(&trusted_peer, &other_headers, seconds).expect("a user");
        assert_eq!((jose.user.as_str(), jose.groups), ("josé", vec!["équipe".to_owned()]));
        assert_eq!(jose.extra, [("team".to_owned(), vec!["ä".to_owned()])]);
        for refused in [client(&authority, "other-client"), client(&other, "front-proxy-client")] {
            assert_eq!(proxy.authenticate(&peer(&refused), &headers, seconds), None);
        }
    }
}
