//! The Common Expression Language as Kubernetes speaks it.
pub mod ast;
pub mod issues;
mod lexer;
mod macros;
mod operands;
pub mod parser;
pub mod re2;
