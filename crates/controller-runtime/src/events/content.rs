//! What is compared of Events.

use std::hash::Hash;

use transport::{EventDraft, EventPart};

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

/// The namespace of the event: that of its object, or `default`.
pub(super) fn home(event: &EventDraft) -> &str {
    Some(event.text(EventPart::Namespace)).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// What distinguishes it from other events. The resource version of the object does not: the same event for a newer
/// state is a repeat.
pub(super) fn content(event: &EventDraft) -> impl Hash + '_ {
    until(event, EventPart::Message)
}

/// What it has in common with similar events: all but the message.
pub(super) fn subject(event: &EventDraft) -> impl Hash + '_ {
    until(event, EventPart::Uid)
}

fn until(event: &EventDraft, last: EventPart) -> impl Hash + '_ {
    (event.until(last), event.type_, event.reason, &*event.component)
}

/// The event in the place of several similar ones, with the message of the last.
pub(super) fn combined(event: &EventDraft) -> EventDraft {
    let message = cut([COMBINED, event.text(EventPart::Message)].concat());
    let text = |part| event.text(part);
    let texts = [
        text(EventPart::ApiVersion),
        text(EventPart::Kind),
        text(EventPart::Namespace),
        text(EventPart::Name),
        text(EventPart::Uid),
        &*message,
        text(EventPart::ResourceVersion),
    ];
    EventDraft::new(texts, event.type_, event.reason, event.component.clone(), event.at)
}
