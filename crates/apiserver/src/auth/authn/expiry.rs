//! Client certificates that are about to expire: counted once for each connection, and reported to their holders.

use transport::Identity;

use super::CREDENTIAL_ID;
use crate::request::peer::Peer;

/// The remaining seconds of the certificate, for the first request of a connection that it authenticates.
pub(crate) fn counted(peer: &Peer, caller: &Identity, seconds: i64) -> Option<i64> {
    let left = peer.not_after()?.saturating_sub(seconds);
    (is_credential(caller) && peer.count()).then_some(left)
}

/// The text of a `Warning` header.
pub(crate) fn warning(peer: &Peer, caller: &Identity, seconds: i64) -> Option<String> {
    if !peer.is_warned(seconds) || !is_credential(caller) {
        return None;
    }
    let at = jiff::Timestamp::from_second(peer.not_after()?).ok()?;
    let user = &caller.user;
    Some(format!("the client certificate of user {user:?} expires at {at}; connect with a new one"))
}

/// Whether the certificate authenticated the caller, instead of a token.
fn is_credential(caller: &Identity) -> bool {
    let of_certificate = |value: &String| value.starts_with("X509SHA256=");
    caller.extra.iter().any(|(key, values)| key == CREDENTIAL_ID && values.iter().any(of_certificate))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use world::World;

    use super::*;
    use crate::request::peer::warned_from;

    const DAY: i64 = 24 * 3600;

    #[tokio::test]
    async fn a_client_is_warned_in_the_last_week() {
        let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let now = world.now().as_second();
        let (authority, _) = pki::Authority::generate("ca", &world).expect("an authority");
        let lifetime = Duration::from_secs(30 * 24 * 3600);
        let ann = authority.issue_client_for("ann", &[], lifetime, &world).expect("a certificate");
        let der = pki::holder::pem_to_der(&ann.certificate).expect("PEM");
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), [der.into()]);
        let caller = |credential: &str| Identity {
            user: "ann".into(),
            extra: vec![(CREDENTIAL_ID.into(), vec![credential.into()])],
            ..Identity::default()
        };
        let text = r#"the client certificate of user "ann" expires at 2026-12-23T00:00:00Z; connect with a new one"#;
        for (days, credential, expected) in [
            (0, "X509SHA256=1", None),
            (22, "X509SHA256=1", None),
            (23, "X509SHA256=1", Some(text)),
            (29, "X509SHA256=1", Some(text)),
            (29, "JTI=1", None),
        ] {
            let found = warning(&peer, &caller(credential), now + days * DAY);
            assert_eq!(found.as_deref(), expected, "{days} {credential}");
        }
        assert_eq!((warned_from(0, 3600), warned_from(0, 365 * DAY)), (2700, 358 * DAY));
        assert_eq!(counted(&peer, &caller("JTI=1"), now), None);
        assert_eq!(counted(&peer.clone(), &caller("X509SHA256=1"), now), Some(30 * DAY));
        assert_eq!(counted(&peer, &caller("X509SHA256=1"), now), None, "once for a connection");
        let plain = Peer::new(([127, 0, 0, 1], 1).into(), []);
        assert_eq!(
            (warning(&plain, &caller("X509SHA256=1"), now), counted(&plain, &caller("X509SHA256=1"), now)),
            (None, None)
        );
    }
}
