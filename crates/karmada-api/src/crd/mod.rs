//! Makes CustomResourceDefinitions; [`crate::definitions`] lists them.
//!
//! Their schemas are the files of `schemas/`. A test derives them from the types and compares, and writes them with
//! `UPDATE_EXPECT=1`: what derives schemas would be a fifth of this crate's code.

pub(crate) mod files;
#[cfg(test)]
pub(crate) mod schema;
#[cfg(test)]
pub(crate) mod structural;

#[cfg(not(test))]
pub(crate) use schema_attributes::JsonSchema;
#[cfg(test)]
pub(crate) use schemars::JsonSchema;

pub(crate) use files::schema_of;

use apimachinery::schema::{Schema, SchemaId, Schemas, Type, TypeOf};
use serde_json::{Value, json};

use crate::ApiType;

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
    pub schema: fn() -> Value,
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
    let mut schema = (version.schema)();
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

/// The type of a natively served kind, for patches, apply and OpenAPI.
pub(crate) fn type_of<T: ApiType>(object_meta: Option<&TypeOf>) -> TypeOf {
    let mut type_ = apiextensions::structural::compile(Some(&schema_of::<T>()), object_meta);
    name_quantities(std::sync::Arc::make_mut(&mut type_.schemas));
    type_
}

/// Quantities of native kinds are typed, unlike those of a definition: any number is one.
fn name_quantities(schemas: &mut Schemas) {
    let quantity = |(id, node): (SchemaId, &Schema)| {
        let named = Schema {
            definition: Some("io.k8s.apimachinery.pkg.api.resource.Quantity".into()),
            type_: Type::String,
            int_or_string: false,
            constraints: None,
            ..node.clone()
        };
        node.int_or_string.then_some((id, named))
    };
    let quantities: Vec<(SchemaId, Schema)> = schemas.iter().filter_map(quantity).collect();
    for (id, node) in quantities {
        schemas.set(id, node);
    }
}
