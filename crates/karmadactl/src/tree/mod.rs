//! `tree`: a template, its bindings, their Works and the objects in the members.

mod nodes;

use apimachinery::{ApiResource, GroupVersionKind, ObjectKey, StatusReason};
use clap::Args;
use client::{Client, Discovery};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::json;
use world::World;

use crate::error::Error;
use crate::placement::live::{self, Rights, Template};
use crate::placement::subject;
use crate::resume::Form;
use crate::why::read::{AT_ONCE, MemberObject, attached, object_in};
use crate::{Context, objects, servers};
use nodes::Branch;

#[derive(Args)]
pub struct TreeArgs {
    /// The resource: TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME")]
    names: Vec<String>,
    /// Namespace of the resource; that of the kubeconfig's context when absent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format: json or yaml; a table when absent.
    #[arg(short, long)]
    output: Option<String>,
}

pub fn run<'a>(context: &'a Context, args: &'a TreeArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let form = Form::parse(args.output.as_deref())?;
        let Some(subject) = subject::parse(&args.names, None)? else {
            return Err(Error::arguments("a resource is required, as in: tree deployment/web -n shop"));
        };
        let client = context.control_plane().await?;
        let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
        let live = live::of_subject(&client, &subject, &namespace, Rights::Stated).await?;
        for unknown in &live.unknown {
            context.log(&format!("Warning: {}\n", unknown.why));
        }
        let template = match &live.template {
            Template::Found(tree) => Some(tree),
            _ => None,
        };
        let discovery = objects::discovery(&client).await?;
        let (mut own, mut below) = (None, Vec::new());
        if let Some(binding) = &live.binding {
            own = Some(grown(&client, &discovery, binding.clone(), live.works.clone()).await);
            if binding.scope == Scope::Namespaced {
                let found = match attached(&client, binding).await {
                    Err(Error::Server(status)) if status.is(StatusReason::Forbidden) => {
                        context.log(&format!("Warning: what it requires is not shown: {}\n", status.message));
                        Vec::new()
                    }
                    other => other?,
                };
                let grown = found.into_iter().map(|binding| with_works(&client, &discovery, binding));
                below = stream::iter(grown.collect::<Vec<_>>()).buffered(AT_ONCE).try_collect().await?;
            }
        }
        let root = nodes::build(&live.workload, template, own.as_ref(), &below);
        match form {
            Form::Text => context.print(&nodes::text(&root, World::system().now(), context.columns())),
            _ => context.print(&form.encode(&json!(root))?),
        }
        Ok(())
    })
}

fn with_works<'a>(
    client: &'a Client,
    discovery: &'a Discovery,
    binding: Binding,
) -> BoxFuture<'a, Result<Branch, Error>> {
    Box::pin(async move {
        let works = live::works(client, &binding).await?;
        Ok(grown(client, discovery, binding, works).await)
    })
}

/// The binding with the objects in the members of its Works, which are read at the same time.
async fn grown(client: &Client, discovery: &Discovery, binding: Binding, works: Vec<Work>) -> Branch {
    let reference = &binding.spec.resource;
    let gvk = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind).ok();
    let resource = gvk.and_then(|gvk| discovery.by_kind(&gvk)).map(|served| served.resource.clone());
    let key = match reference.namespace.as_str() {
        "" => ObjectKey::cluster(reference.name.as_str()),
        namespace => ObjectKey::namespaced(namespace, reference.name.as_str()),
    };
    let clusters = works.iter().filter_map(|work| names::cluster_of_namespace(&work.metadata.namespace));
    let clusters: Vec<String> = clusters.map(str::to_owned).collect();
    let reads = clusters.into_iter().map(|cluster| read(client, cluster, resource.clone(), key.clone()));
    let members = stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
    Branch { binding, works, members }
}

fn read(
    client: &Client,
    cluster: String,
    resource: Option<ApiResource>,
    key: ObjectKey,
) -> BoxFuture<'static, (String, MemberObject)> {
    let member = servers::member(client, &cluster);
    Box::pin(async move {
        let there = match resource {
            Some(resource) => object_in(&member, &resource, &key).await,
            None => MemberObject::Unknown("the control plane does not serve its kind".to_owned()),
        };
        (cluster, there)
    })
}
