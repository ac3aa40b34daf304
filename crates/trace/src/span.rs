//! Spans from their start to their end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use world::World;

use crate::context::{self, Remote, SpanContext};
use crate::sampling::Ratio;

/// Bytes of a text in an attribute; the rest is cut off. A client chooses its path and its user agent.
const MAX_TEXT: usize = 1024;

/// The role of a span in its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A step within the program.
    #[default]
    Internal,
    /// A request that the program answers.
    Server,
    /// A request that the program sends.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(mut text: String) -> Self {
        if text.len() > MAX_TEXT {
            let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            text.truncate(end);
        }
        Self::Text(Cow::Owned(text))
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

/// The name and the value of an attribute.
pub type Attribute = (&'static str, Value);

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The span and its trace.
    pub context: SpanContext,
    /// The `tracestate` of the trace.
    pub state: Option<Arc<str>>,
    /// The parent's span; `None` for the first of the trace.
    pub parent: Option<u64>,
    /// A span of another trace that caused this one.
    pub link: Option<SpanContext>,
    /// The operation.
    pub name: Cow<'static, str>,
    /// Its role.
    pub kind: Kind,
    /// The start.
    pub started: Timestamp,
    /// The end.
    pub ended: Timestamp,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// Why it failed; empty for a failure without a text.
    pub error: Option<String>,
}

/// Receives the spans that have ended.
pub trait Sink: Send + Sync + 'static {
    /// Must not block: it runs within the request.
    fn take(&self, span: Finished);
}

/// Decides which requests have spans, and begins them.
pub struct Tracer {
    world: World,
    ratio: Ratio,
    sink: Box<dyn Sink>,
}

impl Tracer {
    /// `per_million` is the number of sampled requests of a million whose client has not decided.
    pub fn new(world: World, per_million: u32, sink: impl Sink) -> Arc<Self> {
        Arc::new(Self { world, ratio: Ratio::new(per_million), sink: Box::new(sink) })
    }

    /// Begins the span of a request that was received `since` ago; `None` if it is not sampled.
    ///
    /// A client that `decides` continues its trace, sampled or not. The span of any other client is only linked, so
    /// that it cannot have more of its requests recorded than the configured share.
    pub fn request(
        self: &Arc<Self>,
        remote: Option<Remote>,
        decides: bool,
        since: Duration,
        name: impl FnOnce() -> String,
    ) -> Option<Span> {
        let (trace, parent, link, state) = match remote {
            Some(Remote { context, .. }) if decides && !context.is_sampled => return None,
            Some(Remote { context, state }) if decides => (context.trace, Some(context.span), None, state),
            remote => {
                if self.ratio.is_zero() {
                    return None;
                }
                let trace = u128::from(self.identity()) << 64 | u128::from(self.identity());
                if !self.ratio.samples(trace) {
                    return None;
                }
                (trace, None, remote.map(|remote| remote.context), None)
            }
        };
        let context = SpanContext { trace, span: self.identity(), is_sampled: true };
        let scope = Scope::new(Arc::clone(self), context, state);
        let started = self.world.now() - since;
        Some(Span::begin(scope, parent, link, (Kind::Server, name().into()), started))
    }

    fn identity(&self) -> u64 {
        self.world.random_u64().max(1)
    }
}

/// A span as the parent of others. One pointer: the futures of requests without a span have room for it, too.
#[derive(Clone)]
pub struct Scope(Arc<Parent>);

struct Parent {
    tracer: Arc<Tracer>,
    context: SpanContext,
    state: Option<Arc<str>>,
}

impl Scope {
    fn new(tracer: Arc<Tracer>, context: SpanContext, state: Option<Arc<str>>) -> Self {
        Self(Arc::new(Parent { tracer, context, state }))
    }

    /// The span.
    pub fn context(&self) -> SpanContext {
        self.0.context
    }

    /// Names the span in the headers of a request, instead of any other.
    pub fn propagate(&self, headers: &mut HeaderMap) {
        context::write(self.0.context, self.0.state.as_deref(), headers);
    }

    pub(crate) fn child(&self, kind: Kind, name: Cow<'static, str>) -> Span {
        let Parent { tracer, context, state } = &*self.0;
        let own = SpanContext { span: tracer.identity(), ..*context };
        let scope = Self::new(Arc::clone(tracer), own, state.clone());
        Span::begin(scope, Some(context.span), None, (kind, name), tracer.world.now())
    }
}

/// A span that is under way. It ends when it is dropped.
pub struct Span {
    scope: Scope,
    /// Taken at the end.
    record: Option<Box<Finished>>,
}

impl Span {
    fn begin(
        scope: Scope,
        parent: Option<u64>,
        link: Option<SpanContext>,
        (kind, name): (Kind, Cow<'static, str>),
        started: Timestamp,
    ) -> Self {
        let record = Finished {
            context: scope.0.context,
            state: scope.0.state.clone(),
            parent,
            link,
            name,
            kind,
            started,
            ended: started,
            attributes: Vec::new(),
            error: None,
        };
        Self { scope, record: Some(Box::new(record)) }
    }

    /// The span as the parent of others.
    pub fn scope(&self) -> Scope {
        self.scope.clone()
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(record) = &mut self.record {
            record.attributes.push((name, value.into()));
        }
    }

    /// Records a failure.
    pub fn fail(&mut self, why: impl Into<String>) {
        if let (Some(record), Value::Text(why)) = (&mut self.record, Value::from(why.into())) {
            record.error = Some(why.into_owned());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        let tracer = &self.scope.0.tracer;
        // The clock may have been set back.
        record.ended = tracer.world.now().max(record.started);
        tracer.sink.take(*record);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Finished>>>);

    impl Sink for Kept {
        fn take(&self, span: Finished) {
            self.0.lock().push(span);
        }
    }

    fn remote(is_sampled: bool) -> Option<Remote> {
        let state = Some("a=1".into());
        Some(Remote { context: SpanContext { trace: 7, span: 9, is_sampled }, state })
    }

    /// The trace of the span (`new` for a new trace), its parent and its link.
    fn begun(per_million: u32, remote: Option<Remote>, decides: bool) -> String {
        let kept = Kept::default();
        let tracer = Tracer::new(World::system(), per_million, kept.clone());
        drop(tracer.request(remote, decides, Duration::ZERO, || "GET".to_owned()));
        let spans = kept.0.lock();
        let Some(span) = spans.first() else { return "none".to_owned() };
        let trace = if span.context.trace == 7 { "7" } else { "new" };
        let link = span.link.map(|link| link.span);
        format!("{trace} parent={:?} link={link:?} state={:?}", span.parent, span.state.as_deref())
    }

    #[test]
    fn parents_decide_and_the_ratio_decides_about_the_others() {
        const ALL: u32 = 1_000_000;
        let own = "new parent=None link=None state=None";
        let linked = "new parent=None link=Some(9) state=None";
        let followed = "7 parent=Some(9) link=None state=Some(\"a=1\")";
        for (per_million, remote, decides, expected) in [
            (0, None, true, "none"),
            (ALL, None, true, own),
            (0, remote(true), true, followed),
            (ALL, remote(true), true, followed),
            (ALL, remote(false), true, "none"),
            // A client without the right to decide about sampling.
            (0, remote(true), false, "none"),
            (ALL, remote(true), false, linked),
            (ALL, remote(false), false, linked),
        ] {
            assert_eq!(begun(per_million, remote, decides), expected, "{per_million} {decides}");
        }
    }

    #[test]
    fn about_the_configured_share_is_sampled() {
        let kept = Kept::default();
        let tracer = Tracer::new(World::system(), 250_000, kept.clone());
        (0..20_000).for_each(|_| drop(tracer.request(None, false, Duration::ZERO, String::new)));
        let sampled = kept.0.lock().len();
        // Twelve standard deviations.
        assert!((4_250..5_750).contains(&sampled), "{sampled} of 20000");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cut = |text: String| match Value::from(text) {
            Value::Text(text) => text.len(),
            Value::Number(_) => 0,
        };
        assert_eq!([cut("a".repeat(2000)), cut("ä".repeat(600)), cut("€".repeat(600))], [1024, 1024, 1023]);
    }

    #[test]
    fn a_request_began_before_its_span() {
        let kept = Kept::default();
        let tracer = Tracer::new(World::system(), 1_000_000, kept.clone());
        drop(tracer.request(None, false, Duration::from_secs(3), String::new));
        let span = kept.0.lock().remove(0);
        assert!(span.ended.duration_since(span.started).as_secs() >= 3);
    }
}
