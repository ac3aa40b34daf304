//! Issuers, webhooks and key management services on loopback, each answering well, badly, slowly or not at all.

mod encrypted;
mod issuers;
mod kms;
mod loopback;
mod webhooks;
