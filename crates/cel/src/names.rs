//! The names with which the types of the libraries are printed.

pub const IP: &str = "net.IP";
pub const CIDR: &str = "net.CIDR";
pub const URL: &str = "kubernetes.URL";
pub const QUANTITY: &str = "kubernetes.Quantity";
pub const SEMVER: &str = "kubernetes.Semver";
pub const FORMAT: &str = "kubernetes.NamedFormat";
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub const DECISION: &str = "kubernetes.authorization.Decision";
