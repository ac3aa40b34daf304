//! The informers of one server.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::ApiResource;
use client::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::{Event, Informer, Reach, Selection};

/// The informers of one server, one for each resource (and selection), started on first use.
#[derive(Clone)]
pub struct InformerSet(Arc<SetInner>);

type Follower = Arc<dyn Fn(&Event) + Send + Sync>;

struct SetInner {
    client: Client,
    world: World,
    /// By resource, of which hardly any has several selections.
    informers: Mutex<HashMap<ApiResource, Vec<(Selection, Informer)>>>,
    /// For the informers that replace stopped ones. Only locked together with `informers`, after them.
    followers: Mutex<HashMap<ApiResource, Vec<Follower>>>,
    reach: Arc<Reach>,
    stop: CancellationToken,
}

impl InformerSet {
    pub fn new(client: Client, world: World) -> Self {
        Self::until(client, world, CancellationToken::new())
    }

    /// All informers stop with `stop`.
    pub fn until(client: Client, world: World, stop: CancellationToken) -> Self {
        Self::reaching(Reach::api_server(), client, world, stop)
    }

    /// As [`InformerSet::until`]; `reach` logs when the server does not respond, for all its callers.
    pub fn reaching(reach: Arc<Reach>, client: Client, world: World, stop: CancellationToken) -> Self {
        let (informers, followers) = Default::default();
        Self(Arc::new(SetInner { client, world, informers, followers, reach, stop }))
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// The informer of all objects of a resource. Must be called inside a tokio runtime.
    pub fn informer(&self, resource: &ApiResource) -> Informer {
        self.selected(resource, Selection::default())
    }

    pub fn selected(&self, resource: &ApiResource, selection: Selection) -> Informer {
        self.started(resource, selection, None)
    }

    /// The informer, started on first use. A `follower` of all its successors is not subscribed yet.
    fn started(&self, resource: &ApiResource, selection: Selection, follower: Option<Follower>) -> Informer {
        let all = selection == Selection::default();
        let mut informers = self.0.informers.lock();
        let known = informers.get(resource).and_then(|started| selected(started, &selection)).cloned();
        let mut waiting = Vec::new();
        let informer = known.unwrap_or_else(|| {
            let stop = self.0.stop.child_token();
            let (client, world) = (self.0.client.clone(), self.0.world.clone());
            if all {
                waiting = self.0.followers.lock().get(resource).cloned().unwrap_or_default();
            }
            let of = selection.clone();
            let informer = Informer::start_over(client, resource.clone(), selection, world, stop, &self.0.reach);
            informers.entry(resource.clone()).or_default().push((of, informer.clone()));
            informer
        });
        if let Some(follower) = follower {
            self.0.followers.lock().entry(resource.clone()).or_default().push(follower);
        }
        drop(informers);
        // Handlers may look up informers.
        for follower in waiting {
            informer.subscribe(move |event| follower(event));
        }
        informer
    }

    /// As [`Informer::subscribe`], to the informer of all objects of a resource and to those that replace it after
    /// [`InformerSet::stop`].
    pub fn follow(&self, resource: &ApiResource, handler: impl Fn(&Event) + Send + Sync + 'static) {
        let follower: Follower = Arc::new(handler);
        let informer = self.started(resource, Selection::default(), Some(follower.clone()));
        informer.subscribe(move |event| follower(event));
    }

    /// The informer of the resource, if it was started.
    pub fn existing(&self, resource: &ApiResource) -> Option<Informer> {
        selected(self.0.informers.lock().get(resource)?, &Selection::default()).cloned()
    }

    /// Has every informer in trouble try its server at once.
    pub fn try_again(&self) {
        self.each(Informer::try_again);
    }

    /// Has every informer list its resource again: the server has another history than the caches, as after a restore
    /// from a backup whose revision has passed that of the caches since.
    pub fn list_again(&self) {
        self.each(Informer::list_again);
    }

    /// In an order that does not change from run to run.
    fn each(&self, act: fn(&Informer)) {
        let informers = self.0.informers.lock();
        let mut all: Vec<_> = informers
            .iter()
            .flat_map(|(resource, started)| started.iter().map(move |(of, informer)| ((resource, of), informer)))
            .collect();
        all.sort_by_key(|(of, _)| *of);
        all.into_iter().for_each(|(_, informer)| act(informer));
    }

    /// Stops and removes the informers of a resource.
    pub fn stop(&self, resource: &ApiResource) {
        let removed = self.0.informers.lock().remove(resource).unwrap_or_default();
        removed.iter().for_each(|(_, informer)| informer.stop());
    }

    /// Stops and removes the informer of one selection.
    pub fn stop_selected(&self, resource: &ApiResource, selection: &Selection) {
        let removed = self.0.informers.lock().get_mut(resource).and_then(|started| {
            let place = started.iter().position(|(of, _)| of == selection)?;
            Some(started.swap_remove(place))
        });
        removed.iter().for_each(|(_, informer)| informer.stop());
    }

    /// Stops all informers; those requested later start stopped.
    pub fn stop_all(&self) {
        self.0.stop.cancel();
        self.0.informers.lock().clear();
        self.0.followers.lock().clear();
    }
}

fn selected<'a>(started: &'a [(Selection, Informer)], selection: &Selection) -> Option<&'a Informer> {
    started.iter().find(|(of, _)| of == selection).map(|(_, informer)| informer)
}
