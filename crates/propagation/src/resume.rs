//! Safe resume: whether the store is older than a member's state, and which changes are then permitted in the member.
//!
//! Each start of the controllers that write to members is an *incarnation*. The control plane records them in one list.
//! An object written to a member has a *mark*: the incarnation, and the revision of the Work it was written from. A
//! restored store lacks the incarnation or the revision.

use std::fmt;
use std::str::FromStr;

use apimachinery::meta::{Condition, Time};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, conditions, reasons};
use serde::{Deserialize, Serialize};

/// The maximum number of entries: some 120 bytes each, 120 KiB of the 1 MiB that an object may have.
const KEPT: usize = 1_000;

/// The last write as recorded on an object in a member, or in the member's marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The beginning of the control plane's UID: marks of other control planes are ignored.
    pub plane: String,
    /// The id of the incarnation that wrote.
    pub incarnation: String,
    /// The store's revision at the time of the write.
    pub revision: u64,
}

impl Mark {
    /// The part of a control plane's UID that marks carry.
    pub fn plane_of(uid: &str) -> String {
        uid.split('-').next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.plane, self.incarnation, self.revision)
    }
}

/// A text that is not a mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a mark")]
pub struct NoMark(String);

impl FromStr for Mark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let invalid = || NoMark(text.to_owned());
        let mut parts = text.splitn(3, '/');
        let mut next = || parts.next().filter(|part| !part.is_empty()).ok_or_else(invalid);
        let (plane, incarnation, revision) = (next()?.to_owned(), next()?.to_owned(), next()?);
        Ok(Self { plane, incarnation, revision: revision.parse().map_err(|_| invalid())? })
    }
}

/// An id for an incarnation. It begins with the time, so that one that is not in the list has an age.
pub fn incarnation_id(started: Time, random: u64) -> String {
    format!("{:08x}-{:06x}", started.timestamp().as_second(), random & 0xff_ffff)
}

/// When the incarnation of this id began, in seconds of the epoch; `None` for a foreign id.
fn began(id: &str) -> Option<i64> {
    i64::from_str_radix(id.split('-').next()?, 16).ok()
}

/// One start of the controllers, an opening of the store before it, or a break of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Incarnation {
    /// Its position in the list; later entries have greater numbers.
    pub number: u64,
    /// Its ID, see [`incarnation_id`].
    pub id: String,
    /// The revision of the store at its start.
    pub after: u64,
    /// When it began.
    pub started: Time,
    /// Set for the break of a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Break>,
    /// Whether the API server recorded it when it opened the store, before it served any request. Agents write in its
    /// name; controllers begin a separate incarnation. From the first of these entries on, a start of the controllers
    /// alone is no reason to compare: another copy of the store cannot be restored without an opening.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened: bool,
}

/// The store was restored to `before` and continues from `after`: the writes between the two are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    /// The revision of the restored copy.
    pub before: u64,
    /// The first revision after the restore.
    pub after: u64,
}

/// All that the control plane remembers, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnations {
    incarnations: Vec<Incarnation>,
}

/// Why the store does not contain the write that a mark records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It was lost before the entry of this number began.
    Before(u64),
    /// No entry of the list is its incarnation.
    Unknown,
}

impl Incarnations {
    /// # Errors
    /// It is not such a list.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        let mut read: Self = serde_json::from_str(text)?;
        read.incarnations.sort_by_key(|entry| entry.number);
        Ok(read)
    }

    /// The stored form of the list.
    ///
    /// # Errors
    /// When the list cannot be encoded.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Whether an entry has this id.
    pub fn knows(&self, id: &str) -> bool {
        self.incarnations.iter().any(|entry| entry.id == id)
    }

    /// The number of the newest entry, a start or a break.
    pub fn last_number(&self) -> u64 {
        self.incarnations.last().map_or(0, |last| last.number)
    }

    /// The number of an incarnation that the list has.
    pub fn number_of(&self, id: &str) -> Option<u64> {
        self.incarnations.iter().find(|entry| entry.id == id).map(|entry| entry.number)
    }

    /// The start that is current.
    pub fn newest(&self) -> Option<&Incarnation> {
        self.incarnations.iter().rev().find(|entry| entry.restored.is_none())
    }

    /// Adds a start.
    pub fn begin(&mut self, id: String, after: u64, started: Time) {
        self.add(id, after, started, None, false);
    }

    /// Records an opening of the store at revision `after`.
    pub fn open(&mut self, id: String, after: u64, started: Time) {
        self.add(id, after, started, None, true);
    }

    /// Whether the store's API server records each opening.
    pub fn records_openings(&self) -> bool {
        self.incarnations.iter().any(|entry| entry.opened)
    }

    /// Adds the breaks that the list does not have yet.
    pub fn note(&mut self, breaks: &[Break], started: Time) {
        for found in breaks {
            if self.incarnations.iter().all(|entry| entry.restored != Some(*found)) {
                let id = format!("{}-restored-{}", incarnation_id(started, found.before), found.after);
                self.add(id, found.after, started, Some(*found), false);
            }
        }
    }

    fn add(&mut self, id: String, after: u64, started: Time, restored: Option<Break>, opened: bool) {
        let number = self.incarnations.last().map_or(1, |last| last.number + 1);
        self.incarnations.push(Incarnation { number, id, after, started, restored, opened });
        let surplus = self.incarnations.len().saturating_sub(KEPT);
        self.incarnations.drain(..surplus);
    }

    /// Why the store does not contain the write of the mark; `None` if it does, or if the mark is too old to decide.
    pub fn lost(&self, mark: &Mark) -> Option<Lost> {
        let Some(place) = self.incarnations.iter().position(|entry| entry.id == mark.incarnation) else {
            let oldest = self.incarnations.first()?;
            let is_forgotten = oldest.number > 1
                && began(&mark.incarnation).is_some_and(|began| began < oldest.started.timestamp().as_second());
            return (!is_forgotten).then_some(Lost::Unknown);
        };
        let opened = self.incarnations.iter().find(|entry| entry.opened).map(|entry| entry.number);
        let later = &self.incarnations[place + 1..];
        let lost = later.iter().find(|entry| match entry.restored {
            Some(gap) => gap.before < mark.revision && mark.revision <= gap.after,
            // The process before it may have written until it noticed.
            None if !entry.opened && opened.is_some_and(|first| first < entry.number) => false,
            None => entry.after < mark.revision,
        });
        lost.map(|entry| Lost::Before(entry.number))
    }

    /// Whether no entry of the list is the mark's incarnation, nor one that was dropped from it.
    pub fn does_not_know(&self, mark: &Mark) -> bool {
        self.lost(mark) == Some(Lost::Unknown)
    }

    /// Whether the store is older than the mark, and no person has accepted that. `accepted` is from a marker that the
    /// store is not older than.
    pub fn is_older_than(&self, mark: &Mark, accepted: Option<&Acceptance>) -> bool {
        let Some(lost) = self.lost(mark) else { return false };
        let accepted = accepted.filter(|accepted| self.knows(&accepted.id));
        !accepted.is_some_and(|accepted| match lost {
            Lost::Before(number) => number <= accepted.number,
            Lost::Unknown => began(&mark.incarnation).is_some_and(|began| began <= accepted.at.timestamp().as_second()),
        })
    }
}

/// A confirmation: losses until then are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The newest entry of the list.
    pub number: u64,
    /// The incarnation that was current.
    pub id: String,
    /// When it was confirmed.
    pub at: Time,
}

/// A member's record of deletions, which leave no object that could carry a mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The last deletion.
    #[serde(with = "text")]
    pub mark: Mark,
    /// The last confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Acceptance>,
    /// The permanent ids of the Works that ended last: a store that has one of them alive is older, also where its
    /// revision has passed that of the mark since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
}

/// How many Works a marker names: 40 bytes each, 5 KiB. A store that lacks more deletions than that is far behind the
/// mark.
const ENDED: usize = 128;

impl Marker {
    /// The list of ended Works with more of them.
    pub fn with_ended(mut ended: Vec<String>, more: impl IntoIterator<Item = String>) -> Vec<String> {
        ended.extend(more);
        let surplus = ended.len().saturating_sub(ENDED);
        ended.drain(..surplus);
        ended
    }
}

mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Mark;

    pub fn serialize<S: Serializer>(mark: &Mark, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(mark)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mark, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The object that a Work finds in its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The object does not exist in the member.
    Absent,
    /// The object exists in the member.
    Present {
        /// Its mark is newer than the store.
        is_ahead: bool,
        /// This very Work wrote it.
        is_own: bool,
    },
}

/// Whether a Work may change its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Act,
    /// The member is already held, and this object is one of those that wait.
    Wait,
    /// The member has to be held from now on.
    Hold,
}

/// Whether a Work may change its member. `is_new`: the Work came after the member was held.
pub fn decide(is_held: bool, is_new: bool, found: Found) -> Decision {
    match (is_held, found) {
        (false, Found::Present { is_ahead: true, .. }) => Decision::Hold,
        (false, _) => Decision::Act,
        (true, Found::Absent) if is_new => Decision::Act,
        (true, Found::Present { is_ahead: false, is_own: true }) if is_new => Decision::Act,
        (true, _) => Decision::Wait,
    }
}

/// When a hold begins that is found now: not before anything that the store has, because the API server's clock may be
/// ahead of ours, and after the hold that ended last, because a confirmation names this time.
pub fn begins(now: Time, newest: Option<Time>, ended: Option<Time>) -> Time {
    let after = |time: Time| jiff::Timestamp::from_second(time.timestamp().as_second() + 1).map_or(time, Time::new);
    [newest, ended.map(after)].into_iter().flatten().fold(now, Time::max)
}

/// Whether an object was created after the hold. Times have seconds; objects of the same second are not known to be
/// newer.
pub fn is_newer(created: Option<Time>, since: Time) -> bool {
    created.is_some_and(|created| created > since)
}

/// Whether a Work wrote an object in a member. An object without a permanent id was written by an older version, or
/// manually; as upstream, it counts as the Work's, like every managed object of that name.
pub fn is_of_work(object: Option<&str>, work: &str) -> bool {
    object.is_none_or(|object| object.is_empty() || work.is_empty() || object == work)
}

/// The facts in the condition of a held member.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The mark that is newer than the store, and its object.
    pub mark: String,
    /// The object or marker that has the mark.
    pub carrier: String,
    /// The newest revision and its time, as far as they are known.
    pub revision: u64,
    /// The time of that revision.
    pub at: Time,
    /// The number of waiting Works.
    pub works: usize,
}

/// The condition of a held member.
pub fn pending(cluster: &str, evidence: &Evidence, since: Time) -> Condition {
    let Evidence { mark, carrier, revision, at, works } = evidence;
    let message = format!(
        "The store of the control plane (revision {revision} at {at}) is older than this cluster: {carrier} has the mark \
         {mark}. {works} Works wait: nothing they had in the cluster is changed, deleted or recreated. To apply the state of \
         the store, run \"karmadactl resume {cluster}\""
    );
    Condition {
        type_: conditions::RESUME_PENDING.to_owned(),
        status: "True".to_owned(),
        reason: reasons::STORE_OLDER_THAN_MEMBER.to_owned(),
        message,
        last_transition_time: Some(since),
        ..Condition::default()
    }
}

/// The condition after a confirmation.
pub fn resumed(now: Time) -> Condition {
    Condition {
        type_: conditions::RESUME_PENDING.to_owned(),
        status: "False".to_owned(),
        reason: reasons::RESUMED.to_owned(),
        message: "A person confirmed that the state of the store is applied".to_owned(),
        last_transition_time: Some(now),
        ..Condition::default()
    }
}

/// Since when a Cluster reports that it is held.
pub fn pending_since(cluster: &Cluster) -> Option<Time> {
    let condition = cluster.condition(conditions::RESUME_PENDING)?;
    (condition.status == "True").then_some(condition.last_transition_time).flatten()
}

/// Whether a Cluster reports that a hold of that time is over.
pub fn is_ended(cluster: &Cluster, since: Time) -> bool {
    let condition = cluster.condition(conditions::RESUME_PENDING).filter(|it| it.status == "False");
    condition.and_then(|it| it.last_transition_time).is_some_and(|ended| ended > since)
}

/// Whether a person confirmed this very hold.
pub fn is_confirmed(cluster: &Cluster, since: Time) -> bool {
    let confirmed = cluster.metadata.annotations.get(annotations::RESUME_CONFIRMED);
    confirmed.and_then(|text| text.parse().ok()).is_some_and(|time| Time::new(time) == since)
}

/// The condition of a Work whose member is held.
pub fn work_waits(cluster: &str) -> Condition {
    Condition {
        type_: conditions::APPLIED.to_owned(),
        status: "False".to_owned(),
        reason: reasons::RESUME_PENDING.to_owned(),
        message: format!(
            "Cluster {cluster} is newer than the store of the control plane; nothing is changed in it until a person runs \
             \"karmadactl resume {cluster}\""
        ),
        ..Condition::default()
    }
}

/// Whether a Work waits for a confirmation: its objects are observed all the same.
pub fn waits(condition: &Condition) -> bool {
    condition.type_ == conditions::APPLIED && condition.reason == reasons::RESUME_PENDING
}

#[cfg(test)]
mod tests;
