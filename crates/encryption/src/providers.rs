//! Sealing and opening the values of a resource: the first provider writes, all of them read.

use std::sync::Arc;

use crate::envelope::{Envelope, EnvelopeError, Seed};
use crate::keyed::{Key, Kind};
use crate::kms::Kms;
use crate::{NoRandomness, Random};

/// All encrypted values begin so.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// One provider of a list.
#[derive(Debug)]
pub(crate) enum Provider {
    Identity,
    /// With its keys and the prefix of each one's values; the first key writes.
    Keyed(Kind, Vec<(Vec<u8>, Key)>),
    Kms(Arc<Kms>, Vec<u8>),
}

/// The prefix of values that a key encrypted.
pub(crate) fn keyed_prefix(kind: Kind, key: &str) -> Vec<u8> {
    format!("k8s:enc:{}:v1:{key}:", kind.name()).into_bytes()
}

/// The prefix of values that a service's seed encrypted.
pub(crate) fn kms_prefix(name: &str) -> Vec<u8> {
    format!("k8s:enc:kms:v2:{name}:").into_bytes()
}

/// The available seeds.
pub trait Seeds {
    /// The seed that the service's new values are encrypted with, and its encrypted form without data.
    fn current(&self, kms: &str) -> Option<(Seed, Envelope)>;

    /// The seed of a stored value.
    fn known(&self, kms: &str, envelope: &Envelope) -> Option<Seed>;

    /// Whether new values are encrypted under this key of the service.
    fn is_current(&self, kms: &str, key_id: &str) -> bool;
}

/// The providers of a resource, in order.
#[derive(Debug)]
pub struct Providers(pub(crate) Vec<Provider>);

/// A decrypted value.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// `None` if it is stored unencrypted.
    pub plaintext: Option<Vec<u8>>,
    /// Whether a write would use the same provider and key; otherwise writing it again rotates it.
    pub is_current: bool,
}

/// Why a value cannot be encrypted. It is not stored then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The service has not encrypted a seed yet.
    #[error("the key management service {0:?} is not available: there is no data encryption key")]
    NoSeed(String),
    /// The system has no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Why a value cannot be decrypted. It is unknown then, not absent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The service must decrypt the seed first.
    #[error("the key management service {kms:?} has to decrypt the data encryption key")]
    NeedsSeed {
        /// The provider's name.
        kms: Arc<Kms>,
        /// The envelope to decrypt.
        envelope: Box<Envelope>,
    },
    /// A provider has the key, but the value was changed or belongs to another object.
    #[error("provider {0} cannot decrypt it: the value was changed, or is of another key or object")]
    Failed(String),
    /// The stored message is not valid.
    #[error("provider {provider} cannot decrypt it: {why}")]
    Envelope {
        /// The provider.
        provider: String,
        /// The error in the message.
        why: EnvelopeError,
    },
    /// No provider wrote the value: the configuration has lost a provider or a key.
    #[error("no provider of the configuration matches its prefix {0:?}")]
    NoProvider(String),
    /// Plaintext where no `identity` provider is configured.
    #[error("it is not encrypted, and the configuration has no identity provider for it")]
    Plaintext,
}

impl OpenError {
    /// The action that makes the value readable.
    pub fn remedy(&self) -> String {
        const FILE: &str = "the file of --encryption-provider-config";
        match self {
            Self::NeedsSeed { kms, .. } => format!("check the key management service {:?}", kms.name),
            Self::Plaintext => format!("add the provider identity for the resource to {FILE}"),
            Self::NoProvider(prefix) => match named_by(prefix) {
                Some(("kms", version, name)) => {
                    format!("add the provider kms {name:?} ({version}), which wrote the value, to {FILE}")
                }
                Some((kind, _, key)) => {
                    format!("add key {key:?} of provider {kind}, which wrote the value, to {FILE}")
                }
                None => format!("add the provider that wrote the value to {FILE}"),
            },
            Self::Failed(provider) => {
                format!(
                    "put back the secret of {provider} in {FILE} if it has changed; otherwise restore the store from a backup"
                )
            }
            Self::Envelope { .. } => "restore the store from a backup".to_owned(),
        }
    }
}

/// Provider, version and name in a prefix: `k8s:enc:aescbc:v1:KEY:`.
fn named_by(prefix: &str) -> Option<(&str, &str, &str)> {
    let mut parts = prefix.strip_prefix("k8s:enc:")?.strip_suffix(':')?.split(':');
    let named = (parts.next()?, parts.next()?, parts.next()?);
    (parts.next().is_none() && !named.2.is_empty()).then_some(named)
}

impl Providers {
    /// Whether new values are stored as they are.
    pub fn writes_plaintext(&self) -> bool {
        matches!(self.0.first(), Some(Provider::Identity) | None)
    }

    /// The key management services of the list.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Kms>> {
        self.0.iter().filter_map(|provider| match provider {
            Provider::Kms(kms, _) => Some(kms),
            _ => None,
        })
    }

    /// The value to store; `None` if it is stored unencrypted. `associated` is its key in the store.
    ///
    /// # Errors
    /// Why it cannot be encrypted.
    pub fn seal(
        &self,
        plaintext: &[u8],
        associated: &[u8],
        random: &dyn Random,
        seeds: &dyn Seeds,
    ) -> Result<Option<Vec<u8>>, SealError> {
        match self.0.first() {
            None | Some(Provider::Identity) => Ok(None),
            Some(Provider::Keyed(_, keys)) => {
                let Some((prefix, key)) = keys.first() else { return Ok(None) };
                let mut out = prefix.clone();
                key.seal(plaintext, associated, random, &mut out)?;
                Ok(Some(out))
            }
            Some(Provider::Kms(kms, prefix)) => {
                let current = seeds.current(&kms.name).ok_or_else(|| SealError::NoSeed(kms.name.clone()))?;
                let (seed, mut envelope) = current;
                envelope.data = seed.seal(plaintext, associated, random)?;
                let mut out = prefix.clone();
                out.extend(envelope.encoded());
                Ok(Some(out))
            }
        }
    }

    /// The plaintext of a stored value.
    ///
    /// # Errors
    /// Why it is unknown.
    pub fn open(&self, value: &[u8], associated: &[u8], seeds: &dyn Seeds) -> Result<Opened, OpenError> {
        if !value.starts_with(ENCRYPTED) {
            let found = self.0.iter().position(|provider| matches!(provider, Provider::Identity));
            let at = found.ok_or(OpenError::Plaintext)?;
            return Ok(Opened { plaintext: None, is_current: at == 0 });
        }
        for (at, provider) in self.0.iter().enumerate() {
            match provider {
                Provider::Identity => {}
                Provider::Keyed(kind, keys) => {
                    if let Some(opened) = open_keyed(*kind, keys, value, associated)? {
                        return Ok(Opened { is_current: at == 0 && opened.is_current, ..opened });
                    }
                }
                Provider::Kms(kms, prefix) => {
                    let Some(message) = value.strip_prefix(prefix.as_slice()) else { continue };
                    return open_kms(kms, message, associated, seeds)
                        .map(|opened| Opened { is_current: at == 0 && opened.is_current, ..opened });
                }
            }
        }
        Err(OpenError::NoProvider(shown(value)))
    }

    /// Whether a write would use the same provider and key as the stored value. The value is not decrypted.
    pub fn is_current(&self, value: &[u8], seeds: &dyn Seeds) -> bool {
        match self.0.first() {
            None | Some(Provider::Identity) => !value.starts_with(ENCRYPTED),
            Some(Provider::Keyed(_, keys)) => keys.first().is_some_and(|(prefix, _)| value.starts_with(prefix)),
            Some(Provider::Kms(kms, prefix)) => {
                let envelope = value.strip_prefix(prefix.as_slice()).map(Envelope::parse);
                matches!(envelope, Some(Ok(envelope)) if seeds.is_current(&kms.name, &envelope.key_id))
            }
        }
    }
}

/// `None` if no key of the provider has the prefix.
fn open_keyed(
    kind: Kind,
    keys: &[(Vec<u8>, Key)],
    value: &[u8],
    associated: &[u8],
) -> Result<Option<Opened>, OpenError> {
    let mut failed = None;
    for (at, (prefix, key)) in keys.iter().enumerate() {
        let Some(sealed) = value.strip_prefix(prefix.as_slice()) else { continue };
        match key.open(sealed, associated) {
            Some(plaintext) => return Ok(Some(Opened { plaintext: Some(plaintext), is_current: at == 0 })),
            None => failed = Some(prefix),
        }
    }
    match failed {
        Some(prefix) => {
            let name = String::from_utf8_lossy(prefix);
            let key = name.trim_end_matches(':').rsplit(':').next().unwrap_or_default();
            Err(OpenError::Failed(format!("{} with key {key:?}", kind.name())))
        }
        None => Ok(None),
    }
}

fn open_kms(kms: &Arc<Kms>, message: &[u8], associated: &[u8], seeds: &dyn Seeds) -> Result<Opened, OpenError> {
    let provider = format!("kms {:?}", kms.name);
    let envelope = Envelope::parse(message).map_err(|why| OpenError::Envelope { provider: provider.clone(), why })?;
    let Some(seed) = seeds.known(&kms.name, &envelope) else {
        return Err(OpenError::NeedsSeed { kms: Arc::clone(kms), envelope: Box::new(envelope) });
    };
    let plaintext = envelope.open(&seed, associated).ok_or(OpenError::Failed(provider))?;
    Ok(Opened { plaintext: Some(plaintext), is_current: seeds.is_current(&kms.name, &envelope.key_id) })
}

/// The prefix of a value, which names its provider and key.
fn shown(value: &[u8]) -> String {
    let head = &value[..value.len().min(96)];
    let colons = head.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    let end = colons.take(5).last().map_or(0, |at| at + 1);
    String::from_utf8_lossy(&head[..end]).into_owned()
}
