//! `karmada demo`: its scenes in one process on virtual time, and the program as a user starts it.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use karmada::demo::{self, Options, Screen};
use karmada::engine::Kind;
use parking_lot::Mutex;
use simulator::MemberOptions;
use world::World;

/// The output of the demonstration.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn options() -> Options {
    Options {
        members: (1..=3).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
        exit: true,
        timeout: Duration::from_secs(60),
        secure_port: 0,
        store: Kind::Memory,
    }
}

/// The error, if any, and the output, without the times.
async fn played(options: Options, directory: &std::path::Path) -> (Option<String>, String) {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let written = Written::default();
    let mut screen = Screen::new(written.clone(), false);
    let ended = demo::run_in(directory, &options, &mut screen, &world, std::future::pending()).await;
    let text = String::from_utf8(written.0.lock().clone()).expect("UTF-8");
    (ended.err().map(|error| format!("{error:#}")), without_times(&text))
}

fn without_times(text: &str) -> String {
    let times = regex::Regex::new(r"(?m)^ *\d+\.\ds  ").expect("a pattern");
    times.replace_all(text, "").into_owned()
}

fn transcript() -> Expect {
    expect![[r#"
        Started   a control plane and 3 simulated member clusters in this process
        Joined    member1, member2, member3: all Ready
        Created   Deployment nginx with 4 replicas; a PropagationPolicy divides them over member1 and member2
        Observed  nginx 4/4 ready: member1 2/2, member2 2/2
        Changed   the PropagationPolicy: member2 and member3 instead
        Observed  nginx 4/4 ready: member2 2/2, member3 2/2; member1 no longer has it
        Stopped   the API server of member3; meanwhile nginx is scaled to 5 inside member3
        Observed  member3 Ready=False (ClusterNotReachable); nginx stays assigned to member2 and member3, nothing is deleted
        Started   the API server of member3 again
        Observed  member3 Ready=True (ClusterReady); nginx 4/4 ready: member2 2/2, member3 2/2; the scaling is undone

        The demo probes members every 0.5 s and reports a loss after 1 s; `karmada up` does so every 10 s and after 30 s.
    "#]]
}

#[tokio::test(start_paused = true)]
async fn the_demo_reports_each_step() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (error, text) = played(options(), directory.path()).await;
    assert_eq!(error, None, "{text}");
    transcript().assert_eq(&text);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_start_ends_the_demo_with_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(directory.path().join("members")).expect("a directory");
    std::fs::write(directory.path().join("members/member2"), "").expect("a file in the place of a directory");
    let (error, text) = played(options(), directory.path()).await;
    let error = error.expect("an error").replace(&directory.path().display().to_string(), "DIR");
    assert_eq!(
        error,
        "starting member member2: creating the data directory DIR/members/member2: File exists (os error 17)"
    );
    assert_eq!(text, "");
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_ends_the_demo_with_the_missing_state() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut options = options();
    // Its Deployments never get a pod.
    options.members[1].bare = true;
    let (error, text) = played(options, directory.path()).await;
    let expected =
        "waited 60 s for nginx to be propagated: the Deployment in cluster member2 has 0/2 replicas ready instead of 2";
    assert_eq!(error.as_deref(), Some(expected), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_demo_fails() {
    for (exit, expected) in [(true, Some("interrupted before the story was over")), (false, None)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let (options, mut screen) = (Options { exit, ..options() }, Screen::new(Written::default(), false));
        let ended = demo::run_in(directory.path(), &options, &mut screen, &world, std::future::ready(Ok(()))).await;
        assert_eq!(ended.err().map(|error| error.to_string()).as_deref(), expected);
    }
}

#[test]
fn the_program_writes_plain_lines_into_a_pipe_and_no_logs() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_karmada")).args(["demo", "--exit"]).output().expect("the binary starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(err, "");
    assert!(out.is_ascii() && !out.contains('\x1b'), "{out}");
    transcript().assert_eq(&without_times(&out));
}

#[test]
fn the_readme_shows_the_demo() {
    let readme = include_str!("../../../../README.md");
    let block = readme.split("\n\n").find(|block| block.contains("s  Started   a control plane"));
    let shown: String = block.unwrap_or_default().lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let transcript = transcript().data().to_owned();
    let lines =
        transcript.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("The demo"));
    assert_eq!(without_times(&shown).lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

#[test]
fn the_program_fails_with_one_line_where_it_cannot_keep_its_data() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    let output = command.args(["demo", "--exit"]).env("TMPDIR", "/nonexistent").output().expect("the binary starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: creating a data directory: ") && err.lines().count() == 1, "{err}");
}
