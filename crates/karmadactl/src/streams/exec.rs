//! `exec` and `attach`: a command in a container, or the process that runs in it.

use std::io::Write as _;

use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

use super::session::{self, End, Input, Output};
use super::{pods, starting, terminal};
use crate::answers::text;
use crate::error::Error;
use crate::objects::flags::{self, Files};
use crate::scope::{self, OperationScope};
use crate::{Context, objects, output, servers};
use apimachinery::url::{Query, segment};

/// Keys that wait for the connection; each is up to 32 KiB.
const BACKLOG: usize = 16;

#[derive(Args)]
pub struct StreamArgs {
    /// Name of the member cluster, with the scope members.
    #[arg(short = 'C', long, default_value = "")]
    cluster: String,
    /// Name of the container; the pod's default one when empty.
    #[arg(short = 'c', long, default_value = "")]
    container: String,
    /// Namespace of the pod; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Operate on the control plane (karmada) or on a member cluster (members).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Wait this long until a pod runs.
    #[arg(long, default_value = "1m0s")]
    pod_running_timeout: String,
    /// Print nothing but the output of the remote session.
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Pass the standard input to the container.
    #[arg(short = 'i', long)]
    stdin: bool,
    /// The standard input is a terminal.
    #[arg(short = 't', long)]
    tty: bool,
}

#[derive(Args)]
pub struct ExecArgs {
    /// POD or TYPE/NAME
    args: Vec<String>,
    #[command(flatten)]
    stream: StreamArgs,
    /// File that describes the pod.
    #[arg(short = 'f', long, value_delimiter = ',')]
    filename: Vec<String>,
    /// The command and its arguments, after --
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
pub struct AttachArgs {
    /// POD, TYPE/NAME or TYPE NAME
    args: Vec<String>,
    #[command(flatten)]
    stream: StreamArgs,
}

pub fn exec<'a>(context: &'a Context, args: &'a ExecArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let is_of_file = !args.filename.is_empty();
        if args.command.is_empty() && args.args.len() > usize::from(!is_of_file) {
            let text = "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead";
            return Err(Error::usage(text));
        }
        if args.args.is_empty() && !is_of_file {
            return Err(Error::message("pod, type/name or --filename must be specified"));
        }
        if args.command.is_empty() {
            return Err(Error::message("you must specify at least one command for the container"));
        }
        let from_file = pod_of_file(args).await?;
        let pod = match (args.args.as_slice(), from_file.as_deref()) {
            ([pod], None) => pod.as_str(),
            ([], Some(pod)) => pod,
            _ => return Err(Error::usage("exec takes one pod and, after --, a command")),
        };
        run(context, &args.stream, pod, Some(&args.command)).await
    })
}

pub fn attach<'a>(context: &'a Context, args: &'a AttachArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let pod = match args.args.as_slice() {
            [] => return Err(Error::message("at least 1 argument is required for attach")),
            [pod] => pod.clone(),
            [type_, name] => format!("{type_}/{name}"),
            more => {
                let (count, words) = (more.len(), more.join(" "));
                return Err(Error::message(format!(
                    "expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {count}: [{words}]"
                )));
            }
        };
        run(context, &args.stream, &pod, None).await
    })
}

/// TYPE/NAME of the one object of the file.
async fn pod_of_file(args: &ExecArgs) -> Result<Option<String>, Error> {
    if args.filename.is_empty() {
        return Ok(None);
    }
    let files = Files { filename: args.filename.clone(), ..Files::default() };
    let manifests = objects::files::read_all(&files).await?;
    let [only] = manifests.as_slice() else {
        return Err(Error::message("the file must describe one object"));
    };
    Ok(Some(format!("{}/{}", text(&only.object["kind"]).to_lowercase(), text(&only.object["metadata"]["name"]))))
}

async fn run(context: &Context, args: &StreamArgs, named: &str, command: Option<&[String]>) -> Result<(), Error> {
    let limit = flags::duration("--pod-running-timeout", &args.pod_running_timeout)?;
    let scope = scope::parse(&args.operation_scope)?;
    let control = context.control_plane().await?;
    let client = servers::chosen(context, &control, scope, &args.cluster).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
    let found = match scope {
        // Pods of a control plane never run; its answer is the reason.
        OperationScope::Karmada => pods::named(context, &client, &namespace, named).await?,
        _ => starting::named(context, &client, &namespace, named, limit).await?,
    };
    let Some(pod) = found.first() else {
        return Err(Error::message(format!("{named} has no pods in namespace {namespace}")));
    };
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        let verb = if command.is_some() { "exec into" } else { "attach to" };
        return Err(Error::message(format!("cannot {verb} a container in a completed pod; current phase is {phase}")));
    }
    let container = pods::container(context, pod, &args.container, args.quiet)?;
    let tty = wants_terminal(context, args, pod, container, command.is_none());
    if command.is_none() && !args.quiet {
        context.log(
            "All commands and output from this session will be recorded in container logs, including credentials and \
             sensitive information passed through the command prompt.\n\
             If you don't see a command prompt, try pressing enter.\n",
        );
    }
    let path = path(&namespace, pods::name(pod), container, command, Mode { stdin: args.stdin, tty });
    stream(context, &client, &path, Mode { stdin: args.stdin, tty }).await?;
    if command.is_none() && tty && !args.quiet {
        context.print(&again(&args.cluster, &namespace, pod, container));
    }
    Ok(())
}

/// Whether the session has a terminal. The process that `attach` reaches already has one or not, so the container decides
/// there, and not the flag: frames of the other form would be unreadable.
fn wants_terminal(context: &Context, args: &StreamArgs, pod: &Value, container: &str, attaches: bool) -> bool {
    let wanted = if attaches { pods::has_terminal(pod, container) } else { args.tty };
    if attaches && args.tty && !wanted && !args.quiet {
        context.log(&format!("error: Unable to use a TTY - container {container} did not allocate one\n"));
    }
    let tty = wanted && args.stdin && terminal::is_terminal();
    if wanted && args.stdin && !tty && !args.quiet {
        context.log("Unable to use a TTY - input is not a terminal or the right kind of file\n");
    }
    tty
}

/// The line after an attached session: how to attach again.
fn again(cluster: &str, namespace: &str, pod: &Value, container: &str) -> String {
    let name = pods::name(pod);
    let command = format!("karmadactl attach {name} -s members -C {cluster} -c {container} -n {namespace} -i -t");
    match pods::is_ephemeral(pod, container) {
        true => format!(
            "Session ended, the ephemeral container will not be restarted but may be reattached using '{command}' if it is \
             still running\n"
        ),
        false => format!("Session ended, resume using '{command}' command\n"),
    }
}

#[derive(Clone, Copy)]
struct Mode {
    stdin: bool,
    tty: bool,
}

fn path(namespace: &str, pod: &str, container: &str, command: Option<&[String]>, mode: Mode) -> String {
    let switch = |on: bool| on.then_some("true");
    let mut query = Query::default();
    for word in command.into_iter().flatten() {
        query = query.with("command", word);
    }
    let query = query
        .with("container", container)
        .with_some("stdin", switch(mode.stdin))
        .with("stdout", "true")
        // A terminal has one stream of output.
        .with_some("stderr", switch(!mode.tty))
        .with_some("tty", switch(mode.tty));
    let verb = if command.is_some() { "exec" } else { "attach" };
    query.after(&format!("/api/v1/namespaces/{}/pods/{}/{verb}", segment(namespace), segment(pod)))
}

async fn stream(context: &Context, client: &Client, path: &str, mode: Mode) -> Result<(), Error> {
    let session = session::open(client, path).await.map_err(Error::client("open the stream"))?;
    if mode.stdin && !mode.tty && !session.ends_input {
        context.log(
            "Warning: before Kubernetes 1.30 a cluster does not receive the end of the input: a command that waits for it \
             does not end\n",
        );
    }
    let (sender, receiver) = mpsc::channel::<Input>(BACKLOG);
    let raw = mode.tty.then(terminal::Raw::enter).flatten();
    if mode.tty {
        terminal::follow_size(sender.clone());
    }
    if mode.stdin {
        terminal::follow_input(sender);
    }
    let end = session::run(session, receiver, write).await;
    drop(raw);
    match end {
        End::Success => Ok(()),
        End::Code(code) => Err(Error::Exit(code)),
        End::Failed(why) => Err(Error::message(why)),
        End::Unread => Err(output::unread()),
    }
}

/// Whether the output is still read.
fn write(output: Output) -> bool {
    match output {
        Output::Stdout(bytes) => output::follow(&bytes).is_ok(),
        Output::Stderr(bytes) => {
            let _ = std::io::stderr().write_all(&bytes);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_the_streams() {
        let words = ["sh".to_owned(), "-c".to_owned(), "a b".to_owned()];
        let mode = Mode { stdin: true, tty: true };
        assert_eq!(
            path("n", "p", "c", Some(&words), mode),
            "/api/v1/namespaces/n/pods/p/exec?command=sh&command=-c&command=a%20b&container=c&stdin=true&stdout=true&tty=true"
        );
        assert_eq!(
            path("n", "p", "c", None, Mode { stdin: false, tty: false }),
            "/api/v1/namespaces/n/pods/p/attach?container=c&stdout=true&stderr=true"
        );
    }

    #[test]
    fn the_line_after_a_session_names_the_cluster() {
        let pod = serde_json::json!({"metadata": {"name": "p"}, "spec": {"ephemeralContainers": [{"name": "e"}]}});
        let resumed = "'karmadactl attach p -s members -C m1 -c c -n n -i -t'";
        assert_eq!(again("m1", "n", &pod, "c"), format!("Session ended, resume using {resumed} command\n"));
        assert!(again("m1", "n", &pod, "e").contains("will not be restarted"));
    }
}
