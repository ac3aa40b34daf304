//! The proxy to a server: that of the kubeconfig, or the one that the environment names, by Go's rules.

use std::net::IpAddr;

use http::Uri;

/// The proxy of the kubeconfig, or the one that the environment names for the server.
pub(super) fn proxy(
    configured: Option<&str>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let parse = |url: &str| url.parse().map_err(|error| format!("proxy URL {url:?}: {error}"));
    if let Some(url) = configured.filter(|url| !url.is_empty()) {
        return parse(url).map(Some);
    }
    let either = |upper: &str, lower: &str| {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        set(upper).or_else(|| set(lower))
    };
    let named = match server.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy"),
        _ => either("HTTPS_PROXY", "https_proxy"),
    };
    let Some(url) = named else { return Ok(None) };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let is_local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let exceptions = either("NO_PROXY", "no_proxy").unwrap_or_default();
    if is_local || exceptions.split(',').any(|entry| excepts(&entry.trim().to_ascii_lowercase(), &host, port)) {
        return Ok(None);
    }
    if url.contains("://") { parse(&url).map(Some) } else { parse(&format!("http://{url}")).map(Some) }
}

/// Whether an entry of `$NO_PROXY`, in lower case, excepts a host: `*`, a domain (`.a.b` and `*.a.b` without the host
/// `a.b` itself), an address or a CIDR; all but the last may have a port.
fn excepts(entry: &str, host: &str, port: u16) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    if let Some((network, bits)) = entry.split_once('/') {
        let (network, bits) = (network.parse().ok(), bits.parse().ok());
        return matches!((address, network, bits), (Some(address), Some(network), Some(bits)) if is_within(address, network, bits));
    }
    let (name, own) = match entry.rsplit_once(':') {
        Some((name, own)) if !name.contains(':') || name.ends_with(']') => (name, own.parse().ok()),
        _ => (entry, Some(port)),
    };
    let name = name.trim_matches(['[', ']']).trim_end_matches('.');
    if name.is_empty() || own != Some(port) {
        return false;
    }
    if let Some(address) = address {
        return name == "*" || name.parse() == Ok(address);
    }
    let domain = name.strip_prefix('*').unwrap_or(name);
    match domain.strip_prefix('.') {
        Some(_) => host.ends_with(domain),
        None => name == "*" || host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// Whether the first `bits` of both addresses are equal.
fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (difference, width) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits() ^ other.to_bits()), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits(), 128),
        _ => return false,
    };
    bits <= width && difference.checked_shr(width - bits).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_of_the_environment_are_chosen_as_in_go() {
        let check = |server: &str, configured: &str, environment: &[(&str, &str)], expected: Option<&str>| {
            let variable =
                |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let server = server.parse().expect("a URL");
            let found = proxy(Some(configured), &server, variable).expect("valid");
            assert_eq!(found, expected.map(|url| url.parse().expect("a URL")), "{server} {environment:?}");
        };
        let (https, http) = (("HTTPS_PROXY", "http://p:1"), ("HTTP_PROXY", "q:2"));
        let server = "https://m1.example.com:6443";
        check(server, "", &[], None);
        check(server, "socks5://s:3", &[https], Some("socks5://s:3"));
        check(server, "", &[https, http], Some("http://p:1"));
        check(server, "", &[("https_proxy", "http://p:1"), ("HTTPS_PROXY", "")], Some("http://p:1"));
        check("http://m1.example.com", "", &[https, http], Some("http://q:2"));
        check("http://m1.example.com", "", &[https], None);
        check(server, "", &[https, ("NO_PROXY", "other.com,example.com")], None);
        check(server, "", &[https, ("no_proxy", "*")], None);
        check(server, "", &[https, ("NO_PROXY", "p")], Some("http://p:1"));
        check(server, "", &[https, ("NO_PROXY", "*.example.com")], None);
        check(server, "", &[https, ("NO_PROXY", ".Example.com.")], None);
        // A domain with a dot has no host of its own, and names are compared by labels.
        for other in [".m1.example.com", "*.m1.example.com", "ample.com", "https://m1.example.com", "m*", "m1"] {
            check(server, "", &[https, ("NO_PROXY", other)], Some("http://p:1"));
        }
        check(server, "", &[https, ("NO_PROXY", "x,*")], None);
        check(server, "", &[https, ("NO_PROXY", "a, example.com:6443")], None);
        check(server, "", &[https, ("NO_PROXY", "example.com:443")], Some("http://p:1"));
        check("https://[fd00::1]", "", &[https, ("NO_PROXY", "[fd00::1]:443")], None);
        check("https://[fd00::1]", "", &[https, ("NO_PROXY", "fd00::2,fd00::/120")], None);
        check("https://10.0.0.7", "", &[https, ("NO_PROXY", "10.0.0.0/24")], None);
        check("https://10.0.1.7", "", &[https, ("NO_PROXY", "10.0.0.0/24")], Some("http://p:1"));
        // The variables never concern this machine, a kubeconfig does.
        for server in ["https://localhost:6443", "https://127.0.0.1:1", "https://[::1]:1"] {
            check(server, "", &[https], None);
            check(server, "http://p:1", &[], Some("http://p:1"));
        }
        for url in ["http://[", "a b"] {
            proxy(Some(url), &Uri::from_static("https://m1"), |_| None).expect_err(url);
        }
    }
}
