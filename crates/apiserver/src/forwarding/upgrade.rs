//! Upgraded connections: the client's and the other server's are joined until either ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Status, StatusReason};
use futures::future::select;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy, split};
use transport::Response;

/// The limit of the HTTP server does not cover upgraded connections. One costs two sockets and two
/// buffers of 8 KiB: 1,000 stay below 2,048 file descriptors and 32 MiB.
const MAX_JOINED: usize = 1_000;
/// Once one side has ended its half, the bytes in flight from the other side have this long to arrive. kube-apiserver
/// closes both at once.
const LINGER: Duration = Duration::from_secs(10);

/// Permits to join connections, of one proxy.
#[derive(Clone, Debug, Default)]
pub struct Joins(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_user: HashMap<String, usize>,
}

/// The permit of one joined connection, which ends with it.
#[derive(Debug)]
pub struct Permit {
    joins: Joins,
    user: String,
}

impl Joins {
    /// A user has at most as many connections as are left for all others, so that no user takes all of them.
    ///
    /// # Errors
    /// 429 when the user, or all users together, have too many.
    pub fn take(&self, user: &str) -> Result<Permit, Status> {
        let refused = |message: String| Err(Status::failure(StatusReason::TooManyRequests, message));
        let mut open = self.0.lock();
        if open.all >= MAX_JOINED {
            return refused(format!("{MAX_JOINED} upgraded connections are open already, try again later"));
        }
        let own = open.by_user.get(user).copied().unwrap_or(0);
        if own >= MAX_JOINED - open.all {
            return refused(format!("user {user:?} has {own} upgraded connections open already, close some of them"));
        }
        open.all += 1;
        *open.by_user.entry(user.to_owned()).or_default() += 1;
        Ok(Permit { joins: self.clone(), user: user.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.joins.0.lock();
        open.all -= 1;
        if let Some(own) = open.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                open.by_user.remove(&self.user);
            }
        }
    }
}

/// Joins the client's and the other server's connection once `response` has been sent. `server` is the name in logs.
pub fn join(server: &str, caller: OnUpgrade, response: &mut Response, permit: Permit) {
    let other = hyper::upgrade::on(response);
    let server = server.to_owned();
    tokio::spawn(async move {
        let _permit = permit;
        let (caller, other) = match tokio::try_join!(caller, other) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%server, err = %error, "Connection cannot be upgraded"),
        };
        if let Err(error) = relay(TokioIo::new(caller), TokioIo::new(other)).await {
            tracing::debug!(%server, err = %error, "Upgraded connection broke");
        }
    });
}

async fn relay(caller: impl AsyncRead + AsyncWrite, other: impl AsyncRead + AsyncWrite) -> std::io::Result<()> {
    let (mut from_caller, mut to_caller) = split(caller);
    let (mut from_other, mut to_other) = split(other);
    let there = async {
        copy(&mut from_caller, &mut to_other).await?;
        to_other.shutdown().await
    };
    let back = async {
        copy(&mut from_other, &mut to_caller).await?;
        to_caller.shutdown().await
    };
    tokio::pin!(there, back);
    let (first, rest) = select(there, back).await.factor_first();
    first?;
    tokio::time::timeout(LINGER, rest).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn no_user_takes_all_connections() {
        let joins = Joins::default();
        let all = |user: &str| std::iter::from_fn(|| joins.take(user).ok()).collect::<Vec<_>>();
        let (first, second) = (all("a"), all("b"));
        assert_eq!((first.len(), second.len()), (500, 250));
        let refused = joins.take("a").expect_err("too many");
        assert_eq!(refused.code, 429);
        assert_eq!(refused.message, "user \"a\" has 500 upgraded connections open already, close some of them");
        drop(second);
        assert_eq!(all("c").len(), 250);
        drop(first);
        assert_eq!(*joins.0.lock().by_user.keys().collect::<Vec<_>>(), <[&String; 0]>::default());
        let many: Vec<_> = (0..MAX_JOINED).map(|n| joins.take(&n.to_string()).expect("free")).collect();
        assert_eq!(
            joins.take("a").expect_err("full").message,
            "1000 upgraded connections are open already, try again later"
        );
        drop(many);
        assert_eq!(joins.0.lock().all, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stalls_after_its_client_has_left_is_left() {
        let ((mut caller, near), (far, mut other)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(relay(near, far));
        caller.write_all(b"last").await.expect("written");
        caller.shutdown().await.expect("ended");
        let mut read = Vec::new();
        other.read_to_end(&mut read).await.expect("ended");
        assert_eq!(read, b"last");
        // What is in flight from the other side arrives.
        other.write_all(b"answer").await.expect("written");
        let mut answer = [0; 6];
        caller.read_exact(&mut answer).await.expect("read");
        assert_eq!(&answer, b"answer");
        let begun = Instant::now();
        joined.await.expect("no panic").expect("no error");
        assert!(begun.elapsed() <= LINGER);
        assert_eq!(caller.read(&mut answer).await.expect("ended"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_happens_goes_on() {
        let ((mut caller, near), (far, mut other)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(relay(near, far));
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        other.write_all(b"x").await.expect("open");
        assert_eq!(caller.read_u8().await.expect("open"), b'x');
        // A client that reads nothing fills the buffers and no more.
        let flooding = tokio::time::timeout(LINGER, other.write_all(&[0; 1 << 20])).await;
        assert!(flooding.is_err() && !joined.is_finished());
        drop(caller);
        assert!(joined.await.expect("no panic").is_err());
    }
}
