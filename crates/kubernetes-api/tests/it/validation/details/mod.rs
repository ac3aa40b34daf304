//! Every part of a pod and of related kinds, invalidated one document at a time: the errors and their order.

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
