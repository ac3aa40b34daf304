//! The policy that has a workload, and why the others that select it do not.

use karmada_api::policy::v1alpha1::PreemptionBehavior;
use karmada_api::scope::{Policy, Scope};
use propagation::selection::{Strength, preempts, priority, strongest};
use propagation::template::Template as Tree;
use serde_json::{Value, json};

use crate::placement::explanation::{claim_name, claim_of};
use crate::placement::live::{Live, Template};
use crate::placement::selecting::Selection;

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    pub policy: String,
    /// `applies`, `goes first`, `does not apply` or `deleted`
    pub outcome: &'static str,
    pub priority: String,
    pub selects_by: &'static str,
    pub why: String,
}

impl PolicyRow {
    pub fn cells(&self) -> [String; 5] {
        let outcome = self.outcome.to_owned();
        [self.policy.clone(), outcome, self.priority.clone(), self.selects_by.to_owned(), self.why.clone()]
    }

    pub fn to_value(&self) -> Value {
        json!({"policy": self.policy, "outcome": self.outcome, "priority": self.priority.parse::<i32>().ok(),
            "selectsBy": self.selects_by, "why": self.why})
    }
}

/// The policy that applies is first, followed by the others in their order.
pub fn policy_rows(live: &Live, selection: &Selection<'_>) -> Vec<PolicyRow> {
    let claim = claim_of(live);
    let holder = claim
        .as_ref()
        .and_then(|claim| live.policies.iter().find(|it| it.scope == claim.scope() && it.key() == claim.policy));
    let mut rows = Vec::new();
    let tree = match &live.template {
        Template::Found(tree) => tree,
        _ => &Value::Null,
    };
    let template = Tree(tree);
    match (&claim, holder) {
        (Some(_), Some(holder)) => {
            let why = of_holder(holder, live, selection, template);
            rows.push(row(holder, "applies", template, why));
        }
        (Some(claim), None) => rows.push(PolicyRow {
            policy: claim_name(claim),
            outcome: "deleted",
            priority: "-".to_owned(),
            selects_by: "-",
            why: "the workload still has its marks".to_owned(),
        }),
        (None, _) => {}
    }
    let winner = holder.or(selection.best);
    if holder.is_none()
        && let Some(best) = selection.best
    {
        let why = "it has not taken effect yet".to_owned();
        rows.push(row(best, "goes first", template, why));
    }
    let is_winner = |policy: &Policy| winner.is_some_and(|it| it.scope == policy.scope && it.key() == policy.key());
    let mut others: Vec<&Policy> = selection.all.iter().copied().filter(|policy| !is_winner(policy)).collect();
    others.sort_by_key(|it| {
        let strength = strongest(&it.spec.resource_selectors, template);
        (it.scope == Scope::Cluster, std::cmp::Reverse((priority(it), strength)), it.metadata.name.clone())
    });
    let is_claimed = holder.is_some();
    rows.extend(others.into_iter().map(|policy| {
        let why = winner.map_or_else(String::new, |winner| why_not(policy, winner, template, is_claimed));
        row(policy, "does not apply", template, why)
    }));
    rows
}

fn row(policy: &Policy, outcome: &'static str, template: Tree<'_>, why: String) -> PolicyRow {
    let selects_by = match strongest(&policy.spec.resource_selectors, template) {
        Some(strength) => by(strength),
        None => "-",
    };
    let name = format!("{} {}", Policy::kind(policy.scope), policy.key());
    PolicyRow { policy: name, outcome, priority: priority(policy).to_string(), selects_by, why }
}

fn by(strength: Strength) -> &'static str {
    match strength {
        Strength::All => "kind",
        Strength::Label => "labels",
        Strength::Name => "name",
    }
}

fn of_holder(holder: &Policy, live: &Live, selection: &Selection<'_>, template: Tree<'_>) -> String {
    let mut why = Vec::new();
    if holder.metadata.deletion_timestamp.is_some() {
        why.push("it is being deleted".to_owned());
    }
    let is_found = matches!(live.template, Template::Found(_));
    if is_found && strongest(&holder.spec.resource_selectors, template).is_none() {
        why.push("it selects the workload no longer".to_owned());
    }
    let suspension = holder.spec.suspension.as_ref();
    if suspension.is_some_and(|it| it.dispatching == Some(true)) {
        why.push("it suspends dispatching".to_owned());
    } else if let Some(on) = suspension.and_then(|it| it.dispatching_on_clusters.as_ref()) {
        why.push(format!("it suspends dispatching to {}", on.cluster_names.join(", ")));
    }
    if !why.is_empty() {
        return why.join("; ");
    }
    let is_best = selection.best.is_some_and(|best| best.scope == holder.scope && best.key() == holder.key());
    let why = match (is_best, selection.all.len()) {
        (true, 1) => "the only policy that selects it",
        (true, _) => "it goes before the others",
        (false, _) => "it has claimed the workload",
    };
    why.to_owned()
}

/// Why `policy`, which selects the workload, does not have it, while `winner` does or will.
fn why_not(policy: &Policy, winner: &Policy, template: Tree<'_>, is_claimed: bool) -> String {
    if policy.metadata.deletion_timestamp.is_some() {
        return "it is being deleted".to_owned();
    }
    let strength = |policy: &Policy| strongest(&policy.spec.resource_selectors, template);
    let (own, other) = (strength(policy), strength(winner));
    let words = |strength: Option<Strength>| strength.map_or("nothing", by);
    let name = |policy: &Policy| policy.metadata.name.clone();
    let order = match (policy.scope, winner.scope) {
        (Scope::Cluster, Scope::Namespaced) => {
            return "a PropagationPolicy goes before every ClusterPropagationPolicy".to_owned();
        }
        (Scope::Namespaced, Scope::Cluster) => std::cmp::Ordering::Greater,
        _ => {
            let by_priority = priority(policy).cmp(&priority(winner));
            by_priority.then(own.cmp(&other)).then(name(winner).cmp(&name(policy)))
        }
    };
    if order == std::cmp::Ordering::Greater {
        return overtaken(policy, winner, is_claimed);
    }
    match () {
        () if priority(policy) < priority(winner) => {
            format!("its priority {} is lower than {}", priority(policy), priority(winner))
        }
        () if own < other => {
            format!("same priority; a selector by {} goes before one by {}", words(other), words(own))
        }
        () => format!("same priority and kind of selector; the name {} goes first", name(winner)),
    }
}

/// A policy that would go first, if the workload had not been claimed before.
fn overtaken(policy: &Policy, winner: &Policy, is_claimed: bool) -> String {
    let preempting = policy.spec.preemption == Some(PreemptionBehavior::Always);
    match () {
        () if !is_claimed => "it goes first by its order".to_owned(),
        () if preempts(policy, winner) && preempting => {
            "it takes the workload over (preemption: Always), if the feature gate PropagationPolicyPreemption is on"
                .to_owned()
        }
        () if preempts(policy, winner) => {
            "it would go first; the workload is claimed already, and spec.preemption is not Always".to_owned()
        }
        () => "it would go first; the workload is claimed already, and only a higher spec.priority with preemption: Always \
               takes it over"
            .to_owned(),
    }
}
