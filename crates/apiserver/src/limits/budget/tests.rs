use futures::FutureExt as _;

use std::task::{Context, Waker};

use super::*;

fn wire(connection: usize, user: usize, server: usize) -> Wire {
    Wire::alone(Budgets::new(Bytes { connection, user, server }, &Registry::default()))
}

#[tokio::test(start_paused = true)]
async fn a_full_account_delays_its_user_and_a_full_server_refuses_all() {
    let wire = wire(100, 100, 400);
    let (ann, bob) = (wire.accounts("ann"), wire.accounts("bob"));
    ann.hold(100);
    assert_eq!(wire.admit("bob", PATIENCE).now_or_never(), Some(Ok(())));
    let refused = wire.admit("ann", PATIENCE).await.expect_err("the account stays full");
    assert_eq!((refused.code, refused.details.and_then(|details| details.retry_after_seconds)), (429, Some(1)));
    let waits = wire.admit("ann", PATIENCE);
    let mut waits = std::pin::pin!(waits);
    assert_eq!(waits.as_mut().now_or_never(), None);
    ann.release(1);
    assert_eq!(waits.now_or_never(), Some(Ok(())), "room lets it begin");
    bob.hold(301);
    for user in ["ann", "bob", "eve"] {
        assert_eq!(wire.admit(user, PATIENCE).await.expect_err("the server is full").code, 429);
    }
    bob.release(301);
    ann.release(99);
    assert_eq!(wire.budgets().in_flight(), 0);
}

/// Users that read nothing, in any number, leave room for another one.
#[tokio::test(start_paused = true)]
async fn users_at_their_limit_leave_capacity_for_others() {
    let wire = wire(1000, 400, 1000);
    let fill = |n: usize| {
        let greedy = wire.accounts(&format!("greedy-{n}"));
        while greedy.user.has(Reservation::ToBegin) {
            greedy.send(1, false);
        }
        greedy
    };
    let greedy: Vec<_> = (0..6).map(fill).collect();
    let left = 1000 - wire.budgets().in_flight();
    assert!((250..=300).contains(&left), "{left} bytes are left");
    assert_eq!(wire.admit("neighbor", PATIENCE).now_or_never(), Some(Ok(())), "another user is served");
    assert!(!wire.is_behind("neighbor") && wire.is_behind("greedy-5"));
    // One of them reads everything, and others get more.
    let waits = wire.admit("greedy-1", PATIENCE);
    let mut waits = std::pin::pin!(waits);
    assert_eq!(waits.as_mut().now_or_never(), None);
    greedy[0].sent(greedy[0].user.in_flight(), false);
    tokio::time::timeout(PATIENCE / 2, waits).await.expect("woken by the other user's bytes").expect("admitted");
}

#[test]
fn waiters_are_woken_in_order_until_the_account_is_empty() {
    let account = Account::new(2 * PIECE);
    account.send(2 * PIECE);
    let flags: Vec<_> = (0..5).map(|_| Arc::new(Flag::default())).collect();
    let mut tickets: Vec<Option<Ticket>> = (0..5).map(|_| None).collect();
    for (flag, ticket) in flags.iter().zip(&mut tickets) {
        let waker = Waker::from(Arc::clone(flag));
        assert!(account.poll(Reservation::ToSend, ticket, &mut Context::from_waker(&waker)).is_pending());
    }
    let woken = || flags.iter().map(|flag| flag.0.load(SeqCst)).collect::<Vec<_>>();
    account.sent(PIECE);
    assert_eq!(woken(), [true, false, false, false, false]);
    // The woken one is cancelled, and so is another waiter.
    drop(tickets.drain(..2));
    account.sent(PIECE);
    assert_eq!(woken(), [true, false, true, true, true]);
}

#[derive(Default)]
struct Flag(AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}
