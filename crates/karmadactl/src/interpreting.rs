//! The interpreter of the control plane: its customizations, the shipped ones and the built-in kinds. Webhooks are not
//! called; a kind that only a webhook interprets is unknown here.

use std::sync::Arc;

use client::Client;
use interpreter::scripted::Scripts;
use interpreter::{Interpreter, shipped};
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use world::World;

use crate::error::Error;
use crate::interpret;
use crate::reading::list;

/// # Errors
/// When they cannot be read.
pub async fn customizations(control: &Client) -> Result<Vec<ResourceInterpreterCustomization>, Error> {
    let resource = ResourceInterpreterCustomization::api_resource();
    list(control, &resource, None, |object| ResourceInterpreterCustomization::from_object(object)).await
}

/// # Errors
/// When the customizations cannot be read.
pub async fn interpreter(control: &Client) -> Result<Interpreter, Error> {
    let customizations = customizations(control).await?;
    let engine = interpret::engine(&World::system());
    let configured = Scripts::of_customizations(engine.clone(), &customizations);
    Ok(Interpreter::with_layers(vec![Arc::new(configured), Arc::new(shipped::layer(engine))]))
}
