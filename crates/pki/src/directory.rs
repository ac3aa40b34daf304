//! The key material of a control plane in a directory: created at the first start, loaded at later ones, and renewed
//! when [`crate::rotation`] requires it.
//!
//! Authorities are never overwritten: a successor is an additional file. The certificates of the server and the
//! administrator are each in one file with their key, which is replaced.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use world::World;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::{Authority, KeyPairPem, ServerNames};
use crate::files::{self, Access};
use crate::generations::{Generations, key_of};
use crate::rotation::{self, Facts, Kind, Leaf, Plan, Step, Validity};
use crate::{Error, Holder, holder, serving, token};

const SERVER: &str = "apiserver.pem";
const ADMIN: &str = "admin.pem";
/// The administrator's certificate in earlier versions.
const EARLIER_ADMIN: [&str; 2] = ["admin.crt", "admin.key"];
const TOKEN_KEY: &str = "sa.key";
/// The files with certificates that only a server writes.
pub const ISSUED: [&str; 3] = [SERVER, ADMIN, EARLIER_ADMIN[0]];

/// The key material of a control plane, completely loaded.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Signs certificates of servers, users and agents.
    pub authority: Arc<Authority>,
    /// The certificates of all its unexpired generations, in PEM. The last ones may not sign yet.
    pub trusted: String,
    /// Signs the client certificate that the API server uses with aggregated servers.
    pub front_proxy_authority: Arc<Authority>,
    /// The certificates of all unexpired generations of that authority, in PEM.
    pub front_proxy_trusted: String,
    pub server: KeyPairPem,
    /// `kubernetes-admin` in group `system:masters`.
    pub admin: KeyPairPem,
    /// The private key that signs service account tokens, in PEM.
    pub service_account_key: String,
    /// Previous keys in PEM: tokens signed with them are valid.
    pub earlier_service_account_keys: Vec<String>,
    /// All certificates with their expiry.
    pub certificates: Vec<Certificate>,
    /// When the directory must be opened again, in seconds since the epoch.
    pub due: i64,
}

/// A certificate of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// `ca`, `ca-2`, `front-proxy-ca`, `apiserver`, `admin`.
    pub name: String,
    pub path: PathBuf,
    pub validity: Validity,
    pub role: Role,
}

/// The role of a certificate at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An authority that signs.
    Signs,
    /// A successor that clients already trust; it signs from then on, in seconds since the epoch.
    SignsFrom(i64),
    /// An authority that no longer signs; its certificates are valid.
    Trusted,
    /// An authority that has expired and has successors.
    Retired,
    /// Renewed by the server that uses it.
    Issued,
}

/// The names in the server's certificate.
#[derive(Clone, Copy, Debug)]
pub enum Names<'n> {
    Exactly(&'n ServerNames),
    /// The existing names; without a certificate, none is issued.
    AsPresent,
}

impl Directory {
    /// Loads the directory, creates missing parts, and renews due ones. Fails without changes if half of a pair is
    /// missing or unreadable.
    pub fn open(path: &Path, names: &ServerNames, world: &World) -> Result<Self, Error> {
        files::private_directory(path)?;
        let present = settle(path, Names::Exactly(names), world)?;
        present.remove_earlier_admin()?;
        present.loaded(names, world)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Rounds in which all due steps are executed: authorities, what they sign, and some to spare.
const ROUNDS: usize = 8;

/// Executes all due steps.
fn settle(path: &Path, names: Names<'_>, world: &World) -> Result<Present, Error> {
    for _ in 0..ROUNDS {
        let present = Present::read(path, true, world)?;
        let plan = rotation::plan(&present.facts(names, world)?, world.now().as_second());
        if plan.steps.is_empty() {
            return Ok(present);
        }
        plan.steps.iter().try_for_each(|step| present.act(*step, names, world))?;
    }
    Err(Error::Unsettled)
}

/// All certificates of a directory, without changes.
///
/// # Errors
/// A file cannot be read, or half of a pair is missing.
pub fn certificates(path: &Path, world: &World) -> Result<Vec<Certificate>, Error> {
    Present::read(path, false, world)?.certificates(world)
}

/// The plan of [`renew`]: due steps, and `requested`.
///
/// # Errors
/// A file cannot be read, or half of a pair is missing.
pub fn renewal(path: &Path, requested: &[Step], world: &World) -> Result<Plan, Error> {
    let present = Present::read(path, false, world)?;
    let mut plan = rotation::plan(&present.facts(Names::AsPresent, world)?, world.now().as_second());
    for step in requested {
        let is_there = *step != Step::Server || present.server.is_some();
        if is_there && !plan.steps.contains(step) {
            plan.steps.push(*step);
        }
    }
    Ok(plan)
}

/// Creates new certificates and keys for a running server, which loads them.
///
/// # Errors
/// A file cannot be read or written.
pub fn renew(path: &Path, requested: &[Step], world: &World) -> Result<(), Error> {
    let plan = renewal(path, requested, world)?;
    for step in plan.steps {
        Present::read(path, false, world)?.act(step, Names::AsPresent, world)?;
    }
    Ok(())
}

/// The file that a step writes.
pub fn file_of(step: Step) -> &'static str {
    match step {
        Step::Authority(Kind::Clients) => "ca",
        Step::Authority(Kind::FrontProxy) => "front-proxy-ca",
        Step::Server => SERVER,
        Step::Admin => ADMIN,
        Step::TokenKey => TOKEN_KEY,
    }
}

struct Present {
    path: PathBuf,
    authority: Generations,
    front_proxy: Generations,
    server: Option<KeyPairPem>,
    admin: Option<KeyPairPem>,
    token_key: Option<String>,
    earlier_token_keys: Vec<String>,
}

impl Present {
    fn read(path: &Path, may_repair: bool, world: &World) -> Result<Self, Error> {
        let server = issued(&path.join(SERVER))?;
        let admin = admin(path)?;
        let repairs = may_repair && server.is_none() && admin.is_none();
        Ok(Self {
            path: path.to_owned(),
            authority: Generations::read(path, ("ca", "karmada-ca"), repairs, world)?,
            front_proxy: Generations::read(path, ("front-proxy-ca", "front-proxy-ca"), repairs, world)?,
            server,
            admin,
            token_key: token_key(&path.join(TOKEN_KEY))?,
            earlier_token_keys: earlier_token_keys(path)?,
        })
    }

    fn facts(&self, names: Names<'_>, world: &World) -> Result<Facts, Error> {
        let now = world.now().as_second();
        let leaf = |pair: &KeyPairPem| -> Result<Leaf, Error> {
            let issuer = self.authority.end_of_issuer(&pair.certificate, now)?;
            Ok(Leaf { validity: validity(&pair.certificate)?, issuer })
        };
        let server = match (&self.server, names) {
            (None, _) => None,
            (Some(pair), Names::Exactly(names)) if !carries(&pair.certificate, names)? => Some(None),
            (Some(pair), _) => Some(Some(leaf(pair)?)),
        };
        Ok(Facts {
            authority: self.authority.validities(),
            front_proxy: self.front_proxy.validities(),
            server,
            serves: matches!(names, Names::Exactly(_)),
            admin: self.admin.as_ref().map(leaf).transpose()?,
            has_token_key: self.token_key.is_some(),
        })
    }

    fn act(&self, step: Step, names: Names<'_>, world: &World) -> Result<(), Error> {
        match step {
            Step::Authority(Kind::Clients) => self.authority.make(world),
            Step::Authority(Kind::FrontProxy) => self.front_proxy.make(world),
            Step::Server => self.issue_server(names, world),
            Step::Admin => self.issue_admin(world),
            Step::TokenKey => self.make_token_key(),
        }
    }

    /// # Errors
    /// Every generation has expired.
    fn signer(&self, world: &World) -> Result<(&Arc<Authority>, String), Error> {
        self.authority.signer(world.now().as_second()).ok_or(Error::NoAuthority)
    }

    fn issue_server(&self, names: Names<'_>, world: &World) -> Result<(), Error> {
        let names = match (names, &self.server) {
            (Names::Exactly(names), _) => names.clone(),
            (Names::AsPresent, Some(pair)) => names_of(&pair.certificate)?,
            (Names::AsPresent, None) => return Ok(()),
        };
        let (authority, chain) = self.signer(world)?;
        let issued = authority.issue_server(&names, world)?;
        let text = format!("{}{chain}{}", issued.certificate, issued.key);
        files::replace(&self.path.join(SERVER), text.as_bytes(), Access::Private)
    }

    fn issue_admin(&self, world: &World) -> Result<(), Error> {
        let (authority, _) = self.signer(world)?;
        let issued = authority.issue_client("kubernetes-admin", &["system:masters".to_owned()], world)?;
        let text = format!("{}{}", issued.certificate, issued.key);
        files::replace(&self.path.join(ADMIN), text.as_bytes(), Access::Private)
    }

    /// They are read only without the new file.
    fn remove_earlier_admin(&self) -> Result<(), Error> {
        if files::read(&self.path.join(ADMIN))?.is_none() {
            return Ok(());
        }
        EARLIER_ADMIN.iter().try_for_each(|name| files::remove(&self.path.join(name)))
    }

    /// The current public key is stored first, so that tokens of both keys are valid at all times.
    fn make_token_key(&self) -> Result<(), Error> {
        if let Some(present) = &self.token_key {
            let public = token::Signer::from_pem(present)?.public_pem().to_owned();
            let id: String = token::key_id(&public)?.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
            let kept = self.path.join(format!("sa-{id}.pub"));
            if files::read(&kept)?.is_none() {
                files::create_new(&kept, public.as_bytes(), Access::Public)?;
            }
            return files::replace(&self.path.join(TOKEN_KEY), token::generate_key()?.as_bytes(), Access::Private);
        }
        files::create_new(&self.path.join(TOKEN_KEY), token::generate_key()?.as_bytes(), Access::Private)
    }

    fn certificates(&self, world: &World) -> Result<Vec<Certificate>, Error> {
        let now = world.now().as_second();
        let mut all = Vec::new();
        for generations in [&self.authority, &self.front_proxy] {
            let (authority_state, validities) = (generations.authority_state(now), generations.validities());
            for (at, generation) in generations.iter().enumerate() {
                let role = match authority_state.signer {
                    Some(signer) if at == signer => Role::Signs,
                    Some(signer) if at > signer => Role::SignsFrom(rotation::signs_from(&validities, at)),
                    _ if authority_state.trusted.contains(&at) => Role::Trusted,
                    _ => Role::Retired,
                };
                all.push(Certificate {
                    name: stem(&generation.path),
                    path: generation.path.clone(),
                    validity: generation.validity,
                    role,
                });
            }
        }
        for (file, pair) in [(SERVER, &self.server), (ADMIN, &self.admin)] {
            if let Some(pair) = pair {
                let path = self.path.join(file);
                let validity = validity(&pair.certificate)?;
                all.push(Certificate { name: stem(&path), path, validity, role: Role::Issued });
            }
        }
        Ok(all)
    }

    fn loaded(self, names: &ServerNames, world: &World) -> Result<Directory, Error> {
        let now = world.now().as_second();
        let due = rotation::plan(&self.facts(Names::Exactly(names), world)?, now).due;
        let certificates = self.certificates(world)?;
        let (authority, _) = self.signer(world)?;
        let (front_proxy, _) = self.front_proxy.signer(now).ok_or(Error::NoAuthority)?;
        Ok(Directory {
            authority: Arc::clone(authority),
            trusted: self.authority.trusted(now),
            front_proxy_authority: Arc::clone(front_proxy),
            front_proxy_trusted: self.front_proxy.trusted(now),
            server: self.server.ok_or(Error::NoAuthority)?,
            admin: self.admin.ok_or(Error::NoAuthority)?,
            service_account_key: self.token_key.ok_or(Error::NoAuthority)?,
            earlier_service_account_keys: self.earlier_token_keys,
            certificates,
            due,
            path: self.path,
        })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn validity(certificate: &str) -> Result<Validity, Error> {
    let holder = Holder::from_pem(certificate)?;
    Ok(Validity { not_before: holder.not_before, not_after: holder.not_after })
}

/// A key that signs tokens or verifies them.
fn token_key(path: &Path) -> Result<Option<String>, Error> {
    let Some(key) = files::read(path)? else { return Ok(None) };
    let unusable = |source| Error::Token { path: path.display().to_string(), source: Box::new(source) };
    token::Verifier::from_pems([key.as_str()]).map_err(unusable)?;
    Ok(Some(key))
}

/// The certificate and key of a file that the authority can issue again.
fn issued(path: &Path) -> Result<Option<KeyPairPem>, Error> {
    let Some(pair) = files::read(path)?.map(|text| split(&text)) else { return Ok(None) };
    let unusable = |source| Error::Issued { path: path.display().to_string(), source: Box::new(source) };
    Holder::from_pem(&pair.certificate).map_err(unusable)?;
    Ok(Some(pair))
}

fn admin(directory: &Path) -> Result<Option<KeyPairPem>, Error> {
    if let Some(pair) = issued(&directory.join(ADMIN))? {
        return Ok(Some(pair));
    }
    let [certificate, key] = EARLIER_ADMIN.map(|name| files::read(&directory.join(name)));
    // Half of a pair is useless, and a new one can be issued.
    Ok(certificate?.zip(key?).map(|(certificate, key)| KeyPairPem { certificate, key }))
}

/// `sa-*.pub`, sorted by name.
fn earlier_token_keys(directory: &Path) -> Result<Vec<String>, Error> {
    let names = files::names(directory)?;
    let earlier = names.iter().filter(|name| name.starts_with("sa-") && name.ends_with(".pub"));
    earlier.filter_map(|name| token_key(&directory.join(name)).transpose()).collect()
}

/// A file with a certificate chain followed by its key.
fn split(text: &str) -> KeyPairPem {
    let key = key_of(text);
    KeyPairPem { certificate: text[..text.len() - key.len()].to_owned(), key: key.to_owned() }
}

/// The names in a server certificate.
fn names_of(certificate: &str) -> Result<ServerNames, Error> {
    let der = holder::pem_to_der(certificate)?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| Error::ParseCertificate(error.to_string()))?;
    let (dns, addresses) = serving::names(&parsed)?;
    Ok(ServerNames { common_name: Holder::from_der(&der)?.user, dns, addresses })
}

/// Whether a certificate has exactly these names. A removed name counts too: the server must no longer use it.
fn carries(certificate: &str, names: &ServerNames) -> Result<bool, Error> {
    let present = names_of(certificate)?;
    let dns: BTreeSet<String> = present.dns.into_iter().collect();
    let addresses: BTreeSet<IpAddr> = present.addresses.into_iter().collect();
    Ok(dns == names.dns.iter().map(|name| name.to_ascii_lowercase()).collect()
        && addresses == names.addresses.iter().copied().collect())
}

#[cfg(test)]
mod tests;
