//! Spans of requests, in the terms of OpenTelemetry: which requests are sampled ([`Tracer`]), what a span records
//! ([`Span`]), and the span that the code of a task runs in ([`within`], [`child`]). Finished spans go to a [`Sink`].
//!
//! Nothing here is global, and code without a current span pays for a look at a thread-local variable.

#![warn(missing_docs)]

mod context;
mod current;
mod sampling;
mod span;

pub use context::{Remote, SpanContext};
pub use current::{Within, child, propagate, step, within};
pub use span::{Attribute, Finished, Kind, Scope, Sink, Span, Tracer, Value};
