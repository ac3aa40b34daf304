//! Authority bundles of conversion webhooks (`caBundle`), checked as client-go loads them.

use base64::Engine as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::definition::Conversion;

/// The encoded bundle of a conversion webhook, and why no certificate can be read from it.
pub(crate) fn unreadable(conversion: Option<&Conversion>) -> Option<(&str, String)> {
    let bundle = conversion?.webhook.as_ref()?["clientConfig"]["caBundle"].as_str()?;
    Some((bundle, why_unreadable(bundle)?))
}

fn why_unreadable(bundle: &str) -> Option<String> {
    let pem = base64::prelude::BASE64_STANDARD.decode(bundle).unwrap_or_default();
    let blocks: Vec<CertificateDer> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if bundle.is_empty() || blocks.iter().any(|certificate| is_sequence(certificate)) {
        return None;
    }
    let why = match blocks[..] {
        [] => "unable to parse bytes as PEM block",
        _ => "failed to parse certificate: x509: malformed certificate",
    };
    Some(format!("unable to load root certificates: {why}"))
}

/// Whether this is one DER sequence. Its content is not read: a certificate that Go accepts must not prevent serving.
fn is_sequence(der: &[u8]) -> bool {
    let Some((0x30, rest)) = der.split_first().map(|(tag, rest)| (*tag, rest)) else { return false };
    match rest.split_first() {
        Some((&short, content)) if short < 0x80 => content.len() == usize::from(short),
        Some((&long, rest)) if (0x81..=0x84).contains(&long) => {
            let Some((length, content)) = rest.split_at_checked(usize::from(long & 0x7f)) else { return false };
            content.len() == length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_needs_one_certificate() {
        let encoded = |bytes: &[u8]| base64::prelude::BASE64_STANDARD.encode(bytes);
        let pem = |der: &[u8]| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", encoded(der));
        let long = [&[0x30, 0x81, 0x80][..], &[0; 0x80]].concat();
        for good in [pem(&[0x30, 1, 0]), format!("text\n{}{}", pem(&[1]), pem(&long))] {
            assert_eq!(why_unreadable(&encoded(good.as_bytes())), None, "{good}");
        }
        assert_eq!(why_unreadable(""), None, "the system's authorities");
        let no_pem = "unable to load root certificates: unable to parse bytes as PEM block";
        for bad in ["Cg==", "!"] {
            assert_eq!(why_unreadable(bad).as_deref(), Some(no_pem), "{bad}");
        }
        for bad in [&[0x30, 2, 0][..], &[0x30, 0x81], &[0x30], &[0x31, 0]] {
            let why = why_unreadable(&encoded(pem(bad).as_bytes())).expect("not a certificate");
            assert!(why.contains("failed to parse certificate"), "{why}");
        }
    }
}
