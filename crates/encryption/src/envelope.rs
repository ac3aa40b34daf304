//! Values encrypted with a seed of a key management service (KMS v2): the stored message, and the keys derived from the
//! seed.

use std::collections::BTreeMap;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use prost::Message as _;

use crate::keyed::{gcm, open_gcm, seal_gcm};
use crate::{NoRandomness, Random};

/// The random part of each value from which its key is derived.
const INFO: usize = 32;
/// The length of a seed.
pub(crate) const SEED: usize = 32;

/// Limits of the protocol.
const MAX_KEY_ID: usize = 1024;
const MAX_ENCRYPTED_SEED: usize = 1024;
const MAX_ANNOTATIONS: usize = 32 << 10;

/// A value is encrypted with a key derived from the seed.
const OF_SEED: i32 = 1;
/// A value of kube-apiserver before 1.29 is encrypted with the key itself.
const OF_KEY: i32 = 0;

/// `EncryptedObject` of kube-apiserver: the seed as the service encrypted it, and the value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Envelope {
    /// The encrypted value.
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// The service's key that encrypted the seed.
    #[prost(string, tag = "2")]
    pub key_id: String,
    /// The encrypted seed.
    #[prost(bytes = "vec", tag = "3")]
    pub seed: Vec<u8>,
    /// The data that the service needs to decrypt the seed.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    /// Whether the value is encrypted with the seed itself (0) or with a key derived from it (1).
    #[prost(int32, tag = "5")]
    pub seed_type: i32,
}

/// Why a message is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is not the expected message.
    #[error("the stored message cannot be decoded")]
    Undecodable,
    /// A part is missing or too long.
    #[error("{0} is empty or too long")]
    Part(&'static str),
    /// An annotation is not a domain name.
    #[error("annotation {0:?} is not a fully qualified domain name")]
    Annotation(String),
    /// The seed has a type that a later version has introduced.
    #[error("the type {0} of the seed is not supported")]
    Type(i32),
}

impl Envelope {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, EnvelopeError> {
        let envelope = <Self as prost::Message>::decode(message).map_err(|_| EnvelopeError::Undecodable)?;
        if envelope.data.is_empty() {
            return Err(EnvelopeError::Part("the encrypted data"));
        }
        envelope.check()?;
        Ok(envelope)
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Checks the service's part of the message, without the encrypted data.
    ///
    /// # Errors
    /// The invalid part.
    pub fn check(&self) -> Result<(), EnvelopeError> {
        let is_within = |length: usize, limit: usize| (1..=limit).contains(&length);
        if !is_within(self.key_id.len(), MAX_KEY_ID) {
            return Err(EnvelopeError::Part("the key ID"));
        }
        if !is_within(self.seed.len(), MAX_ENCRYPTED_SEED) {
            return Err(EnvelopeError::Part("the encrypted seed"));
        }
        let size: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            return Err(EnvelopeError::Part("the annotations"));
        }
        let is_domain = |name: &str| name.contains('.') && apimachinery::names::is_dns1123_subdomain(name).is_empty();
        if let Some(name) = self.annotations.keys().find(|name| !is_domain(name)) {
            return Err(EnvelopeError::Annotation(name.clone()));
        }
        match self.seed_type {
            OF_SEED | OF_KEY => Ok(()),
            other => Err(EnvelopeError::Type(other)),
        }
    }

    pub(crate) fn open(&self, seed: &Seed, associated: &[u8]) -> Option<Vec<u8>> {
        if self.seed_type == OF_KEY {
            return open_gcm(&gcm(&seed.0)?, &self.data, associated);
        }
        let (info, sealed) = self.data.split_first_chunk::<INFO>()?;
        open_gcm(&gcm(&seed.derive(info)?)?, sealed, associated)
    }
}

/// The secret that the keys of values are derived from. Only its encrypted form is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Vec<u8>);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        SEED
    }
}

impl Seed {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate(random: &dyn Random) -> Result<Self, NoRandomness> {
        let mut seed = vec![0; SEED];
        random.fill(&mut seed)?;
        Ok(Self(seed))
    }

    /// As a service decrypted it; `None` if it has not the length of one.
    pub fn from_service(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() == SEED).then_some(Self(bytes))
    }

    /// The plaintext, for the service that encrypts it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    fn derive(&self, info: &[u8]) -> Option<[u8; SEED]> {
        let mut key = [0; SEED];
        let prk = Prk::new_less_safe(HKDF_SHA256, &self.0);
        prk.expand(&[info], Length).ok()?.fill(&mut key).ok()?;
        Some(key)
    }

    /// The encrypted value: the random part, the nonce and the ciphertext.
    pub(crate) fn seal(
        &self,
        plaintext: &[u8],
        associated: &[u8],
        random: &dyn Random,
    ) -> Result<Vec<u8>, NoRandomness> {
        let mut info = [0; INFO];
        random.fill(&mut info)?;
        let key = self.derive(&info).and_then(|key| gcm(&key)).ok_or(NoRandomness)?;
        let mut out = info.to_vec();
        seal_gcm(&key, plaintext, associated, random, &mut out)?;
        Ok(out)
    }
}

impl Envelope {
    /// A message without a value yet: the service's response for a seed.
    pub fn of_seed(key_id: String, seed: Vec<u8>, annotations: BTreeMap<String, Vec<u8>>) -> Self {
        Self { data: Vec::new(), key_id, seed, annotations, seed_type: OF_SEED }
    }
}
