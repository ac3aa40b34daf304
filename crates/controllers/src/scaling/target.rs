//! The scaled object: its resource and its scale in the control plane.

use apimachinery::{ApiResource, GroupVersionKind, ObjectKey};
use http::Method;
use karmada_api::autoscaling::v1alpha1::CrossVersionObjectReference;
use serde_json::{Value, json};

use crate::Context;

/// The resource and the key of a reference.
///
/// # Errors
/// In words.
pub(super) async fn locate(
    context: &Context,
    reference: &CrossVersionObjectReference,
    namespace: &str,
) -> Result<(ApiResource, ObjectKey), String> {
    let kind = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind);
    let kind = kind.map_err(|error| error.to_string())?;
    let resource = context.mapper.resource(&kind).await.map_err(|error| error.to_string())?;
    Ok((resource, ObjectKey::namespaced(namespace, reference.name.as_str())))
}

/// An object with the subresource `scale`.
pub(super) struct Target {
    pub resource: ApiResource,
    pub key: ObjectKey,
    /// As it was read.
    scale: Value,
}

impl Target {
    /// Reads the scale of a reference.
    ///
    /// # Errors
    /// In words.
    pub async fn read(
        context: &Context,
        reference: &CrossVersionObjectReference,
        namespace: &str,
    ) -> Result<Self, String> {
        let (resource, key) = locate(context, reference, namespace).await?;
        Self::of(context, resource, key).await
    }

    /// Reads the scale of an object.
    ///
    /// # Errors
    /// In words.
    pub async fn of(context: &Context, resource: ApiResource, key: ObjectKey) -> Result<Self, String> {
        let scale = readings::scale(&context.client, &resource, &key).await.map_err(|error| error.to_string())?;
        Ok(Self { resource, key, scale })
    }

    pub fn replicas(&self) -> i32 {
        let replicas = self.scale["spec"]["replicas"].as_i64();
        replicas.and_then(|count| i32::try_from(count).ok()).unwrap_or(0)
    }

    /// Writes replicas, unless the object has changed since it was read.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn write(&self, context: &Context, replicas: i32) -> client::Result<()> {
        let mut scale = self.scale.clone();
        scale["spec"] = json!({"replicas": replicas});
        let path = format!("{}/scale", self.resource.object_path(&self.key));
        context.client.request(Method::PUT, &path, Some(scale)).await.map(|_| ())
    }
}
