//! The built-in kinds of Kubernetes as data and small functions: which resources there are, their types, defaults,
//! validation, table columns and protobuf form. No handler lives here.
