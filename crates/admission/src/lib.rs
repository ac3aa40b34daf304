//! Admission by users' programs: MutatingAdmissionPolicies, MutatingWebhookConfigurations, ValidatingAdmissionPolicies
//! and ValidatingWebhookConfigurations, in this order, as one plugin of the API server. It runs after the server's own
//! plugins.
//!
//! Without a configuration a request costs the load of one atomic. The configurations and policies themselves are never
//! subject to admission by users, so that a wrong one can always be removed.

mod call;
mod computed;
pub mod configuration;
mod conversions;
pub mod counted;
mod expressions;
mod matching;
mod mutations;
mod policies;
mod policy;
mod request;
mod response;
mod review;
mod rights;
mod rounds;
mod table;
mod webhooks;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use apimachinery::Status;
use apiserver::admit::durations::{Durations, Phase};
use apiserver::admit::plugins::Switches;
use apiserver::cache::Event;
use apiserver::{Admission, AdmissionRequest, Operation};
use arc_swap::ArcSwap;
use client::webhooks::Webhooks;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;
use world::World;

pub use configuration::Configuration;
pub use conversions::ConversionCalls;
use counted::Counted;
pub use review::decided;
use table::{GROUP, Kinds, Stored, Table};
use webhooks::Caller;

/// The plugin. It is disabled before [`UserAdmission::enable`].
pub struct UserAdmission {
    world: World,
    mutating: Webhooks,
    validating: Webhooks,
    kinds: Kinds,
    counted: Counted,
    durations: OnceLock<Durations>,
    stored: Mutex<Stored>,
    table: ArcSwap<Table>,
    is_enabled: AtomicBool,
    /// Whether it is enabled and has something to call.
    is_active: AtomicBool,
}

impl UserAdmission {
    /// `configuration` has the credentials for webhooks; `switches` are those of `--enable-admission-plugins` and
    /// `--disable-admission-plugins`.
    pub fn new(configuration: Configuration, switches: &Switches, world: World) -> Self {
        Self {
            world,
            mutating: Webhooks::with_credentials(configuration.mutating),
            validating: Webhooks::with_credentials(configuration.validating),
            kinds: Kinds::of(switches),
            counted: Counted::default(),
            durations: OnceLock::new(),
            stored: Mutex::default(),
            table: ArcSwap::default(),
            is_enabled: AtomicBool::new(false),
            is_active: AtomicBool::new(false),
        }
    }

    /// Enables the plugin. Before that, the server creates its own objects: an unreachable webhook must not prevent a
    /// start.
    pub fn enable(&self) {
        let _one_at_a_time = self.stored.lock();
        self.is_enabled.store(true, Ordering::Release);
        self.is_active.store(!self.table.load().is_empty(), Ordering::Release);
    }

    /// Counts calls and durations in a registry.
    pub fn count_in(&self, registry: &metrics::Registry) {
        self.counted.register(registry);
        self.durations.get_or_init(|| Durations::new(registry));
    }

    fn took(&self, plugin: &str, step: (Phase, Operation), outcome: &Result<(), Status>, began: Instant) {
        if let Some(durations) = self.durations.get() {
            durations.plugin(plugin, step, outcome.is_err(), began);
        }
    }

    fn may_match(&self, group: &str, plural: &str, subresource: Option<&str>) -> bool {
        self.is_active.load(Ordering::Relaxed)
            && !table::is_exempt(group, plural)
            && self.table.load().may_match(group, plural, subresource)
    }

    fn caller<'c>(&'c self, webhooks: &'c Webhooks, request: &AdmissionRequest<'_>) -> Caller<'c> {
        Caller { webhooks, world: &self.world, counted: &self.counted, served: request.served() }
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
            if !table.mutating_policies.is_empty() {
                let (operation, began) = (request.operation, Instant::now());
                let outcome = mutations::mutate(&table.mutating_policies, request).await;
                self.took("MutatingAdmissionPolicy", (Phase::Admit, operation), &outcome, began);
                outcome?;
            }
            if table.mutating.is_empty() {
                return Ok(());
            }
            let (operation, began) = (request.operation, Instant::now());
            let outcome = self.caller(&self.mutating, request).mutate(&table.mutating, request).await;
            self.took("MutatingAdmissionWebhook", (Phase::Admit, operation), &outcome, began);
            outcome
        })
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let table = self.table.load_full();
            if !table.policies.is_empty() {
                let began = Instant::now();
                let outcome = policies::validate(&table.policies, request).await;
                self.took("ValidatingAdmissionPolicy", (Phase::Validate, request.operation), &outcome, began);
                outcome?;
            }
            if table.validating.is_empty() {
                return Ok(());
            }
            let began = Instant::now();
            let outcome = self.caller(&self.validating, request).validate(&table.validating, request).await;
            self.took("ValidatingAdmissionWebhook", (Phase::Validate, request.operation), &outcome, began);
            outcome
        })
    }
}
