//! An operator of the framework kopf (`tests/clients/orders.py`): finalizers, patches of the status, events, and webhooks
//! whose configuration the framework writes.

use pki::{Authority, ServerNames};
use world::World;

use crate::process::Karmada;
use crate::python_client::command;

#[test]
#[cfg_attr(no_python_client, ignore = "KARMADA_PYTHON, or python3, has no package `kopf`")]
fn an_operator_of_kopf_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let (files, world) = (directory.path(), World::system());
    let (authority, _) = Authority::generate("operators", &world).expect("an authority");
    let names = ServerNames { addresses: vec!["127.0.0.1".parse().expect("an address")], ..ServerNames::default() };
    let pair = authority.issue_server(&names, &world).expect("a certificate");
    let texts = [("tls.crt", &*pair.certificate), ("tls.key", &*pair.key), ("ca.crt", authority.certificate())];
    let paths = texts.map(|(name, text)| {
        std::fs::write(files.join(name), text).expect("written");
        files.join(name)
    });
    let server = Karmada::up(&files.join("data"));
    let output = command("orders.py").arg(server.kubeconfig()).args(paths).output().expect("Python is at hand");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out.lines().last(), Some("13 checks"), "{out}{err}");
    assert!(server.terminate());
}
