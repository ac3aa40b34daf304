//! `AuthenticationConfiguration` of `apiserver.config.k8s.io`: decoding. Unknown and duplicate fields are errors, as in
//! kube-apiserver.

pub use apimachinery::configuration::ConfigurationError;
use apimachinery::configuration::{FileKind, remove_nulls};

use crate::document::{Anonymous, Document};
use crate::issuer::Issuer;
use crate::validation;

const KIND: FileKind = FileKind {
    api_versions: &[
        "apiserver.config.k8s.io/v1",
        "apiserver.config.k8s.io/v1beta1",
        "apiserver.config.k8s.io/v1alpha1",
    ],
    kind: "AuthenticationConfiguration",
};

/// A valid configuration.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// Requests without credentials; `None` leaves them to `--anonymous-auth`.
    pub anonymous: Option<Anonymous>,
}

impl Configuration {
    /// Reads a configuration file, YAML or JSON. `disallowed_issuers` are those of service account tokens.
    ///
    /// # Errors
    /// If it is not an AuthenticationConfiguration or has invalid fields.
    pub fn parse(file: &[u8], disallowed_issuers: &[String]) -> Result<Self, ConfigurationError> {
        let mut tree = KIND.read(file)?;
        remove_nulls(&mut tree);
        let document: Document = serde_json::from_value(tree).map_err(ConfigurationError::undecodable)?;
        let anonymous = document.anonymous.clone();
        match validation::compile(document, disallowed_issuers) {
            Ok(issuers) => Ok(Self { issuers, anonymous }),
            Err(errors) => Err(ConfigurationError::invalid(&errors)),
        }
    }
}
