//! The Kubernetes client of Python, run by `tests/clients/client.py` against `karmada up`.

use std::path::Path;
use std::process::Command;

use crate::process::Karmada;

#[test]
#[cfg_attr(no_python_client, ignore = "KARMADA_PYTHON, or python3, has no package `kubernetes`")]
fn the_python_client_works() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::up(dir.path());
    let python = std::env::var_os("KARMADA_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/client.py");
    let output = Command::new(python).arg(script).arg(server.kubeconfig()).output().expect("Python is at hand");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.lines().last().is_some_and(|line| line.ends_with(" checks")), "{out}");
}
