//! The changes by overrides in the copy for each cluster, in order, with the changes that later ones replace.

use std::collections::BTreeMap;

use karmada_api::scope::Override;
use propagation::overrides::{concerns, steps};
use propagation::selection::Strength;
use propagation::template::Template as Tree;
use serde_json::{Value, json};

use crate::placement::live::{Live, Template};
use crate::placement::selecting::mistyped;
use crate::table::cut;

/// Changes of one policy that are named in a table.
const NAMED: usize = 4;
/// Characters of a value that are named.
const CHARACTERS: usize = 40;

/// One policy in one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub cluster: String,
    /// From 1.
    pub order: usize,
    pub policy: String,
    pub selects_by: &'static str,
    pub changes: Vec<Change>,
    /// Why it cannot be applied.
    pub error: Option<String>,
}

/// A field that a policy changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// The policy that replaces it.
    pub replaced_by: Option<String>,
}

/// The effects in the clusters, and why other policies that select the workload, or are meant to, have none.
pub fn effects(live: &Live, clusters: &[&str]) -> (Vec<Effect>, Vec<String>) {
    let Template::Found(tree) = &live.template else { return (Vec::new(), Vec::new()) };
    let mut effects = Vec::new();
    for cluster in live.clusters.iter().filter(|it| clusters.contains(&it.metadata.name.as_str())) {
        let mut before = tree.clone();
        let mut own: Vec<Effect> = Vec::new();
        for (index, step) in steps(&live.overrides, cluster, tree).into_iter().enumerate() {
            if step.rules == 0 {
                continue;
            }
            let mut effect = Effect {
                cluster: cluster.metadata.name.clone(),
                order: index + 1,
                policy: name(step.policy),
                selects_by: by(step.policy, step.strength),
                changes: Vec::new(),
                error: None,
            };
            match step.after {
                Ok(after) => {
                    effect.changes = changes(&before, &after);
                    before = after;
                }
                Err(error) => effect.error = Some(error.to_string()),
            }
            own.push(effect);
        }
        mark_replaced(&mut own);
        effects.extend(own);
    }
    let idle = live.overrides.iter().filter_map(|policy| {
        let it = name(policy);
        if effects.iter().any(|effect| effect.policy == it) {
            return None;
        }
        if concerns(policy, Tree(tree)) {
            return Some(format!("{it} selects it; none of its rules is for its clusters"));
        }
        let reach = [tree["metadata"]["namespace"].as_str().unwrap_or_default(), ""];
        let is_near = reach.contains(&policy.metadata.namespace.as_str());
        let mistake = mistyped(&policy.spec.resource_selectors, Tree(tree)).filter(|_| is_near)?;
        Some(format!("{it} does not select it: {mistake}"))
    });
    let idle = idle.collect();
    (effects, idle)
}

fn name(policy: &Override) -> String {
    format!("{} {}", Override::kind(policy.scope), policy.key())
}

fn by(policy: &Override, strength: Strength) -> &'static str {
    match strength {
        Strength::All if policy.spec.resource_selectors.is_empty() => "everything",
        Strength::All => "kind",
        Strength::Label => "labels",
        Strength::Name => "name",
    }
}

/// A change of a field that a later policy changes too is not in the cluster.
fn mark_replaced(effects: &mut [Effect]) {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for effect in effects.iter_mut().rev() {
        for change in &mut effect.changes {
            change.replaced_by = last.get(&change.path).cloned();
        }
        last.extend(effect.changes.iter().map(|change| (change.path.clone(), effect.policy.clone())));
    }
}

/// The fields in which two objects differ, the lowest ones.
fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), String::new(), &mut found);
    // Values of Secrets are never printed.
    if after["kind"] == "Secret" {
        for change in found.iter_mut().filter(|it| it.path.starts_with("data") || it.path.starts_with("stringData")) {
            (change.before, change.after) = (None, Some(Value::from("***")));
        }
    }
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, path: String, found: &mut Vec<Change>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                let below = match (plain, path.is_empty()) {
                    (true, true) => key.clone(),
                    (true, false) => format!("{path}.{key}"),
                    (false, _) => format!("{path}[{key:?}]"),
                };
                compare(old.get(key), new.get(key), below, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(Some(old), Some(new), format!("{path}[{index}]"), found);
            }
        }
        (before, after) => {
            found.push(Change { path, before: before.cloned(), after: after.cloned(), replaced_by: None });
        }
    }
}

impl Effect {
    pub fn cells(&self) -> [String; 5] {
        let order = self.order.to_string();
        [self.cluster.clone(), order, self.policy.clone(), self.selects_by.to_owned(), self.words()]
    }

    fn words(&self) -> String {
        if let Some(error) = &self.error {
            return format!("cannot be applied: {error}");
        }
        if self.changes.is_empty() {
            return "changes nothing here".to_owned();
        }
        let mut words: Vec<String> = self.changes.iter().take(NAMED).map(Change::words).collect();
        if let Some(more) = self.changes.len().checked_sub(NAMED).filter(|more| *more > 0) {
            words.push(format!("{more} more"));
        }
        words.join("; ")
    }

    pub fn to_value(&self) -> Value {
        let changes = self
            .changes
            .iter()
            .map(|it| json!({"path": it.path, "before": it.before, "after": it.after, "replacedBy": it.replaced_by}));
        json!({"cluster": self.cluster, "order": self.order, "policy": self.policy, "selectsBy": self.selects_by,
            "changes": changes.collect::<Vec<_>>(), "error": self.error})
    }
}

impl Change {
    fn words(&self) -> String {
        let shown = |value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            cut(&text, CHARACTERS).into_owned()
        };
        let change = match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("{}: {} -> {}", self.path, shown(before), shown(after)),
            (None, Some(after)) => format!("{}: {}", self.path, shown(after)),
            (_, None) => format!("{} removed", self.path),
        };
        match &self.replaced_by {
            Some(policy) => format!("{change} (replaced by {policy})"),
            None => change,
        }
    }
}
