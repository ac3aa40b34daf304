//! A cluster of etcds in one directory, behind a [`Network`]: members are killed, stopped, cut off, replaced, and their leader
//! is moved.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message;

use super::clock::Clock;
use super::network::{Link, Network, Node, Relay};
use super::{Process, Starting};
use crate::connection::Connections;
use crate::failure::Access;
use crate::tls::Tls;
use crate::{Certificates, Endpoint, Layout, Options, SettingsError, wire};

/// Between heartbeats, and until an election, in milliseconds: several times what a loaded machine delays.
const HEARTBEAT: &str = "--heartbeat-interval=50";
const ELECTION: &str = "--election-timeout=500";
/// Between requests for the leader.
const LOOK: Duration = Duration::from_millis(20);
/// Of one request about the cluster.
const TIMEOUT: Duration = Duration::from_secs(5);

const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";
const MEMBER_ADD: &str = "/etcdserverpb.Cluster/MemberAdd";
const MEMBER_REMOVE: &str = "/etcdserverpb.Cluster/MemberRemove";

#[derive(Clone, PartialEq, Message)]
struct Id {
    #[prost(uint64, tag = "1")]
    id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct MemberAdd {
    #[prost(string, repeated, tag = "1")]
    peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
struct MemberAdded {
    #[prost(message, optional, tag = "2")]
    member: Option<Id>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(uint64, tag = "2")]
    member_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "4")]
    leader: u64,
    #[prost(uint64, tag = "6")]
    term: u64,
}

#[derive(Debug)]
struct Member {
    process: Option<Process>,
    stopped: bool,
    id: u64,
    /// It is wiped, and begins again in another directory.
    life: usize,
    peers: Relay,
    clients: Relay,
}

/// The cluster. Its members are killed when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    network: Network,
    members: Vec<Member>,
}

impl Cluster {
    /// Starts `size` members, and waits until they serve.
    ///
    /// # Errors
    /// When etcd is not installed, or one of them ends.
    pub async fn start(directory: &Path, size: usize) -> Result<Self> {
        let network = Network::default();
        let mut members = Vec::with_capacity(size);
        for number in 0..size {
            let (peers, clients) = (network.relay(number, true)?, network.relay(number, false)?);
            members.push(Member { process: None, stopped: false, id: 0, life: 0, peers, clients });
        }
        let mut cluster = Self { directory: directory.to_owned(), network, members };
        let all: Vec<usize> = (0..size).collect();
        let starting = all.iter().map(|number| cluster.spawn(*number, "new", &all)).collect::<Result<Vec<_>>>()?;
        for (number, starting) in starting.into_iter().enumerate() {
            cluster.serve(number, starting)?;
        }
        for number in 0..size {
            let id = cluster.status(number).await?.header.map_or(0, |header| header.member_id);
            cluster.members[number].id = id;
            cluster.network.name(id, number);
        }
        Ok(cluster)
    }

    /// The number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The network between members, and between clients and members.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The client URL of a member.
    pub fn url(&self, number: usize) -> String {
        format!("http://{}", self.members[number].clients.address)
    }

    /// Options of a client of all members that begins with the member `first`; without compactions.
    ///
    /// # Errors
    /// Never: the URLs are such.
    pub fn options(&self, first: usize, layout: Layout) -> std::result::Result<Options, SettingsError> {
        let all = (0..self.size()).map(|at| self.url((first + at) % self.size()).parse());
        let endpoints = all.collect::<std::result::Result<Vec<Endpoint>, _>>()?;
        Ok(Options { compaction: None, ..Options::new(endpoints, layout) })
    }

    /// The member that leads, of those that run. Waits until there is one.
    pub async fn leader(&self) -> usize {
        loop {
            let mut leaders = Vec::new();
            for number in (0..self.size()).filter(|number| self.runs(*number)) {
                if let Ok(status) = self.status(number).await
                    && status.leader == self.members[number].id
                {
                    leaders.push((status.term, number));
                }
            }
            // One that was cut off may not know yet that it leads no longer.
            match leaders.into_iter().max() {
                Some((_, number)) => return number,
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until another member than `former` leads.
    pub async fn successor(&self, former: usize) -> usize {
        loop {
            match self.leader().await {
                leader if leader != former => return leader,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self, number: usize) {
        drop(self.members[number].process.take());
        self.members[number].stopped = false;
    }

    /// Starts a member that was killed, and waits until it serves.
    ///
    /// # Errors
    /// When it ends.
    pub fn restart(&mut self, number: usize) -> Result<()> {
        let all: Vec<usize> = (0..self.size()).collect();
        let starting = self.spawn(number, "existing", &all)?;
        self.serve(number, starting)
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&mut self, number: usize) -> Result<()> {
        self.signal(number, "-STOP")?;
        self.members[number].stopped = true;
        Ok(())
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has ended.
    pub fn proceed(&mut self, number: usize) -> Result<()> {
        self.signal(number, "-CONT")?;
        self.members[number].stopped = false;
        Ok(())
    }

    /// The clocks of a member until it is killed.
    ///
    /// # Errors
    /// When it has ended, or its clocks cannot be moved.
    pub fn clock(&self, number: usize) -> Result<Clock> {
        self.process(number)?.clock()
    }

    /// Cuts a member off from the others. Clients still reach it.
    pub fn cut_off(&self, number: usize) {
        for other in (0..self.size()).filter(|other| *other != number) {
            self.network.set(Node::Member(number), other, Link::Cut);
            self.network.set(Node::Member(other), number, Link::Cut);
        }
    }

    /// Moves the leadership to a member.
    ///
    /// # Errors
    /// When there is no leader, or it refuses.
    pub async fn move_leader(&self, to: usize) -> Result<()> {
        let leader = self.leader().await;
        self.request::<_, Empty>(leader, MOVE_LEADER, Id { id: self.members[to].id }).await.map(drop)
    }

    /// Removes a member with its data, and adds it again without. The others must serve.
    ///
    /// # Errors
    /// When the others refuse, or it ends.
    pub async fn replace(&mut self, number: usize) -> Result<()> {
        self.kill(number);
        let other = self.successor(number).await;
        let id = self.members[number].id;
        self.request::<_, Empty>(other, MEMBER_REMOVE, Id { id }).await?;
        std::fs::remove_dir_all(self.data_dir(number))?;
        self.members[number].life += 1;
        let peer_urls = vec![format!("http://{}", self.members[number].peers.address)];
        let added = MemberAdd { peer_urls, is_learner: false };
        let id = self.add(number, added).await?;
        self.members[number].id = id;
        self.network.name(id, number);
        self.restart(number)
    }

    /// Adds a member without a vote, and returns its number.
    ///
    /// # Errors
    /// When the others refuse, or it ends.
    pub async fn add_learner(&mut self) -> Result<usize> {
        let number = self.size();
        let (peers, clients) = (self.network.relay(number, true)?, self.network.relay(number, false)?);
        let peer_urls = vec![format!("http://{}", peers.address)];
        let added = MemberAdd { peer_urls, is_learner: true };
        let id = self.add(number, added).await?;
        self.members.push(Member { process: None, stopped: false, id, life: 0, peers, clients });
        self.network.name(id, number);
        self.restart(number)?;
        Ok(number)
    }

    /// etcd refuses until its members have been connected to each other for some seconds. Returns the member's identifier.
    async fn add(&self, number: usize, member: MemberAdd) -> Result<u64> {
        loop {
            let added: Result<MemberAdded> =
                self.request(self.successor(number).await, MEMBER_ADD, member.clone()).await;
            match added {
                Err(error) if error.to_string().contains("unhealthy cluster") => tokio::time::sleep(LOOK).await,
                added => return Ok(added?.member.map_or(0, |member| member.id)),
            }
        }
    }

    /// All members run, and all links are open.
    ///
    /// # Errors
    /// When a member does not start.
    pub fn heal(&mut self) -> Result<()> {
        self.network.heal();
        for number in 0..self.size() {
            match &self.members[number] {
                Member { process: None, .. } => self.restart(number)?,
                Member { stopped: true, .. } => self.proceed(number)?,
                Member { .. } => {}
            }
        }
        Ok(())
    }

    fn runs(&self, number: usize) -> bool {
        self.members[number].process.is_some() && !self.members[number].stopped
    }

    fn signal(&self, number: usize, signal: &str) -> Result<()> {
        self.process(number)?.signal(signal)
    }

    fn process(&self, number: usize) -> Result<&Process> {
        let ended = || Error::other(format!("member {number} does not run"));
        self.members[number].process.as_ref().ok_or_else(ended)
    }

    fn data_dir(&self, number: usize) -> PathBuf {
        self.directory.join(format!("m{number}-{}", self.members[number].life))
    }

    fn spawn(&self, number: usize, state: &str, all: &[usize]) -> Result<Starting> {
        let member = &self.members[number];
        let peer_url = |number: usize| format!("http://{}", self.members[number].peers.address);
        let cluster: Vec<String> = all.iter().map(|number| format!("m{number}={}", peer_url(*number))).collect();
        let flags = [
            format!("--name=m{number}"),
            format!("--initial-advertise-peer-urls={}", peer_url(number)),
            format!("--initial-cluster={}", cluster.join(",")),
            format!("--initial-cluster-state={state}"),
            format!("--advertise-client-urls=http://{}", member.clients.address),
        ];
        let flags: Vec<&str> = [HEARTBEAT, ELECTION].into_iter().chain(flags.iter().map(String::as_str)).collect();
        let starting = Starting::spawn(&self.data_dir(number), "http://127.0.0.1:0", false, &flags)?;
        self.network.lead(member.peers, starting.peers()?);
        Ok(starting)
    }

    fn serve(&mut self, number: usize, starting: Starting) -> Result<()> {
        let process = starting.ready()?;
        let member = &mut self.members[number];
        self.network.lead(member.clients, process.address());
        (member.process, member.stopped) = (Some(process), false);
        Ok(())
    }

    async fn status(&self, number: usize) -> Result<Status> {
        self.request(number, wire::STATUS, wire::StatusRequest {}).await
    }

    /// A request to one member, past the network of clients.
    async fn request<Q, A>(&self, number: usize, path: &'static str, message: Q) -> Result<A>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let address =
            self.members[number].process.as_ref().map_or(SocketAddr::from(([0, 0, 0, 0], 0)), Process::address);
        let endpoint = format!("http://{address}").parse().map_err(Error::other)?;
        let tls = Tls::new(&Certificates::default(), None).map_err(Error::other)?;
        let connections = Connections::new(vec![endpoint], tls, TIMEOUT);
        let answer = connections.request(path, message, Access::Write).await;
        answer.map_err(|failure| Error::other(format!("{}: {}", failure.endpoint, failure.message)))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.members.clear();
        self.network.close();
    }
}
