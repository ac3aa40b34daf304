//! `rollout history`: the revisions of members, in their ReplicaSets and ControllerRevisions.

use apimachinery::ApiResource;
use apimachinery::selector::Selector;
use client::{Client, ListOptions};
use futures::StreamExt;
use http::Method;
use serde_json::Value;

use super::{HistoryArgs, kinds};
use crate::Context;
use crate::answers::text;
use crate::error::Error;
use crate::objects::Item;
use crate::objects::flags::DryRun;
use crate::printing::Printer;
use crate::scope::OperationScope;
use crate::servers::{self, Server, reason};
use crate::table::{Layout, printable};
use crate::{answers, requests};

/// Members read at a time, as by `get`.
const CONCURRENT: usize = 32;
const REVISION: &str = "deployment.kubernetes.io/revision";
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// One revision of one object in one member.
#[derive(Debug)]
struct Revision {
    number: i64,
    object: Value,
}

/// The revisions of an object, by cluster.
struct Histories {
    shown: String,
    of_clusters: Vec<(String, Vec<Revision>)>,
}

pub(super) async fn run(context: &Context, args: &HistoryArgs) -> Result<(), Error> {
    if args.revision < 0 {
        return Err(Error::Flag(format!("revision must be a positive integer: {}", args.revision)));
    }
    let control = context.control_plane().await?;
    let servers = servers::select(&control, OperationScope::Members, &args.clusters).await?;
    let reads: Vec<_> = servers.iter().map(|server| in_member(context, server, args)).collect();
    let read: Vec<_> = futures::stream::iter(reads).buffered(CONCURRENT).collect().await;
    let mut failures = Vec::new();
    let mut histories: Vec<Histories> = Vec::new();
    for (server, found) in servers.iter().zip(read) {
        match found {
            Ok(found) => found.into_iter().for_each(|(shown, revisions)| {
                let place = histories.iter_mut().find(|it| it.shown == shown);
                match place {
                    Some(it) => it.of_clusters.push((server.name.clone(), revisions)),
                    None => histories.push(Histories { shown, of_clusters: vec![(server.name.clone(), revisions)] }),
                }
            }),
            // A member that does not hold the object has no history of it; named, that is worth an error.
            Err(Failed::Absent(_)) if args.clusters.is_empty() => {}
            Err(Failed::Absent(line) | Failed::Other(line)) => failures.push(line),
        }
    }
    if histories.is_empty() && failures.is_empty() {
        failures.push("no member cluster holds the object".to_owned());
    }
    if !args.printing.output.is_empty() {
        let objects = histories.into_iter().flat_map(|it| it.of_clusters).flat_map(|(_, revisions)| revisions);
        let objects: Vec<Value> = objects.map(|it| it.object).collect();
        if args.printing.output == "name" {
            objects.iter().for_each(|object| context.print(&format!("{}\n", named(object))));
            return if failures.is_empty() { Ok(()) } else { Err(Error::Several(failures)) };
        }
        Printer::new(&args.printing, DryRun::None)?.all(context, objects)?;
    } else {
        for history in &histories {
            let text = if args.revision > 0 { details(history) } else { table(history, context.columns()) };
            context.print(&text);
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Several(failures)) }
}

enum Failed {
    Absent(String),
    Other(String),
}

async fn in_member(
    context: &Context,
    server: &Server,
    args: &HistoryArgs,
) -> Result<Vec<(String, Vec<Revision>)>, Failed> {
    let other = |why: String| Failed::Other(server.error(why));
    let items = args.named.find(context, &server.client).await.map_err(|error| other(error.to_string()))?;
    let mut found = Vec::new();
    for item in items {
        let owner = item.live(context, &server.client).await.map_err(|error| match error.is_not_found() {
            true => Failed::Absent(server.error(reason(&error))),
            false => other(reason(&error)),
        })?;
        let mut revisions = of_owner(context, &server.client, &item, &owner).await.map_err(other)?;
        if args.revision > 0 {
            revisions.retain(|it| it.number == args.revision);
            if revisions.is_empty() {
                return Err(other(format!("unable to find revision {} of {}", args.revision, item.shown())));
            }
        }
        found.push((item.shown(), revisions));
    }
    Ok(found)
}

async fn of_owner(context: &Context, client: &Client, item: &Item, owner: &Value) -> Result<Vec<Revision>, String> {
    let kind = &item.resource.kind;
    if !kinds::rolls_out(&item.resource.group, kind) {
        return Err(format!("a {kind} has no history; deployments, daemonsets and statefulsets have"));
    }
    let resource = match kind.as_str() {
        "Deployment" => ApiResource::namespaced("apps", "v1", "ReplicaSet", "replicasets"),
        _ => ApiResource::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions"),
    };
    let selector = serde_json::from_value(owner["spec"]["selector"].clone()).map_err(|error| error.to_string())?;
    let selector = Selector::from_label_selector(&selector).map_err(|error| error.to_string())?;
    let path = ListOptions::labels(selector.to_string()).path(&resource, item.key.namespace());
    let listed = requests::send(context, client, Method::GET, &path, None).await;
    let mut list = listed.map_err(|error| reason(&error))?;
    Ok(revisions(&resource, owner, answers::take_items(&mut list).unwrap_or_default()))
}

/// The revisions of the owner, oldest first. Items of lists leave out their kind.
fn revisions(resource: &ApiResource, owner: &Value, objects: Vec<Value>) -> Vec<Revision> {
    let uid = &owner["metadata"]["uid"];
    let is_owned = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        owners.iter().any(|reference| reference["uid"] == *uid)
    };
    let number = |object: &Value| match object["revision"].as_i64() {
        Some(number) => number,
        None => {
            let annotation = object["metadata"]["annotations"][REVISION].as_str();
            annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
        }
    };
    let of_list = |mut object: Value| {
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.clone().into();
        Revision { number: number(&object), object }
    };
    let mut revisions: Vec<Revision> = objects.into_iter().filter(is_owned).map(of_list).collect();
    revisions.sort_by_key(|it| it.number);
    revisions
}

/// `replicaset.apps/web-5d8f`
fn named(object: &Value) -> String {
    format!("{}.apps/{}", text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))
}

fn cause(object: &Value) -> String {
    printable(object["metadata"]["annotations"][CHANGE_CAUSE].as_str().unwrap_or("<none>"))
}

fn table(history: &Histories, columns: Option<usize>) -> String {
    let headings = ["CLUSTER", "REVISION", "CHANGE-CAUSE"].map(str::to_owned).to_vec();
    let mut layout = Layout::fitting(columns, &headings);
    let mut lines = vec![headings];
    for (cluster, revisions) in &history.of_clusters {
        lines.extend(revisions.iter().map(|it| vec![cluster.clone(), it.number.to_string(), cause(&it.object)]));
    }
    format!("{}\n{}\n", history.shown, layout.render(&lines))
}

/// The pod template of the one revision in each cluster.
fn details(history: &Histories) -> String {
    let mut text = String::new();
    for (cluster, revisions) in &history.of_clusters {
        for revision in revisions {
            // A ControllerRevision holds a patch of its owner.
            let template = [&revision.object["spec"]["template"], &revision.object["data"]["spec"]["template"]];
            let template = template.into_iter().find(|it| !it.is_null()).cloned().unwrap_or_default();
            text.push_str(&format!("{} with revision #{} in cluster {cluster}\n", history.shown, revision.number));
            text.push_str("Pod Template:\n");
            let yaml = apimachinery::yaml::to_string(&template);
            yaml.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn revisions_are_those_of_the_owner_in_order() {
        let resource = ApiResource::namespaced("apps", "v1", "ReplicaSet", "replicasets");
        let set = |name: &str, owner: &str, revision: &str, cause: Value| {
            json!({"metadata": {"name": name, "ownerReferences": [{"uid": owner}],
                "annotations": {REVISION: revision, CHANGE_CAUSE: cause}},
                "spec": {"template": {"metadata": {"labels": {"app": name}}}}})
        };
        let sets = vec![
            set("c", "u", "10", json!("image 1.2")),
            set("a", "u", "9", Value::Null),
            set("b", "other", "1", Value::Null),
        ];
        let owner = json!({"metadata": {"uid": "u"}});
        let found = revisions(&resource, &owner, sets);
        assert_eq!(
            found.iter().map(|it| named(&it.object)).collect::<Vec<_>>(),
            ["replicaset.apps/a", "replicaset.apps/c"]
        );
        let history = Histories { shown: "deployment.apps/web".into(), of_clusters: vec![("m1".into(), found)] };
        expect![[r#"
            deployment.apps/web
            CLUSTER   REVISION   CHANGE-CAUSE
            m1        9          <none>
            m1        10         image 1.2

        "#]]
        .assert_eq(&table(&history, None));
        expect![[r#"
            deployment.apps/web with revision #9 in cluster m1
            Pod Template:
              metadata:
                labels:
                  app: a

            deployment.apps/web with revision #10 in cluster m1
            Pod Template:
              metadata:
                labels:
                  app: c

        "#]]
        .assert_eq(&details(&history));
    }
}
