//! Shares of the processor.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use apiserver::limits::fairness::{Place, Turns, give_way, in_turns};
use apiserver::serve::Limits;
use parking_lot::Mutex;
use storage::memory::MemoryStore;

use super::{Listening, call, fill, server};

const MILLISECOND: u64 = 1_000_000;

/// Turns whose clock is moved by the work done in them.
struct Machine {
    turns: Arc<Turns>,
    clock: Arc<AtomicU64>,
    /// The user of each turn.
    done: Arc<Mutex<Vec<&'static str>>>,
}

impl Machine {
    fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(1));
        let reading = Arc::clone(&clock);
        let turns = Turns::with_clock(2, 1000, Arc::new(move || reading.load(Relaxed)));
        Self { turns, clock, done: Arc::default() }
    }

    /// A request of `pieces` pieces of work, a millisecond each.
    fn request(&self, user: &'static str, pieces: usize) -> tokio::task::JoinHandle<()> {
        let place = Place::new(&self.turns, IpAddr::from([127, 0, 0, 1]));
        place.identify(user);
        let (clock, done) = (Arc::clone(&self.clock), Arc::clone(&self.done));
        tokio::spawn(in_turns(place, async move {
            for piece in 0..pieces {
                if piece > 0 {
                    give_way().await;
                }
                clock.fetch_add(MILLISECOND, Relaxed);
                done.lock().push(user);
            }
        }))
    }

    fn count(&self, user: &str) -> usize {
        self.done.lock().iter().filter(|known| **known == user).count()
    }
}

#[tokio::test]
async fn a_thousand_requests_of_one_user_delay_another_by_a_few_turns() {
    let machine = Machine::new();
    // Both are registered: a user without others does not yield.
    for user in ["neighbor", "greedy"] {
        machine.request(user, 1).await.expect("no panic");
    }
    let greedy: Vec<_> = (0..1000).map(|_| machine.request("greedy", 3)).collect();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    for round in 0..50 {
        // Light at first, as heavy as the other one after a few rounds.
        let before = machine.done.lock().len();
        machine.request("neighbor", 1).await.expect("no panic");
        let meanwhile = machine.done.lock().iter().skip(before).position(|user| *user == "neighbor");
        let meanwhile = meanwhile.expect("it was served");
        assert!(meanwhile <= 4, "round {round}: {meanwhile} turns of the other user came first");
    }
    for request in greedy {
        request.await.expect("no panic");
    }
    assert_eq!(machine.count("greedy"), 3001, "none is lost");
}

#[tokio::test]
async fn started_requests_finish_before_new_ones_start() {
    let machine = Machine::new();
    for user in ["neighbor", "greedy"] {
        machine.request(user, 20).await.expect("no panic");
    }
    let begun = Arc::new(Mutex::new((0, 0)));
    let requests: Vec<_> = (0..100)
        .map(|_| {
            let place = Place::new(&machine.turns, IpAddr::from([127, 0, 0, 1]));
            place.identify("greedy");
            let (clock, begun) = (Arc::clone(&machine.clock), Arc::clone(&begun));
            tokio::spawn(in_turns(place, async move {
                {
                    let (underway, most) = &mut *begun.lock();
                    *underway += 1;
                    *most = (*underway).max(*most);
                }
                for _ in 0..5 {
                    clock.fetch_add(MILLISECOND, Relaxed);
                    give_way().await;
                }
                begun.lock().0 -= 1;
            }))
        })
        .collect();
    for request in requests {
        request.await.expect("no panic");
    }
    let (_, most) = *begun.lock();
    assert!(most <= 2, "{most} requests were underway at once");
}

/// A user alone takes turns without the queue until there are more tasks than seats, or another user arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_single_user_occupies_all_seats_and_no_more() {
    let machine = Machine::new();
    machine.request("only", 20).await.expect("no panic");
    let underway = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let requests: Vec<_> = (0..200)
        .map(|number| {
            let place = Place::new(&machine.turns, IpAddr::from([127, 0, 0, 1]));
            place.identify("only");
            let (clock, underway, most) = (Arc::clone(&machine.clock), Arc::clone(&underway), Arc::clone(&most));
            let work = async move {
                for piece in 0..20 {
                    let now = underway.fetch_add(1, SeqCst) + 1;
                    most.fetch_max(now, SeqCst);
                    clock.fetch_add(MILLISECOND, Relaxed);
                    underway.fetch_sub(1, SeqCst);
                    match piece % 3 {
                        0 => give_way().await,
                        1 => tokio::task::yield_now().await,
                        // Another thread may have a turn meanwhile, on any number of processors.
                        _ => std::thread::yield_now(),
                    }
                }
            };
            let request = tokio::spawn(in_turns(place, work));
            if number % 10 == 9 {
                request.abort();
            }
            request
        })
        .collect();
    for (number, request) in requests.into_iter().enumerate() {
        assert!(request.await.is_ok() || number % 10 == 9, "request {number} ends");
        if number == 100 {
            machine.request("neighbor", 3).await.expect("it is served beside the others");
        }
    }
    let most = most.load(SeqCst);
    assert!(most <= 2, "{most} turns at once");
}

#[tokio::test]
async fn cancelled_turns_block_no_others() {
    let machine = Machine::new();
    for user in ["neighbor", "greedy"] {
        machine.request(user, 20).await.expect("no panic");
    }
    let requests: Vec<_> = (0..100).map(|_| machine.request("greedy", 1000)).collect();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    machine.request("greedy", 50).await.expect("it is served");
    let panics = {
        let place = Place::new(&machine.turns, IpAddr::from([127, 0, 0, 1]));
        place.identify("greedy");
        tokio::spawn(in_turns(place, async { panic!("on purpose") }))
    };
    assert!(panics.await.is_err());
    machine.request("greedy", 50).await.expect("it is served");
}

/// The same with sockets, HTTP/2 and real lists: the order of the answers.
#[tokio::test]
async fn lists_with_selectors_of_one_user_do_not_delay_anothers_get() {
    let server = server(Arc::new(MemoryStore::new())).await;
    fill(&server.service(), 2000).await;
    let listening = Arc::new(Listening::start(server.service(), Limits::default()).await);
    let (greedy, neighbor) = (listening.connect().await, listening.connect().await);
    let own = "/api/v1/namespaces/default/configmaps/a0";
    let list = "/api/v1/configmaps?labelSelector=group%3D7,group%21%3D8";
    for (sender, token) in [(&greedy, "greedy-token"), (&neighbor, "neighbor-token")] {
        assert_eq!(listening.get(sender, Some(token), own).await, Some(200));
    }
    let answers = Arc::new(AtomicU64::new(0));
    let lists: Vec<_> = (0..400)
        .map(|_| {
            let (listening, greedy, answers) = (Arc::clone(&listening), greedy.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                assert_eq!(listening.get(&greedy, Some("greedy-token"), list).await, Some(200));
                answers.fetch_add(1, Relaxed);
            })
        })
        .collect();
    // All of them are sent.
    while answers.load(Relaxed) < 5 {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        assert_eq!(listening.get(&neighbor, Some("neighbor-token"), own).await, Some(200));
    }
    let before = answers.load(Relaxed);
    assert!(before < 200, "{before} of 400 lists were answered before five gets of another user");
    for list in lists {
        list.await.expect("no panic");
    }
    let listening = Arc::into_inner(listening).expect("the last one");
    drop((greedy, neighbor));
    listening.end().await;
    server.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_scan_answers_with_the_state_at_its_beginning() {
    let server = server(Arc::new(MemoryStore::new())).await;
    let service = server.service();
    fill(&service, 1500).await;
    let json = "application/json";
    let list = "/api/v1/configmaps?labelSelector=group%3D99";
    let mut listing = Box::pin(call(&service, "reader", "GET", list, json, ""));
    // The first part is done; the last object changes before it is read.
    let mut polls = 0;
    while futures::poll!(listing.as_mut()).is_pending() {
        polls += 1;
        let patch = r#"{"metadata":{"labels":{"group":"0"}}}"#;
        let url = "/api/v1/namespaces/default/configmaps/a999";
        assert_eq!(call(&service, "writer", "PATCH", url, "application/merge-patch+json", patch).await.0, 200);
        assert!(polls < 1000);
        if polls > 1 {
            break;
        }
    }
    let (code, found) = listing.await;
    assert!(polls > 0, "a scan of 1,500 objects lets others have a turn");
    let names: Vec<_> =
        found["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!((code, names.len()), (200, 15), "{names:?}");
    let page = format!("{list}&limit=4");
    let (_, first) = call(&service, "reader", "GET", &page, json, "").await;
    assert_eq!(first["items"].as_array().map(Vec::len), Some(4));
    assert!(first["metadata"]["remainingItemCount"].is_null() && first["metadata"]["continue"].is_string());
    server.shutdown();
}
