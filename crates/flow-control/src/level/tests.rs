use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

const MS: Nanos = 1_000_000;

/// A level that is played with scripts, with requests named by letters: the letter is the flow.
struct Play {
    level: Level<(char, u32)>,
    now: Nanos,
    running: Vec<((char, u32), Running)>,
    tickets: BTreeMap<(char, u32), Ticket>,
    counts: BTreeMap<char, u32>,
    out: String,
}

impl Play {
    fn new(queuing: Option<Queuing>, limit: u32) -> Self {
        Self {
            level: Level::new(queuing, limit),
            now: 0,
            running: Vec::new(),
            tickets: BTreeMap::new(),
            counts: BTreeMap::new(),
            out: String::new(),
        }
    }

    fn arrive(&mut self, flow: char, work: Work) {
        let count = self.counts.entry(flow).or_default();
        *count += 1;
        let name = (flow, *count);
        let mut granted = Granted::new();
        let arrival = self.level.arrive(self.now, u64::from(u32::from(flow)), work, |_| name, &mut granted);
        match arrival {
            Arrival::Started(running) => self.started(name, running),
            Arrival::Waits(ticket) => {
                self.tickets.insert(name, ticket);
            }
            Arrival::Refused(refusal) => write!(self.out, "{flow}{}:{} ", name.1, refusal.name()).expect("a string"),
        }
        self.take(granted);
    }

    fn started(&mut self, name: (char, u32), running: Running) {
        write!(self.out, "{}{} ", name.0, name.1).expect("a string");
        self.tickets.remove(&name);
        self.running.push((name, running));
    }

    fn take(&mut self, granted: Granted<(char, u32)>) {
        for (name, running) in granted {
            self.started(name, running);
        }
    }

    /// `a3`: three requests of flow `a`; `aw5`: one of five seats; `ak2`: one that occupies two seats for 10 ms more;
    /// `+7`: 7 ms pass; `!`: the oldest request ends; `-a2`: the second one of `a` no longer waits; `=4`: so many
    /// seats; `t`: a tick.
    fn play(mut self, script: &str) -> String {
        for word in script.split_whitespace() {
            let mut granted = Granted::new();
            let number = |text: &str| text.parse::<u32>().expect("a number");
            let (first, rest) = word.split_at(1);
            let flow = first.chars().next().expect("a letter");
            match first {
                "+" => self.now += u64::from(number(rest)) * MS,
                "!" => {
                    let (_, running) = self.running.remove(0);
                    self.level.finish(self.now, running, &mut granted);
                }
                "-" => {
                    let name = (rest.chars().next().expect("a letter"), number(&rest[1..]));
                    let ticket = self.tickets.remove(&name).expect("it waits");
                    assert_eq!(self.level.cancel(self.now, ticket, &mut granted), Some(name));
                }
                "=" => self.level.configure(self.now, self.level.queuing, number(rest), &mut granted),
                "t" => self.level.tick(self.now, &mut granted),
                _ => match rest.split_at(1) {
                    ("w", seats) => self.arrive(flow, Work { seats: number(seats), ..Work::ONE }),
                    ("k", seats) => {
                        self.arrive(flow, Work { seats: 1, final_seats: number(seats), extra: 10 * MS });
                    }
                    _ => (0..number(rest)).for_each(|_| self.arrive(flow, Work::ONE)),
                },
            }
            self.take(granted);
        }
        self.out.trim_end().to_owned()
    }
}

/// Each of the first letters has a separate queue.
fn queues(length: u32) -> Option<Queuing> {
    Some(Queuing { queues: 128, hand_size: 1, queue_length_limit: length })
}

#[test]
fn scripts() {
    for (case, queuing, limit, script, expected) in [
        ("free seats", queues(9), 3, "a2 b1", "a1 a2 b1"),
        ("flows alternate, whoever came first", queues(9), 1, "a4 b2 +3 ! +3 ! +3 ! +3 ! +3 !", "a1 b1 a2 b2 a3 a4"),
        ("a long request counts for more", queues(9), 1, "a3 b3 +9 ! +1 ! +1 ! +1 !", "a1 b1 b2 b3 a2"),
        ("a full queue refuses", queues(2), 1, "a4 b1", "a1 a4:queue-full"),
        ("without queues", None, 2, "a3 ! a1", "a1 a2 a3:concurrency-limit a4"),
        ("a wide request waits until its seats are free", queues(9), 3, "a2 +1 bw2 +1 c2 ! ! ! !", "a1 a2 b1 c1 c2"),
        ("one wider than the level runs alone", queues(9), 2, "aw5 b1 ! !", "a1 b1"),
        ("a level without seats serves one at a time", queues(9), 0, "a2 !", "a1 a2"),
        ("a write keeps seats", queues(9), 2, "ak2 ! b1 +9 t +1 t", "a1 b1"),
        ("kept seats are free again without a tick", queues(9), 2, "ak2 ! +10 b1", "a1 b1"),
        ("who no longer waits leaves no trace", queues(9), 1, "a1 b2 -b1 !", "a1 b2"),
        ("a wide request that leaves lets others in", queues(9), 3, "a2 +1 bw2 c1 -b1", "a1 a2 c1"),
        ("a flow without seats finds spare ones", queues(9), 4, "a6 b2 c1", "a1 a2 a3 a4 b1"),
        ("spare seats are free again", queues(9), 4, "a5 b1 ! ! ! ! ! b4 c1", "a1 a2 a3 a4 b1 a5 b2 b3 b4 c1"),
        ("spare seats are kept by a write", queues(9), 8, "a9 bk2 c1", "a1 a2 a3 a4 a5 a6 a7 a8 b1"),
        ("a wide request takes spare seats", queues(9), 8, "a9 bw2 c1", "a1 a2 a3 a4 a5 a6 a7 a8 b1"),
        ("spare seats do not starve a wide request", queues(9), 4, "a4 cw3 b1 ! ! d1 ! ! e1", "a1 a2 a3 a4 b1 c1 d1"),
        ("more seats", queues(9), 1, "a4 =3", "a1 a2 a3"),
        ("fewer seats", queues(9), 3, "a3 =1 b1 ! ! !", "a1 a2 a3 b1"),
        (
            "idle time is neither saved nor owed",
            queues(9),
            1,
            "a1 +900 ! a3 b3 +3 ! +3 ! +3 ! +3 ! +3 !",
            "a1 a2 b1 a3 b2 a4 b3",
        ),
    ] {
        assert_eq!(Play::new(queuing, limit).play(script), expected, "{case}");
    }
}

#[test]
fn a_flow_chooses_the_shortest_queue_of_its_hand() {
    let queuing = Queuing { queues: 8, hand_size: 4, queue_length_limit: 2 };
    let mut level = Level::new(Some(queuing), 1);
    let mut granted = Granted::new();
    let mut outcome = BTreeMap::<&str, usize>::new();
    for _ in 0..20 {
        let word = match level.arrive(0, 12345, Work::ONE, |ticket| ticket, &mut granted) {
            Arrival::Started(_) => "started",
            Arrival::Waits(_) => "waits",
            Arrival::Refused(refusal) => refusal.name(),
        };
        *outcome.entry(word).or_default() += 1;
    }
    assert_eq!(outcome, BTreeMap::from([("queue-full", 11), ("started", 1), ("waits", 8)]));
    let waiting: Vec<u32> = level.queues().iter().map(|queue| queue.waiting).collect();
    assert_eq!(waiting, [2; 4]);
    assert_eq!(level.waiting().len(), 8);
    // Another flow has another hand, and is not refused.
    assert!(matches!(level.arrive(0, 99, Work::ONE, |ticket| ticket, &mut granted), Arrival::Waits(_)));
}

#[test]
fn demand_counts_running_and_queued_requests() {
    let mut play = Play::new(queues(9), 1);
    play.arrive('a', Work::ONE);
    play.arrive('b', Work { seats: 3, ..Work::ONE });
    let observed = play.level.take_demand(1000 * MS);
    assert_eq!((observed.average, observed.peak), (4.0, 4));
}

/// The next step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Arrive { flow: u64, seats: u32, kept: u32 },
    Finish(usize),
    Cancel(usize),
    Pass(u64),
    Limit(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u64..6, 1u32..4, 0u32..3).prop_map(|(flow, seats, kept)| Step::Arrive { flow, seats, kept }),
        5 => any::<prop::sample::Index>().prop_map(|index| Step::Finish(index.index(1 << 20))),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::Cancel(index.index(1 << 20))),
        3 => (0u64..20).prop_map(Step::Pass),
        1 => (0u32..8).prop_map(Step::Limit),
    ];
    proptest::collection::vec(step, 0..200)
}

/// A level with its invariants.
struct Model {
    level: Level<u64>,
    now: Nanos,
    running: Vec<(u64, Running)>,
    waiting: Vec<(u64, Ticket)>,
    /// Occupied seats, until when.
    kept: Vec<(Nanos, u32)>,
    arrived: u64,
    refused: u64,
    ended: u64,
    /// The largest limit so far: spare seats that were taken stay taken when it shrinks.
    most: u32,
}

impl Model {
    fn step(&mut self, step: &Step) {
        self.most = self.most.max(self.level.limit);
        let mut granted = Granted::new();
        match step {
            Step::Arrive { flow, seats, kept } => {
                self.arrived += 1;
                let number = self.arrived;
                let work = Work { seats: *seats, final_seats: *kept, extra: u64::from(*kept) * MS };
                match self.level.arrive(self.now, *flow, work, |_| number, &mut granted) {
                    Arrival::Started(running) => self.running.push((number, running)),
                    Arrival::Waits(ticket) => self.waiting.push((number, ticket)),
                    Arrival::Refused(_) => self.refused += 1,
                }
            }
            Step::Finish(index) if !self.running.is_empty() => {
                let (_, running) = self.running.remove(index % self.running.len());
                if running.work.final_seats > 0 {
                    self.kept.push((self.now + running.work.extra, running.work.final_seats));
                }
                self.level.finish(self.now, running, &mut granted);
                self.ended += 1;
            }
            Step::Cancel(index) if !self.waiting.is_empty() => {
                let (number, ticket) = self.waiting.remove(index % self.waiting.len());
                match self.level.cancel(self.now, ticket, &mut granted) {
                    Some(found) => {
                        assert_eq!(found, number);
                        self.ended += 1;
                    }
                    None => self.waiting.push((number, ticket)),
                }
            }
            Step::Pass(time) => {
                self.now += time * MS;
                self.level.tick(self.now, &mut granted);
            }
            Step::Limit(limit) => self.level.configure(self.now, self.level.queuing, *limit, &mut granted),
            Step::Finish(_) | Step::Cancel(_) => {}
        }
        for (number, running) in granted {
            let place = self.waiting.iter().position(|(waiting, _)| *waiting == number);
            self.waiting.remove(place.expect("only what waits is granted"));
            let counts = self.level.counts();
            let spare = counts.limit.max(self.most) / SEATS_PER_SPARE;
            assert!(counts.held <= counts.limit.max(running.seats()) + spare, "{counts:?}");
            self.running.push((number, running));
        }
        self.check();
    }

    fn check(&mut self) {
        let now = self.now;
        self.kept.retain(|(until, _)| *until > now);
        let counts = self.level.counts();
        let running: u32 = self.running.iter().map(|(_, running)| running.seats()).sum();
        let kept: u32 = self.kept.iter().map(|(_, seats)| *seats).sum();
        assert_eq!(counts.held, running + kept, "every seat is held by a request or kept");
        assert_eq!(counts.running as usize, self.running.len());
        assert_eq!(counts.waiting as usize, self.waiting.len());
        let queues = self.level.queues();
        assert_eq!(queues.iter().map(|queue| queue.waiting).sum::<u32>(), counts.waiting);
        assert_eq!(queues.iter().map(|queue| queue.held).sum::<u32>(), counts.held);
        assert_eq!(queues.iter().map(|queue| queue.waiting_widths).sum::<u32>(), counts.waiting_seats);
        assert_eq!(self.level.next.len(), queues.iter().filter(|queue| queue.waiting > 0).count());
        assert_eq!(self.arrived, self.refused + self.ended + (self.running.len() + self.waiting.len()) as u64);
        assert!(counts.waiting == 0 || counts.held > 0, "nothing waits for an idle level");
    }
}

proptest! {
    #[test]
    fn no_history_loses_a_seat_or_a_request(steps in steps(), limit in 0u32..8, length in 0u32..4) {
        let queuing = (length > 0).then_some(Queuing { queues: 5, hand_size: 2, queue_length_limit: length });
        let mut model = Model {
            level: Level::new(queuing, limit), now: 0, running: Vec::new(), waiting: Vec::new(), kept: Vec::new(),
            arrived: 0, refused: 0, ended: 0, most: 0,
        };
        steps.iter().for_each(|step| model.step(step));
        // No starvation: once running requests end, all waiting ones are served.
        while !model.waiting.is_empty() {
            let before = model.waiting.len() + model.running.len();
            if model.running.is_empty() {
                model.step(&Step::Pass(10));
            } else {
                model.step(&Step::Finish(0));
            }
            prop_assert!(model.waiting.len() + model.running.len() < before || model.running.is_empty() || model.now > 0);
        }
        while !model.running.is_empty() {
            model.step(&Step::Finish(0));
        }
        model.step(&Step::Pass(1000));
        prop_assert_eq!(Counts { limit: 0, ..model.level.counts() }, Counts::default(), "nothing is left");
    }

    /// Flows that always have requests waiting receive the same service, whatever their requests cost and however many
    /// they send.
    #[test]
    fn busy_flows_share_the_seats(costs in proptest::collection::vec((1u64..40, 1u32..4), 2..5), limit in 3u32..7) {
        let queuing = Queuing { queues: 64, hand_size: 1, queue_length_limit: 50 };
        let mut level = Level::new(Some(queuing), limit);
        let mut ends: Vec<(Nanos, usize, Running)> = Vec::new();
        let mut received = vec![0u64; costs.len()];
        let mut now = 0;
        let end = 20_000 * MS;
        while now < end {
            let mut granted = Granted::new();
            // Flow n sends n + 1 requests for each that another one sends.
            for (flow, (_, seats)) in costs.iter().enumerate() {
                for _ in 0..=flow {
                    let work = Work { seats: *seats, ..Work::ONE };
                    if let Arrival::Started(running) = level.arrive(now, flow as u64, work, |_| flow, &mut granted) {
                        ends.push((now + costs[flow].0 * MS, flow, running));
                    }
                }
            }
            for (flow, running) in granted {
                ends.push((now + costs[flow].0 * MS, flow, running));
            }
            ends.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
            let Some((at, flow, running)) = ends.pop() else { break };
            now = at;
            received[flow] += costs[flow].0 * u64::from(running.seats());
            let mut granted = Granted::new();
            level.finish(now, running, &mut granted);
            for (flow, running) in granted {
                ends.push((now + costs[flow].0 * MS, flow, running));
            }
        }
        let (least, most) = (received.iter().min().expect("flows"), received.iter().max().expect("flows"));
        // Requests in progress may account for a small difference.
        prop_assert!(most - least <= 2_000 + most / 10, "{costs:?} {limit}: {received:?}");
    }
}
