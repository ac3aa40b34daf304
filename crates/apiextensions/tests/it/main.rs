//! Custom resources through the public interface: the errors of a definition's rules, and their texts.

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
