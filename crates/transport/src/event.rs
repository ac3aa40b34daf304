//! Events that a component of this process reports, before they are created.

use std::sync::Arc;

use apimachinery::meta::Time;
use serde_json::{Value, json};

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information.
    Normal,
    /// Something to look into.
    Warning,
}

impl EventType {
    /// As in the Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The texts of an [`EventDraft`], in their order. All but the message are of its object.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "fields of Events")]
pub enum EventPart {
    ApiVersion,
    Kind,
    Namespace,
    Name,
    Uid,
    Message,
    /// At the time of the Event.
    ResourceVersion,
}

const PARTS: usize = EventPart::ResourceVersion as usize + 1;

/// The content of an Event: all in which those of components differ, except the name. Thousands wait after a burst, so
/// its texts are in one allocation.
#[derive(Debug)]
pub struct EventDraft {
    texts: Box<str>,
    /// The end of each text: parts of a document smaller than 4 GiB, and a message of at most 1 KiB.
    ends: [u32; PARTS],
    /// Normal or Warning.
    pub type_: EventType,
    /// One word in upper camel case.
    pub reason: &'static str,
    /// The reporting component.
    pub component: Arc<str>,
    /// The time of the reported fact.
    pub at: jiff::Timestamp,
}

impl EventDraft {
    /// `texts` in the order of [`EventPart`].
    pub fn new(
        texts: [&str; PARTS],
        type_: EventType,
        reason: &'static str,
        component: Arc<str>,
        at: jiff::Timestamp,
    ) -> Self {
        let mut all = String::with_capacity(texts.iter().map(|text| text.len()).sum());
        let ends = texts.map(|text| {
            all.push_str(text);
            all.len() as u32
        });
        Self { texts: all.into_boxed_str(), ends, type_, reason, component, at }
    }

    /// One of the texts.
    pub fn text(&self, part: EventPart) -> &str {
        let place = part as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start as usize..self.ends[place] as usize]
    }

    /// All texts up to and including `last`, with their ends.
    pub fn until(&self, last: EventPart) -> (&[u32], &str) {
        let end = self.ends[last as usize] as usize;
        (&self.ends[..=last as usize], &self.texts[..end])
    }
}

/// An Event to be created.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// The name of the Event.
    pub name: String,
    /// The rest.
    pub draft: Arc<EventDraft>,
}

impl NewEvent {
    /// The Event as a client would send it to this namespace.
    pub fn to_value(&self, namespace: &str) -> Value {
        let EventDraft { type_, reason, component, at, .. } = &*self.draft;
        let (at, text) = (Time::new(*at), |part| self.draft.text(part));
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": self.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": text(EventPart::ApiVersion), "kind": text(EventPart::Kind),
                "namespace": text(EventPart::Namespace), "name": text(EventPart::Name), "uid": text(EventPart::Uid),
                "resourceVersion": text(EventPart::ResourceVersion),
            },
            "type": type_.as_str(), "reason": reason, "message": text(EventPart::Message),
            "source": {"component": &**component}, "reportingComponent": &**component, "reportingInstance": "",
            "count": 1, "firstTimestamp": at, "lastTimestamp": at,
        })
    }
}
