//! The identity of a span, and W3C Trace Context: the headers in which it travels.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
/// The length that everyone has to pass on, by the specification. A longer list is dropped.
const MAX_STATE: usize = 512;
/// `00-TRACE-SPAN-FLAGS`
const LENGTH: usize = 55;

/// A span, and whether its trace is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Never zero.
    pub trace: u128,
    /// Never zero.
    pub span: u64,
    /// Whether the spans of this trace are recorded.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Reads a `traceparent`. `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let fields = text.get(..LENGTH)?;
        let mut parts = fields.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let rest = &text[LENGTH..];
        let is_known = match version {
            "00" => rest.is_empty(),
            // Later versions may append fields.
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let lengths = [version.len(), trace.len(), span.len(), flags.len()];
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        if !is_known || version == "ff" || lengths != [2, 32, 16, 2] || !fields.bytes().all(is_hex) {
            return None;
        }
        u8::from_str_radix(version, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        (trace != 0 && span != 0).then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }

    /// The `traceparent` of this span.
    pub fn header(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// The span of another program that a request names.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The span.
    pub context: SpanContext,
    /// The `tracestate`, which is forwarded unchanged.
    pub(crate) state: Option<Arc<str>>,
}

impl Remote {
    /// The span in the headers of a request; `None` if they have none, or are malformed.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
        let context = SpanContext::parse(parent.to_str().ok()?)?;
        let states: Vec<&str> =
            headers.get_all(TRACESTATE).iter().map(|value| value.to_str().unwrap_or_default()).collect();
        let state = states.join(",");
        let state = Some(state).filter(|state| !state.is_empty() && state.len() <= MAX_STATE);
        Some(Self { context, state: state.map(Into::into) })
    }
}

/// Names a span in the headers of a request, instead of any other.
pub(crate) fn write(context: SpanContext, state: Option<&str>, headers: &mut HeaderMap) {
    if let Ok(value) = HeaderValue::from_str(&context.header()) {
        headers.insert(TRACEPARENT, value);
    }
    match state.and_then(|state| HeaderValue::from_str(state).ok()) {
        Some(value) => headers.insert(TRACESTATE, value),
        None => headers.remove(TRACESTATE),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn headers_are_read_as_the_specification_has_them() {
        for (text, expected) in [
            (format!("00-{TRACE}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{TRACE}-00f067aa0ba902b7-00"), Some(false)),
            (format!("00-{TRACE}-00f067aa0ba902b7-03"), Some(true)),
            (format!("01-{TRACE}-00f067aa0ba902b7-01-more"), Some(true)),
            (format!("00-{TRACE}-00f067aa0ba902b7-01-more"), None),
            (format!("01-{TRACE}-00f067aa0ba902b7-01more"), None),
            (format!("ff-{TRACE}-00f067aa0ba902b7-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-0000000000000000-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-00f067aa0ba902b7-0"), None),
            (format!("00-{TRACE}-00f067aa0ba902b7"), None),
            (format!("00-{TRACE}0-0f067aa0ba902b7-01"), None),
            (format!("0-0{TRACE}-00f067aa0ba902b7-01"), None),
            (format!("00-{TRACE}-00f067aa0ba902bä-1"), None),
            ("ä".repeat(40), None),
            (String::new(), None),
        ] {
            let found = SpanContext::parse(&text);
            assert_eq!(found.map(|context| context.is_sampled), expected, "{text}");
            if let (Some(context), true) = (found, text.starts_with("00")) {
                assert_eq!(context.header()[..53], text[..53]);
            }
        }
    }

    #[test]
    fn a_request_names_one_span() {
        let of = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_str(value).expect("a value"));
            }
            Remote::of(&headers).map(|remote| remote.state.unwrap_or_default().to_string())
        };
        let parent = &format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(TRACEPARENT, parent)]).as_deref(), Some(""));
        assert_eq!(of(&[(TRACEPARENT, parent), (TRACEPARENT, parent)]), None);
        let states = [(TRACEPARENT, parent.as_str()), (TRACESTATE, "a=1"), (TRACESTATE, "b=2")];
        assert_eq!(of(&states).as_deref(), Some("a=1,b=2"));
        assert_eq!(of(&[(TRACEPARENT, parent), (TRACESTATE, &"a".repeat(513))]).as_deref(), Some(""));
    }
}
