//! The credentials that webhooks receive, by their host (the `kubeConfigFile` of an AdmissionConfiguration).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{ClientIdentity, Endpoint};

/// The port of an HTTPS server that is not named.
const HTTPS: &str = ":443";

/// A user of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// The client certificate with its key.
    pub identity: Option<Arc<ClientIdentity>>,
    /// The bearer token.
    pub token: Option<Token>,
}

/// A bearer token, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Credentials by the host of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// By name: `host:port`, `host` for port 443, `*.domain`, or `*`.
    pub named: BTreeMap<String, Credential>,
    /// For all other hosts.
    pub others: Credential,
}

impl Credentials {
    /// The credentials for `HOST:PORT`: those of exactly this name, then those of the longest `*.` pattern, then those
    /// of `*`.
    fn of(&self, host: &str) -> &Credential {
        let names = [Some(host), host.strip_suffix(HTTPS)].into_iter().flatten();
        let exact = names.clone().find_map(|name| self.named.get(name));
        let domain = || {
            let dots = host.match_indices('.').map(|(at, _)| at);
            let patterns = dots.flat_map(|at| names.clone().map(move |name| format!("*{}", &name[at..])));
            patterns.into_iter().find_map(|pattern| self.named.get(&pattern))
        };
        exact.or_else(domain).or_else(|| self.named.get("*")).unwrap_or(&self.others)
    }

    /// Adds the credentials for a host to an endpoint.
    pub(super) fn add_to(&self, endpoint: &mut Endpoint, host: &str) {
        let Credential { identity, token } = self.of(host).clone();
        endpoint.identity = identity;
        endpoint.token = token.map(|token| token.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_the_credentials_of_the_most_specific_name() {
        let of = |name: &str| Credential { token: Some(Token(name.to_owned())), ..Credential::default() };
        let names = ["a.ns.svc", "b.ns.svc:8443", "*.ns.svc", "*.example.org:9443", "*.org"];
        let mut credentials = Credentials {
            named: names.iter().map(|name| ((*name).to_owned(), of(name))).collect(),
            others: of("others"),
        };
        for (host, expected) in [
            ("a.ns.svc:443", "a.ns.svc"),
            ("a.ns.svc:8443", "others"),
            ("b.ns.svc:8443", "b.ns.svc:8443"),
            ("b.ns.svc:443", "*.ns.svc"),
            ("x.y.ns.svc:443", "*.ns.svc"),
            ("ns.svc:443", "others"),
            ("w.example.org:9443", "*.example.org:9443"),
            ("w.example.org:443", "*.org"),
            ("[::1]:443", "others"),
            ("", "others"),
        ] {
            assert_eq!(credentials.of(host), &of(expected), "{host}");
        }
        credentials.named.insert("*".to_owned(), of("*"));
        assert_eq!(credentials.of("unknown:1"), &of("*"));
    }

    #[test]
    fn no_token_is_shown() {
        let secret = Credential { token: Some(Token("secret".into())), ..Credential::default() };
        assert!(!format!("{secret:?}").contains("secret"));
    }
}
