//! Waits for changes of files: the kernel reports them, without polling. If it cannot, the files are checked every minute.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Between two checks of files whose changes are not reported: kube-apiserver's interval.
const UNREPORTED: Duration = Duration::from_secs(60);
/// Certificate and key are written one after the other.
const SETTLE: Duration = Duration::from_secs(1);

#[cfg(target_os = "linux")]
mod inotify {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    use rustix::io::Errno;
    use tokio::io::unix::AsyncFd;

    pub struct Watched(AsyncFd<OwnedFd>);

    impl Watched {
        /// `None` when the kernel refuses, as with too many watches of one user.
        pub fn of(directories: &[PathBuf]) -> Option<Self> {
            let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            // A mounted Secret changes by a rename in its directory.
            let events = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::DELETE;
            for directory in directories {
                // A relative file name has an empty parent.
                let at = if directory.as_os_str().is_empty() { std::path::Path::new(".") } else { directory };
                inotify::add_watch(&watch, at, events).ok()?;
            }
            #[allow(deprecated, reason = "an OwnedFd keeps its descriptor; the replacement is an unsafe function")]
            let watch = AsyncFd::new(watch).ok()?;
            Some(Self(watch))
        }

        pub async fn next(&self) {
            loop {
                let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
                let mut found = false;
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(self.0.get_ref(), &mut buffer);
                loop {
                    match reader.next() {
                        Ok(_) => found = true,
                        Err(Errno::INTR) => {}
                        Err(_) => break,
                    }
                }
                ready.clear_ready();
                if found {
                    return;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod inotify {
    use std::path::PathBuf;

    pub struct Watched;

    impl Watched {
        pub fn of(_: &[PathBuf]) -> Option<Self> {
            None
        }

        pub async fn next(&self) {
            std::future::pending().await
        }
    }
}

/// Changes of files in some directories.
pub struct Changes(Option<inotify::Watched>);

impl Changes {
    pub fn of(directories: &[PathBuf]) -> Self {
        let watched = inotify::Watched::of(directories);
        if watched.is_none() {
            tracing::info!("Changes of certificate files are not reported here; the files are read once a minute");
        }
        Self(watched)
    }

    /// Waits until changes have settled, for `pause` at most. False once `stop` is cancelled.
    pub async fn settled(&mut self, pause: Duration, stop: &CancellationToken) -> bool {
        let settled = async {
            self.next().await;
            tokio::time::sleep(SETTLE).await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = settled => true,
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Waits for one change or more; if changes are not reported, until one may have happened.
    pub async fn next(&mut self) {
        match &self.0 {
            Some(watched) => watched.next().await,
            None => tokio::time::sleep(UNREPORTED).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unreported_changes_are_detected_within_a_minute() {
        let begun = tokio::time::Instant::now();
        let day = Duration::from_secs(24 * 3600);
        assert!(Changes(None).settled(day, &CancellationToken::new()).await);
        assert_eq!(begun.elapsed(), UNREPORTED + SETTLE);
    }
}
