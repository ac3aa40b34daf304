//! Decisions over many cases: tables, and random histories against slow models.

mod admission;
mod case;
mod cron_model;
mod histories;
mod plans;
mod rules;
