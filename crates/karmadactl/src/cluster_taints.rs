//! Changes of a Cluster's taints, computed from the present ones. Controllers taint clusters too: a change that another
//! one precedes is computed again from the newer taints, so that neither is lost.

use apimachinery::ObjectKey;
use client::Client;
use serde_json::{Value, json};

use crate::error::Error;
use crate::requests::{self, WriteOptions};
use crate::{Context, resources};

/// Attempts, as in client-go's `DefaultRetry`.
const ATTEMPTS: usize = 5;

/// The taints after a change, or `None` if nothing changes, with the caller's description of it.
pub type Planned<T> = (Option<Vec<Value>>, T);

/// Reads the taints of a cluster and writes the ones that `plan` returns, unless it is a dry run.
///
/// # Errors
/// Those of `plan`; the server's, which include a conflict after several attempts.
pub async fn change<T>(
    context: &Context,
    client: &Client,
    name: &str,
    dry_run: bool,
    plan: impl Fn(&[Value]) -> Result<Planned<T>, Error>,
) -> Result<Planned<T>, Error> {
    let key = ObjectKey::cluster(name);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let live = requests::get(context, client, &resources::CLUSTER, &key, None).await;
        let live = live.map_err(Error::client(format!("get cluster {name}")))?;
        let planned = plan(live["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice))?;
        let (Some(taints), false) = (&planned.0, dry_run) else { return Ok(planned) };
        let version = &live["metadata"]["resourceVersion"];
        let value = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        let patch =
            requests::Patch { content_type: requests::MERGE_PATCH, value: &value, subresource: None, force: false };
        let options = WriteOptions::default();
        match requests::patch(context, client, &resources::CLUSTER, &key, patch, &options).await {
            Ok(_) => return Ok(planned),
            Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
            Err(error) => return Err(Error::client(format!("patch cluster {name}"))(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use apimachinery::Status;
    use http::{Method, Response, StatusCode};
    use http_body_util::BodyExt as _;
    use transport::{ApiService, Identity, Request};

    use super::*;

    /// A server whose cluster gets another taint before each of the first `races` patches; the patches that it stores.
    fn server(races: usize) -> (Client, Arc<AtomicUsize>) {
        let patches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&patches);
        let service = tower::service_fn(move |request: Request| {
            let counted = Arc::clone(&counted);
            async move {
                let (parts, body) = request.into_parts();
                let raced = counted.load(Relaxed).min(races);
                let reply = |code: StatusCode, body: &Value| {
                    let body = transport::full(body.to_string().into_bytes());
                    Ok(Response::builder().status(code).body(body).expect("a response"))
                };
                if parts.method == Method::GET {
                    let taints: Vec<Value> =
                        (0..raced).map(|n| json!({"key": format!("k{n}"), "effect": "NoExecute"})).collect();
                    let metadata = json!({"name": "m1", "resourceVersion": raced.to_string()});
                    return reply(StatusCode::OK, &json!({"metadata": metadata, "spec": {"taints": taints}}));
                }
                let sent = body.collect().await.expect("a body").to_bytes();
                let sent: Value = serde_json::from_slice(&sent).expect("JSON");
                assert_eq!(sent["metadata"]["resourceVersion"], raced.to_string());
                if counted.fetch_add(1, Relaxed) < races {
                    let status = Status::conflict("cluster.karmada.io", "clusters", "m1", "modified");
                    return reply(StatusCode::CONFLICT, &serde_json::to_value(status).expect("a status"));
                }
                reply(StatusCode::OK, &sent)
            }
        });
        (Client::in_process(ApiService::new(service), Identity::system("test")), patches)
    }

    fn added(taints: &[Value]) -> Result<Planned<()>, Error> {
        Ok((Some([taints, &[json!({"key": "own", "effect": "NoSchedule"})]].concat()), ()))
    }

    #[tokio::test]
    async fn a_concurrent_change_is_kept() {
        let context = Context::default();
        let (client, patches) = server(ATTEMPTS - 1);
        let (taints, ()) = change(&context, &client, "m1", false, added).await.expect("the last attempt succeeds");
        let keys: Vec<Value> = taints.expect("a change").iter().map(|taint| taint["key"].clone()).collect();
        assert_eq!(keys, ["k0", "k1", "k2", "k3", "own"]);
        assert_eq!(patches.load(Relaxed), ATTEMPTS);

        let (client, patches) = server(usize::MAX);
        let error = change(&context, &client, "m1", false, added).await.expect_err("a conflict each time");
        assert!(error.to_string().contains("modified"), "{error}");
        assert_eq!(patches.load(Relaxed), ATTEMPTS);

        let (client, patches) = server(0);
        change(&context, &client, "m1", true, added).await.expect("a dry run");
        assert_eq!(patches.load(Relaxed), 0);
    }
}
