//! `explain-placement`.

use std::sync::Arc;

use apimachinery::ObjectKey;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use scheduling::Gates;
use scheduling::record::{self, Record};
use scheduling::report::Report;
use serde_json::Value;

use super::source::{Manifests, bindings, clusters, snapshot};
use super::{ExplainArgs, print};
use crate::Context;
use crate::error::Error;

/// Prints why a binding goes where it goes.
pub async fn explain(context: &Context, args: &ExplainArgs) -> Result<(), Error> {
    let form = args.shared.form()?;
    let (clusters, binding) = match (&args.filename, &args.name) {
        (Some(path), _) => from_file(path, args)?,
        (None, Some(name)) => from_server(context, name, args).await?,
        (None, None) => return Err(Error::message("the name of a workload is required, or -f FILE")),
    };
    if let Some(path) = &args.save {
        std::fs::write(path, document(&clusters, &binding)?)
            .map_err(|error| Error::message(format!("writing {}: {error}", path.display())))?;
    }
    let snapshot = snapshot(&clusters, &args.shared.without_cluster)?;
    let mut binding = binding;
    binding.spec.clusters.retain(|target| !args.shared.without_cluster.contains(&target.name));
    let report = Report::of(&binding, &snapshot, &Gates::default()).ok_or_else(|| {
        let name = &binding.metadata.name;
        Error::message(format!("{name} has no spec.placement: it follows the bindings in its spec.requiredBy"))
    })?;
    let now: Vec<String> =
        binding.spec.clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    // What the scheduler found when it decided last, with what only it knew.
    let record = binding.metadata.annotations.get(record::ANNOTATION).and_then(|text| Record::parse(text));
    let mut value = report.to_value();
    if let Some(record) = &record {
        value["recorded"] = serde_json::to_value(record).unwrap_or_default();
    }
    print(context, form, &value, || {
        let [kind, namespace, name] = &report.resource;
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let now = if now.is_empty() { "nowhere".to_owned() } else { now.join(" ") };
        let recorded = record.map_or_else(String::new, |record| format!("\n{}", record.to_lines()));
        format!("Workload:  {kind} {place}{name}\nNow:       {now}\n{}{recorded}", report.to_text())
    });
    Ok(())
}

fn from_file(path: &str, args: &ExplainArgs) -> Result<(Vec<Arc<Cluster>>, Binding), Error> {
    let manifests = Manifests::read(path)?;
    let wanted = |binding: &Binding| args.name.as_deref().is_none_or(|name| is_meant(binding, name, args));
    let binding = one_of(manifests.bindings.into_iter().filter(wanted).collect(), path)?;
    Ok((manifests.clusters, binding))
}

fn is_meant(binding: &Binding, name: &str, args: &ExplainArgs) -> bool {
    let resource = &binding.spec.resource;
    let kind = args.kind.as_deref().is_none_or(|kind| resource.kind.eq_ignore_ascii_case(kind));
    kind && (binding.metadata.name == name || resource.name == name)
}

fn one_of(mut found: Vec<Binding>, of: &str) -> Result<Binding, Error> {
    match found.len() {
        0 => Err(Error::message(format!("there is no binding in {of}"))),
        1 => Ok(found.remove(0)),
        _ => {
            let names = found.iter().map(|binding| format!("{} {}", binding.spec.resource.kind, binding.metadata.name));
            let names: Vec<String> = names.take(10).collect();
            Err(Error::message(format!("several bindings are meant, say which with --kind: {}", names.join(", "))))
        }
    }
}

async fn from_server(context: &Context, name: &str, args: &ExplainArgs) -> Result<(Vec<Arc<Cluster>>, Binding), Error> {
    let client = context.control_plane().await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
    // One by its name, where the name says which; the list otherwise.
    if let Some(kind) = &args.kind {
        let key = ObjectKey::namespaced(namespace.as_str(), names::binding_name(kind, name));
        let resource = Binding::api_resource(Scope::Namespaced);
        let found = client.get_opt(&resource, &key).await.map_err(Error::client(format!("get binding {key}")))?;
        if let Some(object) = found {
            let binding = Binding::decode(&object).map_err(|error| Error::message(error.to_string()))?;
            return Ok((clusters(&client).await?, binding));
        }
    }
    let mut found = bindings(&client, Scope::Namespaced, Some(&namespace)).await?;
    found.retain(|binding| is_meant(binding, name, args));
    if found.is_empty() {
        found = bindings(&client, Scope::Cluster, None).await?;
        found.retain(|binding| is_meant(binding, name, args));
    }
    if found.is_empty() {
        let kind = args.kind.as_deref().unwrap_or("workload");
        return Err(Error::message(format!(
            "no binding belongs to {kind} {name:?} in namespace {namespace:?}: no policy selects it, or it does not exist"
        )));
    }
    let binding = one_of(found, &namespace)?;
    Ok((clusters(&client).await?, binding))
}

/// The clusters and the binding as a stream of documents.
fn document(clusters: &[Arc<Cluster>], binding: &Binding) -> Result<String, Error> {
    let failed = |error: serde_json::Error| Error::message(format!("saving the problem: {error}"));
    let mut text = String::new();
    let object = |mut value: Value, api_version: &str, kind: &str| {
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value
    };
    for cluster in clusters {
        let value = serde_json::to_value(cluster.as_ref()).map_err(failed)?;
        let value = object(value, "cluster.karmada.io/v1alpha1", "Cluster");
        text += &format!("---\n{}", apimachinery::yaml::to_string(&value));
    }
    let value = serde_json::to_value(binding).map_err(failed)?;
    let value = object(value, "work.karmada.io/v1alpha2", Binding::kind(binding.scope));
    Ok(text + &format!("---\n{}", apimachinery::yaml::to_string(&value)))
}
