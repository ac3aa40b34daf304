//! Allocated addresses and node ports, with the service that holds each.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{ObjectKey, Status};
use serde_json::{Value, json};

use super::families::families;
use super::{
    Range, Ranges, allocates_node_ports, as_text, has_addresses, has_health_checks, has_node_ports, ports, text,
};

/// The lifetime of an unwritten allocation. A request ends within a minute, so later the allocation is free again.
const PENDING_SECONDS: i64 = 90;
/// Node ports before this offset are reserved for services that request them.
const STATIC_PORTS: u16 = 86;

#[derive(Clone, Debug)]
struct Holder {
    key: ObjectKey,
    /// When an unwritten claim expires, in seconds since 1970; `None` once it is written.
    until: Option<i64>,
}

/// The addresses and ports in use, as known to this server. On a store that other servers write to, each allocation is
/// also claimed in the store.
#[derive(Debug)]
pub struct Book {
    ranges: Ranges,
    addresses: HashMap<IpAddr, Holder>,
    ports: HashMap<u16, Holder>,
    /// The start of the search for a free address, primary and secondary: after the last allocated one, so that a
    /// released address is not reused immediately.
    next: [u128; 2],
    next_port: u16,
    /// An address that only this service may have, also while the service does not exist.
    reserved: Option<(IpAddr, ObjectKey)>,
}

/// A failed request for an address or port.
enum Taken {
    Already,
    Outside,
}

fn take<T: Eq + Hash>(held: &mut HashMap<T, Holder>, what: T, claim: &Holder, now: i64) -> Result<(), Taken> {
    match held.get(&what) {
        Some(holder) if holder.key != claim.key && holder.until.is_none_or(|until| until > now) => Err(Taken::Already),
        // A written claim stays valid.
        Some(Holder { until: None, key }) if *key == claim.key => Ok(()),
        _ => {
            held.insert(what, claim.clone());
            Ok(())
        }
    }
}

impl Book {
    pub fn new(ranges: Ranges) -> Self {
        let next = [ranges.primary.dynamic(), ranges.secondary.as_ref().map_or(1, Range::dynamic)];
        let next_port = ranges.node_ports.start().saturating_add(STATIC_PORTS);
        Self { ranges, addresses: HashMap::new(), ports: HashMap::new(), next, next_port, reserved: None }
    }

    /// The same book, with the first address reserved for the service `key`.
    #[must_use]
    pub fn with_first_reserved_for(self, key: ObjectKey) -> Self {
        let reserved = Some((self.ranges.primary.first(), key));
        Self { reserved, ..self }
    }

    fn is_reserved(&self, address: &IpAddr, claim: &Holder) -> bool {
        self.reserved.as_ref().is_some_and(|(reserved, key)| reserved == address && *key != claim.key)
    }

    /// Whether this service holds all of `allocations`, as far as is known.
    pub fn holds(&self, key: &ObjectKey, allocations: &[Allocation]) -> bool {
        allocations.iter().all(|allocation| {
            let holder = match allocation {
                Allocation::Address(address) => self.addresses.get(address),
                Allocation::Port(port) => self.ports.get(port),
            };
            holder.is_some_and(|holder| holder.key == *key)
        })
    }

    /// Records that another server is about to give `allocation` to the service `by`; `now` in seconds since 1970.
    pub fn reserve_for_peer(&mut self, allocation: &Allocation, by: ObjectKey, now: i64) {
        let holder = Holder { key: by, until: Some(now + PENDING_SECONDS) };
        match allocation {
            Allocation::Address(address) => drop(self.addresses.insert(*address, holder)),
            Allocation::Port(port) => drop(self.ports.insert(*port, holder)),
        }
    }

    /// Records a stored service; `current` is `None` when it was deleted.
    pub fn absorb(&mut self, key: &ObjectKey, previous: Option<&Value>, current: Option<&Value>) {
        let holder = Holder { key: key.clone(), until: None };
        let (old_addresses, old_ports) = previous.map(held).unwrap_or_default();
        for address in old_addresses {
            if self.addresses.get(&address).is_some_and(|holder| holder.key == *key) {
                self.addresses.remove(&address);
            }
        }
        for port in old_ports {
            if self.ports.get(&port).is_some_and(|holder| holder.key == *key) {
                self.ports.remove(&port);
            }
        }
        let (addresses, ports) = current.map(held).unwrap_or_default();
        self.addresses.extend(addresses.into_iter().map(|address| (address, holder.clone())));
        self.ports.extend(ports.into_iter().map(|port| (port, holder.clone())));
    }

    /// Allocates the missing addresses and ports of a service, which was `old` before; `now` in seconds since 1970. With
    /// `dry_run` nothing is recorded.
    ///
    /// # Errors
    /// 422 if a requested address or port is taken or out of range, 500 if the range is exhausted.
    pub fn assign(
        &mut self,
        key: &ObjectKey,
        old: Option<&Value>,
        service: &mut Value,
        now: i64,
        dry_run: bool,
    ) -> Result<(), Status> {
        let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
        if !has_addresses(spec) {
            return Ok(());
        }
        let refuse = |errors: &ErrorList| Status::invalid("", "Service", key.name(), errors);
        let wrong = spec.as_object().map(crate::validation::services::requested_addresses).unwrap_or_default();
        if !wrong.is_empty() {
            return Err(refuse(&wrong));
        }
        let was = old.map(|old| &old["spec"]).filter(|was| has_addresses(was));
        let errors = families(was, spec, &self.ranges);
        if !errors.is_empty() {
            return Err(refuse(&errors));
        }
        let claim = Holder { key: key.clone(), until: Some(if dry_run { now } else { now + PENDING_SECONDS }) };
        self.assign_addresses(spec, &claim, now, &refuse)?;
        if has_node_ports(spec) {
            self.assign_ports(spec, old.is_none(), &claim, now, &refuse)?;
        }
        if has_health_checks(spec) {
            self.assign_health_checks(spec, &claim, now)?;
        }
        Ok(())
    }

    fn assign_addresses(
        &mut self,
        spec: &mut Value,
        claim: &Holder,
        now: i64,
        refuse: &dyn Fn(&ErrorList) -> Status,
    ) -> Result<(), Status> {
        if text(spec, "clusterIP") == "None" {
            spec["clusterIPs"] = json!(["None"]);
            return Ok(());
        }
        let mut list: Vec<String> = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(as_text).collect();
        let families: Vec<String> = spec["ipFamilies"].as_array().into_iter().flatten().filter_map(as_text).collect();
        for (index, family) in families.iter().enumerate() {
            match list.get(index) {
                None => {
                    let found = self.free_address(family, claim, now);
                    let free =
                        found.ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?;
                    list.push(free.to_string());
                }
                Some(specified) => {
                    // Validation reports text that is not an address.
                    let Ok(address) = specified.parse::<IpAddr>() else { continue };
                    if let Err(taken) = self.take_address(address, claim, now) {
                        let why = match taken {
                            Taken::Already => "provided IP is already allocated".to_owned(),
                            Taken::Outside => format!(
                                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                                self.range(family).map_or(self.ranges.primary, |(range, _)| range)
                            ),
                        };
                        let detail = format!("failed to allocate IP {address}: {why}");
                        let path = Path::new("spec").child("clusterIPs");
                        return Err(refuse(&vec![Error::invalid(&path, list.clone(), detail)]));
                    }
                }
            }
        }
        spec["clusterIP"] = list.first().cloned().into();
        spec["clusterIPs"] = list.into();
        Ok(())
    }

    fn range(&self, family: &str) -> Option<(Range, usize)> {
        let both = [Some(self.ranges.primary), self.ranges.secondary];
        both.into_iter().flatten().zip(0..).find(|(range, _)| range.family() == family)
    }

    fn take_address(&mut self, address: IpAddr, claim: &Holder, now: i64) -> Result<(), Taken> {
        let held = self.addresses.get(&address).is_some_and(|holder| holder.key == claim.key);
        let inside = |range: &Range| range.contains(&address);
        // A service keeps an address from an earlier range of the server.
        if !held && !inside(&self.ranges.primary) && !self.ranges.secondary.as_ref().is_some_and(inside) {
            return Err(Taken::Outside);
        }
        if !held && self.is_reserved(&address, claim) {
            return Err(Taken::Already);
        }
        take(&mut self.addresses, address, claim, now)
    }

    /// The next free address, starting over at the bottom of the range once its end is reached.
    fn free_address(&mut self, family: &str, claim: &Holder, now: i64) -> Option<IpAddr> {
        let (range, index) = self.range(family)?;
        let start = self.next[index].min(range.last());
        // One more candidate than the used and reserved addresses contains a free one, so a large range is never scanned
        // completely.
        let bound = self.addresses.len() as u128 + 2;
        let offsets = (start..=range.last()).take(bound as usize).chain((1..start).take(bound as usize));
        for offset in offsets {
            let address = range.at(offset);
            if !self.is_reserved(&address, claim) && take(&mut self.addresses, address, claim, now).is_ok() {
                self.next[index] = if offset >= range.last() { range.dynamic() } else { offset + 1 };
                return Some(address);
            }
        }
        None
    }

    /// In a new service, ports of one number share a node port.
    fn assign_ports(
        &mut self,
        spec: &mut Value,
        is_new: bool,
        claim: &Holder,
        now: i64,
        refuse: &dyn Fn(&ErrorList) -> Status,
    ) -> Result<(), Status> {
        let allocates = allocates_node_ports(spec);
        let number = |port: &super::Object, field: &str| port.get(field).and_then(Value::as_u64).filter(|it| *it != 0);
        let mut shared = HashMap::new();
        for port in ports(spec).filter(|_| is_new) {
            if let (Some(of_port), Some(specified)) = (number(port, "port"), number(port, "nodePort")) {
                shared.entry(of_port).or_insert(specified);
            }
        }
        for (index, port) in ports(spec).enumerate() {
            let of_port = number(port, "port");
            let Some(specified) = number(port, "nodePort") else {
                if let Some(known) = of_port.and_then(|of_port| shared.get(&of_port)).filter(|_| allocates) {
                    port.insert("nodePort".into(), (*known).into());
                } else if allocates {
                    let free = self.free_port(claim, now).ok_or_else(no_ports)?;
                    port.insert("nodePort".into(), free.into());
                    shared.extend(of_port.filter(|_| is_new).map(|of_port| (of_port, free.into())));
                }
                continue;
            };
            let path = Path::new("spec").child("ports").index(index).child("nodePort");
            if let Err(taken) = self.take_port(specified, claim, now) {
                let detail = self.refusal(&taken);
                return Err(refuse(&vec![Error::invalid(&path, specified, detail)]));
            }
        }
        Ok(())
    }

    fn assign_health_checks(&mut self, spec: &mut Value, claim: &Holder, now: i64) -> Result<(), Status> {
        const FIELD: &str = "healthCheckNodePort";
        let port = match spec[FIELD].as_u64().filter(|port| *port != 0) {
            None => self.free_port(claim, now).ok_or_else(no_ports)?,
            Some(requested) => {
                return self.take_port(requested, claim, now).map_err(|taken| {
                    let why = self.refusal(&taken);
                    Status::internal(format!("failed to allocate requested HealthCheck NodePort {requested}: {why}"))
                });
            }
        };
        spec[FIELD] = port.into();
        Ok(())
    }

    fn refusal(&self, taken: &Taken) -> String {
        match taken {
            Taken::Already => "provided port is already allocated".to_owned(),
            Taken::Outside => format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                self.ranges.node_ports.start(),
                self.ranges.node_ports.end()
            ),
        }
    }

    fn take_port(&mut self, port: u64, claim: &Holder, now: i64) -> Result<(), Taken> {
        // A service keeps a port from an earlier range of the server.
        let is_own = |port: &u16| self.ports.get(port).is_some_and(|holder| holder.key == claim.key);
        let is_inside = |port: &u16| self.ranges.node_ports.contains(port) || is_own(port);
        let port = u16::try_from(port).ok().filter(is_inside).ok_or(Taken::Outside)?;
        take(&mut self.ports, port, claim, now)
    }

    fn free_port(&mut self, claim: &Holder, now: i64) -> Option<u16> {
        let range = self.ranges.node_ports.clone();
        let start = self.next_port.clamp(*range.start(), *range.end());
        let own =
            |held: &HashMap<u16, Holder>, port: &u16| held.get(port).is_some_and(|holder| holder.key == claim.key);
        for port in (start..=*range.end()).chain(*range.start()..start) {
            if !own(&self.ports, &port) && take(&mut self.ports, port, claim, now).is_ok() {
                self.next_port = port.checked_add(1).unwrap_or(*range.start());
                return Some(port);
            }
        }
        None
    }
}

fn no_ports() -> Status {
    Status::internal("failed to allocate a nodePort: range is full")
}

/// An address or node port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    Address(IpAddr),
    Port(u16),
}

impl std::fmt::Display for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => write!(f, "addresses/{address}"),
            Self::Port(port) => write!(f, "ports/{port}"),
        }
    }
}

/// The addresses and ports that a service holds and did not hold before.
pub fn new_allocations(before: Option<&Value>, after: &Value) -> Vec<Allocation> {
    let (had_addresses, had_ports) = before.map(held).unwrap_or_default();
    let (addresses, ports) = held(after);
    let addresses = addresses.into_iter().filter(|address| !had_addresses.contains(address)).map(Allocation::Address);
    addresses.chain(ports.into_iter().filter(|port| !had_ports.contains(port)).map(Allocation::Port)).collect()
}

/// The addresses and ports a service holds.
fn held(service: &Value) -> (Vec<IpAddr>, Vec<u16>) {
    let spec = &service["spec"];
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(|ip| ip.as_str()?.parse().ok());
    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    let ports = ports.chain([&spec["healthCheckNodePort"]]);
    let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok().filter(|port| *port != 0));
    (addresses.collect(), ports.collect())
}
