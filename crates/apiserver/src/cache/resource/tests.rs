//! Pages, lists and histories of one resource.

use super::super::log::{BACKLOG_BYTES, LAG, LAG_BYTES};
use super::*;

#[test]
fn pages_stay_in_their_namespace_with_any_token() {
    let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
    let object = || Object::parse("{}").expect("an object").shared();
    let keys = ["a", "a-b", "b", "c"].map(|ns| ["x", "y", "z"].map(|name| ObjectKey::namespaced(ns, name)));
    cache.load(keys.iter().flatten().map(|key| (key.clone(), object())), 1);
    let page = |ns: Option<&str>, after: Option<&ObjectKey>| {
        let (items, rest, _) = cache.list(ns, after, 2, |_| true).expect("all can be read");
        (items.len(), rest)
    };
    assert_eq!(page(None, None), (2, 10));
    assert_eq!(page(Some("a"), None), (2, 1));
    assert_eq!(page(Some("a"), Some(&keys[0][1])), (1, 0));
    assert_eq!(page(Some("b"), Some(&keys[2][2])), (0, 0));
    assert_eq!(page(None, Some(&keys[1][2])), (2, 4));
    for foreign in [&keys[1][0], &keys[3][2], &ObjectKey::cluster("x"), &ObjectKey::namespaced("a\0", "")] {
        assert_eq!(page(Some("a"), Some(foreign)), (0, 0), "{foreign}");
    }
    assert_eq!(
        cache.subscribe(Selection { namespace: Some("a"), name: None }, 1).expect("all can be read").initial.len(),
        3
    );
    assert_eq!(cache.subscribe(Selection::default(), 1).expect("all can be read").initial.len(), 12);
}

fn change(cache: &Arc<ResourceCache>, revision: Revision, size: usize) {
    let value = format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"a"}},"data":"{}"}}"#, "x".repeat(size));
    let current = storage::KeyValue {
        key: "/registry/core/xs/a".into(),
        value: value.into(),
        create_revision: 1,
        mod_revision: revision,
        lease: None,
    };
    let change = Change::Put { current, previous: None };
    let event = cache.absorb(ObjectKey::cluster("a"), revision, &change).expect("an object");
    cache.deliver(event);
}

fn position(events: &mut Events) -> Option<Option<Revision>> {
    events.now().map(|event| event.map(|event| event.revision))
}

#[test]
fn a_stalled_watcher_ends_and_others_miss_nothing() {
    // Many small changes, and few large ones.
    for (size, count) in [(1, LAG as u64 + 100), (LAG_BYTES / 20, 30)] {
        let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
        let [mut slow, mut quick] =
            [(); 2].map(|()| cache.subscribe(Selection::default(), 1).expect("all can be read"));
        for revision in 2..count {
            change(&cache, revision, size);
            assert_eq!(position(&mut quick.events), Some(Some(revision)));
            let (events, bytes) = cache.log().held();
            assert!(events <= LAG && bytes <= LAG_BYTES, "{events} changes of {bytes} bytes");
        }
        assert_eq!(position(&mut slow.events), Some(None));
        assert_eq!(position(&mut quick.events), None);
        drop(slow);
        let (events, bytes) = cache.log().held();
        assert!(events <= HISTORY && bytes <= HISTORY_BYTES, "{events} changes of {bytes} bytes");
    }
}

#[test]
fn a_thousand_stalled_watchers_share_one_log() {
    let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
    let watchers: Vec<_> =
        (0..1000).map(|_| cache.subscribe(Selection::default(), 1).expect("all can be read")).collect();
    (2..100).for_each(|revision| change(&cache, revision, HISTORY_BYTES / 10));
    assert_eq!(cache.log().held().0, 98, "nothing is dropped that one of them may still read");
    assert!(watchers.iter().all(|watcher| watcher.initial.is_empty()));
    drop(watchers);
    assert!(cache.log().held().0 <= 10);
}

#[test]
fn slow_watchers_of_many_resources_share_one_bound() {
    let backlog = Arc::new(AtomicUsize::new(0));
    let mut all = Vec::new();
    for n in 0..5 {
        let cache = Arc::new(ResourceCache::new(format!("core/r{n}").into(), 1, Arc::clone(&backlog)));
        let slow = cache.subscribe(Selection::default(), 1).expect("all can be read");
        (2..50).for_each(|revision| change(&cache, revision, 1 << 20));
        all.push((cache, slow));
    }
    let held: usize = all.iter().map(|(cache, _)| cache.log().held().1).sum();
    assert!(held <= BACKLOG_BYTES + all.len() * 3 * HISTORY_BYTES, "{held} bytes");
    assert!(held > BACKLOG_BYTES / 2, "{held} bytes");
    drop(all);
    assert_eq!(backlog.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn deletions_count_the_size_of_their_object() {
    let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
    for revision in (2..100).step_by(2) {
        change(&cache, revision, HISTORY_BYTES / 10);
        let previous = storage::KeyValue {
            key: "/registry/core/xs/a".into(),
            value: Default::default(),
            create_revision: 1,
            mod_revision: revision,
            lease: None,
        };
        let deleted =
            cache.absorb(ObjectKey::cluster("a"), revision + 1, &Change::Delete { previous }).expect("it is gone");
        cache.deliver(deleted);
    }
    assert!(cache.log().held().0 <= 10);
}

#[test]
fn history_is_bounded_by_count_and_bytes() {
    for (size, at_most) in [(1, HISTORY), (HISTORY_BYTES / 10, 10)] {
        let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
        let last = at_most as u64 + 100;
        (2..=last).for_each(|revision| change(&cache, revision, size));
        let (events, _) = cache.log().held();
        assert!(events <= at_most && events + 1 >= at_most, "{events}");
        assert!(cache.state.read().objects.values().all(|object| object.size() > size), "what is kept can be read");
        // A watch from the oldest covered revision receives all later changes.
        let from = cache.log().from;
        let mut watch = cache.subscribe_after(Selection::default(), from, last);
        assert_eq!(watch.revision, from);
        assert!((from + 1..=last).all(|revision| position(&mut watch.events) == Some(Some(revision))));
    }
}

fn change_of(cache: &Arc<ResourceCache>, revision: Revision, namespace: &str, name: &str) {
    let value = format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#);
    let current = storage::KeyValue {
        key: format!("/registry/core/xs/{namespace}/{name}").into(),
        value: value.into(),
        create_revision: 1,
        mod_revision: revision,
        lease: None,
    };
    let change = Change::Put { current, previous: None };
    let event = cache.absorb(ObjectKey::namespaced(namespace, name), revision, &change).expect("an object");
    cache.deliver(event);
}

/// Counts how often a watcher is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_change_wakes_only_the_watchers_that_may_select_it() {
    let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
    let scope = |namespace, name| Selection { namespace, name };
    let scopes = [
        scope(None, None),
        scope(Some("busy"), None),
        scope(None, Some("a")),
        scope(Some("busy"), Some("a")),
        scope(Some("quiet"), None),
        scope(None, Some("b")),
        scope(Some("busy"), Some("b")),
        scope(Some("quiet"), Some("a")),
    ];
    let woken = scopes.map(|_| Arc::new(Woken::default()));
    let mut watchers = scopes.map(|scope| cache.subscribe(scope, 1).expect("all can be read").events);
    for revision in 2..LAG as u64 + 1000 {
        for (events, woken) in watchers.iter_mut().zip(&woken) {
            let waker = std::task::Waker::from(Arc::clone(woken));
            let mut context = std::task::Context::from_waker(&waker);
            while let std::task::Poll::Ready(found) = std::pin::pin!(events.recv()).poll(&mut context) {
                assert!(found.is_some(), "no watcher ends");
            }
        }
        change_of(&cache, revision, "busy", "a");
    }
    let counts = woken.map(|woken| woken.0.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(counts, [LAG + 998, LAG + 998, LAG + 998, LAG + 998, 0, 0, 0, 0]);
    // Those that nothing concerned have missed nothing.
    change_of(&cache, 1 << 20, "quiet", "a");
    change_of(&cache, (1 << 20) + 1, "busy", "b");
    let last: Vec<_> = watchers[4..].iter_mut().map(|events| (position(events), position(events))).collect();
    let one = |revision| (Some(Some(revision)), None);
    assert_eq!(last, [one(1 << 20), one((1 << 20) + 1), one((1 << 20) + 1), one(1 << 20)]);
}

/// Watchers of all scopes that come, read and leave at random receive what they select, in order.
#[test]
fn watchers_receive_what_they_select() {
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below as u64).expect("small")
    };
    let (namespaces, names) = (["a", "b", "c"], ["x", "y"]);
    let cache = Arc::new(ResourceCache::new("core/xs".into(), 1, Arc::default()));
    let mut all: Vec<(Revision, &str, &str)> = Vec::new();
    let mut watchers: Vec<(Events, Option<&str>, Option<&str>, Revision)> = Vec::new();
    let mut received = 0;
    for step in 0..20_000 {
        match random(8) {
            0..4 => {
                let (revision, namespace, name) = (all.len() as u64 + 2, namespaces[random(3)], names[random(2)]);
                change_of(&cache, revision, namespace, name);
                all.push((revision, namespace, name));
            }
            4 if watchers.len() < 30 => {
                let namespace = [None, Some(namespaces[random(3)])][random(2)];
                let name = [None, Some(names[random(2)])][random(2)];
                let newest = all.len() as u64 + 1;
                let from = newest - (random(100) as u64).min(newest - 1);
                let watch = cache.subscribe_after(Selection { namespace, name }, from, newest);
                assert_eq!(watch.revision, from);
                watchers.push((watch.events, namespace, name, from));
            }
            5 if !watchers.is_empty() => drop(watchers.swap_remove(random(watchers.len()))),
            _ if !watchers.is_empty() => {
                let chosen = random(watchers.len());
                let (events, namespace, name, reached) = &mut watchers[chosen];
                let mut expected = all.iter().filter(|(revision, in_namespace, named)| {
                    revision > reached
                        && namespace.is_none_or(|only| only == *in_namespace)
                        && name.is_none_or(|only| only == *named)
                });
                // Some read everything, others a few changes.
                let mut found = Vec::new();
                let most = [5, usize::MAX][random(2)];
                while found.len() < most
                    && let Some(revision) = position(events)
                {
                    found.push(revision.expect("no watcher ends"));
                }
                received += found.len();
                assert!(found.iter().all(|revision| Some(revision) == expected.next().map(|(it, ..)| it)), "{step}");
                if found.len() < most {
                    assert_eq!(expected.next(), None, "{step}: nothing is left");
                }
                *reached = found.last().copied().unwrap_or(*reached);
            }
            _ => {}
        }
    }
    assert!(received > 10_000, "{received}");
    // At the end each receives the rest.
    assert!(!cache.retire(), "it has objects");
    cache.lose(ObjectKey::namespaced("a", "x"), "damaged".into());
    for (events, namespace, name, reached) in &mut watchers {
        let rest = all.iter().filter(|(revision, in_namespace, named)| {
            revision > reached
                && namespace.is_none_or(|only| only == *in_namespace)
                && name.is_none_or(|only| only == *named)
        });
        let expected: Vec<_> = rest.map(|(revision, ..)| *revision).collect();
        let found: Vec<_> = std::iter::from_fn(|| position(events)).map_while(|revision| revision).collect();
        assert_eq!(found, expected);
    }
}
