//! The flags of every API server: its address, the address for clients, the serving certificate.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use world::World;

use crate::reach::{Advertised, Host, Listen, subject_name};
use crate::serving::{OwnCertificate, Versions};

#[derive(Args)]
pub(super) struct ListenArgs {
    /// The address to listen on; 0.0.0.0 or :: is all of them
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    bind_address: IpAddr,
    /// The address at which other machines reach the server, for the kubeconfig and default/kubernetes; with :PORT if the port differs there
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
}

impl ListenArgs {
    /// # Errors
    /// A serving certificate that cannot be used.
    pub(super) fn listen(self, secure_port: u16, cluster: &str, world: &World) -> anyhow::Result<Listen> {
        let (certificate, key) = (self.tls_cert_file.as_deref(), self.tls_private_key_file.as_deref());
        Ok(Listen {
            advertise: self.advertise_address,
            external: self.external_hostname,
            names: self.tls_san,
            certificate: OwnCertificate::from_files(certificate, key, Versions::default(), world)?,
            ..Listen::new(self.bind_address, secure_port, cluster)
        })
    }
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
        // The demonstration has no such flag: it serves loopback and nothing else.
        let matches = super::super::command().try_get_matches_from(["karmada", "demo", "--bind-address=0.0.0.0"]);
        assert!(matches.is_err());
    }
}
