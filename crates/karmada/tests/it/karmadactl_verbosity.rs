//! The log of requests that `-v` enables.

use crate::fleet::Ran;
use crate::process::Karmada;

#[test]
fn requests_are_logged_from_level_six() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Karmada::apiserver(directory.path());
    let run = |args: &[&str]| Ran::from(server.karmadactl(args));
    let quiet = run(&["get", "namespace", "default", "-o", "name", "-v", "5"]);
    assert_eq!((&*quiet.out, &*quiet.err), ("namespace/default\n", ""));
    for level in ["--v=6", "-v9"] {
        let logged = run(&["get", "namespace", "default", "-o", "name", level]);
        assert_eq!(logged.out, "namespace/default\n");
        let lines: Vec<&str> = logged.err.lines().collect();
        let path = "/api/v1/namespaces/default 200 OK in ";
        let is_read = |line: &&&str| line.contains("] GET https://127.0.0.1:") && line.contains(path);
        assert_eq!(lines.iter().filter(is_read).count(), 1, "{}", logged.err);
        assert!(lines.iter().all(|line| line.starts_with('I') && line.ends_with(" milliseconds")), "{}", logged.err);
        assert!(!logged.err.contains("uthorization") && !logged.err.contains("Bearer"), "{}", logged.err);
    }
    let missing = run(&["get", "namespace", "none", "-v=6"]);
    assert!(missing.err.contains("/api/v1/namespaces/none 404 Not Found in "), "{}", missing.err);
    assert!(missing.err.ends_with("namespaces \"none\" not found\n"), "{}", missing.err);
}
