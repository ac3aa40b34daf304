//! `diff`: compares templates with their overrides, or files that are not applied yet, with the members' objects.
//!
//! [`desired`] and [`shown`] are pure; [`read`] and [`preview`] read.

mod desired;
mod external;
mod preview;
mod read;
mod shown;
#[cfg(test)]
mod tests;
mod unified;

use apimachinery::{ApiResource, ObjectKey};
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use karmada_api::manifest::prune;
use propagation::compare::covers;
use propagation::retain::{Update, is_managed, plan_update};
use propagation::template::Template;
use serde_json::Value;

use crate::error::Error;
use crate::objects::flags::Files;
use crate::why::read::{MemberObject, object_in};
use crate::{Context, servers};
use desired::{Copy, RenderInputs};
use read::Subject;

#[derive(Args)]
pub struct DiffArgs {
    /// The template: TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME")]
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Names of the member clusters to compare; all that the objects are for when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// Number of objects that are read from members at the same time
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Name of the manager that owns the fields of the files.
    #[arg(long, default_value = "kubectl-client-side-apply")]
    field_manager: String,
    /// Take over fields of other managers, with --server-side.
    #[arg(long)]
    force_conflicts: bool,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Let the server merge the files, as apply --server-side does.
    #[arg(long)]
    server_side: bool,
}

/// The exit code after an error; 1 means differences.
const TROUBLE: u8 = 2;

/// The two sides of one object in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    pub cluster: String,
    /// `apps.v1.Deployment.shop.web`
    pub object: String,
    /// Empty where it is absent.
    pub before: String,
    pub after: String,
}

impl Compared {
    /// The name of its file.
    pub fn name(&self) -> String {
        format!("{}.{}", self.cluster, self.object)
    }

    fn text(&self) -> String {
        let (cluster, object) = (&self.cluster, &self.object);
        let (live, merged) = (format!("LIVE/{cluster}/{object}"), format!("MERGED/{cluster}/{object}"));
        let hunks = unified::hunks(&self.before, &self.after);
        format!("diff -u -N {live} {merged}\n--- {live}\n+++ {merged}\n{hunks}")
    }
}

pub fn run<'a>(context: &'a Context, args: &'a DiffArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let coded = |code, error| Error::Coded { code, error: Box::new(error) };
        match compare(context, args).await {
            Ok((false, errors)) if errors.is_empty() => Ok(()),
            Ok((true, errors)) if errors.is_empty() => Err(coded(1, Error::Silent)),
            Ok((_, errors)) => Err(coded(TROUBLE, Error::of_all(errors).err().unwrap_or(Error::Silent))),
            Err(error) => Err(coded(TROUBLE, error)),
        }
    })
}

/// Returns whether there are differences, and the errors of comparisons that failed.
async fn compare(context: &Context, args: &DiffArgs) -> Result<(bool, Vec<Error>), Error> {
    if args.args.is_empty() && args.files.is_empty() {
        return Err(Error::arguments("an object or -f is required, as in: diff deployment/web -n shop"));
    }
    let client = context.control_plane().await?;
    let (subjects, around, mut errors) = read::subjects(context, &client, args).await?;
    let unknown: Vec<&str> =
        args.clusters.iter().filter(|name| !around.clusters.contains_key(name.as_str())).map(String::as_str).collect();
    if !unknown.is_empty() {
        return Err(Error::message(format!("clusters don't exist: {}", unknown.join(","))));
    }
    let preview = !args.files.is_empty();
    let mut desired_copies: Vec<(&Subject, Copy)> = Vec::new();
    for subject in &subjects {
        let plan = desired::plan(&subject.source, &around, preview);
        plan.notes.iter().for_each(|note| context.log(&format!("{note}\n")));
        errors.extend(plan.errors.into_iter().map(Error::message));
        let is_meant = |it: &Copy| args.clusters.is_empty() || args.clusters.contains(&it.cluster);
        desired_copies.extend(plan.copies.into_iter().filter(is_meant).map(|copy| (subject, copy)));
    }
    for (subject, copy) in desired_copies.iter().filter(|(_, copy)| copy.suspended) {
        context.log(&format!("{}: {}: dispatching is suspended, nothing is written\n", copy.cluster, subject.name()));
    }
    let reads: Vec<_> = desired_copies
        .iter()
        .map(|(subject, copy)| {
            let member = servers::member(&client, &copy.cluster);
            observed(member, subject.resource.clone(), subject.key())
        })
        .collect();
    // In the order of the objects, not of the responses.
    let found: Vec<MemberObject> = stream::iter(reads).buffered(args.concurrency.max(1)).collect().await;
    let mut compared = Vec::new();
    for ((subject, copy), there) in desired_copies.iter().zip(found) {
        match one(subject, copy, there, &around) {
            Ok(sides) => compared.extend(sides),
            Err(why) => errors.push(Error::message(format!("cluster {}: {}: {why}", copy.cluster, subject.name()))),
        }
    }
    let differs = match external::named() {
        Some(command) if !compared.is_empty() => external::run(&command, &compared).await?,
        _ => {
            compared.iter().for_each(|it| context.print(&it.text()));
            !compared.is_empty()
        }
    };
    Ok((differs, errors))
}

fn observed(member: Client, resource: ApiResource, key: ObjectKey) -> BoxFuture<'static, MemberObject> {
    Box::pin(async move { object_in(&member, &resource, &key).await })
}

/// The sides of one object, where they differ.
fn one(subject: &Subject, copy: &Copy, there: MemberObject, around: &RenderInputs) -> Result<Option<Compared>, String> {
    let observed = match there {
        MemberObject::Unknown(why) => return Err(why),
        MemberObject::Absent => None,
        MemberObject::Found(observed) => Some(observed),
    };
    let desired: Option<Value> = match (&copy.manifest, &observed) {
        (None, None) => return Ok(None),
        // Foreign objects stay.
        (None, Some(observed)) if !is_managed(Template(observed)) => return Ok(None),
        (None, Some(_)) => None,
        (Some(manifest), None) => Some(manifest.clone()),
        (Some(manifest), Some(observed)) => {
            if copy.had && is_managed(Template(observed)) && covers(observed, manifest) {
                return Ok(None);
            }
            let update = plan_update(manifest, observed, &around.interpreter, &copy.cluster);
            match update.map_err(|error| error.to_string())? {
                Update::Unchanged => return Ok(None),
                Update::Put(desired) if copy.had && covers(observed, &desired) => return Ok(None),
                Update::Put(desired) => Some(desired),
            }
        }
    };
    // Fields that only the member or the control plane's bookkeeping writes are not differences.
    let pruned = |object: Option<Value>| {
        object.map(|mut it| {
            prune(&mut it);
            it
        })
    };
    let (before, after) = shown::texts(pruned(observed).as_ref(), pruned(desired).as_ref());
    let object = subject.file_name();
    Ok((before != after).then(|| Compared { cluster: copy.cluster.clone(), object, before, after }))
}
