//! Stores of a kube-apiserver: decoding of their values, surveys of the supported content, and copies between engines.
//!
//! [`value`] decodes one value, and [`survey`] sums up a whole store; both are pure. [`store`], [`reading`],
//! [`installation`] and [`transfer`] read and write.
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
