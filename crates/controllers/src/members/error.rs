//! Why there is no connection to a member.

use apimachinery::ObjectKey;
use karmada_api::identity::ClusterName;
use propagation::identity::Refusal;

use crate::member_tokens::TokenError;

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("cluster {0} does not exist")]
    NoCluster(ClusterName),
    #[error("cluster {0} is reached by its agent, not by the control plane")]
    Pull(ClusterName),
    #[error("cluster {0} has another agent")]
    OfAnother(ClusterName),
    #[error("the api endpoint of cluster {0} is empty")]
    NoEndpoint(ClusterName),
    #[error("cluster {0} does not have a secret")]
    NoSecret(ClusterName),
    #[error("the secret for cluster {0} is missing a non-empty value for \"token\"")]
    NoToken(ClusterName),
    #[error("the secret of cluster {cluster} cannot be read: {source}")]
    Secret { cluster: ClusterName, source: client::Error },
    #[error("the secret {key} of cluster {cluster} has no usable {field}")]
    Field { cluster: ClusterName, key: ObjectKey, field: &'static str },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot connect to cluster {cluster}: {source}")]
    Connect { cluster: ClusterName, source: client::Error },
    #[error("the identity of cluster {cluster} is unknown: {why}")]
    Unidentified { cluster: ClusterName, why: String },
    #[error("the ID of cluster {0} is not recorded yet")]
    Unrecorded(ClusterName),
    #[error("the marker of cluster {cluster} cannot be read: {source}")]
    Unmarked { cluster: ClusterName, source: client::Error },
    #[error("the list of incarnations cannot be read: {0}")]
    NoIncarnation(String),
    #[error("cluster {0} has the mark of an unknown incarnation; the list of incarnations is read again")]
    Unlisted(ClusterName),
    #[error("another process writes to cluster {0}")]
    Superseded(ClusterName),
    /// Writes to it are refused.
    #[error("{}", refusal.message(cluster))]
    Refused { cluster: ClusterName, refusal: Refusal },
}
