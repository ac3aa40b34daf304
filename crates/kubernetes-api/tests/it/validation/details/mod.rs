//! Every part of a pod and of the kinds around it, made wrong one document at a time: what is said, and in which order.

mod autoscaling;
mod containers;
mod jobs;
mod placement;
mod pods;
mod volumes;

use expect_test::Expect;

use super::check;

fn pods(rows: Vec<(&str, Expect)>) {
    for (spec, expected) in rows {
        check("", "Pod", &format!("spec: {{{spec}}}"), expected);
    }
}
