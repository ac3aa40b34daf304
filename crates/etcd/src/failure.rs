//! The meaning of etcd's errors: the error for the caller of the store, and whether the request is retried. etcd has a
//! gRPC code and a text for each error; several errors share a code, so the text decides.

use std::sync::Arc;

use storage::Error;
use tonic::Code;

/// Whether a request that was executed without an answer has changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub endpoint: Arc<str>,
    /// `false`: no server has received the request.
    pub sent: bool,
    pub code: Code,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Compacted,
    Future,
    NoLease,
    OverLimit,
    NoSpace,
    Corrupt,
    /// Refused permanently: an unknown method, an invalid request.
    Refused,
    /// Refused before execution, until an administrator of etcd grants the right or turns authentication off.
    Denied,
    /// Not sent: the member belongs to another cluster than the others or than before.
    Foreign,
    /// Refused before execution, for the moment.
    NotNow,
    /// Executed or not.
    Lost,
}

/// The text about a member of another cluster.
pub(crate) const FOREIGN: &str = "it belongs to cluster";

/// Texts of etcd and of gRPC's Go server.
const TEXTS: &[(&str, Meaning)] = &[
    ("required revision has been compacted", Meaning::Compacted),
    ("required revision is a future revision", Meaning::Future),
    ("requested lease not found", Meaning::NoLease),
    ("request is too large", Meaning::OverLimit),
    ("too many operations in txn request", Meaning::OverLimit),
    ("received message larger than max", Meaning::OverLimit),
    ("database space exceeded", Meaning::NoSpace),
    ("corrupt cluster", Meaning::Corrupt),
    (FOREIGN, Meaning::Foreign),
    ("etcdserver: no leader", Meaning::NotNow),
    ("etcdserver: permission denied", Meaning::Denied),
    ("etcdserver: user name is empty", Meaning::Denied),
    ("etcdserver: user name not found", Meaning::Denied),
    ("etcdserver: invalid auth token", Meaning::Denied),
    // The rights have just changed.
    ("etcdserver: revision of auth store is old", Meaning::NotNow),
    ("etcdserver: too many requests", Meaning::NotNow),
];

impl Failure {
    /// The request did not reach a server.
    pub fn unsent(endpoint: &Arc<str>, message: impl std::fmt::Display) -> Self {
        Self { endpoint: Arc::clone(endpoint), sent: false, code: Code::Unavailable, message: message.to_string() }
    }

    pub fn meaning(&self) -> Meaning {
        if !self.sent {
            return Meaning::NotNow;
        }
        if let Some((_, meaning)) = TEXTS.iter().find(|(text, _)| self.message.contains(text)) {
            return *meaning;
        }
        match self.code {
            Code::DataLoss => Meaning::Corrupt,
            Code::Unauthenticated | Code::PermissionDenied => Meaning::Denied,
            Code::Unimplemented | Code::InvalidArgument | Code::FailedPrecondition => Meaning::Refused,
            _ => Meaning::Lost,
        }
    }

    /// Whether the request may be sent again, to any member: it has not been executed, or is idempotent.
    pub fn is_worth_another_attempt(&self, access: Access) -> bool {
        match self.meaning() {
            Meaning::NotNow => true,
            Meaning::Lost => access == Access::Read,
            _ => false,
        }
    }

    /// Whether another member may be in a better position.
    pub fn is_of_the_member(&self) -> bool {
        matches!(self.meaning(), Meaning::NotNow | Meaning::Lost)
    }

    /// Whether etcd serves this client at present.
    pub fn is_an_answer(&self) -> bool {
        !self.is_of_the_member() && !matches!(self.meaning(), Meaning::Denied | Meaning::Foreign)
    }

    /// The error of the store. [`Meaning::Compacted`], [`Meaning::Future`] and [`Meaning::NoLease`] depend on the
    /// request; the caller has handled them.
    pub fn error(&self, access: Access) -> Error {
        let Self { endpoint, message, .. } = self;
        match (self.meaning(), access) {
            (Meaning::OverLimit, _) => Error::OverLimit(
                format!("etcd at {endpoint} refuses the request ({message}); its flags --max-request-bytes and --max-txn-ops set the limits").into(),
            ),
            (Meaning::NoSpace, _) => Error::Alarm(
                format!("etcd at {endpoint} refuses writes ({message}); raise --quota-backend-bytes or free space with `etcdctl compaction` and `etcdctl defrag`, then run `etcdctl alarm disarm`").into(),
            ),
            (Meaning::Corrupt, _) => Error::Failed(
                format!("etcd at {endpoint} reports corruption ({message}); restore the member or the cluster from a backup").into(),
            ),
            (Meaning::Denied, _) => Error::Unavailable(
                format!("etcd at {endpoint} denies the request ({message}): give the user that is the common name of --etcd-certfile a role with the permission readwrite for the keys of --etcd-prefix and for compact_rev_key").into(),
            ),
            (Meaning::Foreign, _) => Error::Unavailable(
                format!("etcd at {endpoint} is another cluster ({message}): correct --etcd-servers, or remove that member, delete its data and add it to its cluster again; after a restore of all members, restart this process").into(),
            ),
            (Meaning::Lost, Access::Write) => Error::Uncertain(
                format!("etcd at {endpoint} did not answer a write ({message}): it is stored or not; read before it is repeated").into(),
            ),
            (Meaning::NotNow | Meaning::Lost, _) => {
                Error::Unavailable(format!("etcd at {endpoint} cannot be reached or has no leader ({message}); try again").into())
            }
            // No request was sent; the message names the member.
            _ if endpoint.is_empty() => Error::Failed(message.as_str().into()),
            _ => Error::Failed(format!("etcd at {endpoint} refuses the request: {message}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_errors_keep_their_meaning() {
        let rows = [
            (
                true,
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Meaning::Compacted,
                false,
            ),
            (
                true,
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                Meaning::Future,
                false,
            ),
            (true, Code::NotFound, "etcdserver: requested lease not found", Meaning::NoLease, false),
            (true, Code::InvalidArgument, "etcdserver: request is too large", Meaning::OverLimit, false),
            (true, Code::InvalidArgument, "etcdserver: too many operations in txn request", Meaning::OverLimit, false),
            (
                true,
                Code::ResourceExhausted,
                "grpc: received message larger than max (9 vs. 2)",
                Meaning::OverLimit,
                false,
            ),
            (true, Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Meaning::NoSpace, false),
            (true, Code::DataLoss, "etcdserver: corrupt cluster", Meaning::Corrupt, false),
            (true, Code::Unauthenticated, "etcdserver: invalid auth token", Meaning::Denied, false),
            (true, Code::InvalidArgument, "etcdserver: user name is empty", Meaning::Denied, false),
            (true, Code::PermissionDenied, "etcdserver: permission denied", Meaning::Denied, false),
            (true, Code::FailedPrecondition, "it belongs to cluster 2, not to 1", Meaning::Foreign, false),
            (true, Code::InvalidArgument, "etcdserver: revision of auth store is old", Meaning::NotNow, true),
            (true, Code::Unimplemented, "unknown method", Meaning::Refused, false),
            (true, Code::Unavailable, "etcdserver: no leader", Meaning::NotNow, true),
            (true, Code::ResourceExhausted, "etcdserver: too many requests", Meaning::NotNow, true),
            (false, Code::Unavailable, "connection refused", Meaning::NotNow, true),
            // The write may have been proposed.
            (true, Code::Unavailable, "etcdserver: request timed out", Meaning::Lost, false),
            (true, Code::Unavailable, "etcdserver: leader changed", Meaning::Lost, false),
            (true, Code::Unknown, "connection closed", Meaning::Lost, false),
            (true, Code::DeadlineExceeded, "", Meaning::Lost, false),
        ];
        for (sent, code, message, meaning, written_again) in rows {
            let failure = Failure { endpoint: "e".into(), sent, code, message: message.to_owned() };
            assert_eq!(failure.meaning(), meaning, "{message}");
            assert_eq!(failure.is_worth_another_attempt(Access::Write), written_again, "{message}");
            let read_again = matches!(meaning, Meaning::NotNow | Meaning::Lost);
            assert_eq!(failure.is_worth_another_attempt(Access::Read), read_again, "{message}");
            assert!(failure.error(Access::Write).to_string().contains("etcd at e"), "{message}");
        }
    }
}
