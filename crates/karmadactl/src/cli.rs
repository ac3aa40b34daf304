//! The commands and their flags, with upstream's names and defaults.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use futures::future::BoxFuture;

use crate::api_resources::ApiResourcesArgs;
use crate::context::ActAs;
use crate::cordon::Desired;
use crate::error::Error;
use crate::get::GetArgs;
use crate::placement::{ExplainArgs, ScheduleArgs};
use crate::{Context, api_resources, cordon, get, interpret, join, placement, unjoin, version};

#[derive(Parser)]
#[command(about = "karmadactl controls a Kubernetes Cluster Federation.", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct ControlPlane {
    /// Path to the control plane kubeconfig file.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Name of the control plane context in the kubeconfig file.
    #[arg(long)]
    karmada_context: Option<String>,
}

#[derive(Args)]
struct MemberCluster {
    /// Path of the member cluster's kubeconfig.
    #[arg(long)]
    cluster_kubeconfig: Option<String>,
    /// Name of the context in the member cluster's kubeconfig; its current one when absent.
    #[arg(long)]
    cluster_context: Option<String>,
    /// Namespace in the member cluster where the control plane's secrets are kept.
    #[arg(long, default_value = "karmada-cluster")]
    cluster_namespace: String,
    /// Go through the checks, change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct ActAsArgs {
    /// Username to impersonate at the control plane.
    #[arg(long)]
    karmada_as: Option<String>,
    /// Group to impersonate at the control plane; may be given several times.
    #[arg(long)]
    karmada_as_group: Vec<String>,
    /// UID to impersonate at the control plane.
    #[arg(long, default_value = "")]
    karmada_as_uid: String,
}

impl ActAsArgs {
    fn into_option(self) -> Option<ActAs> {
        let Self { karmada_as, karmada_as_group: groups, karmada_as_uid: uid } = self;
        let anybody = karmada_as.is_some() || !groups.is_empty() || !uid.is_empty();
        anybody.then(|| ActAs { user: karmada_as.unwrap_or_default(), groups, uid })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Display one or many resources of the control plane and its members.
    Get {
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        get: Box<GetArgs>,
    },
    /// Register a cluster to the control plane with Push mode.
    Join {
        args: Vec<String>,
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        member: MemberCluster,
        #[command(flatten)]
        act_as: ActAsArgs,
        /// Provider of the joining cluster.
        #[arg(long, default_value = "")]
        cluster_provider: String,
        /// The region of the joining cluster.
        #[arg(long, default_value = "")]
        cluster_region: String,
        /// The zones of the joining cluster.
        #[arg(long, value_delimiter = ',')]
        cluster_zones: Vec<String>,
    },
    /// Remove a cluster from the control plane.
    Unjoin {
        args: Vec<String>,
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        member: MemberCluster,
        /// Release what an unreachable cluster holds up after --wait.
        #[arg(long)]
        force: bool,
        /// How long to wait for the cluster to be gone, in seconds or as 1m0s.
        #[arg(long, default_value = "1m0s")]
        wait: String,
    },
    /// Mark cluster as unschedulable.
    Cordon(Cordon),
    /// Mark cluster as schedulable.
    Uncordon(Cordon),
    /// Print the resources that the control plane or a member serves.
    ApiResources {
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        resources: Box<ApiResourcesArgs>,
    },
    /// Say why a workload is where it is, cluster by cluster.
    ExplainPlacement {
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        explain: Box<ExplainArgs>,
    },
    /// Say what would become of workloads that are not there yet, or if clusters were gone.
    Schedule {
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        schedule: Box<ScheduleArgs>,
    },
    /// Validate, test and run interpreter customizations on files; or edit one.
    Interpret {
        #[command(flatten)]
        control_plane: ControlPlane,
        #[command(flatten)]
        interpret: Box<interpret::InterpretArgs>,
    },
    /// Print the version information.
    Version {
        /// Every command takes it, also one that asks no server.
        #[arg(long, hide = true)]
        kubeconfig: Option<PathBuf>,
        /// One of 'yaml' or 'json'.
        #[arg(short, long)]
        output: Option<String>,
    },
}

#[derive(Args)]
struct Cordon {
    args: Vec<String>,
    #[command(flatten)]
    control_plane: ControlPlane,
    /// Print what would happen, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs a command line, the program's name first; answers the exit code. `program` is how the user calls it:
/// `karmadactl` or `kubectl karmada`.
pub async fn run(program: &'static str, args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = command_first(args.into_iter().collect());
    if args.len() < 2 {
        // As upstream: nothing asked for is a question how to ask.
        Context::default().print(&Cli::command().name(program).render_help().to_string());
        return 0;
    }
    let matches = Cli::command().name(program).try_get_matches_from(&args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refuse(program, &args, &error),
    };
    match execute(program, cli.command).await {
        Ok(()) => 0,
        Err(error) => {
            Context::default().log(&error.render());
            1
        }
    }
}

/// Moves the command before flags that stand in front of it: `karmadactl -n web get pods` is what people write who are
/// used to kubectl. Which flag takes the next word as its value is not known before the command is; as cobra does, every
/// flag of more than a letter without `=` is taken to have one, and so is every letter.
fn command_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        if !word.starts_with('-') {
            args[1..=at].rotate_right(1);
            break;
        }
        // What these ask for needs no command.
        if matches!(word, "--" | "-h" | "--help" | "-V" | "--version") {
            break;
        }
        let has_value = !word.contains('=') && (word.starts_with("--") || word.len() == 2);
        at += if has_value { 2 } else { 1 };
    }
    args
}

/// Says what is wrong with a command line, in cobra's words where scripts know them.
fn refuse(program: &str, args: &[OsString], error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        // Help goes to stdout and is no failure.
        let _ = error.print();
        return 0;
    }
    let named = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let text = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            format!("error: unknown command {:?} for {program:?}\n", named(ContextKind::InvalidSubcommand))
        }
        ErrorKind::UnknownArgument => {
            let flag = named(ContextKind::InvalidArg);
            let command = args.get(1).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
            let command = command.map_or_else(|| program.to_owned(), |command| format!("{program} {command}"));
            match flag.strip_prefix("--") {
                Some(_) => format!("error: unknown flag: {flag}\n{}\n", usage(&command)),
                None => format!("error: unknown shorthand flag: {flag}\n{}\n", usage(&command)),
            }
        }
        _ => error.render().to_string(),
    };
    Context::default().log(&text);
    1
}

fn usage(command: &str) -> String {
    format!("See '{command} --help' for usage.")
}

/// Compiled here, as [`run`] itself is compiled in every caller.
fn execute(program: &'static str, command: Command) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        match command {
            Command::Get { control_plane, get } => {
                let context = context(control_plane);
                let (args, options) = get.options(&context, &usage(&format!("{program} get")))?;
                get::run(&context, &args, &options).await
            }
            Command::ApiResources { control_plane, resources } => {
                let options = resources.options(&usage(&format!("{program} api-resources")))?;
                api_resources::run(&context(control_plane), &options).await
            }
            Command::Join { args, control_plane, member, act_as, cluster_provider, cluster_region, cluster_zones } => {
                let options = join::JoinOptions {
                    cluster_namespace: member.cluster_namespace,
                    provider: cluster_provider,
                    region: cluster_region,
                    zones: cluster_zones,
                    dry_run: member.dry_run,
                };
                let (config, name) = (member.cluster_kubeconfig.as_deref(), member.cluster_context.as_deref());
                let context = Context { act_as: act_as.into_option(), ..context(control_plane) };
                join::run(&context, &args, config, name, &options).await
            }
            Command::Unjoin { args, control_plane, member, force, wait } => {
                let options = unjoin::Options {
                    cluster_namespace: member.cluster_namespace,
                    wait: duration(&wait)?,
                    wait_text: wait,
                    force,
                    dry_run: member.dry_run,
                };
                let (config, name) = (member.cluster_kubeconfig.as_deref(), member.cluster_context.as_deref());
                unjoin::run(&context(control_plane), &args, config, name, &options).await
            }
            Command::Cordon(it) => {
                cordon::run(&context(it.control_plane), &it.args, Desired::Cordoned, it.dry_run).await
            }
            Command::Uncordon(it) => {
                cordon::run(&context(it.control_plane), &it.args, Desired::Uncordoned, it.dry_run).await
            }
            Command::ExplainPlacement { control_plane, explain } => {
                placement::explain(&context(control_plane), &explain).await
            }
            Command::Schedule { control_plane, schedule } => {
                placement::forecast(&context(control_plane), &schedule).await
            }
            Command::Interpret { control_plane, interpret } => {
                interpret::execute_command(&context(control_plane), &interpret, &world::World::system()).await
            }
            Command::Version { output, .. } => {
                Context::default().print(&version::text(program, output.as_deref())?);
                Ok(())
            }
        }
    })
}

fn context(control_plane: ControlPlane) -> Context {
    Context { kubeconfig: control_plane.kubeconfig, karmada_context: control_plane.karmada_context, act_as: None }
}

/// A Go duration, which must not be negative.
fn duration(text: &str) -> Result<Duration, Error> {
    let parsed: apimachinery::duration::Duration =
        text.parse().map_err(|e| Error::message(format!("invalid argument {text:?} for \"--wait\" flag: {e}")))?;
    Ok(parsed.to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_may_stand_before_the_command() {
        for (given, expected) in [
            ("get pods -n a", "get pods -n a"),
            ("-n a get pods", "get -n a pods"),
            (
                "--kubeconfig=/x --karmada-context y --namespace=a get pods",
                "get --kubeconfig=/x --karmada-context y --namespace=a pods",
            ),
            ("--kubeconfig /x version", "version --kubeconfig /x"),
            ("-na get pods", "get -na pods"),
            ("--help get", "--help get"),
            ("-n a", "-n a"),
            ("-n", "-n"),
            ("--nosuch get", "--nosuch get"),
        ] {
            let words =
                |text: &str| ["karmadactl"].into_iter().chain(text.split(' ')).map(OsString::from).collect::<Vec<_>>();
            assert_eq!(command_first(words(given)), words(expected), "{given}");
        }
    }
}
