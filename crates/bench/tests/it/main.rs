//! The program as `cargo xtask bench` runs it.

use std::process::Command;

#[test]
fn each_measurement_lists_its_flags() {
    for (measurement, flag) in
        [("apiserver", "--config-maps"), ("apiserver", "--store"), ("abuse", "--lists"), ("propagation", "--members")]
    {
        let output =
            Command::new(env!("CARGO_BIN_EXE_bench")).args([measurement, "--help"]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(flag), "{measurement}: {text}");
    }
}
