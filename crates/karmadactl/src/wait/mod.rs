//! `wait`: until objects of the control plane or of members are in a state. Watches, no polling.

mod condition;

use std::time::Duration;

use apimachinery::Status;
use clap::Args;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;

use crate::Context;
use crate::error::Error;
use crate::follow;
use crate::objects::flags::{DryRun, Files, Printing};
use crate::objects::{self, Found, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests;
use crate::rollout::state::Goal;
use crate::rollout::status::{self, Aim};
use crate::scope::{self, OperationScope};
use crate::servers::{self, Server};
use condition::Condition;

/// Objects watched at a time; each costs a connection's stream here and at the server.
const CONCURRENT: usize = 256;
/// kubectl's meaning of a negative time-out.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Args)]
pub struct WaitArgs {
    /// TYPE NAME..., TYPE/NAME..., or TYPE with -l or --all
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    printing: Printing,
    /// Wait for all objects of the types in the namespace.
    #[arg(long)]
    all: bool,
    /// Wait for objects of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Member clusters to include, with the scopes members and all; all of them when empty. With --for=propagated, the
    /// clusters that count.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// Filter by fields, with '=', '==' and '!=' (e.g. --field-selector metadata.name=nginx).
    #[arg(long, default_value = "")]
    field_selector: String,
    /// The condition to wait for: [create|delete|propagated|condition=NAME[=VALUE]|jsonpath='{EXPRESSION}'[=VALUE]].
    /// The value of a condition is true by default; its case does not matter. propagated: every cluster holds the
    /// newest generation and reports it healthy. Several conditions are awaited one after the other.
    #[arg(long = "for")]
    for_: Vec<String>,
    /// Check the manifests of files, without a server.
    #[arg(long)]
    local: bool,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Operate on the control plane (karmada), on member clusters (members), or on both (all).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// The length of time to wait before giving up. Zero means check once and don't wait, negative means wait for a
    /// week.
    #[arg(long, default_value = "30s", allow_hyphen_values = true)]
    timeout: String,
}

impl WaitArgs {
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

    fn conditions(&self) -> Result<Vec<Condition>, Error> {
        if self.for_.is_empty() {
            return Condition::parse("").map(|it| vec![it]).map_err(Error::Message);
        }
        self.for_.iter().map(|text| Condition::parse(text)).collect::<Result<_, _>>().map_err(Error::Message)
    }

    fn limit(&self) -> Result<Duration, Error> {
        let text = &self.timeout;
        let parsed: apimachinery::duration::Duration = text
            .parse()
            .map_err(|error| Error::Flag(format!("invalid argument {text:?} for \"--timeout\" flag: {error}")))?;
        Ok(parsed.to_std().unwrap_or(WEEK))
    }
}

/// One object at one server.
struct Subject<'a> {
    server: &'a Server,
    item: Item,
}

impl Subject<'_> {
    fn place(&self) -> String {
        if self.server.is_member() { format!(" in cluster {}", self.server.name) } else { String::new() }
    }

    fn late(&self) -> Error {
        let (plural, name) = (&self.item.resource.plural, self.item.key.name());
        Error::message(format!("timed out waiting for the condition on {plural}/{name}{}", self.place()))
    }

    fn failed(&self, why: String) -> Error {
        Error::message(if self.server.is_member() { self.server.error(why) } else { why })
    }
}

pub fn run<'a>(context: &'a Context, args: &'a WaitArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let conditions = args.conditions()?;
        let limit = args.limit()?;
        let scope = scope::parse(&args.operation_scope)?;
        let mut printer = Printer::new(&args.printing, DryRun::None)?;
        if args.local {
            return local(context, args, &conditions, &mut printer).await;
        }
        if conditions.contains(&Condition::Propagated) && scope != OperationScope::Karmada {
            return Err(Error::message(
                "--for=propagated is about the control plane's objects: leave out --operation-scope, and name clusters with -C",
            ));
        }
        let control = context.control_plane().await?;
        let servers = servers::select(&control, scope, &args.clusters).await?;
        let subjects = subjects(context, &servers, args, &conditions).await?;
        let waits: Vec<_> =
            subjects.iter().map(|subject| wait_all(context, subject, args, &conditions, limit)).collect();
        let mut ended = futures::stream::iter(waits).buffered(CONCURRENT);
        let mut errors = Vec::new();
        let mut subjects = subjects.iter();
        while let (Some((met, error)), Some(subject)) = (ended.next().await, subjects.next()) {
            let done = format!("condition met{}", subject.place());
            for object in met {
                printer.done(context, &subject.item.shown(), &done, &object)?;
            }
            errors.extend(error);
        }
        Error::of_all(errors)
    })
}

/// The states that fulfil the conditions, one after the other, up to the first error.
async fn wait_all(
    context: &Context,
    subject: &Subject<'_>,
    args: &WaitArgs,
    conditions: &[Condition],
    limit: Duration,
) -> (Vec<Value>, Option<Error>) {
    let mut late = tokio::time::sleep(limit).boxed();
    let mut met = Vec::new();
    for condition in conditions {
        match wait(context, subject, args, condition, limit, &mut late).await {
            Ok(Outcome::Met(object)) => met.push(object),
            Ok(Outcome::Absent) => break,
            Err(error) => return (met, Some(error)),
        }
    }
    (met, None)
}

/// How a wait without an error ended.
enum Outcome {
    /// The object was never there, as its deletion requires; kubectl does not print it.
    Absent,
    Met(Value),
}

/// The objects at each server.
async fn subjects<'a>(
    context: &Context,
    servers: &'a [Server],
    args: &WaitArgs,
    conditions: &[Condition],
) -> Result<Vec<Subject<'a>>, Error> {
    let mut subjects = Vec::new();
    for server in servers {
        let found = objects::find(context, &server.client, args.selection()).await;
        let found = found.and_then(Found::all);
        let items = match found {
            Err(Error::Message(why)) if server.is_member() => return Err(Error::message(server.error(why))),
            found => found?,
        };
        subjects.extend(items.into_iter().map(|item| Subject { server, item }));
    }
    // Deleted objects fulfil the condition already.
    if subjects.is_empty() && !conditions.contains(&Condition::Delete) {
        return Err(Error::message("no matching resources found"));
    }
    Ok(subjects)
}

/// The state that fulfils the condition.
async fn wait(
    context: &Context,
    subject: &Subject<'_>,
    args: &WaitArgs,
    condition: &Condition,
    limit: Duration,
    mut late: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Outcome, Error> {
    let (client, item) = (&subject.server.client, &subject.item);
    if *condition == Condition::Propagated {
        let live = item.live(context, client).await.map_err(Error::client(format!("get {}", item.shown())))?;
        let watches = !limit.is_zero();
        let aim = Aim { clusters: &args.clusters, goal: Goal::Propagated, reads_members: true, watches };
        let ended = status::follow(client, item, &aim, watches.then_some(limit), &mut |_| ()).await?;
        return if ended { Ok(Outcome::Met(live)) } else { Err(subject.late()) };
    }
    let mut states = follow::states(client, &item.resource, &item.key);
    let mut uid: Option<String> = None;
    let mut is_first = true;
    loop {
        // The first state is read with any limit: a limit of zero checks once.
        let state = match is_first {
            true => states.next().await,
            false => tokio::select! {
                biased;
                state = states.next() => state,
                () = &mut late => None,
            },
        };
        let Some(state) = state else { return Err(subject.late()) };
        let state = state.map_err(|error| match subject.server.is_member() {
            true => subject.failed(servers::reason(&error)),
            false => Error::client(format!("watch {}", item.shown()))(error),
        })?;
        match condition {
            Condition::Delete if is_first && state.is_none() => return Ok(Outcome::Absent),
            Condition::Create | Condition::Delete => {}
            _ if is_first && state.is_none() => return Err(absent(subject).await),
            _ => {}
        }
        if is_first {
            uid = state.as_ref().and_then(|it| it["metadata"]["uid"].as_str()).map(str::to_owned);
        }
        if condition.is_met(state.as_ref(), uid.as_deref()).map_err(|why| subject.failed(why))? {
            return Ok(Outcome::Met(state.unwrap_or_default()));
        }
        if limit.is_zero() {
            let (plural, name) = (&item.resource.plural, item.key.name());
            return Err(Error::message(format!("condition not met for {plural}/{name}{}", subject.place())));
        }
        is_first = false;
    }
}

async fn absent(subject: &Subject<'_>) -> Error {
    let (client, item) = (&subject.server.client, &subject.item);
    let status = Status::not_found(&item.resource.group, &item.resource.plural, item.key.name());
    let error = requests::absent(client, &item.key, status.into()).await;
    match subject.server.is_member() {
        true => subject.failed(servers::reason(&error)),
        false => Error::client(format!("get {}", item.shown()))(error),
    }
}

/// `--local`: the manifests as they are.
async fn local(
    context: &Context,
    args: &WaitArgs,
    conditions: &[Condition],
    printer: &mut Printer,
) -> Result<(), Error> {
    let mut errors = Vec::new();
    for item in objects::locals(&args.files).await?.all()? {
        let object = item.object.clone().unwrap_or_default();
        for condition in conditions {
            if !condition.is_met(Some(&object), None).map_err(Error::Message)? {
                let shown = item.shown();
                errors.push(Error::message(format!("timed out waiting for the condition on {shown}")));
                break;
            }
            printer.done(context, &item.shown(), "condition met", &object)?;
        }
    }
    Error::of_all(errors)
}
