//! The methods of authentication that call other programs, as one: issuers first, then the webhook.

use apimachinery::Status;
use apiserver::auth::authn::{Holder, OtherMethods};
use arc_swap::ArcSwap;
use authentication::{Anonymous, Configuration, User};
use futures::future::BoxFuture;
use transport::Identity;

use crate::issuers::Issuers;
use crate::webhook_tokens::WebhookTokens;

/// OpenID Connect and webhook authentication. The issuers can be replaced while requests are served.
#[derive(Default)]
pub struct Methods {
    configured: ArcSwap<Configured>,
    /// `--authentication-token-webhook-config-file`.
    webhook: Option<WebhookTokens>,
    /// `--api-audiences`.
    audiences: Vec<String>,
}

#[derive(Default)]
struct Configured {
    issuers: Issuers,
    anonymous: Option<Anonymous>,
}

impl Methods {
    /// Without issuers. `audiences` are those of the server.
    pub fn new(webhook: Option<WebhookTokens>, audiences: Vec<String>) -> Self {
        Self { configured: ArcSwap::default(), webhook, audiences }
    }

    /// Takes the issuers of a configuration instead of the present ones, from the next request on.
    pub fn replace(&self, configuration: Configuration) {
        let issuers = Issuers::new(configuration.issuers);
        issuers.warm_up();
        self.configured.store(Configured { issuers, anonymous: configuration.anonymous }.into());
    }

    /// The common audiences of the request and the server, for a token that is valid for the whole server; `None`
    /// without any.
    fn common(&self, requested: Option<&[String]>) -> Option<Vec<String>> {
        let Some(requested) = requested else { return Some(self.audiences.clone()) };
        let common: Vec<String> = requested.iter().filter(|it| self.audiences.contains(it)).cloned().collect();
        (!common.is_empty()).then_some(common)
    }
}

impl OtherMethods for Methods {
    fn token<'a>(
        &'a self,
        token: &'a str,
        audiences: Option<&'a [String]>,
        seconds: i64,
    ) -> BoxFuture<'a, Result<Option<Holder>, Status>> {
        Box::pin(async move {
            let configured = self.configured.load_full();
            if let Some(user) = configured.issuers.user(token, seconds).await {
                return Ok(self.common(audiences).map(|common| (identity(user), common)));
            }
            let Some(webhook) = &self.webhook else { return Ok(None) };
            Ok(webhook.user(token, audiences.unwrap_or(&self.audiences), &self.audiences).await)
        })
    }

    fn allows_anonymous(&self, path: &str) -> Option<bool> {
        self.configured.load().anonymous.as_ref().map(|anonymous| anonymous.allows(path))
    }
}

fn identity(user: User) -> Identity {
    Identity { user: user.name, uid: user.uid, groups: user.groups, extra: user.extra }
}
