//! `resume`: prints the changes that the control plane would make in members newer than its store, and confirms them.

mod plan;
mod print;
mod read;

use std::io::{BufRead as _, IsTerminal as _};

use apimachinery::ObjectKey;
use clap::Args;
use client::{Client, Patch, PatchOptions};
use interpreter::Interpreter;
use karmada_api::constants::annotations::RESUME_CONFIRMED;
use karmada_api::constants::conditions::RESUME_PENDING;
use karmada_api::names;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Context;
use crate::answers::text;
use crate::error::Error;
use crate::resources;
use plan::Plan;
pub use print::Form;

#[derive(Args)]
pub struct ResumeArgs {
    args: Vec<String>,
    /// Resume all held members.
    #[arg(long)]
    all: bool,
    /// Print the plan without confirming it.
    #[arg(long)]
    dry_run: bool,
    /// Confirm without a prompt.
    #[arg(long, short)]
    yes: bool,
    /// Print every field to overwrite.
    #[arg(long)]
    diff: bool,
    /// Output format: json or yaml. There is no prompt then; confirm with --yes.
    #[arg(short, long)]
    output: Option<String>,
}

/// A member that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldMember {
    cluster: String,
    /// The time of the condition, as in the object.
    since: String,
    reason: String,
    message: String,
    /// Confirmed, but not yet processed by the controllers.
    confirmed: bool,
}

/// Whether a Cluster is held.
fn held(cluster: &Value) -> Option<HeldMember> {
    let conditions = cluster["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == RESUME_PENDING && it["status"] == "True")?;
    let since = text(&condition["lastTransitionTime"]);
    let confirmed = cluster["metadata"]["annotations"][RESUME_CONFIRMED] == condition["lastTransitionTime"];
    Some(HeldMember {
        cluster: text(&cluster["metadata"]["name"]),
        since,
        reason: text(&condition["reason"]),
        message: text(&condition["message"]),
        confirmed,
    })
}

pub async fn run(context: &Context, args: &ResumeArgs) -> Result<(), Error> {
    let form = Form::parse(args.output.as_deref())?;
    if args.all && !args.args.is_empty() {
        return Err(Error::arguments("--all and cluster names exclude each other"));
    }
    let control = context.control_plane().await?;
    let clusters =
        read::list(&control, &resources::CLUSTER, None, None).await.map_err(Error::client("list clusters"))?;
    let all: Vec<HeldMember> = clusters.iter().filter_map(held).collect();
    if !args.all && args.args.is_empty() {
        context.print(&form.members(&all, context.columns())?);
        return Ok(());
    }
    let chosen = if args.all { all } else { chosen(context, &args.args, &clusters)? };
    if chosen.is_empty() {
        context.log("no member is held: there is nothing to confirm\n");
        return Ok(());
    }
    let may_prompt = form == Form::Text && std::io::stdin().is_terminal();
    if !args.dry_run && !args.yes && !may_prompt && form == Form::Text {
        return Err(Error::message(
            "standard input is not a terminal: print the plan with --dry-run, and confirm it with --yes",
        ));
    }
    let (mut planned, mut failures) = (Vec::new(), Vec::new());
    for held in chosen {
        match resume(context, &control, held, args, form).await {
            Ok(item) => planned.push(item),
            // Other members do not wait for it.
            Err(error) => failures.push(error),
        }
    }
    if form != Form::Text {
        context.print(&form.encode(&json!({ "items": planned }))?);
    }
    match failures.len() {
        0 => Ok(()),
        1 => Err(failures.remove(0)),
        _ => Err(Error::Several(failures.iter().map(|error| error.render().trim_end().to_owned()).collect())),
    }
}

/// The held ones among those that are named.
fn chosen(context: &Context, named: &[String], clusters: &[Value]) -> Result<Vec<HeldMember>, Error> {
    let mut chosen = Vec::new();
    for name in named {
        let Some(cluster) = clusters.iter().find(|it| it["metadata"]["name"] == name.as_str()) else {
            return Err(Error::message(format!(
                "cluster {name} does not exist; `karmadactl resume` lists those that are held"
            )));
        };
        match held(cluster) {
            Some(held) => chosen.push(held),
            None => context.log(&format!("cluster {name} is not held\n")),
        }
    }
    Ok(chosen)
}

/// A member with its plan, for `-o`.
#[derive(Serialize)]
struct Item {
    #[serde(flatten)]
    held: HeldMember,
    plan: Plan,
}

async fn resume(
    context: &Context,
    control: &Client,
    held: HeldMember,
    args: &ResumeArgs,
    form: Form,
) -> Result<Item, Error> {
    let cluster = held.cluster.as_str();
    let namespace = names::execution_namespace(cluster);
    let works = read::works(control, cluster, &namespace).await?;
    let warn = |text: String| context.log(&format!("Warning: {text}\n"));
    let (member, served) = read::member(&context.scanning(control), cluster, &works, &warn).await?;
    let plan = plan::plan(cluster, &namespace, &works, &member, &Interpreter::default());
    if form == Form::Text {
        let delete = plan.left.first().and_then(|id| {
            let resource = served.iter().find(|it| it.group == id.group && it.kind == id.kind)?;
            Some(read::proxied(cluster, resource, id))
        });
        context.print(&print::plan(&held, &plan, delete.as_deref(), args.diff));
    }
    if args.dry_run {
        return Ok(Item { held, plan });
    }
    if args.yes
        || (form == Form::Text && is_confirmed_by_user(context, &format!("Resume {cluster} with this plan? [y/N] ")))
    {
        confirm(control, &held).await?;
        context.log(&format!("cluster {cluster} is resumed\n"));
        return Ok(Item { held: HeldMember { confirmed: true, ..held }, plan });
    }
    context.log(&format!("cluster {cluster} stays as it is\n"));
    Ok(Item { held, plan })
}

fn is_confirmed_by_user(context: &Context, question: &str) -> bool {
    context.log(question);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Confirms the state that was shown: a member that is held again later has another time, and waits again.
async fn confirm(control: &Client, held: &HeldMember) -> Result<(), Error> {
    let patch = json!({"metadata": {"annotations": {RESUME_CONFIRMED: held.since}}});
    let key = ObjectKey::cluster(held.cluster.as_str());
    let patched = control.patch(&resources::CLUSTER, &key, &Patch::Merge(patch), &PatchOptions::default()).await;
    patched.map(drop).map_err(Error::client(format!("confirm the resumption of cluster {}", held.cluster)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_held_by_its_condition() {
        let cluster = |status: &str, confirmed: Option<&str>| {
            json!({"metadata": {"name": "m1", "annotations": confirmed.map(|it| json!({RESUME_CONFIRMED: it}))},
                "status": {"conditions": [{"type": "Ready", "status": "True"},
                    {"type": RESUME_PENDING, "status": status, "reason": "StoreOlderThanMember", "message": "why",
                     "lastTransitionTime": "2026-11-23T00:00:00Z"}]}})
        };
        assert_eq!(held(&cluster("False", None)), None);
        assert_eq!(held(&json!({"metadata": {"name": "m1"}})), None);
        let found = held(&cluster("True", None)).expect("it is held");
        assert_eq!((found.since.as_str(), found.confirmed), ("2026-11-23T00:00:00Z", false));
        assert!(held(&cluster("True", Some("2026-11-23T00:00:00Z"))).expect("it is held").confirmed);
        let stale = held(&cluster("True", Some("2026-11-22T00:00:00Z"))).expect("it is held");
        assert!(!stale.confirmed, "an earlier confirmation is of another state");
    }
}
