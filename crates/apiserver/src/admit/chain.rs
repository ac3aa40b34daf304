//! The admission plugins of a server, in their order.

use std::sync::Arc;

use apimachinery::Status;
use apimachinery::resource::ResourceInfo;
use tokio::time::Instant;

use super::durations::{Durations, Phase};
use super::{Admission, AdmissionRequest, Change, Creates, JointWrite, Operation, certificates, escalation, lifecycle};
use crate::auth::authz::Rbac;

/// The plugins, and the rules of the server itself.
pub(crate) struct Chain {
    plugins: Vec<Arc<dyn Admission>>,
    /// Set if it is the authorizer: it then limits writes of roles and bindings.
    rbac: Option<Arc<Rbac>>,
    durations: Durations,
}

impl Chain {
    pub(crate) fn new(mut plugins: Vec<Arc<dyn Admission>>, rbac: Option<Arc<Rbac>>, durations: Durations) -> Self {
        // The sort is stable: plugins stay in their order otherwise.
        plugins.sort_by_key(|plugin| plugin.runs_last());
        Self { plugins, rbac, durations }
    }

    pub(crate) async fn mutate(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let (step, began) = ((Phase::Admit, request.operation), Instant::now());
        let outcome = self.mutate_by_all(request).await;
        self.durations.step(step, outcome.is_err(), began);
        outcome
    }

    async fn mutate_by_all(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if self.has("NamespaceLifecycle") {
            lifecycle::check(request)?;
        }
        for plugin in self.concerned(request) {
            self.mutate_by(plugin, request).await?;
        }
        if request.rounds.is_second_requested {
            request.rounds.is_second = true;
            for plugin in self.concerned(request).filter(|plugin| plugin.runs_again()) {
                self.mutate_by(plugin, request).await?;
            }
        }
        Ok(())
    }

    async fn mutate_by(&self, plugin: &Arc<dyn Admission>, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let (step, began) = ((Phase::Admit, request.operation), Instant::now());
        let outcome = plugin.mutate(request).await;
        if let Some(name) = plugin.name() {
            self.durations.plugin(name, step, outcome.is_err(), began);
        }
        outcome
    }

    async fn validate_by(&self, plugin: &Arc<dyn Admission>, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let (step, began) = ((Phase::Validate, request.operation), Instant::now());
        let outcome = plugin.validate(request).await;
        if let Some(name) = plugin.name() {
            self.durations.plugin(name, step, outcome.is_err(), began);
        }
        outcome
    }

    /// Whether programs of users may validate writes of the status of a resource.
    pub(crate) fn has_user_programs_for_status(&self, group: &str, plural: &str) -> bool {
        self.plugins.iter().any(|plugin| plugin.runs_user_programs() && plugin.concerns_status(group, plural))
    }

    /// Validates a write that only some plugins need to see: those that run users' programs
    /// ([`Admission::runs_user_programs`]), or those that validate writes without changes
    /// ([`Admission::validates_unchanged`]).
    pub(crate) async fn validate_by_those(
        &self,
        is_needed: fn(&dyn Admission) -> bool,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        for plugin in self.concerned(request).filter(|plugin| is_needed(&***plugin)) {
            plugin.validate(request).await?;
        }
        Ok(())
    }

    /// All plugins, in order.
    pub(crate) fn plugins(&self) -> &[Arc<dyn Admission>] {
        &self.plugins
    }

    /// The plugins that handle the resource.
    fn concerned<'s>(
        &'s self,
        request: &AdmissionRequest<'s>,
    ) -> impl Iterator<Item = &'s Arc<dyn Admission>> + use<'s> {
        let named = &request.info.resource;
        self.plugins.iter().filter(move |plugin| plugin.concerns(&named.group, &named.plural))
    }

    /// Whether every plugin admits such objects unchanged, whatever they contain.
    pub(crate) fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        self.plugins.iter().all(|plugin| plugin.admits_unread(creates))
    }

    /// Counts a write that all plugins admit without reading it.
    pub(crate) fn admitted_unread(&self, operation: Operation, began: Instant) {
        for phase in [Phase::Admit, Phase::Validate] {
            self.durations.step((phase, operation), false, began);
        }
    }

    /// Whether no plugin handles writes of this resource's status.
    pub(crate) fn admits_any_status(&self, info: &apimachinery::resource::ResourceInfo) -> bool {
        let named = &info.resource;
        !self.plugins.iter().any(|plugin| plugin.concerns_status(&named.group, &named.plural))
    }

    /// Whether no plugin handles writes of these metadata fields of this resource.
    pub(crate) fn metadata_is_independent(&self, info: &apimachinery::resource::ResourceInfo, fields: &[&str]) -> bool {
        let named = &info.resource;
        !self.plugins.iter().any(|plugin| plugin.concerns_metadata(&named.group, &named.plural, fields))
    }

    /// Whether a built-in plugin is enabled.
    pub(crate) fn has(&self, plugin: &str) -> bool {
        !self.plugins.iter().any(|switch| switch.switches_off().contains(&plugin))
    }

    pub(crate) async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let (step, began) = ((Phase::Validate, request.operation), Instant::now());
        let outcome = self.validate_by_all(request).await;
        self.durations.step(step, outcome.is_err(), began);
        outcome
    }

    async fn validate_by_all(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        certificates::check(|plugin| self.has(plugin), request).await?;
        if let Some(rbac) = &self.rbac {
            escalation::check(rbac, request).await?;
        }
        let new = !request.repeats;
        for (place, plugin) in self.concerned(request).enumerate() {
            if let Err(refusal) = self.validate_by(plugin, request).await {
                for plugin in self.concerned(request).take(place).filter(|_| new) {
                    plugin.undo(request).await;
                }
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Texts for `Warning` headers about an object that was validated.
    pub(crate) fn warnings(&self, request: &AdmissionRequest<'_>) -> Vec<String> {
        self.concerned(request).flat_map(|plugin| plugin.warnings(request)).collect()
    }

    /// Undoes the side effects of validation of an object that is not stored.
    pub(crate) async fn undo(&self, request: &AdmissionRequest<'_>) {
        if request.dry_run {
            return;
        }
        for plugin in self.concerned(request) {
            plugin.undo(request).await;
        }
    }

    /// The plugins that may join writes to those of this resource.
    pub(crate) fn joining<'s>(&'s self, info: &'s ResourceInfo) -> impl Iterator<Item = &'s dyn Admission> + use<'s> {
        let named = &info.resource;
        let plugins = self.plugins.iter().map(|plugin| &**plugin);
        plugins.filter(move |plugin| plugin.has_joint_writes(&named.group, &named.plural))
    }

    /// The writes that plugins join to a change.
    ///
    /// # Errors
    /// If a plugin refuses the change.
    pub(crate) fn joint_writes(&self, change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        let mut writes = Vec::new();
        for plugin in self.joining(change.info) {
            writes.extend(plugin.joint_writes(change)?);
        }
        Ok(writes)
    }
}
