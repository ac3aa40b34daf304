//! Spans of requests, in the terms of OpenTelemetry: sampling ([`Tracer`]), the content of a span ([`Span`]), and the
//! current span of a task ([`within`], [`child`]). Finished spans are sent to a [`Sink`].
//!
//! There is no global state; code without a current span costs one read of a thread-local variable.

#![warn(missing_docs)]

mod context;
mod current;
mod sampling;
mod span;

pub use context::{Remote, SpanContext};
pub use current::{Within, child, propagate, step, within};
pub use span::{Attribute, Finished, Kind, Scope, Sink, Span, Tracer, Value};
