//! `explain-placement`.

use apimachinery::ApiResource;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha1::Work;
use scheduling::Gates;
use scheduling::report::Report;
use serde::Serialize;

use super::live::{self, Live, Template, one_of};
use super::source::{Manifests, snapshot};
use super::subject::{self, Subject};
use super::{ExplainArgs, explanation, print};
use crate::Context;
use crate::error::Error;

/// Prints the placement of a workload, its reasons, and the next step.
pub async fn explain(context: &Context, args: &ExplainArgs) -> Result<(), Error> {
    let form = args.shared.form()?;
    let subject = subject::parse(&args.names, args.kind.as_deref())?;
    let mut live = match (&args.filename, &subject) {
        (Some(path), subject) => from_file(path, subject.as_ref()).await?,
        (None, Some(subject)) => {
            let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
            live::read(context, subject, &namespace).await?
        }
        (None, None) => {
            return Err(Error::arguments(
                "a workload is required, as in: explain-placement deployment web; or a state that was saved, with -f FILE",
            ));
        }
    };
    if let Some(path) = &args.save {
        std::fs::write(path, document(&live)?)
            .map_err(|error| Error::message(format!("writing {}: {error}", path.display())))?;
    }
    let without = &args.shared.without_cluster;
    let snapshot = snapshot(&live.clusters, without)?;
    live.clusters.retain(|cluster| !without.contains(&cluster.metadata.name));
    if let Some(binding) = &mut live.binding {
        binding.spec.clusters.retain(|target| !without.contains(&target.name));
    }
    let report = live.binding.as_ref().and_then(|binding| Report::of(binding, &snapshot, &Gates::default()));
    let explanation = explanation::explanation_of(&live, report.as_ref());
    let mut value = explanation.to_value(&live);
    if let Some(report) = &report {
        value["calculation"] = report.to_value();
    }
    if let Some(record) = live.binding.as_ref().and_then(explanation::record_of) {
        value["recorded"] = serde_json::to_value(record).unwrap_or_default();
    }
    print(context, form, &value, || explanation.to_text());
    Ok(())
}

async fn from_file(path: &str, subject: Option<&Subject>) -> Result<Live, Error> {
    let manifests = Manifests::read(path).await?;
    if manifests.bindings.is_empty() {
        return Err(Error::message(format!("{path} holds no binding; a file of explain-placement --save does")));
    }
    let meant =
        |binding: &Binding| subject.is_none_or(|subject| subject.means(&binding.metadata.name, &binding.spec.resource));
    let found = one_of(manifests.bindings.into_iter().filter(meant).collect())?;
    let Some(binding) = found else { return Err(Error::message(format!("there is no such binding in {path}"))) };
    let (label, id) = (binding.scope.binding_id_label(), binding.permanent_id().to_owned());
    let is_of = |work: &Work| !id.is_empty() && work.metadata.labels.get(label) == Some(&id);
    Ok(Live {
        workload: binding.spec.resource.clone(),
        template: Template::Unread,
        policies: Vec::new(),
        overrides: Vec::new(),
        works: manifests.works.into_iter().filter(is_of).collect(),
        clusters: manifests.clusters,
        warnings: Vec::new(),
        failing: None,
        unknown: Vec::new(),
        binding: Some(binding),
    })
}

/// The clusters, the Works without their manifests, and the binding as a stream of documents.
fn document(live: &Live) -> Result<String, Error> {
    let Some(binding) = &live.binding else {
        return Err(Error::message("there is nothing to save: no policy has taken effect on the workload"));
    };
    let mut text = String::new();
    for cluster in &live.clusters {
        text += &manifest(cluster.as_ref(), &Cluster::api_resource())?;
    }
    for work in &live.works {
        let mut work = work.clone();
        // They may hold secrets.
        work.spec.workload = Default::default();
        text += &manifest(&work, &Work::api_resource())?;
    }
    Ok(text + &manifest(binding, &Binding::api_resource(binding.scope))?)
}

fn manifest(object: &impl Serialize, resource: &ApiResource) -> Result<String, Error> {
    let value = serde_json::to_value(object);
    let mut value = value.map_err(|error| Error::message(format!("saving the state: {error}")))?;
    value["apiVersion"] = resource.api_version().into();
    value["kind"] = resource.kind.clone().into();
    Ok(format!("---\n{}", apimachinery::yaml::to_string(&value)))
}
