//! Stores of a kube-apiserver, on engines of this process.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod transfers;
mod upstream;
mod values;

/// A value that a kube-apiserver encrypted.
const SECRET: &[u8] = b"k8s:enc:aescbc:v1:key1:\x01\x02\x03";
