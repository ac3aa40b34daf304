//! The dependencies distributor: propagates the dependencies of templates with them. `propagation::dependencies`
//! decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;

use apimachinery::object::Labels;
use apimachinery::selector::Selector;
use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey, raw_json};
use client::{ListOptions, Patch, PatchOptions};
use controller_runtime::{Controller, Event, Next, Overlay, Priority, WorkQueue, run_workers};
use interpreter::Operation;
use karmada_api::config::v1alpha1::DependentObjectReference;
use karmada_api::constants::{annotations, events, finalizers};
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::ObjectReference;
use parking_lot::Mutex;
use propagation::dependencies::{self, attach, attached, depended_by_label, detach, means, recorded, settle};
use propagation::template::Template;
use serde_json::{Value, json};

use crate::detector::is_change;
use crate::error::{During, Error, Result, all, decoded};
use crate::{Context, templates};

/// Independent bindings by the objects they need: `apiVersion/kind/namespace`, then `/name`, or `/` for selectors.
const BY_DEPENDENCY: &str = "dependency";
/// Attached bindings by the labels that name the independent ones.
const BY_DEPENDENT: &str = "depended-by";

struct Distributor {
    context: Context,
    queue: Arc<WorkQueue<BindingKey>>,
    /// Kinds that were ever dependencies.
    followed: Mutex<BTreeSet<ApiResource>>,
    /// Bindings as they were written here.
    written: Overlay,
    /// The last reported disagreement among the parents of an attached binding; no more entries than conflicts.
    conflicts: Mutex<HashMap<BindingKey, String>>,
}

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.propagate_deps {
        return;
    }
    let queue = context.queue();
    let bindings = context.bindings(Scope::Namespaced);
    bindings.cache().add_index(BY_DEPENDENCY, |object| {
        // Most bindings have no dependencies, and this runs for every change of every binding.
        if object.annotation(annotations::DEPENDENCIES).is_none() {
            return Vec::new();
        }
        let references = Binding::decode(object).ok().and_then(|binding| recorded(&binding).ok()).unwrap_or_default();
        references.iter().map(|it| place(&it.api_version, &it.kind, &it.namespace, &it.name)).collect()
    });
    bindings.cache().add_index(BY_DEPENDENT, |object| {
        let prefix = karmada_api::constants::labels::DEPENDED_BY_PREFIX;
        let labels = object.labels();
        labels.iter().map(|(label, _)| label).filter(|label| label.starts_with(prefix)).map(str::to_owned).collect()
    });
    let written = Overlay::following(&bindings);
    let keys = queue.clone();
    bindings.subscribe(move |event| {
        if let Event::Deleted(object) = event
            && let Ok(attached) = Binding::decode(object)
        {
            // Those that require it bring it back, if its object is still there.
            let required = attached.spec.required_by.iter().filter(|it| it.name != object.name());
            for it in required {
                keys.add(BindingKey::namespaced(it.namespace.as_str(), it.name.as_str()));
            }
        }
        let (concerned, priority) = match event {
            Event::Added { object, initial } => {
                // A restart may have interrupted a removal.
                let left = has_finalizer(object) && (object.is_deleting() || propagation(object).is_none());
                let low = if *initial { Priority::Low } else { Priority::Normal };
                (left || propagation(object) == Some(true), low)
            }
            Event::Updated { old, new } => {
                let concerns = || propagation(old).is_some() || propagation(new).is_some() || has_finalizer(new);
                (event.changes_generation() && concerns(), Priority::Normal)
            }
            Event::Deleted(_) => (false, Priority::Normal),
        };
        if concerned {
            keys.add_with(BindingKey::of(event.object()), priority);
        }
    });
    if !context.synced().await {
        return;
    }
    let (stop, workers) = (context.stop.clone(), context.settings.workers);
    let distributor = Arc::new(Distributor {
        context,
        queue: queue.clone(),
        followed: Mutex::default(),
        written,
        conflicts: Mutex::default(),
    });
    run_workers(Controller::of_bindings("dependencies-distributor"), queue, workers, stop, move |key| {
        let distributor = distributor.clone();
        async move { distributor.reconcile(&key).await }
    })
    .await;
}

/// Whether the binding propagates its dependencies (`None`: no), and whether it is scheduled. Read from the encoded
/// object, because this runs for every change of every binding.
fn propagation(binding: &Object) -> Option<bool> {
    let spec = binding.member("spec")?;
    let value = |name| raw_json::member(&spec, name).map(|span| &spec[span]);
    (value("propagateDeps")? == b"true").then(|| value("clusters").is_some_and(|list| list != b"null" && list != b"[]"))
}

fn has_finalizer(binding: &Object) -> bool {
    binding.finalizers().iter().any(|it| **it == *finalizers::DEPENDENCIES)
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{api_version}/{kind}/{namespace}/{name}")
}

impl Distributor {
    async fn reconcile(self: &Arc<Self>, key: &BindingKey) -> Result<Next> {
        let bindings = self.context.bindings(Scope::Namespaced);
        if bindings.cache().get(key).is_none() {
            return Ok(Next::Done);
        }
        let Some(object) = self.written.get(key) else { return Ok(Next::Done) };
        let independent = Binding::decode(&object)?;
        if !independent.spec.propagate_deps || object.is_deleting() {
            self.detach_all(&independent, |_| true).await?;
            self.remove_finalizer(&independent).await?;
            return Ok(Next::Done);
        }
        let resource = &independent.spec.resource;
        let Some(template) = templates::referenced(&self.context, &independent).await? else {
            return Err(Error::Wait(format!(
                "{} {}/{} does not exist",
                resource.kind, resource.namespace, resource.name
            )));
        };
        let tree = decoded(&template, template.to_tree())?;
        let recorder = self.context.recorder.for_component("dependencies-distributor");
        let decision = self.context.interpreting.decide(|interpreter| {
            let known = interpreter.enabled_for(&tree, Operation::InterpretDependency);
            known.then(|| interpreter.get_dependencies(&tree))
        });
        let found = match decision.await {
            None => return Ok(Next::Done),
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                recorder.warning(&*template, events::GET_DEPENDENCIES_FAILED, error.to_string());
                return Err(error.into());
            }
        };
        let text = dependencies::annotation(found.clone());
        recorder.normal(&*template, events::GET_DEPENDENCIES_SUCCEED, format!("Get dependencies({text}) succeed."));
        self.record(&independent, text).await?;
        match self.distribute(&independent, &found).await {
            Ok(()) => {
                let message = "Sync schedule results to dependencies succeed.";
                recorder.normal(&*object, events::SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED, message);
                Ok(Next::Done)
            }
            Err(error) => {
                recorder.warning(&*object, events::SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED, error.to_string());
                Err(error)
            }
        }
    }

    /// The finalizer and the list of dependencies onto the independent binding, in one write.
    async fn record(&self, independent: &Binding, text: String) -> Result<()> {
        let metadata = &independent.metadata;
        let has_finalizer = metadata.finalizers.iter().any(|it| it == finalizers::DEPENDENCIES);
        if has_finalizer && metadata.annotations.get(annotations::DEPENDENCIES) == Some(&text) {
            return Ok(());
        }
        let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(String::as_str).collect();
        if !has_finalizer {
            finalizers.push(finalizers::DEPENDENCIES);
        }
        self.edit(independent, json!({"finalizers": finalizers, "annotations": {annotations::DEPENDENCIES: text}}))
            .await
    }

    async fn remove_finalizer(&self, independent: &Binding) -> Result<()> {
        let finalizers = &independent.metadata.finalizers;
        if !finalizers.iter().any(|it| it == finalizers::DEPENDENCIES) {
            return Ok(());
        }
        let left: Vec<_> = finalizers.iter().filter(|it| *it != finalizers::DEPENDENCIES).collect();
        self.edit(independent, json!({"finalizers": left})).await
    }

    async fn edit(&self, independent: &Binding, mut metadata: Value) -> Result<()> {
        metadata["resourceVersion"] = json!(independent.metadata.resource_version);
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let (resource, key) = (Binding::api_resource(Scope::Namespaced), independent.key());
        let options = PatchOptions::default();
        match self.written.write(&key, self.context.client.patch(&resource, &key, &patch, &options)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error).during(|| format!("writing the dependencies of ResourceBinding {key}")),
        }
    }

    async fn distribute(self: &Arc<Self>, independent: &Binding, found: &[DependentObjectReference]) -> Result<()> {
        let mut errors = Vec::new();
        let mut orphans = BTreeSet::new();
        for binding in self.attached_to(independent)? {
            let resource = &binding.spec.resource;
            let template = templates::referenced(&self.context, &binding).await?;
            let labels: Option<BTreeMap<String, String>> = template.map(|it| owned(it.labels()));
            if !found.iter().any(|reference| means(reference, resource, labels.as_ref())) {
                orphans.insert(binding.key());
            }
        }
        errors.extend(self.detach_all(independent, |key| orphans.contains(key)).await.err());
        for reference in found {
            errors.extend(self.follow(independent, reference).await.err());
        }
        all(errors.into_iter().map(|error| error.to_string()).collect())
    }

    /// Brings the objects that one reference means to where the independent binding is.
    async fn follow(self: &Arc<Self>, independent: &Binding, reference: &DependentObjectReference) -> Result<()> {
        let gvk = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind)
            .map_err(|error| Error::Wait(error.to_string()))?;
        let resource = self.context.mapper.resource(&gvk).await?;
        if !resource.namespaced {
            return Err(Error::Wait(format!("{} {} is not namespaced", reference.kind, reference.name)));
        }
        self.watch(&resource);
        let mut objects = Vec::new();
        if reference.name.is_empty() {
            objects = self.selected(&resource, reference).await?;
        } else {
            let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
            objects.extend(templates::fetch(&self.context, &resource, &key).await?);
        }
        for object in objects.into_iter().filter(|object| !object.is_deleting()) {
            let tree = decoded(&object, object.to_tree())?;
            let is_there = || self.is_there(&resource, &object);
            self.write(attached(independent, Template(&tree)), independent, is_there).await?;
        }
        Ok(())
    }

    async fn selected(&self, resource: &ApiResource, reference: &DependentObjectReference) -> Result<Vec<Arc<Object>>> {
        let Some(selector) = &reference.label_selector else { return Ok(Vec::new()) };
        let selector = Selector::from_label_selector(selector).map_err(|error| Error::Wait(error.to_string()))?;
        let namespace = Some(reference.namespace.as_str());
        let informer = self.context.control.informer(resource);
        let mut objects = informer.cache().list(namespace);
        if objects.is_empty() {
            let listed = self.context.client.list(resource, namespace, &ListOptions::default()).await;
            objects = listed.during(|| format!("listing {} of {}", resource.plural, reference.namespace))?.items;
        }
        objects.retain(|object| selector.matches_with(|key| object.label(key)));
        Ok(objects)
    }

    /// Whether the server also has a cached object. A cache that is behind has deleted objects: their bindings would be
    /// garbage collected, and recreated here, repeatedly.
    async fn is_there(&self, resource: &ApiResource, object: &Object) -> Result<bool> {
        Ok(self.context.live(resource, object).await?.is_some_and(|live| !live.is_deleting()))
    }

    /// Creates an attached binding, if its object `is_there`, or brings the existing one up to it.
    async fn write<F: Future<Output = Result<bool>>>(
        &self,
        built: Binding,
        independent: &Binding,
        is_there: impl FnOnce() -> F,
    ) -> Result<()> {
        let resource = Binding::api_resource(Scope::Namespaced);
        let key = built.key();
        let writing = || format!("writing ResourceBinding {key} of a dependency");
        let existing = match self.written.get(&key) {
            Some(existing) => existing,
            None if !is_there().await? => return Ok(()),
            None => match self.written.write(&key, self.context.client.create(&resource, &built)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_already_exists() => {
                    self.context.client.get(&resource, &key).await.during(writing)?
                }
                Err(error) => return Err(error).during(writing),
            },
        };
        let existing = Binding::decode(&existing)?;
        let mut merged = attach(&existing, built).map_err(|error| Error::Wait(error.to_string()))?;
        let conflict = self.settled(&mut merged, Some(independent)).await?;
        let changed = merged != existing;
        if changed {
            self.update(&merged).await?;
        }
        self.report_conflict(&key, conflict, changed);
        Ok(())
    }

    /// Another disagreement is reported even if its result is the same, which leaves the binding unchanged.
    fn report_conflict(&self, attached: &BindingKey, conflict: Option<String>, changed: bool) {
        let Some(conflict) = conflict else {
            self.conflicts.lock().remove(attached);
            return;
        };
        let bindings = self.context.bindings(Scope::Namespaced);
        let mut conflicts = self.conflicts.lock();
        let reported = conflicts.insert(attached.clone(), conflict.clone());
        if reported.is_none() {
            conflicts.retain(|key, _| bindings.cache().get(key).is_some());
        }
        drop(conflicts);
        if !changed && reported.as_ref() == Some(&conflict) {
            return;
        }
        let recorder = self.context.recorder.for_component("dependencies-distributor");
        if let Some(object) = bindings.cache().get(attached) {
            recorder.warning(&*object, events::DEPENDENCY_POLICY_CONFLICT, conflict);
        }
    }

    /// Decides the policy of an attached binding by those that require it; `known` is newer than the cache. One that was
    /// deleted without its finalizer requires it no longer.
    async fn settled(&self, binding: &mut Binding, known: Option<&Binding>) -> Result<Option<String>> {
        if binding.spec.placement.is_some() {
            return Ok(None);
        }
        let mut referrers = Vec::new();
        for snapshot in binding.spec.required_by.clone() {
            let key = BindingKey::namespaced(snapshot.namespace, snapshot.name);
            match known.filter(|known| known.key() == key) {
                Some(known) => referrers.push(known.clone()),
                None => match templates::fetch(&self.context, &key.resource(), &key).await? {
                    Some(object) => referrers.push(Binding::decode(&object)?),
                    None => *binding = detach(binding, &key),
                },
            }
        }
        Ok(settle(binding, &referrers.iter().collect::<Vec<_>>()))
    }

    async fn update(&self, binding: &Binding) -> Result<()> {
        let resource = Binding::api_resource(Scope::Namespaced);
        let key = binding.key();
        let updated = self.written.write(&key, self.context.client.update(&resource, binding)).await;
        updated.map(drop).during(|| format!("writing ResourceBinding {key} of a dependency"))
    }

    /// The attached bindings that name the independent one.
    fn attached_to(&self, independent: &Binding) -> Result<Vec<Binding>> {
        let label = depended_by_label(&independent.key());
        let cache = self.context.bindings(Scope::Namespaced);
        let found = cache.cache().by_index(BY_DEPENDENT, &label);
        let found = self.written.over(found, |object| object.label(&label).is_some());
        let here =
            found.into_iter().filter(|object| object.namespace() == Some(independent.metadata.namespace.as_str()));
        here.map(|object| Ok(Binding::decode(&object)?)).collect()
    }

    /// Takes the independent binding off the attached ones that `is_selected` selects.
    async fn detach_all(&self, independent: &Binding, is_selected: impl Fn(&BindingKey) -> bool) -> Result<()> {
        let mut errors = Vec::new();
        for existing in self.attached_to(independent)?.into_iter().filter(|binding| is_selected(&binding.key())) {
            let mut left = detach(&existing, &independent.key());
            let detached = match self.settled(&mut left, None).await {
                Ok(conflict) => match self.update(&left).await {
                    Ok(()) if conflict.is_none() => {
                        self.conflicts.lock().remove(&existing.key());
                        Ok(())
                    }
                    Err(Error::Api { source, .. }) if source.is_not_found() => Ok(()),
                    other => other,
                },
                Err(error) => Err(error),
            };
            errors.extend(detached.err().map(|error| error.to_string()));
        }
        all(errors)
    }

    /// Follows the objects of a kind from the first time it is a dependency.
    fn watch(self: &Arc<Self>, resource: &ApiResource) {
        if !self.followed.lock().insert(resource.clone()) {
            return;
        }
        let (weak, kind) = (Arc::downgrade(self), resource.clone());
        // A kind may be removed and return.
        self.context.control.follow(resource, move |event| {
            let Some(distributor) = weak.upgrade() else { return };
            match event {
                Event::Added { object, initial } => {
                    distributor.enqueue(&kind, object, if *initial { Priority::Low } else { Priority::Normal });
                }
                Event::Deleted(object) => distributor.enqueue(&kind, object, Priority::Normal),
                Event::Updated { old, new } if is_change(old, new) => {
                    if old.labels() != new.labels() {
                        distributor.enqueue(&kind, old, Priority::Normal);
                    }
                    distributor.enqueue(&kind, new, Priority::Normal);
                }
                Event::Updated { .. } => {}
            }
        });
    }

    /// Queues the independent bindings that need an object.
    fn enqueue(&self, resource: &ApiResource, object: &Object, priority: Priority) {
        let namespace = object.namespace().unwrap_or_default();
        let meant = ObjectReference {
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            namespace: namespace.to_owned(),
            name: object.name().to_owned(),
            ..ObjectReference::default()
        };
        let labels = owned(object.labels());
        let cache = self.context.bindings(Scope::Namespaced);
        for name in [object.name(), ""] {
            let place = place(&meant.api_version, &meant.kind, namespace, name);
            for object in cache.cache().by_index(BY_DEPENDENCY, &place) {
                let Ok(binding) = Binding::decode(&object) else { continue };
                let references = recorded(&binding).unwrap_or_default();
                if references.iter().any(|reference| means(reference, &meant, Some(&labels))) {
                    self.queue.add_with(binding.key(), priority);
                }
            }
        }
    }
}

fn owned(labels: Labels<'_>) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
