//! The number of stored objects of each resource, read at each scrape.

use metrics::{Description, Samples};

pub const RESOURCES: Description =
    Description::gauge("apiserver_resource_objects", &["group", "resource"], "Stored objects of a resource.");
pub const OBJECTS: Description = Description::gauge(
    "apiserver_storage_objects",
    &["resource"],
    "Stored objects of a resource, under its name before Kubernetes 1.34.",
);

/// `place` is the group and the plural, `core` being that of the core group.
pub(crate) fn count(samples: &mut Samples, place: &str, objects: usize) {
    let (group, resource) = place.split_once('/').unwrap_or(("core", place));
    let group = if group == "core" { "" } else { group };
    samples.gauge(&RESOURCES, &[group, resource], objects as f64);
    let whole = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    samples.gauge(&OBJECTS, &[&whole], objects as f64);
}

#[cfg(test)]
mod tests {
    use metrics::Registry;

    use super::*;

    #[test]
    fn resources_are_named_as_upstream_names_them() {
        let registry = Registry::default();
        registry.collect(|samples| {
            count(samples, "core/pods", 2);
            count(samples, "apps/deployments", 0);
            true
        });
        let text = registry.text();
        for line in [
            "apiserver_resource_objects{group=\"\",resource=\"pods\"} 2\n",
            "apiserver_resource_objects{group=\"apps\",resource=\"deployments\"} 0\n",
            "apiserver_storage_objects{resource=\"pods\"} 2\n",
            "apiserver_storage_objects{resource=\"deployments.apps\"} 0\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
