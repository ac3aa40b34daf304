//! `top`: the usage of pods and nodes in members, from their metrics API.

mod print;

use apimachinery::url::Query;
use clap::{Args, Subcommand};
use client::ListOptions;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;

use crate::error::Error;
use crate::scope::OperationScope;
use crate::servers::{self, Server, reason};
use crate::{Context, answers, requests};
use print::{NodeRow, PodRow, SortBy};

const GROUP: &str = "/apis/metrics.k8s.io/v1beta1";

#[derive(Args)]
pub struct TopArgs {
    #[command(subcommand)]
    subject: Option<Subject>,
}

#[derive(Subcommand)]
enum Subject {
    /// Display CPU and memory usage of pods of member clusters.
    #[command(visible_aliases = ["pods", "po"])]
    Pod {
        #[command(flatten)]
        pod: Box<PodArgs>,
    },
    /// Display CPU and memory usage of nodes of member clusters.
    #[command(visible_aliases = ["nodes", "no"])]
    Node {
        #[command(flatten)]
        node: Box<NodeArgs>,
    },
}

#[derive(Args)]
struct PodArgs {
    /// NAME
    args: Vec<String>,
    /// List pods of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Member clusters to include; all of them when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// Print the usage of each container.
    #[arg(long)]
    containers: bool,
    /// Filter by fields, with '=', '==' and '!=' (e.g. --field-selector metadata.name=nginx).
    #[arg(long, default_value = "")]
    field_selector: String,
    /// Namespace of the pods; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Don't print headers.
    #[arg(long)]
    no_headers: bool,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Sort by this resource. One of: (cpu, memory).
    #[arg(long, default_value = "")]
    sort_by: String,
    /// Print the sum of all rows.
    #[arg(long)]
    sum: bool,
    /// Accepted for upstream's sake: metrics are read as JSON.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    use_protocol_buffers: bool,
}

#[derive(Args)]
struct NodeArgs {
    /// NAME
    args: Vec<String>,
    /// Member clusters to include; all of them when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    clusters: Vec<String>,
    /// Don't print headers.
    #[arg(long)]
    no_headers: bool,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Print percentages of the nodes' capacity instead of their allocatable resources.
    #[arg(long)]
    show_capacity: bool,
    /// Sort by this resource. One of: (cpu, memory).
    #[arg(long, default_value = "")]
    sort_by: String,
    /// Accepted for upstream's sake: metrics are read as JSON.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    use_protocol_buffers: bool,
}

pub fn run<'a>(context: &'a Context, args: &'a TopArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        match &args.subject {
            Some(Subject::Pod { pod }) => pods(context, pod).await,
            Some(Subject::Node { node }) => nodes(context, node).await,
            None => Err(Error::arguments("top needs pod or node")),
        }
    })
}

async fn pods(context: &Context, args: &PodArgs) -> Result<(), Error> {
    let sort_by = SortBy::parse(&args.sort_by)?;
    let name = match args.args.as_slice() {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return Err(Error::usage("pod [NAME | -l label]")),
    };
    if name.is_some() && !(args.selector.is_empty() && args.field_selector.is_empty()) {
        return Err(Error::message("only one of NAME or selector can be provided"));
    }
    let servers = members(context, &args.clusters).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
    let place = if args.all_namespaces { String::new() } else { format!("/namespaces/{namespace}") };
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let path = match name {
        Some(name) => format!("{GROUP}/namespaces/{namespace}/pods/{name}"),
        None => {
            let query = Query::default()
                .with_some("labelSelector", text(&args.selector).as_deref())
                .with_some("fieldSelector", text(&args.field_selector).as_deref());
            query.after(&format!("{GROUP}{place}/pods"))
        }
    };
    let path = path.as_str();
    let requests = servers.iter().map(|server| async move { (server, metrics(context, server, path).await) });
    let answers: Vec<_> =
        futures::stream::iter(requests.collect::<Vec<_>>()).buffered(servers::CONCURRENT).collect().await;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for (server, answer) in answers {
        match answer {
            Ok(items) => rows.extend(items.iter().map(|item| PodRow::new(&server.name, item))),
            Err(why) => failures.push(server.error(why)),
        }
    }
    if rows.is_empty() && failures.is_empty() {
        context.log(&match args.all_namespaces {
            true => "No resources found\n".to_owned(),
            false => format!("No resources found in {namespace} namespace.\n"),
        });
    }
    print::sort_pods(&mut rows, sort_by);
    let columns = print::PodColumns {
        namespaces: args.all_namespaces,
        containers: args.containers,
        headers: !args.no_headers,
        sum: args.sum,
    };
    context.print(&print::pods(&rows, columns));
    if failures.is_empty() { Ok(()) } else { Err(Error::Several(failures)) }
}

async fn nodes(context: &Context, args: &NodeArgs) -> Result<(), Error> {
    let sort_by = SortBy::parse(&args.sort_by)?;
    let name = match args.args.as_slice() {
        [] => "",
        [name] => name.as_str(),
        _ => return Err(Error::usage("node [NAME | -l label]")),
    };
    if !name.is_empty() && !args.selector.is_empty() {
        return Err(Error::message("only one of NAME or --selector can be provided"));
    }
    let servers = members(context, &args.clusters).await?;
    let requests = servers.iter().map(|server| async move { (server, of_nodes(context, server, name, args).await) });
    let answers: Vec<_> =
        futures::stream::iter(requests.collect::<Vec<_>>()).buffered(servers::CONCURRENT).collect().await;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for (server, answer) in answers {
        match answer {
            Ok(found) => rows.extend(found),
            Err(why) => failures.push(server.error(why)),
        }
    }
    if rows.is_empty() && failures.is_empty() {
        context.log("No resources found\n");
    }
    print::sort_nodes(&mut rows, sort_by);
    context.print(&print::nodes(&rows, !args.no_headers));
    if failures.is_empty() { Ok(()) } else { Err(Error::Several(failures)) }
}

/// The nodes of a member with their usage; nodes without metrics have none.
async fn of_nodes(context: &Context, server: &Server, name: &str, args: &NodeArgs) -> Result<Vec<NodeRow>, String> {
    let query = match (name, args.selector.as_str()) {
        ("", "") => Query::default(),
        ("", selector) => Query::default().with("labelSelector", selector),
        (name, _) => Query::default().with("fieldSelector", &format!("metadata.name={name}")),
    };
    let path = match name {
        "" => query.after(&format!("{GROUP}/nodes")),
        name => format!("{GROUP}/nodes/{name}"),
    };
    let usage = metrics(context, server, &path).await?;
    let options = ListOptions {
        label_selector: Some(args.selector.clone()).filter(|text| !text.is_empty()),
        field_selector: (!name.is_empty()).then(|| format!("metadata.name={name}")),
        ..ListOptions::default()
    };
    let resource = apimachinery::ApiResource::cluster("", "v1", "Node", "nodes");
    let listed = requests::send(context, &server.client, Method::GET, &options.path(&resource, None), None).await;
    let mut list = listed.map_err(|error| reason(&error))?;
    let nodes = answers::take_items(&mut list).unwrap_or_default();
    let field = if args.show_capacity { "capacity" } else { "allocatable" };
    let row = |node: &Value| {
        let used = usage.iter().find(|it| it["metadata"]["name"] == node["metadata"]["name"]);
        NodeRow::new(&server.name, node, &node["status"][field], used)
    };
    Ok(nodes.iter().map(row).collect())
}

async fn members(context: &Context, clusters: &[String]) -> Result<Vec<Server>, Error> {
    let control = context.control_plane().await?;
    servers::select(&control, OperationScope::Members, clusters).await
}

/// The items of a metrics list, or the one object.
async fn metrics(context: &Context, server: &Server, path: &str) -> Result<Vec<Value>, String> {
    let answer = requests::send(context, &server.client, Method::GET, path, None).await;
    match answer {
        Ok(mut list) => Ok(answers::take_items(&mut list).unwrap_or_else(|| vec![list])),
        // A 404 that names no object means the group itself.
        Err(error) => match error.status() {
            Some(status)
                if status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty()) =>
            {
                Err("metrics API not available".into())
            }
            _ => Err(reason(&error)),
        },
    }
}
