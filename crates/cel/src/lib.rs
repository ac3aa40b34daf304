//! The Common Expression Language as Kubernetes uses it: the language, its standard functions, cel-go's extensions and
//! Kubernetes' libraries.
//!
//! An [`Env`] declares variables; [`Env::compile`] parses and type-checks an expression into a [`Program`], which is
//! evaluated any number of times, on borrowed documents, within a budget. The crate uses no clock, store or network; no
//! input makes an evaluation panic, run long or take much memory.
//!
//! ```
//! use cel::{Env, Type, Value, budget::Meter};
//!
//! let env = Env::new().with("x", Type::Int);
//! let program = env.compile("x * 2 > 5").expect("well typed");
//! let value = program.eval(&[Some(Value::Int(3))], &mut Meter::new(1_000)).expect("has a value");
//! assert!(matches!(value, Value::Bool(true)));
//! ```

#![warn(missing_docs)]

mod aggregates;
mod ast;
pub mod authorization;
pub mod budget;
mod check;
mod check_calls;
mod check_literals;
mod compare;
mod declarations;
mod document;
mod estimate;
mod eval;
mod folds;
mod go_syntax;
mod issues;
mod lexer;
mod libraries;
mod macros;
mod names;
mod opaque;
mod operands;
mod parser;
mod program;
pub mod re2;
mod times;
pub mod types;
mod unify;
mod url;
pub use url::is_request_uri;
pub mod value;

pub use budget::EvalError;
pub use issues::{Issue, Issues};
pub use program::{Env, Program};
pub use types::{Shape, Type};
pub use value::Value;
