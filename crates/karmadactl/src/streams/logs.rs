//! `logs`: prints the logs of a member's containers.

use clap::Args;
use clap::builder::ArgPredicate;
use client::Client;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http_body_util::BodyExt as _;

use super::{pods, starting};
use crate::error::Error;
use crate::objects::flags;
use crate::requests;
use crate::scope::OperationScope;
use crate::{Context, output, servers};
use apimachinery::go_time;
use apimachinery::url::{Query, segment};

const USAGE: &str = "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER] (-C CLUSTER)'.\n\
                     POD or TYPE/NAME is a required argument for the logs command";

#[derive(Args)]
pub struct LogsArgs {
    /// POD or TYPE/NAME, and CONTAINER
    args: Vec<String>,
    /// Print the logs of all containers of the pods.
    #[arg(long)]
    all_containers: bool,
    /// Print the logs of all pods of TYPE/NAME, and the source of each line.
    #[arg(long)]
    all_pods: bool,
    /// Name of the member cluster.
    #[arg(short = 'C', long, default_value = "")]
    cluster: String,
    /// Print the logs of this container.
    #[arg(short = 'c', long, default_value = "")]
    container: String,
    /// Stream the logs as they are written.
    #[arg(short = 'f', long)]
    follow: bool,
    /// Continue with the other pods when one fails, with --follow.
    #[arg(long)]
    ignore_errors: bool,
    /// Skip the verification of the kubelet that the logs are requested from.
    #[arg(long)]
    insecure_skip_tls_verify_backend: bool,
    /// Maximum bytes of logs to return; no limit when 0.
    #[arg(long, default_value_t = 0)]
    limit_bytes: i64,
    /// Maximum number of logs to follow at a time, with a selector.
    #[arg(long, default_value_t = 5)]
    max_log_requests: usize,
    /// Namespace of the pods; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Wait this long until a pod runs.
    #[arg(long, default_value = "20s")]
    pod_running_timeout: String,
    /// Print the source of each line (pod and container) before it.
    #[arg(long)]
    prefix: bool,
    /// Print the logs of the container's previous instance.
    #[arg(short = 'p', long)]
    previous: bool,
    /// Select pods by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Print logs newer than this duration, such as 5s, 2m or 3h.
    #[arg(long, default_value = "0s")]
    since: String,
    /// Print logs after this time (RFC 3339).
    #[arg(long, default_value = "")]
    since_time: String,
    /// Print this many of the last lines; all when -1, and 10 with a selector.
    #[arg(
        long,
        default_value_t = -1,
        default_value_ifs([("selector", ArgPredicate::Equals("".into()), "-1"), ("selector", ArgPredicate::IsPresent, "10")]),
        allow_negative_numbers = true
    )]
    tail: i64,
    /// Print the time of each line.
    #[arg(long)]
    timestamps: bool,
}

/// One container's log.
struct Source {
    pod: String,
    container: String,
}

pub fn run<'a>(context: &'a Context, args: &'a LogsArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let query = check(args)?;
        let control = context.control_plane().await?;
        let client = servers::one(&control, OperationScope::Members, &args.cluster).await?;
        let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
        let sources = sources(context, &client, args, &namespace).await?;
        if args.follow && sources.len() > args.max_log_requests {
            return Err(Error::message(format!(
                "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests to \
                 increase the limit",
                sources.len(),
                args.max_log_requests
            )));
        }
        if sources.is_empty() {
            context.log(&format!("No resources found in {namespace} namespace.\n"));
        }
        let at_a_time = if args.follow { sources.len().max(1) } else { 1 };
        let several = (args.prefix || args.all_pods) && !sources.is_empty();
        let copies = sources.iter().map(|source| copy(context, &client, &namespace, source, &query, several));
        let mut outcomes = stream::iter(copies.collect::<Vec<_>>()).buffer_unordered(at_a_time);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Err(error) if args.ignore_errors => context.log(&error.render()),
                outcome => outcome?,
            }
        }
        Ok(())
    })
}

fn check(args: &LogsArgs) -> Result<Query, Error> {
    let refused = |text: &str| Err(Error::message(text));
    if args.cluster.is_empty() {
        return refused("must specify a cluster");
    }
    match (args.args.len(), args.selector.is_empty()) {
        (0, false) | (1..=2, true) => {}
        (1..=2, false) => return Err(Error::usage("only a selector (-l) or a POD name is allowed")),
        _ => return Err(Error::usage(USAGE)),
    }
    if let Some(problem) = go_time::rfc3339_error(&args.since_time).filter(|_| !args.since_time.is_empty()) {
        return refused(&problem);
    }
    let has_since = !matches!(args.since.as_str(), "" | "0s" | "0");
    if has_since && !args.since_time.is_empty() {
        return refused("at most one of `sinceTime` or `sinceSeconds` may be specified");
    }
    let inline = args.args.get(1);
    let container = inline.unwrap_or(&args.container);
    if args.all_containers && !container.is_empty() {
        return refused(&format!("--all-containers=true should not be specified with container name {container}"));
    }
    if inline.is_some() && !args.container.is_empty() {
        return refused("only one of -c or an inline [CONTAINER] arg is allowed");
    }
    if args.tail < -1 {
        return refused("--tail must be greater than or equal to -1");
    }
    if args.limit_bytes < 0 {
        return refused("--limit-bytes must be greater than 0");
    }
    flags::duration("--pod-running-timeout", &args.pod_running_timeout)?;
    let switch = |on: bool| on.then_some("true");
    let seconds = flags::duration("--since", &args.since)?.as_secs_f64().ceil();
    if args.since.starts_with('-') {
        return refused("--since must be greater than 0");
    }
    let number = |is_set: bool, number: String| is_set.then_some(number);
    Ok(Query::default()
        .with_some("follow", switch(args.follow))
        .with_some("previous", switch(args.previous))
        .with_some("timestamps", switch(args.timestamps))
        .with_some("insecureSkipTLSVerifyBackend", switch(args.insecure_skip_tls_verify_backend))
        .with_some("sinceSeconds", number(has_since, format!("{seconds:.0}")).as_deref())
        .with_some("sinceTime", Some(&args.since_time))
        .with_some("tailLines", number(args.tail >= 0, args.tail.to_string()).as_deref())
        .with_some("limitBytes", number(args.limit_bytes > 0, args.limit_bytes.to_string()).as_deref()))
}

/// The containers whose logs are requested.
async fn sources(context: &Context, client: &Client, args: &LogsArgs, namespace: &str) -> Result<Vec<Source>, Error> {
    let limit = flags::duration("--pod-running-timeout", &args.pod_running_timeout)?;
    let mut found = match args.args.first() {
        None => pods::selected(context, client, namespace, &args.selector).await?,
        Some(name) => starting::named(context, client, namespace, name, limit).await.map_err(|error| match error {
            // Upstream's words.
            Error::Server(status) if status.is(apimachinery::StatusReason::NotFound) && !name.contains('/') => {
                Error::message(format!(
                    "error from server (NotFound): pods {name:?} not found in namespace {namespace:?}"
                ))
            }
            other => other,
        })?,
    };
    let is_workload = args.args.first().is_some_and(|name| name.contains('/'));
    if is_workload && found.is_empty() {
        let name = args.args.first().map(String::as_str).unwrap_or_default();
        return Err(Error::message(format!("{name} of cluster {} has no pods", args.cluster)));
    }
    if is_workload && !args.all_pods && found.len() > 1 {
        context.log(&format!("Found {} pods, using pod/{}\n", found.len(), pods::name(&found[0])));
        found.truncate(1);
    }
    let container_name = args.args.get(1).unwrap_or(&args.container);
    let mut sources = Vec::new();
    for pod in &found {
        let names = match args.all_containers {
            true => pods::containers(pod),
            false => vec![pods::container(context, pod, container_name, false)?],
        };
        let of = |container: &str| Source { pod: pods::name(pod).to_owned(), container: container.to_owned() };
        sources.extend(names.into_iter().map(of));
    }
    Ok(sources)
}

/// Copies a log to the standard output, line by line where each gets a prefix.
async fn copy(
    context: &Context,
    client: &Client,
    namespace: &str,
    source: &Source,
    query: &Query,
    prefixed: bool,
) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{}/pods/{}/log", segment(namespace), segment(&source.pod));
    let path = query.clone().with("container", &source.container).after(&path);
    let failed = Error::client(format!("read the log of pod {}", source.pod));
    let mut body = match open(client, &path).await {
        Ok(body) => body,
        Err(error) => return Err(failed(error)),
    };
    let prefix = if prefixed { format!("[pod/{}/{}] ", source.pod, source.container) } else { String::new() };
    let mut line = Vec::new();
    while let Some(chunk) = next(&mut body).await {
        let chunk = chunk.map_err(|why| Error::message(format!("the log of pod {} broke off: {why}", source.pod)))?;
        if !prefixed {
            output::follow(&chunk)?;
            continue;
        }
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                output::follow(&[prefix.as_bytes(), &line].concat())?;
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        context.print(&format!("{prefix}{}\n", String::from_utf8_lossy(&line)));
    }
    Ok(())
}

async fn open(client: &Client, path: &str) -> Result<transport::Body, client::Error> {
    let request = http::Request::get(path).header(http::header::ACCEPT, "*/*").body(transport::empty());
    let request =
        request.map_err(|error| client::Error::Request { attempt: format!("GET {path}"), why: error.to_string() })?;
    let (parts, body) = client.send(request).await?.into_parts();
    if parts.status.is_success() {
        return Ok(body);
    }
    let bytes = requests::whole(body).await.unwrap_or_default();
    Err(requests::refusal(parts.status, &bytes))
}

/// The next bytes. Not an `async fn`: the compiler cannot prove that one `Send`.
fn next(body: &mut transport::Body) -> BoxFuture<'_, Option<Result<bytes::Bytes, String>>> {
    use futures::FutureExt as _;
    let frame = body.frame();
    Box::pin(frame.map(|frame| {
        let frame = frame?.map_err(|error| error.to_string());
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        logs: LogsArgs,
    }

    fn query(line: &str) -> String {
        let cli = Cli::try_parse_from(["logs"].into_iter().chain(line.split(' '))).expect("valid flags");
        match check(&cli.logs) {
            Ok(query) => query.after(""),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn flags_become_parameters() {
        for (line, expected) in [
            ("web -C m1", ""),
            ("web -C m1 -f --tail=5", "?follow=true&tailLines=5"),
            ("-l a=b -C m1", "?tailLines=10"),
            ("-l a=b -f -C m1", "?follow=true&tailLines=10"),
            ("-l a=b -C m1 --tail=-1", ""),
            ("web -C m1 --since-time=2026-01-01T00:00:00Z", "?sinceTime=2026-01-01T00%3A00%3A00Z"),
            ("web -C m1 --since=1m -p --timestamps", "?previous=true&timestamps=true&sinceSeconds=60"),
            ("web -C m1 --limit-bytes=7", "?limitBytes=7"),
            ("web", "must specify a cluster"),
            ("web -l a=b -C m1", "only a selector (-l) or a POD name is allowed"),
            ("web side other -C m1", USAGE),
            ("-C m1", USAGE),
            ("web -C m1 --tail=-2", "--tail must be greater than or equal to -1"),
            ("web -C m1 --since=-1m", "--since must be greater than 0"),
            ("web side -C m1 -c side", "only one of -c or an inline [CONTAINER] arg is allowed"),
            (
                "web side -C m1 --all-containers",
                "--all-containers=true should not be specified with container name side",
            ),
            (
                "web -C m1 --since-time=x",
                "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
            ),
        ] {
            assert_eq!(query(line), expected, "{line}");
        }
    }
}
