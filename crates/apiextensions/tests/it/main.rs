//! Custom resources from outside: what a definition's rules refuse, and in which words.

mod accepted;
mod definitions;
mod rules;
mod schemas;

use apimachinery::meta::Time;
use apimachinery::resource::RequestContext;

fn context() -> RequestContext {
    let now = Time::new("2026-01-02T03:04:05Z".parse().expect("a time"));
    let (user, groups, subresource) = ("someone".to_owned(), Vec::new(), String::new());
    RequestContext { now, user, groups, subresource, dry_run: false }
}
