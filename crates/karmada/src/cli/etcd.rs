//! The flags of kube-apiserver about etcd. Those that would have no effect are known, so that they can be refused with
//! the reason.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::arguments::duration;
use crate::engine::Kind;
use crate::event_storage::EventStorage;
use crate::external::{Settings, overrides};

const HEALTH: &str = "the check etcd-readiness follows the connection to etcd and sends no request";
const COUNTS: &str = "objects are counted in memory";
const LEASES: &str = "events of one minute share a lease";

#[derive(Args)]
pub(super) struct EtcdArgs {
    /// The URLs of etcd, comma-separated; without them the store is in the data directory
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    etcd_servers: Vec<String>,
    /// The prefix of all keys in etcd
    #[arg(long, default_value = "/registry", hide_short_help = true, requires = "etcd_servers")]
    etcd_prefix: String,
    /// The authorities of etcd's certificates, in PEM
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "etcd_servers")]
    etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// The key of that client certificate, in PEM
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// The interval of compactions of etcd's history; 0 leaves them to etcd
    #[arg(long, default_value = "5m", value_parser = duration, hide_short_help = true)]
    etcd_compaction_interval: Duration,
    /// The interval at which the size of etcd's database is read for metrics; 0 leaves it out
    #[arg(long, default_value = "30s", value_parser = duration, hide_short_help = true)]
    etcd_db_metric_poll_interval: Duration,
    /// The backend of the store with --etcd-servers: etcd3
    #[arg(long, value_parser = ["", "etcd3"], default_value = "", hide = true)]
    storage_backend: String,
    /// The media type of stored objects
    #[arg(long, default_value = "application/json", hide = true)]
    storage_media_type: String,
    /// Resources in other etcds, comma-separated: GROUP/RESOURCE#URL;URL for /events and coordination.k8s.io/leases
    #[arg(long, value_delimiter = ',', value_name = "OVERRIDE", hide_short_help = true, requires = "etcd_servers")]
    etcd_servers_overrides: Vec<String>,
    /// Where Events are kept: memory (bounded, ends with the process) or store (with all other objects, as always on
    /// etcd)
    #[arg(long, value_parser = ["memory", "store"], value_name = "PLACE", hide_short_help = true)]
    event_storage: Option<String>,
    #[arg(long, hide = true)]
    etcd_healthcheck_timeout: Option<String>,
    #[arg(long, hide = true)]
    etcd_readycheck_timeout: Option<String>,
    #[arg(long, hide = true)]
    etcd_count_metric_poll_period: Option<String>,
    #[arg(long, hide = true)]
    lease_reuse_duration_seconds: Option<String>,
}

impl EtcdArgs {
    /// Where Events are kept.
    ///
    /// # Errors
    /// In memory beside etcd: another server on it would have other Events.
    pub(super) fn event_storage(&self) -> anyhow::Result<EventStorage> {
        let is_memory = match self.event_storage.as_deref() {
            None => self.etcd_servers.is_empty(),
            Some(place) => place == "memory",
        };
        anyhow::ensure!(
            !is_memory || self.etcd_servers.is_empty(),
            "--event-storage=memory: several servers on one etcd must serve the same Events; leave it out, or keep Events in an \
             etcd of their own with --etcd-servers-overrides"
        );
        Ok(if is_memory { EventStorage::Memory } else { EventStorage::Store })
    }

    /// The store.
    ///
    /// # Errors
    /// For a flag without an effect, with the reason.
    pub(super) fn store(self) -> anyhow::Result<Kind> {
        let passed = [
            ("etcd-healthcheck-timeout", self.etcd_healthcheck_timeout.is_some(), HEALTH),
            ("etcd-readycheck-timeout", self.etcd_readycheck_timeout.is_some(), HEALTH),
            ("etcd-count-metric-poll-period", self.etcd_count_metric_poll_period.is_some(), COUNTS),
            ("lease-reuse-duration-seconds", self.lease_reuse_duration_seconds.is_some(), LEASES),
        ];
        if let Some((name, _, reason)) = passed.into_iter().find(|(_, passed, _)| *passed) {
            anyhow::bail!("--{name} has no effect here: {reason}; leave it out");
        }
        anyhow::ensure!(
            self.storage_media_type == "application/json",
            "--storage-media-type: objects are stored as application/json, which kube-apiserver reads as well"
        );
        if self.etcd_servers.is_empty() {
            anyhow::ensure!(self.storage_backend.is_empty(), "--storage-backend=etcd3 needs --etcd-servers");
            return Ok(Kind::Embedded);
        }
        let settings = Settings {
            overrides: overrides::parse(&self.etcd_servers_overrides, &self.etcd_servers)?,
            servers: self.etcd_servers,
            prefix: self.etcd_prefix,
            authority: self.etcd_cafile,
            certificate: self.etcd_certfile,
            key: self.etcd_keyfile,
            compaction: self.etcd_compaction_interval,
            sizes: self.etcd_db_metric_poll_interval,
        };
        settings.options()?;
        Ok(Kind::Etcd(settings.into()))
    }
}
