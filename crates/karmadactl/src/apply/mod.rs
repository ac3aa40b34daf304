//! `apply`: manifests become objects of the control plane, created or patched; with clusters, their policies as well.

mod last_applied;
mod migration;
mod policies;
mod prune;
mod server_side;
mod three_way;

use std::collections::BTreeSet;

use clap::Args;
use client::{Client, DeleteOptions};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::error::Error;
use crate::objects::flags::{self, DryRun, Files, Printing};
use crate::objects::{self, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests::{self, Patch, WriteOptions};
use crate::{Context, resources};
pub use last_applied::{ANNOTATION as LAST_APPLIED, annotated, of as last_applied};
pub use server_side::ServerSide;
pub use three_way::patch as three_way_patch;

/// kubectl repeats a patch that another writer overtook this often.
const MAX_ATTEMPTS: usize = 5;

#[derive(Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    printing: Printing,
    /// Select all resources of the namespace, with --prune.
    #[arg(long)]
    all: bool,
    /// Propagate the resources to all member clusters: a policy is applied with each.
    #[arg(long)]
    all_clusters: bool,
    /// How dependents of deleted objects are treated. One of: (background, orphan, foreground).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "background", default_missing_value = "background")]
    cascade: String,
    /// Member clusters to propagate the resources to (e.g. member1,member2): a policy is applied with each.
    #[arg(short = 'C', long, value_delimiter = ',')]
    cluster: Vec<String>,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-client-side-apply")]
    field_manager: String,
    /// Delete and recreate objects that cannot be patched.
    #[arg(long)]
    force: bool,
    /// Take over fields of other managers, with --server-side.
    #[arg(long)]
    force_conflicts: bool,
    /// Grace period of deleted objects in seconds; the object's own when negative.
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Accepted for kubectl's sake: patches are computed from the built-in schemas.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    openapi_patch: bool,
    /// Resolve conflicts between the modified and the live object with the modified one.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    overwrite: bool,
    /// Delete objects that an earlier apply created and the files no longer hold; needs -l or --all.
    #[arg(long)]
    prune: bool,
    /// Kinds to prune in place of the default ones, as group/version/kind.
    #[arg(long)]
    prune_allowlist: Vec<String>,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Let the server merge and track the owners of fields.
    #[arg(long)]
    server_side: bool,
    /// Subresource to apply to, with --server-side.
    #[arg(long, default_value = "")]
    subresource: String,
    /// How long --force and --prune wait for the deletion of an object; 0s waits without a limit.
    #[arg(long, default_value = "0s")]
    timeout: String,
    /// Validate fields. One of: (strict, warn, ignore).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
    /// Wait for the deletion of pruned objects.
    #[arg(long)]
    wait: bool,
}

/// One run of the command.
struct Apply<'a> {
    context: &'a Context,
    client: &'a Client,
    program: &'static str,
    args: &'a ApplyArgs,
    dry_run: DryRun,
    options: WriteOptions,
    cascade: &'static str,
    grace_period: Option<i64>,
}

pub fn run<'a>(context: &'a Context, program: &'static str, args: &'a ApplyArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let dry_run = check(context, args)?;
        let mut printer = Printer::new(&args.printing, dry_run)?;
        let validation = flags::validation(&args.validate)?;
        let field_manager = match (args.server_side, args.field_manager.as_str()) {
            (true, "kubectl-client-side-apply") => "kubectl".to_owned(),
            (_, name) => name.to_owned(),
        };
        let client = context.control_plane().await?;
        existing(&client, &args.cluster).await?;
        let options = WriteOptions { field_manager, dry_run: dry_run == DryRun::Server, validation };
        let apply = Apply {
            context,
            client: &client,
            program,
            args,
            dry_run,
            options,
            cascade: flags::cascade(context, &args.cascade)?,
            grace_period: (args.grace_period >= 0).then_some(args.grace_period),
        };
        let selector = Some(args.selector.as_str());
        let validates = validation != Some("Ignore");
        let files = ObjectSelection::files(&args.files, args.namespace.as_deref(), selector);
        let selection = ObjectSelection { validates, ..files };
        let mut found = objects::find(context, &client, selection).await?;
        if found.is_empty() {
            return Err(Error::message("no objects passed to apply"));
        }
        let (mut errors, mut applied) = (found.take_errors(), Vec::new());
        let mut namespaces = BTreeSet::new();
        for item in apply.with_policies(found.items) {
            namespaces.extend(item.key.namespace().map(str::to_owned));
            match apply.one(&item).await {
                Ok((object, operation)) if printer.prints_objects() => applied.push((object, operation)),
                Ok((object, operation)) => {
                    printer.done(context, &item.shown(), operation, &object)?;
                    applied.push((object, operation));
                }
                Err(error) => errors.push(error),
            }
        }
        let kept =
            applied.iter().filter_map(|(object, _)| object["metadata"]["uid"].as_str().map(str::to_owned)).collect();
        if printer.prints_objects() && !applied.is_empty() {
            printer.all(context, applied.into_iter().map(|(object, _)| object).collect())?;
        }
        if errors.is_empty() && args.prune {
            apply.prune(&kept, &namespaces, &mut printer).await?;
        }
        Error::of_all(errors)
    })
}

/// The checks that need no server.
fn check(context: &Context, args: &ApplyArgs) -> Result<DryRun, Error> {
    let refused = |text: &str| Err(Error::message(text));
    args.files.required()?;
    if args.dry_run == flags::NO_VALUE {
        return Err(Error::message(
            "--dry-run flag without a value was specified. A value must be set: \"none\", \"server\", or \"client\".",
        ));
    }
    let dry_run = DryRun::parse(context, &args.dry_run)?;
    if args.all_clusters && !args.cluster.is_empty() {
        return refused("--all-clusters and --cluster cannot be used together");
    }
    if !args.subresource.is_empty() && !args.server_side {
        return refused("--subresource can only be specified for --server-side");
    }
    if args.force_conflicts && !args.server_side {
        return refused("--force-conflicts only works with --server-side");
    }
    if dry_run == DryRun::Client && args.server_side {
        return refused("--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)");
    }
    if args.force && args.server_side {
        return refused("--force cannot be used with --server-side");
    }
    if args.force && dry_run == DryRun::Server {
        return refused("--dry-run=server cannot be used with --force");
    }
    if args.prune && !args.all && args.selector.is_empty() {
        return refused(
            "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector",
        );
    }
    if args.all && !args.selector.is_empty() {
        return refused("cannot set --all and --selector at the same time");
    }
    // A mistake in the list must not be found after the objects are applied.
    prune::kinds(&args.prune_allowlist)?;
    flags::duration("--timeout", &args.timeout)?;
    Ok(dry_run)
}

/// Each cluster that is named must exist.
async fn existing(client: &Client, clusters: &[String]) -> Result<(), Error> {
    for name in clusters {
        let key = apimachinery::ObjectKey::cluster(name.as_str());
        let found = client.get_opt(&resources::CLUSTER, &key).await;
        if found.map_err(Error::client(format!("get cluster {name}")))?.is_none() {
            return Err(Error::message(format!("cluster {name} does not exist")));
        }
    }
    Ok(())
}

impl Apply<'_> {
    /// Each object, followed by its policy where clusters are named.
    fn with_policies(&self, items: Vec<Item>) -> Vec<Item> {
        if !self.args.all_clusters && self.args.cluster.is_empty() {
            return items;
        }
        let clusters = &self.args.cluster;
        items
            .into_iter()
            .flat_map(|item| {
                let policy = policies::policy(&item, clusters);
                [item, policy]
            })
            .collect()
    }

    /// Applies an item; returns the resulting object and the verb for the output.
    async fn one(&self, item: &Item) -> Result<(Value, &'static str), Error> {
        let manifest = item.object.as_ref().unwrap_or(&Value::Null);
        if item.key.name().is_empty() {
            return Err(Error::message(match manifest["metadata"]["generateName"].as_str() {
                Some(name) => format!("from {name}: cannot use generate name with apply"),
                None => {
                    let verb = retrieving(item);
                    format!("error when {verb} {:?}: resource name may not be empty", item.source)
                }
            }));
        }
        if self.args.server_side {
            let (context, client, options) = (self.context, self.client, &self.options);
            let (subresource, force) = (self.args.subresource.as_str(), self.args.force_conflicts);
            return ServerSide { context, client, item, subresource, force, options }.apply().await;
        }
        let modified = annotated(manifest);
        match requests::get(self.context, self.client, &item.resource, &item.key, None).await {
            Ok(live) => self.change(item, &modified, live).await,
            Err(error) if error.is_not_found() => self.create(item, modified).await,
            Err(error) => Err(item.failed(&retrieving(item))(error)),
        }
    }

    async fn create(&self, item: &Item, modified: Value) -> Result<(Value, &'static str), Error> {
        if self.dry_run == DryRun::Client {
            return Ok((modified, "created"));
        }
        let created =
            requests::create(self.context, self.client, &item.resource, &item.key, &modified, &self.options).await;
        created.map(|object| (object, "created")).map_err(item.failed("creating"))
    }

    /// Patches the live object; after a conflict it is read and patched again.
    async fn change(&self, item: &Item, modified: &Value, mut live: Value) -> Result<(Value, &'static str), Error> {
        if live["metadata"]["annotations"][LAST_APPLIED].is_null() {
            self.context.log(&missing_annotation(self.program, item));
        }
        let type_ = kubernetes_api::schema_for(&item.gvk());
        let mut attempts = 1;
        loop {
            let patch = three_way::patch(last_applied::of(&live).as_ref(), modified, &live, type_.as_ref());
            if patch.as_object().is_some_and(serde_json::Map::is_empty) {
                return Ok((live, "unchanged"));
            }
            if self.dry_run == DryRun::Client {
                let applied = locally(&live, &patch, type_.as_ref());
                return applied.map(|object| (object, "configured"));
            }
            let content_type = if type_.is_some() { requests::STRATEGIC_PATCH } else { requests::MERGE_PATCH };
            let sent = Patch { content_type, value: &patch, subresource: None, force: false };
            match requests::patch(self.context, self.client, &item.resource, &item.key, sent, &self.options).await {
                Ok(object) => return Ok((object, "configured")),
                Err(error) if error.is_conflict() && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                    let again = requests::get(self.context, self.client, &item.resource, &item.key, None).await;
                    live = again.map_err(item.failed(&retrieving(item)))?;
                }
                Err(error) if self.args.force && replaceable(&error) => return self.replace(item, modified).await,
                Err(error) => {
                    let verb = format!("applying patch:\n{patch}\nto:\n{}\nfor:", item.described());
                    return Err(item.failed_step("patching", &verb)(error));
                }
            }
        }
    }

    /// `--force`: deletes and recreates objects that cannot be patched.
    async fn replace(&self, item: &Item, modified: &Value) -> Result<(Value, &'static str), Error> {
        let options = DeleteOptions {
            propagation_policy: Some(self.cascade),
            grace_period_seconds: self.grace_period,
            ..DeleteOptions::default()
        };
        let deleted = self.client.delete(&item.resource, &item.key, &options).await;
        deleted.map_err(item.failed("deleting"))?;
        let limit = flags::duration("--timeout", &self.args.timeout)?;
        crate::delete::gone(self.context, self.client, item, None, limit).await?;
        self.create(item, modified.clone()).await.map(|(object, _)| (object, "configured"))
    }

    async fn prune(
        &self,
        kept: &BTreeSet<String>,
        namespaces: &BTreeSet<String>,
        printer: &mut Printer,
    ) -> Result<(), Error> {
        let pruning = prune::Pruning {
            allowlist: self.args.prune_allowlist.clone(),
            selector: Some(self.args.selector.clone()).filter(|text| !text.is_empty()),
            namespace: self.args.namespace.clone(),
            cascade: self.cascade,
            grace_period: self.grace_period,
            dry_run: self.dry_run,
        };
        let pruned = prune::run(self.context, self.client, &pruning, kept, namespaces).await?;
        let limit = flags::duration("--timeout", &self.args.timeout)?;
        for item in pruned {
            if self.args.wait && self.dry_run == DryRun::None {
                crate::delete::gone(self.context, self.client, &item, None, limit).await?;
            }
            if !printer.prints_objects() {
                printer.done(self.context, &item.shown(), "pruned", &Value::Null)?;
            }
        }
        Ok(())
    }
}

/// How errors name the attempt to read an object.
fn retrieving(item: &Item) -> String {
    format!("retrieving current configuration of:\n{}\nfrom server for:", item.described())
}

/// Whether deleting and creating again may help.
fn replaceable(error: &client::Error) -> bool {
    error.is_conflict() || error.reason() == Some(apimachinery::StatusReason::Invalid)
}

fn missing_annotation(program: &str, item: &Item) -> String {
    format!(
        "Warning: resource {}/{} is missing the {LAST_APPLIED} annotation which is required by {program} apply. {program} \
         apply should only be used on resources created declaratively by either {program} create --save-config or {program} \
         apply. The missing annotation will be patched automatically.\n",
        item.resource.plural,
        item.key.name()
    )
}

/// Applies the patch locally, for a client-side dry run.
pub fn locally(live: &Value, patch: &Value, type_: Option<&apimachinery::schema::TypeOf>) -> Result<Value, Error> {
    let mut object = live.clone();
    match type_ {
        Some(type_) => apimachinery::strategic::apply(&mut object, patch, type_)
            .map_err(|error| Error::message(format!("the patch cannot be applied: {error}")))?,
        None => apimachinery::merge_patch::apply(&mut object, patch),
    }
    Ok(object)
}
