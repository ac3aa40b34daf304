//! The API server's parts as their callers see them.

mod audit;
mod authn;
mod authz;
mod crds;
mod crds_leave;
mod damaged;
mod drafts;
mod fairness;
mod hostile;
mod joint;
mod kinds;
mod objects;
mod parity;
mod plugins;
mod pods;
mod properties;
mod protocol;
mod request_log;
mod reviews;
mod serve;
mod services;
mod statuses;
mod together;
mod unread;
mod upstream;
