//! The served resources: a snapshot that custom resource definitions change at run time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::Status;
use apimachinery::resource::Resource;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use transport::Response;
use world::Level;

/// Group, version and plural.
type Name = (String, String, String);

/// The resources served at one moment.
#[derive(Clone, Debug, Default)]
pub struct Served {
    resources: BTreeMap<Name, Resource>,
    /// By plural alone, which few groups share: every request looks it up, without building a key.
    by_plural: HashMap<String, Vec<Resource>>,
    /// Grows with every change.
    pub generation: u64,
}

impl Served {
    /// The resource, if it is served.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.by_plural.get(plural)?.iter().find(|resource| {
            let named = &resource.info.resource;
            named.version == version && named.group == group
        })
    }

    /// All versions of a resource.
    pub fn versions<'s>(&'s self, group: &'s str, plural: &str) -> impl Iterator<Item = &'s Resource> + use<'s> {
        let same = self.by_plural.get(plural).into_iter().flatten();
        same.filter(move |resource| resource.info.resource.group == group)
    }

    /// By group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// Whether any resource of the version is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        let start = (group.to_owned(), version.to_owned(), String::new());
        self.resources.range(start..).next().is_some_and(|((g, v, _), _)| g == group && v == version)
    }

    /// Whether a resource of the group is built in.
    pub(crate) fn has_built_in(&self, group: &str) -> bool {
        let of_group = self.resources.range((group.to_owned(), String::new(), String::new())..);
        of_group.take_while(|((name, ..), _)| name == group).any(|(_, resource)| !resource.info.custom)
    }

    /// The answer to a path that is not served: upstream's router of built-in groups answers with a Status.
    pub(crate) fn unknown(&self, group: Option<&str>) -> Result<Response, Status> {
        match group.filter(|group| self.has_built_in(group)) {
            Some(_) => Err(crate::errors::no_such_resource()),
            None => Ok(crate::wire::respond::page_not_found()),
        }
    }
}

/// The served resources, replaced as a whole when definitions change.
pub struct Registry {
    served: ArcSwap<Served>,
    generation: Level<u64>,
    writer: Mutex<()>,
}

impl Registry {
    /// A registry with these resources.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        let mut served = Served::default();
        served.insert(resources);
        Self { served: ArcSwap::from_pointee(served), generation: Level::new(0), writer: Mutex::default() }
    }

    /// The resources served now.
    pub fn snapshot(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// Removes all versions of a resource and adds `resources` (any versions of it, or none).
    pub fn replace(&self, group: &str, plural: &str, resources: impl IntoIterator<Item = Resource>) {
        let _one_at_a_time = self.writer.lock();
        let mut served = Served::clone(&self.served.load());
        served.resources.retain(|(g, _, p), _| g != group || p != plural);
        if let Some(others) = served.by_plural.get_mut(plural) {
            others.retain(|resource| resource.info.resource.group != group);
            if others.is_empty() {
                served.by_plural.remove(plural);
            }
        }
        served.insert(resources);
        served.generation += 1;
        let generation = served.generation;
        self.served.store(Arc::new(served));
        self.generation.set(generation);
    }

    /// Renders documents about the resources again: their definitions have changed, and the resources have not.
    pub fn touch(&self) {
        let _one_at_a_time = self.writer.lock();
        let mut served = Served::clone(&self.served.load());
        served.generation += 1;
        let generation = served.generation;
        self.served.store(Arc::new(served));
        self.generation.set(generation);
    }

    /// Waits until this row is not served any more, because its definition has changed or is gone.
    pub async fn until_replaced(self: Arc<Self>, row: Resource) {
        let named = &row.info.resource;
        loop {
            let served = self.snapshot();
            let current = served.get(&named.group, &named.version, &named.plural);
            if !current.is_some_and(|current| Arc::ptr_eq(&current.info, &row.info)) {
                return;
            }
            self.newer_than(served.generation).await;
        }
    }

    /// Waits until the served resources are newer than `generation`.
    pub async fn newer_than(&self, generation: u64) -> u64 {
        self.generation.wait_for(|now| *now > generation).await
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry({})", self.served.load().generation)
    }
}

impl Served {
    fn insert(&mut self, resources: impl IntoIterator<Item = Resource>) {
        for resource in resources {
            let named = &resource.info.resource;
            let name = (named.group.clone(), named.version.clone(), named.plural.clone());
            let same = self.by_plural.entry(name.2.clone()).or_default();
            same.retain(|known| (&known.info.resource.group, &known.info.resource.version) != (&name.0, &name.1));
            same.push(resource.clone());
            self.resources.insert(name, resource);
        }
    }
}
