//! `promote`: copies an object of a member to the control plane as a template, with a policy that selects the member.

mod dependencies;

use apimachinery::{ApiResource, ObjectKey};
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use karmada_api::manifest::prune_for_work;
use karmada_api::policy::v1alpha1::{ClusterPropagationPolicy, PropagationPolicy};
use karmada_api::{ApiType, names};
use serde_json::{Value, json};

use crate::error::Error;
use crate::get::output::{Objects, Output};
use crate::get::targets;
use crate::requests::{self, WriteOptions};
use crate::scope::OperationScope;
use crate::{Context, objects, servers};

#[derive(Args)]
pub struct PromoteArgs {
    /// TYPE NAME, or TYPE/NAME
    args: Vec<String>,
    /// Create a policy that propagates the object to its cluster.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    auto_create_policy: bool,
    /// Member cluster that holds the object.
    #[arg(short = 'C', long, default_value = "")]
    cluster: String,
    /// Name of the member cluster's context in its kubeconfig file; the cluster's name when empty.
    #[arg(long)]
    cluster_context: Option<String>,
    /// Path to the kubeconfig file of the member cluster; without it the control plane's proxy is used.
    #[arg(long)]
    cluster_kubeconfig: Option<String>,
    /// Promote the objects it depends on, too.
    #[arg(short = 'd', long)]
    dependencies: bool,
    /// Run the command without changing anything; the control plane validates the objects.
    #[arg(long)]
    dry_run: bool,
    /// Namespace of the object; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Print the template and the policy without creating them. One of: (json, yaml).
    #[arg(short = 'o', long, default_value = "")]
    output: String,
    /// Name of the policy; derived from the object when empty.
    #[arg(long, default_value = "")]
    policy_name: String,
}

const OVERWRITE: &str = "work.karmada.io/conflict-resolution";

/// The objects to create.
struct Plan {
    resource: ApiResource,
    key: ObjectKey,
    template: Value,
    policy: Option<(ApiResource, ObjectKey, Value)>,
}

pub fn run<'a>(context: &'a Context, args: &'a PromoteArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let target = match targets::split(&args.args).ok().as_deref() {
            Some([target]) if target.names.len() == 1 => target.clone(),
            _ => {
                return Err(Error::message(
                    "incorrect command format, please use correct command format: promote TYPE NAME -C CLUSTER, with one \
                     name",
                ));
            }
        };
        if args.cluster.is_empty() {
            return Err(Error::message("the cluster cannot be empty"));
        }
        if !matches!(args.output.as_str(), "" | "json" | "yaml") {
            return Err(Error::message(format!(
                "invalid output format {:?}: it is not one of json, yaml",
                args.output
            )));
        }
        let control = context.control_plane().await?;
        let member = member(context, &control, args).await?;
        let (resource, live) = read(context, &member, args, &target).await?;
        let plan = plan(args, &resource, &live)?;
        if !args.output.is_empty() {
            return print(context, &args.output, &plan);
        }
        let discovery = objects::discovery(&control).await?;
        if discovery.by_resource(&resource.gvr()).is_none() {
            return Err(unserved(&resource, &args.cluster));
        }
        let promotion = Promotion { context, control: &control, member: &member, args };
        promotion.run(&plan).await
    })
}

/// Members serve kinds that the control plane has no definition of.
fn unserved(resource: &ApiResource, cluster: &str) -> Error {
    let (kind, version) = (&resource.kind, resource.api_version());
    Error::message(match resource.group.contains('.') {
        true => format!(
            "the control plane does not serve {kind} of {version}; if a CustomResourceDefinition defines it, promote that \
             first: karmadactl promote crd {}.{} -C {cluster}",
            resource.plural, resource.group
        ),
        false => format!("the control plane does not serve {kind} of {version}"),
    })
}

async fn member(context: &Context, control: &Client, args: &PromoteArgs) -> Result<Client, Error> {
    if let Some(kubeconfig) = args.cluster_kubeconfig.as_deref() {
        let name = args.cluster_context.as_deref().unwrap_or(&args.cluster);
        return Ok(context.member(Some(kubeconfig), Some(name), "member").await?.client);
    }
    let found = servers::one(control, OperationScope::Members, &args.cluster).await;
    found.map_err(|error| match error {
        Error::Server(status) => {
            Error::message(format!("failed to get Factory of the member cluster. err: {}", status.message))
        }
        other => other,
    })
}

async fn read(
    context: &Context,
    member: &Client,
    args: &PromoteArgs,
    target: &targets::Target,
) -> Result<(ApiResource, Value), Error> {
    let failed =
        |why: String| Error::message(format!("failed to get resource in cluster({}). err: {why}", args.cluster));
    let discovery = member.discovery().await.map_err(|error| failed(servers::reason(&error)))?;
    let resources = targets::resolve(&target.type_, &discovery.resources);
    let [known] = resources.as_slice() else {
        return Err(failed(format!("the server doesn't have a resource type {:?}", target.type_)));
    };
    let resource = known.resource.clone();
    let key = key(context, args, &resource, &target.names[0]);
    match requests::get(context, member, &resource, &key, None).await {
        Ok(live) => Ok((resource, live)),
        Err(error) if error.is_not_found() => {
            let place = key.namespace().map_or_else(String::new, |namespace| format!(" in namespace {namespace:?}"));
            Err(failed(format!("{}{place}", servers::reason(&error))))
        }
        Err(error) => Err(failed(servers::reason(&error))),
    }
}

fn key(context: &Context, args: &PromoteArgs, resource: &ApiResource, name: &str) -> ObjectKey {
    match resource.namespaced {
        true => ObjectKey::namespaced(args.namespace.clone().unwrap_or_else(|| context.namespace()), name),
        false => ObjectKey::cluster(name),
    }
}

/// The template as in the control plane's Works, without the labels and annotations of a managed object.
fn template(live: &Value) -> Value {
    let mut object = live.clone();
    prune_for_work(&mut object);
    // Only the kubelet of its node ends the deletion of a Pod, and a control plane has none. The member's Pod keeps it.
    if object["kind"] == "Pod" {
        remove(&mut object["spec"], "nodeName");
    }
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| key != "karmada.io/managed" && key != "work.karmada.io/permanent-id");
        if labels.is_empty() {
            remove(&mut object["metadata"], "labels");
        }
    }
    object["metadata"]["annotations"][OVERWRITE] = "overwrite".into();
    object
}

fn remove(value: &mut Value, field: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(field);
    }
}

fn plan(args: &PromoteArgs, resource: &ApiResource, live: &Value) -> Result<Plan, Error> {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = live["metadata"]["namespace"].as_str().filter(|_| resource.namespaced);
    let key = match namespace {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    };
    let policy = args.auto_create_policy.then(|| policy(args, resource, &key));
    Ok(Plan { resource: resource.clone(), key, template: template(live), policy })
}

fn policy(args: &PromoteArgs, resource: &ApiResource, key: &ObjectKey) -> (ApiResource, ObjectKey, Value) {
    // As Go prints it: the core group is empty before the slash.
    let shown = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
    let name = match args.policy_name.as_str() {
        "" => names::policy_name(key.namespace().unwrap_or_default(), key.name(), &shown),
        named => named.to_owned(),
    };
    let mut selector = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": key.name()});
    let mut metadata = json!({"name": name});
    let (policy, policy_key) = match key.namespace() {
        Some(namespace) => {
            selector["namespace"] = namespace.into();
            metadata["namespace"] = namespace.into();
            (PropagationPolicy::api_resource(), ObjectKey::namespaced(namespace, name))
        }
        None => (ClusterPropagationPolicy::api_resource(), ObjectKey::cluster(name)),
    };
    let object = json!({"apiVersion": policy.api_version(), "kind": policy.kind, "metadata": metadata, "spec": {
        "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true, "propagateDeps": args.dependencies,
        "placement": {"clusterAffinity": {"clusterNames": [args.cluster]}}, "resourceSelectors": [selector]}});
    (policy, policy_key, object)
}

fn print(context: &Context, format: &str, plan: &Plan) -> Result<(), Error> {
    let output = Output::parse(format)?;
    context.print(&output.render(Objects::One(plan.template.clone()))?);
    if let Some((_, _, policy)) = &plan.policy {
        context.print("---\n");
        context.print(&output.render(Objects::One(policy.clone()))?);
    }
    Ok(())
}

/// `"apps/v1, Resource=deployments"`
fn resource_shown(resource: &ApiResource) -> String {
    let version = match resource.group.is_empty() {
        true => format!("/{}", resource.version),
        false => resource.api_version(),
    };
    format!("{:?}", format!("{version}, Resource={}", resource.plural))
}

fn place(key: &ObjectKey) -> String {
    key.namespace().map_or_else(|| key.name().to_owned(), |namespace| format!("{namespace}/{}", key.name()))
}

struct Promotion<'a> {
    context: &'a Context,
    control: &'a Client,
    member: &'a Client,
    args: &'a PromoteArgs,
}

impl Promotion<'_> {
    async fn run(&self, plan: &Plan) -> Result<(), Error> {
        let shown = resource_shown(&plan.resource);
        let place = place(&plan.key);
        let existing = requests::get(self.context, self.control, &plan.resource, &plan.key, None).await;
        match existing {
            Ok(_) => {
                self.context.log(&format!(
                    "Resource {shown}({place}) already exist in karmada control plane, you can edit PropagationPolicy and \
                     OverridePolicy to propagate it\n"
                ));
                return Ok(());
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(Error::client(format!("get {place}"))(error)),
        }
        let mut created = Vec::new();
        let outcome = self.create(plan, &mut created).await;
        if outcome.is_err() && !self.args.dry_run {
            self.roll_back(&created).await;
        }
        outcome?;
        self.done(&format!("Resource {shown}({place}) is promoted successfully"));
        Ok(())
    }

    fn done(&self, what: &str) {
        let suffix = if self.args.dry_run { " (server dry run)" } else { "" };
        self.context.print(&format!("{what}{suffix}\n"));
    }

    /// A missing namespace is the usual reason: the member has it, and the control plane may not.
    fn refused(&self, attempt: String, namespace: Option<&str>, error: client::Error) -> Error {
        let lacks = |namespace: &&str| {
            error.is_not_found() && servers::reason(&error) == format!("namespaces {namespace:?} not found")
        };
        match namespace.filter(lacks) {
            Some(namespace) => Error::message(format!(
                "the control plane has no namespace {namespace:?}; create it with: karmadactl promote namespace {namespace} -C {}",
                self.args.cluster
            )),
            None => Error::client(attempt)(error),
        }
    }

    /// Creates the dependencies, the policy and the template; records them in `created`. The policy is first: an existing
    /// policy that selects the template too would claim a template without its own, and place it in other clusters.
    async fn create(&self, plan: &Plan, created: &mut Vec<(ApiResource, ObjectKey)>) -> Result<(), Error> {
        if self.args.dependencies {
            self.dependencies(plan, created).await?;
        }
        let mut policy_created = None;
        if let Some((resource, key, policy)) = &plan.policy {
            match self.write(resource, key, policy).await {
                Ok(_) => created.push((resource.clone(), key.clone())),
                Err(error) if error.is_already_exists() => {
                    let (kind, place) = (&resource.kind, place(key));
                    return Err(Error::message(format!(
                        "the {kind}({place}) already exist, please edit it to propagate resource"
                    )));
                }
                Err(error) => {
                    return Err(self.refused(format!("create policy {}", place(key)), key.namespace(), error));
                }
            }
            let shown = if key.namespace().is_some() { format!("({})", place(key)) } else { key.name().to_owned() };
            policy_created = Some(format!("{} {shown} is created successfully", resource.kind));
        }
        let written = self.write(&plan.resource, &plan.key, &plan.template).await;
        let attempt = || format!("create resource {}", place(&plan.key));
        written.map_err(|error| self.refused(attempt(), plan.key.namespace(), error))?;
        created.push((plan.resource.clone(), plan.key.clone()));
        let namespace = match plan.key.namespace() {
            Some(namespace) => namespace.to_owned(),
            // Upstream names a namespace for cluster-scoped templates as well.
            None => self.args.namespace.clone().unwrap_or_else(|| self.context.namespace()),
        };
        self.done(&format!("ResourceTemplate ({namespace}/{}) is created successfully", plan.key.name()));
        policy_created.iter().for_each(|line| self.done(line));
        Ok(())
    }

    async fn write(&self, resource: &ApiResource, key: &ObjectKey, object: &Value) -> client::Result<Value> {
        let options = WriteOptions { dry_run: self.args.dry_run, ..WriteOptions::default() };
        requests::create(self.context, self.control, resource, key, object, &options).await
    }

    /// The objects that the template names, of the member; those that the control plane has stay as they are.
    async fn dependencies(&self, plan: &Plan, created: &mut Vec<(ApiResource, ObjectKey)>) -> Result<(), Error> {
        let Some((layer, references)) = dependencies::of(self.control, &plan.template).await? else {
            self.context.log(&format!("Warning: no interpreter knows the dependencies of {}\n", plan.resource.kind));
            return Ok(());
        };
        self.context.print(&format!("use {layer} interpreter\n"));
        let discovery = objects::discovery(self.member).await?;
        for reference in references {
            let gvk = apimachinery::GroupVersionKind::from_api_version(&reference.api_version, &reference.kind);
            let known = gvk.ok().and_then(|gvk| discovery.by_kind(&gvk).map(|known| known.resource.clone()));
            let Some(resource) = known.filter(|_| !reference.name.is_empty()) else { continue };
            let key = match resource.namespaced {
                true => ObjectKey::namespaced(reference.namespace, reference.name),
                false => ObjectKey::cluster(reference.name),
            };
            self.dependency(resource, key, created).await?;
        }
        Ok(())
    }

    async fn dependency(
        &self,
        resource: ApiResource,
        key: ObjectKey,
        created: &mut Vec<(ApiResource, ObjectKey)>,
    ) -> Result<(), Error> {
        let (place, namespace) = (place(&key), key.namespace().map(str::to_owned));
        let live = match requests::get(self.context, self.member, &resource, &key, None).await {
            Ok(live) => live,
            // A reference may be optional.
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(Error::client(format!("get dependency {place}"))(error)),
        };
        match self.write(&resource, &key, &template(&live)).await {
            Ok(_) => created.push((resource.clone(), key)),
            Err(error) if error.is_already_exists() => return Ok(()),
            Err(error) => return Err(self.refused(format!("create dependency {place}"), namespace.as_deref(), error)),
        }
        let shown = resource_shown(&resource);
        self.done(&format!("Dependency resource {shown}({place}) is promoted successfully"));
        Ok(())
    }

    async fn roll_back(&self, created: &[(ApiResource, ObjectKey)]) {
        for (resource, key) in created.iter().rev() {
            let deleted = self.control.delete(resource, key, &client::DeleteOptions::background()).await;
            if let Err(error) = deleted {
                self.context.log(&format!("{} {} stays behind: {error}\n", resource.plural, place(key)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_omit_server_populated_fields() {
        let live = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default",
            "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"karmada.io/managed": "true"}},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}, "status": {}});
        let expected = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default",
            "annotations": {OVERWRITE: "overwrite"}}, "spec": {"ports": [{"port": 80}]}});
        assert_eq!(template(&live), expected);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"nodeName": "n"}});
        assert_eq!(template(&pod)["spec"], json!({}));
    }
}
