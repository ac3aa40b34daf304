//! Name conflicts among definitions: the accepted names and the conditions. Decisions only: the API server writes them.

use apimachinery::meta::Time;
use serde::Deserialize;

use crate::authorities;
use crate::definition::{API_APPROVED_ANNOTATION, Condition, CrdStatus, CustomResourceDefinition, Names};

/// The names that a definition occupies in its group, as needed for other definitions.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    definition: String,
    group: String,
    names: Names,
}

impl Claim {
    /// Reads an encoded definition, skipping its schemas.
    ///
    /// # Errors
    /// When it is not a CustomResourceDefinition.
    pub fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Definition {
            metadata: Metadata,
            spec: Spec,
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        #[derive(Deserialize)]
        struct Spec {
            group: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Status {
            accepted_names: Names,
        }
        let read: Definition = serde_json::from_slice(json)?;
        Ok(Self { definition: read.metadata.name, group: read.spec.group, names: read.status.accepted_names })
    }

    pub fn definition(&self) -> &str {
        &self.definition
    }
}

impl From<&CustomResourceDefinition> for Claim {
    fn from(crd: &CustomResourceDefinition) -> Self {
        Self {
            definition: crd.metadata.name.clone(),
            group: crd.spec.group.clone(),
            names: crd.status.accepted_names.clone(),
        }
    }
}

/// The status that a definition should have, given the names of others. `now` is for changed conditions.
pub fn desired_status<'a>(
    crd: &CustomResourceDefinition,
    others: impl IntoIterator<Item = &'a Claim>,
    now: Time,
) -> CrdStatus {
    let taken = Taken::collect(crd, others);
    let mut status = crd.status.clone();
    let names = accept_names(&crd.spec.names, &taken, &mut status.accepted_names);
    let accepted = names.status == "True";
    set_condition(&mut status, approval(crd), now);
    set_condition(&mut status, Some(names), now);
    set_condition(&mut status, Some(established(crd, accepted)), now);
    if let Some(storage) = crd.storage_version()
        && !status.stored_versions.contains(&storage.name)
    {
        status.stored_versions.push(storage.name.clone());
    }
    status
}

/// Sets a condition; the transition time changes only with its status, and an unchanged condition changes nothing.
pub fn set_condition(status: &mut CrdStatus, condition: Option<Condition>, now: Time) {
    let Some(mut condition) = condition else { return };
    match status.conditions.iter_mut().find(|present| present.type_ == condition.type_) {
        Some(present) => {
            let moved = present.status != condition.status;
            condition.last_transition_time = if moved { Some(now) } else { present.last_transition_time };
            *present = condition;
        }
        None => {
            condition.last_transition_time = Some(now);
            status.conditions.push(condition);
        }
    }
}

impl From<(&str, &str, &str, String)> for Condition {
    fn from((type_, status, reason, message): (&str, &str, &str, String)) -> Self {
        Self { type_: type_.into(), status: status.into(), reason: reason.into(), message, ..Self::default() }
    }
}

/// Names already accepted for other definitions of the group.
#[derive(Default)]
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn collect<'a>(crd: &CustomResourceDefinition, others: impl IntoIterator<Item = &'a Claim>) -> Self {
        let mut taken = Self::default();
        let is_competing = |other: &&Claim| other.group == crd.spec.group && other.definition != crd.metadata.name;
        for Claim { names, .. } in others.into_iter().filter(is_competing) {
            taken.resources.extend([names.plural.clone(), names.singular.clone()]);
            taken.resources.extend(names.short_names.iter().cloned());
            taken.kinds.extend([names.kind.clone(), names.list_kind.clone()]);
        }
        taken.resources.retain(|name| !name.is_empty());
        taken.kinds.retain(|name| !name.is_empty());
        taken
    }
}

/// Accepts each free requested name; for others the former value is kept. The last conflict is the reason.
fn accept_names(requested: &Names, taken: &Taken, accepted: &mut Names) -> Condition {
    let mut clash = None;
    let mut settle = |requested_name: &str, slot: &mut String, pool: &[String], reason: &'static str| {
        if pool.iter().any(|name| name == requested_name) && slot != requested_name {
            clash = Some((reason, format!("{requested_name:?} is already in use")));
        } else {
            *slot = requested_name.to_owned();
        }
    };
    settle(&requested.plural, &mut accepted.plural, &taken.resources, "PluralConflict");
    settle(&requested.singular, &mut accepted.singular, &taken.resources, "SingularConflict");
    let short: Vec<&String> = requested.short_names.iter().filter(|name| taken.resources.contains(name)).collect();
    let short_clash = short.first().map(|name| ("ShortNamesConflict", format!("{name:?} is already in use")));
    settle(&requested.kind, &mut accepted.kind, &taken.kinds, "KindConflict");
    settle(&requested.list_kind, &mut accepted.list_kind, &taken.kinds, "ListKindConflict");
    if short_clash.is_none() {
        accepted.short_names.clone_from(&requested.short_names);
    }
    accepted.categories.clone_from(&requested.categories);
    match clash.or(short_clash) {
        Some((reason, message)) => ("NamesAccepted", "False", reason, message).into(),
        None => ("NamesAccepted", "True", "NoConflicts", "no conflicts found".to_owned()).into(),
    }
}

/// Once established, a definition stays so; a later clash only stops the change of names.
fn established(crd: &CustomResourceDefinition, names_accepted: bool) -> Condition {
    let is_before = crd.condition_is_true("Established");
    let (status, reason, message) = if !is_before && !names_accepted {
        ("False", "NotAccepted", "not all names are accepted")
    } else if !is_before && authorities::unreadable(crd.spec.conversion.as_ref()).is_some() {
        ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        ("True", "InitialNamesAccepted", "the initial names have been accepted")
    };
    ("Established", status, reason, message.to_owned()).into()
}

/// Whether the group belongs to the Kubernetes community and so needs its approval.
pub fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")))
}

fn approval(crd: &CustomResourceDefinition) -> Option<Condition> {
    const TYPE: &str = "KubernetesAPIApprovalPolicyConformant";
    if !is_protected_group(&crd.spec.group) {
        return None;
    }
    let annotation = crd.metadata.annotations.get(API_APPROVED_ANNOTATION).map_or("", String::as_str);
    let key = API_APPROVED_ANNOTATION;
    Some(if annotation.starts_with("unapproved") {
        (TYPE, "False", "UnapprovedAnnotation", format!("not approved: {annotation:?}")).into()
    } else if annotation.starts_with("https://") || annotation.starts_with("http://") {
        (TYPE, "True", "ApprovedAnnotation", format!("approved in {annotation}")).into()
    } else if annotation.is_empty() {
        let message = format!(
            "protected groups must have approval annotation {key:?}, see https://github.com/kubernetes/enhancements/pull/1111"
        );
        (TYPE, "False", "MissingAnnotation", message).into()
    } else {
        let message = format!(
            "protected groups must have approval annotation {key:?} with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
        );
        (TYPE, "False", "InvalidAnnotation", message).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(plural: &str, kind: &str) -> CustomResourceDefinition {
        let value = serde_json::json!({"metadata": {"name": format!("{plural}.g.example")}, "spec": {"group": "g.example",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true}]}});
        CustomResourceDefinition::from_value(&value).expect("a definition")
    }

    #[test]
    fn the_first_of_two_equal_kinds_is_established() {
        let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
        let mut first = crd("widgets", "Widget");
        first.status = desired_status(&first, [], now);
        assert!(first.condition_is_true("Established") && first.condition_is_true("NamesAccepted"));
        assert_eq!(first.status.stored_versions, ["v1"]);
        let mut second = crd("gadgets", "Widget");
        second.spec.names.singular = "gadget".into();
        second.status = desired_status(&second, [&Claim::from(&first)], now);
        assert!(!second.condition_is_true("Established"));
        let condition = second.condition("NamesAccepted").expect("set above");
        assert_eq!(
            (condition.reason.as_str(), condition.message.as_str()),
            ("ListKindConflict", "\"WidgetList\" is already in use")
        );
        assert_eq!(second.status.accepted_names.plural, "gadgets");
        let again = desired_status(&first, [&Claim::from(&second)], Time::new(jiff::Timestamp::MAX));
        assert_eq!(again, first.status, "a settled definition does not change");
    }
}
