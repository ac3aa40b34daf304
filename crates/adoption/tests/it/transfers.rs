//! Surveys and copies of whole stores.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adoption::installation::{self, UNFINISHED};
use adoption::reading;
use adoption::store::ReadableStore;
use adoption::survey::Survey;
use adoption::transfer::{self, Target};
use bytes::Bytes;
use futures::FutureExt as _;
use storage::embedded::{EmbeddedStore, Options};
use storage::memory::MemoryStore;
use storage::{Error, KeyRange, Op, RangeRequest, Store, Txn};

use crate::SECRET;
use crate::upstream::{fill, json, leftovers, plain};

async fn surveyed(store: &dyn Store) -> Survey {
    let shown = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    reading::survey(store, &shown, &mut |_, _| {}).await.unwrap()
}

async fn everything(store: &dyn Store) -> Vec<(Bytes, Bytes, u64)> {
    let all = RangeRequest { range: KeyRange { start: "".into(), end: "".into() }, revision: None, limit: 0 };
    store.range(all).await.unwrap().items.into_iter().map(|it| (it.key, it.value, it.mod_revision)).collect()
}

fn unencrypted() -> Target<'static> {
    Target { seal: &|_, value| Ok(value), opened: &|store| store }
}

#[tokio::test]
async fn a_survey_lists_content_and_required_steps() {
    let store = MemoryStore::new();
    fill(&store, plain()).await;
    fill(&store, leftovers()).await;
    let revision = store.revision().await.unwrap();
    fill(
        &store,
        vec![
            ("/registry/core/secrets/default/s", SECRET.into()),
            ("/registry/masterleases/10.0.0.1", "k8s\0".into()),
            (
                "/registry/other.io/things/a",
                json(&serde_json::json!({
                    "apiVersion": "other.io/v1", "kind": "Thing", "metadata": {"name": "a"},
                })),
            ),
            (
                "/registry/work.karmada.io/resourcebindings/default/b",
                json(&serde_json::json!({
                    "apiVersion": "work.karmada.io/v1alpha9", "kind": "ResourceBinding", "metadata": {"name": "b"},
                })),
            ),
        ],
    )
    .await;
    let survey = surveyed(&store).await;
    assert_eq!((survey.revision, survey.objects()), (revision + 4, 11));
    let deployments = &survey.resources["deployments.apps"];
    assert_eq!((deployments.objects, deployments.protobuf, deployments.versions["v1"]), (1, 1, 1));
    assert_eq!(survey.resources["clusters.cluster.karmada.io"].json, 1);
    assert_eq!(survey.resources["secrets"].encrypted["aescbc:v1:key1"], 1);
    assert_eq!(survey.ignored.keys().map(String::as_str).collect::<Vec<_>>(), ["masterleases", "ranges"]);
    assert_eq!(survey.without_definition.iter().map(String::as_str).collect::<Vec<_>>(), ["things.other.io"]);
    assert_eq!(survey.unreadable, 1);
    assert_eq!(survey.findings[0].key, "/registry/core/secrets/default/s");
    let before: Vec<_> = survey.before.iter().map(|step| (step.object.as_str(), step.reason.as_str())).collect();
    assert_eq!(
        before,
        [
            (
                "mutatingwebhookconfiguration/mutating-config",
                "it calls karmada-webhook, whose rules are part of the API server here"
            ),
            (
                "apiservice/v1alpha1.cluster.karmada.io",
                "it passes requests to karmada-aggregated-apiserver, which is part of the API server here"
            ),
            (
                "customresourcedefinition/resourcebindings.work.karmada.io",
                "1 of its objects are stored in v1alpha9, which the definition does not have"
            ),
            ("", "1 kube-apiserver(s) serve this etcd now"),
            ("", "1 value(s) are not understood"),
        ]
    );
    assert!(!survey.can_be_adopted());
}

#[tokio::test]
async fn leftovers_of_an_old_installation_are_removed() {
    let store = MemoryStore::new();
    fill(&store, plain()).await;
    fill(&store, leftovers()).await;
    let readable = ReadableStore::new(Arc::new(store));
    let survey = surveyed(&readable).await;
    assert!(survey.can_be_adopted() && survey.before.len() == 2, "{:?}", survey.before);
    let items = installation::to_remove(&readable, &survey).await.unwrap();
    installation::remove(&readable, &items).await.unwrap();
    assert_eq!(surveyed(&readable).await.before, []);
    let again = installation::remove(&readable, &items).await.unwrap_err().to_string();
    assert!(again.contains("has changed meanwhile"), "{again}");
}

#[tokio::test]
async fn a_store_is_copied_into_a_directory_and_back() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let source = ReadableStore::new(Arc::new(MemoryStore::new()));
    fill(&source, plain()).await;
    fill(&source, leftovers()).await;
    let mut shown = 0;
    let place = (false, "then".to_owned());
    let copied =
        transfer::into_directory(&source, &dir, place, &unencrypted(), &mut |done, _| shown = done).await.unwrap();
    assert_eq!((copied.sum.objects, shown), (6, 9), "what is left behind is not copied");
    let store = EmbeddedStore::open(&dir, Options { must_exist: true, ..Options::default() }).await.unwrap();
    let mut expected = everything(&source).await;
    expected.retain(|(key, ..)| plain().iter().any(|(plain, _)| plain == key));
    assert_eq!(everything(&store).await, expected, "with their revisions");
    assert!(store.revision().await.unwrap() > source.revision().await.unwrap());
    let target = MemoryStore::new();
    transfer::check_target(&store, &target).await.unwrap();
    let back = transfer::into_store(&store, &target, &mut |_, _| {}).await.unwrap();
    assert_eq!(back.sum, copied.sum);
    let source_revision = store.revision().await.unwrap();
    let found = everything(&target).await;
    assert!(found.iter().all(|(.., revision)| *revision > source_revision), "no resourceVersion goes backwards");
    let content =
        |items: Vec<(Bytes, Bytes, u64)>| items.into_iter().map(|(key, value, _)| (key, value)).collect::<Vec<_>>();
    assert_eq!(content(found), content(expected));
    let last = everything(&target).await.into_iter().max_by_key(|(.., revision)| *revision).unwrap();
    assert!(last.0.ends_with(b"boxes.example.io"), "definitions are written last");
    let twice = transfer::into_store(&store, &target, &mut |_, _| {}).await.unwrap_err().to_string();
    assert!(twice.contains("the target is not empty: it holds 6 keys"), "{twice}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_unfinished_copy_is_marked_and_continued() {
    let (source, target) = (MemoryStore::new(), MemoryStore::new());
    for n in 0..300 {
        let key: &'static str = format!("/registry/core/configmaps/default/c{n:03}").leak();
        let value = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{n}"}}}}"#);
        fill(&source, vec![(key, value.into())]).await;
    }
    // Two reads of the source, 299 writes that raise the revision, and the first page of objects.
    let mut calls = 0;
    let mut stop = |_, _| {
        calls += 1;
        assert!(calls < 302, "killed");
    };
    let killed = AssertUnwindSafe(transfer::into_store(&source, &target, &mut stop)).catch_unwind().await;
    assert!(killed.is_err());
    assert_eq!(everything(&target).await.len(), 202, "200 objects, and two keys of the copy");
    assert!(target.get(UNFINISHED.into(), None).await.unwrap().is_some());
    let changed = MemoryStore::new();
    fill(&changed, plain()).await;
    let other = transfer::into_store(&changed, &target, &mut |_, _| {}).await.unwrap_err().to_string();
    assert!(other.contains("an unfinished copy of another state"), "{other}");
    transfer::check_target(&source, &target).await.unwrap();
    let before = target.revision().await.unwrap();
    transfer::into_store(&source, &target, &mut |_, _| {}).await.unwrap();
    assert!(target.revision().await.unwrap() - before < 10, "it continues where it ended");
    assert_eq!(target.get(UNFINISHED.into(), None).await.unwrap(), None);
    assert_eq!(everything(&target).await.len(), 300);
}

#[tokio::test]
async fn a_copy_with_unreadable_values_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let source = ReadableStore::new(Arc::new(MemoryStore::new()));
    fill(&source, plain()).await;
    fill(&source, vec![("/registry/core/secrets/default/s", SECRET.into())]).await;
    let place = (false, "then".to_owned());
    let error = transfer::into_directory(&source, &dir, place, &unencrypted(), &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(&error, Error::Damaged(it) if it.key.ends_with(b"/s")), "{error}");
    assert!(!dir.join("store.sqlite").exists());
}

#[tokio::test]
async fn a_source_with_active_writers_is_rejected() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let below = Arc::new(MemoryStore::new());
    let source = ReadableStore::new(Arc::clone(&below) as Arc<dyn Store>);
    fill(&source, plain()).await;
    let writes = Arc::clone(&below);
    let mut once = Some(());
    let mut write = move |_, _| {
        if once.take().is_some() {
            let ops = vec![Op::Put { key: "/registry/core/configmaps/d/late".into(), value: "{}".into(), lease: None }];
            let writes = Arc::clone(&writes);
            let written = writes.txn(Txn { guards: Vec::new(), ops }).now_or_never();
            written.unwrap().unwrap();
        }
    };
    let place = (false, "then".to_owned());
    let error =
        transfer::into_directory(&source, &dir, place, &unencrypted(), &mut write).await.unwrap_err().to_string();
    assert!(error.contains("/registry/core/configmaps/d/late was written during the copy"), "{error}");
    assert!(!dir.join("store.sqlite").exists());
}
