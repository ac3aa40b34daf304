//! `delete`: objects of the control plane by file, name or selector.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use apimachinery::ObjectKey;
use clap::Args;
use client::{Client, DeleteOptions, WatchOptions};
use futures::StreamExt;
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;
use transport::WatchEvent;

use crate::error::Error;
use crate::get::targets;
use crate::objects::flags::{self, DryRun, Files};
use crate::objects::{self, Found, Item, ObjectSelection};
use crate::{Context, requests};

#[derive(Args)]
pub struct DeleteArgs {
    /// TYPE NAME..., TYPE/NAME..., or TYPE with -l or --all
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Delete all resources of the namespace, of the specified types.
    #[arg(long)]
    all: bool,
    /// Delete objects of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How dependents are treated. One of: (background, orphan, foreground).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "background", default_missing_value = "background")]
    cascade: String,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Filter by fields, with '=', '==' and '!=' (e.g. --field-selector metadata.name=nginx).
    #[arg(long, default_value = "")]
    field_selector: String,
    /// Delete at once, without waiting for a graceful end.
    #[arg(long)]
    force: bool,
    /// Grace period of the object in seconds; the object's own when negative.
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// Treat an object that does not exist as success.
    #[arg(long)]
    ignore_not_found: bool,
    /// Prompt for confirmation first.
    #[arg(short = 'i', long)]
    interactive: bool,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// End objects after one second; the same as --grace-period=1.
    #[arg(long)]
    now: bool,
    /// Output mode. Use "-o name" for shorter output (resource/name).
    #[arg(short = 'o', long, default_value = "")]
    output: String,
    /// Send the DELETE to this path of the server.
    #[arg(long, default_value = "")]
    raw: String,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// How long to wait for the deletion; 0s waits without a limit.
    #[arg(long, default_value = "0s")]
    timeout: String,
    /// Wait for the deletion of the objects.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
}

/// The combined meaning of the flags.
#[derive(Clone, Debug)]
struct Plan {
    dry_run: DryRun,
    policy: &'static str,
    grace_period: Option<i64>,
    waits: bool,
    timeout: Duration,
}

impl DeleteArgs {
    fn plan(&self, context: &Context) -> Result<Plan, Error> {
        let refused = |text: &str| Err(Error::message(text));
        let dry_run = DryRun::parse(context, &self.dry_run)?;
        if !matches!(self.output.as_str(), "" | "name") {
            return Err(Error::message(format!(
                "unexpected -o output mode: {}. We only support '-o name'",
                self.output
            )));
        }
        if self.all && !(self.selector.is_empty() && self.field_selector.is_empty()) {
            return refused("setting 'all' parameter but found a non empty selector. ");
        }
        if self.now && self.grace_period >= 0 {
            return refused("--now and --grace-period cannot be specified together");
        }
        if self.force && self.grace_period > 0 {
            return refused("--force and --grace-period greater than 0 cannot be specified together");
        }
        if self.grace_period == 0 && !self.force {
            // As kubectl: such objects get one second, so that they end before the next command.
            return self.planned(context, dry_run, Some(1));
        }
        let grace_period = match (self.now, self.force, self.grace_period) {
            (true, _, _) => Some(1),
            (_, true, period) if period < 0 => Some(0),
            (_, _, period) => (period >= 0).then_some(period),
        };
        self.planned(context, dry_run, grace_period)
    }

    fn planned(&self, context: &Context, dry_run: DryRun, grace_period: Option<i64>) -> Result<Plan, Error> {
        Ok(Plan {
            dry_run,
            policy: flags::cascade(context, &self.cascade)?,
            grace_period,
            waits: self.wait && dry_run == DryRun::None && !self.force,
            timeout: flags::duration("--timeout", &self.timeout)?,
        })
    }

    fn selection(&self) -> ObjectSelection<'_> {
        ObjectSelection {
            files: &self.files,
            args: &self.args,
            namespace: self.namespace.as_deref(),
            all: self.all,
            all_namespaces: self.all_namespaces,
            selector: Some(&self.selector),
            field_selector: Some(&self.field_selector),
            validates: false,
        }
    }
}

pub fn run<'a>(context: &'a Context, args: &'a DeleteArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let plan = args.plan(context)?;
        if !args.raw.is_empty() {
            return raw(context, args).await;
        }
        if args.args.is_empty() && args.files.is_empty() {
            return Err(Error::message(targets::MISSING));
        }
        if args.force {
            context.log(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The \
             resource may continue to run on the cluster indefinitely.\n",
        );
        }
        let client = context.control_plane().await?;
        let found = objects::find(context, &client, args.selection()).await?;
        if found.is_empty() {
            context.print("No resources found\n");
            return Ok(());
        }
        let Found { items, mut errors, unread } = found;
        if args.interactive && !confirmed(context, &items)? {
            context.print("deletion is cancelled\n");
            return Ok(());
        }
        let mut deleted = Vec::new();
        for item in items {
            if args.namespace.is_some() && !args.all_namespaces && !item.resource.namespaced {
                context.warn("deleting cluster-scoped resources, not scoped to the provided namespace");
            }
            match delete(context, &client, args, &plan, &item).await {
                Ok(Some(uid)) => deleted.push((item, uid)),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if plan.waits {
            for (item, uid) in &deleted {
                if let Err(error) = gone(context, &client, item, Some(uid.as_str()), plan.timeout).await {
                    errors.push(error);
                }
            }
        }
        errors.extend(Error::of_all(unread).err());
        Error::of_all(errors)
    })
}

/// The UID of the deleted object; `None` if it was absent and `--ignore-not-found` is set.
async fn delete(
    context: &Context,
    client: &Client,
    args: &DeleteArgs,
    plan: &Plan,
    item: &Item,
) -> Result<Option<String>, Error> {
    let outcome = match plan.dry_run {
        // As in kubectl, no request is sent, so that an absent object would be deleted, too.
        DryRun::Client => Ok(Value::Null),
        _ => {
            let options = DeleteOptions {
                grace_period_seconds: plan.grace_period,
                propagation_policy: Some(plan.policy),
                preconditions: None,
                dry_run: if plan.dry_run == DryRun::Server { vec!["All"] } else { Vec::new() },
            };
            let body = serde_json::to_vec(&options).map_err(|error| Error::message(error.to_string()))?;
            match client::path_of(&item.resource, &item.key, None) {
                Ok(path) => requests::send(context, client, Method::DELETE, &path, Some((requests::JSON, body))).await,
                Err(error) => Err(error),
            }
        }
    };
    match outcome {
        Ok(answer) => {
            report(context, args, plan, item);
            // A Status names the uid in its details, an object that is still there in its metadata.
            let uid = answer["metadata"]["uid"].as_str().or_else(|| answer["details"]["uid"].as_str());
            Ok(Some(uid.unwrap_or_default().to_owned()))
        }
        // An object that was listed and is already deleted counts as deleted.
        Err(error) if error.is_not_found() && (args.ignore_not_found || args.all) => Ok(None),
        Err(error) => Err(item.failed("deleting")(error)),
    }
}

fn report(context: &Context, args: &DeleteArgs, plan: &Plan, item: &Item) {
    if args.output == "name" {
        context.print(&format!("{}\n", item.shown()));
        return;
    }
    let verb = if args.force { "force deleted" } else { "deleted" };
    let within = item.key.namespace().map(|namespace| format!(" from {namespace} namespace")).unwrap_or_default();
    let suffix = plan.dry_run.suffix();
    context.print(&format!("{} \"{}\" {verb}{within}{suffix}\n", item.kind_shown(), item.key.name()));
}

fn confirmed(context: &Context, items: &[Item]) -> Result<bool, Error> {
    context.print(&format!("You are about to delete the following {} resource(s):\n", items.len()));
    items.iter().for_each(|item| context.print(&format!("{}\n", item.shown())));
    context.print("Do you want to continue? (y/N): ");
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Error::message(format!("the standard input cannot be read: {error}")))?;
    Ok(line.trim().eq_ignore_ascii_case("y"))
}

/// Waits until the object with the UID is deleted, or, without a UID, the object with the name. A limit of zero means
/// no limit.
///
/// # Errors
/// When the limit passes, or the server does not answer.
pub fn gone<'a>(
    context: &'a Context,
    client: &'a Client,
    item: &'a Item,
    uid: Option<&'a str>,
    limit: Duration,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let waited = until_gone(context, client, item, uid);
        let outcome = match limit.is_zero() {
            true => Ok(waited.await),
            false => tokio::time::timeout(limit, waited).await,
        };
        match outcome {
            Ok(outcome) => outcome.map_err(Error::client(format!("wait for {} to be gone", item.shown()))),
            Err(_) => Err(Error::message(format!(
                "timed out waiting for the condition on {}/{}",
                item.resource.plural,
                item.key.name()
            ))),
        }
    })
}

async fn until_gone(context: &Context, client: &Client, item: &Item, uid: Option<&str>) -> Result<(), client::Error> {
    loop {
        let live = match requests::get(context, client, &item.resource, &item.key, None).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_other = uid.is_some_and(|uid| !uid.is_empty() && live["metadata"]["uid"] != uid);
        if is_other || deleted(client, &item.resource, &item.key, &live).await? {
            return Ok(());
        }
    }
}

/// Watches one object; `false` when the watch ends before the object does.
async fn deleted(
    client: &Client,
    resource: &apimachinery::ApiResource,
    key: &ObjectKey,
    live: &Value,
) -> Result<bool, client::Error> {
    let options = WatchOptions {
        field_selector: Some(format!("metadata.name={}", key.name())),
        resource_version: live["metadata"]["resourceVersion"].as_str().map(str::to_owned),
        ..WatchOptions::default()
    };
    let mut events = client.watch(resource, key.namespace(), &options).await?;
    while let Some(event) = events.next().await {
        match event {
            WatchEvent::Deleted(_) => return Ok(true),
            WatchEvent::Error(_) => break,
            _ => {}
        }
    }
    Ok(false)
}

async fn raw(context: &Context, args: &DeleteArgs) -> Result<(), Error> {
    if !args.args.is_empty() || !args.files.is_empty() {
        return Err(Error::message("--raw may not be used with resource arguments or files"));
    }
    let client = context.control_plane().await?;
    let answer = requests::raw(context, &client, Method::DELETE, &args.raw, None).await;
    let answer = answer.map_err(Error::client(format!("delete {}", args.raw)))?;
    context.print(&String::from_utf8_lossy(&answer));
    Ok(())
}
