//! Events that wait to be written.

use std::sync::Arc;

use super::EventType;

/// How client-go begins the message of an event that combines similar ones.
const COMBINED: &str = "(combined from similar events): ";

/// A message of at most the 1 KiB that the API allows.
pub(super) fn cut(mut message: String) -> String {
    if message.len() > 1024 {
        let end = (0..=1021).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    message
}

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
    /// The end of each text: parts of a document smaller than 4 GiB, and a message of at most 1 KiB.
    ends: [u32; PARTS],
    pub type_: EventType,
    pub reason: &'static str,
    pub component: Arc<str>,
    pub at: jiff::Timestamp,
}

impl Pending {
    /// `subject` as in [`super::EventSubject`].
    pub fn new(
        subject: [&str; 6],
        type_: EventType,
        reason: &'static str,
        message: &str,
        component: Arc<str>,
        at: jiff::Timestamp,
    ) -> Self {
        let [api_version, kind, namespace, name, uid, resource_version] = subject;
        let parts: [&str; PARTS] = [api_version, kind, namespace, name, uid, message, resource_version];
        let mut texts = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            texts.push_str(part);
            texts.len() as u32
        });
        Self { texts: texts.into_boxed_str(), ends, type_, reason, component, at }
    }

    pub fn text(&self, part: Part) -> &str {
        let place = part as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start as usize..self.ends[place] as usize]
    }

    /// The namespace of the event: that of its object, or `default`.
    pub fn home(&self) -> &str {
        Some(self.text(Part::Namespace)).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// What distinguishes it from other events. The resource version of the object does not: the same event for a newer
    /// state is a repeat.
    pub fn content(&self) -> impl std::hash::Hash + '_ {
        self.until(Part::Message)
    }

    /// What it has in common with similar events: all but the message.
    pub fn subject(&self) -> impl std::hash::Hash + '_ {
        self.until(Part::Uid)
    }

    fn until(&self, last: Part) -> impl std::hash::Hash + '_ {
        let (ends, end) = (&self.ends[..=last as usize], self.ends[last as usize] as usize);
        (ends, &self.texts[..end], self.type_, self.reason, &*self.component)
    }

    /// The event in the place of several similar ones, with the message of the last.
    pub fn combined(&self) -> Self {
        let message = [COMBINED, self.text(Part::Message)].concat();
        let subject = [Part::ApiVersion, Part::Kind, Part::Namespace, Part::Name, Part::Uid, Part::ResourceVersion];
        let subject = subject.map(|part| self.text(part));
        Self::new(subject, self.type_, self.reason, &cut(message), self.component.clone(), self.at)
    }
}
