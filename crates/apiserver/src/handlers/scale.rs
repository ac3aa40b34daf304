//! The scale subresource: `autoscaling/v1` Scale in front of two fields of the object.

use apimachinery::resource::Subresource;
use apimachinery::{Object, Status, merge_patch};
use http::StatusCode;
use serde_json::{Value, json};
use transport::{Body, Response};

use super::Call;
use super::ownership::Owners;
use crate::request::options::Write;
use crate::{errors, respond};

impl Call<'_> {
    pub(super) async fn scale(&self, body: Body) -> Result<Response, Status> {
        if self.info.verb == "get" {
            self.server.cache.catch_up().await?;
            let stored = self.cache().get(&self.key()).ok_or_else(|| self.not_found(&self.info.name))?;
            let served = self.served(stored)?;
            return Ok(respond::value(StatusCode::OK, &self.scale_of(&served)?));
        }
        let is_patch = self.info.verb == "patch";
        let options = self.write_options(if is_patch { Write::Patch } else { Write::Update })?;
        let bytes = super::body::read(body).await?;
        let wanted: Value = match super::body::media_type(self.headers) {
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                serde_json::from_slice(&bytes).map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?
            }
            _ => super::body::decode(self.headers, &bytes)?,
        };
        let (spec_replicas, ..) = self.scale_paths()?;
        let changed = self
            .modify(&self.key(), Owners::Track, options.dry_run, |old| {
                let object = Object::from_value(old).map_err(errors::document)?;
                let mut scale = self.scale_of(&object)?;
                if is_patch {
                    merge_patch::apply(&mut scale, &wanted);
                } else {
                    scale.clone_from(&wanted);
                }
                let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
                if replicas < 0 {
                    let path = apimachinery::field::Path::new("spec").child("replicas");
                    let why = "must be greater than or equal to 0";
                    let error = apimachinery::field::Error::invalid(&path, replicas, why);
                    return Err(Status::invalid("autoscaling", "Scale", &self.info.name, &[error]));
                }
                let mut new = old.clone();
                *field(&mut new, &spec_replicas) = replicas.into();
                let version = wanted["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                new["metadata"]["resourceVersion"] = version.into();
                Ok(new)
            })
            .await?;
        Ok(respond::value(StatusCode::OK, &self.scale_of(&changed.object)?))
    }

    fn scale_paths(&self) -> Result<(String, String, Option<String>), Status> {
        let found = self.resource.info.subresources.iter().find_map(|subresource| match subresource {
            Subresource::Scale { spec_replicas, status_replicas, label_selector } => {
                Some((spec_replicas.clone(), status_replicas.clone(), label_selector.clone()))
            }
            _ => None,
        });
        found.ok_or_else(super::no_such_resource)
    }

    fn scale_of(&self, object: &Object) -> Result<Value, Status> {
        let (spec_path, status_path, selector_path) = self.scale_paths()?;
        let tree = object.to_value().map_err(errors::document)?;
        let mut metadata = json!({});
        for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = tree["metadata"].get(name) {
                metadata[name] = value.clone();
            }
        }
        let mut status = json!({"replicas": lookup(&tree, &status_path).as_i64().unwrap_or(0)});
        if let Some(path) = selector_path {
            status["selector"] = selector_text(lookup(&tree, &path)).into();
        }
        Ok(json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
            "spec": {"replicas": lookup(&tree, &spec_path).as_i64().unwrap_or(0)}, "status": status,
        }))
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}

fn lookup<'a>(tree: &'a Value, path: &str) -> &'a Value {
    parts(path).fold(tree, |at, part| &at[part])
}

fn field<'a>(tree: &'a mut Value, path: &str) -> &'a mut Value {
    parts(path).fold(tree, |at, part| &mut at[part])
}

/// A selector as text: already text, a LabelSelector, or a plain map.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let labels = map.get("matchLabels").and_then(Value::as_object).unwrap_or(map);
            let pairs: Vec<String> =
                labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
            pairs.join(",")
        }
        _ => String::new(),
    }
}
