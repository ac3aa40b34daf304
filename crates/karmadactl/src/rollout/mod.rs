//! `rollout`: follows, lists, restarts and pauses rollouts of workloads over clusters.

mod change;
mod history;
mod ineffective;
mod kinds;
pub mod state;
pub mod status;

use clap::{Args, Subcommand};
use client::Client;
use futures::future::BoxFuture;

use crate::Context;
use crate::error::Error;
use crate::objects::flags::{Files, Printing};
use crate::objects::{self, Item, ObjectSelection};

#[derive(Args)]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Show the status of the rollout in every cluster.
    Status {
        #[command(flatten)]
        status: Box<StatusArgs>,
    },
    /// View the revisions in member clusters.
    History {
        #[command(flatten)]
        history: Box<HistoryArgs>,
    },
    /// Restart a resource in every cluster.
    Restart {
        #[command(flatten)]
        change: Box<ChangeArgs>,
    },
    /// Mark a deployment as paused.
    Pause {
        #[command(flatten)]
        change: Box<ChangeArgs>,
    },
    /// Resume a paused deployment.
    Resume {
        #[command(flatten)]
        change: Box<ChangeArgs>,
    },
    /// Explain how to return to a revision.
    Undo {
        #[command(flatten)]
        named: Box<Named>,
    },
}

/// The objects that a sub-command is about.
#[derive(Args)]
struct Named {
    /// TYPE NAME, TYPE/NAME, or TYPE with -l
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
}

impl Named {
    async fn find(&self, context: &Context, client: &Client) -> Result<Vec<Item>, Error> {
        let names_only_type = matches!(self.args.as_slice(), [only] if !only.contains('/')) && self.selector.is_empty();
        let selection = ObjectSelection {
            args: &self.args,
            all: names_only_type,
            ..ObjectSelection::files(&self.files, self.namespace.as_deref(), Some(&self.selector))
        };
        let found = objects::find(context, client, selection).await?;
        let items = found.all()?;
        if items.is_empty() {
            return Err(Error::message("no matching resources found"));
        }
        Ok(items)
    }
}

#[derive(Args)]
struct StatusArgs {
    #[command(flatten)]
    named: Named,
    /// Member clusters to follow; all that hold the object when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// Follow the status that the control plane collects (karmada), only the objects of member clusters (members), or
    /// the change from the control plane into the member clusters (all).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "all")]
    operation_scope: String,
    /// The length of time to wait before ending watch, zero means never (e.g. 1s, 2m, 3h).
    #[arg(long, default_value = "0s")]
    timeout: String,
    /// Watch the status of the rollout until it's done.
    #[arg(short = 'w', long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    watch: bool,
}

#[derive(Args)]
struct HistoryArgs {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    printing: Printing,
    /// Member clusters to include; all that hold the object when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// See the details, including the pod template, of the revision specified.
    #[arg(long, default_value_t = 0)]
    revision: i64,
}

#[derive(Args)]
struct ChangeArgs {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    printing: Printing,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-rollout")]
    field_manager: String,
}

pub fn run<'a>(context: &'a Context, program: &'a str, args: &'a RolloutArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        match &args.command {
            Some(Command::Status { status }) => status::run(context, status).await,
            Some(Command::History { history }) => history::run(context, history).await,
            Some(Command::Restart { change }) => change::run(context, program, change, change::Change::Restart).await,
            Some(Command::Pause { change }) => change::run(context, program, change, change::Change::Pause).await,
            Some(Command::Resume { change }) => change::run(context, program, change, change::Change::Resume).await,
            Some(Command::Undo { named }) => undo(context, program, named).await,
            None => Err(Error::arguments("rollout needs status, history, restart, pause, resume or undo")),
        }
    })
}

/// Templates have no revisions, and those of members include overrides, so a rollback needs a manifest.
async fn undo(context: &Context, program: &str, named: &Named) -> Result<(), Error> {
    let control = context.control_plane().await?;
    let refusal = |item: &Item| {
        let shown = item.shown();
        Error::message(format!(
            "cannot undo the rollout of {shown}: the control plane keeps no revisions of templates. Print those of the member \
             clusters with `{program} rollout history {shown}`, one of them with --revision=N -o yaml, and apply the earlier \
             manifest"
        ))
    };
    let items = named.find(context, &control).await?;
    Error::of_all(items.iter().map(refusal).collect())
}
