//! The log of a real process: its start, its members and its end.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs `karmada up` until it is ready, stops it, and returns its log.
fn log_of_up(args: &[&str]) -> (Vec<String>, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let mut child = Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(["up", "--secure-port=0", "--simulated-clusters=1", "--data-dir"])
        .arg(&data)
        .args(args)
        .env_remove("KARMADA_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a piped stderr")).lines().map_while(Result::ok);
    let mut log = Vec::new();
    let mut seen = [false; 2];
    while !(seen[0] && seen[1]) {
        let line = lines.next().unwrap_or_else(|| panic!("it ended early: {log:#?}"));
        seen[0] |= line.contains("Control plane is ready");
        seen[1] |= line.contains("Cluster is ready");
        log.push(line);
    }
    let signalled = Command::new("kill").arg(child.id().to_string()).status().expect("kill is on PATH");
    log.extend(lines);
    // The machine's speed does not matter here.
    log.retain(|line| !line.contains("Slow request"));
    assert!(signalled.success() && child.wait().expect("the process is ours").success(), "{log:#?}");
    (log, data.to_str().expect("a path in UTF-8").to_owned())
}

#[test]
fn up_logs_its_start_its_members_and_its_end() {
    let (log, data) = log_of_up(&[]);
    let header = regex::Regex::new(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [a-z_]+\.rs:\d+\] ").expect("a pattern");
    for line in &log {
        assert!(header.is_match(line), "{line}");
    }
    let quoted = format!("{data:?}");
    for (at, parts) in [
        (0, &["\"Starting\"", "command=\"up\"", "version=\"v"][..]),
        (log.len() - 2, &["\"Stopping\" reason=\"SIGTERM\""]),
        (log.len() - 1, &["\"Stopped\" command=\"up\""]),
    ] {
        assert!(parts.iter().all(|part| log[at].contains(part)), "{parts:?}: {log:#?}");
    }
    for parts in [
        &["\"Control plane is ready\" address=\"https://127.0.0.1:", "dataDir=", &quoted, "simulatedMembers=1"][..],
        &["\"Cluster joined\" cluster=\"member1\" syncMode=\"Push\" apiEndpoint=\"https://127.0.0.1:"],
        &["\"Cluster is ready\" cluster=\"member1\" new=\"True\" reason=\"ClusterReady\""],
    ] {
        let found = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(found, 1, "{parts:?}: {log:#?}");
    }
    assert!(log.iter().all(|line| line.starts_with('I')), "nothing is wrong: {log:#?}");
    assert!(log.len() <= 10, "a start is short: {log:#?}");
}

#[test]
fn json_is_one_object_a_line() {
    let (log, data) = log_of_up(&["--logging-format=json", "-v=2"]);
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let log: Vec<Value> = log.iter().map(read).collect();
    for line in &log {
        assert!(line["ts"].is_f64() && line["caller"].is_string() && line["msg"].is_string(), "{line}");
        assert!(line["v"].is_u64() || line["level"].is_string(), "{line}");
    }
    let ready = log.iter().find(|line| line["msg"] == "Control plane is ready").expect("it is ready");
    assert_eq!((&ready["v"], &ready["dataDir"]), (&Value::from(0), &Value::from(data)));
}
