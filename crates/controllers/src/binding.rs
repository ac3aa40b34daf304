//! Renders the Works of bindings: one for each cluster of a binding, and none elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::{Condition, ObjectMeta};
use apimachinery::{ApiResource, Object, ObjectKey, raw_json};
use client::{DeleteOptions, Patch, PatchOptions};
use controller_runtime::{Controller, Event, Involved, Next, Priority, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::{conditions, events};
use karmada_api::identity::{BindingKey, ClusterName, WorkKey};
use karmada_api::policy::v1alpha1::ResourceSelector;
use karmada_api::scope::{Binding, Override, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use parking_lot::Mutex;
use propagation::overrides::{self, AppliedOverrides};
use propagation::template::Template;
use propagation::works::{self, Inputs};
use serde_json::json;

use crate::absence::certain;
use crate::error::{During, Error, Result, all, decoded};
use crate::execution::changes_desired_state;
use crate::metrics::result;
use crate::obsolete_works::{ObsoleteWorks, Origin};
use crate::ownership::{newest_works_of, own, works_of};
use crate::unrendered::Failures;
use crate::{Context, lost_works, templates, work_writes};

/// While a copy with purge mode `Directly` still exists, nothing is dispatched (upstream's period).
const PURGE_POLL: Duration = Duration::from_secs(5);

pub(crate) async fn run(context: Context) {
    let queue = context.dispatch_queue();
    // The queue of this process's only binding controller, which receives changed templates.
    let _ = context.rendering.set(queue.clone());
    let (obsolete, failed): (Arc<ObsoleteWorks>, Arc<Failed>) = Default::default();
    let (keys, arriving, bindings) = (queue.clone(), obsolete.clone(), Scope::ALL.map(|scope| context.bindings(scope)));
    context.works.subscribe(move |event| {
        let Event::Added { object, .. } = event else { return };
        let cached = |key: &BindingKey| bindings.iter().find_map(|informer| informer.cache().get(key));
        if let Some(binding) = arriving.arrived(object, cached) {
            keys.add(binding);
        }
    });
    let (keys, losing) = (queue.clone(), context.clone());
    context.works.subscribe(move |event| {
        if let Event::Deleted(work) = event
            && let Some(binding) = lost_works::binding_of(&losing, work)
        {
            keys.add(binding);
        }
    });
    for scope in Scope::ALL {
        let (keys, noting) = (queue.clone(), context.clone());
        context.bindings(scope).subscribe(move |event| {
            let initial = matches!(event, Event::Added { initial: true, .. });
            if initial && !is_fully_applied(event.object()) {
                noting.unrendered.expect(BindingKey::of(event.object()));
            }
            if changes_desired_state(event) {
                let priority = if initial { Priority::Low } else { Priority::Normal };
                keys.add_with(BindingKey::of(event.object()), priority);
            }
        });
        let (keys, concerned) = (queue.clone(), context.clone());
        context.control.informer(&Override::api_resource(scope)).subscribe(move |event| {
            // The initial list enqueues every binding in any case.
            if matches!(event, Event::Added { initial: true, .. }) || !event.changes_generation() {
                return;
            }
            let versions: &[&Arc<Object>] = match event {
                Event::Updated { old, new } => &[old, new],
                other => &[other.object()],
            };
            for policy in versions.iter().filter_map(|object| Override::decode(object).ok()) {
                enqueue_concerned(&concerned, &policy, &keys);
            }
        });
    }
    if !context.synced().await {
        return;
    }
    let (stop, workers) = (context.stop.clone(), context.settings.workers);
    run_workers(Controller::of_bindings(component(Scope::Namespaced)), queue, workers, stop, move |key| {
        let (context, obsolete, failed) = (context.clone(), obsolete.clone(), failed.clone());
        async move { reconcile(&context, &obsolete, &failed, &key).await }
    })
    .await;
}

/// Queues the bindings whose template an override policy selects.
fn enqueue_concerned(context: &Context, policy: &Override, queue: &WorkQueue<BindingKey>) {
    let namespace = (policy.scope == Scope::Namespaced).then_some(policy.metadata.namespace.as_str());
    for object in Scope::ALL.into_iter().flat_map(|scope| context.bindings(scope).cache().list(namespace)) {
        let Some(resource) = templates::reference_in(&object) else { continue };
        let concerned = may_concern(policy, &resource)
            && templates::cached(context, &resource).is_none_or(|template| selects(context, policy, &template));
        if concerned {
            queue.add_with(BindingKey::of(&object), Priority::Low);
        }
    }
}

/// Whether a policy selects a template, if need be by labels that a cluster policy gives it.
fn selects(context: &Context, policy: &Override, template: &Object) -> bool {
    let identity = json!({"apiVersion": template.api_version(), "kind": template.kind(), "metadata": {
        "namespace": template.namespace(), "name": template.name(), "labels": template.labels().iter().collect::<BTreeMap<_, _>>(),
    }});
    let selects = |policy: &Override| overrides::concerns(policy, Template(&identity));
    let relabels = || context.overrides.of(None).iter().any(|policy| selects(policy));
    selects(policy) || (policy.scope == Scope::Namespaced && relabels())
}

/// According to the binding's resource reference.
fn may_concern(policy: &Override, resource: &ObjectReference) -> bool {
    let may_match = |selector: &ResourceSelector| {
        let any = |wanted: &str, have: &str| wanted.is_empty() || wanted == have;
        selector.api_version == resource.api_version
            && selector.kind == resource.kind
            && any(&selector.namespace, &resource.namespace)
            && any(&selector.name, &resource.name)
    };
    let selectors = &policy.spec.resource_selectors;
    selectors.is_empty() || selectors.iter().any(may_match)
}

/// As in its status.
fn is_fully_applied(binding: &Object) -> bool {
    let status = binding.member("status");
    let list = status.and_then(|status| raw_json::member(&status, "conditions").map(|span| status.slice(span)));
    let list: Vec<Condition> = list.and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default();
    list.iter().any(|it| it.type_ == conditions::FULLY_APPLIED && it.status == "True")
}

/// Bindings whose Works could not all be written in the last pass.
type Failed = Mutex<BTreeSet<BindingKey>>;

async fn reconcile(context: &Context, obsolete: &ObsoleteWorks, failed: &Failed, key: &BindingKey) -> Result<Next> {
    let mut failures = Failures::new();
    let outcome = sync(context, obsolete, failed, key, &mut failures).await;
    context.unrendered.note(key, failures);
    outcome
}

/// The source of events.
fn component(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "binding-controller",
        Scope::Cluster => "cluster-resource-binding-controller",
    }
}

/// One pass; `failures` are the clusters whose Work cannot be rendered.
async fn sync(
    context: &Context,
    obsolete: &ObsoleteWorks,
    failed: &Failed,
    key: &BindingKey,
    failures: &mut Failures,
) -> Result<Next> {
    let Some(object) = context.bindings(key.scope()).cache().get(key) else {
        context.journal.forget_binding(key);
        failed.lock().remove(key);
        return delete_obsolete_works(context, obsolete, key).await;
    };
    // The cache has them by now.
    obsolete.forget(key);
    let binding = Binding::decode(&object)?;
    context.journal.binding(&binding);
    let works = works_of(context, &binding);
    if object.is_deleting() {
        delete_works(context, works.iter()).await?;
        remove_finalizer(context, &binding).await?;
        return Ok(Next::Done);
    }
    let recorder = context.recorder.for_component(component(binding.scope));
    let keyed = works.iter().map(|work| WorkKey::try_from(work.key()).map_err(|error| Error::Wait(error.to_string())));
    let keys = keyed.collect::<Result<Vec<WorkKey>>>()?;
    let orphans = works::orphans(&binding.spec, &keys);
    // The cache may be outdated, and a Work in it may be required again.
    if !orphans.is_empty() && !is_newest(context, &object).await? {
        return Err(Error::Wait(format!("{} {key} is newer than the cache", Binding::kind(binding.scope))));
    }
    let deleted = !orphans.is_empty();
    let orphans = works.iter().zip(&keys).filter(|(_, key)| orphans.contains(key)).map(|(work, _)| work);
    if let Err(error) = delete_works(context, orphans).await {
        recorder.warning(&*object, events::CLEANUP_WORK_FAILED, error.to_string());
        return Err(error);
    }
    if works::waits_for_purge(&binding.spec, &keys) {
        return Ok(Next::After(PURGE_POLL));
    }
    // Without targets there is nothing to render; with targets, a deleted template deletes its binding.
    if works::targets(&binding.spec).is_empty() {
        return Ok(Next::Done);
    }
    let refused = |error: &Error| recorder.warning(&*object, events::SYNC_WORK_FAILED, error.to_string());
    let template = templates::claimed(context, &binding).await.inspect_err(refused)?;
    let Some(template) = template else { return Ok(Next::Done) };
    let subjects: [&Object; 2] = [&object, &template];
    let kind = Binding::kind(binding.scope);
    let started = tokio::time::Instant::now();
    let outcome = render_works(context, obsolete, &object, &binding, &template, failures).await;
    context.metrics.sync_work.took(&[result(&outcome)], started.elapsed());
    match outcome {
        Ok(wrote) => {
            failed.lock().remove(key);
            // Upstream records it with every reconcile; without a write or a failure before there is nothing new to report.
            let message = || format!("Sync work of {kind}({key}) successful.");
            let (reason, changed) = (events::SYNC_WORK_SUCCEED, wrote || deleted);
            subjects.into_iter().for_each(|subject| recorder.succeeded(subject, reason, changed, message));
            Ok(Next::Done)
        }
        Err(error) => {
            // As upstream, which writes again after a conflict before it reports one.
            let is_reported = !failed.lock().insert(key.clone()) || !error.is_conflict();
            for subject in subjects.into_iter().filter(|_| is_reported) {
                recorder.warning(subject, events::SYNC_WORK_FAILED, error.to_string());
            }
            Err(error)
        }
    }
}

/// Whether the server has the binding as it was decided about.
async fn is_newest(context: &Context, known: &Object) -> Result<bool> {
    let live = context.live(&Binding::api_resource(Scope::of(&known.key())), known).await?;
    Ok(live.is_some_and(|live| live.generation() == known.generation()))
}

/// Deletes these Works, but not others created under their names since.
async fn delete_works(context: &Context, works: impl Iterator<Item = &Arc<Object>>) -> Result<()> {
    let mut errors = Vec::new();
    for work in works {
        let (key, options) = (work.key(), DeleteOptions::default().only_uid(work.uid()));
        match context.client.delete(&Work::api_resource(), &key, &options).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => errors.push(format!("deleting work {key}: {error}")),
        }
    }
    all(errors)
}

async fn remove_finalizer(context: &Context, binding: &Binding) -> Result<()> {
    let ours = binding.scope.binding_finalizer();
    let finalizers = &binding.metadata.finalizers;
    if !finalizers.iter().any(|finalizer| finalizer == ours) {
        return Ok(());
    }
    let left: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != ours).collect();
    let patch = json!({"metadata": {"finalizers": left, "resourceVersion": binding.metadata.resource_version}});
    let resource = Binding::api_resource(binding.scope);
    match context.client.patch(&resource, &binding.key(), &Patch::Merge(patch), &PatchOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(|_| ()).during(|| format!("removing the finalizer of {} {}", resource.kind, binding.key())),
    }
}

/// Deletes Works that this process created for a binding that was already deleted.
async fn delete_obsolete_works(context: &Context, obsolete: &ObsoleteWorks, key: &BindingKey) -> Result<Next> {
    let found = obsolete.of(key);
    if found.is_empty() {
        return Ok(Next::Done);
    }
    let (resource, label) = (key.resource(), key.scope().binding_id_label());
    let live = certain(&context.client, &resource, key).await?;
    let mut left = Vec::new();
    for (work, id) in found {
        if live.as_ref().is_some_and(|live| live.label(label) == Some(&*id)) {
            continue;
        }
        // Another binding may have taken it over.
        left.extend(context.works.cache().get(&work).filter(|work| work.label(label) == Some(&*id)));
    }
    delete_works(context, left.iter()).await?;
    obsolete.forget(key);
    Ok(Next::Done)
}

/// Writes the Works, and then deletes those that they replace. Returns whether anything was written.
async fn render_works(
    context: &Context,
    obsolete: &ObsoleteWorks,
    object: &Arc<Object>,
    binding: &Binding,
    template: &Object,
    failures: &mut Failures,
) -> Result<bool> {
    let (wrote, rendered) = ensure_works(context, obsolete, binding, template, failures).await?;
    let works = newest_works_of(context, binding);
    let is_left = |work: &Arc<Object>| {
        let of_another = !work.is_deleting() && WorkKey::of(work).is_some_and(|key| !rendered.contains(&key));
        of_another && Work::from_object(work).is_ok_and(|work| works::is_replaced(&work, &rendered))
    };
    let replaced: Vec<_> = works.iter().filter(|work| is_left(work)).collect();
    if replaced.is_empty() {
        return Ok(wrote);
    }
    if !is_newest(context, object).await? {
        return Err(Error::Wait(format!("{} {} is newer than the cache", Binding::kind(binding.scope), binding.key())));
    }
    delete_works(context, replaced.into_iter()).await?;
    Ok(true)
}

/// Returns whether a Work was written, and the Works that are dispatched.
async fn ensure_works(
    context: &Context,
    obsolete: &ObsoleteWorks,
    binding: &Binding,
    template: &Object,
    failures: &mut Failures,
) -> Result<(bool, Vec<WorkKey>)> {
    let tree = decoded(template, template.to_tree())?;
    let targets = works::targets(&binding.spec).into_iter();
    let known = targets.filter_map(|target| Some((context.clusters.get(&target.name)?, target)));
    let clusters: BTreeMap<_, _> = known.map(|(cluster, target)| (ClusterName::from(&target.name), cluster)).collect();
    let overrides = overrides_for(context, Template(&tree));
    let rendered = context.interpreting.decide(|interpreter| {
        let state_injection = context.settings.gates.stateful_failover;
        let inputs = Inputs { interpreter, clusters: &clusters, overrides: &overrides, state_injection };
        works::render(binding, Template(&tree), inputs)
    });
    let rendered = work_writes::without_late(context, &clusters, rendered.await);
    for error in rendered.iter().filter_map(|rendered| rendered.as_ref().err()) {
        if let Some(cluster) = error.uncorrected() {
            failures.insert(cluster.clone(), error.to_string());
        }
        if let works::Error::Override(error) = error {
            record_override_failure(context, binding, template, &overrides, error);
        }
    }
    let mut errors = Vec::new();
    let (mut works, mut applied) = (Vec::with_capacity(rendered.len()), Vec::with_capacity(rendered.len()));
    for work in rendered {
        let own = |rendered| own(context, binding, rendered, failures);
        match work.map_err(|error| error.to_string()).and_then(own) {
            Ok(rendered) => {
                works.push(rendered.work);
                applied.push((rendered.cluster, rendered.applied));
            }
            Err(error) => errors.push(error),
        }
    }
    let keyed = applied.iter().zip(&works);
    let keyed = keyed.map(|((cluster, _), work)| (WorkKey::new(cluster, &work.metadata.name), work));
    let (new, dispatched) = keyed.fold((Vec::new(), Vec::new()), |(mut new, mut dispatched), (key, work)| {
        new.extend(context.written_works.get(&key).is_none().then(|| key.clone()));
        dispatched.extend((work.spec.suspend_dispatching != Some(true)).then_some(key));
        (new, dispatched)
    });
    new.iter().for_each(|key| obsolete.creating(key.clone(), origin(binding)));
    let written = work_writes::write_all(context, works).await;
    new.iter().for_each(|key| note_created(context, obsolete, key));
    let (mut wrote, mut conflicts) = (false, 0);
    for ((cluster, applied), written) in applied.iter().zip(written) {
        match written {
            Ok(true) => {
                wrote = true;
                record_overrides(context, template, cluster, applied);
            }
            Ok(false) => {}
            Err(error) => {
                if error.is_refusal() {
                    failures.insert(cluster.clone(), error.to_string());
                }
                conflicts += usize::from(error.is_conflict());
                errors.push(error.to_string());
            }
        }
    }
    match conflicts > 0 && conflicts == errors.len() {
        true => Err(Error::Outdated(errors)),
        false => all(errors).map(|()| (wrote, dispatched)),
    }
}

/// After the creation of a Work. The cache may have the Work before the response arrives.
fn note_created(context: &Context, obsolete: &ObsoleteWorks, key: &WorkKey) {
    let work = context.written_works.get(key).filter(|_| !context.written_works.is_unsure(key));
    obsolete.created(key, work.as_ref().map(|work| work.uid()));
    let cached = |key: &BindingKey| context.bindings(key.scope()).cache().get(key);
    if let Some(work) = context.works.cache().get(key)
        && let Some(binding) = obsolete.arrived(&work, cached)
        && let Some(queue) = context.rendering.get()
    {
        queue.add(binding);
    }
}

fn origin(binding: &Binding) -> Origin {
    let generation = binding.metadata.generation;
    Origin { binding: binding.key(), id: binding.permanent_id().to_owned(), generation }
}

/// The source component of events about overrides.
const OVERRIDES: &str = "override-manager";

/// Events about an override that cannot be applied: upstream's on the template, and with the cause on the binding and on the
/// policy, which is where it has to be corrected.
fn record_override_failure(
    context: &Context,
    binding: &Binding,
    template: &Object,
    policies: &[Override],
    error: &overrides::Error,
) {
    let recorder = context.recorder.for_component(OVERRIDES);
    recorder.warning(template, events::APPLY_OVERRIDE_POLICY_FAILED, error.attempt());
    let about = |resource: ApiResource, metadata: &ObjectMeta| Involved {
        api_version: resource.api_version(),
        kind: resource.kind,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
    };
    let of_binding = about(Binding::api_resource(binding.scope), &binding.metadata);
    recorder.warning(of_binding, events::APPLY_OVERRIDE_POLICY_FAILED, error.to_string());
    let broken = policies.iter().find(|policy| policy.scope == error.scope && policy.key() == error.policy);
    if let Some(policy) = broken {
        let of_policy = about(Override::api_resource(policy.scope), &policy.metadata);
        let what = format!("{} {}", binding.spec.resource.kind, template.key());
        recorder.warning(of_policy, events::APPLY_OVERRIDE_POLICY_FAILED, format!("{what}: {error}"));
    }
}

/// One event for each rule that went into a Work just written.
fn record_overrides(context: &Context, template: &Object, cluster: &str, applied: &AppliedOverrides) {
    let recorder = context.recorder.for_component(OVERRIDES);
    for (scope, rules) in applied {
        for rule in rules {
            let policy = match scope {
                Scope::Cluster => ObjectKey::cluster(rule.policy_name.as_str()),
                Scope::Namespaced => {
                    ObjectKey::namespaced(template.namespace().unwrap_or_default(), rule.policy_name.as_str())
                }
            };
            let message = format!("{} succeed.", overrides::attempt(*scope, &policy, cluster));
            recorder.normal(template, events::APPLY_OVERRIDE_POLICY_SUCCEED, message);
        }
    }
}

/// The override policies that can concern a template at all. A cluster policy may change labels that policies of the
/// namespace select by, so with one of those all of these count.
pub(crate) fn overrides_for(context: &Context, template: Template<'_>) -> Vec<Override> {
    let mut chosen = context.overrides.of(None);
    chosen.retain(|policy| overrides::concerns(policy, template));
    let relabelled = !chosen.is_empty();
    if !template.namespace().is_empty() {
        let namespaced = context.overrides.of(Some(template.namespace()));
        chosen.extend(namespaced.into_iter().filter(|policy| relabelled || overrides::concerns(policy, template)));
    }
    chosen.iter().map(|policy| (**policy).clone()).collect()
}
