//! The flags of every API server: its address, the address for clients, the serving certificate.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use apiserver::serve::{Protocol, Suite};
use clap::Args;
use world::World;

use crate::reach::{Advertised, Host, Listen, subject_name};
use crate::serving::OwnCertificate;
use crate::serving_names::NamedFiles;

#[derive(Args)]
pub(super) struct ListenArgs {
    /// The address to listen on; 0.0.0.0 or :: is all of them
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    bind_address: IpAddr,
    /// The address at which other machines reach the server, for the kubeconfig and default/kubernetes; with :PORT if
    /// the port differs there
    #[arg(long, value_name = "IP[:PORT]")]
    advertise_address: Option<Advertised>,
    /// The host name in the kubeconfig's URL; with :PORT if the port differs there
    #[arg(long, value_name = "NAME[:PORT]")]
    external_hostname: Option<Host>,
    /// Further DNS names and IP addresses for the serving certificate
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = subject_name)]
    tls_san: Vec<String>,
    /// A serving certificate of your own in PEM, followed by its chain; with --tls-private-key-file
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file in PEM
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// The oldest accepted version of TLS: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", value_parser = is_only_13, action = clap::ArgAction::Set, hide_short_help = true)]
    tls_min_version: bool,
    /// The cipher suites of TLS 1.2, by Go's names; by default all safe ones. Those of TLS 1.3 are always offered
    #[arg(long, value_name = "SUITE", value_delimiter = ',', hide_short_help = true)]
    tls_cipher_suites: Vec<Suite>,
    /// A further serving certificate, for clients that request one of its names or of the given ones; can be repeated.
    /// Reloaded when it changes
    #[arg(long, value_name = "CERTIFICATE,KEY[:NAME,...]", hide_short_help = true)]
    tls_sni_cert_key: Vec<NamedFiles>,
    /// Further authorities of client certificates in PEM; those of the data directory are accepted, too. Reloaded when
    /// it changes
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    client_ca_file: Option<PathBuf>,
}

fn is_only_13(text: &str) -> Result<bool, String> {
    match text {
        "VersionTLS12" => Ok(false),
        "VersionTLS13" => Ok(true),
        "VersionTLS10" | "VersionTLS11" => Err(format!("{text} is not safe and not supported")),
        other => Err(format!("{other:?} is neither VersionTLS12 nor VersionTLS13")),
    }
}

impl ListenArgs {
    /// # Errors
    /// A serving certificate that cannot be used.
    pub(super) fn listen(self, secure_port: u16, cluster: &str, world: &World) -> anyhow::Result<Listen> {
        let (certificate, key) = (self.tls_cert_file.as_deref(), self.tls_private_key_file.as_deref());
        let protocol = Protocol { only_13: self.tls_min_version, suites: self.tls_cipher_suites };
        Ok(Listen {
            advertise: self.advertise_address,
            external: self.external_hostname,
            names: self.tls_san,
            certificate: OwnCertificate::from_files(certificate, key, &protocol, world)?,
            client_ca_file: self.client_ca_file,
            protocol,
            named: self.tls_sni_cert_key,
            ..Listen::new(self.bind_address, secure_port, cluster)
        })
    }
}

/// From `FIRST-LAST`.
pub(super) fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bounds = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let range = bounds.map(|(first, last): (u16, u16)| first..=last).filter(|range| !range.is_empty());
    range.ok_or_else(|| format!("{text:?} is not a range of ports such as 30000-32767"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_api_server_listens_on_loopback_by_default() {
        for (name, command) in [("up", "up"), ("apiserver", "apiserver"), ("member", "member m1")] {
            let words = ["karmada"].into_iter().chain(command.split(' '));
            let matches = super::super::command().try_get_matches_from(words).expect("no flags are needed");
            let (_, matches) = matches.subcommand().expect("a command");
            let address = matches.get_one::<std::net::IpAddr>("bind_address").expect("a default");
            assert!(address.is_loopback(), "{name}: {address}");
        }
        // The demonstration has no such flag: it only serves loopback.
        let matches = super::super::command().try_get_matches_from(["karmada", "demo", "--bind-address=0.0.0.0"]);
        assert!(matches.is_err());
    }
}
