//! The messages of OTLP's trace service. Field numbers are the contract; unused fields are omitted.

use prost::{Message, Oneof};
use trace::{Finished, Kind, Value};

/// The method of the service.
pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// `Status.code` of a span that failed.
const ERROR: i32 = 2;

/// Spans by their source.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    /// The sources.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The answer.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceResponse {
    /// The number of rejected spans, and the reason.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

/// Spans that the collector refused.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTracePartialSuccess {
    /// Their number.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// The reason.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The spans of a source.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The source.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By the library that recorded them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A source of spans.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans of a library.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The library.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A library that records spans.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the names are OTLP's")]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// Another span that caused one.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the names are OTLP's")]
pub struct Link {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(fixed32, tag = "6")]
    pub flags: u32,
}

/// Whether a span failed.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the names are OTLP's")]
pub struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the names are OTLP's")]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// By its type.
    #[prost(oneof = "Any", tags = "1, 3")]
    pub value: Option<Any>,
}

/// The types of values that are sent.
#[derive(Clone, PartialEq, Oneof)]
pub enum Any {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A number.
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// An attribute with a text.
pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Any::Text(value.to_owned())) }) }
}

/// A request with the spans of one source.
pub(crate) fn request(resource: &[KeyValue], spans: &[Finished]) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope { name: "karmada".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = ScopeSpans { scope: Some(scope), spans: spans.iter().map(span).collect() };
    let source = ResourceSpans { resource: Some(Resource { attributes: resource.to_vec() }), scope_spans: vec![spans] };
    ExportTraceServiceRequest { resource_spans: vec![source] }
}

fn span(finished: &Finished) -> Span {
    let nanos = |time: jiff::Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or_default();
    let attribute = |(key, value): &trace::Attribute| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue {
            value: Some(match value {
                Value::Text(text) => Any::Text(text.clone().into_owned()),
                Value::Number(number) => Any::Number(*number),
            }),
        }),
    };
    let context = finished.context;
    Span {
        trace_id: context.trace.to_be_bytes().to_vec(),
        span_id: context.span.to_be_bytes().to_vec(),
        trace_state: finished.state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: finished.parent.map(|parent| parent.to_be_bytes().to_vec()).unwrap_or_default(),
        name: finished.name.clone().into_owned(),
        kind: match finished.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
        start_time_unix_nano: nanos(finished.started),
        end_time_unix_nano: nanos(finished.ended),
        attributes: finished.attributes.iter().map(attribute).collect(),
        links: finished.link.map(link).into_iter().collect(),
        status: finished.error.as_ref().map(|why| Status { message: why.clone(), code: ERROR }),
        flags: u32::from(context.is_sampled),
    }
}

fn link(context: trace::SpanContext) -> Link {
    Link {
        trace_id: context.trace.to_be_bytes().to_vec(),
        span_id: context.span.to_be_bytes().to_vec(),
        flags: u32::from(context.is_sampled),
    }
}
