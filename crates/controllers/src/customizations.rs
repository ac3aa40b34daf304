//! The interpreter of this process: the users' customizations before the shipped ones before the built-in kinds.

use std::sync::Arc;

use controller_runtime::InformerSet;
use interpreter::lua::{Budget, Clock, Engine};
use interpreter::{Customizations, Interpreter, Scripts, shipped};
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use world::World;

use crate::stores::Store;

/// Follows the customizations of the control plane. Until their cache is complete those that are missing do not count.
pub(crate) fn interpreter(control: &InformerSet, world: &World) -> Interpreter {
    let world = world.clone();
    let clock: Clock = Arc::new(move || world.now());
    let engine = Engine::new(clock, Budget::default());
    let customizations = Arc::new(Customizations::new(engine.clone()));
    let shipped = Arc::new(shipped::layer(engine.clone()));
    let informer = control.informer(&ResourceInterpreterCustomization::api_resource());
    let store: Store<ResourceInterpreterCustomization> = Store::follow(&[&informer], |object| object.decode());
    let layer = customizations.clone();
    informer.subscribe(move |_| {
        let all = store.all();
        layer.replace(Scripts::of_customizations(engine.clone(), all.iter().map(AsRef::as_ref)));
    });
    Interpreter::with_layers(vec![customizations, shipped])
}
