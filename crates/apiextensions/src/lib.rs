//! CustomResourceDefinitions as pure functions: structural schemas, pruning, defaulting, validation, names, columns.
