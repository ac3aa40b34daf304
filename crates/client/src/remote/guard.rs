//! Rejects connections to forbidden addresses: in the URL itself, and after the resolution of a name, so that a name
//! that resolves differently after its check is still rejected.
//!
//! Names that a proxy resolves are not checked here.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use apimachinery::addresses;
use http::Uri;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use crate::failure::{Forbidden, Unresolved};
use crate::{Error, Result};
use transport::BoxError;

#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub is_on: bool,
}

impl Guard {
    pub(super) const OFF: Self = Self { is_on: false };

    /// Checks a host that is an address, and the names of metadata services.
    pub(super) fn check_host(self, uri: &Uri) -> Result<()> {
        let host = uri.host().unwrap_or_default();
        match addresses::forbidden_host(host).filter(|_| self.is_on) {
            Some(what) => Err(Error::Config(Forbidden { host: host.to_owned(), what }.to_string())),
            None => Ok(()),
        }
    }

    fn refuses(self, address: IpAddr) -> Option<&'static str> {
        if self.is_on { addresses::forbidden(address) } else { None }
    }
}

/// A resolver that drops forbidden addresses; an error if no address remains.
#[derive(Clone)]
pub(super) struct Guarded<R> {
    pub resolver: R,
    pub guard: Guard,
}

impl<R> Service<Name> for Guarded<R>
where
    R: Service<Name, Error = io::Error>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Future: Send + 'static,
{
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        self.resolver.poll_ready(context).map_err(|error| Unresolved(error).into())
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (guard, host) = (self.guard, name.as_str().to_owned());
        let resolving = self.resolver.call(name);
        Box::pin(async move {
            let found = resolving.await.map_err(Unresolved)?;
            let (mut allowed, mut refused) = (Vec::new(), None);
            for address in found {
                match guard.refuses(address.ip()) {
                    Some(what) => refused = Some(Forbidden { host: format!("{host} ({})", address.ip()), what }),
                    None => allowed.push(address),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                Some(refused) => Err(refused.into()),
                None => Ok(allowed.into_iter()),
            }
        })
    }
}
