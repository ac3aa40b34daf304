//! Backups of a control plane: its store, and the keys that its clients trust.
//!
//! `storage::embedded::backup` defines the format. This module has its sources and destinations: the keys of the data
//! directory (`keys`), a file on disk (`file`), the server's URL (`route`), and the schedule (`schedule`).

pub mod file;
pub mod keys;
pub mod route;
pub mod schedule;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// `20261123T020304Z`: sorts by time, and is a valid name in every file system.
pub fn stamp(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The last backup that was taken on this machine, for `karmada store stats`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Last {
    pub time: Timestamp,
    pub revision: u64,
    pub bytes: u64,
    pub file: PathBuf,
}

impl Last {
    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("last-backup.json")
    }

    /// `None` if no backup was noted.
    pub fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read(Self::path(data_dir)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec(self).context("encoding the note of the last backup")?;
        pki::files::replace(&Self::path(data_dir), &text, pki::files::Access::Private).context("noting the last backup")
    }
}
