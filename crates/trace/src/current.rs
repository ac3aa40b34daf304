//! The span in which a task runs: set around the polls of a future, so that it follows the task from thread to thread.

use std::borrow::Cow;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use pin_project_lite::pin_project;

use crate::span::{Attribute, Kind, Scope, Span};

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Begins a child of the current span; `None` without one.
pub fn child(kind: Kind, name: impl Into<Cow<'static, str>>) -> Option<Span> {
    CURRENT.with_borrow(|current| current.as_ref().map(|scope| scope.child(kind, name.into())))
}

/// Names the current span in the headers of a request; without one they stay as they are.
pub fn propagate(headers: &mut HeaderMap) {
    CURRENT.with_borrow(|current| {
        if let Some(scope) = current {
            scope.propagate(headers);
        }
    });
}

/// Runs a future in a span; without one it runs in the current span, if there is one.
pub fn within<F: Future>(scope: Option<Scope>, future: F) -> Within<F> {
    Within { future, scope, span: None }
}

/// Runs a future in a child of the current span, which ends with it. Attributes are computed only if there is one.
pub fn step<F: Future>(name: &'static str, attributes: impl FnOnce() -> Vec<Attribute>, future: F) -> Within<F> {
    let span = child(Kind::Internal, name).map(|mut span| {
        attributes().into_iter().for_each(|(name, value)| span.set(name, value));
        span
    });
    Within { future, scope: span.as_ref().map(Span::scope), span }
}

pin_project! {
    /// A future that runs in a span.
    pub struct Within<F> {
        #[pin]
        future: F,
        scope: Option<Scope>,
        // Ends with the future.
        span: Option<Span>,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.scope.is_none() {
            return this.future.poll(context);
        }
        let entered = Entered::new(this.scope);
        let polled = this.future.poll(context);
        drop(entered);
        if polled.is_ready() {
            drop(this.span.take());
        }
        polled
    }
}

/// Restores the span of the surrounding code, also after a panic.
struct Entered<'a>(&'a mut Option<Scope>);

impl<'a> Entered<'a> {
    fn new(scope: &'a mut Option<Scope>) -> Self {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, scope));
        Self(scope)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use world::World;

    use super::*;
    use crate::{Finished, Sink, Tracer};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Finished>>>);

    impl Sink for Kept {
        fn take(&self, span: Finished) {
            self.0.lock().push(span);
        }
    }

    fn root(kept: &Kept) -> Span {
        let tracer = Tracer::new(World::system(), 1_000_000, kept.clone());
        tracer.request(None, false, Duration::ZERO, || "root".to_owned()).expect("sampled")
    }

    async fn work(name: &'static str) {
        step(name, || vec![("a", "1".into())], async {
            tokio::task::yield_now().await;
            step("inner", Vec::new, tokio::task::yield_now()).await;
        })
        .await;
    }

    #[tokio::test]
    async fn steps_are_children_of_the_step_that_runs_them() {
        let kept = Kept::default();
        let span = root(&kept);
        let scope = span.scope();
        // Two concurrent spans in one task, and another task without a span.
        let beside = tokio::spawn(work("beside"));
        within(Some(scope.clone()), async { tokio::join!(work("first"), work("second")) }).await;
        beside.await.expect("ends");
        assert!(child(Kind::Internal, "after").is_none(), "the surrounding code has no span");
        drop(span);
        let spans = kept.0.lock();
        let parent = |span: &Finished| {
            let of = spans.iter().find(|other| Some(other.context.span) == span.parent);
            of.map_or_else(String::new, |of| of.name.to_string())
        };
        let mut found: Vec<_> = spans.iter().map(|span| format!("{} < {}", span.name, parent(span))).collect();
        found.sort();
        assert_eq!(found, ["first < root", "inner < first", "inner < second", "root < ", "second < root"]);
        assert!(spans.iter().all(|span| span.context.trace == scope.context().trace));
        assert!(spans.iter().any(|span| span.attributes == [("a", "1".into())]));
    }

    #[tokio::test]
    async fn headers_name_the_current_span() {
        let kept = Kept::default();
        let span = root(&kept);
        let mut headers = HeaderMap::new();
        propagate(&mut headers);
        assert!(headers.is_empty());
        headers.insert("tracestate", http::HeaderValue::from_static("of=another"));
        within(Some(span.scope()), async { propagate(&mut headers) }).await;
        assert_eq!(
            headers.get("traceparent").map(http::HeaderValue::as_bytes),
            Some(span.scope().context().header().as_bytes())
        );
        assert!(!headers.contains_key("tracestate"), "of the request's own trace, or none");
    }

    #[tokio::test]
    async fn a_panic_leaves_no_span_behind() {
        use std::panic::AssertUnwindSafe;
        let kept = Kept::default();
        let span = root(&kept);
        let mut panics = Box::pin(within(Some(span.scope()), async { panic!("on purpose") }));
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            panics.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
        }));
        assert!(polled.is_err() && child(Kind::Internal, "after").is_none());
    }
}
