//! Reading what the store holds when a server starts: many objects at once, on all processors.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use storage::KeyValue;

use crate::keys;

/// The objects of one resource, in order.
pub(super) type Loaded = (String, Vec<(ObjectKey, Arc<Object>)>);

/// Fewer than this many are parsed in less time than it takes to hand them out.
const SHARE: usize = 2048;

/// The stored objects by resource. A value that is no object is told of and left out.
pub(super) async fn parse(mut items: Vec<KeyValue>) -> Vec<Loaded> {
    if items.len() < SHARE {
        return by_resource(items);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(processors).max(SHARE);
    let mut tasks = Vec::new();
    while !items.is_empty() {
        let rest = items.split_off(share.min(items.len()));
        let own = std::mem::replace(&mut items, rest);
        tasks.push(tokio::task::spawn_blocking(|| by_resource(own)));
    }
    let mut all = Vec::new();
    for task in tasks {
        // A task that cannot be awaited belongs to a runtime that is ending.
        all.extend(task.await.unwrap_or_default());
    }
    all
}

/// Neighbours of one resource together; the store has them in the order of their keys.
fn by_resource(items: Vec<KeyValue>) -> Vec<Loaded> {
    let mut all: Vec<Loaded> = Vec::new();
    for item in items {
        let Some((place, key)) = keys::split(&item.key) else { continue };
        match keys::with_revision(&item.value, item.mod_revision) {
            Ok(object) => match all.last_mut() {
                Some((last, objects)) if last == place => objects.push((key, object.shared())),
                _ => all.push((place.to_owned(), vec![(key, object.shared())])),
            },
            Err(error) => {
                tracing::error!(key = %String::from_utf8_lossy(&item.key), %error, "the store holds a value that is no object");
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(key: String, n: u64) -> KeyValue {
        let value = format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"n{n:06}"}}}}"#);
        KeyValue { key: key.into(), value: value.into(), create_revision: n, mod_revision: n, lease: None }
    }

    #[tokio::test]
    async fn many_are_parsed_as_few_are() {
        let count = 3 * SHARE as u64;
        let place = |n: u64| if n < 100 { "core/a" } else { "core/b" };
        let mut items: Vec<_> = (0..count).map(|n| stored(format!("/registry/{}/n{n:06}", place(n)), n)).collect();
        items.push(KeyValue { value: "no object".into(), ..stored("/registry/core/b/z".into(), 9) });
        let mut seen = Vec::new();
        for (place, objects) in parse(items.clone()).await {
            seen.extend(objects.iter().map(|(key, object)| (place.clone(), key.clone(), object.revision())));
        }
        let few = by_resource(items);
        assert_eq!(
            few.iter().map(|(place, objects)| (place.as_str(), objects.len())).collect::<Vec<_>>(),
            [("core/a", 100), ("core/b", count as usize - 100)]
        );
        let few: Vec<_> = few
            .iter()
            .flat_map(|(place, objects)| {
                objects.iter().map(|(key, object)| (place.clone(), key.clone(), object.revision()))
            })
            .collect();
        assert_eq!(seen, few);
        assert_eq!(seen.len() as u64, count);
    }
}
