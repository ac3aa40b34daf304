//! The keys and certificates of a data directory. A backup contains them unless they are excluded: clients, agents and
//! service accounts reject a restored control plane with another authority.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use pki::files::Access;
use storage::embedded::backup::Attachment;

/// Their directory in a data directory.
const DIRECTORY: &str = "pki";

/// Reads every file of the directory of keys.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read(data_dir: &Path) -> anyhow::Result<Vec<Attachment>> {
    let directory = data_dir.join(DIRECTORY);
    let attempt = || format!("reading the keys in {}", directory.display());
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&directory).with_context(attempt)? {
        let entry = entry.with_context(attempt)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type().with_context(attempt)?.is_file() && !name.ends_with(".new") {
            files.insert(name, std::fs::read(entry.path()).with_context(attempt)?);
        }
    }
    let attached = |(name, content)| Attachment { name: format!("{DIRECTORY}/{name}"), content: Bytes::from(content) };
    Ok(files.into_iter().map(attached).collect())
}

/// The treatment of a file of the backup by a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreAction {
    /// The file is missing and restored.
    Restore,
    /// The same file exists.
    Same,
    /// A different file, or a different other half of its pair, exists and is kept.
    Kept,
}

/// Decides the treatment of each file of a backup, given the existing files.
///
/// # Errors
/// For a file name that no key or certificate has.
pub fn plan(backup: &[Attachment], present: &[Attachment]) -> anyhow::Result<Vec<(Attachment, RestoreAction)>> {
    let find = |files: &[Attachment], name: &str| files.iter().find(|it| it.name == name).map(|it| it.content.clone());
    let mut planned = Vec::new();
    for file in backup {
        let name = file.name.strip_prefix("pki/").unwrap_or_default();
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        anyhow::ensure!(plain, "the backup holds the file {:?}, which does not belong there", file.name);
        let other_half = |it: &&Attachment| stem(&it.name) == stem(&file.name) && it.name != file.name;
        let has_other_keys =
            present.iter().filter(other_half).any(|it| find(backup, &it.name).as_ref() != Some(&it.content));
        // The other generations of an authority, the other keys of tokens.
        let relative = |it: &&Attachment| family(&it.name) == family(&file.name);
        let differs = |it: &Attachment| find(backup, &it.name).is_some_and(|content| content != it.content);
        let has_other_keys = has_other_keys || present.iter().filter(relative).any(differs);
        let action = match find(present, &file.name) {
            Some(content) if content == file.content => RestoreAction::Same,
            Some(_) => RestoreAction::Kept,
            None if has_other_keys => RestoreAction::Kept,
            None => RestoreAction::Restore,
        };
        planned.push((file.clone(), action));
    }
    Ok(planned)
}

/// The name without its suffix.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The name that later generations share with the first: `pki/ca` of `pki/ca-2.pem`, `pki/sa` of `pki/sa-x7Yq.pub`.
fn family(name: &str) -> &str {
    let stem = stem(name);
    match stem.rsplit_once('-') {
        Some((first, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) || first == "pki/sa" => first,
        _ => stem,
    }
}

/// The existing files, in the form of a backup; empty if the directory is missing.
pub fn present(data_dir: &Path) -> anyhow::Result<Vec<Attachment>> {
    if data_dir.join(DIRECTORY).exists() { read(data_dir) } else { Ok(Vec::new()) }
}

/// Writes the files to restore.
///
/// # Errors
/// A file cannot be written.
pub fn restore(data_dir: &Path, planned: &[(Attachment, RestoreAction)]) -> anyhow::Result<()> {
    if planned.iter().all(|(_, action)| *action != RestoreAction::Restore) {
        return Ok(());
    }
    pki::files::private_directory(&data_dir.join(DIRECTORY))?;
    for (file, _) in planned.iter().filter(|(_, action)| *action == RestoreAction::Restore) {
        let is_public = file.name.ends_with(".crt") || file.name.ends_with(".pub");
        let access = if is_public { Access::Public } else { Access::Private };
        pki::files::create_new(&data_dir.join(&file.name), &file.content, access)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_files_are_restored_and_pairs_together() {
        let files = |names: &[(&str, &'static str)]| -> Vec<Attachment> {
            let file = |(name, content): &(&str, &'static str)| Attachment {
                name: (*name).to_owned(),
                content: Bytes::from_static(content.as_bytes()),
            };
            names.iter().map(file).collect()
        };
        let backup = files(&[("pki/ca.crt", "A"), ("pki/ca.key", "a"), ("pki/sa.key", "s")]);
        for (present, expected) in [
            (files(&[]), [RestoreAction::Restore, RestoreAction::Restore, RestoreAction::Restore]),
            (
                files(&[("pki/ca.crt", "A"), ("pki/ca.key", "a")]),
                [RestoreAction::Same, RestoreAction::Same, RestoreAction::Restore],
            ),
            (
                files(&[("pki/ca.crt", "B"), ("pki/ca.key", "b")]),
                [RestoreAction::Kept, RestoreAction::Kept, RestoreAction::Restore],
            ),
            (files(&[("pki/ca.crt", "A")]), [RestoreAction::Same, RestoreAction::Restore, RestoreAction::Restore]),
            (files(&[("pki/ca.crt", "B")]), [RestoreAction::Kept, RestoreAction::Kept, RestoreAction::Restore]),
            (files(&[("pki/sa.key", "t")]), [RestoreAction::Restore, RestoreAction::Restore, RestoreAction::Kept]),
        ] {
            let planned = plan(&backup, &present).expect("plain names");
            assert_eq!(planned.iter().map(|(_, action)| *action).collect::<Vec<_>>(), expected, "{present:?}");
        }
        let backup = files(&[
            ("pki/ca-2.pem", "B"),
            ("pki/ca.crt", "A"),
            ("pki/front-proxy-ca.crt", "f"),
            ("pki/sa-x.pub", "p"),
        ]);
        for (present, expected) in [
            (
                files(&[("pki/ca.crt", "A")]),
                [RestoreAction::Restore, RestoreAction::Same, RestoreAction::Restore, RestoreAction::Restore],
            ),
            // The successor of another authority is not restored.
            (
                files(&[("pki/ca.crt", "C"), ("pki/sa.key", "t")]),
                [RestoreAction::Kept, RestoreAction::Kept, RestoreAction::Restore, RestoreAction::Restore],
            ),
            (
                files(&[("pki/ca-2.pem", "C")]),
                [RestoreAction::Kept, RestoreAction::Kept, RestoreAction::Restore, RestoreAction::Restore],
            ),
            (files(&[("pki/ca-3.pem", "C")]), [RestoreAction::Restore; 4]),
        ] {
            let planned = plan(&backup, &present).expect("plain names");
            assert_eq!(planned.iter().map(|(_, action)| *action).collect::<Vec<_>>(), expected, "{present:?}");
        }
        for name in ["../etc/passwd", "pki/../a", "pki/", "pki/.a", "ca.key", "pki/a/b"] {
            plan(&files(&[(name, "")]), &[]).expect_err(name);
        }
    }
}
