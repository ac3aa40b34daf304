//! The FlowSchemas and PriorityLevelConfigurations of the store, compiled.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use apimachinery::Object;
use flow_control::classify::{Candidates, Classifier, Request};
use flow_control::limits::limits;
use flow_control::objects::{FlowSchema, PriorityLevel};
use http::header::HeaderValue;
use parking_lot::RwLock;
use serde_json::Value;
use transport::Identity;

use super::bootstrap;
use super::seats::{Clock, Seats};
use super::stats::Stats;

/// Users whose rules are remembered. Beyond this all are forgotten, and selected again.
const USERS: usize = 4096;
/// Groups of a user whose rules are remembered. Tokens of some issuers list hundreds.
const GROUPS: usize = 64;

const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

/// The two kinds of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Level,
}

/// The kind of the objects at `GROUP/PLURAL`.
pub(super) fn kind_of(place: &str) -> Option<Kind> {
    match place.strip_prefix("flowcontrol.apiserver.k8s.io/")? {
        "flowschemas" => Some(Kind::Schema),
        "prioritylevelconfigurations" => Some(Kind::Level),
        _ => None,
    }
}

/// A FlowSchema with its priority level.
#[derive(Debug)]
pub(crate) struct Schema {
    pub name: String,
    pub level: Arc<Seats>,
    pub uid: HeaderValue,
    pub level_uid: HeaderValue,
    pub stats: Arc<Stats>,
}

struct Stored<T> {
    uid: HeaderValue,
    spec: T,
}

/// The objects as the store has them.
pub(super) struct Configuration {
    schemas: BTreeMap<String, Stored<FlowSchema>>,
    levels: BTreeMap<String, Stored<PriorityLevel>>,
    /// The levels of the present plan.
    seats: BTreeMap<String, Arc<Seats>>,
    /// By level and schema.
    stats: BTreeMap<(String, String), Arc<Stats>>,
    seed: u64,
}

impl Configuration {
    pub fn new(seed: u64) -> Self {
        Self { schemas: BTreeMap::new(), levels: BTreeMap::new(), seats: BTreeMap::new(), stats: BTreeMap::new(), seed }
    }

    /// Takes an object over; answers whether its spec or identity has changed.
    pub fn put(&mut self, kind: Kind, object: &Object) -> bool {
        let uid = HeaderValue::from_str(object.uid()).unwrap_or_else(|_| HeaderValue::from_static(""));
        let name = object.name().to_owned();
        let taken = object.to_value().map_err(|error| error.to_string()).and_then(|mut tree| {
            let spec = tree["spec"].take();
            match kind {
                Kind::Schema => put(&mut self.schemas, &name, uid, spec),
                Kind::Level => put(&mut self.levels, &name, uid, spec),
            }
        });
        taken.unwrap_or_else(|error| {
            let named = if kind == Kind::Schema { "FlowSchema" } else { "PriorityLevelConfiguration" };
            tracing::error!(kind = named, name, err = error, "Object of flow control is ignored; correct or delete it");
            self.remove(kind, &name)
        })
    }

    /// Answers whether there was such an object.
    pub fn remove(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Schema => self.schemas.remove(name).is_some(),
            Kind::Level => self.levels.remove(name).is_some(),
        }
    }

    /// Compiles the objects for a server with so many seats. Levels keep their seats and queues.
    pub fn plan(&mut self, total: u32, clock: &Clock) -> Plan {
        self.complete();
        let divided = limits(total, self.levels.values().map(|level| &level.spec));
        let mut seats = BTreeMap::new();
        for ((name, level), limits) in self.levels.iter().zip(divided) {
            let known = self.seats.remove(name).filter(|known| known.is_exempt() == limits.is_exempt);
            let level = match known {
                Some(known) => {
                    known.configure(&level.spec, limits);
                    known
                }
                None => Seats::new(name, &level.spec, limits, *clock),
            };
            seats.insert(name.clone(), level);
        }
        // Requests of a deleted level keep it until they end.
        self.seats = seats;
        let mut stats = BTreeMap::new();
        // A schema without a level is ignored, and its status reports it.
        let valid = self
            .schemas
            .iter()
            .filter(|(_, schema)| self.levels.contains_key(&schema.spec.priority_level_configuration.name));
        let classifier = Classifier::new(valid.map(|(name, schema)| (name.clone(), schema.spec.clone())));
        let mut schemas = Vec::new();
        for (name, spec) in classifier.schemas() {
            let at = &spec.priority_level_configuration.name;
            let (Some(level), Some(object)) = (self.seats.get(at), self.levels.get(at)) else { continue };
            let key = (at.clone(), name.to_owned());
            let counts = self.stats.remove(&key).unwrap_or_default();
            stats.insert(key, Arc::clone(&counts));
            let uid = self.schemas.get(name).map_or(HeaderValue::from_static(""), |schema| schema.uid.clone());
            schemas.push(Arc::new(Schema {
                name: name.to_owned(),
                level: Arc::clone(level),
                uid,
                level_uid: object.uid.clone(),
                stats: counts,
            }));
        }
        self.stats = stats;
        Plan { classifier, schemas, levels: self.seats.clone(), seed: self.seed, users: RwLock::default() }
    }

    /// The mandatory objects are in effect even while they are not stored.
    fn complete(&mut self) {
        let is_mandatory =
            |object: &Value| object["metadata"]["name"] == EXEMPT || object["metadata"]["name"] == CATCH_ALL;
        for mut object in bootstrap::priority_levels().into_iter().filter(is_mandatory) {
            complete(&mut self.levels, &mut object);
        }
        for mut object in bootstrap::flow_schemas().into_iter().filter(is_mandatory) {
            complete(&mut self.schemas, &mut object);
        }
    }
}

fn put<T: PartialEq + serde::de::DeserializeOwned>(
    known: &mut BTreeMap<String, Stored<T>>,
    name: &str,
    uid: HeaderValue,
    spec: Value,
) -> Result<bool, String> {
    let spec: T = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    if known.get(name).is_some_and(|known| known.uid == uid && known.spec == spec) {
        return Ok(false);
    }
    known.insert(name.to_owned(), Stored { uid, spec });
    Ok(true)
}

fn complete<T: PartialEq + serde::de::DeserializeOwned>(known: &mut BTreeMap<String, Stored<T>>, object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !known.contains_key(&name) {
        let spec = object["spec"].take();
        // The server's own objects are valid; a test compiles them.
        let _ = put(known, &name, HeaderValue::from_static(""), spec);
    }
}

/// The compiled objects.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub classifier: Classifier,
    /// In the classifier's order.
    pub schemas: Vec<Arc<Schema>>,
    pub levels: BTreeMap<String, Arc<Seats>>,
    pub seed: u64,
    users: RwLock<HashMap<u64, Arc<User>>>,
}

/// A user whose rules are known.
#[derive(Debug)]
struct User {
    name: Box<str>,
    groups: Box<[String]>,
    candidates: Candidates,
}

impl Plan {
    /// The schema of a request, and its position among the schemas. Requests without a matching one belong to
    /// `catch-all`.
    pub fn classify(&self, user: &Identity, request: &Request<'_>) -> Option<(usize, &Arc<Schema>)> {
        let found = if user.groups.len() > GROUPS {
            self.classifier.classify(&self.classifier.candidates(&user.user, &user.groups), request)
        } else {
            self.classifier.classify(&self.user(user).candidates, request)
        };
        let catch_all = || self.schemas.iter().position(|schema| schema.name == CATCH_ALL);
        let at = found.or_else(catch_all)?;
        Some((at, self.schemas.get(at)?))
    }

    fn user(&self, user: &Identity) -> Arc<User> {
        let mut hasher = DefaultHasher::new();
        (self.seed, &user.user, &user.groups).hash(&mut hasher);
        let hash = hasher.finish();
        let is_same = |known: &&Arc<User>| *known.name == *user.user && *known.groups == *user.groups;
        if let Some(known) = self.users.read().get(&hash).filter(is_same) {
            return Arc::clone(known);
        }
        let selected = Arc::new(User {
            name: user.user.as_str().into(),
            groups: user.groups.clone().into(),
            candidates: self.classifier.candidates(&user.user, &user.groups),
        });
        let mut users = self.users.write();
        if users.len() >= USERS {
            users.clear();
        }
        users.insert(hash, Arc::clone(&selected));
        selected
    }
}
