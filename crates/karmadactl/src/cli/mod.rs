//! The commands and their flags, with upstream's names and defaults.

mod candidates;
mod completion;
mod help;
mod line;
mod log_flags;
mod pages;
mod reference;
mod refusal;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use futures::future::BoxFuture;

use crate::api_resources::ApiResourcesArgs;
use crate::api_versions::ApiVersionsArgs;
use crate::apply::ApplyArgs;
use crate::context::ActAs;
use crate::cordon::Desired;
use crate::create::CreateArgs;
use crate::delete::DeleteArgs;
use crate::describe::DescribeArgs;
use crate::diff::DiffArgs;
use crate::doctor::DoctorArgs;
use crate::edit::EditArgs;
use crate::error::Error;
use crate::explain::ExplainArgs as ExplainTypeArgs;
use crate::failover::FailoverArgs;
use crate::get::GetArgs;
use crate::join::JoinOptions;
use crate::metadata_edit::{AnnotateArgs, LabelArgs};
use crate::patch::PatchArgs;
use crate::placement::{ExplainArgs, ScheduleArgs};
use crate::promote::PromoteArgs;
use crate::register::RegisterArgs;
use crate::resume::ResumeArgs;
use crate::rollout::RolloutArgs;
use crate::streams::exec::{self, AttachArgs, ExecArgs};
use crate::streams::logs::{self, LogsArgs};
use crate::taint::TaintArgs;
use crate::token::TokenArgs;
use crate::top::TopArgs;
use crate::tree::TreeArgs;
use crate::unregister::UnregisterArgs;
use crate::version;
use crate::wait::WaitArgs;
use crate::why::WhyArgs;
use crate::{
    Context, api_resources, api_versions, apply, cordon, create, delete, describe, diagnosis, diff, doctor, edit,
    explain, failover, get,
};
use crate::{
    interpret, join, metadata_edit, patch, placement, promote, register, renewal, resume, rollout, taint, token, top,
    tree as resource_tree, unjoin, unregister, wait, why,
};
use line::{Request, read, tree};
pub use reference::reference_page;

#[derive(Parser)]
#[command(
    about = "karmadactl controls a Kubernetes Cluster Federation.",
    disable_help_subcommand = true,
    args_override_self = true
)]
struct Cli {
    #[command(flatten)]
    control_plane: ControlPlane,
    #[command(subcommand)]
    command: Command,
}

/// Every command takes them, also one that contacts no server.
#[derive(Args)]
struct ControlPlane {
    /// Path to the kubeconfig file of the control plane; $KUBECONFIG or ~/.kube/config when empty.
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// Name of the control plane's context in the kubeconfig file; its current one when empty.
    #[arg(long, global = true)]
    karmada_context: Option<String>,
    /// Number for the log level verbosity; from 6 on, each request is logged.
    #[arg(short = 'v', long = "v", global = true, default_value_t = 0)]
    verbosity: i32,
}

#[derive(Args)]
struct MemberCluster {
    /// Path to the kubeconfig file of the member cluster.
    #[arg(long)]
    cluster_kubeconfig: Option<String>,
    /// Name of the member cluster's context in its kubeconfig file; the current one when empty.
    #[arg(long)]
    cluster_context: Option<String>,
    /// Namespace of the control plane's credentials, in the member cluster and in the control plane.
    #[arg(long, default_value = "karmada-cluster")]
    cluster_namespace: String,
    /// Run the checks without changing anything.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct ActAsArgs {
    /// Username to impersonate at the control plane.
    #[arg(long)]
    karmada_as: Option<String>,
    /// Group to impersonate at the control plane; this flag can be repeated.
    #[arg(long)]
    karmada_as_group: Vec<String>,
    /// UID to impersonate at the control plane.
    #[arg(long, default_value = "")]
    karmada_as_uid: String,
}

impl ActAsArgs {
    fn into_option(self) -> Option<ActAs> {
        let Self { karmada_as, karmada_as_group: groups, karmada_as_uid: uid } = self;
        let impersonates = karmada_as.is_some() || !groups.is_empty() || !uid.is_empty();
        impersonates.then(|| ActAs { user: karmada_as.unwrap_or_default(), groups, uid })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Display one or many resources of the control plane and its member clusters.
    Get {
        #[command(flatten)]
        get: Box<GetArgs>,
    },
    /// Print the documentation of a resource and of its fields.
    Explain {
        #[command(flatten)]
        explain: Box<ExplainTypeArgs>,
    },
    /// Create resources from a file or from standard input.
    Create {
        #[command(flatten)]
        create: Box<CreateArgs>,
    },
    /// Delete resources by file names, standard input, resources and names, or by resources and a label selector.
    Delete {
        #[command(flatten)]
        delete: Box<DeleteArgs>,
    },
    /// Edit a resource of the control plane.
    Edit {
        #[command(flatten)]
        edit: Box<EditArgs>,
    },
    /// Register a cluster with the control plane in Push mode.
    Join {
        args: Vec<String>,
        #[command(flatten)]
        member: MemberCluster,
        #[command(flatten)]
        act_as: ActAsArgs,
        /// Provider of the joining cluster.
        #[arg(long, default_value = "")]
        cluster_provider: String,
        /// Region of the joining cluster.
        #[arg(long, default_value = "")]
        cluster_region: String,
        /// Zones of the joining cluster.
        #[arg(long, value_delimiter = ',')]
        cluster_zones: Vec<String>,
        /// Register the present address of a joined cluster, and new credentials.
        #[arg(long, conflicts_with_all = ["cluster_provider", "cluster_region", "cluster_zones"])]
        renew: bool,
    },
    /// Remove a Push mode cluster from the control plane.
    Unjoin {
        args: Vec<String>,
        #[command(flatten)]
        member: MemberCluster,
        /// Remove the finalizers of the cluster's objects if it still exists after --wait.
        #[arg(long)]
        force: bool,
        /// Wait this long for the deletion of the cluster.
        #[arg(long, default_value = "1m0s")]
        wait: String,
    },
    /// Manage the bootstrap tokens with which clusters register.
    Token {
        #[command(flatten)]
        token: Box<TokenArgs>,
    },
    /// Register a cluster with the control plane in Pull mode.
    Register {
        #[command(flatten)]
        register: Box<RegisterArgs>,
    },
    /// Remove a Pull mode cluster from the control plane.
    Unregister {
        #[command(flatten)]
        unregister: Box<UnregisterArgs>,
    },
    /// Mark a cluster as unschedulable.
    Cordon(Cordon),
    /// Mark a cluster as schedulable.
    Uncordon(Cordon),
    /// Update the taints on one or more clusters.
    Taint {
        #[command(flatten)]
        taint: Box<TaintArgs>,
    },
    /// Print and confirm the changes in members that are newer than the store.
    Resume {
        #[command(flatten)]
        resume: Box<ResumeArgs>,
    },
    /// Manage the rollout of workloads over clusters.
    Rollout(RolloutArgs),
    /// Plan failovers, list past moves, and release paused evictions.
    Failover {
        #[command(flatten)]
        failover: Box<FailoverArgs>,
    },
    /// Apply a configuration to a resource by file name or standard input, and propagate it to member clusters.
    Apply {
        #[command(flatten)]
        apply: Box<ApplyArgs>,
    },
    /// Promote a resource of a member cluster to the control plane.
    Promote {
        #[command(flatten)]
        promote: Box<PromoteArgs>,
    },
    /// Wait for a condition of objects of the control plane or of member clusters.
    Wait {
        #[command(flatten)]
        wait: Box<WaitArgs>,
    },
    /// Display resource usage (CPU and memory) of member clusters.
    Top(TopArgs),
    /// Update fields of a resource.
    Patch {
        #[command(flatten)]
        patch: Box<PatchArgs>,
    },
    /// Update the labels on a resource.
    Label {
        #[command(flatten)]
        label: Box<LabelArgs>,
    },
    /// Update the annotations on a resource.
    Annotate {
        #[command(flatten)]
        annotate: Box<AnnotateArgs>,
    },
    /// Print the supported API versions of the control plane or of a member cluster, in the form group/version.
    ApiVersions(ApiVersionsArgs),
    /// Print the supported API resources of the control plane or of a member cluster.
    ApiResources {
        #[command(flatten)]
        resources: Box<ApiResourcesArgs>,
    },
    /// Attach to a running process in a container of a pod.
    Attach {
        #[command(flatten)]
        attach: Box<AttachArgs>,
    },
    /// Print the logs of a container in a pod of a member cluster.
    Logs {
        #[command(flatten)]
        logs: Box<LogsArgs>,
    },
    /// Execute a command in a container of a pod.
    Exec {
        #[command(flatten)]
        exec: Box<ExecArgs>,
    },
    /// Show the details of a specific resource or group of resources.
    Describe {
        #[command(flatten)]
        describe: Box<DescribeArgs>,
    },
    /// Explain the state of a resource, from its policies to its members.
    Why {
        #[command(flatten)]
        why: Box<WhyArgs>,
    },
    /// Compare members with the templates and their overrides, or with files that are not applied yet.
    Diff {
        #[command(flatten)]
        diff: Box<DiffArgs>,
    },
    /// Print a resource with its bindings, Works and the objects in members as a tree.
    Tree {
        #[command(flatten)]
        tree: Box<TreeArgs>,
    },
    /// Check the control plane and its members, and print problems with the next steps.
    Doctor {
        #[command(flatten)]
        doctor: Box<DoctorArgs>,
    },
    /// Explain the placement of a workload, cluster by cluster.
    ExplainPlacement {
        #[command(flatten)]
        explain: Box<ExplainArgs>,
    },
    /// Predict the placement of workloads after applying manifests or removing clusters.
    Schedule {
        #[command(flatten)]
        schedule: Box<ScheduleArgs>,
    },
    /// Validate, test and edit interpreter customizations.
    Interpret {
        #[command(flatten)]
        interpret: Box<interpret::InterpretArgs>,
    },
    /// Print the version information.
    Version {
        /// Output format: json or yaml.
        #[arg(short, long)]
        output: Option<String>,
    },
    /// Print the script that completes commands in a shell (bash, zsh, fish or powershell).
    Completion { args: Vec<String> },
    /// Print the flags of every command.
    #[command(hide = true)]
    Options,
}

#[derive(Args)]
struct Cordon {
    args: Vec<String>,
    /// Run the command without changing anything.
    #[arg(long)]
    dry_run: bool,
}

/// The name by which kubectl calls the program to complete `kubectl karmada`.
pub const PLUGIN_COMPLETION: &str = "kubectl_complete-karmada";

/// Whether karmadactl has a command of the name.
pub fn has_command(name: &str) -> bool {
    tree().find_subcommand(name).is_some()
}

/// Runs a command line, the program's name first; answers the exit code. `program` is how the user calls it:
/// `karmadactl` or `kubectl karmada`.
pub async fn run(program: &'static str, args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let words = |from: usize| args[from..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if program == PLUGIN_COMPLETION && !args.is_empty() {
        let lines = candidates::lines(&tree(), words(1)).await;
        Context::default().print(&completion::for_kubectl(&lines));
        return 0;
    }
    if args.get(1).is_some_and(|word| word == completion::COMMAND) {
        let words = words(2);
        Context::default().print(&candidates::lines(&tree(), words).await);
        return 0;
    }
    let (context, name, command) = match read(program, args) {
        Request::Print(text) => {
            Context::default().print(&text);
            return 0;
        }
        Request::Refuse(text) => {
            Context::default().log(&text);
            return 1;
        }
        Request::Execute { name, cli } => (context(cli.control_plane), name, cli.command),
    };
    match execute(program, &context, command).await {
        Ok(()) => 0,
        Err(error) => {
            let cause = error.uncoded();
            let text = match refusal::of_error(program, Some(&name), cause) {
                Some(text) => text,
                None => diagnosis::explain(&context, cause).await,
            };
            context.log(&text);
            error.code()
        }
    }
}

/// Compiled here, as [`run`] itself is compiled in every caller.
fn execute<'a>(program: &'static str, context: &'a Context, command: Command) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        match command {
            Command::Get { get } => {
                let (args, options) = get.options(context)?;
                get::run(context, &args, &options).await
            }
            Command::Explain { explain } => explain::run(context, &explain).await,
            Command::Attach { attach } => exec::attach(context, &attach).await,
            Command::Logs { logs } => logs::run(context, &logs).await,
            Command::Exec { exec } => exec::exec(context, &exec).await,
            Command::Describe { describe } => describe::run(context, &describe).await,
            Command::Rollout(rollout) => rollout::run(context, program, &rollout).await,
            Command::Wait { wait } => wait::run(context, &wait).await,
            Command::Doctor { doctor } => doctor::run(context, program, &doctor).await,
            Command::Top(top) => top::run(context, &top).await,
            Command::Create { create } => create::run(context, &create).await,
            Command::Delete { delete } => delete::run(context, &delete).await,
            Command::Edit { edit } => edit::run(context, &edit).await,
            Command::Taint { taint } => taint::run(context, &taint).await,
            Command::Apply { apply } => apply::run(context, program, &apply).await,
            Command::Promote { promote } => promote::run(context, &promote).await,
            Command::Patch { patch } => patch::run(context, &patch).await,
            Command::Label { label } => metadata_edit::label(context, &label).await,
            Command::Annotate { annotate } => metadata_edit::annotate(context, &annotate).await,
            Command::ApiVersions(versions) => api_versions::run(context, &versions).await,
            Command::ApiResources { resources } => api_resources::run(context, &resources.options()?).await,
            Command::Join { args, member, act_as, cluster_provider, cluster_region, cluster_zones, renew } => {
                let (provider, region, zones) = (cluster_provider, cluster_region, cluster_zones);
                let (cluster_namespace, dry_run) = (member.cluster_namespace, member.dry_run);
                let options = JoinOptions { cluster_namespace, provider, region, zones, dry_run, ..Default::default() };
                let (config, name) = (member.cluster_kubeconfig.as_deref(), member.cluster_context.as_deref());
                let context = Context { act_as: act_as.into_option(), ..context.clone() };
                match renew {
                    true => renewal::run(&context, &args, config, name, &options).await,
                    false => join::run(&context, &args, config, name, &options).await,
                }
            }
            Command::Unjoin { args, member, force, wait } => {
                let options = unjoin::Options {
                    cluster_namespace: member.cluster_namespace,
                    wait: register::signed_duration("wait", &wait)?,
                    force,
                    dry_run: member.dry_run,
                };
                let (config, name) = (member.cluster_kubeconfig.as_deref(), member.cluster_context.as_deref());
                unjoin::run(context, &args, config, name, &options).await
            }
            Command::Token { token } => token::run(program, context, &token).await,
            Command::Register { register } => register::run(context, &register).await,
            Command::Unregister { unregister } => unregister::run(context, &unregister).await,
            Command::Cordon(it) => cordon::run(context, &it.args, Desired::Cordoned, it.dry_run).await,
            Command::Uncordon(it) => cordon::run(context, &it.args, Desired::Uncordoned, it.dry_run).await,
            Command::Resume { resume } => resume::run(context, &resume).await,
            Command::Failover { failover } => failover::run(context, &failover).await,
            Command::Diff { diff } => diff::run(context, &diff).await,
            Command::Tree { tree } => resource_tree::run(context, &tree).await,
            Command::Why { why } => why::run(context, &why).await,
            Command::ExplainPlacement { explain } => placement::explain(context, &explain).await,
            Command::Schedule { schedule } => placement::forecast(context, &schedule).await,
            Command::Interpret { interpret } => {
                interpret::execute_command(context, &interpret, &world::World::system()).await
            }
            Command::Version { output } => {
                context.print(&version::text(program, output.as_deref())?);
                Ok(())
            }
            Command::Completion { args } => {
                context.print(&completion::script(program, &args)?);
                Ok(())
            }
            Command::Options => {
                context.print(&help::options(&tree()));
                Ok(())
            }
        }
    })
}

fn context(control_plane: ControlPlane) -> Context {
    let ControlPlane { kubeconfig, karmada_context, verbosity } = control_plane;
    Context { kubeconfig, karmada_context, verbosity, ..Context::default() }
}

#[cfg(test)]
mod tests;
