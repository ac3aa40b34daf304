//! `karmada store`: backups of a serving process, restores, the schedule, and the rights to take a backup.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use karmada::backups::schedule::{Plan, Retention};
use karmada::engine::Kind;
use serde_json::{Value, json};
use world::World;

use crate::plane::options;
use crate::process::Karmada;

fn karmada(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(args).env("KARMADA_LOG", "error").env_remove("KUBECONFIG").output().expect("the binary starts")
}

fn ok(args: &[&str]) -> String {
    let output = karmada(args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "karmada {args:?} failed\n{out}{err}");
    out.into_owned()
}

fn refused(args: &[&str]) -> String {
    let output = karmada(args);
    assert!(!output.status.success(), "karmada {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn a_backup_of_a_serving_process_is_restored_on_a_new_machine() {
    let root = tempfile::tempdir().expect("a directory");
    let (old, new, file) = (root.path().join("old"), root.path().join("new"), root.path().join("karmada.backup"));
    let server = Karmada::apiserver(&old);
    server.ok(&["create", "configmap", "a", "--from-literal=key=value"]);
    server.ok(&["create", "secret", "generic", "s", "--from-literal=password=hunter2"]);
    let at = server.ok(&["get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}"]);

    // A client of the server; without the right it is rejected.
    let printed = ok(&["store", "backup", "--data-dir", text(&old), "-o", text(&file)]);
    assert!(printed.contains("karmada.backup: revision ") && printed.contains("verified"), "{printed}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
    for url in ["/karmada/store/backup", "/karmada/store/backup/with-keys"] {
        let why = server.refused(&["get", "--raw", url, "--as=ann", "--as-group=system:authenticated"]);
        assert!(why.contains("Forbidden") && why.contains("ann"), "{why}");
    }
    server.ok(&["create", "clusterrole", "backup", "--verb=get", "--non-resource-url=/karmada/store/backup"]);
    server.ok(&["create", "clusterrolebinding", "backup", "--clusterrole=backup", "--user=ann"]);
    let granted = server.kubectl(&["get", "--raw", "/karmada/store/backup", "--as=ann"]);
    assert!(granted.status.success() && granted.stdout.starts_with(b"karmada-backup"));
    server.refused(&["get", "--raw", "/karmada/store/backup/with-keys", "--as=ann"]);

    // While the server runs.
    let stats: Value =
        serde_json::from_str(&ok(&["store", "stats", "--data-dir", text(&old), "-o", "json"])).expect("JSON");
    assert_eq!((&stats["inUse"], &stats["resources"]["secrets"]["count"]), (&json!(true), &json!(1)), "{stats}");
    assert_eq!(stats["lastBackup"]["file"], json!(text(&file)));
    assert!(ok(&["store", "verify", "--data-dir", text(&old)]).contains("is sound"));
    assert!(ok(&["store", "verify", text(&file)]).contains("with keys"));
    let why = refused(&["store", "restore", text(&file), "--data-dir", text(&old), "--replace"]);
    assert!(why.contains("in use"), "{why}");
    server.ok(&["create", "configmap", "later"]);
    assert!(server.terminate());

    // After the server has stopped, through a pipe.
    let piped = karmada(&["store", "backup", "--data-dir", text(&old), "-o", "-"]);
    assert!(piped.status.success() && piped.stdout.starts_with(b"karmada-backup"));
    let why = refused(&["store", "restore", text(&file), "--data-dir", text(&old)]);
    assert!(why.contains("--replace"), "{why}");
    let table = ok(&["store", "stats", "--data-dir", text(&old)]);
    assert!(table.contains("configmaps ") && table.contains("Last backup:   20"), "{table}");

    let printed = ok(&["store", "restore", text(&file), "--data-dir", text(&new), "--dry-run"]);
    assert!(printed.contains("Would be restored") && !new.exists(), "{printed}");
    let printed = ok(&["store", "restore", text(&file), "--data-dir", text(&new)]);
    for part in ["Keys put back:", "pki/ca.key", "pki/sa.key", "karmadactl resume"] {
        assert!(printed.contains(part), "{printed}");
    }
    let ca = |dir: &Path| std::fs::read(dir.join("pki/ca.crt")).expect("an authority");
    assert_eq!(ca(&old), ca(&new));
    let server = Karmada::apiserver(&new);
    server.ok(&["get", "configmap", "a"]);
    assert!(server.refused(&["get", "configmap", "later"]).contains("NotFound"));
    let password = server.ok(&["get", "secret", "s", "-o", "jsonpath={.data.password}"]);
    assert_eq!(password, "aHVudGVyMg==");
    let watch = format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion={at}");
    let answer = server.kubectl(&["get", "--raw", &watch]);
    let answer = [answer.stdout, answer.stderr].concat();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("too old resource version") || answer.contains("Expired"), "not silence: {answer}");
    let stats: Value =
        serde_json::from_str(&ok(&["store", "stats", "--data-dir", text(&new), "-o", "json"])).expect("JSON");
    assert_eq!(stats["breaks"][0]["kind"], json!("restored"), "{stats}");
    assert!(server.terminate());

    // Replaces a store, which is moved aside.
    let printed = ok(&["store", "restore", text(&file), "--data-dir", text(&old), "--replace"]);
    assert!(printed.contains("kept in"), "{printed}");
    let aside = std::fs::read_dir(&old).expect("a directory").filter_map(|it| it.ok()?.file_name().into_string().ok());
    assert_eq!(aside.filter(|name| name.starts_with("store.replaced-")).count(), 1);
}

#[test]
fn damage_is_named_and_ends_with_an_error() {
    let root = tempfile::tempdir().expect("a directory");
    let (data, file) = (root.path().join("data"), root.path().join("karmada.backup"));
    Karmada::apiserver(&data).terminate();
    ok(&["store", "backup", "--data-dir", text(&data), "-o", text(&file), "--without-keys"]);
    assert!(ok(&["store", "verify", text(&file)]).contains("without keys"));
    let whole = std::fs::read(&file).expect("a backup");
    std::fs::write(&file, &whole[..whole.len() - 7]).expect("a file");
    let why = refused(&["store", "verify", text(&file)]);
    assert!(why.contains("cut off") && why.contains("karmada.backup"), "{why}");
    let store = data.join("store/store.sqlite");
    let mut bytes = std::fs::read(&store).expect("a store");
    let at = bytes.windows(15).position(|it| it == b"\"name\":\"default").expect("an object");
    bytes[at + 9] ^= 1;
    std::fs::write(&store, bytes).expect("a file");
    let why = refused(&["store", "verify", "--data-dir", text(&data)]);
    assert!(why.contains("damaged: the stored value of /registry/") && why.contains("store restore"), "{why}");
    let before = std::fs::read(&file).expect("a file");
    let why = refused(&["store", "backup", "--data-dir", text(&data), "-o", text(&file)]);
    assert!(why.contains("damaged"), "{why}");
    assert_eq!(std::fs::read(&file).expect("a file"), before, "the earlier file stays");
    assert!(!root.path().join("karmada.backup.partial").exists());
    let why = refused(&["store", "verify", text(&file), "--data-dir", text(&data)]);
    assert!(why.contains("cannot be used with '--data-dir <DATA_DIR>'"), "{why}");
    let why = refused(&["store", "verify", text(&root.path().join("nothing"))]);
    assert!(why.contains("nothing does not exist"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_server_takes_backups_at_intervals_and_keeps_some() {
    let root = tempfile::tempdir().expect("a directory");
    let directory = root.path().join("backups");
    std::fs::create_dir(&directory).expect("a directory");
    let interval = Duration::from_secs(6 * 3600);
    let retention = Retention { count: 3, age: None };
    let plan = Plan { directory: directory.clone(), interval, retention, with_keys: true };
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(&directory)
            .expect("a directory")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    };
    let mut options = options(&root.path().join("data")).server;
    (options.store, options.backups) = (Kind::Embedded, Some(plan));
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let server = karmada::apiserver::open(&options, Arc::new(|_| None), &world).await.expect("it starts");
    std::fs::write(directory.join("notes"), "not a backup").expect("a file");
    std::fs::write(directory.join("karmada-20200101T000000Z-r1.backup.partial"), "left by a crash").expect("a file");
    tokio::time::sleep(interval / 6).await;
    let first = names();
    assert_eq!(first.len(), 2, "one soon after the start: {first:?}");
    tokio::time::sleep(5 * interval).await;
    let later = names();
    assert_eq!((later.len(), later.contains(&first[0])), (4, false), "three, and what is no backup: {later:?}");
    let metrics = server.client("test").request(http::Method::GET, "/metrics", None).await.expect("metrics");
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    assert!(metrics.contains("karmada_store_backups_total{result=\"success\"} 6"), "{metrics}");
    assert!(metrics.contains("karmada_store_backup_last_size_bytes "), "{metrics}");

    // If the disk is not writable, earlier backups are kept, and the failure is counted.
    let away = root.path().join("away");
    std::fs::rename(&directory, &away).expect("it moves");
    tokio::time::sleep(2 * interval).await;
    std::fs::rename(&away, &directory).expect("it moves back");
    assert_eq!(names(), later);
    tokio::time::sleep(interval / 6).await;
    assert_ne!(names(), later, "it goes on");
    let metrics = server.client("test").request(http::Method::GET, "/metrics", None).await.expect("metrics");
    assert!(String::from_utf8_lossy(&metrics).contains("karmada_store_backups_total{result=\"error\"}"));
    server.close().await.expect("it stops");
    let newest = names().into_iter().rfind(|name| name.starts_with("karmada-")).expect("a backup");
    let contents = storage::embedded::backup::verify_backup(&directory.join(newest), &mut |_, _| {});
    assert!(contents.expect("a sound backup").files.iter().any(|file| file.name == "pki/ca.key"));
}
