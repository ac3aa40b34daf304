//! The store in etcd: its settings from kube-apiserver's flags, the places of the built-in resources, and its metrics.

pub mod agreement;
pub mod leases;
pub mod overrides;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use etcd::{Certificates, Endpoint, EtcdStore, Layout, Renewal};
use identity::encrypted::Places;
use metrics::{Description, Registry};
use parking_lot::Mutex;

use crate::flags::FlagValues;
pub use overrides::Override;

/// The flags `--etcd-…`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--etcd-servers`
    pub servers: Vec<String>,
    /// `--etcd-servers-overrides`
    pub overrides: Vec<Override>,
    /// `--etcd-prefix`
    pub prefix: String,
    /// `--etcd-cafile`
    pub authority: Option<PathBuf>,
    /// `--etcd-certfile`
    pub certificate: Option<PathBuf>,
    /// `--etcd-keyfile`
    pub key: Option<PathBuf>,
    /// `--etcd-compaction-interval`; 0 disables compaction.
    pub compaction: Duration,
    /// `--etcd-db-metric-poll-interval`; 0 for no metrics.
    pub sizes: Duration,
}

pub const SIZE: Description = Description::gauge(
    "apiserver_storage_size_bytes",
    &["storage_cluster_id"],
    "Bytes of etcd's database file, of the member in use.",
);
pub const USED: Description = Description::gauge(
    "karmada_etcd_size_in_use_bytes",
    &[],
    "Bytes in use of etcd's database file; etcdctl defrag releases the others.",
);

pub const EXCEEDED: Description = Description::gauge(
    "karmada_etcd_quota_exceeded",
    &["storage_cluster_id"],
    "1 while etcd refuses writes because its database exceeds its quota (the alarm NOSPACE).",
);

pub const METRICS: &[Description] = &[SIZE, USED, EXCEEDED];

impl Settings {
    /// From the flags of a component; `None` without `--etcd-servers`.
    ///
    /// # Errors
    /// The invalid flag.
    pub fn from_flags(flags: &FlagValues<'_>) -> anyhow::Result<Option<Self>> {
        let servers: Vec<_> = flags.list("etcd-servers").into_iter().map(str::to_owned).collect();
        let file = |name| Some(PathBuf::from(flags.text(name))).filter(|path| !path.as_os_str().is_empty());
        let others = ["etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix"];
        let backend = flags.text("storage-backend");
        ensure!(matches!(backend, "" | "etcd3"), "--storage-backend: {backend:?} is not etcd3");
        if servers.is_empty() {
            ensure!(backend.is_empty(), "--storage-backend=etcd3 needs --etcd-servers");
            let other = others.into_iter().find(|name| flags.is_set(name));
            ensure!(other.is_none(), "--{} has no effect without --etcd-servers", other.unwrap_or_default());
            return Ok(None);
        }
        Ok(Some(Self {
            servers,
            overrides: Vec::new(),
            prefix: flags.text("etcd-prefix").to_owned(),
            authority: file("etcd-cafile"),
            certificate: file("etcd-certfile"),
            key: file("etcd-keyfile"),
            compaction: flags.duration("etcd-compaction-interval")?,
            sizes: flags.duration("etcd-db-metric-poll-interval")?,
        }))
    }

    /// The layout of the keys in etcd.
    pub fn layout(&self) -> Layout {
        layout(&self.prefix)
    }

    /// The keys in etcd by those of the store.
    pub fn places(&self) -> Places {
        let layout = self.layout();
        Arc::new(move |key| layout.to_etcd(key))
    }

    /// Reads the certificates.
    ///
    /// # Errors
    /// The invalid flag or unreadable file.
    pub fn options(&self) -> anyhow::Result<etcd::Options> {
        self.overrides.iter().try_for_each(|it| self.options_of("--etcd-servers-overrides", &it.servers).map(drop))?;
        self.options_of("--etcd-servers", &self.servers)
    }

    /// Reads the files of the certificates.
    fn certificates(&self) -> anyhow::Result<Certificates> {
        let read = |flag: &str, path: &Path| {
            std::fs::read(path).with_context(|| format!("--{flag}: reading {}", path.display()))
        };
        let client = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((read("etcd-certfile", certificate)?, read("etcd-keyfile", key)?)),
            (None, None) => None,
            _ => anyhow::bail!("--etcd-certfile and --etcd-keyfile belong together: give both or neither"),
        };
        let authority = self.authority.as_deref().map(|path| read("etcd-cafile", path)).transpose()?;
        Ok(Certificates { authority, client })
    }

    /// The options of the etcd at `servers`, which `flag` names. All have the same certificates and prefix.
    fn options_of(&self, flag: &'static str, servers: &[String]) -> anyhow::Result<etcd::Options> {
        let endpoints = servers.iter().map(|url| url.parse::<Endpoint>());
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>().context(flag)?;
        let certificates = self.certificates()?;
        let secure = servers.iter().any(|url| url.starts_with("https:"));
        ensure!(
            !secure || certificates.authority.is_some(),
            "--etcd-cafile is missing: the authority of etcd's certificates"
        );
        let mut options = etcd::Options::new(endpoints, layout(&self.prefix));
        options.certificates = certificates;
        let settings = self.clone();
        options.renewal =
            Some(Renewal(Arc::new(move || settings.certificates().map_err(|error| format!("{error:#}")))));
        options.compaction = Some(self.compaction).filter(|interval| !interval.is_zero());
        options.check().context("--etcd-cafile, --etcd-certfile, --etcd-keyfile")?;
        Ok(options)
    }
}

/// kube-apiserver's names of resources in etcd that differ from the resource.
const HISTORIC: &[(&str, &str)] = &[
    ("core/services", "services/specs"),
    ("core/endpoints", "services/endpoints"),
    ("core/nodes", "minions"),
    ("core/replicationcontrollers", "controllers"),
    ("networking.k8s.io/ingresses", "ingress"),
];

/// Built-in groups whose keys in etcd contain the group, because upstream serves them with a separate API server.
const WITH_GROUP: &[&str] = &["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// kube-apiserver's layout.
fn layout(prefix: &str) -> Layout {
    let places: Vec<_> = kubernetes_api::resources().iter().filter_map(|it| place(&it.info.resource)).collect();
    Layout::new(prefix, places.iter().map(|(store, etcd)| (store.as_str(), etcd.as_str())))
}

/// The place of a built-in resource in the store and in etcd; `None` where both are equal.
fn place(resource: &apimachinery::ApiResource) -> Option<(String, String)> {
    if WITH_GROUP.contains(&resource.group.as_str()) {
        return None;
    }
    let store = ::apiserver::cache::keys::group_resource(&resource.group, &resource.plural);
    let historic = HISTORIC.iter().find(|(of, _)| *of == store).map(|(_, etcd)| (*etcd).to_owned());
    Some((store, historic.unwrap_or_else(|| resource.plural.clone())))
}

/// Opens the stores of the overrides, in order. They may be empty: objects that are still in the main store stay there,
/// and are not served.
///
/// # Errors
/// If an etcd cannot be reached.
pub async fn open_overrides(settings: &Settings) -> anyhow::Result<Vec<EtcdStore>> {
    let mut stores = Vec::with_capacity(settings.overrides.len());
    for Override { servers, .. } in &settings.overrides {
        let place = || format!("etcd at {} of --etcd-servers-overrides", servers.join(","));
        let options = settings.options_of("--etcd-servers-overrides", servers)?;
        let store = EtcdStore::open(options).await.with_context(place)?;
        if store.is_empty().await.with_context(place)? {
            store.claim().await.with_context(place)?;
        }
        stores.push(store);
    }
    Ok(stores)
}

/// Opens the store. With `must_exist` an empty one is an error: the data directory belongs to another store.
///
/// # Errors
/// If etcd cannot be reached, is empty, or holds values that this version cannot read.
pub async fn open(settings: &Settings, must_exist: bool) -> anyhow::Result<EtcdStore> {
    let Settings { servers, prefix, .. } = settings;
    let servers = servers.join(",");
    let place = || format!("etcd at {servers}");
    let store = EtcdStore::open(settings.options()?).await.with_context(place)?;
    if store.is_empty().await.with_context(place)? {
        ensure!(
            !must_exist,
            "etcd at {servers} holds nothing under {prefix}, but the data directory belongs to a control plane that has \
             objects: nothing is started. Correct --etcd-servers or --etcd-prefix, or begin a new control plane with \
             another --data-dir"
        );
        store.claim().await.with_context(place)?;
    }
    Ok(store)
}

/// Locks the data directory of a process whose store is elsewhere. The lock ends with the file.
///
/// # Errors
/// Another process has the directory, or it cannot be written.
pub fn lock(data_dir: &Path) -> anyhow::Result<File> {
    let path = data_dir.join("lock");
    pki::files::private_directory(data_dir).context("creating the data directory")?;
    let lock = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
    let refusal = "another process uses this data directory; each process on one etcd needs one of its own";
    lock.try_lock().map_err(|_| anyhow::anyhow!("{}: {refusal}", data_dir.display()))?;
    Ok(lock)
}

/// Reads the size of the databases at an interval, for as long as the server runs: the main one, and those of
/// overrides.
pub fn count(registry: &Registry, stores: &[EtcdStore], interval: Duration) {
    stores.iter().enumerate().for_each(|(number, store)| count_one(registry, number, store, interval));
}

fn count_one(registry: &Registry, number: usize, store: &EtcdStore, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let last = Arc::new(Mutex::new(None));
    let sampled = Arc::clone(&last);
    let store = store.clone();
    let mut closed = store.closed();
    tokio::spawn(async move {
        loop {
            match store.size().await {
                Ok(size) => *last.lock() = Some(size),
                Err(error) => tracing::debug!(err = %error, "the size of etcd's database is unknown"),
            }
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return,
                () = tokio::time::sleep(interval) => {}
            }
        }
    });
    let name = format!("etcd-{number}");
    registry.collect(move |samples| {
        if let Some(size) = &*sampled.lock() {
            samples.gauge(&SIZE, &[&name], size.file as f64);
            samples.gauge(&EXCEEDED, &[&name], f64::from(u8::from(size.is_exceeded)));
            if number == 0 {
                samples.gauge(&USED, &[], size.used as f64);
            }
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_are_where_kube_apiserver_has_them() {
        let layout = layout("/registry");
        for (store, etcd) in [
            ("/registry/core/pods/ns/a", "/registry/pods/ns/a"),
            ("/registry/core/services/ns/a", "/registry/services/specs/ns/a"),
            ("/registry/core/endpoints/ns/a", "/registry/services/endpoints/ns/a"),
            ("/registry/core/nodes/a", "/registry/minions/a"),
            ("/registry/core/replicationcontrollers/ns/a", "/registry/controllers/ns/a"),
            ("/registry/core/events/ns/a", "/registry/events/ns/a"),
            ("/registry/apps/deployments/ns/a", "/registry/deployments/ns/a"),
            ("/registry/networking.k8s.io/ingresses/ns/a", "/registry/ingress/ns/a"),
            ("/registry/rbac.authorization.k8s.io/clusterroles/a", "/registry/clusterroles/a"),
            ("/registry/coordination.k8s.io/leases/ns/a", "/registry/leases/ns/a"),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/a",
                "/registry/apiextensions.k8s.io/customresourcedefinitions/a",
            ),
            ("/registry/apiregistration.k8s.io/apiservices/a", "/registry/apiregistration.k8s.io/apiservices/a"),
            ("/registry/work.karmada.io/works/ns/a", "/registry/work.karmada.io/works/ns/a"),
            ("/registry/cluster.karmada.io/clusters/a", "/registry/cluster.karmada.io/clusters/a"),
        ] {
            assert_eq!(layout.to_etcd(store.as_bytes()), etcd, "{store}");
            assert_eq!(layout.to_store(etcd.as_bytes()).as_deref(), Some(store.as_bytes()), "{etcd}");
        }
    }

    #[test]
    fn no_two_resources_share_a_prefix() {
        let resources = kubernetes_api::resources();
        let mut places: Vec<_> = resources.iter().filter_map(|it| place(&it.info.resource)).collect();
        places.sort();
        places.dedup();
        let all = places.len();
        let mut etcd: Vec<_> = places.into_iter().map(|(_, etcd)| etcd).collect();
        etcd.sort();
        etcd.dedup();
        assert_eq!(etcd.len(), all);
    }

    #[test]
    fn faulty_settings_are_named() {
        let settings = Settings {
            servers: vec!["https://127.0.0.1:2379".to_owned()],
            overrides: Vec::new(),
            prefix: "/registry".to_owned(),
            authority: None,
            certificate: None,
            key: None,
            compaction: Duration::from_secs(300),
            sizes: Duration::ZERO,
        };
        let missing = Some(PathBuf::from("missing.crt"));
        for (settings, expected) in [
            (settings.clone(), "--etcd-cafile is missing"),
            (Settings { authority: missing.clone(), ..settings.clone() }, "--etcd-cafile: reading missing.crt"),
            (
                Settings { certificate: missing, ..settings.clone() },
                "--etcd-certfile and --etcd-keyfile belong together",
            ),
            (Settings { servers: vec!["127.0.0.1:1".to_owned()], ..settings }, "it has no scheme"),
        ] {
            let error = settings.options().err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        }
    }
}
