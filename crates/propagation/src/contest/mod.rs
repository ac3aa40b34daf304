//! Fields that Karmada and another client in a member overwrite in turns: an autoscaler in a member scales a workload
//! that the control plane divides.
//!
//! A change in a member is reverted. A field that the same client changes again after several reverts is contested:
//! from then on its value in the member stays, until the template has another value of the field or a label assigns its
//! owner. Only replicas and the resources of containers can be contested; edits with kubectl are always reverted.

mod fields;

use std::borrow::Cow;

use apimachinery::meta::Condition;
use jiff::{SignedDuration, Timestamp};
use karmada_api::constants::labels;
use serde_json::Value;

use crate::server_side::MANAGER;
use crate::template::Template;
use fields::Field;

/// The condition of a Work, and of its binding, that reports contested fields. Absent without contested fields.
pub const CONDITION: &str = "karmada-rs.io/Contested";

/// The reason of the condition and of its events.
pub const REASON: &str = "FieldsContested";

/// After so many reverts within [`WINDOW`] the next change of an autoscaler stays: of a client that writes the
/// subresource `scale`. One change may be a mistake, and two its repetition; an autoscaler would go on permanently.
pub const REVERTS: usize = 3;

/// The same for other clients, which may well expect that their changes are reverted.
pub const REVERTS_OF_OTHERS: usize = 10;

/// Reverts longer ago do not count. A HorizontalPodAutoscaler decides every 15 seconds, a VerticalPodAutoscaler every
/// minute.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// Fields that are remembered for one Work, some 300 bytes each: eight containers with requests of cpu and memory, and
/// replicas. Others are reverted each time.
const MOST: usize = 17;

/// The contested fields of one Work, and those that were reverted lately. Empty for almost every Work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contests(Vec<Contest>);

#[derive(Clone, Debug, PartialEq)]
struct Contest {
    /// As `Deployment demo/web`.
    object: String,
    claim: Claim,
    /// The other writer.
    manager: String,
    /// The number of reverts after which its value stays.
    limit: usize,
    /// The last few, oldest first.
    reverts: Vec<Timestamp>,
    /// The member's value stays.
    is_left: bool,
}

/// A field and the value of the control plane. Another value, or another label, is another claim, which drops the state
/// of the former one.
#[derive(Clone, Debug, PartialEq)]
struct Claim {
    field: Field,
    value: Value,
    /// The label about retained replicas.
    label: Option<String>,
}

/// A field that a write would revert, with its writer in the member.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    claim: Claim,
    manager: String,
    limit: usize,
}

/// A field whose value in the member stays from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// As `spec.replicas`.
    pub field: String,
    /// The other writer.
    pub manager: String,
}

impl Claim {
    /// The claim of a manifest on a field; `None` if it has no value for it.
    fn of(manifest: &Value, field: &Field) -> Option<Self> {
        let value = field.get(manifest)?.clone();
        let label = Template(manifest).label(labels::RETAIN_REPLICAS).map(str::to_owned);
        Some(Self { field: field.clone(), value, label })
    }

    /// The template requires the value of the control plane, whatever a member has.
    fn is_enforced(&self) -> bool {
        self.field.is_replicas() && self.label.as_deref() == Some("false")
    }
}

/// Whether writing `desired` over `observed` would revert a field that can be contested. If so, [`drifts`] needs the
/// field owners of the observed object.
pub fn may_be_contested(observed: &Value, desired: &Value) -> bool {
    !fields::changed(observed, desired).is_empty()
}

/// The fields that writing `desired` over `observed` reverts and that another client wrote. `owners` are the
/// `managedFields` of the observed object, `own_manager` is the manager of writes to the member.
pub fn drifts(manifest: &Value, observed: &Value, desired: &Value, owners: &Value, own_manager: &str) -> Vec<Drift> {
    let mut drifts = Vec::new();
    for field in fields::changed(observed, desired) {
        let Some(claim) = Claim::of(manifest, &field).filter(|claim| !claim.is_enforced()) else { continue };
        let Some(entry) = last_entry(owners, &field) else { continue };
        let manager =
            entry["manager"].as_str().filter(|it| *it != own_manager && *it != MANAGER && !is_user_client(it));
        let limit = if entry["subresource"] == "scale" { REVERTS } else { REVERTS_OF_OTHERS };
        if let Some(manager) = manager {
            drifts.push(Drift { claim, manager: manager.to_owned(), limit });
        }
    }
    drifts
}

/// The entry of the manager that wrote a field last.
fn last_entry<'a>(owners: &'a Value, field: &Field) -> Option<&'a Value> {
    let entries = owners.as_array().into_iter().flatten();
    let owning = entries.filter(|entry| field.is_in(&entry["fieldsV1"]));
    // Times have whole seconds, in one format: their order is that of their text.
    owning.max_by_key(|entry| entry["time"].as_str())
}

/// Edits by users are always reverted.
fn is_user_client(manager: &str) -> bool {
    manager == "kubectl" || manager.starts_with("kubectl-")
}

impl Contests {
    /// Whether there were no recent reverts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The manifest with the member's values of contested fields. Contests are forgotten where the manifest now has
    /// another value or label.
    pub fn left_to_member<'m>(&mut self, object: &str, manifest: &'m Value, observed: &Value) -> Cow<'m, Value> {
        let is_current = |it: &Contest| Claim::of(manifest, &it.claim.field).as_ref() == Some(&it.claim);
        self.0.retain(|it| it.object != object || is_current(it));
        let mut manifest = Cow::Borrowed(manifest);
        for contest in self.0.iter().filter(|it| it.is_left && it.object == object) {
            if let Some(member_value) = contest.claim.field.get(observed) {
                contest.claim.field.replace(manifest.to_mut(), member_value);
            }
        }
        manifest
    }

    /// Decides about fields that a write would revert: those that were reverted too often stay from now on.
    pub fn leave(&mut self, object: &str, drifts: &[Drift], now: Timestamp) -> Vec<Left> {
        let mut left = Vec::new();
        for contest in self.0.iter_mut().filter(|it| !it.is_left && it.object == object) {
            let is_repeated = drifts.iter().any(|it| it.claim == contest.claim && it.manager == contest.manager);
            contest.reverts.retain(|at| is_recent(*at, now));
            if is_repeated && contest.reverts.len() >= contest.limit {
                contest.is_left = true;
                left.push(Left { field: contest.claim.field.to_string(), manager: contest.manager.clone() });
            }
        }
        left
    }

    /// Records that fields were reverted.
    pub fn reverted(&mut self, object: &str, drifts: Vec<Drift>, now: Timestamp) {
        for Drift { claim, manager, limit } in drifts {
            let has_room = self.0.len() < MOST;
            let known = self.0.iter_mut().find(|it| it.object == object && it.claim.field == claim.field);
            match known {
                Some(known) if known.claim == claim && known.manager == manager => {
                    known.limit = limit;
                    known.reverts.push(now);
                    let surplus = known.reverts.len().saturating_sub(limit);
                    known.reverts.drain(..surplus);
                }
                Some(known) => {
                    let object = object.to_owned();
                    *known = Contest { object, claim, manager, limit, reverts: vec![now], is_left: false };
                }
                None if has_room => {
                    let object = object.to_owned();
                    self.0.push(Contest { object, claim, manager, limit, reverts: vec![now], is_left: false });
                }
                None => {}
            }
        }
    }

    /// Forgets reverts of long ago, and objects that the Work no longer has.
    pub fn forget(&mut self, now: Timestamp, is_present: impl Fn(&str) -> bool) {
        let is_alive = |it: &Contest| it.is_left || it.reverts.last().is_some_and(|at| is_recent(*at, now));
        self.0.retain(|it| is_alive(it) && is_present(&it.object));
    }

    /// The condition of the Work; `None` if no field is contested.
    pub fn condition(&self, cluster: &str, generation: i64) -> Option<Condition> {
        let left: Vec<String> = self.0.iter().filter(|it| it.is_left).map(|it| it.message(cluster)).collect();
        (!left.is_empty()).then(|| Condition { observed_generation: Some(generation), ..condition(left.join(". ")) })
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < WINDOW
}

fn condition(message: String) -> Condition {
    Condition {
        type_: CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: REASON.to_owned(),
        message,
        ..Condition::default()
    }
}

impl Contest {
    fn message(&self, cluster: &str) -> String {
        let Self { object, claim: Claim { field, value, .. }, manager, limit, .. } = self;
        let settle = match field.is_replicas() {
            true => format!(
                "label the template {}=true to leave replicas to the members, or =false to enforce those of the \
                 template, or remove the autoscaler from the cluster and change the template's replicas",
                labels::RETAIN_REPLICAS
            ),
            false => "stop the other writer and change the field in the template, or annotate the policy \
                      karmada-rs.io/apply=server-side"
                .to_owned(),
        };
        format!(
            "{field} of {object} in cluster {cluster} is written by {manager} and by karmada ({value}): after {limit} \
             reverts the value of {manager} stays. To settle it, {settle}"
        )
    }
}

/// The message of a Work's condition; `None` if it has no contested field.
pub fn message_of(conditions: &[Condition]) -> Option<&str> {
    let condition = conditions.iter().find(|it| it.type_ == CONDITION && it.status == "True")?;
    Some(&condition.message)
}

/// The condition of a binding, from the messages of its Works; `None` if no field is contested.
pub fn of_binding<'a>(messages: impl Iterator<Item = &'a str>) -> Option<Condition> {
    const NAMED: usize = 3;
    let mut messages = messages.peekable();
    messages.peek()?;
    let mut messages: Vec<&str> = messages.collect();
    let more = messages.len().saturating_sub(NAMED);
    messages.truncate(NAMED);
    let message = messages.join(". ");
    Some(condition(if more == 0 { message } else { format!("{message}. The same in {more} more clusters") }))
}

#[cfg(test)]
mod tests;
