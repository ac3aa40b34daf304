//! What a ResourceInterpreterCustomization must keep to: its scripts compile, and no two of them answer the same
//! question about a kind. The rules are `interpreter::scripted`'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, Status};
use apiserver::cache::Event;
use apiserver::{Admission, AdmissionRequest, Operation};
use futures::future::BoxFuture;
use interpreter::lua::{Budget, Clock, Engine};
use interpreter::scripted;
use karmada_api::admission::{self, Denied};
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use parking_lot::RwLock;
use serde::Deserialize;
use world::World;

const GROUP: &str = "config.karmada.io";
const KIND: &str = "ResourceInterpreterCustomization";
const PLACE: &str = "config.karmada.io/resourceinterpretercustomizations";

pub struct CustomizationAdmission {
    engine: Engine,
    /// Those in the store, by name.
    stored: RwLock<BTreeMap<String, Arc<ResourceInterpreterCustomization>>>,
}

impl CustomizationAdmission {
    pub fn new(world: &World) -> Self {
        let world = world.clone();
        let clock: Clock = Arc::new(move || world.now());
        Self { engine: Engine::new(clock, Budget::default()), stored: RwLock::default() }
    }

    fn check(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let named = &request.info.resource;
        let ours = named.group == GROUP && named.kind == KIND && request.subresource.is_empty();
        let Some(object) = request.object.as_deref().filter(|_| ours && request.operation != Operation::Delete) else {
            return Ok(());
        };
        let refused =
            |denied: Denied| denied.to_status(&admission::webhook_name(admission::Operation::Create, GROUP, KIND));
        let customization = ResourceInterpreterCustomization::deserialize(object)
            .map_err(|error| refused(Denied::Undecodable(error.to_string())))?;
        let others: Vec<_> = self.stored.read().values().cloned().collect();
        scripted::validate(&self.engine, &customization, &others).map_err(|text| refused(Denied::Rule(text)))
    }
}

impl Admission for CustomizationAdmission {
    fn observe(&self, place: &str, event: &Event) {
        if place != PLACE {
            return;
        }
        let decoded = |object: &Arc<Object>| object.decode::<ResourceInterpreterCustomization>().ok();
        let mut stored = self.stored.write();
        match (&event.current, &event.previous) {
            (Some(object), _) => {
                if let Some(customization) = decoded(object) {
                    stored.insert(object.name().to_owned(), Arc::new(customization));
                }
            }
            (None, Some(object)) => drop(stored.remove(object.name())),
            (None, None) => {}
        }
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let checked = self.check(request);
        Box::pin(std::future::ready(checked))
    }
}
