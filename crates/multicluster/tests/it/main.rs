//! The plans of collecting and dispatching, executed on a simulated store through random histories, against a slow
//! model.

mod histories;
