//! Transactions of several writes.

pub(crate) mod together;
