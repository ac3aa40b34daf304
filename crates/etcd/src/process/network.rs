//! The network of a cluster in tests: relays of TCP on loopback whose links are cut, frozen and slowed down.
//!
//! Everything for a member goes through relays: one for its clients, one for its peers. A connection of a peer belongs to
//! the member that a request names in the header `X-Server-From`, as etcd's members do in all but their probes. Each
//! connection has two threads, since tests without a runtime use it as well.

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// All clients.
    Clients,
    /// A member, by its number.
    Member(usize),
}

/// The state of a link. Both directions of its connections share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Bytes arrive at once.
    #[default]
    Open,
    /// Connections are closed, and new ones end at once.
    Cut,
    /// No byte arrives, and no connection ends: packets are dropped.
    Frozen,
    /// Bytes arrive later by this.
    Slow(Duration),
}

/// A member's side of the network.
#[derive(Clone, Copy, Debug)]
pub struct Relay {
    /// Where others reach it.
    pub address: SocketAddr,
    number: usize,
}

/// The network. Clones share it; it ends with [`Network::close`].
#[derive(Clone, Debug, Default)]
pub struct Network(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// From and to; links that are open are not listed.
    links: BTreeMap<(Node, usize), Link>,
    /// The members by etcd's identifiers.
    members: HashMap<u64, usize>,
    /// By relay: where the member listens now.
    targets: Vec<Option<SocketAddr>>,
    addresses: Vec<SocketAddr>,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    route: Route,
    streams: [TcpStream; 2],
}

/// Who has opened a connection, and to which member.
#[derive(Clone, Debug)]
struct Route {
    from: Sender,
    to: usize,
}

#[derive(Clone, Debug)]
enum Sender {
    Clients,
    /// etcd's identifier of the member; 0 as long as no request has named it.
    Peer(Arc<AtomicU64>),
}

impl State {
    fn link(&self, route: &Route) -> Link {
        let from = match &route.from {
            Sender::Clients => Some(Node::Clients),
            Sender::Peer(id) => self.members.get(&id.load(SeqCst)).copied().map(Node::Member),
        };
        from.and_then(|from| self.links.get(&(from, route.to)).copied()).unwrap_or_default()
    }
}

impl Network {
    /// A relay to the member `to`, for its clients or its peers.
    ///
    /// # Errors
    /// No port is free.
    pub fn relay(&self, to: usize, for_peers: bool) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let number = {
            let mut state = self.0.state.lock();
            state.targets.push(None);
            state.addresses.push(address);
            state.targets.len() - 1
        };
        let network = self.clone();
        std::thread::spawn(move || {
            for accepted in listener.incoming().map_while(Result::ok) {
                if network.0.state.lock().closed {
                    return;
                }
                let network = network.clone();
                std::thread::spawn(move || network.serve(accepted, number, to, for_peers));
            }
        });
        Ok(Relay { address, number })
    }

    /// Sets where a relay leads.
    pub fn lead(&self, relay: Relay, target: SocketAddr) {
        self.0.state.lock().targets[relay.number] = Some(target);
        self.0.changed.notify_all();
    }

    /// Notes etcd's identifier of a member.
    pub fn name(&self, id: u64, member: usize) {
        let mut state = self.0.state.lock();
        state.members.retain(|_, known| *known != member);
        state.members.insert(id, member);
    }

    /// Changes a link, in the direction in which its connections are opened.
    pub fn set(&self, from: Node, to: usize, link: Link) {
        let mut state = self.0.state.lock();
        match link {
            Link::Open => drop(state.links.remove(&(from, to))),
            link => drop(state.links.insert((from, to), link)),
        }
        end_cut_connections(&mut state);
        self.0.changed.notify_all();
    }

    /// Opens all links.
    pub fn heal(&self) {
        self.0.state.lock().links.clear();
        self.0.changed.notify_all();
    }

    /// Ends all connections and relays.
    pub fn close(&self) {
        let addresses = {
            let mut state = self.0.state.lock();
            state.closed = true;
            for connection in state.connections.drain(..) {
                connection.end();
            }
            state.addresses.clone()
        };
        self.0.changed.notify_all();
        // Wakes the threads that accept.
        addresses.into_iter().for_each(|address| drop(TcpStream::connect(address)));
    }

    fn serve(&self, accepted: TcpStream, relay: usize, to: usize, for_peers: bool) {
        let from = if for_peers { Sender::Peer(Arc::default()) } else { Sender::Clients };
        let route = Route { from, to };
        if self.pass(&route).is_none() {
            return;
        }
        let Some(target) = self.0.state.lock().targets[relay] else { return };
        let Ok(connected) = TcpStream::connect(target) else { return };
        let copies = (accepted.try_clone(), connected.try_clone(), accepted.try_clone(), connected.try_clone());
        let (Ok(one), Ok(other), Ok(back), Ok(forth)) = copies else { return };
        let _ = (accepted.set_nodelay(true), connected.set_nodelay(true));
        {
            let mut state = self.0.state.lock();
            state.connections.push(Connection { route: route.clone(), streams: [one, other] });
            end_cut_connections(&mut state);
        }
        let (backward, answers) = (self.clone(), route.clone());
        std::thread::spawn(move || backward.pump(&answers, forth, back, false));
        self.pump(&route, accepted, connected, for_peers);
    }

    fn pump(&self, route: &Route, mut from: TcpStream, mut to: TcpStream, has_requests: bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if let (true, Sender::Peer(id), Some(named)) = (has_requests, &route.from, sender(read)) {
                id.store(named, SeqCst);
            }
            if self.pass(route).is_none() || to.write_all(read).is_err() {
                break;
            }
        }
        // The end of a connection is dropped as its bytes are.
        self.pass(route);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        self.0.state.lock().connections.retain(Connection::is_open);
    }

    /// Waits until the link lets bytes pass. `None` if it is cut.
    fn pass(&self, route: &Route) -> Option<()> {
        let mut state = self.0.state.lock();
        loop {
            match state.link(route) {
                _ if state.closed => return None,
                Link::Open => return Some(()),
                Link::Cut => return None,
                Link::Frozen => self.0.changed.wait(&mut state),
                Link::Slow(delay) => {
                    // A change of the network ends the delay.
                    self.0.changed.wait_for(&mut state, delay);
                    return Some(());
                }
            }
        }
    }
}

impl Connection {
    fn end(&self) {
        self.streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    fn is_open(&self) -> bool {
        self.streams.iter().all(|stream| stream.peer_addr().is_ok())
    }
}

fn end_cut_connections(state: &mut State) {
    let (cut, kept) = std::mem::take(&mut state.connections)
        .into_iter()
        .partition::<Vec<_>, _>(|connection| state.link(&connection.route) == Link::Cut);
    state.connections = kept;
    cut.iter().for_each(Connection::end);
}

/// The member that a request names in its head, which etcd writes at once.
fn sender(bytes: &[u8]) -> Option<u64> {
    const HEADER: &[u8] = b"\r\nX-Server-From: ";
    let at = bytes.windows(HEADER.len()).position(|part| part == HEADER)? + HEADER.len();
    let id = bytes[at..].split(|byte| *byte == b'\r').next()?;
    u64::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that returns what it receives.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for accepted in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || std::io::copy(&mut &accepted, &mut &accepted));
            }
        });
        address
    }

    fn said(stream: &mut TcpStream, text: &str) -> Result<String> {
        stream.write_all(text.as_bytes())?;
        let mut heard = vec![0; text.len()];
        stream.read_exact(&mut heard)?;
        Ok(String::from_utf8(heard).unwrap())
    }

    #[test]
    fn links_are_cut_frozen_and_healed() {
        let network = Network::default();
        let relay = network.relay(0, false).unwrap();
        network.lead(relay, echo());
        let mut stream = TcpStream::connect(relay.address).unwrap();
        assert_eq!(said(&mut stream, "open").unwrap(), "open");
        network.set(Node::Clients, 0, Link::Slow(Duration::from_millis(1)));
        assert_eq!(said(&mut stream, "slow").unwrap(), "slow");
        network.set(Node::Clients, 0, Link::Frozen);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(said(&mut stream, "kept").is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        network.heal();
        stream.set_read_timeout(None).unwrap();
        let mut kept = [0; 4];
        stream.read_exact(&mut kept).unwrap();
        assert_eq!(&kept, b"kept", "it was in flight");
        network.set(Node::Clients, 0, Link::Cut);
        assert!(said(&mut stream, "lost").is_err());
        let mut refused = TcpStream::connect(relay.address).unwrap();
        assert!(said(&mut refused, "lost").is_err());
        network.heal();
        assert_eq!(said(&mut TcpStream::connect(relay.address).unwrap(), "open").unwrap(), "open");
        network.close();
    }

    #[test]
    fn connections_of_peers_belong_to_the_member_that_they_name() {
        let network = Network::default();
        let relay = network.relay(0, true).unwrap();
        network.lead(relay, echo());
        network.name(0xab, 1);
        network.name(0xcd, 2);
        network.set(Node::Member(1), 0, Link::Cut);
        let first = |id: &str| format!("GET /raft HTTP/1.1\r\nHost: m\r\nX-Server-From: {id}\r\n\r\n");
        let connect = || TcpStream::connect(relay.address).unwrap();
        assert!(said(&mut connect(), &first("ab")).is_err());
        assert_eq!(said(&mut connect(), &first("cd")).unwrap(), first("cd"));
        let mut probing = connect();
        let probe = "GET /raft/probing HTTP/1.1\r\n\r\n";
        assert_eq!(said(&mut probing, probe).unwrap(), probe);
        assert!(said(&mut probing, &first("ab")).is_err(), "it is reused");
        network.close();
    }
}
