//! The decisions of FederatedHPA and CronFederatedHPA as functions over data.
//!
//! [`plan::decide`] takes a [`spec::Spec`], the values read from each member ([`reading::Member`]), the time and the
//! [`history::History`] of earlier decisions. It returns a [`plan::Plan`]: the number of replicas, the conditions and
//! events, and the evidence for users. [`cron`] has schedules and the rules of CronFederatedHPA.
//!
//! The crate reads no clock and no cluster.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod conditions;
pub mod cron;
pub mod explain;
pub mod history;
mod limits;
pub mod plan;
mod pods;
pub mod proposal;
pub mod reading;
mod replicas;
mod settings;
pub mod spec;

pub use settings::Settings;
