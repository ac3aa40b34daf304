//! Authentication by client certificate, bearer token (static, bootstrap, service account), front proxy, or
//! anonymously.
//!
//! The first method that accepts the credentials decides; credentials that no method accepts yield a 401; a request
//! without credentials is anonymous, if that is enabled. Authentication does not determine rights.

mod bootstrap_tokens;
pub(crate) mod expiry;
mod front_proxy;
mod impersonation;
mod recent;
mod service_account;
mod static_tokens;
mod websocket;
mod x509;

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::status::StatusReason;
use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use transport::Identity;

pub use bootstrap_tokens::BootstrapTokens;
pub use front_proxy::FrontProxy;
pub use impersonation::impersonate;
pub use service_account::{ServiceAccountTokens, account_groups, account_of};
pub use static_tokens::{StaticTokens, TokenFileError};
pub use x509::{ClientAuthority, ClientAuthorityError};

use crate::request::peer::Peer;

/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The extra under which a credential names itself.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Reads the objects that a credential depends on, as they are in the store now (not from a cache that may lag).
pub trait Lookup: Send + Sync + 'static {
    /// `resource` is the plural of a core/v1 kind: `serviceaccounts`, `secrets`, `pods` or `nodes`.
    fn get(&self, resource: &'static str, key: ObjectKey) -> BoxFuture<'_, Result<Option<Arc<Object>>, Status>>;
}

/// The user of a token, and the requested audiences that it is valid for.
pub type Holder = (Identity, Vec<String>);

/// Methods that call other programs: OpenID Connect, webhooks.
pub trait OtherMethods: Send + Sync + 'static {
    /// The holder of a token and the audiences it is valid for; `None` if no method accepts it. `audiences` are the
    /// requested ones; `None` means the server's own. `Err` only if no method could decide.
    fn token<'a>(
        &'a self,
        token: &'a str,
        audiences: Option<&'a [String]>,
        seconds: i64,
    ) -> BoxFuture<'a, Result<Option<Holder>, Status>>;

    /// Whether a request of this path without credentials is `system:anonymous`; `None` leaves it to
    /// [`Authentication::anonymous`].
    fn allows_anonymous(&self, _path: &str) -> Option<bool> {
        None
    }
}

/// The methods a server accepts. The default accepts in-process callers only.
#[derive(Default)]
pub struct Authentication {
    /// API servers in front of this one that authenticate users.
    pub front_proxy: Option<FrontProxy>,
    /// The authority of client certificates.
    pub client_authority: Option<ClientAuthority>,
    /// Tokens from a file.
    pub static_tokens: Option<StaticTokens>,
    /// Bootstrap tokens.
    pub bootstrap_tokens: Option<BootstrapTokens>,
    /// Tokens of service accounts.
    pub service_accounts: Option<ServiceAccountTokens>,
    /// Whether a request without credentials is `system:anonymous`; otherwise it is a 401.
    pub anonymous: bool,
    /// Methods that call external programs; they are last.
    pub others: Option<Arc<dyn OtherMethods>>,
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authentication(..)")
    }
}

/// The 401 of credentials that no method accepts.
pub fn unauthorized() -> Status {
    Status::failure(StatusReason::Unauthorized, "Unauthorized")
}

impl Authentication {
    /// `seconds` is now, since the epoch.
    ///
    /// # Errors
    /// 401 when no method accepts the credentials; 500 when the store cannot be read.
    pub async fn authenticate(&self, request: &http::request::Parts, seconds: i64) -> Result<Identity, Status> {
        let peer = request.extensions.get::<Peer>();
        if let (Some(proxy), Some(peer)) = (&self.front_proxy, peer)
            && let Some(identity) = proxy.authenticate(peer, &request.headers, seconds)
        {
            // An identity that the other server has not authenticated is not authenticated here.
            let unknown = identity.groups.iter().any(|group| group == UNAUTHENTICATED);
            return Ok(if unknown { identity } else { authenticated(identity) });
        }
        let mut refused = false;
        if let (Some(authority), Some(peer)) = (&self.client_authority, peer) {
            match authority.authenticate(peer, seconds) {
                Some(Some(identity)) => return Ok(authenticated(identity)),
                Some(None) => refused = true,
                None => {}
            }
        }
        let token = match bearer(&request.headers) {
            Some(token) => Some(Cow::Borrowed(token)),
            None => websocket::token(&request.headers)?.map(Cow::Owned),
        };
        if let Some(token) = token {
            return match self.token(&token, None, seconds).await? {
                Some((identity, _)) => Ok(identity),
                None => Err(unauthorized()),
            };
        }
        if refused || !self.allows_anonymous(request.uri.path()) {
            return Err(unauthorized());
        }
        Ok(Identity { user: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Identity::default() })
    }

    /// The holder of a bearer token and the audiences it is valid for, or `None` if no method accepts it. `audiences`
    /// are the requested ones; `None` means the server's own.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn token(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        seconds: i64,
    ) -> Result<Option<(Identity, Vec<String>)>, Status> {
        if let Some(identity) = self.static_tokens.as_ref().and_then(|tokens| tokens.get(token)) {
            return Ok(self.common(audiences).map(|common| (authenticated(identity), common)));
        }
        if let Some(tokens) = &self.bootstrap_tokens
            && let Some(identity) = tokens.authenticate(token, seconds).await?
        {
            return Ok(self.common(audiences).map(|common| (authenticated(identity), common)));
        }
        let mut found = match &self.service_accounts {
            Some(accounts) => accounts.authenticate(token, audiences, seconds).await?,
            None => None,
        };
        if let (None, Some(others)) = (&found, &self.others) {
            found = others.token(token, audiences, seconds).await?;
        }
        Ok(found.map(|(identity, audiences)| (authenticated(identity), audiences)))
    }

    /// The common audiences of the request and the server, for a token without audiences; `None` if there are none.
    fn common(&self, requested: Option<&[String]>) -> Option<Vec<String>> {
        let Some(requested) = requested else { return Some(Vec::new()) };
        if self.service_accounts.is_none() {
            return Some(requested.to_vec());
        }
        let common: Vec<String> = requested.iter().filter(|it| self.audiences().contains(it)).cloned().collect();
        (!common.is_empty()).then_some(common)
    }

    /// The audiences of the server, for which a review is that requests no others.
    pub fn audiences(&self) -> &[String] {
        self.service_accounts.as_ref().map_or(&[], |accounts| &accounts.audiences)
    }

    fn allows_anonymous(&self, path: &str) -> bool {
        self.others.as_ref().and_then(|others| others.allows_anonymous(path)).unwrap_or(self.anonymous)
    }
}

fn authenticated(mut identity: Identity) -> Identity {
    if !identity.groups.iter().any(|group| group == AUTHENTICATED) {
        identity.groups.push(AUTHENTICATED.into());
    }
    identity
}

/// The bearer token of a request. Other schemes are ignored, as upstream ignores them.
fn bearer(headers: &http::HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
