//! Responses of a member's API server: lists, discovery, watch frames; and kubeconfigs.

use std::convert::Infallible;

use apimachinery::{ApiResource, ObjectKey};
use bytes::Bytes;
use client::{Client, ListOptions, WatchOptions};
use futures::StreamExt;
use http::Response;
use transport::{ApiService, Identity};

/// A server whose response to every request is these bytes, in frames of `frame` bytes.
fn answering(bytes: &[u8], frame: usize) -> ApiService {
    let bytes = Bytes::copy_from_slice(bytes);
    ApiService::new(tower::service_fn(move |_| {
        let frames: Vec<_> = bytes.chunks(frame).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let body = transport::stream(futures::stream::iter(frames));
        futures::future::ready(Ok::<_, Infallible>(Response::new(body)))
    }))
}

pub(crate) fn client(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let resource = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
        let client = Client::in_process(answering(bytes, 1 + usize::from(*first)), Identity::system("fuzz"));
        if let Ok(mut events) = client.watch(&resource, None, &WatchOptions::default()).await {
            while events.next().await.is_some() {}
        }
        client.list(&resource, None, &ListOptions::default()).await.ok();
        client.get(&resource, &ObjectKey::namespaced("a", "b")).await.ok();
        client.discovery().await.ok();
        if let Ok(text) = std::str::from_utf8(bytes)
            // Plugins in a kubeconfig would be executed.
            && !text.contains("exec") && !text.contains("auth-provider") && !text.contains('\\')
            && !text.contains("cmd-path")
        {
            Client::from_kubeconfig_text(text, None).await.ok();
        }
    });
}
