//! Schedules of CronFederatedHPA, and which of its rules are due.

mod calendar;
mod field;
pub mod rules;
mod schedule;

pub use schedule::{Schedule, ScheduleError, zone};
