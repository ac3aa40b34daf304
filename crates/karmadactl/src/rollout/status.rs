//! `rollout status`, and the code it shares with `wait --for=propagated`: follows template, binding and copies by
//! watches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::ObjectKey;
use client::Client;
use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use karmada_api::constants::templates;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use serde_json::Value;

use super::StatusArgs;
use super::kinds::{self, Step};
use super::state::{self, Copy, Goal, OverallState, Report, Seen};
use crate::Context;
use crate::error::Error;
use crate::follow::{self, State};
use crate::objects::{Item, flags};
use crate::scope::{self, OperationScope};
use crate::servers::{self, Server, reason};

pub(super) async fn run(context: &Context, args: &StatusArgs) -> Result<(), Error> {
    let scope = scope::parse(&args.operation_scope)?;
    let timeout = flags::duration("--timeout", &args.timeout)?;
    let limit = (!timeout.is_zero()).then_some(timeout);
    let control = context.control_plane().await?;
    if scope == OperationScope::Members {
        return in_members(context, &control, args, limit).await;
    }
    let aim = Aim {
        clusters: &args.clusters,
        goal: Goal::Rollout,
        reads_members: scope == OperationScope::All,
        watches: args.watch,
    };
    // As the members' scope does: a name that is no cluster would be waited for in vain.
    servers::select(&control, OperationScope::Members, &args.clusters).await?;
    let mut errors = Vec::new();
    for item in args.named.find(context, &control).await? {
        item.live(context, &control).await.map_err(Error::client(format!("get {}", item.shown())))?;
        let mut print = |line: String| context.print(&line);
        if let Err(error) = follow(&control, &item, &aim, limit, &mut print).await {
            errors.push(error);
        }
    }
    Error::of_all(errors)
}

/// The rollout to follow, and its goal.
#[derive(Clone, Copy, Debug)]
pub struct Aim<'a> {
    /// Clusters that count; all of the binding when empty.
    pub clusters: &'a [String],
    pub goal: Goal,
    /// Read the copies in members; the statuses that the control plane collected count otherwise.
    pub reads_members: bool,
    /// Wait for the end, and not only for the present state.
    pub watches: bool,
}

enum Source {
    Template,
    Binding,
    Member(String),
}

struct Following<'a> {
    control: &'a Client,
    item: &'a Item,
    aim: &'a Aim<'a>,
    seen: Seen,
    /// Template and binding, whether they exist or not.
    read: (bool, bool),
    followed: BTreeSet<String>,
    events: SelectAll<BoxStream<'static, (Source, State)>>,
    /// The last line of each.
    printed: BTreeMap<String, String>,
}

/// A name in the namespace of another object.
pub fn named_like(key: &ObjectKey, name: String) -> ObjectKey {
    match key.namespace() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

/// Why no policy ever claims objects of a kind: following one would never end.
fn never_claimed(item: &Item) -> Option<String> {
    let it = &item.resource;
    if (it.group.as_str(), it.kind.as_str()) == ("", "Namespace") {
        return Some(format!(
            "namespaces are propagated to every cluster without a policy: karmadactl why namespace/{}",
            item.key.name()
        ));
    }
    templates::is_skipped(&it.group, &it.version, &it.kind)
        .then(|| format!("objects of kind {} stay in the control plane: they have no rollout", it.kind))
}

/// Follows one object to the end; prints a line for each change. Without a limit it waits indefinitely. Returns whether
/// the goal is reached; only a goal without watching can be missed.
///
/// # Errors
/// When objects of its kind have no rollout, it fails in a cluster, the limit expires, or the control plane does not
/// respond.
pub fn follow<'a>(
    control: &'a Client,
    item: &'a Item,
    aim: &'a Aim<'a>,
    limit: Option<Duration>,
    print: &'a mut (dyn FnMut(String) + Send),
) -> BoxFuture<'a, Result<bool, Error>> {
    async move {
        if let Some(why) = never_claimed(item) {
            return Err(Error::message(format!("{}: {why}", item.shown())));
        }
        let binding = Binding::api_resource(Scope::of(&item.key));
        let key = named_like(&item.key, names::binding_name(&item.resource.kind, item.key.name()));
        let mut events = SelectAll::new();
        let template = follow::states(control, &item.resource, &item.key);
        events.push(template.map(|state| (Source::Template, state)).boxed());
        events.push(follow::states(control, &binding, &key).map(|state| (Source::Binding, state)).boxed());
        let mut following = Following {
            control,
            item,
            aim,
            seen: Seen::default(),
            read: (false, false),
            followed: BTreeSet::new(),
            events,
            printed: BTreeMap::new(),
        };
        let late = limit.map_or_else(|| futures::future::pending().boxed(), |limit| tokio::time::sleep(limit).boxed());
        futures::pin_mut!(late);
        loop {
            let event = tokio::select! {
                biased;
                event = following.events.next() => event,
                () = &mut late => return Err(following.late()),
            };
            // The streams have no end.
            let Some((source, state)) = event else { return Err(following.late()) };
            following.take(source, state)?;
            if following.read != (true, true) {
                continue;
            }
            let report = state::report(&following.seen, aim.clusters, aim.goal);
            following.print(&report, print);
            match state::whole(&report) {
                OverallState::Done => return Ok(true),
                OverallState::Failed(lines) => return Err(Error::Several(lines)),
                OverallState::Waiting if !aim.watches && following.has_read_all() => return Ok(false),
                OverallState::Waiting => {}
            }
        }
    }
    .boxed()
}

impl Following<'_> {
    fn take(&mut self, source: Source, state: State) -> Result<(), Error> {
        let shown = self.item.shown();
        match source {
            Source::Template => {
                self.seen.template = state.map_err(Error::client(format!("watch {shown}")))?;
                self.read.0 = true;
            }
            Source::Binding => {
                let binding = state.map_err(Error::client(format!("watch the binding of {shown}")))?;
                let scope = Scope::of(&self.item.key);
                let decoded = binding.map(|binding| Binding::from_value(scope, &binding)).transpose();
                self.seen.binding =
                    decoded.map_err(|error| Error::message(format!("the binding of {shown}: {error}")))?;
                self.read.1 = true;
                self.follow_clusters();
            }
            Source::Member(name) => {
                let copy = match state {
                    Ok(object) => Copy::Read(object),
                    Err(error) => Copy::Unreadable(reason(&error)),
                };
                self.seen.copies.insert(name, copy);
            }
        }
        Ok(())
    }

    /// Begins to follow clusters that the binding names for the first time.
    fn follow_clusters(&mut self) {
        let Some(binding) = &self.seen.binding else { return };
        for cluster in state::clusters(binding, self.aim.clusters) {
            if !self.followed.insert(cluster.name.clone()) {
                continue;
            }
            if !self.aim.reads_members {
                self.seen.copies.insert(cluster.name.clone(), Copy::Collected);
                continue;
            }
            let member = servers::member(self.control, &cluster.name);
            let name = cluster.name.clone();
            let states = follow::states(&member, &self.item.resource, &self.item.key);
            self.events.push(states.map(move |state| (Source::Member(name.clone()), state)).boxed());
        }
    }

    fn has_read_all(&self) -> bool {
        self.followed.iter().all(|name| self.seen.copies.contains_key(name))
    }

    /// Prints a line for each changed cluster; those not read yet are skipped.
    fn print(&mut self, report: &Report, print: &mut (dyn FnMut(String) + Send)) {
        for (cluster_name, step) in report {
            let is_unread = self.followed.contains(cluster_name) && !self.seen.copies.contains_key(cluster_name);
            if is_unread || self.printed.get(cluster_name).is_some_and(|before| before == step.text()) {
                continue;
            }
            self.printed.insert(cluster_name.clone(), step.text().to_owned());
            if !matches!(step, Step::Failed(_)) {
                print(format!("{cluster_name}: {}\n", crate::table::printable(step.text())));
            }
        }
    }

    /// The error after the time limit: the awaited state.
    fn late(&self) -> Error {
        let report = state::report(&self.seen, self.aim.clusters, self.aim.goal);
        let waiting = report.iter().filter_map(|(cluster_name, step)| match step {
            Step::Waiting(text) => Some(format!("{cluster_name}: {text}")),
            _ => None,
        });
        let waiting: Vec<String> = waiting.collect();
        let item = self.item;
        Error::message(format!(
            "timed out waiting for the condition on {}/{}: {}",
            item.resource.plural,
            item.key.name(),
            waiting.join("; ")
        ))
    }
}

/// The members' own rollouts, of managed and unmanaged objects.
async fn in_members(
    context: &Context,
    control: &Client,
    args: &StatusArgs,
    limit: Option<Duration>,
) -> Result<(), Error> {
    let servers = servers::select(control, OperationScope::Members, &args.clusters).await?;
    let ended = join_all(servers.iter().map(|server| in_member(context, server, args, limit))).await;
    let total = ended.len();
    let (absent, others): (Vec<_>, Vec<_>) =
        ended.into_iter().filter_map(Result::err).partition(|error| matches!(error, Failed::Absent(_)));
    // A member without the object is ignored, unless it is named or no member has it.
    let counts = !args.clusters.is_empty() || absent.len() == total;
    let absent = absent.into_iter().filter(|_| counts);
    let lines: Vec<String> = others.into_iter().chain(absent).map(|it| it.into_line()).collect();
    if lines.is_empty() { Ok(()) } else { Err(Error::Several(lines)) }
}

enum Failed {
    Absent(String),
    Other(String),
}

impl Failed {
    fn into_line(self) -> String {
        match self {
            Self::Absent(line) | Self::Other(line) => line,
        }
    }
}

async fn in_member(
    context: &Context,
    server: &Server,
    args: &StatusArgs,
    limit: Option<Duration>,
) -> Result<(), Failed> {
    let other = |why: String| Failed::Other(server.error(why));
    let items = args.named.find(context, &server.client).await.map_err(|error| other(error.to_string()))?;
    for item in items {
        let rollout = rollout(context, server, &item, args.watch);
        match limit {
            None => rollout.await?,
            Some(limit) => tokio::time::timeout(limit, rollout).await.unwrap_or_else(|_| {
                let what = format!("{}/{}", item.resource.plural, item.key.name());
                Err(other(format!("timed out waiting for the condition on {what}")))
            })?,
        }
    }
    Ok(())
}

async fn rollout(context: &Context, server: &Server, item: &Item, watches: bool) -> Result<(), Failed> {
    let other = |why: &str| Failed::Other(server.error(why));
    let mut states = follow::states(&server.client, &item.resource, &item.key);
    let mut printed = String::new();
    while let Some(state) = states.next().await {
        let object: Option<Value> = state.map_err(|error| other(&reason(&error)))?;
        let Some(object) = object else {
            let what = item.resource.gvr().group_resource();
            return Err(Failed::Absent(server.error(format!("{what} {:?} not found", item.key.name()))));
        };
        let Some(step) = kinds::step(&object) else {
            let kind = &item.resource.kind;
            return Err(other(&format!("a {kind} has no rollout; deployments, daemonsets and statefulsets have")));
        };
        if let Step::Failed(why) = &step {
            return Err(other(why));
        }
        if printed != step.text() {
            step.text().clone_into(&mut printed);
            context.print(&format!("{}: {}\n", server.name, crate::table::printable(step.text())));
        }
        if !watches || matches!(step, Step::Done(_)) {
            return Ok(());
        }
    }
    Ok(())
}
