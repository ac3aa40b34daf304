//! `interpret --edit`: the scripts of a customization of the control plane in one Lua file, in the user's editor.

use std::fmt::Write as _;

use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use interpreter::Operation;
use interpreter::lua::Engine;
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use serde_json::{Map, Value, json};

use super::OPERATIONS;
use crate::error::Error;
use crate::{Context, editor};

/// The field of a script, its function, and its contract.
const RULES: [(Operation, &str, &str, &str); 8] = [
    (
        Operation::Retain,
        "retention",
        "Retain(desiredObj, observedObj)",
        "Answers the desired object with what the member decides itself taken from the observed one.",
    ),
    (
        Operation::InterpretReplica,
        "replicaResource",
        "GetReplicas(desiredObj)",
        "Answers the replicas, and what one of them requires or nil.",
    ),
    (
        Operation::InterpretComponent,
        "componentResource",
        "GetComponents(desiredObj)",
        "Answers a list of components: name, replicas, replicaRequirements.",
    ),
    (
        Operation::ReviseReplica,
        "replicaRevision",
        "ReviseReplica(desiredObj, desiredReplica)",
        "Answers the object with this many replicas.",
    ),
    (
        Operation::InterpretStatus,
        "statusReflection",
        "ReflectStatus(observedObj)",
        "Answers the part of the status that the control plane is to know.",
    ),
    (
        Operation::AggregateStatus,
        "statusAggregation",
        "AggregateStatus(desiredObj, statusItems)",
        "Answers the object with one status made of those of the members: clusterName and status each.",
    ),
    (
        Operation::InterpretHealth,
        "healthInterpretation",
        "InterpretHealth(observedObj)",
        "Answers whether the object is healthy.",
    ),
    (
        Operation::InterpretDependency,
        "dependencyInterpretation",
        "GetDependencies(desiredObj)",
        "Answers a list of what is to follow the object: apiVersion, kind, namespace, name.",
    ),
];

const RULE: &str = "---@rule:";

fn field(operation: Operation) -> &'static str {
    RULES.iter().find(|rule| rule.0 == operation).map_or("", |rule| rule.1)
}

/// The file; an operation without a script has only its marker.
fn document(customization: &ResourceInterpreterCustomization, show_doc: bool) -> Result<String, Error> {
    let target = &customization.spec.target;
    let mut text = format!(
        "-- Edit the scripts below. An operation without a script is not customized. Nothing changed, or an empty file, aborts.\n\
         ---@name: {}\n---@apiVersion: {}\n---@kind: {}\n",
        customization.metadata.name, target.api_version, target.kind
    );
    let scripts = serde_json::to_value(&customization.spec.customizations)
        .map_err(|error| Error::message(format!("the scripts cannot be shown: {error}")))?;
    for (operation, field, function, meaning) in RULES {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{RULE} {operation:?}\n");
        if show_doc {
            let _ = write!(text, "---@doc: function {function}\n---@doc: {meaning}\n");
        }
        let script = scripts[field]["luaScript"].as_str().unwrap_or_default();
        let _ = write!(text, "{script}{}", if script.is_empty() || script.ends_with('\n') { "" } else { "\n" });
    }
    Ok(text)
}

/// The scripts of an edited file by their field.
fn scripts(text: &str) -> Result<Vec<(Operation, String)>, Error> {
    let mut found: Vec<(Operation, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix(RULE) {
            let operation = OPERATIONS.into_iter().find(|it| format!("{it:?}") == name.trim());
            let operation = operation.ok_or_else(|| {
                Error::message(format!("line {}: {} is no operation of a customization", at + 1, name.trim()))
            })?;
            if found.iter().any(|(known, _)| *known == operation) {
                return Err(Error::message(format!("line {}: {operation:?} stands twice", at + 1)));
            }
            found.push((operation, String::new()));
        } else if let Some((_, script)) = found.last_mut().filter(|_| !line.starts_with("---@")) {
            script.push_str(line);
            script.push('\n');
        }
    }
    for (_, script) in &mut found {
        if script.trim().is_empty() {
            script.clear();
        } else {
            // The blank line before the next marker is ours.
            script.truncate(script.trim_end().len() + 1);
        }
    }
    Ok(found)
}

/// The changes to write, if any; refuses scripts that do not compile.
fn changes(
    before: &ResourceInterpreterCustomization,
    edited: &str,
    engine: &Engine,
) -> Result<Option<Map<String, Value>>, Error> {
    let old = scripts(&document(before, false)?)?;
    let mut patch = Map::new();
    for (operation, script) in scripts(edited)? {
        if old.iter().any(|(known, before)| *known == operation && *before == script) {
            continue;
        }
        if script.is_empty() {
            patch.insert(field(operation).to_owned(), Value::Null);
            continue;
        }
        let compiled = engine.compile(&script);
        compiled.map_err(|error| Error::message(format!("{operation:?} Lua script error: {error}")))?;
        patch.insert(field(operation).to_owned(), json!({ "luaScript": script }));
    }
    Ok((!patch.is_empty()).then_some(patch))
}

/// Edits the customization of a name.
pub(super) async fn run(context: &Context, name: &str, show_doc: bool, engine: &Engine) -> Result<(), Error> {
    let client = context.control_plane().await?;
    let (resource, key) = (ResourceInterpreterCustomization::api_resource(), ObjectKey::cluster(name));
    let object = client.get(&resource, &key).await.map_err(Error::client(format!("get {name}")))?;
    let before = ResourceInterpreterCustomization::from_object(&object)
        .map_err(|error| Error::message(format!("{name} cannot be decoded: {error}")))?;
    let text = document(&before, show_doc)?;
    let file = editor::temporary(name, "lua", &text)?;
    editor::open(&file).await?;
    let failed = |error: std::io::Error| Error::message(format!("{}: {error}", file.display()));
    let edited = std::fs::read_to_string(&file).map_err(failed)?;
    let kept = |error: Error| {
        let why = error.render();
        Error::message(format!(
            "{}; the edited file is {}",
            why.trim_end().trim_start_matches("error: "),
            file.display()
        ))
    };
    let changed = if edited.trim().is_empty() { None } else { changes(&before, &edited, engine).map_err(kept)? };
    if let Some(changed) = changed {
        write(&client, &resource, &key, object.resource_version(), changed).await.map_err(kept)?;
        context.print(&format!("resourceinterpretercustomization.config.karmada.io/{name} edited\n"));
    } else {
        context.log("Edit cancelled, no changes made.\n");
    }
    // Removes the file only if it was applied or not changed.
    std::fs::remove_file(&file).map_err(failed)
}

async fn write(
    client: &client::Client,
    resource: &ApiResource,
    key: &ObjectKey,
    version: &str,
    changed: Map<String, Value>,
) -> Result<(), Error> {
    // The version turns a concurrent change into a conflict instead of a loss.
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"customizations": changed}});
    let patched = client.patch(resource, key, &Patch::Merge(patch), &PatchOptions::default()).await;
    patched.map(drop).map_err(Error::client(format!("patch {}", key.name())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use interpreter::lua::Budget;

    use super::*;

    fn customization() -> ResourceInterpreterCustomization {
        let object = json!({"metadata": {"name": "example"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"retention": {"luaScript": "function Retain(d, o)\n  return d\nend\n"}, "healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"}}}});
        serde_json::from_value(object).unwrap()
    }

    fn edited(change: impl Fn(String) -> String) -> String {
        let now = || "2026-11-21T00:00:00Z".parse().unwrap();
        let engine = Engine::new(Arc::new(now), Budget::default());
        let text = change(document(&customization(), true).unwrap());
        match changes(&customization(), &text, &engine) {
            Ok(patch) => json!(patch).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_edited_file_yields_the_changes() {
        assert_eq!(edited(|text| text), "null");
        let health = "function InterpretHealth(o) return true end\n";
        assert_eq!(edited(|text| text.replace(health, "")), r#"{"healthInterpretation":null}"#);
        assert_eq!(
            edited(|text| text.replace("return true", "return false")),
            r#"{"healthInterpretation":{"luaScript":"function InterpretHealth(o) return false end\n"}}"#
        );
        let script = "function GetReplicas(o) return 1, nil end\n";
        assert_eq!(
            edited(
                |text| text.replace("---@rule: InterpretReplica\n", &format!("---@rule: InterpretReplica\n{script}"))
            ),
            json!({"replicaResource": {"luaScript": script}}).to_string()
        );
        assert!(
            edited(|text| text.replace("return true end", "return")).starts_with("InterpretHealth Lua script error: ")
        );
        assert!(edited(|text| text + "---@rule: Prune\n").contains("Prune is no operation of a customization"));
        assert!(edited(|text| text + "---@rule: Retain\n").contains("Retain stands twice"));
    }

    #[test]
    fn the_file_lists_rules_with_documentation() {
        let text = document(&customization(), true).unwrap();
        assert!(text.contains("---@name: example\n---@apiVersion: apps/v1\n---@kind: Deployment\n\n---@rule: Retain\n---@doc: function Retain("));
        assert!(!document(&customization(), false).unwrap().contains("---@doc"));
    }
}
