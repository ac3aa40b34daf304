//! Impersonation by the headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-KEY`. The caller must be authorized to
//! impersonate each of them.

use std::collections::BTreeMap;

use apimachinery::Status;
use http::{HeaderMap, HeaderName};
use transport::Identity;

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, account_groups, account_of};
use crate::auth::authz::{self, Attributes, Authorizer, ResourceAttributes};

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

/// The identity to act as: the caller's own without impersonation headers. The headers are removed, so that later
/// components do not evaluate them. `request` is the request as that identity.
///
/// As in kube-apiserver, the right to act as a user for specific requests (constrained impersonation) is checked first,
/// and without it the right to act as a user for all requests (`impersonate`).
///
/// # Errors
/// 403 when the caller may not impersonate the user, a group, the UID or an extra field; 400 for groups, a UID or extra
/// fields without a user.
pub async fn impersonate(
    headers: &mut HeaderMap,
    caller: Identity,
    authorizer: &dyn Authorizer,
    request: impl FnOnce() -> Attributes,
) -> Result<Identity, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(caller);
    }
    let requested = read(headers)?;
    remove(headers);
    let Some(requested) = requested else { return Ok(caller) };
    let refused = match constrained(&requested, &request()) {
        Some(rights) => match check_all(authorizer, &caller, rights).await {
            Ok(()) => return Ok(complete(requested)),
            Err(refused) => Some(refused),
        },
        None => None,
    };
    let classic = needed(&requested, "impersonate").into_iter().map(Attributes::Resource);
    match check_all(authorizer, &caller, classic.collect()).await {
        Ok(()) => Ok(complete(requested)),
        Err(classic) => Err(refused.unwrap_or(classic)),
    }
}

async fn check_all(authorizer: &dyn Authorizer, caller: &Identity, rights: Vec<Attributes>) -> Result<(), Status> {
    for right in &rights {
        authz::check(authorizer, caller, right).await?;
    }
    Ok(())
}

/// The rights to act as this user for this request only: on the request, then on each claimed part of the identity.
/// `None` for identities that can only be impersonated as a whole: nodes, and service accounts with further parts.
fn constrained(requested: &Identity, request: &Attributes) -> Option<Vec<Attributes>> {
    const NODES: &str = "system:node:";
    let is_account = account_of(&requested.user).is_some();
    let has_parts = !requested.groups.is_empty() || !requested.uid.is_empty() || !requested.extra.is_empty();
    if requested.user.starts_with(NODES) || (is_account && has_parts) {
        return None;
    }
    let mode = if is_account { "serviceaccount" } else { "user-info" };
    let on = |verb: &str| format!("impersonate-on:{mode}:{verb}");
    let mut rights = vec![match request {
        Attributes::Resource(request) => {
            Attributes::Resource(ResourceAttributes { verb: on(&request.verb), ..request.clone() })
        }
        Attributes::Path { verb, path } => Attributes::Path { verb: on(verb), path: path.clone() },
    }];
    let parts = needed(requested, &format!("impersonate:{mode}")).into_iter();
    rights.extend(parts.map(|part| Attributes::Resource(ResourceAttributes { group: GROUP.into(), ..part })));
    Some(rights)
}

fn read(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
    let all = |name: &str| -> Result<Vec<String>, Status> {
        // Names may have any letters: headers carry them in UTF-8.
        let text = |value: &http::HeaderValue| std::str::from_utf8(value.as_bytes()).map(str::to_owned);
        headers
            .get_all(name)
            .iter()
            .map(|value| text(value).map_err(|_| Status::bad_request(format!("header {name} is not text"))))
            .collect()
    };
    let first = |name: &str| all(name).map(|values| values.into_iter().next().unwrap_or_default());
    let mut requested = Identity {
        user: first("impersonate-user")?,
        uid: first("impersonate-uid")?,
        groups: all("impersonate-group")?,
        extra: Vec::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // Names of headers are in lower case; an escaped letter keeps its case, as in kube-apiserver.
            requested.extra.push((percent_decode(key), all(name.as_str())?));
        }
    }
    if requested == Identity::default() {
        return Ok(None);
    }
    if requested.user.is_empty() {
        let requested = in_go(&requested);
        return Err(Status::bad_request(format!("requested {requested} without impersonating a user name")));
    }
    Ok(Some(requested))
}

/// A user as Go prints it, which is the text of kube-apiserver.
fn in_go(user: &Identity) -> String {
    let list = |values: &[String]| match values {
        [] => "[]string(nil)".to_owned(),
        values => {
            format!("[]string{{{}}}", values.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", "))
        }
    };
    let extra: BTreeMap<&str, &[String]> = user.extra.iter().map(|(key, values)| (key.as_str(), &**values)).collect();
    let entries: Vec<String> = extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = match entries.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        entries => format!("map[string][]string{{{}}}", entries.join(", ")),
    };
    let (uid, groups) = (&user.uid, list(&user.groups));
    format!("&user.DefaultInfo{{Name:{:?}, UID:{uid:?}, Groups:{groups}, Extra:{extra}}}", user.user)
}

fn remove(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// One permission for each thing that is claimed.
fn needed(requested: &Identity, verb: &str) -> Vec<ResourceAttributes> {
    let attributes = |group: &str, resource: &str, name: &str| ResourceAttributes {
        verb: verb.into(),
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        name: name.into(),
        ..ResourceAttributes::default()
    };
    let mut needed = vec![match account_of(&requested.user) {
        Some((namespace, name)) => {
            ResourceAttributes { namespace: namespace.into(), ..attributes("", "serviceaccounts", name) }
        }
        None => attributes("", "users", &requested.user),
    }];
    needed.extend(requested.groups.iter().map(|group| attributes("", "groups", group)));
    if !requested.uid.is_empty() {
        needed.push(attributes(GROUP, "uids", &requested.uid));
    }
    for (key, values) in &requested.extra {
        needed.extend(
            values
                .iter()
                .map(|value| ResourceAttributes { subresource: key.clone(), ..attributes(GROUP, "userextras", value) }),
        );
    }
    needed
}

fn complete(mut requested: Identity) -> Identity {
    if let (true, Some((namespace, _))) = (requested.groups.is_empty(), account_of(&requested.user)) {
        requested.groups = account_groups(namespace);
    }
    let own = if requested.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !requested.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        requested.groups.push(own.into());
    }
    requested
}

/// Header names cannot contain every character of a key. Invalid escapes are not decoded.
pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escape = (*first == b'%').then(|| tail.get(..2)).flatten();
        let decoded = escape.and_then(|digits| hex::decode(digits).ok()).and_then(|decoded| decoded.first().copied());
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_names_and_escaped_keys_are_decoded() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("impersonate-user", "jürgen"), ("impersonate-extra-example.com%2F%54eam", "ä")] {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.insert(name, http::HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let requested = read(&headers).expect("valid").expect("an identity");
        assert_eq!(requested.user, "jürgen");
        assert_eq!(requested.extra, [("example.com/Team".to_owned(), vec!["ä".to_owned()])]);
        headers.insert("impersonate-user", http::HeaderValue::from_bytes(b"\xff").expect("a value"));
        assert_eq!(read(&headers).expect_err("not text").code, 400);
    }
}
