//! NaCl's `crypto_secretbox`: XSalsa20 and Poly1305. The authenticator precedes the text.

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit as _, StreamCipher as _};

pub(crate) const NONCE: usize = 24;
const TAG: usize = 16;

/// The cipher behind the part of its stream that keys the authenticator, and the authenticator.
fn parts(key: &[u8; 32], nonce: &[u8; NONCE]) -> (XSalsa20, Poly1305) {
    let mut cipher = XSalsa20::new(key.into(), nonce.into());
    let mut of_authenticator = [0; 32];
    cipher.apply_keystream(&mut of_authenticator);
    let authenticator = Poly1305::new((&of_authenticator).into());
    (cipher, authenticator)
}

/// Appends authenticator and ciphertext.
pub(crate) fn seal(key: &[u8; 32], nonce: &[u8; NONCE], plaintext: &[u8], out: &mut Vec<u8>) {
    let (mut cipher, authenticator) = parts(key, nonce);
    let mut text = plaintext.to_vec();
    cipher.apply_keystream(&mut text);
    out.extend_from_slice(&authenticator.compute_unpadded(&text));
    out.extend_from_slice(&text);
}

/// `None` if it was not sealed with this key, or was changed.
pub(crate) fn open(key: &[u8; 32], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE>()?;
    let (tag, text) = rest.split_first_chunk::<TAG>()?;
    let (mut cipher, authenticator) = parts(key, nonce);
    let found = authenticator.compute_unpadded(text);
    aws_lc_rs::constant_time::verify_slices_are_equal(&found, tag).ok()?;
    let mut text = text.to_vec();
    cipher.apply_keystream(&mut text);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of NaCl's documentation ("Cryptography in NaCl", section 10).
    #[test]
    fn nacls_example() {
        let bytes = |text: &str| hex::decode(text).expect("hexadecimal");
        let key: [u8; 32] =
            bytes("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389").try_into().expect("32 bytes");
        let nonce: [u8; 24] = bytes("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37").try_into().expect("24 bytes");
        let text = bytes(
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f4\
             1db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52\
             f0a089bc76897040e082f937763848645e0705",
        );
        let mut sealed = nonce.to_vec();
        seal(&key, &nonce, &text, &mut sealed);
        assert_eq!(
            hex::encode(&sealed[NONCE..]),
            "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da\
             7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b\
             61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
        );
        assert_eq!(open(&key, &sealed), Some(text));
        for at in [0, 30, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open(&key, &changed), None, "{at}");
        }
        assert_eq!(open(&key, &sealed[..30]), None);
    }
}
