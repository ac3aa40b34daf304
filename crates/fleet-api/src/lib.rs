//! The API over member clusters: `clusters/NAME/proxy` and `clusters/NAME/tunnel` of cluster.karmada.io ([`proxy`]),
//! `search` and `proxying` of search.karmada.io ([`search`]). Both are routes of an API server. [`measured`] has the
//! members for the route of crate `metrics-adapter`. [`opensearch`] writes what ResourceRegistries select to OpenSearch.
//!
//! Not here: the connections that controllers use (`controllers::Members`), and the protocol of tunnels (crate
//! `tunnel`).

pub mod measured;
pub mod opensearch;
pub mod proxy;
pub mod search;
