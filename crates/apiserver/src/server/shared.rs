//! The plugins of a server, and reads from its cache for authentication.

use super::*;

impl Shared {
    /// Cancelled when the watches of clients have to end.
    pub fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    pub(crate) async fn admit(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if self.has("NamespaceLifecycle") {
            crate::kinds::namespaces::check(self, request)?;
        }
        for plugin in self.plugins(request) {
            plugin.mutate(request).await?;
        }
        if request.rounds.is_second_requested {
            request.rounds.is_second = true;
            for plugin in self.plugins(request).filter(|plugin| plugin.runs_again()) {
                plugin.mutate(request).await?;
            }
        }
        Ok(())
    }

    /// Whether programs of users may validate writes of the status of a resource.
    pub(crate) fn has_user_programs_for_status(&self, group: &str, plural: &str) -> bool {
        self.admission.iter().any(|plugin| plugin.runs_user_programs() && plugin.concerns_status(group, plural))
    }

    /// Validates a write that other plugins need not see.
    pub(crate) async fn validate_by_user_programs(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        for plugin in self.plugins(request).filter(|plugin| plugin.runs_user_programs()) {
            plugin.validate(request).await?;
        }
        Ok(())
    }

    pub(crate) fn admission(&self) -> &[Arc<dyn Admission>] {
        &self.admission
    }

    /// The plugins that handle the resource.
    fn plugins<'s>(&'s self, request: &AdmissionRequest<'s>) -> impl Iterator<Item = &'s Arc<dyn Admission>> + use<'s> {
        let named = &request.info.resource;
        self.admission.iter().filter(move |plugin| plugin.concerns(&named.group, &named.plural))
    }

    /// Whether no plugin handles writes of this resource's status.
    pub(crate) fn leaves_status_alone(&self, info: &apimachinery::resource::ResourceInfo) -> bool {
        let named = &info.resource;
        !self.admission.iter().any(|plugin| plugin.concerns_status(&named.group, &named.plural))
    }

    /// Whether no plugin handles writes of these metadata fields of this resource.
    pub(crate) fn leaves_metadata_alone(&self, info: &apimachinery::resource::ResourceInfo, fields: &[&str]) -> bool {
        let named = &info.resource;
        !self.admission.iter().any(|plugin| plugin.concerns_metadata(&named.group, &named.plural, fields))
    }

    /// Whether a built-in plugin is enabled.
    pub(crate) fn has(&self, plugin: &str) -> bool {
        !self.admission.iter().any(|switch| switch.switches_off().contains(&plugin))
    }

    pub(crate) async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        crate::kinds::certificates::check(self, request)?;
        if let Some(rbac) = &self.rbac {
            authz::escalation::check(rbac, request)?;
        }
        let new = !request.repeats;
        for (place, plugin) in self.plugins(request).enumerate() {
            if let Err(refusal) = plugin.validate(request).await {
                for plugin in self.plugins(request).take(place).filter(|_| new) {
                    plugin.undo(request).await;
                }
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Texts for `Warning` headers about an object that was validated.
    pub(crate) fn warnings(&self, request: &AdmissionRequest<'_>) -> Vec<String> {
        self.plugins(request).flat_map(|plugin| plugin.warnings(request)).collect()
    }

    /// Undoes the side effects of validation of an object that is not stored.
    pub(crate) async fn undo(&self, request: &AdmissionRequest<'_>) {
        if request.dry_run {
            return;
        }
        for plugin in self.plugins(request) {
            plugin.undo(request).await;
        }
    }
}

/// Live reads for credentials.
pub(super) struct CacheLookup(pub(super) Arc<Cache>);

impl Lookup for CacheLookup {
    fn get(
        &self,
        resource: &'static str,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Arc<apimachinery::Object>>, Status>> {
        Box::pin(async move {
            self.0.catch_up().await?;
            self.0.resource(&crate::keys::group_resource("", resource)).get(&key)
        })
    }
}
