use futures::FutureExt as _;

use super::*;

fn wire(connection: usize, user: usize, server: usize) -> Wire {
    Wire::alone(Budgets::new(Bytes { connection, user, server }, &Registry::default()))
}

#[tokio::test(start_paused = true)]
async fn a_full_account_delays_its_user_and_a_full_server_refuses_all() {
    let wire = wire(100, 100, 150);
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
    bob.hold(51);
    for user in ["ann", "bob", "eve"] {
        assert_eq!(wire.admit(user, PATIENCE).await.expect_err("the server is full").code, 429);
    }
    bob.release(51);
    ann.release(99);
    assert_eq!(wire.budgets().in_flight(), 0);
}

#[test]
fn waiters_are_woken_in_order_and_all_when_nothing_is_left() {
    let account = Account::new(2 * PIECE);
    account.send(2 * PIECE);
    let flags: Vec<_> = (0..5).map(|_| Arc::new(Flag::default())).collect();
    let mut tickets: Vec<Option<Ticket>> = (0..5).map(|_| None).collect();
    for (flag, ticket) in flags.iter().zip(&mut tickets) {
        let waker = Waker::from(Arc::clone(flag));
        assert!(account.poll(Room::ToSend, ticket, &mut Context::from_waker(&waker)).is_pending());
    }
    let woken = || flags.iter().map(|flag| flag.0.load(SeqCst)).collect::<Vec<_>>();
    account.sent(PIECE);
    assert_eq!(woken(), [true, false, false, false, false]);
    // The one that was woken is gone, and so is another that waits.
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
