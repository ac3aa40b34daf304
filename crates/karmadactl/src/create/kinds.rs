//! `create KIND NAME`: one object from flags, with kubectl's kinds, flags and messages.

use apimachinery::{ApiResource, ObjectKey};
use clap::{Args, Subcommand};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::access::{BindingArgs, ClusterRoleArgs, RoleArgs, RoleBindingArgs};
use super::data::{ConfigMapArgs, DockerRegistryArgs, GenericArgs, TlsArgs};
use super::limits::{BudgetArgs, PriorityArgs, QuotaArgs};
use super::network::{ExternalNameArgs, IngressArgs, NodePortArgs, PortsArgs, ServiceArgs};
use super::token::TokenArgs;
use super::workloads::{CronJobArgs, DeploymentArgs, JobArgs};
use super::{limits, network, token};
use crate::Context;
use crate::apply::annotated;
use crate::error::Error;
use crate::objects::flags::{Creation, DryRun};
use crate::objects::kind_shown;
use crate::printing::Printer;
use crate::requests;

/// The flags of every kind but `token`.
#[derive(Args)]
pub struct Common {
    names: Vec<String>,
    #[command(flatten)]
    pub(super) creation: Creation,
}

/// A kind without flags of its own.
#[derive(Args)]
pub struct PlainArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
pub enum Kind {
    #[command(flatten)]
    Object(ObjectKind),
    /// Request a service account token.
    Token {
        #[command(flatten)]
        token: Box<TokenArgs>,
    },
}

#[derive(Subcommand)]
pub enum ObjectKind {
    /// Create a cluster role.
    Clusterrole {
        #[command(flatten)]
        role: Box<ClusterRoleArgs>,
    },
    /// Create a cluster role binding for a particular cluster role.
    Clusterrolebinding {
        #[command(flatten)]
        binding: Box<BindingArgs>,
    },
    /// Create a config map from a local file, directory or literal value.
    #[command(alias = "cm")]
    Configmap {
        #[command(flatten)]
        map: Box<ConfigMapArgs>,
    },
    /// Create a cron job with the specified name.
    #[command(alias = "cj")]
    Cronjob {
        #[command(flatten)]
        job: Box<CronJobArgs>,
    },
    /// Create a deployment with the specified name.
    #[command(alias = "deploy")]
    Deployment {
        #[command(flatten)]
        deployment: Box<DeploymentArgs>,
    },
    /// Create an ingress with the specified name.
    #[command(alias = "ing")]
    Ingress {
        #[command(flatten)]
        ingress: Box<IngressArgs>,
    },
    /// Create a job with the specified name.
    Job {
        #[command(flatten)]
        job: Box<JobArgs>,
    },
    /// Create a namespace with the specified name.
    #[command(alias = "ns")]
    Namespace {
        #[command(flatten)]
        namespace: Box<PlainArgs>,
    },
    /// Create a pod disruption budget with the specified name.
    #[command(alias = "pdb")]
    Poddisruptionbudget {
        #[command(flatten)]
        budget: Box<BudgetArgs>,
    },
    /// Create a priority class with the specified name.
    #[command(alias = "pc")]
    Priorityclass {
        #[command(flatten)]
        class: Box<PriorityArgs>,
    },
    /// Create a quota with the specified name.
    #[command(alias = "resourcequota")]
    Quota {
        #[command(flatten)]
        quota: Box<QuotaArgs>,
    },
    /// Create a role with a single rule.
    Role {
        #[command(flatten)]
        role: Box<RoleArgs>,
    },
    /// Create a role binding for a particular role or cluster role.
    Rolebinding {
        #[command(flatten)]
        binding: Box<RoleBindingArgs>,
    },
    /// Create a secret using a specified subcommand.
    #[command(subcommand)]
    Secret(SecretKind),
    /// Create a service using a specified subcommand.
    #[command(subcommand, alias = "svc")]
    Service(ServiceKind),
    /// Create a service account with the specified name.
    #[command(alias = "sa")]
    Serviceaccount {
        #[command(flatten)]
        account: Box<PlainArgs>,
    },
}

#[derive(Subcommand)]
pub enum SecretKind {
    /// Create a secret for use with a Docker registry.
    DockerRegistry {
        #[command(flatten)]
        registry: Box<DockerRegistryArgs>,
    },
    /// Create a secret from a local file, directory, or literal value.
    Generic {
        #[command(flatten)]
        generic: Box<GenericArgs>,
    },
    /// Create a TLS secret.
    Tls {
        #[command(flatten)]
        tls: Box<TlsArgs>,
    },
}

#[derive(Subcommand)]
pub enum ServiceKind {
    /// Create a ClusterIP service.
    Clusterip {
        #[command(flatten)]
        service: Box<ServiceArgs>,
    },
    /// Create an ExternalName service.
    Externalname {
        #[command(flatten)]
        service: Box<ExternalNameArgs>,
    },
    /// Create a LoadBalancer service.
    Loadbalancer {
        #[command(flatten)]
        service: Box<PortsArgs>,
    },
    /// Create a NodePort service.
    Nodeport {
        #[command(flatten)]
        service: Box<NodePortArgs>,
    },
}

/// An object to create.
pub struct Draft {
    pub resource: ApiResource,
    pub object: Value,
    /// What kubectl prints before the server's refusal, up to the message; nothing for some kinds.
    pub failed: &'static str,
}

impl Draft {
    pub fn new(resource: ApiResource, failed: &'static str, object: Value) -> Self {
        Self { resource, object, failed }
    }
}

/// The object of a kind, whose name is known.
fn draft<'a>(context: &'a Context, kind: &'a ObjectKind, name: &'a str) -> BoxFuture<'a, Result<Draft, Error>> {
    Box::pin(async move {
        match kind {
            ObjectKind::Clusterrole { role } => role.draft(context, name).await,
            ObjectKind::Clusterrolebinding { binding } => binding.draft(name),
            ObjectKind::Configmap { map } => map.draft(name),
            ObjectKind::Cronjob { job } => job.draft(name),
            ObjectKind::Deployment { deployment } => deployment.draft(name, &world::World::system()),
            ObjectKind::Ingress { ingress } => ingress.draft(name),
            ObjectKind::Job { job } => job.draft(context, name).await,
            ObjectKind::Namespace { .. } => Ok(limits::namespace(name)),
            ObjectKind::Poddisruptionbudget { budget } => budget.draft(name),
            ObjectKind::Priorityclass { class } => Ok(class.draft(name)),
            ObjectKind::Quota { quota } => quota.draft(name),
            ObjectKind::Role { role } => role.draft(context, name).await,
            ObjectKind::Rolebinding { binding } => binding.draft(name),
            ObjectKind::Secret(SecretKind::DockerRegistry { registry }) => registry.draft(name),
            ObjectKind::Secret(SecretKind::Generic { generic }) => generic.draft(name),
            ObjectKind::Secret(SecretKind::Tls { tls }) => tls.draft(name),
            ObjectKind::Service(service) => network::service(service, name),
            ObjectKind::Serviceaccount { .. } => Ok(Draft::new(
                crate::resources::SERVICE_ACCOUNT.clone(),
                "failed to create serviceaccount: ",
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
            )),
        }
    })
}

impl ObjectKind {
    fn common(&self) -> &Common {
        match self {
            Self::Clusterrole { role } => &role.common,
            Self::Clusterrolebinding { binding } => &binding.common,
            Self::Configmap { map } => &map.common,
            Self::Cronjob { job } => &job.common,
            Self::Deployment { deployment } => &deployment.common,
            Self::Ingress { ingress } => &ingress.common,
            Self::Job { job } => &job.common,
            Self::Namespace { namespace: plain } | Self::Serviceaccount { account: plain } => &plain.common,
            Self::Poddisruptionbudget { budget } => &budget.common,
            Self::Priorityclass { class } => &class.common,
            Self::Quota { quota } => &quota.common,
            Self::Role { role } => &role.common,
            Self::Rolebinding { binding } => &binding.binding.common,
            Self::Secret(SecretKind::DockerRegistry { registry }) => &registry.common,
            Self::Secret(SecretKind::Generic { generic }) => &generic.common,
            Self::Secret(SecretKind::Tls { tls }) => &tls.common,
            Self::Service(ServiceKind::Clusterip { service }) => &service.ports.common,
            Self::Service(ServiceKind::Externalname { service }) => &service.ports.common,
            Self::Service(ServiceKind::Loadbalancer { service }) => &service.common,
            Self::Service(ServiceKind::Nodeport { service }) => &service.ports.common,
        }
    }
}

/// The only argument.
///
/// # Errors
/// kubectl's, for another number of arguments.
pub fn only_name(names: &[String]) -> Result<&str, Error> {
    match names {
        [name] => Ok(name),
        names => Err(Error::usage(format!("exactly one NAME is required, got {}", names.len()))),
    }
}

/// cobra's check of flags without a default.
///
/// # Errors
/// Naming the flags that are missing.
pub fn required(flags: &[(&str, bool)]) -> Result<(), Error> {
    let missing: Vec<String> =
        flags.iter().filter(|(_, is_set)| !is_set).map(|(name, _)| format!("{name:?}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::message(format!("required flag(s) {} not set", missing.join(", "))))
}

/// Creates the object of a kind, or requests a token.
pub fn run<'a>(context: &'a Context, kind: &'a Kind) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        match kind {
            Kind::Object(kind) => create(context, kind).await,
            Kind::Token { token } => token::run(context, token).await,
        }
    })
}

fn create<'a>(context: &'a Context, kind: &'a ObjectKind) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let Common { names, creation } = kind.common();
        let dry_run = creation.dry_run(context)?;
        let name = only_name(names)?;
        let mut printer = Printer::new(&creation.printing, dry_run)?;
        let options = creation.options(dry_run)?;
        let Draft { resource, mut object, failed } = draft(context, kind, name).await?;
        if resource.namespaced
            && let Some(namespace) = &creation.namespace
        {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        if creation.save_config {
            object = annotated(&object);
        }
        if dry_run != DryRun::Client {
            let client = context.control_plane().await?;
            let namespace = creation.namespace.clone().unwrap_or_else(|| context.namespace());
            let key =
                if resource.namespaced { ObjectKey::namespaced(namespace, name) } else { ObjectKey::cluster(name) };
            let created = requests::create(context, &client, &resource, &key, &object, &options).await;
            object = created.map_err(|error| refused(failed, error))?;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or(name);
        printer.done(context, &format!("{}/{name}", kind_shown(&resource)), "created", &object)
    })
}

/// The server's refusal behind what kubectl prints before it.
pub fn refused(failed: &str, error: client::Error) -> Error {
    match error {
        client::Error::Status(status) if !failed.is_empty() => Error::message(format!("{failed}{}", status.message)),
        error => Error::client(failed.trim_end_matches([':', ' ']).to_owned())(error),
    }
}
