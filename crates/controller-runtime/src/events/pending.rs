//! Events that wait to be written.

use std::sync::Arc;

use super::{EventType, Involved};

/// The texts of a [`Pending`], in their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    ApiVersion,
    Kind,
    Namespace,
    Name,
    Uid,
    Message,
    /// Of the object, at the time of the event.
    ResourceVersion,
}

const PARTS: usize = Part::ResourceVersion as usize + 1;

/// An event. Thousands wait after a burst, so its texts are in one allocation.
pub(super) struct Pending {
    texts: Box<str>,
    /// The end of each text.
    ends: [usize; PARTS],
    pub type_: EventType,
    pub reason: &'static str,
    pub component: Arc<str>,
    pub at: jiff::Timestamp,
}

impl Pending {
    pub fn new(
        involved: &Involved,
        type_: EventType,
        reason: &'static str,
        message: &str,
        component: Arc<str>,
        at: jiff::Timestamp,
    ) -> Self {
        let Involved { api_version, kind, namespace, name, uid, resource_version } = involved;
        let parts: [&str; PARTS] = [api_version, kind, namespace, name, uid, message, resource_version];
        let mut texts = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            texts.push_str(part);
            texts.len()
        });
        Self { texts: texts.into_boxed_str(), ends, type_, reason, component, at }
    }

    pub fn text(&self, part: Part) -> &str {
        let place = part as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start..self.ends[place]]
    }

    /// The namespace of the event: that of its object, or `default`.
    pub fn home(&self) -> &str {
        Some(self.text(Part::Namespace)).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// What distinguishes it from other events. The resource version of the object does not: the same event for a newer
    /// state is a repeat.
    pub fn content(&self) -> impl std::hash::Hash + '_ {
        let ends = &self.ends[..=Part::Message as usize];
        let texts = &self.texts[..self.ends[Part::Message as usize]];
        (ends, texts, self.type_, self.reason, &*self.component)
    }
}
