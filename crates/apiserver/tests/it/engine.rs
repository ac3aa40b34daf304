//! The store under the servers of a test. [`on_every_engine`] runs a test on each engine: in memory, embedded, and in
//! etcd. Other tests have a store in memory. Tests share one etcd with separate prefixes, so its revisions grow during
//! every test; a test that compacts has a separate etcd.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use etcd::process::Process;
use etcd::{EtcdStore, Layout};
use storage::Store;
use storage::embedded::{EmbeddedStore, Options};
use storage::memory::MemoryStore;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// An engine of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Memory,
    Embedded,
    Etcd,
}

/// The differences of the engine that a client may see. All other results are the same on every engine.
impl Engine {
    /// etcd assigns one revision to the changes of a transaction. Of two changes of one resource, a client that resumes
    /// a watch after the first would miss the other, so such writes are not stored together.
    pub(crate) fn shares_revisions(self) -> bool {
        self == Self::Etcd
    }

    /// Transactions that are sent to etcd at the same time are in flight together, and the later one may be the first.
    pub(crate) fn orders_concurrent_writes(self) -> bool {
        self != Self::Etcd
    }

    /// etcd's default for `--max-request-bytes` is 1.5 MiB, less than the 3 MiB of a request to the API server.
    pub(crate) fn refuses_two_mebibytes(self) -> bool {
        self == Self::Etcd
    }
}

/// kube-apiserver's places of some resources.
const PLACES: [(&str, &str); 5] = [
    ("core/configmaps", "configmaps"),
    ("core/endpoints", "services/endpoints"),
    ("core/nodes", "minions"),
    ("core/services", "services/specs"),
    ("apps/deployments", "deployments"),
];

struct Etcd {
    process: Process,
    _data: TempDir,
}

/// The engine of the test on this thread, and the state that its stores need until it ends.
struct Running {
    engine: Engine,
    directories: Vec<TempDir>,
    servers: Vec<Arc<Etcd>>,
}

thread_local! {
    static RUNNING: RefCell<Running> =
        const { RefCell::new(Running { engine: Engine::Memory, directories: Vec::new(), servers: Vec::new() }) };
}

/// The engine of this test. Tests call it from their own task.
pub(crate) fn of_this_test() -> Engine {
    RUNNING.with_borrow(|running| running.engine)
}

/// An empty store.
pub(crate) async fn store() -> Arc<dyn Store> {
    match of_this_test() {
        Engine::Memory => Arc::new(MemoryStore::new()),
        Engine::Embedded => embedded().await,
        Engine::Etcd => open(shared_etcd()).await,
    }
}

/// An empty store whose past no other test needs.
pub(crate) async fn store_to_compact() -> Arc<dyn Store> {
    match of_this_test() {
        Engine::Etcd => open(Arc::new(start_etcd())).await,
        Engine::Memory | Engine::Embedded => store().await,
    }
}

async fn embedded() -> Arc<dyn Store> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = EmbeddedStore::open(directory.path(), Options::default()).await.expect("an empty store");
    RUNNING.with_borrow_mut(|running| running.directories.push(directory));
    Arc::new(store)
}

async fn open(etcd: Arc<Etcd>) -> Arc<dyn Store> {
    static STORES: AtomicUsize = AtomicUsize::new(0);
    let prefix = format!("/test{}", STORES.fetch_add(1, Relaxed));
    let options = etcd.process.options(Layout::new(&prefix, PLACES)).expect("a URL");
    RUNNING.with_borrow_mut(|running| running.servers.push(etcd));
    Arc::new(EtcdStore::open(options).await.expect("etcd answers"))
}

/// The etcd of all tests that run now; the last of them ends it.
fn shared_etcd() -> Arc<Etcd> {
    static SHARED: Mutex<Weak<Etcd>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let etcd = Arc::new(start_etcd());
        *shared = Arc::downgrade(&etcd);
        etcd
    })
}

fn start_etcd() -> Etcd {
    // No test here is about the disk.
    let memory = Path::new("/dev/shm");
    let data = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let data = data.expect("a temporary directory");
    let process = Process::start(data.path(), &[]).expect("etcd starts; install etcd-server");
    Etcd { process, _data: data }
}

/// Whether etcd is installed. CI requires it.
fn has_etcd() -> bool {
    let required = std::env::var_os("KARMADA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    required || std::env::split_paths(&paths).any(|directory| directory.join("etcd").is_file())
}

fn run(engine: Engine, runtime: std::io::Result<Runtime>, test: impl Future<Output = ()>) {
    if engine == Engine::Etcd && !has_etcd() {
        eprintln!("not run: etcd is not on PATH");
        return;
    }
    RUNNING.with_borrow_mut(|running| running.engine = engine);
    let runtime = runtime.expect("a runtime");
    runtime.block_on(test);
    // Servers first, then their stores.
    drop(runtime);
    RUNNING.take();
}

/// Runs a test on one thread.
pub(crate) fn alone(engine: Engine, test: impl Future<Output = ()>) {
    run(engine, Builder::new_current_thread().enable_all().build(), test);
}

/// Runs a test whose tasks have two threads.
pub(crate) fn threads(engine: Engine, test: impl Future<Output = ()>) {
    run(engine, Builder::new_multi_thread().worker_threads(2).enable_all().build(), test);
}

/// Runs a test on virtual time, except on etcd, which has its own clock.
pub(crate) fn paused(engine: Engine, test: impl Future<Output = ()>) {
    let paused = engine != Engine::Etcd;
    run(engine, Builder::new_current_thread().enable_all().start_paused(paused).build(), test);
}

impl Default for Running {
    fn default() -> Self {
        Self { engine: Engine::Memory, directories: Vec::new(), servers: Vec::new() }
    }
}

/// Declares the tests of a module, by mode: `alone`, with `threads`, or with `paused` time.
macro_rules! on_every_engine {
    ($($way:ident: [$($name:ident),+ $(,)?]),+ $(,)?) => {
        crate::engine::on_every_engine!(memory Memory $($way: [$($name)+])+);
        crate::engine::on_every_engine!(embedded Embedded $($way: [$($name)+])+);
        crate::engine::on_every_engine!(on_etcd Etcd $($way: [$($name)+])+);
    };
    ($module:ident $engine:ident $($way:ident: [$($name:ident)+])+) => {
        mod $module {
            $($(
                #[test]
                fn $name() {
                    crate::engine::$way(crate::engine::Engine::$engine, super::$name());
                }
            )+)+
        }
    };
}
pub(crate) use on_every_engine;
