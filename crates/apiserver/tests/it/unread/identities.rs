//! Many identities that do not read, beside one that does.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use futures::StreamExt as _;

use super::*;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
/// A sixteenth of the real bounds.
const BUDGET: Bytes = Bytes { connection: 4 << 20, user: 4 << 20, server: 16 << 20 };
const PIECE: usize = 64 << 10;

/// Opens lists on a connection and reads none of them, again and again.
async fn hoard(rig: Arc<Rig>, user: String, (lists, pause): (usize, Duration), goes_on: Arc<AtomicBool>) {
    let mut n = 0;
    while goes_on.load(Relaxed) {
        let sender = rig.http2(0).await;
        let mut open = Vec::new();
        for _ in 0..lists {
            n += 1;
            let path = format!("{LIST}?labelSelector=n!={user}-{n}");
            let mut sender = sender.clone();
            let answer = async {
                sender.ready().await.ok()?;
                sender.send_request(request(&path, &[("user", &user)])).await.ok()
            };
            match tokio::time::timeout(Duration::from_secs(1), answer).await {
                Ok(Some(response)) if response.status() == 200 => open.push(response),
                _ => break,
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Returns the longest request of a user who reads, and the most bytes in flight.
async fn beside(identities: usize, load: (usize, Duration), rounds: usize) -> (Duration, usize, Arc<Rig>) {
    let rig = Arc::new(Rig::new(BUDGET).await);
    rig.fill(100, 2000).await;
    let reader = rig.http2(64 << 10).await;
    let watch = send(&reader, &format!("{LIST}?watch=1"), &[("user", "reader")]).await;
    let watch = tokio::spawn(async move {
        let mut frames = watch.into_body().into_data_stream();
        let mut lines = Vec::new();
        while lines.windows(4).filter(|four| four == b"last").count() == 0 {
            lines.extend_from_slice(&frames.next().await.expect("it goes on").expect("it is not ended"));
        }
    });
    let goes_on = Arc::new(AtomicBool::new(true));
    let hoards: Vec<_> = (0..identities)
        .map(|n| tokio::spawn(hoard(Arc::clone(&rig), format!("hoarder-{n}"), load, Arc::clone(&goes_on))))
        .collect();
    let (mut longest, mut most) = (Duration::ZERO, 0);
    for _ in 0..rounds {
        for path in [format!("{LIST}/c000001"), LIST.to_owned(), format!("{LIST}?labelSelector=n!=1")] {
            let begun = Instant::now();
            let response = send(&reader, &path, &[("user", "reader")]).await;
            assert_eq!(response.status(), 200, "{path} beside {identities}");
            response.into_body().collect().await.expect("it is not ended");
            longest = longest.max(begun.elapsed());
            most = most.max(rig.in_flight());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    goes_on.store(false, Relaxed);
    for hoard in hoards {
        hoard.await.expect("no panic");
    }
    rig.fill_last().await;
    watch.await.expect("the watch goes on");
    (longest, most, rig)
}

impl Rig {
    async fn fill_last(&self) {
        let object = config_map(1_000_000, "last");
        self.client.create(&crate::objects::config_maps(), &object).await.expect("a config map");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dozen_identities_that_read_nothing_leave_room_for_one_that_reads() {
    let (longest, most, rig) = beside(12, (40, Duration::from_millis(500)), 40).await;
    assert!(most > BUDGET.server / 2, "they fill what they may: {most} bytes");
    assert!(most <= BUDGET.server, "{most} bytes in flight");
    assert!(longest <= Duration::from_secs(1), "{longest:?}");
    assert!(rig.cut("stream") > 100, "{} were ended", rig.cut("stream"));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_identities_that_read_nothing_leave_room_for_one_that_reads() {
    // Four seconds: each of them opens its lists twice.
    let (longest, most, rig) = beside(1000, (4, Duration::from_secs(3)), 18).await;
    assert!(most > BUDGET.server / 2, "they fill what they may: {most} bytes");
    assert!(most <= BUDGET.server + 4 * PIECE, "{most} bytes in flight");
    assert!(longest <= Duration::from_secs(2), "{longest:?}");
    assert!(rig.cut("stream") > 1000, "{} were ended", rig.cut("stream"));
}
