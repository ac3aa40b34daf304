//! The kinds that are not like others: one row each, of hooks that the generic handlers call.

mod certificates;
mod connections;
mod events;
mod namespaces;
mod pods;

use apimachinery::ApiResource;

use crate::handlers::Kind;

static ORDINARY: Kind = Kind::ORDINARY;

static KINDS: [Kind; 11] = [
    namespaces::ROW,
    pods::ROW,
    pods::BINDINGS,
    connections::NODES,
    connections::SERVICES,
    certificates::ROW,
    events::ROW,
    events::NEWER_ROW,
    Kind { group: "batch", plural: "jobs", selected_as: Some("batchv1.Job"), ..Kind::ORDINARY },
    Kind {
        plural: "endpoints",
        deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ..Kind::ORDINARY
    },
    Kind {
        plural: "componentstatuses",
        deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
        ..Kind::ORDINARY
    },
];

/// The row of a resource.
pub(crate) fn of(resource: &ApiResource) -> &'static Kind {
    named(&resource.group, &resource.plural)
}

fn named(group: &str, plural: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.plural == plural && kind.group == group).unwrap_or(&ORDINARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_for_one_group() {
        for (group, plural, deprecated, expires) in [
            ("", "endpoints", true, false),
            ("example", "endpoints", false, false),
            ("", "events", false, true),
            ("events.k8s.io", "events", false, true),
            ("", "configmaps", false, false),
        ] {
            let kind = named(group, plural);
            assert_eq!(
                (kind.deprecation.is_some(), kind.lifetime.is_some()),
                (deprecated, expires),
                "{group} {plural}"
            );
        }
    }
}
