//! Resources in separate stores. Each store has its own order of revisions, so each has a cache and a task that follows
//! it; the cache of the main store refers to the others.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::{ApiResource, Status};
use parking_lot::{Mutex, RwLock};
use storage::{KeyRange, Store};
use tokio::sync::mpsc;
use transport::Change;

use super::{Cache, Follower, LAG, Observer, keys, load};

/// Resources in a separate store.
pub struct Apart {
    /// Group and plural of each.
    pub resources: Vec<(String, String)>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// The part of all resources that a cache has.
pub(super) enum Scope {
    /// All but those of the other caches.
    Main(Vec<Arc<Cache>>),
    /// These.
    Only(Vec<String>),
}

impl Cache {
    /// As [`Cache::start`], with some resources in separate stores. Their changes have no observers.
    ///
    /// # Errors
    /// When a store cannot be read.
    pub async fn start_with(
        store: Arc<dyn Store>,
        apart: Vec<Apart>,
        observers: Vec<Observer>,
    ) -> Result<(Arc<Self>, Vec<Follower>), storage::Error> {
        let (mut others, mut followers) = (Vec::new(), Vec::new());
        for Apart { resources, store } in apart {
            let places = resources.iter().map(|(group, plural)| keys::group_resource(group, plural)).collect();
            let (cache, follower) = Self::begin(store, Scope::Only(places), Vec::new()).await?;
            others.push(cache);
            followers.push(follower);
        }
        let (cache, follower) = Self::begin(store, Scope::Main(others), observers).await?;
        followers.insert(0, follower);
        Ok((cache, followers))
    }

    /// Reads the content of the store, and starts to follow it.
    async fn begin(
        store: Arc<dyn Store>,
        scope: Scope,
        observers: Vec<Observer>,
    ) -> Result<(Arc<Self>, Follower), storage::Error> {
        let cache = Arc::new(Self {
            store: Arc::clone(&store),
            scope,
            resources: RwLock::new(HashMap::new()),
            progress: Arc::default(),
            observers,
            followers: Mutex::default(),
            unreadable: false.into(),
            backlog: Arc::default(),
            leases: Default::default(),
        });
        let range = KeyRange::prefix(keys::ROOT);
        let (load::Loaded { resources, lost }, revision) = load::load(&*store, &range, load::AT_HAND).await?;
        let stream = store.follow(range, revision).await?;
        for (place, objects) in resources.into_iter().filter(|(place, _)| cache.has(place)) {
            for (_, object) in &objects {
                let current = Some(Arc::clone(object));
                let event = super::Event { revision: object.revision(), current, previous: None };
                cache.observers.iter().for_each(|observer| observer(&place, &event));
            }
            cache.resource(&place).load(objects.into_iter(), revision);
        }
        lost.into_iter().for_each(|lost| cache.lose(lost));
        cache.progress.set(revision);
        Ok((Arc::clone(&cache), Follower { cache, stream }))
    }

    /// The caches of other stores.
    pub fn others(&self) -> &[Arc<Self>] {
        match &self.scope {
            Scope::Main(others) => others,
            Scope::Only(_) => &[],
        }
    }

    /// Whether a resource (`GROUP/PLURAL`) is in the store of this cache.
    pub(super) fn has(&self, place: &str) -> bool {
        match &self.scope {
            Scope::Main(_) => self.other(place).is_none(),
            Scope::Only(places) => places.iter().any(|it| it == place),
        }
    }

    /// The cache of the other store that a resource is in.
    pub(super) fn other(&self, place: &str) -> Option<&Arc<Self>> {
        self.others().iter().find(|other| other.has(place))
    }

    /// The cache of the store that a resource is in.
    pub fn of(&self, resource: &ApiResource) -> &Self {
        self.other_of(&resource.group, &resource.plural).map_or(self, Arc::as_ref)
    }

    /// Whether a resource is in a separate store.
    pub(crate) fn is_apart(&self, group: &str, plural: &str) -> bool {
        self.other_of(group, plural).is_some()
    }

    /// [`Cache::other`] by group and plural.
    pub(super) fn other_of(&self, group: &str, plural: &str) -> Option<&Arc<Self>> {
        if self.others().is_empty() {
            return None;
        }
        let place = keys::short_group_resource(group, plural);
        std::str::from_utf8(&place).ok().and_then(|place| self.other(place))
    }

    /// Every object in each store, and all later changes. All receivers end together: a caller that missed a change of
    /// one must start again.
    ///
    /// # Errors
    /// If the stored value of an object cannot be read.
    pub fn follow(&self) -> Result<(Vec<Change>, Vec<mpsc::Receiver<Change>>), Status> {
        let (mut initial, receiver) = self.follow_own()?;
        let mut receivers = vec![receiver];
        for other in self.others() {
            let (more, receiver) = other.follow_own()?;
            initial.extend(more);
            receivers.push(receiver);
        }
        Ok((initial, receivers))
    }

    fn follow_own(&self) -> Result<(Vec<Change>, mpsc::Receiver<Change>), Status> {
        let (sender, receiver) = mpsc::channel(LAG);
        let mut followers = self.followers.lock();
        let mut initial = Vec::new();
        for (place, resource) in self.resources.read().iter() {
            let (objects, ..) = resource.list(None, None, 0, |_| true)?;
            let known = |object| Change { resource: Arc::clone(place), current: Some(object), previous: None };
            initial.extend(objects.into_iter().map(known));
        }
        followers.push(sender);
        Ok((initial, receiver))
    }
}
