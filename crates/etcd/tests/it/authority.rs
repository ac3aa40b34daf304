//! Certificates for etcd and its clients.

use std::path::Path;

use etcd::Certificates;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for 127.0.0.1 with this common name, and its key.
    pub fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub fn client(&self, name: &str) -> Certificates {
        let (certificate, key) = self.issue(name);
        let client = Some((certificate.into_bytes(), key.into_bytes()));
        Certificates { authority: Some(self.pem().into_bytes()), client }
    }

    /// Writes a certificate for etcd to the files of [`flags`].
    pub fn write(&self, directory: &Path) {
        let (certificate, key) = self.issue("etcd");
        for (name, text) in [("ca.crt", self.pem()), ("server.crt", certificate), ("server.key", key)] {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }
}

/// etcd's flags for TLS in both directions.
pub fn flags(directory: &Path) -> [String; 4] {
    let path = |name: &str| directory.join(name).display().to_string();
    [
        format!("--cert-file={}", path("server.crt")),
        format!("--key-file={}", path("server.key")),
        format!("--trusted-ca-file={}", path("ca.crt")),
        "--client-cert-auth".to_owned(),
    ]
}
