//! The addresses of an API server: where it listens, the names in its certificate, the URL in its kubeconfig, the
//! address in `default/kubernetes`. Values and rules; `sockets` opens and reads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use apimachinery::names::is_dns1123_subdomain;
use apiserver::auth::authn::ClientAuthority;
use apiserver::bootstrap::objects::Front;
use apiserver::serve::Protocol;
use kubernetes_api::services::Ranges;

use crate::front_proxies::{self, FrontProxies};
use crate::serving::OwnCertificate;
use crate::serving_names::{self, NamedFiles};
use crate::sockets::Machine;

/// The addresses of a server.
#[derive(Clone, Debug)]
pub struct Listen {
    pub bind_address: IpAddr,
    /// 0 takes any free port.
    pub secure_port: u16,
    /// `--advertise-address`: where other machines reach the server, if not at `bind_address`.
    pub advertise: Option<Advertised>,
    /// `--external-hostname`: the host in the URL that clients get.
    pub external: Option<Host>,
    /// `--tls-san`: further names and addresses for the certificate.
    pub names: Vec<String>,
    /// The operator's certificate, served instead of an issued one.
    pub certificate: Option<OwnCertificate>,
    /// `--client-ca-file`: further authorities of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// `--tls-min-version` and `--tls-cipher-suites`.
    pub protocol: Protocol,
    /// `--tls-sni-cert-key`.
    pub named: Vec<NamedFiles>,
    /// `--requestheader-client-ca-file` and the related flags.
    pub front_proxies: Option<FrontProxies>,
    /// The kubeconfig's file name in the data directory.
    pub kubeconfig: String,
    /// The name of the cluster, user and context in it.
    pub cluster: String,
    /// Known once the server has its port.
    pub machine: Machine,
}

/// `--advertise-address`: an address, and the port there if it is not the server's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    pub address: IpAddr,
    pub port: Option<u16>,
}

/// `--external-hostname`: a name or an address, and the port there if it is not the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub port: Option<u16>,
}

impl Listen {
    /// The kubeconfig is `CLUSTER.config`.
    pub fn new(bind_address: IpAddr, secure_port: u16, cluster: &str) -> Self {
        Self {
            bind_address,
            secure_port,
            advertise: None,
            external: None,
            names: Vec::new(),
            certificate: None,
            client_ca_file: None,
            protocol: Protocol::default(),
            named: Vec::new(),
            front_proxies: None,
            kubeconfig: format!("{cluster}.config"),
            cluster: cluster.to_owned(),
            machine: Machine::default(),
        }
    }

    /// The authorities in `--client-ca-file`, in PEM; empty without one.
    ///
    /// # Errors
    /// A file that cannot be read or has no certificate.
    pub fn client_authorities(&self) -> anyhow::Result<String> {
        let Some(file) = &self.client_ca_file else { return Ok(String::new()) };
        let attempt = || format!("--client-ca-file: reading {}", file.display());
        let text = std::fs::read_to_string(file).with_context(attempt)?;
        ClientAuthority::from_pem(&text).with_context(attempt)?;
        Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
    }

    /// Accepts the users that front proxies name.
    ///
    /// # Errors
    /// As [`FrontProxies::open`].
    pub fn trust_front_proxies(&mut self, settings: Option<front_proxies::Settings>) -> anyhow::Result<()> {
        let clients = self.client_authorities()?;
        self.front_proxies = settings.map(|settings| FrontProxies::open(settings, &clients)).transpose()?;
        Ok(())
    }

    /// The names and addresses in an issued certificate besides those of every API server.
    pub fn certified(&self) -> Vec<String> {
        let mut names = vec!["localhost".into(), "127.0.0.1".into(), local(self.bind_address).to_string()];
        names.extend(self.advertise.map(|it| it.address.to_string()));
        names.extend(self.external.as_ref().map(|host| host.name.clone()));
        // Other machines cannot reach a loopback address, under any name of this machine.
        if !self.bind_address.is_loopback() {
            names.extend(self.machine.host_name.clone());
        }
        if self.bind_address.is_unspecified() {
            names.extend(self.machine.addresses.iter().map(ToString::to_string));
        }
        names.extend(self.names.iter().cloned());
        names
    }

    /// Host and port in the URL that clients get.
    fn host(&self) -> (String, u16) {
        let advertised = self.advertise.map(|it| it.address.to_string());
        let external = self.external.as_ref().map(|host| host.name.clone());
        let host = external.or(advertised).unwrap_or_else(|| local(self.bind_address).to_string());
        let port = self.external.as_ref().and_then(|host| host.port);
        (host, port.or_else(|| self.advertise?.port).unwrap_or(self.secure_port))
    }

    /// The URL that clients get: `--external-hostname` before `--advertise-address` before the address it listens on.
    pub fn url(&self) -> String {
        let (host, port) = self.host();
        match host.parse::<IpAddr>() {
            Ok(address) => format!("https://{}", SocketAddr::new(address, port)),
            Err(_) => format!("https://{host}:{port}"),
        }
    }

    /// The name that clients verify in the certificate, where it does not cover the host of [`Self::url`].
    pub fn server_name(&self) -> Option<String> {
        let own = &self.certificate.as_ref()?.names;
        if own.covers(&self.host().0) { None } else { own.server_name() }
    }

    /// The address in `default/kubernetes`, which other machines can reach.
    pub fn front(&self, services: &Ranges) -> Front {
        let bound = Some(self.bind_address).filter(|ip| !ip.is_unspecified());
        let known = || self.machine.addresses.first().copied();
        let address = self.advertise.map(|it| it.address).or(bound).or_else(known).filter(|ip| !ip.is_loopback());
        let port = self.advertise.and_then(|it| it.port).unwrap_or(self.secure_port);
        let port = if port == 0 { Front::USUAL_PORT } else { port };
        Front { cluster_ip: services.primary.first(), address, port }
    }

    /// # Errors
    /// For the first name of `--tls-san` that the operator's certificate lacks, because it cannot be added there.
    pub fn check(&self) -> anyhow::Result<()> {
        self.client_authorities()?;
        serving_names::read(&self.named)?;
        let Some(own) = &self.certificate else { return Ok(()) };
        if let Some(missing) = self.names.iter().find(|name| !own.names.covers(name)) {
            let present = own.names.names().join(", ");
            anyhow::bail!(
                "--tls-san: the certificate in --tls-cert-file covers {present}, not {missing}; have it issued with that \
                 name, or leave the name out"
            );
        }
        Ok(())
    }
}

/// The address clients on this machine use for a server bound to `address`.
fn local(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// A value of `--tls-san`: a DNS name, also `*.` before one, or an IP address.
///
/// # Errors
/// The reason why it is neither.
pub fn subject_name(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.to_ascii_lowercase();
    if text.is_empty() {
        return Err("must not be empty; give a DNS name or an IP address".to_owned());
    }
    if is_dns1123_subdomain(name.strip_prefix("*.").unwrap_or(&name)).is_empty() {
        return Ok(name);
    }
    Err("must be a DNS name or an IP address, without scheme, port and spaces".to_owned())
}

/// Splits off a port behind the last colon, if there is one; `None` if it is not a port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let Some((host, port)) = text.rsplit_once(':') else { return Some((text, None)) };
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some((host, Some(port)))
}

impl FromStr for Advertised {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = text.parse::<SocketAddr>().map(|it| (it.ip(), Some(it.port())));
        let parsed = whole.or_else(|_| text.parse().map(|address| (address, None)));
        let (address, port) = parsed.map_err(|_| {
            "must be an IP address, such as 203.0.113.10, 203.0.113.10:443 or [2001:db8::1]:443; a DNS name goes into \
             --external-hostname"
                .to_owned()
        })?;
        if address.is_unspecified() || address.is_multicast() || port == Some(0) {
            return Err("clients cannot connect to this address; give one at which they reach the server".to_owned());
        }
        Ok(Self { address, port })
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = match text.parse::<SocketAddr>() {
            Ok(whole) => Some((whole.ip().to_string(), Some(whole.port()))),
            Err(_) if text.parse::<IpAddr>().is_ok() => Some((text.to_owned(), None)),
            Err(_) => split_port(text).map(|(name, port)| (name.to_owned(), port)),
        };
        let host = split.and_then(|(name, port)| Some(Self { name: subject_name(&name).ok()?, port }));
        host.filter(|host| !host.name.starts_with('*'))
            .ok_or_else(|| "must be a DNS name or an IP address, with or without :PORT; no scheme, no path".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_flags() {
        let shown = |it: Result<String, String>| it.unwrap_or_else(|error| format!("error: {error}"));
        let names = "error: must be a DNS name or an IP address, without scheme, port and spaces";
        for (text, expected) in [
            ("api.example.org", "api.example.org"),
            ("API.Example.org", "api.example.org"),
            ("*.example.org", "*.example.org"),
            ("203.0.113.10", "203.0.113.10"),
            ("2001:db8:0::1", "2001:db8::1"),
            ("", "error: must not be empty; give a DNS name or an IP address"),
            ("a b", names),
            (" ", names),
            ("https://a", names),
            ("a:443", names),
            ("a.*.b", names),
            ("*", names),
            ("ä.example.org", names),
        ] {
            assert_eq!(shown(subject_name(text)), expected, "{text:?}");
        }
        for (text, expected) in [
            ("203.0.113.10", Some(("203.0.113.10", None))),
            ("203.0.113.10:443", Some(("203.0.113.10", Some(443)))),
            ("[2001:db8::1]:443", Some(("2001:db8::1", Some(443)))),
            ("2001:db8::1", Some(("2001:db8::1", None))),
            ("api.example.org", None),
            ("0.0.0.0", None),
            ("::", None),
            ("224.0.0.1", None),
            ("203.0.113.10:0", None),
            ("", None),
        ] {
            let found = text.parse::<Advertised>().ok().map(|it| (it.address.to_string(), it.port));
            assert_eq!(found.as_ref().map(|(ip, port)| (ip.as_str(), *port)), expected, "{text:?}");
        }
        for (text, expected) in [
            ("api.example.org", Some(("api.example.org", None))),
            ("API.example.org:443", Some(("api.example.org", Some(443)))),
            ("203.0.113.10", Some(("203.0.113.10", None))),
            ("203.0.113.10:443", Some(("203.0.113.10", Some(443)))),
            ("2001:db8::1", Some(("2001:db8::1", None))),
            ("https://api.example.org", None),
            ("api.example.org/x", None),
            ("api.example.org:", None),
            ("api.example.org:0", None),
            ("*.example.org", None),
            ("", None),
            ("a b", None),
        ] {
            let found = text.parse::<Host>().ok().map(|it| (it.name, it.port));
            assert_eq!(found.as_ref().map(|(name, port)| (name.as_str(), *port)), expected, "{text:?}");
        }
    }

    fn listen(bind: &str, advertise: &str, external: &str) -> Listen {
        let mut listen = Listen::new(bind.parse().expect("an address"), 5443, "karmada-apiserver");
        listen.advertise = (!advertise.is_empty()).then(|| advertise.parse().expect("an address"));
        listen.external = (!external.is_empty()).then(|| external.parse().expect("a host"));
        listen.machine =
            Machine { host_name: Some("vm".into()), addresses: vec!["192.0.2.2".parse().expect("an address")] };
        listen
    }

    #[test]
    fn flags_determine_urls_endpoints_and_names() {
        for (bind, advertise, external, url, endpoint, names) in [
            ("127.0.0.1", "", "", "https://127.0.0.1:5443", "- 5443", "127.0.0.1"),
            ("::1", "", "", "https://[::1]:5443", "- 5443", "::1"),
            ("192.0.2.2", "", "", "https://192.0.2.2:5443", "192.0.2.2 5443", "192.0.2.2 vm"),
            ("0.0.0.0", "", "", "https://127.0.0.1:5443", "192.0.2.2 5443", "127.0.0.1 vm 192.0.2.2"),
            (
                "0.0.0.0",
                "203.0.113.10",
                "",
                "https://203.0.113.10:5443",
                "203.0.113.10 5443",
                "127.0.0.1 203.0.113.10 vm 192.0.2.2",
            ),
            (
                "0.0.0.0",
                "203.0.113.10:443",
                "api.example.org",
                "https://api.example.org:443",
                "203.0.113.10 443",
                "127.0.0.1 203.0.113.10 api.example.org vm 192.0.2.2",
            ),
            (
                "127.0.0.1",
                "",
                "api.example.org:8443",
                "https://api.example.org:8443",
                "- 5443",
                "127.0.0.1 api.example.org",
            ),
        ] {
            let listen = listen(bind, advertise, external);
            let front = listen.front(&Ranges::default());
            let address = front.address.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
            let found = (listen.url(), format!("{address} {}", front.port), listen.certified()[2..].join(" "));
            assert_eq!(found, (url.to_owned(), endpoint.to_owned(), names.to_owned()), "{bind} {advertise} {external}");
        }
    }
}
