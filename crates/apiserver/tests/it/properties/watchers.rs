//! The watches, their expected events, and the log to compare with.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::bodies::{Dice, Kind};

/// `NAMESPACE/NAME`
pub(super) type Key = String;
pub(super) type View = BTreeMap<Key, Value>;

/// The requested form of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    pub(super) fn accept(self, list: bool) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Metadata if list => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Self::Table => "application/json;as=Table;g=meta.k8s.io;v=v1",
        }
    }

    /// The object in this form.
    pub(super) fn of(self, object: &Value) -> Value {
        match self {
            Self::Whole => bare(object),
            Self::Metadata | Self::Table => serde_json::json!({"metadata": object["metadata"]}),
        }
    }
}

/// Lists of built-in kinds leave type and version out of their items.
pub(super) fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
    }
    object
}

pub(super) fn key(object: &Value) -> Key {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

pub(super) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Which objects are meant, evaluated in the simplest way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scope {
    pub namespace: Option<&'static str>,
    pub color: Option<(&'static str, bool)>,
    pub field: Option<(&'static str, &'static str)>,
}

impl Scope {
    pub(super) fn random(kind: &Kind, dice: &Dice) -> Self {
        let namespace = (kind.namespaced && dice.chance(40)).then(|| *dice.pick(&["one", "two"]));
        let color = dice.chance(40).then(|| (*dice.pick(&["red", "blue"]), dice.chance(70)));
        let field = kind.field.filter(|_| dice.chance(40)).map(|(path, values)| (path, *dice.pick(values)));
        Self { namespace, color, field }
    }

    /// `PATH?QUERY&` of the collection.
    pub(super) fn url(&self, kind: &Kind) -> String {
        let mut url = match self.namespace {
            Some(namespace) => format!("{}/namespaces/{namespace}/{}?", kind.prefix, kind.plural),
            None => format!("{}/{}?", kind.prefix, kind.plural),
        };
        if let Some((color, equal)) = self.color {
            url += &format!("labelSelector=color{}{color}&", if equal { "%3D" } else { "!%3D" });
        }
        if let Some((path, value)) = self.field {
            url += &format!("fieldSelector={path}%3D{value}&");
        }
        url
    }

    pub(super) fn holds(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let color = metadata["labels"]["color"].as_str();
        let at = |path: &str| path.split('.').fold(object, |at, part| &at[part]).as_str().unwrap_or_default();
        self.namespace.is_none_or(|namespace| metadata["namespace"] == namespace)
            && self.color.is_none_or(|(color_value, equal)| (color == Some(color_value)) == equal)
            && self.field.is_none_or(|(path, value)| at(path) == value)
    }
}

/// One revision of one resource, as the unfiltered watcher received it.
pub(super) struct Change {
    pub revision: u64,
    pub key: Key,
    pub previous: Option<Value>,
    pub current: Option<Value>,
}

/// Everything that ever happened to a kind.
#[derive(Default)]
pub(super) struct Log {
    pub changes: Vec<Change>,
    pub view: View,
}

impl Log {
    /// Takes one event and compares it with the previous state.
    pub(super) fn take(&mut self, line: &Bytes) {
        let event: Value = serde_json::from_slice(line).expect("an event is JSON");
        let object = &event["object"];
        let (revision, key, object) = (revision(object), key(object), bare(object));
        let last = self.changes.last().map_or(0, |change| change.revision);
        assert!(revision > last, "revision {revision} after {last}: {event}");
        let previous = self.view.get(&key).cloned();
        let current = match (event["type"].as_str(), &previous) {
            (Some("ADDED"), None) | (Some("MODIFIED"), Some(_)) => Some(object),
            (Some("DELETED"), Some(previous)) => {
                let mut expected = previous.clone();
                expected["metadata"]["resourceVersion"] = revision.to_string().into();
                assert_eq!(object, expected, "a deletion carries the last state with its own revision");
                None
            }
            _ => panic!("this cannot follow on {previous:?}: {event}"),
        };
        match &current {
            Some(object) => self.view.insert(key.clone(), object.clone()),
            None => self.view.remove(&key),
        };
        self.changes.push(Change { revision, key, previous, current });
    }

    pub(super) fn at(&self, revision: u64) -> Option<&Change> {
        let found = self.changes.binary_search_by_key(&revision, |change| change.revision);
        found.ok().map(|index| &self.changes[index])
    }

    /// The content at a revision.
    pub(super) fn view_at(&self, revision: u64) -> View {
        let mut view = View::new();
        for change in self.changes.iter().take_while(|change| change.revision <= revision) {
            match &change.current {
                Some(object) => view.insert(change.key.clone(), object.clone()),
                None => view.remove(&change.key),
            };
        }
        view
    }
}

/// An open watch.
pub(super) struct Watch {
    pub kind: &'static Kind,
    pub scope: Scope,
    pub form: Form,
    pub lines: UnboundedReceiver<Bytes>,
    /// Pending events of existing objects.
    pub initial: Vec<(Key, Value)>,
    /// Whether the bookmark that ends the initial events is pending.
    pub end_mark: bool,
    /// All changes up to here were delivered.
    pub seen: u64,
    pub first: bool,
    pub bookmarks: u64,
}

impl Watch {
    /// Compares the delivered events with those that the log requires; afterwards both are at `now`.
    pub(super) fn check(&mut self, log: &Log, now: u64) {
        let mut expected = expected(log, &self.scope, self.seen).into_iter();
        while let Ok(line) = self.lines.try_recv() {
            let event: Value = serde_json::from_slice(&line).expect("an event is JSON");
            let (type_, object) = (event["type"].as_str().unwrap_or_default(), self.object(&event));
            if type_ == "BOOKMARK" {
                self.bookmark(&object);
                continue;
            }
            if self.initial.is_empty() {
                assert!(!self.end_mark, "the bookmark that ends the initial events is missing before {event}");
                let (expected_type, change, state) =
                    expected.next().unwrap_or_else(|| panic!("nothing has happened: {event}"));
                assert_eq!((type_, revision(&object)), (expected_type, change), "{event}");
                assert_eq!(self.form.of(&object), self.form.of(&state), "{event}");
                self.seen = change;
            } else {
                let (key, state) = self.initial.remove(0);
                assert_eq!((type_, key_of(&object)), ("ADDED", key), "{event}");
                assert_eq!(self.form.of(&object), self.form.of(&state), "{event}");
            }
        }
        assert!(self.initial.is_empty(), "objects that existed were not announced: {:?}", self.initial);
        assert!(!self.end_mark, "the initial events have no end");
        let missing: Vec<_> = expected.map(|(type_, revision, _)| (type_, revision)).collect();
        assert!(
            missing.is_empty(),
            "not delivered: {missing:?}: {} {:?} {:?}",
            self.kind.plural,
            self.scope,
            self.form
        );
        self.seen = self.seen.max(now);
    }

    fn bookmark(&mut self, object: &Value) {
        assert!(self.initial.is_empty(), "a bookmark in the middle of the initial events");
        let ends = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        assert_eq!(ends, std::mem::take(&mut self.end_mark), "{object}");
        assert!(revision(object) >= self.seen, "{object} after {}", self.seen);
        self.seen = revision(object);
        self.bookmarks += 1;
    }

    /// The object of an event, in any form.
    fn object(&mut self, event: &Value) -> Value {
        let object = &event["object"];
        let bookmark = event["type"] == "BOOKMARK";
        let first = std::mem::take(&mut self.first);
        match self.form {
            Form::Whole => assert_eq!(object["kind"], self.kind.kind, "{event}"),
            Form::Metadata => assert_eq!(object["kind"], "PartialObjectMetadata", "{event}"),
            Form::Table => {
                let columns = object["columnDefinitions"].as_array().map_or(0, Vec::len);
                assert_eq!(columns > 0, first, "only the first event of a watch has columns: {event}");
                let row = &object["rows"][0];
                if !bookmark {
                    assert_eq!(row["cells"][0], row["object"]["metadata"]["name"], "{event}");
                }
                return row["object"].clone();
            }
        }
        object.clone()
    }
}

fn key_of(object: &Value) -> Key {
    key(object)
}

/// The events that a watch in this scope is due after a revision.
fn expected(log: &Log, scope: &Scope, after: u64) -> Vec<(&'static str, u64, Value)> {
    let later = log.changes.iter().skip_while(|change| change.revision <= after);
    let event = |change: &Change| {
        let was = change.previous.as_ref().filter(|object| scope.holds(object));
        let is = change.current.as_ref().filter(|object| scope.holds(object));
        match (was, is) {
            (None, None) => None,
            (None, Some(object)) => Some(("ADDED", change.revision, object.clone())),
            (Some(_), Some(object)) => Some(("MODIFIED", change.revision, object.clone())),
            (Some(object), None) => {
                let mut last = object.clone();
                last["metadata"]["resourceVersion"] = change.revision.to_string().into();
                Some(("DELETED", change.revision, last))
            }
        }
    };
    later.filter_map(event).collect()
}
