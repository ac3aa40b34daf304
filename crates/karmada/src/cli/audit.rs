//! kube-apiserver's flags for auditing.

use std::path::PathBuf;
use std::time::Duration;

use ::audit::Limits;
use clap::{Args, ValueEnum};
use world::World;

use super::arguments::duration;
use crate::audit::{Backend, Batching, Format, Log, Mode, Settings, Webhook};

const MEGABYTE: u64 = 1024 * 1024;
const DAY: u64 = 24 * 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Batch,
    Blocking,
    BlockingStrict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Json,
    Legacy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "audit.k8s.io/v1")]
    V1,
}

#[derive(Args)]
pub(super) struct AuditArgs {
    /// The audit policy; events go to --audit-log-path, --audit-webhook-config-file or both
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    webhook: WebhookArgs,
}

#[derive(Args)]
struct LogArgs {
    /// The file of the audit log; `-` is standard output, an empty value disables the log
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    audit_log_path: Option<String>,
    /// The format of a line
    #[arg(long, default_value = "json", hide_short_help = true)]
    audit_log_format: LogFormat,
    /// The API version of the events
    #[arg(long, default_value = "audit.k8s.io/v1", hide_short_help = true)]
    audit_log_version: Version,
    /// When a request continues: immediately (batch), after its event is written or lost (blocking), or only if its
    /// first event is written (blocking-strict)
    #[arg(long, default_value = "blocking", hide_short_help = true)]
    audit_log_mode: Way,
    /// The days after which a rotated file is removed; 0 for none
    #[arg(long, default_value_t = 366, hide_short_help = true)]
    audit_log_maxage: u32,
    /// The number of rotated files to keep; 0 for all
    #[arg(long, default_value_t = 100, hide_short_help = true)]
    audit_log_maxbackup: usize,
    /// The megabytes after which the file is rotated; 0 for 100
    #[arg(long, default_value_t = 100, hide_short_help = true)]
    audit_log_maxsize: u64,
    /// Compress rotated files with gzip
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    audit_log_compress: bool,
    /// Events that may wait until they are written, in mode batch
    #[arg(long, default_value_t = 10_000, hide_short_help = true)]
    audit_log_batch_buffer_size: usize,
    /// Events that are written together at most, in mode batch
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    audit_log_batch_max_size: usize,
    /// The time a batch waits until it is full, in mode batch
    #[arg(long, default_value = "0s", value_parser = duration, hide_short_help = true)]
    audit_log_batch_max_wait: Duration,
    /// Whether batches are throttled, in mode batch
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    audit_log_batch_throttle_enable: bool,
    /// Batches a second on average, in mode batch
    #[arg(long, default_value_t = 0.0, hide_short_help = true)]
    audit_log_batch_throttle_qps: f64,
    /// Batches at once, in mode batch
    #[arg(long, default_value_t = 0, hide_short_help = true)]
    audit_log_batch_throttle_burst: u32,
    /// Whether too large events lose their objects and too large batches are split
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    audit_log_truncate_enabled: bool,
    /// The bytes of a batch at most
    #[arg(long, default_value_t = Limits::default().batch, hide_short_help = true)]
    audit_log_truncate_max_batch_size: usize,
    /// The bytes of an event at most
    #[arg(long, default_value_t = Limits::default().event, hide_short_help = true)]
    audit_log_truncate_max_event_size: usize,
}

#[derive(Args)]
struct WebhookArgs {
    /// The kubeconfig of the webhook that events are sent to; none without it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    audit_webhook_config_file: Option<PathBuf>,
    /// When a request continues; see --audit-log-mode
    #[arg(long, default_value = "batch", hide_short_help = true)]
    audit_webhook_mode: Way,
    /// The API version of the events
    #[arg(long, default_value = "audit.k8s.io/v1", hide_short_help = true)]
    audit_webhook_version: Version,
    /// The pause after the first failed request
    #[arg(long, default_value = "10s", value_parser = duration, hide_short_help = true)]
    audit_webhook_initial_backoff: Duration,
    /// Events that may wait until they are sent, in mode batch
    #[arg(long, default_value_t = 10_000, hide_short_help = true)]
    audit_webhook_batch_buffer_size: usize,
    /// Events that are sent together at most, in mode batch
    #[arg(long, default_value_t = 400, hide_short_help = true)]
    audit_webhook_batch_max_size: usize,
    /// The time a batch waits until it is full, in mode batch
    #[arg(long, default_value = "30s", value_parser = duration, hide_short_help = true)]
    audit_webhook_batch_max_wait: Duration,
    /// Whether batches are throttled, in mode batch
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    audit_webhook_batch_throttle_enable: bool,
    /// Batches a second on average, in mode batch
    #[arg(long, default_value_t = 10.0, hide_short_help = true)]
    audit_webhook_batch_throttle_qps: f64,
    /// Batches at once, in mode batch
    #[arg(long, default_value_t = 15, hide_short_help = true)]
    audit_webhook_batch_throttle_burst: u32,
    /// Whether too large events lose their objects and too large batches are split
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_short_help = true, action = clap::ArgAction::Set)]
    audit_webhook_truncate_enabled: bool,
    /// The bytes of a batch at most
    #[arg(long, default_value_t = Limits::default().batch, hide_short_help = true)]
    audit_webhook_truncate_max_batch_size: usize,
    /// The bytes of an event at most
    #[arg(long, default_value_t = Limits::default().event, hide_short_help = true)]
    audit_webhook_truncate_max_event_size: usize,
}

fn mode(way: Way, batching: Batching) -> Mode {
    match way {
        Way::Batch => Mode::Batch(batching),
        Way::Blocking => Mode::Blocking,
        Way::BlockingStrict => Mode::BlockingStrict,
    }
}

impl LogArgs {
    fn backend(self, world: &World) -> Option<Backend<Log>> {
        let Version::V1 = self.audit_log_version;
        let path = PathBuf::from(self.audit_log_path.filter(|path| !path.is_empty())?);
        let max_size = if self.audit_log_maxsize == 0 { 100 } else { self.audit_log_maxsize };
        let to = Log {
            path,
            format: match self.audit_log_format {
                LogFormat::Json => Format::Json,
                LogFormat::Legacy => Format::Legacy,
            },
            max_size: max_size.saturating_mul(MEGABYTE),
            max_backups: self.audit_log_maxbackup,
            max_age: Duration::from_secs(u64::from(self.audit_log_maxage) * DAY),
            compress: self.audit_log_compress,
            world: world.clone(),
        };
        let throttle = (self.audit_log_batch_throttle_qps, self.audit_log_batch_throttle_burst);
        let batching = Batching {
            buffer: self.audit_log_batch_buffer_size,
            size: self.audit_log_batch_max_size,
            wait: self.audit_log_batch_max_wait,
            throttle: self.audit_log_batch_throttle_enable.then_some(throttle),
        };
        let limits =
            Limits { event: self.audit_log_truncate_max_event_size, batch: self.audit_log_truncate_max_batch_size };
        let limits = self.audit_log_truncate_enabled.then_some(limits);
        Some(Backend { to, mode: mode(self.audit_log_mode, batching), limits })
    }
}

impl WebhookArgs {
    fn backend(self) -> Option<Backend<Webhook>> {
        let Version::V1 = self.audit_webhook_version;
        let to = Webhook {
            config_file: self.audit_webhook_config_file?,
            initial_backoff: self.audit_webhook_initial_backoff,
        };
        let throttle = (self.audit_webhook_batch_throttle_qps, self.audit_webhook_batch_throttle_burst);
        let batching = Batching {
            buffer: self.audit_webhook_batch_buffer_size,
            size: self.audit_webhook_batch_max_size,
            wait: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some(throttle),
        };
        let limits = Limits {
            event: self.audit_webhook_truncate_max_event_size,
            batch: self.audit_webhook_truncate_max_batch_size,
        };
        let limits = self.audit_webhook_truncate_enabled.then_some(limits);
        Some(Backend { to, mode: mode(self.audit_webhook_mode, batching), limits })
    }
}

impl AuditArgs {
    pub(super) fn settings(self, world: &World) -> Settings {
        Settings { policy_file: self.audit_policy_file, log: self.log.backend(world), webhook: self.webhook.backend() }
    }
}
