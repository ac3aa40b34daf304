//! The directories under test: which calls fail, and the record of all changes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Open,
    /// Opens a file that does not exist yet.
    Create,
    Read,
    Write,
    /// A write beyond the end of the file.
    Grow,
    Sync,
    Truncate,
    Remove,
    Rename,
    Map,
    Lock,
}

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// EIO, for every call.
    Broken,
    /// ENOSPC where a file is created or grows; other calls are not counted. Shared memory is refilled with the space
    /// that it had before.
    Full,
    /// ENOSPC where a file is created, written or renamed, as in copy-on-write file systems.
    FullCopyOnWrite,
}

impl Failure {
    fn concerns(self, call: Call, name: &str) -> bool {
        match self {
            Self::Broken => true,
            Self::Full => matches!(call, Call::Create | Call::Grow) && !name.ends_with("-shm"),
            Self::FullCopyOnWrite => matches!(call, Call::Create | Call::Write | Call::Grow | Call::Rename),
        }
    }

    fn errno(self) -> c_int {
        match self {
            Self::Broken => libc::EIO,
            Self::Full | Self::FullCopyOnWrite => libc::ENOSPC,
        }
    }
}

/// A change of a directory. Files are numbered, because names move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    Created {
        name: String,
        file: usize,
    },
    Wrote {
        file: usize,
        offset: u64,
        data: Vec<u8>,
    },
    Truncated {
        file: usize,
        length: u64,
    },
    Synced {
        file: usize,
    },
    Renamed {
        from: String,
        to: String,
    },
    Removed {
        name: String,
    },
    SyncedDirectory,
    /// The test noted something.
    Noted(usize),
}

/// A directory whose files fail as planned.
#[derive(Debug)]
pub struct Disk {
    number: u64,
}

#[derive(Debug)]
struct Plan {
    failure: Failure,
    /// The first call that fails, counted from 0, and the first that does not fail again.
    calls: std::ops::Range<u64>,
    /// A failing write writes the sectors in the first half of its data.
    torn: bool,
}

#[derive(Debug)]
struct State {
    dir: PathBuf,
    plan: Option<Plan>,
    counted: u64,
    failed: Vec<(Call, String)>,
    names: BTreeMap<String, usize>,
    files: usize,
    record: Option<Vec<Recorded>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    /// Recorded.
    File(usize),
    /// Shared memory and locks: their content is lost in a power failure.
    Volatile(usize),
}

#[derive(Default)]
struct Table {
    next: u64,
    disks: BTreeMap<u64, State>,
    open: Option<HashMap<c_int, (u64, Node)>>,
}

const FDS: usize = 1 << 16;
static TABLE: Mutex<Table> = Mutex::new(Table { next: 0, disks: BTreeMap::new(), open: None });
/// The file descriptors of simulated disks; operations on others have no extra cost.
static OPEN: [AtomicBool; FDS] = [const { AtomicBool::new(false) }; FDS];
static ANY: AtomicBool = AtomicBool::new(false);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// The directory must exist, and none of its files may be open.
    pub fn new(dir: &Path) -> std::io::Result<Self> {
        super::calls::link();
        let dir = dir.canonicalize()?;
        let mut state = State {
            dir: dir.clone(),
            plan: None,
            counted: 0,
            failed: Vec::new(),
            names: BTreeMap::new(),
            files: 0,
            record: None,
        };
        for entry in std::fs::read_dir(dir)? {
            state.number(&entry?.file_name().to_string_lossy());
        }
        let mut table = table();
        let number = table.next;
        table.next += 1;
        table.disks.insert(number, state);
        ANY.store(true, Relaxed);
        Ok(Self { number })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut table = table();
        change(table.disks.get_mut(&self.number).expect("a disk is registered until it is dropped"))
    }

    /// From now on the call `first` (from 0) fails, and the `count - 1` after it.
    pub fn fail(&self, failure: Failure, first: u64, count: u64, torn: bool) {
        self.with(|state| {
            state.counted = 0;
            state.plan = Some(Plan { failure, calls: first..first.saturating_add(count), torn });
        });
    }

    /// No call fails any more.
    pub fn heal(&self) {
        self.with(|state| state.plan = None);
    }

    /// The calls that failed, with the names of the files.
    pub fn failed(&self) -> Vec<(Call, String)> {
        self.with(|state| state.failed.clone())
    }

    /// The number of calls since the plan was set.
    pub fn counted(&self) -> u64 {
        self.with(|state| state.counted)
    }

    /// Records all changes from now on. Existing content counts as durable.
    pub fn record(&self) {
        self.with(|state| state.record = Some(Vec::new()));
    }

    /// The number of each existing file, by name, for [`super::PowerFailure`].
    pub fn files(&self) -> BTreeMap<String, usize> {
        self.with(|state| state.names.clone())
    }

    pub fn note(&self, what: usize) {
        self.with(|state| state.push(|| Recorded::Noted(what)));
    }

    pub fn recorded(&self) -> Vec<Recorded> {
        self.with(|state| state.record.take().unwrap_or_default())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut table = table();
        table.disks.remove(&self.number);
        let number = self.number;
        table.open.get_or_insert_default().retain(|fd, (disk, _)| {
            let keep = *disk != number;
            if !keep && let Some(open) = OPEN.get(*fd as usize) {
                open.store(false, Relaxed);
            }
            keep
        });
    }
}

impl State {
    fn number(&mut self, name: &str) -> usize {
        let next = self.files;
        let file = *self.names.entry(name.to_owned()).or_insert(next);
        self.files += usize::from(file == next);
        file
    }

    fn push(&mut self, what: impl FnOnce() -> Recorded) {
        if let Some(record) = &mut self.record {
            record.push(what());
        }
    }

    /// The error of a call that must fail, and whether it is partially executed.
    fn verdict(&mut self, call: Call, name: &str) -> Option<(c_int, bool)> {
        let plan = self.plan.as_ref().filter(|plan| plan.failure.concerns(call, name))?;
        let place = self.counted;
        self.counted += 1;
        let verdict = plan.calls.contains(&place).then_some((plan.failure.errno(), plan.torn));
        if verdict.is_some() {
            self.failed.push((call, name.to_owned()));
        }
        verdict
    }

    fn name_of(&self, node: Node) -> String {
        let name = |file| self.names.iter().find(|(_, of)| **of == file).map(|(name, _)| name.clone());
        match node {
            Node::Directory => ".".into(),
            Node::Volatile(file) | Node::File(file) => name(file).unwrap_or_else(|| "removed".into()),
        }
    }
}

fn is_volatile(name: &str) -> bool {
    name.ends_with("-shm") || name.ends_with(".lock")
}

/// A locked disk and the name in it of a path; `None` for every other path.
fn at<T>(path: &Path, act: impl FnOnce(&mut State, &str) -> T) -> Option<T> {
    if !ANY.load(Relaxed) {
        return None;
    }
    let mut table = table();
    let mut found = table.disks.values_mut().filter_map(|state| {
        let rest = path.strip_prefix(&state.dir).ok()?.to_owned();
        Some((state, rest))
    });
    let (state, name) = found.next()?;
    let name = String::from_utf8_lossy(name.as_os_str().as_bytes()).into_owned();
    Some(act(state, &name))
}

/// Opens a path with `open`, unless that must fail.
pub(crate) fn open(path: &Path, flags: c_int, open: impl Fn() -> c_int) -> Result<c_int, c_int> {
    let opened = at(path, |state, name| {
        let (create, exists) = (flags & libc::O_CREAT != 0, name.is_empty() || state.names.contains_key(name));
        let call = if create && !exists { Call::Create } else { Call::Open };
        if let Some((errno, _)) = state.verdict(call, name) {
            return Err(errno);
        }
        let fd = open();
        if fd < 0 || (!exists && !create) {
            return Ok((fd, None));
        }
        if name.is_empty() {
            return Ok((fd, Some(Node::Directory)));
        }
        let file = state.number(name);
        if is_volatile(name) {
            return Ok((fd, Some(Node::Volatile(file))));
        }
        if !exists {
            state.push(|| Recorded::Created { name: name.to_owned(), file });
        } else if flags & libc::O_TRUNC != 0 {
            state.push(|| Recorded::Truncated { file, length: 0 });
        }
        Ok((fd, Some(Node::File(file))))
    });
    let Some(opened) = opened else { return Ok(open()) };
    let (fd, node) = opened?;
    if let Some(node) = node {
        let mut table = table();
        let disk = table.disks.iter().find(|(_, state)| path.starts_with(&state.dir)).map(|(number, _)| *number);
        if let Some(disk) = disk {
            adopt(&mut table, fd, disk, node);
        }
    }
    Ok(fd)
}

fn adopt(table: &mut Table, fd: c_int, disk: u64, node: Node) {
    if let Some(open) = OPEN.get(fd as usize) {
        open.store(true, Relaxed);
        table.open.get_or_insert_default().insert(fd, (disk, node));
    }
}

fn is_open(fd: c_int) -> bool {
    usize::try_from(fd).is_ok_and(|fd| OPEN.get(fd).is_some_and(|open| open.load(Relaxed)))
}

pub(crate) fn close(fd: c_int) {
    if is_open(fd) {
        OPEN[fd as usize].store(false, Relaxed);
        table().open.get_or_insert_default().remove(&fd);
    }
}

pub(crate) fn duplicated(from: c_int, to: c_int) {
    if is_open(from) && to >= 0 {
        let mut table = table();
        let of = table.open.get_or_insert_default().get(&from).copied();
        if let Some((disk, node)) = of {
            adopt(&mut table, to, disk, node);
        }
    }
}

/// The action instead of a call on a file.
pub(crate) enum Turn {
    /// The call, whole.
    Pass,
    /// A part of a write, and then the error.
    Tear(c_int),
}

/// Runs a call on a file descriptor, unless it must fail. `act` receives the turn and returns the result of the call,
/// and the change to record.
pub(crate) fn on<T>(fd: c_int, call: Call, act: impl FnOnce(Turn) -> (T, Option<Change>)) -> Result<T, c_int> {
    if !is_open(fd) {
        return Ok(act(Turn::Pass).0);
    }
    let mut table = table();
    let of = table.open.get_or_insert_default().get(&fd).copied();
    let Some((state, node)) = of.and_then(|(disk, node)| Some((table.disks.get_mut(&disk)?, node))) else {
        return Ok(act(Turn::Pass).0);
    };
    let name = state.name_of(node);
    let (result, change) = match state.verdict(call, &name) {
        None => act(Turn::Pass),
        Some((errno, true)) if matches!(call, Call::Write | Call::Grow) => act(Turn::Tear(errno)),
        Some((errno, _)) => return Err(errno),
    };
    match (change, node) {
        (Some(Change::Synced), Node::Directory) => state.push(|| Recorded::SyncedDirectory),
        (Some(change), Node::File(file)) => state.push(|| match change {
            Change::Wrote { offset, data } => Recorded::Wrote { file, offset, data },
            Change::Truncated { length } => Recorded::Truncated { file, length },
            Change::Synced => Recorded::Synced { file },
        }),
        _ => {}
    }
    Ok(result)
}

/// Whether the calls of a file descriptor are recorded; a sync of it then need not reach the real disk.
pub(crate) fn is_tracked(fd: c_int) -> bool {
    is_open(fd)
}

pub(crate) enum Change {
    Wrote { offset: u64, data: Vec<u8> },
    Truncated { length: u64 },
    Synced,
}

pub(crate) fn remove(path: &Path, remove: impl Fn() -> c_int) -> Result<c_int, c_int> {
    let removed = at(path, |state, name| {
        if let Some((errno, _)) = state.verdict(Call::Remove, name) {
            return Err(errno);
        }
        let result = remove();
        if result == 0 {
            state.names.remove(name);
            if !is_volatile(name) {
                state.push(|| Recorded::Removed { name: name.to_owned() });
            }
        }
        Ok(result)
    });
    removed.unwrap_or_else(|| Ok(remove()))
}

pub(crate) fn rename(from: &Path, to: &Path, rename: impl Fn() -> c_int) -> Result<c_int, c_int> {
    let renamed = at(from, |state, name| {
        if let Some((errno, _)) = state.verdict(Call::Rename, name) {
            return Err(errno);
        }
        let result = rename();
        let to = to.strip_prefix(&state.dir).ok().map(|to| to.to_string_lossy().into_owned());
        if let (0, Some(to), Some(file)) = (result, to, state.names.get(name).copied()) {
            state.names.remove(name);
            state.names.insert(to.clone(), file);
            state.push(|| Recorded::Renamed { from: name.to_owned(), to });
        }
        Ok(result)
    });
    renamed.unwrap_or_else(|| Ok(rename()))
}
