//! The outcome for the objects in a member when it is unjoined, derived from the Works of its execution namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::answers::text;

/// Names of a kind that a preview shows.
pub const SHOWN: usize = 10;
/// Names of a kind that are shown where the user has to find the objects himself.
pub const SHOWN_LEFT: usize = 100;
/// Kinds that are shown; a control plane propagates a few dozen at most.
const KINDS: usize = 50;

/// A Namespace takes its content along.
const WITH_CONTENT: &str = " with all objects in them";

/// Names of objects by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Objects(BTreeMap<String, BTreeSet<String>>);

impl Objects {
    fn add(&mut self, work: &Value) {
        for manifest in work["spec"]["workload"]["manifests"].as_array().into_iter().flatten() {
            let metadata = &manifest["metadata"];
            let name = text(&metadata["name"]);
            let name = match metadata["namespace"].as_str() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            };
            self.0.entry(text(&manifest["kind"])).or_default().insert(name);
        }
    }

    /// The objects of all of these Works.
    pub fn of<'a>(works: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut objects = Self::default();
        works.into_iter().for_each(|work| objects.add(work));
        objects
    }

    /// A Namespace that holds `preserved` objects stays as they do.
    fn move_holding_namespaces(&mut self, preserved: &mut Self) {
        let inside = preserved.0.values().flatten().filter_map(|name| name.split_once('/'));
        let holding: BTreeSet<String> = inside.map(|(namespace, _)| namespace.to_owned()).collect();
        let Some(leaving) = self.0.get_mut("Namespace") else { return };
        let staying: BTreeSet<String> = leaving.intersection(&holding).cloned().collect();
        if !staying.is_empty() {
            leaving.retain(|namespace| !staying.contains(namespace));
            preserved.0.entry("Namespace".to_owned()).or_default().extend(staying);
        }
        self.0.retain(|_, names| !names.is_empty());
    }

    pub fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// As in "3 objects".
    pub fn counted(&self) -> String {
        match self.count() {
            1 => "1 object".to_owned(),
            count => format!("{count} objects"),
        }
    }

    /// One line for each kind, with `shown` names at most.
    pub fn lines(&self, shown: usize) -> String {
        self.lines_with(shown, WITH_CONTENT)
    }

    /// `of_namespaces` follows the number of Namespaces.
    fn lines_with(&self, shown: usize, of_namespaces: &str) -> String {
        let mut lines = String::new();
        for (kind, names) in self.0.iter().take(KINDS) {
            let first: Vec<&str> = names.iter().take(shown).map(String::as_str).collect();
            let note = if kind == "Namespace" { of_namespaces } else { "" };
            let _ = write!(lines, "  {kind} ({}){note}: {}", names.len(), first.join(", "));
            if names.len() > shown {
                let _ = write!(lines, ", ... and {} more", names.len() - shown);
            }
            lines.push('\n');
        }
        if self.0.len() > KINDS {
            let _ = writeln!(lines, "  ... and {} more kinds", self.0.len() - KINDS);
        }
        lines
    }
}

/// The objects in the member that leave and those that stay.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// Why all objects stay; `None` if they are deleted.
    kept_because: Option<String>,
    all: Objects,
    deleted: Objects,
    preserved: Objects,
    /// Objects of Works that are not applied.
    unapplied: Objects,
}

impl Departure {
    /// `own` is the ID of the control plane, where it is known.
    pub fn plan(cluster: &Value, works: &[Value], own: Option<&str>) -> Self {
        Self { kept_because: kept_because(cluster, own), ..Self::by_agent(works) }
    }

    /// In a cluster whose agent deletes the objects, at the latest when it runs again.
    pub fn by_agent(works: &[Value]) -> Self {
        let mut departure = Self { all: Objects::of(works), ..Self::default() };
        for work in works {
            let preserved = work["spec"]["preserveResourcesOnDeletion"] == true;
            let applied = condition(work, "Applied").is_some_and(|it| it["status"] == "True");
            let objects = match (preserved, applied) {
                (true, _) => &mut departure.preserved,
                (false, true) => &mut departure.deleted,
                (false, false) => &mut departure.unapplied,
            };
            objects.add(work);
        }
        for leaving in [&mut departure.deleted, &mut departure.unapplied] {
            leaving.move_holding_namespaces(&mut departure.preserved);
        }
        departure
    }

    /// The text that `unjoin` prints before it acts.
    pub fn render(&self, cluster: &str) -> String {
        let mut out = String::new();
        let mut part = |objects: &Objects, one: &str, several: &str, of_namespaces: &str| {
            let (count, counted) = (objects.count(), objects.counted());
            if count > 0 {
                let what = if count == 1 { one } else { several };
                let _ = write!(out, "{counted} {what}:\n{}", objects.lines_with(SHOWN, of_namespaces));
            }
        };
        if let Some(why) = &self.kept_because {
            part(&self.all, "stays in it as it is", "stay in it as they are", WITH_CONTENT);
            return format!("Cluster {cluster} {why}: nothing is deleted in it.\n{out}");
        }
        let (is, are) = (format!("is deleted in cluster {cluster}"), format!("are deleted in cluster {cluster}"));
        part(&self.deleted, &is, &are, WITH_CONTENT);
        let preserved = format!("in cluster {cluster} (preserveResourcesOnDeletion)");
        part(
            &self.preserved,
            &format!("stays {preserved}"),
            &format!("stay {preserved}"),
            " with the objects that stay",
        );
        let unapplied = format!("not applied in cluster {cluster}, and deleted only if the control plane created");
        part(&self.unapplied, &format!("is {unapplied} it"), &format!("are {unapplied} them"), WITH_CONTENT);
        match out.is_empty() {
            true => format!("Cluster {cluster} holds no object of the control plane.\n"),
            false => out,
        }
    }
}

fn kept_because(cluster: &Value, own: Option<&str>) -> Option<String> {
    let id = text(&cluster["spec"]["id"]);
    if !id.is_empty() && own == Some(&id) {
        return Some("is this control plane itself".to_owned());
    }
    let ready = condition(cluster, "Ready");
    if ready.is_some_and(|it| it["status"] == "True") {
        return None;
    }
    let reason = ready.map(|it| text(&it["reason"])).filter(|reason| !reason.is_empty());
    Some(format!("is not ready ({})", reason.unwrap_or_else(|| "its status was never reported".to_owned())))
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == type_)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(manifests: Value, preserve: bool, applied: &str) -> Value {
        json!({"spec": {"preserveResourcesOnDeletion": preserve, "workload": {"manifests": manifests}},
            "status": {"conditions": [{"type": "Applied", "status": applied}]}})
    }

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
        json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}})
    }

    fn cluster(status: &str, id: &str) -> Value {
        let ready = json!({"type": "Ready", "status": status, "reason": "ClusterNotReachable"});
        json!({"spec": {"id": id}, "status": {"conditions": [ready]}})
    }

    #[test]
    fn departures_list_deleted_and_preserved_objects() {
        let many: Vec<Value> = (0..12).map(|n| object("ConfigMap", Some("shop"), &format!("c{n:02}"))).collect();
        let works = [
            work(json!([object("Deployment", Some("shop"), "web"), object("Namespace", None, "shop")]), false, "True"),
            work(json!(many), false, "True"),
            work(json!([object("Secret", Some("kept"), "key")]), true, "True"),
            work(json!([object("Namespace", None, "kept")]), false, "True"),
            work(json!([object("Service", Some("shop"), "web")]), false, "False"),
        ];
        let names =
            "shop/c00, shop/c01, shop/c02, shop/c03, shop/c04, shop/c05, shop/c06, shop/c07, shop/c08, shop/c09";
        let ready = format!(
            "14 objects are deleted in cluster m1:\n  ConfigMap (12): {names}, ... and 2 more\n  Deployment (1): \
             shop/web\n  Namespace (1) with all objects in them: shop\n2 objects stay in cluster m1 \
             (preserveResourcesOnDeletion):\n  Namespace (1) with the objects that stay: kept\n  Secret (1): \
             kept/key\n1 object is not applied in cluster m1, and deleted \
             only if the control plane created it:\n  Service (1): shop/web\n"
        );
        assert_eq!(Departure::plan(&cluster("True", "a"), &works, Some("b")).render("m1"), ready);

        for (cluster, own, expected) in [
            (
                cluster("False", "a"),
                Some("b"),
                "Cluster m1 is not ready (ClusterNotReachable): nothing is deleted in it.",
            ),
            (cluster("True", "a"), Some("a"), "Cluster m1 is this control plane itself: nothing is deleted in it."),
            (json!({}), None, "Cluster m1 is not ready (its status was never reported): nothing is deleted in it."),
        ] {
            let text = Departure::plan(&cluster, &works, own).render("m1");
            assert!(text.starts_with(&format!("{expected}\n17 objects stay in it as they are:\n")), "{text}");
        }
        let nothing = Departure::plan(&cluster("True", ""), &[], Some("b")).render("m1");
        assert_eq!(nothing, "Cluster m1 holds no object of the control plane.\n");
    }
}
