//! The metadata every object carries, typed (`meta/v1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// RFC 3339 in UTC with second precision, as `meta/v1.Time` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(jiff::Timestamp);

impl Time {
    /// Cuts the fraction of a second off.
    pub fn new(timestamp: jiff::Timestamp) -> Self {
        Self(jiff::Timestamp::from_second(timestamp.as_second()).unwrap_or(timestamp))
    }

    /// The point in time, with a precision of seconds.
    pub fn timestamp(self) -> jiff::Timestamp {
        self.0
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let civil = jiff::tz::TimeZone::UTC.to_datetime(self.0);
        let Some(year) = u16::try_from(civil.year()).ok().filter(|year| *year > 0) else {
            return write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%SZ"));
        };
        let digit = |number: u16| b'0' + (number % 10) as u8;
        let mut text = *b"0000-00-00T00:00:00Z";
        for (at, place) in [1000, 100, 10, 1].into_iter().enumerate() {
            text[at] = digit(year / place);
        }
        let parts = [civil.month(), civil.day(), civil.hour(), civil.minute(), civil.second()];
        for (part, at) in parts.into_iter().zip([5, 8, 11, 14, 17]) {
            let part = u16::try_from(part).unwrap_or_default();
            (text[at], text[at + 1]) = (digit(part / 10), digit(part));
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse::<jiff::Timestamp>().map(Self::new).map_err(serde::de::Error::custom)
    }
}

/// `managedFields` is skipped over: it is as long as the rest of most objects, and a write without it leaves it to the
/// server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// `annotations`
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    /// `creationTimestamp`, set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// `deletionGracePeriodSeconds`, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// `deletionTimestamp`: set while the object is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// `finalizers`: while there are any, the object is not removed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
    /// `generateName`: the prefix of a generated name.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub generate_name: String,
    /// `generation`: counts changes of the spec, from 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// `labels`
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    /// `name`
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// `namespace`; empty for objects without one.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// `ownerReferences`
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
    /// `resourceVersion`: opaque to clients; the store's revision here.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
    /// `uid`, set by the server.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub uid: String,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// Serde helper: `null` reads as the type's default, as Go's decoder does.
///
/// # Errors
/// Those of the type's own deserialization.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// `meta/v1.OwnerReference`: an object on which this one depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's apiVersion.
    pub api_version: String,
    /// Whether foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
    /// Whether the owner is the managing controller; at most one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID: another object of the same name is not the owner.
    pub uid: String,
}

/// `meta/v1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// When the status changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// An explanation for users.
    pub message: String,
    /// The generation that the condition is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A machine-readable reason, in CamelCase.
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The condition's type, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
}

/// `meta/v1.LabelSelector`. Evaluate it through [`crate::selector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Requirements, all of which must match.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Labels, all of which must be present with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub match_labels: BTreeMap<String, String>,
}

/// `meta/v1.LabelSelectorRequirement`: a label key and a condition on its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values of `In` and `NotIn`; empty for the others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}
