//! Bootstrap tokens `ID.SECRET`, stored as Secrets `kube-system/bootstrap-token-ID`: the credentials with which a
//! cluster without credentials requests a certificate.
//!
//! The Secret is read from the store at each request: a deleted or expired token is refused at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ObjectKey, Status};
use pki::bootstrap::{SECRET_NAME_PREFIX, SECRET_NAMESPACE, SECRET_TYPE, TokenSecret};
use transport::Identity;

use super::Lookup;

const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";
/// Further characters of a group's name.
const LONGEST_GROUP: usize = 256;

/// The tokens of the server's own Secrets.
pub struct BootstrapTokens {
    lookup: Arc<dyn Lookup>,
}

impl BootstrapTokens {
    /// Tokens whose Secrets `lookup` reads.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    /// `Err` only when the store could not be read: that is no verdict on the token.
    pub(super) async fn authenticate(&self, token: &str, seconds: i64) -> Result<Option<Identity>, Status> {
        let Some((id, secret)) = pki::bootstrap::split(token) else { return Ok(None) };
        let key = ObjectKey::namespaced(SECRET_NAMESPACE, format!("{SECRET_NAME_PREFIX}{id}"));
        let Some(object) = self.lookup.get("secrets", key).await? else { return Ok(None) };
        if object.is_deleting() {
            return Ok(None);
        }
        Ok(object.decode::<TokenSecret>().ok().and_then(|stored| holder(&stored, id, secret, seconds)))
    }
}

/// The holder of the token, if the Secret is valid at `seconds` since the epoch and allows authentication.
fn holder(stored: &TokenSecret, id: &str, secret: &str, seconds: i64) -> Option<Identity> {
    let text = |field| stored.text(field);
    // An expiration that cannot be parsed has passed.
    let expires = || text("expiration")?.parse::<jiff::Timestamp>().ok();
    let is_current = !stored.expires() || expires().is_some_and(|at| seconds < at.as_second());
    let is_valid = stored.type_ == SECRET_TYPE
        && text("token-secret").is_some_and(|expected| pki::bootstrap::is_same(&expected, secret))
        && text("token-id").as_deref() == Some(id)
        && text("usage-bootstrap-authentication").as_deref() == Some("true");
    if !(is_valid && is_current) {
        return None;
    }
    let extra = text("auth-extra-groups").unwrap_or_default();
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        // A token with one invalid group is refused, so that no group is dropped by mistake.
        if !is_group(group) {
            return None;
        }
        groups.insert(group.to_owned());
    }
    let user = format!("{USER_PREFIX}{id}");
    Some(Identity { user, groups: groups.into_iter().collect(), ..Identity::default() })
}

/// Only groups below `system:bootstrappers:` are granted: a token makes no administrator.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends_well = rest.bytes().last().is_some_and(is_word);
    rest.len() <= LONGEST_GROUP && ends_well && rest.bytes().all(|byte| is_word(byte) || matches!(byte, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn secrets_are_checked() {
        let now = 1_800_000_000; // 2027-01-15T08:00:00Z
        let check = |fields: &[(&str, &str)], want: Option<&str>| {
            let mut data = BTreeMap::from([
                ("token-id", "abcdef"),
                ("token-secret", "0123456789abcdef"),
                ("usage-bootstrap-authentication", "true"),
            ]);
            data.extend(fields.iter().copied());
            let type_ = data.remove("type").unwrap_or(SECRET_TYPE);
            let found = holder(&TokenSecret::new(type_, data), "abcdef", "0123456789abcdef", now);
            let found = found.map(|it| format!("{} {}", it.user, it.groups.join(" ")));
            assert_eq!(found.as_deref(), want, "{fields:?}");
        };
        let plain = Some("system:bootstrap:abcdef system:bootstrappers");
        check(&[], plain);
        check(&[("type", "Opaque")], None);
        check(&[("token-secret", "0123456789abcdeX")], None);
        check(&[("token-secret", "")], None);
        check(&[("token-id", "ghijkl")], None);
        check(&[("usage-bootstrap-authentication", "false")], None);
        check(&[("usage-bootstrap-authentication", "")], None);
        check(&[("usage-bootstrap-signing", "false")], plain);
        check(&[("expiration", "2027-01-15T08:00:01Z")], plain);
        check(&[("expiration", "2027-01-15T09:00:01+01:00")], plain);
        check(&[("expiration", "2027-01-15T08:00:00Z")], None);
        check(&[("expiration", "tomorrow")], None);
        check(&[("expiration", "")], None);
        check(
            &[("auth-extra-groups", "system:bootstrappers:karmada:default-cluster-token")],
            Some("system:bootstrap:abcdef system:bootstrappers system:bootstrappers:karmada:default-cluster-token"),
        );
        for group in
            ["system:masters", "system:bootstrappers:", "system:bootstrappers:a,", "system:bootstrappers:A", "x"]
        {
            check(&[("auth-extra-groups", group)], None);
        }
    }
}
