//! A control plane and a directory of manifests for transcripts of `karmadactl`.

use std::path::Path;

use expect_test::Expect;

use crate::fleet::Fleet;

/// A control plane and a directory of manifests, which reads `D` in expectations.
pub struct Desk {
    pub fleet: Fleet,
    directory: tempfile::TempDir,
}

pub const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    app: demo\ndata:\n  k: v\n";

impl Desk {
    pub async fn new(members: &[&str]) -> Self {
        let fleet = Fleet::start(members).await;
        for member in members {
            fleet.reachable(member).await;
        }
        Self { fleet, directory: tempfile::tempdir().expect("a directory") }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    pub async fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> String {
        let here = self.path().to_string_lossy().into_owned();
        let words: Vec<String> =
            line.split(' ').map(|word| word.replace("D/", &format!("{here}/")).replace('~', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.fleet.command(&words);
        command.env("TMPDIR", self.path());
        for (name, value) in variables {
            command.env(name, value.replace("D/", &format!("{here}/")));
        }
        self.fleet.run(command).await.transcript().replace(&here, "D")
    }

    pub async fn check(&self, line: &str, expected: Expect) {
        expected.assert_eq(&self.run_with(line, &[]).await);
    }
}
