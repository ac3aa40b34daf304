//! Binds addresses before other actions, and detects the name and addresses of this machine.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpSocket};

use crate::reach::Listen;

/// Connections that wait to be accepted, as the standard library's listeners have them at least.
const BACKLOG: u32 = 1024;

/// A bound address that does not accept yet: clients are refused until [`Bound::listen`].
pub struct Bound {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Bound {
    /// Binds an address; `flags` are those that chose it.
    ///
    /// # Errors
    /// The address cannot be bound; the message names the flags and the next step.
    pub fn new(address: SocketAddr, flags: &str) -> anyhow::Result<Self> {
        Self::open(address).map_err(|error| anyhow::anyhow!(refused(&error, address, flags)))
    }

    fn open(address: SocketAddr) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted server reuses its port although connections of the last one are closing.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// With the port that was chosen for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to accept.
    pub fn listen(self) -> anyhow::Result<TcpListener> {
        self.socket.listen(BACKLOG).with_context(|| format!("listening on {}", self.address))
    }
}

fn refused(error: &std::io::Error, address: SocketAddr, flags: &str) -> String {
    let port = address.port();
    let next = match error.kind() {
        ErrorKind::AddrInUse => "another process listens there; stop it, or choose another port (0 takes a free one)",
        ErrorKind::PermissionDenied => {
            "a port below 1024 needs the capability CAP_NET_BIND_SERVICE; grant it, or choose a higher port"
        }
        ErrorKind::AddrNotAvailable => "this machine does not have that address; choose one that `ip address` shows",
        _ => "choose another address or port",
    };
    format!("{flags}: cannot listen on {address} (port {port}): {error}: {next}")
}

/// Facts about this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The host name; `None` where it is not a DNS name.
    pub host_name: Option<String>,
    /// Those from which it reaches other networks.
    pub addresses: Vec<IpAddr>,
}

impl Machine {
    /// Addresses of the family of `bound`; a server on `::` is reachable over both.
    pub fn read(bound: IpAddr) -> Self {
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        let host_name = files.iter().find_map(|path| std::fs::read_to_string(path).ok());
        let host_name = host_name.and_then(|text| crate::reach::subject_name(text.trim()).ok());
        // Documentation addresses (RFC 5737, RFC 3849): selecting a route to them sends no packet.
        let far = ["192.0.2.1:9", "[2001:db8::1]:9"].map(str::parse::<SocketAddr>);
        let far = far.into_iter().flatten().filter(|far| far.is_ipv4() || bound.is_ipv6());
        Self { host_name, addresses: far.filter_map(own_address).collect() }
    }
}

/// The local address of a connection to `far`.
fn own_address(far: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if far.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    let own = socket.local_addr().ok()?.ip();
    Some(own).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

impl Listen {
    /// Binds the server's address, which determines its port.
    ///
    /// # Errors
    /// As [`Bound::new`].
    pub fn bind(&self) -> anyhow::Result<(Self, Bound)> {
        let bound = Bound::new(SocketAddr::new(self.bind_address, self.secure_port), "--bind-address, --secure-port")?;
        let machine = Machine::read(self.bind_address);
        Ok((Self { secure_port: bound.address().port(), machine, ..self.clone() }, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_address_is_refused_with_its_flag_and_a_free_one_is_held() {
        let any = "127.0.0.1:0".parse().expect("an address");
        let first = Bound::new(any, "--secure-port").expect("a free port");
        let address = first.address();
        assert_ne!(address.port(), 0);
        std::net::TcpStream::connect(address).expect_err("it does not accept yet");
        let listener = first.listen().expect("it is ours");
        let error = Bound::new(address, "--secure-port").err().expect("it is taken").to_string();
        assert!(error.starts_with(&format!("--secure-port: cannot listen on {address}")), "{error}");
        assert!(error.contains("0 takes a free one"), "{error}");
        drop(listener);
        Bound::new(address, "--secure-port").expect("it is free again");
    }

    #[test]
    fn each_refusal_has_a_next_step() {
        let address = "192.0.2.7:443".parse().expect("an address");
        for (kind, needle) in [
            (ErrorKind::AddrInUse, "another process"),
            (ErrorKind::PermissionDenied, "CAP_NET_BIND_SERVICE"),
            (ErrorKind::AddrNotAvailable, "does not have that address"),
            (ErrorKind::Other, "choose another address or port"),
        ] {
            let text = refused(&kind.into(), address, "--bind-address");
            assert!(text.contains(needle) && text.contains("192.0.2.7:443"), "{text}");
        }
    }
}
