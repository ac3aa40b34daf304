//! Makes CustomResourceDefinitions from types; [`crate::definitions`] lists them.

pub mod schema;

mod structural;

use serde_json::{Value, json};

/// The parts of a manifest outside its schemas.
pub(crate) struct Definition {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub namespaced: bool,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub versions: &'static [Version],
}

impl Definition {
    /// The name of the CustomResourceDefinition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

pub(crate) struct Version {
    pub name: &'static str,
    pub storage: bool,
    pub status: bool,
    /// Name, type and JSON path.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
    pub schema: fn() -> schemars::Schema,
}

/// The manifest of a definition.
pub(crate) fn manifest(definition: &Definition) -> Value {
    let mut names = json!({
        "kind": definition.kind,
        "listKind": format!("{}List", definition.kind),
        "plural": definition.plural,
        "singular": definition.singular,
    });
    for (key, list) in [("shortNames", definition.short_names), ("categories", definition.categories)] {
        if !list.is_empty() {
            names[key] = json!(list);
        }
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": definition.name() },
        "spec": {
            "group": definition.group,
            "names": names,
            "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
            "versions": definition.versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

fn version(version: &Version) -> Value {
    let mut schema = structural::structural((version.schema)());
    // Kubernetes defines the schema of metadata; a definition may not even describe it.
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({ "type": "object" });
    }
    let mut out = json!({
        "name": version.name,
        "served": true,
        "storage": version.storage,
        "schema": { "openAPIV3Schema": schema },
        "subresources": if version.status { json!({ "status": {} }) } else { json!({}) },
    });
    if !version.columns.is_empty() {
        out["additionalPrinterColumns"] = version
            .columns
            .iter()
            .map(|(name, type_, path)| json!({ "name": name, "type": type_, "jsonPath": path }))
            .collect();
    }
    out
}

/// The JSON schema of a type without references.
pub(crate) fn schema_of<T: schemars::JsonSchema>() -> schemars::Schema {
    let settings = schemars::generate::SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// The type of a natively served kind, for patches, apply and OpenAPI.
pub(crate) fn type_of<T: schemars::JsonSchema>(
    object_meta: Option<&apimachinery::schema::TypeOf>,
) -> apimachinery::schema::TypeOf {
    apiextensions::structural::compile(Some(&structural::structural(schema_of::<T>())), object_meta)
}
