//! One pass over one Work.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use apimachinery::Object;
use apimachinery::meta::Condition;
use client::{Patch, PatchOptions};
use controller_runtime::{EventRecorder, Involved, Next};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, conditions, events, finalizers};
use karmada_api::identity::WorkKey;
use karmada_api::work::v1alpha1::{ManifestStatus, Work, WorkStatus};
use karmada_api::work::v1alpha2::ResourceHealth;
use propagation::contest::Contests;
use propagation::server_side::{self, Mode};
use propagation::template::Template;
use propagation::{contest, resume, status};
use serde_json::{Value, json};

use super::apply::{Attempt, Manifest, apply};
use super::contest::name_of;
use super::end::{End, end};
use super::{Record, park, prerequisites, recheck_later, watch};
use crate::context::Part;
use crate::error::{During, Error, Result, all, decoded};
use crate::members::Member;
use crate::resume::Permit;
use crate::{Context, MemberError, identity};

/// A namespace and its contents are sent to a member concurrently, perhaps by different clients; a missing namespace is
/// reported only after this many misses (5 ms, doubling: some 0.6 s).
const TOLERATED_MISSES: u32 = 7;

pub(super) async fn reconcile(context: &Context, key: &WorkKey) -> Result<Next> {
    let Some(object) = context.reported_works.get(key) else { return Ok(Next::Done) };
    let name = key.cluster();
    let cluster = context.clusters.get(name);
    let cluster = cluster.ok_or_else(|| Error::Wait(format!("cluster {name} of work {key} does not exist")))?;
    if !context.serves(&cluster) {
        return Ok(Next::Done);
    }
    let work: Work = decoded(&object, Work::read(&object))?;
    let unsure = context.reported_works.is_unsure(key);
    context.engine.records.lock().entry(key.clone()).or_default();
    let pass = Pass { context, key, object: &object, work: &work, cluster: &cluster, unsure };
    let dispatches = context.engine.dispatches.load(Ordering::Relaxed);
    if object.is_deleting() {
        if dispatches
            && pass.is_held().await?
            && let End::Finished = end(context, &object, &work, &cluster).await?
        {
            pass.remove_finalizer().await?;
        }
        return Ok(Next::Done);
    }
    let mut status = work.status.clone();
    let now = context.now();
    let mut failure = None;
    if dispatches {
        if let Some(condition) = status::dispatching(&work) {
            status::set_condition(&mut status.conditions, condition, now);
        }
        // A cluster that is not ready queues its Works when it becomes so.
        let suspended = work.spec.suspend_dispatching == Some(true);
        if !suspended && cluster.is_ready() {
            match pass.dispatch().await? {
                Dispatched::Same(pending) => {
                    if !pending.iter().any(|it| it.type_ == contest::CONDITION) {
                        status.conditions.retain(|it| it.type_ != contest::CONDITION);
                    }
                    for condition in pending {
                        status::set_condition(&mut status.conditions, condition, now);
                    }
                }
                Dispatched::Parked => return Ok(Next::Done),
                Dispatched::Waits => return Ok(Next::After(prerequisites::WAIT)),
                Dispatched::ResumePending => {
                    let mut condition = resume::work_waits(&cluster.metadata.name);
                    condition.observed_generation = Some(object.generation());
                    status::set_condition(&mut status.conditions, condition, now);
                }
                Dispatched::Wrote => return Ok(Next::After(context.settle())),
                Dispatched::Failed(condition, error) => {
                    status::set_condition(&mut status.conditions, *condition, now);
                    failure = Some(error);
                }
            }
        }
    }
    if pass.mode().is_none() {
        status.conditions.retain(|it| it.type_ != server_side::CONDITION);
    }
    if context.engine.reports.load(Ordering::Relaxed) && failure.is_none() {
        // Applied stays true if the state of the applied objects is unknown.
        failure = pass.report(&mut status).await.err();
    }
    pass.write(status).await?;
    failure.map_or(Ok(Next::Done), Err)
}

enum Dispatched {
    /// The member has the manifests; the conditions to report, if this process observed it.
    Same(Vec<Condition>),
    /// The member is newer than the store; the Work is enqueued when an administrator has confirmed.
    ResumePending,
    /// The objects existed before this process; the Work is enqueued when the member's cache is complete.
    Parked,
    /// Other Works that are not applied yet bring what the objects lack in the member; the Work is enqueued when it has that.
    Waits,
    /// They were written just now. The condition waits for the first status, so that both are one write.
    Wrote,
    Failed(Box<Condition>, Error),
}

struct Pass<'a> {
    context: &'a Context,
    key: &'a WorkKey,
    object: &'a Arc<Object>,
    work: &'a Work,
    cluster: &'a Cluster,
    /// The status the server has may be another than the one that is known.
    unsure: bool,
}

impl Pass<'_> {
    async fn dispatch(&self) -> Result<Dispatched> {
        let record = self.take_record();
        let same_work = *record.uid == *self.object.uid() && record.generation == self.object.generation();
        let current = same_work && record.mode == self.mode();
        if current && !record.dirty {
            return Ok(Dispatched::Same(record.pending()));
        }
        let had = current || self.had_before();
        let (member, permit) = match self.admitted().await {
            Ok((_, permit)) if permit.waits() => {
                self.failed(record.misses);
                return Ok(Dispatched::ResumePending);
            }
            Ok(admitted) => admitted,
            Err(MemberError::Superseded(_)) => {
                self.failed(record.misses);
                return Ok(Dispatched::Parked);
            }
            Err(error) => {
                self.failed(record.misses);
                // The state in the member is unknown until it responds; the Work keeps the reported state.
                let silent = matches!(&error, MemberError::Unidentified { .. } | MemberError::Unmarked { .. });
                if (silent && had) || is_brief(&error) {
                    return Err(error.into());
                }
                let total = self.work.spec.workload.manifests.len();
                let condition = status::applied(0, total, &[error.to_string()]);
                return Ok(Dispatched::Failed(Box::new(condition), error.into()));
            }
        };
        let started = tokio::time::Instant::now();
        let outcome = self.apply_all(&member, &permit, record, had).await;
        let result = match outcome {
            Ok(Dispatched::Parked | Dispatched::ResumePending | Dispatched::Waits) => return outcome,
            Ok(Dispatched::Same(_) | Dispatched::Wrote) => "success",
            Ok(Dispatched::Failed(..)) | Err(_) => "error",
        };
        self.context.metrics.sync_workload.took(&[result], started.elapsed());
        outcome
    }

    /// The member, and the permitted changes in it.
    async fn admitted(&self) -> std::result::Result<(Arc<Member>, Permit), MemberError> {
        let member = identity::writable(self.context, self.cluster).await?;
        let permit = crate::resume::permit(self.context, &member, self.cluster, self.object, self.work).await?;
        Ok((member, permit))
    }

    /// The apply mode of the policy.
    fn mode(&self) -> Option<Mode> {
        Mode::of(&self.work.metadata.annotations)
    }

    /// The current record, marked clean: changes during the pass make it dirty again.
    fn take_record(&self) -> Record {
        let mut records = self.context.engine.records.lock();
        let record = records.entry(self.key.clone()).or_default();
        let taken = record.clone();
        record.dirty = false;
        taken
    }

    /// Whether an earlier process applied this generation to the member.
    fn had_before(&self) -> bool {
        self.work.status.conditions.iter().any(|condition| {
            condition.type_ == conditions::APPLIED
                && condition.status == "True"
                && condition.observed_generation == Some(self.object.generation())
        })
    }

    /// Applies every manifest, and stores the state of contested fields in any case.
    async fn apply_all(
        &self,
        member: &Arc<Member>,
        permit: &Permit,
        mut record: Record,
        had: bool,
    ) -> Result<Dispatched> {
        let before = std::mem::take(&mut record.contests);
        // A Work that leaves fields to their owners has no contested fields.
        let is_known = *record.uid == *self.object.uid() && self.mode() != Some(Mode::Yield);
        let mut contests = if is_known { before.clone() } else { Contests::default() };
        let outcome = self.apply_each(member, permit, &record, had, &mut contests).await;
        if contests != before
            && let Some(record) = self.context.engine.records.lock().get_mut(self.key)
        {
            record.contests = contests;
        }
        outcome
    }

    async fn apply_each(
        &self,
        member: &Arc<Member>,
        permit: &Permit,
        record: &Record,
        had: bool,
        contests: &mut Contests,
    ) -> Result<Dispatched> {
        let manifests = &self.work.spec.workload.manifests;
        let (mut errors, mut yielded, mut versions) = (Vec::new(), Vec::new(), Vec::with_capacity(manifests.len()));
        let (mut wrote, mut unplaced, mut coming, mut contesting) = (false, Vec::new(), 0, Vec::new());
        for raw in manifests {
            let result = async {
                let manifest = Manifest::read(self.context, raw).await?;
                if had && record.uid.is_empty() && park(self.context, member, &manifest.resource, self.key) {
                    return Ok(None);
                }
                let (context, work) = (self.context, self.object);
                let attempt = Attempt { context, member, work, manifest: &manifest, permit, had };
                let applied = match self.mode() {
                    None => apply(attempt, contests).await,
                    Some(mode) => super::server_side::apply(attempt, mode, contests).await,
                };
                if !contests.is_empty() {
                    contesting.push(name_of(&manifest));
                }
                let is_unplaced = applied.as_ref().is_err_and(Error::has_no_place);
                if is_unplaced && record.misses == 0 && prerequisites::are_coming(self.context, self.key, &manifest) {
                    coming += 1;
                } else {
                    self.log_applied(&manifest, &applied);
                }
                if is_unplaced {
                    unplaced.push(prerequisites::Missing::of(&manifest.resource, &manifest.key));
                }
                applied.map(Some)
            };
            match result.await {
                Ok(None) => return Ok(Dispatched::Parked),
                Err(Error::ResumePending) => {
                    self.failed(record.misses);
                    return Ok(Dispatched::ResumePending);
                }
                Ok(Some(applied)) => {
                    versions.push((applied.object.uid().into(), applied.object.resource_version().into()));
                    wrote |= applied.wrote;
                    yielded.extend(applied.yielded);
                }
                Err(Error::Member(error)) if is_brief(&error) => {
                    self.failed(record.misses);
                    return Err(error.into());
                }
                Err(error @ Error::Superseded(_)) => {
                    self.failed(record.misses);
                    return Err(error);
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        contests.forget(self.context.world.now(), |object| contesting.iter().any(|it| it == object));
        let misses = if unplaced.is_empty() { 0 } else { record.misses + 1 };
        self.context.engine.prerequisites.record(self.key, unplaced);
        if !errors.is_empty() {
            self.failed(misses);
            if errors.len() == coming {
                return Ok(Dispatched::Waits);
            }
            let mut condition = status::applied(manifests.len() - errors.len(), manifests.len(), &errors);
            condition.observed_generation = Some(self.object.generation());
            let error = Error::Several(errors);
            if (1..=TOLERATED_MISSES).contains(&misses) {
                return Err(error);
            }
            return Ok(Dispatched::Failed(Box::new(condition), error));
        }
        let others = contests.condition(&member.name, self.object.generation()).into_iter();
        let others = others.chain(self.mode().map(|_| server_side::condition(&yielded, self.object.generation())));
        Ok(self.succeeded(versions, others.collect(), wrote))
    }

    /// Records that the member has all manifests.
    fn succeeded(&self, versions: Vec<(Box<str>, Box<str>)>, others: Vec<Condition>, wrote: bool) -> Dispatched {
        let mut records = self.context.engine.records.lock();
        let record = records.entry(self.key.clone()).or_default();
        record.uid = self.object.uid().into();
        record.generation = self.object.generation();
        record.versions = versions.into();
        record.misses = 0;
        record.mode = self.mode();
        record.applied = true;
        record.others = others;
        let reports = self.context.engine.reports.load(Ordering::Relaxed);
        if wrote && reports {
            self.context.engine.count_unreported(record, true);
            return Dispatched::Wrote;
        }
        Dispatched::Same(record.pending())
    }

    fn failed(&self, misses: u32) {
        let mut records = self.context.engine.records.lock();
        let record = records.entry(self.key.clone()).or_default();
        record.dirty = true;
        record.applied = false;
        record.others.clear();
        record.misses = misses;
    }

    /// The event about one manifest, on its template.
    fn log_applied(&self, manifest: &Manifest, applied: &Result<super::apply::Applied>) {
        if applied.as_ref().is_ok_and(|applied| !applied.wrote)
            || matches!(applied, Err(Error::ResumePending | Error::Superseded(_)))
        {
            return;
        }
        let object = &manifest.object;
        let uid = object.annotation(annotations::TEMPLATE_UID).filter(|uid| !uid.is_empty());
        let Some(uid) = uid else { return };
        let subject = Involved { uid, resource_version: String::new(), ..Involved::from(object) };
        let (place, cluster) = (manifest.key.to_string(), &self.cluster.metadata.name);
        match applied {
            Ok(applied) if applied.wrote => {
                let message = format!("Successfully applied resource({place}) to cluster {cluster}");
                self.recorder().normal(subject, events::SYNC_SUCCEED, message);
            }
            Ok(_) => {}
            Err(error) => {
                let message =
                    format!("Failed to create or update resource({place}) in member cluster({cluster}): {error}");
                self.recorder().warning(subject, events::SYNC_FAILED, message);
            }
        }
    }

    fn recorder(&self) -> EventRecorder {
        self.context.recorder.for_component("execution-controller")
    }

    /// Reads the state of the objects from the member's caches. Absent objects keep their last state.
    async fn report(&self, status: &mut WorkStatus) -> Result<()> {
        let is_there = |it: &Condition| (it.type_ == conditions::APPLIED && it.status == "True") || resume::waits(it);
        if !status.conditions.iter().any(is_there) || !self.cluster.is_ready() {
            return Ok(());
        }
        let member = self.context.members.get(&self.cluster.metadata.name).await?;
        let mut errors = Vec::new();
        for raw in &self.work.spec.workload.manifests {
            let manifest = Manifest::read(self.context, raw).await?;
            let informer = watch(self.context, &member, &manifest.resource);
            let Some(observed) = informer.cache().get(&manifest.key) else { continue };
            let tree = decoded(&observed, observed.to_tree())?;
            let interpreting = &self.context.interpreting;
            let reflected = interpreting.decide(|interpreter| status::reflect(self.work, Template(&tree), interpreter));
            match reflected.await {
                Ok(reflected) => {
                    self.log_health(&manifest, &reflected);
                    replace(&mut status.manifest_statuses, reflected.manifest_status);
                }
                Err(error) => {
                    self.status_recorder().warning(&**self.object, events::REFLECT_STATUS_FAILED, error.to_string());
                    errors.push(error.to_string());
                }
            }
        }
        all(errors)
    }

    fn log_health(&self, manifest: &Manifest, reflected: &status::Reflected) {
        let changed = !self.work.status.manifest_statuses.contains(&reflected.manifest_status);
        if !changed && self.context.recorder.is_quiet() {
            return;
        }
        let recorder = self.status_recorder();
        let what = format!("{}/{}", manifest.resource.kind, manifest.key);
        let message = || format!("Reflect status for object({what}) succeed.");
        recorder.succeeded(&**self.object, events::REFLECT_STATUS_SUCCEED, changed, message);
        if let Some(error) = &reflected.health_error {
            if changed {
                let message = format!("Interpret health of object({what}) failed, err: {error}.");
                recorder.warning(&**self.object, events::INTERPRET_HEALTH_FAILED, message);
            }
            return;
        }
        let is_healthy = reflected.manifest_status.health == Some(ResourceHealth::Healthy);
        let word = if is_healthy { "healthy" } else { "unhealthy" };
        let message = || format!("Interpret health of object({what}) as {word}.");
        recorder.succeeded(&**self.object, events::INTERPRET_HEALTH_SUCCEED, changed, message);
    }

    fn status_recorder(&self) -> EventRecorder {
        self.context.recorder.for_component("work-status-controller")
    }

    async fn write(&self, status: WorkStatus) -> Result<()> {
        if status == self.work.status && !self.unsure {
            if let Some(record) = self.context.engine.records.lock().get_mut(self.key) {
                self.context.engine.count_unreported(record, false);
            }
            return Ok(());
        }
        // No other client writes the status of Works, so the patch has no resource version; it has the UID.
        let patch = json!({"metadata": {"uid": self.object.uid()}, "status": {
            "conditions": status.conditions, "manifestStatuses": status.manifest_statuses,
        }});
        let resource = Work::api_resource();
        let options = PatchOptions::status();
        let request = self.context.client.patch_draft(&resource, self.key, Patch::Merge(patch), &options);
        let written = self.context.reported_works.write(self.key, request).await;
        if let Some(record) = self.context.engine.records.lock().get_mut(self.key) {
            self.context.engine.count_unreported(record, false);
        }
        match written {
            Ok(written) if written.overwritten => recheck_later(self.context, self.key.clone()),
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error).during(|| format!("writing the status of work {}", self.key)),
        }
        self.log_conditions(&status);
        Ok(())
    }

    fn log_conditions(&self, status: &WorkStatus) {
        let find = |list: &[Condition], type_: &str| list.iter().find(|it| it.type_ == type_).cloned();
        let turned = |type_: &str| {
            let new = find(&status.conditions, type_)?;
            (find(&self.work.status.conditions, type_).as_ref() != Some(&new)).then_some(new)
        };
        let (recorder, place, cluster) = (self.recorder(), self.key, &self.cluster.metadata.name);
        if let Some(condition) = turned(conditions::DISPATCHING) {
            recorder.normal(&**self.object, events::WORK_DISPATCHING, condition.message);
        }
        // A held member has one event, on its Cluster.
        if let Some(condition) = turned(conditions::APPLIED).filter(|it| !resume::waits(it)) {
            if condition.status == "True" {
                let message = format!("Sync work({place}) to cluster({cluster}) successful.");
                recorder.normal(&**self.object, events::SYNC_SUCCEED, message);
            } else {
                let errors = status::errors_of(&condition.message);
                let message = format!("Failed to sync work({place}) to cluster({cluster}), err: {errors}");
                recorder.warning(&**self.object, events::SYNC_FAILED, message);
            }
        }
    }

    /// Whether the deletion of the Work still waits for us. The cache may have a Work that was deleted long ago; its
    /// objects may belong to another Work now, which wrote nothing because they already matched.
    async fn is_held(&self) -> Result<bool> {
        let live = self.context.live(&Work::api_resource(), self.object).await?;
        Ok(live.is_some_and(|live| live.finalizers().iter().any(|held| **held == *finalizers::EXECUTION)))
    }

    async fn remove_finalizer(&self) -> Result<()> {
        let held = &self.work.metadata.finalizers;
        if !held.iter().any(|finalizer| finalizer == finalizers::EXECUTION) {
            return Ok(());
        }
        let left: Vec<_> = held.iter().filter(|finalizer| *finalizer != finalizers::EXECUTION).collect();
        let change: Value =
            json!({"metadata": {"finalizers": left, "resourceVersion": self.object.resource_version()}});
        match self.context.change(&Work::api_resource(), self.object, change, Part::Object).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(|_| ()).during(|| format!("removing the finalizer of work {}", self.key)),
        }
    }
}

/// Whether it is over in a moment, so that no condition reports it.
fn is_brief(error: &MemberError) -> bool {
    matches!(error, MemberError::Unrecorded(_) | MemberError::NoIncarnation(_) | MemberError::Unlisted(_))
}

fn replace(list: &mut Vec<ManifestStatus>, status: ManifestStatus) {
    match list.iter_mut().find(|known| known.identifier == status.identifier) {
        Some(known) => *known = status,
        None => {
            // A manifest that was replaced by another leaves its place to it.
            list.retain(|known| known.identifier.ordinal != status.identifier.ordinal);
            list.push(status);
        }
    }
}
