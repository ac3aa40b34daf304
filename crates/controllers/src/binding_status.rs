//! The state of the Works back into their binding, and from there into the template.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::Condition;
use apimachinery::{ApiResource, Object, ObjectKey, merge_patch, raw_json};
use client::{Patch, PatchOptions, Write};
use controller_runtime::{
    Acknowledged, Controller, Event, EventRecorder, Informer, Next, Origin, Overlay, Priority, run_workers,
};
use karmada_api::constants::{conditions, events};
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::{AggregatedStatusItem, ResourceBindingStatus};
use parking_lot::Mutex;
use propagation::aggregation::{self, Recent};
use propagation::contest;
use propagation::status::{self, Contribution, Standing};
use serde_json::json;

use crate::absence::certain;
use crate::context::BindingOverlays;
use crate::error::{During, Error, Result, decoded};
use crate::execution::SECOND_LOOK;
use crate::ownership::BY_ID;
use crate::{Context, execution, ownership, reinterpreting, templates};

/// The state of the controller besides the caches.
struct Reporting {
    /// The statuses it wrote.
    written: BindingOverlays,
    recent: Mutex<Recent>,
}

/// Whether the members' reports differ in the new state of a binding. The scheduler writes to the same status.
fn changes_report(event: &Event) -> bool {
    let report = |object: &Object| {
        let status = object.member("status")?;
        raw_json::member(&status, "aggregatedStatus").map(|span| status.slice(span))
    };
    matches!(event, Event::Updated { old, new } if report(old) != report(new))
}

pub(crate) async fn run(context: Context) {
    let queue = context.queue();
    context.unrendered.report_to(queue.clone());
    let reporting = Arc::new(Reporting { written: context.binding_overlays(), recent: Mutex::default() });
    for scope in Scope::ALL {
        let informer = context.bindings(scope);
        let label = scope.binding_id_label();
        let (keys, statuses) = (queue.clone(), reporting.written.of(scope).clone());
        let (works, settling) = (context.works.clone(), context.clone());
        informer.subscribe(move |event| {
            let (key, changed) = (|| BindingKey::of(event.object()), changes_report(event));
            let of_another = statuses.observe(event, changed) == Origin::Other && changed;
            match event {
                Event::Added { initial: true, .. } => keys.add_with(key(), Priority::Low),
                // A new binding has no Works, so there is nothing to report.
                Event::Added { object, .. } if !has_works(&works, label, object) => {}
                Event::Deleted(_) => {}
                _ if event.changes_generation() => keys.add_after(key(), settling.settle()),
                _ if of_another => keys.add_after(key(), SECOND_LOOK),
                _ => {}
            }
        });
    }
    let (keys, bindings) = (queue.clone(), Scope::ALL.map(|scope| (scope, context.bindings(scope))));
    let settling = context.clone();
    context.works.subscribe(move |event| {
        // A new Work has no status until it is applied or blocked.
        let settle = match event {
            // The initial list enqueues its binding in any case.
            Event::Added { initial: true, .. } => return,
            Event::Added { object, .. } if !has_status(object) => FIRST_REPORT,
            _ => settling.settle(),
        };
        for (scope, bindings) in &bindings {
            let Some(id) = event.object().label(scope.binding_id_label()) else { continue };
            let pause = pause(settle, settling.works.cache().count(scope.binding_id_label(), id));
            for binding in bindings.cache().by_index(BY_ID, id) {
                keys.add_after(BindingKey::of(&binding), pause);
            }
        }
    });
    if !context.synced().await {
        return;
    }
    let (changing, keys) = (context.clone(), queue.clone());
    tokio::spawn(async move {
        let bindings = || Scope::ALL.map(|scope| changing.bindings(scope).cache().list(None)).concat();
        reinterpreting::run(&changing, bindings, reinterpreting::concern_binding, |binding, delay| {
            keys.add_after(BindingKey::of(binding), delay);
        })
        .await;
    });
    let (stop, workers) = (context.stop.clone(), context.settings.workers);
    run_workers(Controller::of_bindings(component(Scope::Namespaced)), queue, workers, stop, move |key| {
        let (context, reporting) = (context.clone(), reporting.clone());
        async move { reconcile(&context, &reporting, &key).await }
    })
    .await;
}

/// The source of events.
fn component(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "resource-binding-status-controller",
        Scope::Cluster => "cluster-resource-binding-status-controller",
    }
}

fn has_works(works: &Informer, label: &str, binding: &Object) -> bool {
    binding.label(label).is_some_and(|id| !works.cache().by_index(label, id).is_empty())
}

/// Whether the status contains reports of Works.
fn has_report(status: &ResourceBindingStatus) -> bool {
    let tells = |condition: &Condition| condition.type_ == conditions::FULLY_APPLIED;
    !status.aggregated_status.is_empty() || status.conditions.iter().any(tells)
}

fn has_status(work: &Object) -> bool {
    work.member("status").is_some()
}

async fn reconcile(context: &Context, reporting: &Reporting, key: &BindingKey) -> Result<Next> {
    let scope = key.scope();
    let (statuses, recent) = (reporting.written.of(scope), &reporting.recent);
    let Some(newest) = statuses.get(key) else {
        recent.lock().forget(key);
        return Ok(Next::Done);
    };
    let unsure = statuses.is_unsure(key);
    let object = if unsure {
        match certain(&context.client, &Binding::api_resource(scope), key).await? {
            Some(live) => live,
            None => return Ok(Next::Done),
        }
    } else {
        newest
    };
    if object.is_deleting() {
        return Ok(Next::Done);
    }
    let binding = Binding::decode(&object)?;
    let works = ownership::works_of(context, &binding);
    // A binding without Works has no status to aggregate, unless rendering them is blocked.
    let Some(unrendered) = context.unrendered.of(key) else { return Ok(Next::Done) };
    let is_new = binding.status.last_scheduled_time.is_none() && !has_report(&binding.status);
    if works.is_empty() && unrendered.is_empty() && is_new {
        return Ok(Next::Done);
    }
    let recorder = context.recorder.for_component(component(scope));
    let failed = |error: &Error| {
        // A conflict is expected: the next pass reads the newer state.
        if !error.is_conflict() {
            recorder.warning(&*object, events::AGGREGATE_STATUS_FAILED, error.to_string());
        }
    };
    let mut known = recent.lock().take(key);
    let contributions = known.update(&binding.spec.resource, &works);
    recent.lock().keep(key, known);
    let contributions = contributions.map_err(|error| Error::Wait(error.to_string())).inspect_err(failed)?;
    if let Some(wait) = too_early(context, &binding, &contributions).filter(|_| unrendered.is_empty()) {
        return Ok(Next::After(wait));
    }
    let mut items = aggregation::items(&contributions);
    status::mark_unrendered(&mut items, &unrendered);
    let mut wanted = binding.status.clone();
    let condition = status::fully_applied(&binding.spec, &aggregation::standings(&contributions), &unrendered);
    status::set_condition(&mut wanted.conditions, condition, context.now());
    let contested = contest::of_binding(contributions.iter().filter_map(|it| it.contested.as_deref()));
    match &contested {
        Some(condition) => drop(status::set_condition(&mut wanted.conditions, condition.clone(), context.now())),
        None => wanted.conditions.retain(|it| it.type_ != contest::CONDITION),
    }
    if let Some(condition) = contested.filter(|it| contest::message_of(&binding.status.conditions) != Some(&it.message))
    {
        recorder.warning(&*object, contest::REASON, condition.message);
    }
    wanted.aggregated_status = items;
    let change = (wanted != binding.status).then(|| {
        // The scheduler writes conditions of the same list: only onto the version that was read.
        Patch::Merge(
            json!({"metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()}, "status": {
                "aggregatedStatus": wanted.aggregated_status, "conditions": wanted.conditions,
            }}),
        )
    });
    let folded = folded(context, &recorder, &binding, &wanted.aggregated_status).await;
    let report = Report { context, statuses, binding: &object, scope, recorder: &recorder };
    if let (Some(change), Ok(Some(fold))) = (&change, &folded)
        && let Some(overwritten) = report.write_both(change, fold).await.inspect_err(failed)?
    {
        return Ok(if overwritten { Next::After(SECOND_LOOK) } else { Next::Done });
    }
    let mut overwritten = false;
    if let Some(change) = change {
        match report.write(change).await.inspect_err(failed)? {
            Some(written) => overwritten = written.overwritten,
            None => return Ok(Next::Done),
        }
    } else {
        report.unchanged(unsure);
    }
    if let Some(fold) = folded? {
        fold.write(context, &recorder).await?;
    }
    Ok(if overwritten { Next::After(SECOND_LOOK) } else { Next::Done })
}

/// The report of the members into one binding.
struct Report<'a> {
    context: &'a Context,
    statuses: &'a Overlay,
    /// As it was read.
    binding: &'a Object,
    scope: Scope,
    recorder: &'a EventRecorder,
}

impl Report<'_> {
    /// Writes the status of the binding; `None` if the binding was deleted.
    async fn write(&self, change: Patch) -> Result<Option<Acknowledged>> {
        let (resource, key, options) = (Binding::api_resource(self.scope), self.binding.key(), PatchOptions::status());
        let request = self.context.client.patch_draft(&resource, &key, change, &options);
        match self.statuses.write(&key, request).await {
            Ok(updated) => {
                self.tell_written();
                Ok(Some(updated))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error).during(|| format!("writing the status of {} {key}", resource.kind)),
        }
    }

    /// The status is as it should be. `unsure`: the overlay did not know whether it was written.
    fn unchanged(&self, unsure: bool) {
        if unsure {
            self.statuses.confirm(&self.binding.key());
        }
        self.recorder.succeeded(self.binding, events::AGGREGATE_STATUS_SUCCEED, false, || self.message());
    }

    /// Writes the status of the binding and that of the template in one transaction. Returns whether that of the
    /// binding was overwritten since; `None` if nothing was written, and the caller writes one after the other.
    async fn write_both(&self, change: &Patch, fold: &Fold) -> Result<Option<bool>> {
        let (resource, key) = (Binding::api_resource(self.scope), self.binding.key());
        let status = |resource, key, patch: &Patch| Write::Patch {
            resource,
            key,
            patch: patch.clone(),
            options: PatchOptions::status(),
        };
        let writes = vec![status(&resource, &key, change), status(&fold.resource, &fold.key, &fold.change)];
        let places = [(Some(self.statuses), &key), (None, &fold.key)];
        let written = Overlay::write_together(&places, self.context.client.write_together(writes)).await;
        let written = written.during(|| {
            format!("writing the status of {} {key} and of {} {}", resource.kind, fold.resource.kind, fold.key)
        })?;
        let Some(written) = written else { return Ok(None) };
        self.tell_written();
        fold.tell_written(self.recorder);
        Ok(Some(written.first().is_some_and(|binding| binding.overwritten)))
    }

    fn message(&self) -> String {
        format!("Update {}({}) with AggregatedStatus successfully.", Binding::kind(self.scope), self.binding.key())
    }

    fn tell_written(&self) {
        self.recorder.normal(self.binding, events::AGGREGATE_STATUS_SUCCEED, self.message());
    }
}

/// Right after scheduling the Works have nothing to report; the last one to be applied enqueues the binding at once.
/// During large rollouts, late Works delay the report of the others for this long.
const FIRST_REPORT: Duration = Duration::from_secs(5);

/// A member that needs longer than this for one Work does not delay the reports of the others.
const SLOW: Duration = Duration::from_secs(1);

fn too_early(context: &Context, binding: &Binding, works: &[Arc<Contribution>]) -> Option<Duration> {
    if !binding.status.aggregated_status.is_empty() {
        return None;
    }
    let since = binding.status.last_scheduled_time?.timestamp().as_second();
    // The scheduler's clock may be ahead, or the clock was set back.
    let passed = Duration::from_secs(context.now().timestamp().as_second().abs_diff(since));
    let mut late = works.iter().filter(|work| is_awaited(context, work)).peekable();
    late.peek()?;
    // The time of scheduling is in whole seconds.
    if passed < 2 * SLOW {
        return Some(SLOW);
    }
    let moves = late.any(|work| execution::longest_pass(context, &work.work) < SLOW);
    (moves && passed < FIRST_REPORT).then(|| FIRST_REPORT - passed)
}

/// Whether a Work without any attempt is about to be applied: dispatching is not suspended, and its cluster is ready.
fn is_awaited(context: &Context, work: &Contribution) -> bool {
    let cluster = context.clusters.get(&work.item.cluster_name);
    work.standing == Standing::InFlight && cluster.is_some_and(|cluster| cluster.is_ready())
}

/// The items of one binding's status that are computed, compared and written in a second at most: 500.
const PER_WORK: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long changes of a binding's Works are collected. A binding in many clusters is aggregated less often, so that
/// the cost of a rollout is linear in its clusters instead of quadratic.
fn pause(settle: Duration, works: usize) -> Duration {
    let share = PER_WORK.saturating_mul(u32::try_from(works).unwrap_or(u32::MAX));
    settle.max(share.min(LONGEST_PAUSE))
}

/// The status of a template derived from the members' reports.
struct Fold {
    resource: ApiResource,
    key: ObjectKey,
    template: Arc<Object>,
    /// The differences to the version that was read.
    change: Patch,
}

/// The message of the event.
const FOLDED: &str = "Update Resource with AggregatedStatus successfully.";

/// The change of the template, if any.
async fn folded(
    context: &Context,
    recorder: &EventRecorder,
    binding: &Binding,
    items: &[AggregatedStatusItem],
) -> Result<Option<Fold>> {
    let Some((resource, key)) = templates::own(context, binding).await? else { return Ok(None) };
    let Some(template) = templates::fetch(context, &resource, &key).await? else { return Ok(None) };
    let tree = decoded(&template, template.to_tree())?;
    let now = context.now();
    let decision = context.interpreting.decide(|interpreter| status::template_status(&tree, items, interpreter, now));
    let updated = match decision.await {
        Ok(Some(updated)) => updated,
        Ok(None) => {
            recorder.succeeded(&*template, events::AGGREGATE_STATUS_SUCCEED, false, || FOLDED.to_owned());
            return Ok(None);
        }
        Err(error) => {
            recorder.warning(&*template, events::AGGREGATE_STATUS_FAILED, error.to_string());
            return Err(error.into());
        }
    };
    // Only the difference, based on the version that was read. A merge patch cannot set null, which a status does not
    // need.
    let change = merge_patch::diff(&tree["status"], &updated["status"]).unwrap_or_default();
    let version = json!({"resourceVersion": template.resource_version(), "uid": template.uid()});
    let change = Patch::Merge(json!({"metadata": version, "status": change}));
    Ok(Some(Fold { resource, key, template, change }))
}

impl Fold {
    async fn write(&self, context: &Context, recorder: &EventRecorder) -> Result<()> {
        match context.client.patch(&self.resource, &self.key, &self.change, &PatchOptions::status()).await {
            Ok(_) => {
                self.tell_written(recorder);
                Ok(())
            }
            // The template was deleted, or its kind has no writable status.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                if !error.is_conflict() {
                    recorder.warning(&*self.template, events::AGGREGATE_STATUS_FAILED, error.to_string());
                }
                Err(error).during(|| format!("writing the status of {} {}", self.resource.kind, self.key))
            }
        }
    }

    fn tell_written(&self, recorder: &EventRecorder) {
        recorder.normal(&*self.template, events::AGGREGATE_STATUS_SUCCEED, FOLDED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_works() {
        let settle = Duration::from_millis(100);
        for (works, milliseconds) in [(0, 100), (2, 100), (50, 100), (100, 200), (1_000, 2_000), (5_000, 5_000)] {
            assert_eq!(pause(settle, works), Duration::from_millis(milliseconds), "{works}");
        }
        assert_eq!(pause(FIRST_REPORT, 100), FIRST_REPORT);
        // 100 Works that change one after another, 10 ms apart: passes times items, and without the pause their square.
        let (rollout, works) = (Duration::from_millis(1_000), 100);
        let passes = rollout.as_millis() / pause(settle, works).as_millis();
        assert!(passes * 100 <= 500, "{passes} passes");
    }

    #[test]
    fn only_changes_of_the_aggregated_status_count() {
        let object =
            |status: &str| Arc::new(Object::parse(format!(r#"{{"metadata":{{"name":"b"}}{status}}}"#)).unwrap());
        let one = r#","status":{"aggregatedStatus":[{"clusterName":"m1"}],"conditions":[]}"#;
        for (status, changes) in [
            (one, false),
            (r#","status":{"aggregatedStatus":[{"clusterName":"m1"}],"conditions":[{"type":"Scheduled"}]}"#, false),
            (r#","status":{"aggregatedStatus":[{"clusterName":"m1","applied":true}],"conditions":[]}"#, true),
            (r#","status":{"conditions":[]}"#, true),
            ("", true),
        ] {
            assert_eq!(changes_report(&Event::Updated { old: object(one), new: object(status) }), changes, "{status}");
        }
    }
}
