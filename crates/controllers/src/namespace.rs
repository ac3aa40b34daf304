//! Namespaces go to every cluster by themselves.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use controller_runtime::{Event, Next, Priority, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Override, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::namespaces;
use propagation::template::Template;

use crate::error::{Result, all, decoded};
use crate::{Context, binding, work_writes};

pub(crate) fn resource() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<String>> = context.queue();
    let informer = context.control.informer(&resource());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().name().to_owned());
        }
    });
    let (keys, all_namespaces) = (queue.clone(), informer.clone());
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        if let Event::Added { .. } = event {
            for namespace in all_namespaces.cache().keys() {
                keys.add_with(namespace.name().to_owned(), Priority::Low);
            }
        }
    });
    // A deleted execution namespace is recreated, also one that was deleted while it was created.
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        if let Event::Deleted(work) = event
            && let Some(namespace) = namespace_of(work)
        {
            keys.add(namespace);
        }
    });
    let (keys, all_namespaces) = (queue.clone(), informer.clone());
    context.control.informer(&Override::api_resource(Scope::Cluster)).subscribe(move |event| {
        if matches!(event, Event::Added { initial: true, .. }) || !event.changes_generation() {
            return;
        }
        let old = match event {
            Event::Updated { old, .. } => Some(old),
            _ => None,
        };
        for policy in old.into_iter().chain([event.object()]).filter_map(|object| Override::decode(object).ok()) {
            for namespace in all_namespaces.cache().keys() {
                if namespaces::triggered_by(&policy, namespace.name()) {
                    keys.add_with(namespace.name().to_owned(), Priority::Low);
                }
            }
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let (stop, workers) = (context.stop.clone(), context.settings.workers);
    run_workers("namespace-sync-controller", queue, workers, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &name).await }
    })
    .await;
}

/// The namespace of a Work that was created for a namespace; `None` for Works of bindings.
fn namespace_of(work: &Object) -> Option<String> {
    if Scope::ALL.iter().any(|scope| work.label(scope.binding_id_label()).is_some()) {
        return None;
    }
    let tree = work.to_tree().ok()?;
    let manifest = &tree["spec"]["workload"]["manifests"][0];
    (manifest["apiVersion"] == "v1" && manifest["kind"] == "Namespace").then(|| Template(manifest).name().to_owned())
}

/// Whether a policy selects the namespace, too: then its binding decides about the Work, for example that the namespace
/// is preserved.
fn is_of_binding(context: &Context, rendered: &Work) -> bool {
    let Some(work) = context.written_works.get(&rendered.key()) else { return false };
    let Some(binding) = work.annotation(Scope::Cluster.binding_name_annotation()) else { return false };
    let binding = context.bindings(Scope::Cluster).cache().get(&BindingKey::cluster(binding));
    binding.is_some_and(|it| {
        !it.is_deleting()
            && it.label(Scope::Cluster.binding_id_label()) == work.label(Scope::Cluster.binding_id_label())
    })
}

async fn reconcile(context: &Context, name: &str) -> Result<Next> {
    let object = context.control.informer(&resource()).cache().get(&ObjectKey::cluster(name));
    // The Works of a namespace that is deleted are collected with it.
    let Some(object) = object.filter(|object| !object.is_deleting()) else { return Ok(Next::Done) };
    let tree = decoded(&object, object.to_tree())?;
    if !namespaces::is_propagated(Template(&tree), |name| context.settings.skip.skips_namespace(name)) {
        return Ok(Next::Done);
    }
    let overrides = binding::overrides_for(context, Template(&tree));
    let clusters = context.clusters.all();
    let staying = clusters.iter().filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let rendered: Vec<_> = staying.map(|cluster| namespaces::work(Template(&tree), cluster, &overrides)).collect();
    let is_new = |work: &Work| context.works.cache().get(&work.key()).is_none();
    // A cache that is behind has deleted namespaces; their Works would be garbage collected, and recreated here,
    // repeatedly.
    if rendered.iter().flatten().any(is_new)
        && context.live(&resource(), &object).await?.is_none_or(|live| live.is_deleting())
    {
        return Ok(Next::Done);
    }
    let mut errors = Vec::new();
    for work in rendered.into_iter().filter(|work| !work.as_ref().is_ok_and(|work| is_of_binding(context, work))) {
        let written = match work {
            Ok(work) => work_writes::write(context, work).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        errors.extend(written.err());
    }
    all(errors).map(|()| Next::Done)
}
