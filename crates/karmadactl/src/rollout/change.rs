//! `rollout restart`, `pause` and `resume`: a change of the template, which the control plane propagates.

use std::sync::Arc;

use apimachinery::Object;
use client::Client;
use interpreter::Interpreter;
use interpreter::scripted::Scripts;
use karmada_api::ApiType;
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use karmada_api::names;
use karmada_api::scope::{Binding, Override, Scope};
use serde_json::{Value, json};
use world::World;

use super::{ChangeArgs, ineffective, kinds};
use crate::Context;
use crate::error::Error;
use crate::objects::Item;
use crate::objects::flags::DryRun;
use crate::placement::source;
use crate::printing::Printer;
use crate::reading;
use crate::requests::{self, Patch, WriteOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Restart,
    Pause,
    Resume,
}

impl Change {
    fn done(self) -> &'static str {
        match self {
            Self::Restart => "restarted",
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }
}

pub(super) async fn run(context: &Context, program: &str, args: &ChangeArgs, change: Change) -> Result<(), Error> {
    let dry_run = DryRun::parse(context, &args.dry_run)?;
    let mut printer = Printer::new(&args.printing, dry_run)?;
    let control = context.control_plane().await?;
    let mut errors = Vec::new();
    for item in args.named.find(context, &control).await? {
        match one(context, &control, program, args, &item, (change, dry_run)).await {
            Ok(object) => printer.done(context, &item.shown(), change.done(), &object)?,
            Err(error) => errors.push(error),
        }
    }
    Error::of_all(errors)
}

async fn one(
    context: &Context,
    control: &Client,
    program: &str,
    args: &ChangeArgs,
    item: &Item,
    (change, dry_run): (Change, DryRun),
) -> Result<Value, Error> {
    let before = requests::get_named(context, control, &item.resource, &item.key, None).await;
    let before = before.map_err(Error::client(format!("get {}", item.shown())))?;
    // Whole seconds, as kubectl writes it.
    let now = World::system().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let patch = plan(program, item, &before, change, &now).map_err(Error::Message)?;
    let mut after = before.clone();
    apimachinery::merge_patch::apply(&mut after, &patch);
    if change == Change::Restart {
        for warning in warnings(context, control, item, &before, &after).await {
            context.log(&format!("Warning: {warning}\n"));
        }
    }
    if dry_run == DryRun::Client {
        return Ok(after);
    }
    let options = WriteOptions {
        field_manager: args.field_manager.clone(),
        dry_run: dry_run == DryRun::Server,
        validation: None,
    };
    let sent = Patch { content_type: requests::MERGE_PATCH, value: &patch, subresource: None, force: false };
    let answer = requests::patch(context, control, &item.resource, &item.key, sent, &options).await;
    answer.map_err(Error::client(format!("patch {}", item.shown())))
}

/// The patch of a change, or why it is not possible.
fn plan(program: &str, item: &Item, object: &Value, change: Change, now: &str) -> Result<Value, String> {
    let (resource, name) = (item.resource.gvr().group_resource(), item.key.name());
    let refused = |why: String| Err(format!("{resource} {name:?} {why}"));
    let kind = &item.resource.kind;
    let is_deployment = item.resource.group == "apps" && kind == "Deployment";
    let is_paused = object["spec"]["paused"] == true;
    match change {
        Change::Restart if !kinds::rolls_out(&item.resource.group, kind) => {
            refused("cannot be restarted: only deployments, daemonsets and statefulsets can".to_owned())
        }
        Change::Restart if is_paused => {
            refused(format!("can't restart paused deployment (run `{program} rollout resume deployment/{name}` first)"))
        }
        Change::Restart => Ok(json!({"spec": {"template": {"metadata": {
            "annotations": {"kubectl.kubernetes.io/restartedAt": now}}}}})),
        Change::Pause | Change::Resume if !is_deployment => {
            refused("cannot be paused or resumed: only deployments can".to_owned())
        }
        Change::Pause if is_paused => refused("is already paused".to_owned()),
        Change::Resume if !is_paused => refused("is not paused".to_owned()),
        Change::Pause => Ok(json!({"spec": {"paused": true}})),
        Change::Resume => Ok(json!({"spec": {"paused": null}})),
    }
}

/// The clusters in which the restart has no effect. Errors are reported, and do not prevent the restart.
async fn warnings(context: &Context, control: &Client, item: &Item, before: &Value, after: &Value) -> Vec<String> {
    match facts(context, control, item).await {
        Ok((binding, clusters, policies, interpreter)) => {
            ineffective::warnings(before, after, binding.as_ref(), &clusters, &policies, &interpreter)
        }
        Err(error) => vec![format!("whether overrides or retention undo the restart is unknown: {error}")],
    }
}

type Facts = (Option<Binding>, Vec<Arc<karmada_api::cluster::v1alpha1::Cluster>>, Vec<Override>, Interpreter);

async fn facts(context: &Context, control: &Client, item: &Item) -> Result<Facts, Error> {
    let scope = Scope::of(&item.key);
    let name = names::binding_name(&item.resource.kind, item.key.name());
    let key = super::status::named_like(&item.key, name);
    let binding = match requests::get(context, control, &Binding::api_resource(scope), &key, None).await {
        Ok(value) => Some(
            Binding::from_value(scope, &value)
                .map_err(|error| Error::message(format!("the binding {}: {error}", key.name())))?,
        ),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(Error::client("get the binding")(error)),
    };
    let clusters = source::clusters(control).await?;
    let mut policies = Vec::new();
    for scope in Scope::ALL {
        let namespace = (scope == Scope::Namespaced).then(|| item.key.namespace()).flatten();
        let decode = |object: &Arc<Object>| Override::decode(object);
        policies.extend(reading::list(control, &Override::api_resource(scope), namespace, decode).await?);
    }
    let decode = |object: &Arc<Object>| ResourceInterpreterCustomization::from_object(object);
    let resource = ResourceInterpreterCustomization::api_resource();
    let customizations = reading::list(control, &resource, None, decode).await?;
    let engine = crate::interpret::engine(&World::system());
    let scripts = Scripts::of_customizations(engine, &customizations);
    Ok((binding, clusters, policies, Interpreter::with_layers(vec![Arc::new(scripts)])))
}

#[cfg(test)]
mod tests {
    use apimachinery::{ApiResource, ObjectKey};

    use super::*;

    fn check(kind: &str, paused: bool, change: Change, expected: &str) {
        let plural = format!("{}s", kind.to_lowercase());
        let group = if kind == "Service" { "" } else { "apps" };
        let item = Item {
            resource: ApiResource::namespaced(group, "v1", kind, &plural),
            key: ObjectKey::namespaced("shop", "web"),
            object: None,
            source: String::new(),
        };
        let object = json!({"kind": kind, "spec": {"paused": paused}});
        let planned = plan("karmadactl", &item, &object, change, "2026-01-01T00:00:00Z");
        assert_eq!(planned.map_or_else(|why| why, |patch| patch.to_string()), expected);
    }

    #[test]
    fn changes_are_planned_or_refused() {
        use Change::{Pause, Restart, Resume};
        let mark = r#"{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}"#;
        check("Deployment", false, Restart, mark);
        check("StatefulSet", false, Restart, mark);
        let first = "run `karmadactl rollout resume deployment/web` first";
        check(
            "Deployment",
            true,
            Restart,
            &format!("deployments.apps \"web\" can't restart paused deployment ({first})"),
        );
        let only = "cannot be restarted: only deployments, daemonsets and statefulsets can";
        check("Service", false, Restart, &format!("services \"web\" {only}"));
        check("Deployment", false, Pause, r#"{"spec":{"paused":true}}"#);
        check("Deployment", true, Pause, "deployments.apps \"web\" is already paused");
        check("Deployment", true, Resume, r#"{"spec":{"paused":null}}"#);
        check("Deployment", false, Resume, "deployments.apps \"web\" is not paused");
        check("DaemonSet", false, Pause, "daemonsets.apps \"web\" cannot be paused or resumed: only deployments can");
    }
}
