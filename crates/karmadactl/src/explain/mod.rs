//! `explain`: the fields of a resource, from the OpenAPI documents of the control plane or a member.

mod openapi_v2;
mod print;

use apimachinery::ApiResource;
use clap::Args;
use client::{Client, DiscoveredResource, Discovery};
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;

use crate::error::Error;
use crate::get::targets;
use crate::{Context, objects, requests, servers};

/// Types may be recursive (JSONSchemaProps).
const MAX_DEPTH: usize = 32;
/// Bytes of a page. Definitions of a member that all refer to each other would expand to more than fits into memory.
const MOST: usize = 16 << 20;

#[derive(Args)]
pub struct ExplainArgs {
    /// TYPE[.FIELD...]
    args: Vec<String>,
    /// Use this API version of the resource (group/version).
    #[arg(long, default_value = "")]
    api_version: String,
    /// Name of the member cluster, with the scope members.
    #[arg(long, default_value = "")]
    cluster: String,
    /// Accepted for upstream's sake: types are the same in every namespace.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Operate on the control plane (karmada) or on a member cluster (members).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Format of the description. One of: (plaintext, plaintext-openapiv2).
    #[arg(short = 'o', long, default_value = "plaintext")]
    output: String,
    /// Print the fields of fields, by name and type.
    #[arg(short = 'R', long)]
    recursive: bool,
}

pub fn run<'a>(context: &'a Context, args: &'a ExplainArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let requested = match args.args.as_slice() {
            [] => {
                return Err(Error::message(
                    "You must specify the type of resource to explain. Use \"karmadactl api-resources\" for a complete list of \
                     supported resources.",
                ));
            }
            [one] => one,
            _ => return Err(Error::message("We accept only this format: explain RESOURCE")),
        };
        let is_older = match args.output.as_str() {
            "plaintext" => false,
            "plaintext-openapiv2" => true,
            other => return Err(Error::message(format!("unrecognized format: {other}"))),
        };
        let scope = crate::scope::parse(&args.operation_scope)?;
        let control = context.control_plane().await?;
        let client = servers::chosen(context, &control, scope, &args.cluster).await?;
        let discovery = objects::discovery(&client).await?;
        let (known, fields) = resolve(&discovery, requested, &args.api_version)?;
        let page = if is_older {
            let document = requests::send(context, &client, Method::GET, "/openapi/v2", None).await;
            let document = document.map_err(Error::client("read the OpenAPI v2 document"))?;
            openapi_v2::page(&document, known, &fields, args.recursive)
        } else {
            print::page(&document(context, &client, known).await?, known, &fields, args.recursive)
        };
        context.print(&page.map_err(Error::message)?);
        Ok(())
    })
}

/// The resource, whose name may have a group, and the fields after it.
fn resolve<'d, 'r>(
    discovery: &'d Discovery,
    requested: &'r str,
    api_version: &str,
) -> Result<(&'d DiscoveredResource, Vec<&'r str>), Error> {
    if requested.starts_with('.') || requested.contains('[') {
        return Err(Error::message("invalid jsonpath syntax, first node must be field node"));
    }
    let parts: Vec<&str> = requested.trim_end_matches('.').split('.').collect();
    for length in (1..=parts.len()).rev() {
        let found = targets::resolve(&parts[..length].join("."), &discovery.resources);
        if let Some(known) = found.first() {
            let fields = parts[length..].to_vec();
            return match api_version {
                "" => Ok((known, fields)),
                version => versioned(discovery, known, version).map(|known| (known, fields)),
            };
        }
    }
    Err(objects::unknown_type(parts[0]))
}

fn versioned<'d>(
    discovery: &'d Discovery,
    known: &DiscoveredResource,
    api_version: &str,
) -> Result<&'d DiscoveredResource, Error> {
    let served = &discovery.resources;
    let same = served
        .iter()
        .find(|it| it.resource.plural == known.resource.plural && it.resource.api_version() == api_version);
    let slash = if api_version.contains('/') { "" } else { "/" };
    same.ok_or_else(|| {
        Error::message(format!(
            "couldn't find resource for \"{slash}{api_version}, Resource={}\"",
            known.resource.plural
        ))
    })
}

/// The definition of the kind of a resource.
fn of_kind<'d>(definitions: &'d Value, resource: &ApiResource) -> Option<&'d Value> {
    definitions.as_object()?.values().find(|schema| {
        let mut kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
        kinds.any(|it| {
            it["group"] == *resource.group && it["version"] == *resource.version && it["kind"] == *resource.kind
        })
    })
}

/// The OpenAPI v3 document of the resource's group version.
async fn document(context: &Context, client: &Client, known: &DiscoveredResource) -> Result<Value, Error> {
    let index = requests::send(context, client, Method::GET, "/openapi/v3", None).await;
    let index = index.map_err(Error::client("read the index of OpenAPI documents"))?;
    let place = known.resource.group_version().url_prefix();
    let place = place.trim_matches('/');
    let url = index["paths"][place]["serverRelativeURL"].as_str();
    let url = url.ok_or_else(|| {
        Error::message(format!("the server publishes no OpenAPI document of {}", known.resource.api_version()))
    })?;
    let document = requests::send(context, client, Method::GET, url, None).await;
    document.map_err(Error::client(format!("read the OpenAPI document of {}", known.resource.api_version())))
}
