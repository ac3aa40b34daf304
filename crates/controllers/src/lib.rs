//! Every reconciler of the control plane, one module each, and the table that lists them.
