//! Plugins for pods, and for the nodes they are on.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::admission::{limits, nodes, service_account};
use serde_json::Value;
use world::World;

use super::table::Table;
use crate::admit::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;

type Outcome<'a> = BoxFuture<'a, Result<(), Status>>;

fn done<'a>(outcome: Result<(), Status>) -> Outcome<'a> {
    Box::pin(std::future::ready(outcome))
}

fn are_pods(group: &str, plural: &str) -> bool {
    group.is_empty() && plural == "pods"
}

fn is_create(request: &AdmissionRequest<'_>) -> bool {
    request.operation == Operation::Create && request.subresource.is_empty()
}

pub(super) struct LimitRanger {
    ranges: Table,
}

impl Default for LimitRanger {
    fn default() -> Self {
        Self { ranges: Table::of("", "limitranges") }
    }
}

impl LimitRanger {
    fn ranges_of(&self, request: &AdmissionRequest<'_>) -> Vec<Arc<Value>> {
        request.key.namespace().map(|namespace| self.ranges.in_namespace(namespace)).unwrap_or_default()
    }
}

impl Admission for LimitRanger {
    fn name(&self) -> Option<&'static str> {
        Some("LimitRanger")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && matches!(plural, "pods" | "persistentvolumeclaims")
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> Outcome<'a> {
        let ranges = self.ranges_of(request);
        if is_create(request)
            && request.info.resource.plural == "pods"
            && let Some(pod) = request.object.as_deref_mut()
        {
            limits::set_defaults(pod, &ranges.iter().map(Arc::as_ref).collect::<Vec<_>>());
        }
        done(Ok(()))
    }

    /// Running pods may stay as they are; claims are checked when they grow.
    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> Outcome<'a> {
        let plural = request.info.resource.plural.as_str();
        let looks = is_create(request) || (request.operation == Operation::Update && plural != "pods");
        let (true, true, Some(object)) = (looks, request.subresource.is_empty(), request.object.as_deref()) else {
            return done(Ok(()));
        };
        if let Err(unknown) = self.ranges.check(request, request.key.namespace()) {
            return done(Err(unknown));
        }
        let ranges = self.ranges_of(request);
        let wrong = limits::violations(plural, object, &ranges.iter().map(Arc::as_ref).collect::<Vec<_>>());
        done(match &wrong[..] {
            [] => Ok(()),
            [one] => Err(request.forbidden(one)),
            many => Err(request.forbidden(&format!("[{}]", many.join(", ")))),
        })
    }

    fn observe(&self, place: &str, event: &Event) {
        self.ranges.observe(place, event);
    }
}

/// Waits for an account that may be created shortly: a namespace's default one follows the namespace.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
const SUFFIX: usize = 5;

pub(super) struct ServiceAccounts {
    accounts: Table,
    world: World,
}

impl ServiceAccounts {
    pub(super) fn new(world: World) -> Self {
        Self { accounts: Table::of("", "serviceaccounts"), world }
    }

    async fn find(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            if let Some(account) = self.accounts.get(key) {
                return Some(account);
            }
        }
        None
    }

    async fn complete(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let Some(pod) = request.object.as_deref_mut() else { return Ok(()) };
        let name = match service_account::concerns(pod) {
            Ok(true) => service_account::choose(pod),
            Ok(false) => return Ok(()),
            Err(why) => return Err(request.forbidden(&why)),
        };
        let namespace = request.key.namespace().unwrap_or_default().to_owned();
        let Some(account) = self.find(&ObjectKey::namespaced(namespace.as_str(), name.as_str())).await else {
            let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
            return Err(request.forbidden(&why));
        };
        if let Some(pod) = request.object.as_deref_mut() {
            service_account::complete(pod, &account, &self.world.random_suffix(SUFFIX));
        }
        Ok(())
    }
}

impl Admission for ServiceAccounts {
    fn name(&self) -> Option<&'static str> {
        Some("ServiceAccount")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        are_pods(group, plural)
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> Outcome<'a> {
        if !is_create(request) {
            return done(Ok(()));
        }
        Box::pin(self.complete(request))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.accounts.observe(place, event);
    }
}

pub(super) struct Tolerations;

impl Admission for Tolerations {
    fn name(&self) -> Option<&'static str> {
        Some("DefaultTolerationSeconds")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        are_pods(group, plural)
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> Outcome<'a> {
        if request.operation != Operation::Delete
            && request.subresource.is_empty()
            && let Some(pod) = request.object.as_deref_mut()
        {
            nodes::tolerate_failure(pod);
        }
        done(Ok(()))
    }
}

pub(super) struct NodeTaints;

impl Admission for NodeTaints {
    fn name(&self) -> Option<&'static str> {
        Some("TaintNodesByCondition")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "nodes"
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> Outcome<'a> {
        if is_create(request)
            && let Some(node) = request.object.as_deref_mut()
        {
            nodes::taint_new(node);
        }
        done(Ok(()))
    }
}

pub(super) struct RuntimeClasses {
    classes: Table,
}

impl Default for RuntimeClasses {
    fn default() -> Self {
        Self { classes: Table::of("node.k8s.io", "runtimeclasses") }
    }
}

impl RuntimeClasses {
    fn apply(&self, pod: &mut Value) -> Result<(), String> {
        let name = pod["spec"]["runtimeClassName"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return nodes::check_without_runtime_class(pod);
        }
        let class = self.classes.get(&ObjectKey::cluster(name.as_str()));
        let class = class.ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))?;
        nodes::apply_runtime_class(pod, &class)
    }
}

impl Admission for RuntimeClasses {
    fn name(&self) -> Option<&'static str> {
        Some("RuntimeClass")
    }

    fn concerns(&self, group: &str, plural: &str) -> bool {
        are_pods(group, plural)
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> Outcome<'a> {
        let outcome = match request.object.as_deref_mut() {
            Some(pod) if request.operation == Operation::Create && request.subresource.is_empty() => self.apply(pod),
            _ => Ok(()),
        };
        done(outcome.map_err(|why| request.forbidden(&why)))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.classes.observe(place, event);
    }
}
