//! Requests and the components of a process are on separate runtimes.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions};
use karmada::up::ControlPlane;
use serde_json::json;
use world::World;

use crate::plane::options;

const THREADS: usize = 2;

/// Occupies the threads of a runtime until the returned function is called.
fn occupy(runtime: &tokio::runtime::Handle) -> impl FnOnce() + use<> {
    let [entered, left] = [(); 2].map(|()| Arc::new(Barrier::new(THREADS + 1)));
    for _ in 0..THREADS {
        let (entered, left) = (entered.clone(), left.clone());
        runtime.spawn(async move {
            entered.wait();
            left.wait();
        });
    }
    entered.wait();
    move || {
        left.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_while_every_thread_of_the_components_is_occupied() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let components = builder.worker_threads(THREADS).enable_all().build().expect("a runtime");
    let root = tempfile::tempdir().expect("a directory");
    let mut options = options(root.path());
    options.members.clear();
    options.components = Some(components.handle().clone());
    let plane = ControlPlane::start(&options, &World::system()).await.expect("the control plane starts");
    assert!(plane.ready().await);
    assert!(components.metrics().num_alive_tasks() > 0, "the components are in it");

    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = ObjectKey::namespaced("default", "a");
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let kubeconfig = plane.kubeconfig().expect("it listens on a socket");
    let admin = Client::from_kubeconfig(&kubeconfig, None).await.expect("a client");
    let requests = async {
        admin.create(&config_maps, &config_map).await.expect("it is created");
        admin.get(&config_maps, &key).await.expect("it exists");
        admin.list(&config_maps, None, &ListOptions::default()).await.expect("a list");
        admin.delete(&config_maps, &key, &Default::default()).await.expect("it is deleted");
    };
    let release = occupy(components.handle());
    let answered = tokio::time::timeout(Duration::from_secs(60), requests).await;
    release();
    answered.expect("no request waits for a thread of the components");
    plane.stop().await.expect("it stops");
    components.shutdown_background();
}
