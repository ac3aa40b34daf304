//! `why`: a page from a template to its members: the result, the awaited event, the next step, and the evidence.
//!
//! [`read`] reads, the other modules are pure: they decide with the functions of `placement`, `propagation` and
//! `scheduling`.

mod absent;
mod capacity;
mod cluster;
mod decision;
mod federated_hpa;
mod overrides;
mod page;
mod policies;
pub mod read;
mod template;
#[cfg(test)]
mod tests;
mod waits;
mod works;

use apimachinery::{ApiResource, ObjectKey, Status, StatusReason};
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::constants::annotations;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;

use crate::error::Error;
use crate::get::targets;
use crate::objects::flags::Files;
use crate::objects::{self, ObjectSelection};
use crate::placement::live::{self, Live, Rights, Template};
use crate::placement::subject::{self, Subject};
use crate::resume::Form;
use crate::{Context, resources};
use page::Page;
pub use works::summary;

#[derive(Args)]
pub struct WhyArgs {
    /// The object: TYPE NAME, TYPE/NAME, or NAME alone of a workload that a policy has matched
    #[arg(value_name = "TYPE NAME")]
    names: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Namespace of the object; that of the kubeconfig's context when absent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format: json or yaml; a page of text when absent.
    #[arg(short, long)]
    output: Option<String>,
}

pub fn run<'a>(context: &'a Context, args: &'a WhyArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let form = Form::parse(args.output.as_deref())?;
        let named = subject::parse(&args.names, None)?;
        if named.is_none() && args.files.is_empty() {
            return Err(Error::arguments("an object is required, as in: why deployment/web -n shop"));
        }
        if named.is_some() && !args.files.is_empty() {
            return Err(Error::arguments("an object and -f exclude each other"));
        }
        let client = context.control_plane().await?;
        let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
        let (mut pages, mut errors) = (Vec::new(), Vec::new());
        let mut subjects: Vec<(Subject, String)> = named.into_iter().map(|it| (it, namespace.clone())).collect();
        if !args.files.is_empty() {
            let selection = ObjectSelection::files(&args.files, args.namespace.as_deref(), None);
            let mut found = objects::find(context, &client, selection).await?;
            errors = found.take_errors();
            subjects.extend(found.items.into_iter().map(|item| {
                let type_ = Some(qualified(&item.resource));
                let within = item.key.namespace().unwrap_or(&namespace).to_owned();
                (Subject { type_, name: item.key.name().to_owned() }, within)
            }));
        }
        for (subject, namespace) in &subjects {
            match explain(&client, subject, namespace).await {
                Ok(page) => pages.push(page),
                Err(error) => errors.push(error),
            }
        }
        if !pages.is_empty() {
            context.print(&page::print(&pages, form, context.columns())?);
        }
        Error::of_all(errors)
    })
}

/// `deployments.v1.apps`, or `configmaps` of the core group.
fn qualified(resource: &ApiResource) -> String {
    match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{}.{group}", resource.plural, resource.version),
    }
}

async fn explain(client: &Client, subject: &Subject, namespace: &str) -> Result<Page, Error> {
    let Some(type_) = &subject.type_ else { return of_template(client, subject, namespace).await };
    let discovery = objects::discovery(client).await?;
    let found = targets::resolve(type_, &discovery.resources).first().map(|it| it.resource.clone());
    let Some(resource) = found else { return of_template(client, subject, namespace).await };
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("cluster.karmada.io", "Cluster") => Ok(cluster::page(&read::cluster(client, &subject.name).await?)),
        ("autoscaling.karmada.io", "FederatedHPA") => {
            let key = ObjectKey::namespaced(namespace, subject.name.as_str());
            let now = world::World::system().now();
            Ok(federated_hpa::page(&federated_hpa::read(client, &key, now).await?))
        }
        ("work.karmada.io", "Work") => of_work(client, &subject.name, namespace).await,
        _ => match of_template(client, subject, namespace).await {
            Err(Error::Server(status)) if status.is(StatusReason::NotFound) => {
                let key = match resource.namespaced {
                    true => ObjectKey::namespaced(namespace, subject.name.as_str()),
                    false => ObjectKey::cluster(subject.name.as_str()),
                };
                match of_absent(client, &resource, &key).await? {
                    Some(page) => Ok(page),
                    None => Err(with_namespace(client, status, &key).await),
                }
            }
            other => other,
        },
    }
}

async fn of_template(client: &Client, subject: &Subject, namespace: &str) -> Result<Page, Error> {
    let live = live::of_subject(client, subject, namespace, Rights::Stated).await?;
    with_works(client, live).await
}

/// Objects without a binding may have Works of other controllers, as Namespaces have.
async fn with_works(client: &Client, live: Live) -> Result<Page, Error> {
    let reference = live.workload.clone();
    let is_bound = live.binding.is_some();
    let facts = read::facts(client, live, None).await?;
    let mut page = template::page(&facts);
    if is_bound {
        return Ok(page);
    }
    match read::works_named(client, &template::work_name(&reference)).await {
        Ok(left) if !left.is_empty() => template::without_binding(&mut page, &left),
        Ok(_) => {
            if let Template::Found(namespace) = &facts.live.template
                && reference.kind == "Namespace"
                && reference.api_version == "v1"
            {
                template::of_namespace(&mut page, namespace);
            }
        }
        Err(Error::Server(status)) if status.is(StatusReason::Forbidden) => {
            page.unknown.push(format!("Works: {}", status.message));
        }
        Err(error) => return Err(error),
    }
    Ok(page)
}

/// The page of a Work's binding, or of the Work alone.
async fn of_work(client: &Client, name: &str, namespace: &str) -> Result<Page, Error> {
    let key = ObjectKey::namespaced(namespace, name);
    let found = client.get(&resources::WORK, &key).await.map_err(Error::client(format!("get work {key}")))?;
    let work =
        Work::from_object(&found).map_err(|error| Error::message(format!("Work {key} cannot be read: {error}")))?;
    let cluster = names::cluster_of_namespace(namespace).map(str::to_owned);
    let annotation = |key: &str| work.metadata.annotations.get(key).map(String::as_str);
    let binding = match (annotation(annotations::BINDING_NAME), annotation(annotations::CLUSTER_BINDING_NAME)) {
        (Some(name), _) => {
            Some(ObjectKey::namespaced(annotation(annotations::BINDING_NAMESPACE).unwrap_or_default(), name))
        }
        (None, Some(name)) => Some(ObjectKey::cluster(name)),
        (None, None) => None,
    };
    if let Some(binding) = binding
        && let Some(live) = live::of_binding(client, &binding, Rights::Stated).await?
    {
        let facts = read::facts(client, live, cluster).await?;
        return Ok(template::page(&facts));
    }
    Ok(template::of_work_only(&work))
}

/// An object that neither the control plane nor a binding has.
async fn of_absent(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Page>, Error> {
    let it = ObjectReference {
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
        ..ObjectReference::default()
    };
    if Scope::ALL.iter().any(|scope| Binding::kind(*scope) == it.kind) {
        return Ok(None);
    }
    let mut unknown = Vec::new();
    let left = read::works_named(client, &template::work_name(&it)).await;
    let left = read::readable(left, "Works", &mut unknown)?;
    let members = match read::in_members(client, resource, key).await {
        Err(Error::Server(status)) if status.is(StatusReason::Forbidden) => {
            unknown.push(format!("clusters: {}", status.message));
            Vec::new()
        }
        other => other?,
    };
    Ok(absent::page(&it, &left, &members, &unknown))
}

/// The refusal, and whether the namespace does not exist.
async fn with_namespace(client: &Client, mut refusal: Box<Status>, key: &ObjectKey) -> Error {
    if let Some(namespace) = key.namespace()
        && matches!(client.get_opt(&resources::NAMESPACE, &ObjectKey::cluster(namespace)).await, Ok(None))
    {
        refusal.message = format!("{}\nThere is no namespace {namespace} in the control plane", refusal.message);
    }
    Error::Server(refusal)
}
