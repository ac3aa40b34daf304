//! Explanations of placements. Pure: the same functions that decide also explain, so that the two cannot differ.

use apimachinery::Object;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use scheduling::{Decision, Problem, ScheduleType, Snapshot, Verdict};

use crate::queue::KeyState;
use crate::shared::Options;
use crate::triggers::{self, IgnoreReason};
use crate::writes;

#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub key: BindingKey,
    pub generation: i64,
    /// Whether and when the scheduler processes it again; times count from now.
    pub key_state: KeyState,
    pub findings: Result<Findings, IgnoreReason>,
}

/// The result that a pass would have now.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// `None` if the last result is kept; then `decision` is the one that a new pass would make.
    pub needed: Option<ScheduleType>,
    pub decision: Decision,
    /// Every cluster, in the order of names.
    pub clusters: Vec<Verdict>,
}

/// `problem` is that of the binding; `None` without a placement.
pub(crate) fn explain(
    object: &Object,
    binding: &Binding,
    key_state: KeyState,
    problem: Option<&Problem<'_>>,
    snapshot: &Snapshot,
    options: &Options,
) -> Explanation {
    let findings = match triggers::ignore_reason(object, binding, &options.name) {
        Some(why) => Err(why),
        None => problem.ok_or(IgnoreReason::Unplaced).map(|problem| {
            let needed = scheduling::needed(binding, snapshot, &options.gates);
            let (decision, clusters) = scheduling::explain(problem, snapshot, &options.gates);
            let again = writes::failed(binding).then_some(ScheduleType::Reconcile);
            Findings { needed: needed.or(again), decision, clusters }
        }),
    };
    Explanation { key: BindingKey::of(object), generation: object.generation(), key_state, findings }
}
