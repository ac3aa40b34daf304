//! Reflectors whose resource version has expired: the server was restarted and its store compacted while they were
//! disconnected.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use storage::Store as _;
use storage::memory::MemoryStore;
use tokio::sync::watch;
use tower::ServiceExt as _;
use transport::{ApiService, Identity, Request, Response};
use world::World;

use crate::kube_rs::in_time;

async fn start(store: &Arc<MemoryStore>) -> ApiServer {
    ApiServer::start(ServerConfig {
        store: store.clone(),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("the store is readable")
}

/// A connection to the current server; while it is cut, watches hang and new ones wait.
#[derive(Clone)]
struct Line(watch::Receiver<Option<ApiService>>);

impl Line {
    fn client(&self) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request| {
            let line = line.clone();
            async move { Ok::<_, Infallible>(line.send(request).await) }
        });
        Client::new(service, "default")
    }

    async fn send(mut self, request: http::Request<kube::client::Body>) -> Response {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let up = self.0.wait_for(Option::is_some).await.expect("the test goes on").clone();
        let mut request = request.map(|body| transport::Body::new(body.map_err(Into::into)));
        request.extensions_mut().insert(Identity::system("test"));
        let response = send_to(up.expect("a server"), request).await;
        if !is_watch {
            return response;
        }
        let cut = async move { drop(self.0.wait_for(Option::is_none).await) };
        response.map(|body| transport::Body::new(StreamBody::new(BodyStream::new(body).take_until(Box::pin(cut)))))
    }
}

fn send_to(server: ApiService, request: Request) -> BoxFuture<'static, Response> {
    server.oneshot(request).map(|Ok(response)| response).boxed()
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "old"}})).expect("a ConfigMap")
}

/// Names and versions.
fn shown<'m>(maps: impl IntoIterator<Item = &'m ConfigMap>) -> BTreeMap<String, Option<String>> {
    maps.into_iter().map(|map| (map.name_any(), map.resource_version())).collect()
}

async fn agrees(store: &reflector::Store<ConfigMap>, maps: &Api<ConfigMap>) {
    let listed = shown(&maps.list(&ListParams::default()).await.expect("listed").items);
    while shown(store.state().iter().map(AsRef::as_ref)) != listed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn recovers(config: watcher::Config) {
    let memory = Arc::new(MemoryStore::new());
    let first = start(&memory).await;
    let (line, receiver) = watch::channel(Some(first.service()));
    let maps: Api<ConfigMap> = Api::default_namespaced(Line(receiver.clone()).client());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(Line(receiver).client());
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).expect("one")).await.expect("created");
    for name in ["changed", "kept", "removed"] {
        maps.create(&PostParams::default(), &config_map(name)).await.expect("created");
    }

    let (store, writer) = reflector::store();
    let gone = Arc::new(AtomicUsize::new(0));
    let stream = reflector::reflector(writer, watcher::watcher(maps.clone(), config)).default_backoff();
    let counting = Arc::clone(&gone);
    let following = tokio::spawn(stream.for_each(move |event| {
        if let Err(error) = event {
            let watcher::Error::WatchError(status) = &error else { panic!("{error}") };
            assert_eq!((status.code, &*status.reason), (410, "Expired"));
            counting.fetch_add(1, Ordering::Relaxed);
        }
        async {}
    }));
    in_time("the first list", store.wait_until_ready()).await.expect("ready");
    in_time("the first list", agrees(&store, &maps)).await;

    line.send_replace(None);
    let behind: Api<ConfigMap> = Api::default_namespaced(Line(watch::channel(Some(first.service())).1).client());
    let patch = Patch::Merge(json!({"data": {"k": "new"}}));
    behind.patch("changed", &PatchParams::default(), &patch).await.expect("patched");
    behind.delete("removed", &DeleteParams::default()).await.expect("deleted");
    behind.create(&PostParams::default(), &config_map("added")).await.expect("created");
    memory.compact(memory.revision().await.expect("a revision")).await.expect("the past goes");
    drop(first);
    let second = start(&memory).await;
    line.send_replace(Some(second.service()));

    in_time("the recovery", agrees(&store, &maps)).await;
    let names: Vec<String> = shown(store.state().iter().map(AsRef::as_ref)).into_keys().collect();
    assert_eq!(names, ["added", "changed", "kept"]);
    assert_eq!(gone.load(Ordering::Relaxed), 1, "the old place is refused once");
    maps.create(&PostParams::default(), &config_map("later")).await.expect("created");
    in_time("the new watch", agrees(&store, &maps)).await;
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn reflectors_that_list_recover_from_a_place_that_is_gone() {
    recovers(watcher::Config::default()).await;
}

#[tokio::test(start_paused = true)]
async fn reflectors_that_stream_recover_from_a_place_that_is_gone() {
    recovers(watcher::Config::default().streaming_lists()).await;
}
