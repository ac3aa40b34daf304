//! The containers of a pod that violate a rule, and how messages name them.

use serde_json::Value;

use super::Pod;
use crate::admission::{list, text};

/// All containers of a pod, including init and ephemeral containers.
pub(super) fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|field| list(&spec[field]))
}

pub(super) fn context(container: &Value) -> &Value {
    &container["securityContext"]
}

/// The names of the containers that violate a rule.
pub(super) fn names<'p>(pod: &Pod<'p>, mut wrong: impl FnMut(&'p Value) -> bool) -> Vec<&'p str> {
    let spec: &'p Value = pod.spec;
    all_containers(spec).filter(|container| wrong(container)).map(|container| text(container, "name")).collect()
}

/// `"a", "b"`; upstream does not escape them.
pub(super) fn quoted<'s>(texts: impl IntoIterator<Item = &'s str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(", ")
}

pub(super) fn plural(noun: &str, count: usize) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", names.len()), quoted(names.iter().copied()))
}

/// `container "a" DEMAND`, if there are such containers.
pub(super) fn demand(names: &[&str], demand: &str) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {demand}", containers(names)))
}

/// Those that set a wrong value in their security context.
pub(super) struct Offenders<'p> {
    is_pod: bool,
    names: Vec<&'p str>,
}

impl<'p> Offenders<'p> {
    pub(super) fn of(pod: &Pod<'p>, mut wrong: impl FnMut(&'p Value) -> bool) -> Self {
        let spec: &'p Value = pod.spec;
        Self { is_pod: wrong(context(spec)), names: names(pod, |container| wrong(context(container))) }
    }

    /// `pod`, and `containers "a", "b"`.
    pub(super) fn list(&self) -> Vec<String> {
        let of_containers = (!self.names.is_empty()).then(|| containers(&self.names));
        self.is_pod.then(|| "pod".to_owned()).into_iter().chain(of_containers).collect()
    }

    /// `pod and containers "a", "b"`; `None` without any.
    pub(super) fn text(&self) -> Option<String> {
        let all = self.list();
        (!all.is_empty()).then(|| all.join(" and "))
    }
}
