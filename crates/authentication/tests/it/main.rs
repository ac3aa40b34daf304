//! Configurations, tokens and the users they name, one row each.

mod configurations;
mod signing;
mod tokens;
