//! A backup on disk: written to a temporary file, verified, synced and renamed. Only its owner can read it, for it
//! contains Secrets and keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use storage::embedded::backup::{Backup, Contents, verify_backup};

/// Suffix of a file that is being written.
pub const PARTIAL: &str = ".partial";

/// Writes `pieces` to `path` atomically. `written` gets the number of bytes so far.
///
/// # Errors
/// The pieces end early or are damaged, or the file cannot be written. `path` is unchanged then.
pub async fn save(
    mut pieces: BoxStream<'_, anyhow::Result<Bytes>>,
    path: &Path,
    written: &mut (dyn FnMut(u64) + Send),
) -> anyhow::Result<Contents> {
    let mut staged = Staged::create(path)?;
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        staged = blocking(move || staged.append(&piece)).await?;
        written(staged.length);
    }
    blocking(move || staged.finish()).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("writing the backup")?
}

/// The pieces of a backup of a store in this process.
pub fn pieces(backup: Backup) -> BoxStream<'static, anyhow::Result<Bytes>> {
    futures::stream::try_unfold(backup, async |mut backup| {
        let piece = backup.piece().await.context("reading the store")?;
        Ok(piece.map(|piece| (piece, backup)))
    })
    .boxed()
}

/// Removes temporary files with this prefix left by a crash.
///
/// # Errors
/// If the directory cannot be read, or a file cannot be removed.
pub fn remove_partial(directory: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let partial = name.to_str().is_some_and(|name| name.starts_with(prefix) && name.ends_with(PARTIAL));
        // A file that is being written is locked.
        if partial && File::open(entry.path())?.try_lock().is_ok() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The file while it is written; removed if it is not finished.
struct Staged {
    file: File,
    length: u64,
    staged: PathBuf,
    path: PathBuf,
    renamed: bool,
}

impl Staged {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let mut name = path.file_name().context("the backup needs the name of a file")?.to_os_string();
        name.push(PARTIAL);
        let staged = path.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&staged).with_context(|| format!("creating {}", staged.display()))?;
        // Two writers would corrupt the file; a file left by a crash is not locked.
        anyhow::ensure!(file.try_lock().is_ok(), "{} is being written by another process", staged.display());
        file.set_len(0).with_context(|| format!("truncating {}", staged.display()))?;
        Ok(Self { file, length: 0, staged, path: path.to_owned(), renamed: false })
    }

    fn append(mut self, piece: &[u8]) -> anyhow::Result<Self> {
        self.file.write_all(piece).map_err(|error| self.failed(&error))?;
        self.length += piece.len() as u64;
        Ok(self)
    }

    fn failed(&self, error: &io::Error) -> anyhow::Error {
        let (path, length) = (self.path.display(), self.length);
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => anyhow::anyhow!(
                "no space is left for {path}: {length} bytes were written, and removed again; free some space, or write to \
                 another file system"
            ),
            _ => anyhow::anyhow!("writing {path}: {error}"),
        }
    }

    /// Verifies the file before it gets the name of a backup.
    fn finish(mut self) -> anyhow::Result<Contents> {
        self.file.sync_all().map_err(|error| self.failed(&error))?;
        let contents = verify_backup(&self.staged, &mut |_, _| {})?;
        fs::rename(&self.staged, &self.path).with_context(|| format!("renaming {}", self.staged.display()))?;
        self.renamed = true;
        let parent = self.path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|it| it.sync_all()).with_context(|| format!("syncing {}", parent.display()))?;
        Ok(contents)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.renamed {
            // The next backup overwrites it.
            let _ = fs::remove_file(&self.staged);
        }
    }
}
