//! Admission by users' programs: MutatingAdmissionPolicies, MutatingWebhookConfigurations, ValidatingAdmissionPolicies
//! and ValidatingWebhookConfigurations, in this order, as one plugin of the API server. It runs after the server's own
//! plugins.
//!
//! Without a configuration a request costs the load of one atomic. The configurations and policies themselves are never
//! subject to admission by users, so that a wrong one can always be removed.

mod call;
pub mod counted;
mod expressions;
mod matching;
mod mutations;
mod policies;
mod policy;
mod request;
mod review;
mod rounds;
mod table;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apimachinery::Status;
use apiserver::cache::Event;
use apiserver::plugins::Switches;
use apiserver::{Admission, AdmissionRequest};
use arc_swap::ArcSwap;
use client::webhooks::Webhooks;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use world::World;

use counted::Counted;
use table::{GROUP, Kinds, Stored, Table};
use webhooks::Caller;

/// The plugin. It does nothing before [`UserAdmission::enable`].
pub struct UserAdmission {
    world: World,
    webhooks: Webhooks,
    kinds: Kinds,
    counted: Counted,
    stored: Mutex<Stored>,
    table: ArcSwap<Table>,
    is_enabled: AtomicBool,
    /// Whether it is enabled and has something to call.
    is_active: AtomicBool,
}

impl UserAdmission {
    /// `webhooks` opens the connections; `switches` are those of `--enable-admission-plugins` and
    /// `--disable-admission-plugins`.
    pub fn new(webhooks: Webhooks, switches: &Switches, world: World) -> Self {
        Self {
            world,
            webhooks,
            kinds: Kinds::of(switches),
            counted: Counted::default(),
            stored: Mutex::default(),
            table: ArcSwap::default(),
            is_enabled: AtomicBool::new(false),
            is_active: AtomicBool::new(false),
        }
    }

    /// Begins to call. Before, the server creates its own objects: a stored webhook that cannot be reached must not keep
    /// it from starting.
    pub fn enable(&self) {
        let _one_at_a_time = self.stored.lock();
        self.is_enabled.store(true, Ordering::Release);
        self.is_active.store(!self.table.load().is_empty(), Ordering::Release);
    }

    /// Counts calls in a registry.
    pub fn count_in(&self, registry: &metrics::Registry) {
        self.counted.register(registry);
    }

    fn may_match(&self, group: &str, plural: &str, subresource: Option<&str>) -> bool {
        self.is_active.load(Ordering::Relaxed)
            && !table::is_exempt(group, plural)
            && self.table.load().may_match(group, plural, subresource)
    }

    fn caller(&self, request: &AdmissionRequest<'_>) -> Caller<'_> {
        Caller { webhooks: &self.webhooks, world: &self.world, counted: &self.counted, served: request.served() }
    }
}

impl Admission for UserAdmission {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        self.may_match(group, plural, None)
    }

    fn concerns_status(&self, group: &str, plural: &str) -> bool {
        self.may_match(group, plural, Some("status"))
    }

    fn concerns_metadata(&self, group: &str, plural: &str, _fields: &[&str]) -> bool {
        self.may_match(group, plural, Some(""))
    }

    fn runs_user_programs(&self) -> bool {
        true
    }

    fn observe(&self, place: &str, event: &Event) {
        let Some(plural) = place.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) else { return };
        let mut stored = self.stored.lock();
        if stored.absorb(self.kinds, plural, event) {
            let table = stored.table();
            let is_active = !table.is_empty() && self.is_enabled.load(Ordering::Acquire);
            self.table.store(Arc::new(table));
            self.is_active.store(is_active, Ordering::Release);
        }
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let table = self.table.load_full();
            mutations::mutate(&table.mutating_policies, request)?;
            if table.mutating.is_empty() {
                return Ok(());
            }
            self.caller(request).mutate(&table.mutating, request).await
        })
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let table = self.table.load_full();
            policies::validate(&table.policies, request)?;
            if table.validating.is_empty() {
                return Ok(());
            }
            self.caller(request).validate(&table.validating, request).await
        })
    }
}
