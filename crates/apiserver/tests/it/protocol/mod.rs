//! The wire protocol, area by area: every verb in every form that a client may request.

mod custom;
mod forms;
mod frames;
mod kinds;
mod pages;
mod patches;
mod paths;
mod requests;
mod scale;
mod warnings;
mod watches;

use apiserver::ApiServer;
use serde_json::Value;

use crate::parity::{Reply, config_map, send};

const CM: &str = "/api/v1/namespaces/default/configmaps";

async fn get(server: &ApiServer, path: &str, accept: &str) -> Reply {
    send(server, "GET", path, &[("accept", accept)], "").await
}

/// The events of a watch that ended, each a line.
fn lines(reply: &Reply) -> Vec<Value> {
    let lines = reply.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("a line of JSON")).collect()
}

/// A server with the ConfigMaps a, b and c.
async fn with_config_maps() -> ApiServer {
    let (server, _) = crate::objects::server().await;
    for name in ["a", "b", "c"] {
        assert_eq!(send(&server, "POST", CM, &[], &config_map(name)).await.code, 201);
    }
    server
}
