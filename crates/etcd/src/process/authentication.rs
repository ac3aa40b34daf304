//! etcd's own users and roles, as `etcdctl` changes them.

use std::time::Duration;

use crate::connection::Connections;
use crate::failure::{Access, Failure};
use crate::process::Process;
use crate::tls::Tls;
use crate::{Certificates, Endpoint};

const ENABLE: &str = "/etcdserverpb.Auth/AuthEnable";
const DISABLE: &str = "/etcdserverpb.Auth/AuthDisable";
const USER_ADD: &str = "/etcdserverpb.Auth/UserAdd";
const USER_GRANT: &str = "/etcdserverpb.Auth/UserGrantRole";
const ROLE_ADD: &str = "/etcdserverpb.Auth/RoleAdd";
const ROLE_GRANT: &str = "/etcdserverpb.Auth/RoleGrantPermission";

/// `Permission.permType`: reading and writing.
const READWRITE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
struct UserAddOptions {
    #[prost(bool, tag = "1")]
    no_password: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UserAdd {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "3")]
    options: Option<UserAddOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UserGrant {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, tag = "2")]
    role: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RoleAdd {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Permission {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RoleGrant {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    permission: Option<Permission>,
}

/// The user `root`, by a client certificate with this common name.
pub struct Root(Connections);

impl Root {
    /// Creates the user, which etcd requires before authentication is turned on.
    ///
    /// # Errors
    /// When etcd does not answer, or the certificates cannot be used.
    pub async fn create(process: &Process, certificates: &Certificates) -> std::io::Result<Self> {
        let endpoint: Endpoint = process.url().parse().map_err(std::io::Error::other)?;
        let tls = Tls::new(certificates, None).map_err(std::io::Error::other)?;
        let root = Self(Connections::new(vec![endpoint], tls, Duration::from_secs(10)));
        root.add_user("root").await?;
        root.send(ROLE_ADD, RoleAdd { name: "root".to_owned() }).await?;
        root.send(USER_GRANT, UserGrant { user: "root".to_owned(), role: "root".to_owned() }).await?;
        Ok(root)
    }

    /// Turns authentication on: `etcdctl auth enable`.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn enable(&self) -> std::io::Result<()> {
        self.send(ENABLE, Nothing {}).await
    }

    /// Turns authentication off.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn disable(&self) -> std::io::Result<()> {
        self.send(DISABLE, Nothing {}).await
    }

    /// Creates a user that reads and writes the keys of these ranges; an empty end means the key alone.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn add_user_of(&self, user: &str, ranges: &[(&str, &str)]) -> std::io::Result<()> {
        self.add_user(user).await?;
        self.send(ROLE_ADD, RoleAdd { name: user.to_owned() }).await?;
        for (key, range_end) in ranges {
            let (key, range_end) = (key.as_bytes().to_vec(), range_end.as_bytes().to_vec());
            let permission = Some(Permission { kind: READWRITE, key, range_end });
            self.send(ROLE_GRANT, RoleGrant { name: user.to_owned(), permission }).await?;
        }
        self.send(USER_GRANT, UserGrant { user: user.to_owned(), role: user.to_owned() }).await
    }

    async fn add_user(&self, name: &str) -> std::io::Result<()> {
        let options = Some(UserAddOptions { no_password: true });
        self.send(USER_ADD, UserAdd { name: name.to_owned(), options }).await
    }

    async fn send<Q: prost::Message + Clone + 'static>(&self, path: &'static str, request: Q) -> std::io::Result<()> {
        let failed = |failure: Failure| std::io::Error::other(failure.message);
        self.0.request::<Q, Nothing>(path, request, Access::Write).await.map(drop).map_err(failed)
    }
}
