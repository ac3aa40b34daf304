//! The groups of custom and external metrics in a member's discovery: listed while an object has an annotation with
//! metrics, as if an adapter were installed.

use std::sync::Arc;

use apimachinery::Object;
use apiserver::cache::Event;
use apiserver::documents::discovery::{Apis, ExternalVersion, Priority};
use apiserver::{Admission, Shared};
use fleet_metrics::discovery;
use fleet_metrics::groups::{self, CUSTOM, EXTERNAL};
use tokio_util::sync::CancellationToken;
use world::Level;

use crate::custom_api::{Annotated, EXTERNAL_PLACE, PLACES};
use crate::plan::series;

/// Counts changes of annotations.
#[derive(Default)]
pub(crate) struct Advertised(Arc<Level<u64>>);

impl Advertised {
    /// The plugin that follows objects.
    pub fn observer(&self) -> Arc<dyn Admission> {
        Arc::new(Self(Arc::clone(&self.0)))
    }

    /// Updates the server's discovery until `stop`.
    pub async fn run(self, server: Arc<Shared>, stop: CancellationToken) {
        loop {
            let seen = self.0.get();
            if server.cache.catch_up().await.is_ok() {
                publish(&server);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.0.wait_for(|now| *now != seen) => {}
            }
        }
    }
}

fn publish(server: &Shared) {
    let mut apis = Apis::default();
    for version in groups::ALL.into_iter().filter(|it| (it.group, it.version) != (CUSTOM, "v1beta1")) {
        let names = match version.group {
            CUSTOM | EXTERNAL => Annotated::listed(server, version.group).unwrap_or_default(),
            _ => continue,
        };
        if names.is_empty() {
            continue;
        }
        let key = (version.group.to_owned(), version.version.to_owned());
        let resources = Arc::new(discovery::aggregated(version, &names));
        apis.priorities.insert(key.clone(), Priority { group: version.priorities.0, version: version.priorities.1 });
        apis.external.insert(key, ExternalVersion { resources, is_current: true, v3_url: None, v2: None });
    }
    let present = server.apis.load();
    if present.external != apis.external {
        apis.generation = present.generation + 1;
        server.apis.store(Arc::new(apis));
    }
}

impl Admission for Advertised {
    fn concerns(&self, _group: &str, _plural: &str) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        let annotation = match place {
            EXTERNAL_PLACE => series::EXTERNAL,
            _ if PLACES.contains(&place) => series::METRICS,
            _ => return,
        };
        let text = |object: &Option<Arc<Object>>| object.as_ref().and_then(|object| object.annotation(annotation));
        if text(&event.current) != text(&event.previous) {
            self.0.change(|count| {
                *count += 1;
                true
            });
        }
    }
}
