//! The `*.karmada.io` API groups: Rust types, CustomResourceDefinitions generated from them, names and constants, and
//! the rules of admission as pure functions.
