//! The input of `kubectl explain`: every field of every kind of Karmada has a description, in OpenAPI v2 and v3. The
//! transcript `explain.txt` has the output of the real kubectl.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use crate::plane::Plane;

/// The keywords of a schema that have subschemas.
const NESTED: [&str; 2] = ["items", "additionalProperties"];

/// One OpenAPI document.
struct Document<'a> {
    /// The models by name.
    models: &'a Value,
    prefix: &'a str,
    seen: BTreeSet<String>,
    fields: usize,
    bare: Vec<String>,
}

impl<'a> Document<'a> {
    /// The model that a schema refers to, alone or within `allOf`.
    fn referred(&self, schema: &'a Value) -> Option<(&'a str, &'a Value)> {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str())?;
        let name = reference.strip_prefix(self.prefix)?;
        Some((name, &self.models[name]))
    }

    /// At the field itself: kubectl does not use the description of the referenced model.
    fn is_described(schema: &Value) -> bool {
        schema["description"].as_str().is_some_and(|text| !text.trim().is_empty())
    }

    fn walk(&mut self, schema: &'a Value, path: &str) {
        if let Some((name, model)) = self.referred(schema)
            && self.seen.insert(name.to_owned())
        {
            assert!(model.is_object(), "{path} refers to {name}, which is not there");
            self.walk(model, path);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            self.fields += 1;
            if !Self::is_described(property) {
                self.bare.push(path.clone());
            }
            self.walk(property, &path);
        }
        for key in NESTED {
            if schema[key].is_object() {
                self.walk(&schema[key], path);
            }
        }
    }

    /// Every kind of Karmada and of the multicluster groups; returns their names.
    fn check(models: &'a Value, prefix: &'a str) -> (BTreeSet<String>, usize) {
        let mut document = Document { models, prefix, seen: BTreeSet::new(), fields: 0, bare: Vec::new() };
        let mut kinds = BTreeSet::new();
        for model in models.as_object().into_iter().flatten().map(|(_, model)| model) {
            let gvks = model["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            let is_karmada_group = |group: &str| group.ends_with(".karmada.io") || group == "multicluster.x-k8s.io";
            for gvk in gvks.filter(|gvk| gvk["group"].as_str().is_some_and(is_karmada_group)) {
                let kind = gvk["kind"].as_str().unwrap_or_default();
                if !kind.ends_with("List") && !kind.ends_with("Options") {
                    let name = format!("{}/{kind}", gvk["version"].as_str().unwrap_or_default());
                    assert!(Self::is_described(model), "{name}");
                    document.walk(model, &name);
                    kinds.insert(name);
                }
            }
        }
        assert_eq!(document.bare, Vec::<String>::new(), "fields without a description");
        (kinds, document.fields)
    }
}

async fn json(plane: &Plane, path: &str) -> Value {
    let bytes = plane.client().request(Method::GET, path, None).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test(start_paused = true)]
async fn every_field_is_described_in_both_documents() {
    let plane = Plane::start().await;
    let old = json(&plane, "/openapi/v2").await;
    let (kinds, fields) = Document::check(&old["definitions"], "#/definitions/");
    // 21 kinds that are CRDs, two of them in two versions; Cluster, ResourceRegistry, Search, Proxying.
    assert_eq!(kinds.len(), 25, "{kinds:?}");
    assert!(fields > 1000, "{fields} fields");

    let index = json(&plane, "/openapi/v3").await;
    let mut all = BTreeSet::new();
    for (path, _) in index["paths"].as_object().expect("an index") {
        let group = path.strip_prefix("apis/").and_then(|rest| rest.split_once('/')).map_or("", |(group, _)| group);
        if group.ends_with(".karmada.io") || group == "multicluster.x-k8s.io" {
            let document = json(&plane, &format!("/openapi/v3/{path}")).await;
            let (kinds, fields) = Document::check(&document["components"]["schemas"], "#/components/schemas/");
            assert!(!kinds.is_empty() && fields > 0, "{path}");
            all.extend(kinds);
        }
    }
    assert_eq!(all, kinds);
}
