//! The dependencies of an object, from the first interpreter layer that supports its kind. Webhooks are not called.

use client::Client;
use interpreter::scripted::Scripts;
use interpreter::{Layer, Native, Operation, shipped};
use karmada_api::config::v1alpha1::{DependentObjectReference, ResourceInterpreterCustomization};
use serde_json::Value;
use world::World;

use crate::error::Error;
use crate::{interpret, interpreting};

/// The layer's name as upstream prints it, and the dependencies; `None` if no layer supports the kind.
///
/// # Errors
/// When customizations cannot be read, or the layer fails.
pub async fn of(
    control: &Client,
    template: &Value,
) -> Result<Option<(&'static str, Vec<DependentObjectReference>)>, Error> {
    found(&interpreting::customizations(control).await?, template)
}

fn found(
    customizations: &[ResourceInterpreterCustomization],
    template: &Value,
) -> Result<Option<(&'static str, Vec<DependentObjectReference>)>, Error> {
    let text = |field: &str| template[field].as_str().unwrap_or_default();
    let engine = interpret::engine(&World::system());
    let configured = Scripts::of_customizations(engine.clone(), customizations);
    let shipped = shipped::layer(engine);
    let layers: [(&str, &dyn Layer); 3] =
        [("configurable", &configured), ("third-party", &shipped), ("default", &Native)];
    let knows = |layer: &dyn Layer| layer.enabled(text("apiVersion"), text("kind"), Operation::InterpretDependency);
    let Some((name, layer)) = layers.into_iter().find(|(_, layer)| knows(*layer)) else { return Ok(None) };
    let references = layer.get_dependencies(template);
    references
        .map(|references| Some((name, references)))
        .map_err(|error| Error::message(format!("dependencies of {}: {error}", template["metadata"]["name"])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_layer_that_knows_the_kind_answers() {
        let script =
            "function GetDependencies(o) return {{apiVersion='v1', kind='Secret', namespace='n', name='s'}} end";
        let customization = json!({"metadata": {"name": "x"}, "spec": {
            "target": {"apiVersion": "a.io/v1", "kind": "Thing"},
            "customizations": {"dependencyInterpretation": {"luaScript": script}}}});
        let customizations = [serde_json::from_value(customization).expect("a customization")];
        let shown = |object: Value| {
            let found = found(&customizations, &object).expect("answers");
            found.map(|(layer, references)| format!("{layer} {}", references.len()))
        };
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"template": {"spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "c"}}]}}}});
        assert_eq!(shown(deployment).as_deref(), Some("default 1"));
        let thing = json!({"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "t"}});
        assert_eq!(shown(thing).as_deref(), Some("configurable 1"));
        assert_eq!(shown(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})), None);
    }
}
