//! Providers with keys of the configuration: `aesgcm`, `aescbc` and `secretbox`.

use aws_lc_rs::aead::{self, AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

use crate::{NoRandomness, Random, secretbox};

pub(crate) const GCM_NONCE: usize = 12;
const CBC_IV: usize = 16;

/// The cipher of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AesGcm,
    AesCbc,
    Secretbox,
}

impl Kind {
    /// As in the configuration and in stored values.
    pub fn name(self) -> &'static str {
        match self {
            Self::AesGcm => "aesgcm",
            Self::AesCbc => "aescbc",
            Self::Secretbox => "secretbox",
        }
    }

    /// The lengths of its keys.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            Self::AesGcm | Self::AesCbc => &[16, 24, 32],
            Self::Secretbox => &[32],
        }
    }
}

/// A key, ready for use.
pub(crate) enum Key {
    AesGcm(Box<LessSafeKey>),
    AesCbc(Box<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)>),
    Secretbox(Box<[u8; 32]>),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// AES-GCM with a key of 16, 24 or 32 bytes.
pub(crate) fn gcm(secret: &[u8]) -> Option<LessSafeKey> {
    let algorithm: &'static aead::Algorithm = match secret.len() {
        16 => &AES_128_GCM,
        24 => &AES_192_GCM,
        32 => &AES_256_GCM,
        _ => return None,
    };
    UnboundKey::new(algorithm, secret).ok().map(LessSafeKey::new)
}

fn cbc(secret: &[u8]) -> Option<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)> {
    let unbound = || {
        let algorithm = match secret.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            _ => return None,
        };
        UnboundCipherKey::new(algorithm, secret).ok()
    };
    let encrypting = PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).ok()?;
    Some((encrypting, PaddedBlockDecryptingKey::cbc_pkcs7(unbound()?).ok()?))
}

impl Key {
    /// `None` for a secret of another length.
    pub fn new(kind: Kind, secret: &[u8]) -> Option<Self> {
        Some(match kind {
            Kind::AesGcm => Self::AesGcm(Box::new(gcm(secret)?)),
            Kind::AesCbc => Self::AesCbc(Box::new(cbc(secret)?)),
            Kind::Secretbox => Self::Secretbox(Box::new(secret.try_into().ok()?)),
        })
    }

    /// Appends the sealed value. Only AES-GCM binds it to `associated`, as in kube-apiserver.
    pub fn seal(
        &self,
        plaintext: &[u8],
        associated: &[u8],
        random: &dyn Random,
        out: &mut Vec<u8>,
    ) -> Result<(), NoRandomness> {
        match self {
            Self::AesGcm(key) => seal_gcm(key, plaintext, associated, random, out),
            Self::AesCbc(keys) => {
                let mut iv = [0; CBC_IV];
                random.fill(&mut iv)?;
                let mut text = plaintext.to_vec();
                let context = EncryptionContext::Iv128(FixedLength::from(iv));
                // It fails only for a wrong length of the vector, which the type fixes.
                keys.0.less_safe_encrypt(&mut text, context).map_err(|_| NoRandomness)?;
                out.extend_from_slice(&iv);
                out.extend_from_slice(&text);
                Ok(())
            }
            Self::Secretbox(key) => {
                let mut nonce = [0; secretbox::NONCE];
                random.fill(&mut nonce)?;
                out.extend_from_slice(&nonce);
                secretbox::seal(key, &nonce, plaintext, out);
                Ok(())
            }
        }
    }

    /// `None` if the value was not sealed with this key, or was changed.
    pub fn open(&self, sealed: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::AesGcm(key) => open_gcm(key, sealed, associated),
            Self::AesCbc(keys) => {
                let (iv, text) = sealed.split_first_chunk::<CBC_IV>()?;
                let mut text = text.to_vec();
                if text.is_empty() || !text.len().is_multiple_of(CBC_IV) {
                    return None;
                }
                let context = DecryptionContext::Iv128(FixedLength::from(*iv));
                keys.1.decrypt(&mut text, context).ok().map(|text| text.to_vec())
            }
            Self::Secretbox(key) => secretbox::open(key, sealed),
        }
    }
}

/// Appends nonce, ciphertext and authenticator.
pub(crate) fn seal_gcm(
    key: &LessSafeKey,
    plaintext: &[u8],
    associated: &[u8],
    random: &dyn Random,
    out: &mut Vec<u8>,
) -> Result<(), NoRandomness> {
    let mut nonce = [0; GCM_NONCE];
    random.fill(&mut nonce)?;
    out.extend_from_slice(&nonce);
    let mut text = plaintext.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    // It fails for texts of more than 64 GiB alone.
    key.seal_in_place_append_tag(nonce, Aad::from(associated), &mut text).map_err(|_| NoRandomness)?;
    out.extend_from_slice(&text);
    Ok(())
}

/// `None` if the value was not sealed with this key and `associated`, or was changed.
pub(crate) fn open_gcm(key: &LessSafeKey, sealed: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.split_first_chunk::<GCM_NONCE>()?;
    let mut text = text.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key.open_in_place(nonce, Aad::from(associated), &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}
