//! Stores of a kube-apiserver: what their values say, what a control plane that takes them over understands, and copies
//! between engines.
//!
//! [`value`] reads one value, and [`survey`] sums up a whole store. They decide; [`store`], [`reading`], [`installation`] and
//! [`transfer`] read and write.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod form;
pub mod installation;
pub mod places;
pub mod reading;
pub mod store;
pub mod survey;
pub mod transfer;
pub mod value;
mod versions;
