use super::*;

fn time(second: i64) -> Time {
    Time::new(jiff::Timestamp::from_second(second).unwrap())
}

/// `NUMBER:AFTER` for a start at that second, `NUMBER:AFTERo` for an opening, `NUMBER:BEFORE..AFTER` for a break.
fn list(text: &str) -> Incarnations {
    let entries = text.split_whitespace().map(|entry| {
        let (number, rest) = entry.split_once(':').unwrap();
        let number: u64 = number.parse().unwrap();
        let started = time(number as i64 * 100);
        let opened = rest.ends_with('o');
        let rest = rest.trim_end_matches('o');
        let (after, restored) = match rest.split_once("..") {
            Some((before, after)) => {
                let after = after.parse().unwrap();
                (after, Some(Break { before: before.parse().unwrap(), after }))
            }
            None => (rest.parse().unwrap(), None),
        };
        Incarnation { number, id: incarnation_id(started, number), after, started, restored, opened }
    });
    Incarnations { incarnations: entries.collect() }
}

fn mark(incarnation: u64, revision: u64) -> Mark {
    let incarnation = incarnation_id(time(incarnation as i64 * 100), incarnation);
    Mark { plane: "a".into(), incarnation, revision }
}

#[test]
fn marks_missing_in_the_store_are_detected() {
    for (what, entries, (incarnation, revision), expected) in [
        ("current", "1:0 2:50", (2, 9_999), None),
        ("before the next start", "1:0 2:50", (1, 50), None),
        ("after the next start", "1:0 2:50", (1, 51), Some(Lost::Before(2))),
        ("not in the list", "1:0 2:50", (3, 60), Some(Lost::Unknown)),
        ("older than the list", "5:40 6:50", (3, 30), None),
        ("not in a list that dropped others", "5:40 6:50", (7, 30), Some(Lost::Unknown)),
        ("an empty list", "", (1, 1), None),
        ("in the break", "1:0 2:100..1000 3:1005", (1, 480), Some(Lost::Before(2))),
        ("before the break", "1:0 2:100..1000 3:1005", (1, 100), None),
        ("after the break", "1:0 2:100..1000 3:1005", (3, 1_010), None),
        ("two breaks, of the second", "1:0 2:100..1000 3:1005 4:1200..3000 5:3001", (3, 1_300), Some(Lost::Before(4))),
        ("two breaks, before the second", "1:0 2:100..1000 3:1005 4:1200..3000 5:3001", (3, 1_100), None),
        ("restarted since", "1:0 2:50 3:90", (1, 70), Some(Lost::Before(2))),
        ("an older copy was opened", "1:0o 2:0 3:50o 4:55", (2, 70), Some(Lost::Before(3))),
        ("the same copy was opened", "1:0o 2:0 3:70o 4:75", (2, 70), None),
        ("the process before wrote until it noticed", "1:0o 2:0 3:50", (2, 70), None),
        ("before openings were recorded", "1:0 2:50 3:90o", (1, 70), Some(Lost::Before(2))),
        ("a break after an opening", "1:0o 2:0 3:50..900 4:900o 5:900", (2, 70), Some(Lost::Before(3))),
    ] {
        assert_eq!(list(entries).lost(&mark(incarnation, revision)), expected, "{what}");
    }
}

#[test]
fn accepted_losses_stay_accepted() {
    let accepted = |number: i64| Acceptance {
        number: number as u64,
        id: mark(number as u64, 0).incarnation,
        at: time(number * 100 + 50),
    };
    for (what, entries, (incarnation, revision), by, older) in [
        ("lost, then accepted", "1:0 2:50", (1, 60), 2, false),
        ("lost since", "1:0 2:50 3:80", (2, 90), 2, true),
        ("unknown, before the confirmation", "1:0 3:50", (2, 60), 3, false),
        ("unknown, after the confirmation", "1:0 3:50", (4, 60), 3, true),
        ("the confirmation is lost itself", "1:0 2:50", (1, 60), 4, true),
    ] {
        assert_eq!(list(entries).is_older_than(&mark(incarnation, revision), Some(&accepted(by))), older, "{what}");
    }
}

#[test]
fn lists_are_bounded() {
    let mut list = Incarnations::default();
    for number in 0..1_200 {
        list.begin(format!("{number:08x}-x"), number, time(number as i64));
    }
    assert_eq!((list.incarnations.len(), list.incarnations[0].number), (KEPT, 201));
    let read = Incarnations::read(&list.to_text().unwrap()).unwrap();
    assert_eq!(read.newest().map(|entry| (entry.number, entry.after)), Some((1_200, 1_199)));
    let gap = Break { before: 7, after: 9_000 };
    list.note(&[gap], time(2_000));
    list.note(&[gap], time(3_000));
    let read = Incarnations::read(&list.to_text().unwrap()).unwrap();
    assert_eq!(read.incarnations.last().and_then(|entry| entry.restored), Some(gap));
    assert_eq!(read.last_number(), 1_201, "a break is recorded once");
    assert_eq!(read.newest().map(|entry| entry.number), Some(1_200), "a break is no start");
    list.open("x".into(), 9_007, time(4_000));
    let read = Incarnations::read(&list.to_text().unwrap()).unwrap();
    assert_eq!(read.newest().map(|entry| (entry.number, entry.opened)), Some((1_202, true)));
    let ended = (0..200).fold(Vec::new(), |ended, n| Marker::with_ended(ended, [n.to_string()]));
    assert_eq!((ended.len(), ended[0].as_str(), ended[ENDED - 1].as_str()), (ENDED, "72", "199"));
}

#[test]
fn marks_are_short_texts() {
    let mark = mark(3, 1_234);
    assert_eq!(mark.to_string(), "a/0000012c-000003/1234");
    assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
    for text in ["", "a/b", "a//1", "a/b/x", "a/b/1/2"] {
        assert!(text.parse::<Mark>().is_err(), "{text}");
    }
    let marker = Marker { mark, accepted: None, ended: Vec::new() };
    let text = serde_json::to_string(&marker).unwrap();
    assert_eq!(text, r#"{"mark":"a/0000012c-000003/1234"}"#);
    assert_eq!(serde_json::from_str::<Marker>(&text).unwrap(), marker);
}

#[test]
fn works_act_hold_or_wait() {
    let there = |is_ahead, is_own| Found::Present { is_ahead, is_own };
    for (is_held, is_new, found, expected) in [
        (false, false, Found::Absent, Decision::Act),
        (false, false, there(false, true), Decision::Act),
        (false, false, there(false, false), Decision::Act),
        (false, false, there(true, true), Decision::Hold),
        (false, true, there(true, false), Decision::Hold),
        (true, false, Found::Absent, Decision::Wait),
        (true, false, there(false, true), Decision::Wait),
        (true, true, Found::Absent, Decision::Act),
        (true, true, there(false, true), Decision::Act),
        (true, true, there(false, false), Decision::Wait),
        (true, true, there(true, true), Decision::Wait),
    ] {
        assert_eq!(decide(is_held, is_new, found), expected, "{is_held} {is_new} {found:?}");
    }
}

#[test]
fn objects_belong_to_their_work() {
    for (object, work, expected) in [
        (None, "w", true),
        (Some(""), "w", true),
        (Some("w"), "w", true),
        (Some("v"), "w", false),
        (Some("v"), "", true),
    ] {
        assert_eq!(is_of_work(object, work), expected, "{object:?} {work:?}");
    }
}

#[test]
fn only_this_hold_is_confirmed() {
    let since = time(1_700_000_000);
    let evidence =
        Evidence { mark: "a/b/9".into(), carrier: "Deployment ns/a".into(), revision: 7, at: since, works: 3 };
    let mut cluster: Cluster = serde_json::from_value(serde_json::json!({"metadata": {"name": "m1"}})).unwrap();
    assert_eq!(pending_since(&cluster), None);
    cluster.status.conditions = vec![pending("m1", &evidence, since)];
    assert_eq!(pending_since(&cluster), Some(since));
    for (text, expected) in [
        (None, false),
        (Some("2023-11-14T22:13:20Z"), true),
        (Some("2023-11-14T23:13:20+01:00"), true),
        (Some("2023-11-14T22:13:19Z"), false),
        (Some("yes"), false),
    ] {
        cluster.metadata.annotations =
            text.map(|text| (annotations::RESUME_CONFIRMED.to_owned(), text.to_owned())).into_iter().collect();
        assert_eq!(is_confirmed(&cluster, since), expected, "{text:?}");
    }
    assert!(cluster.status.conditions[0].message.ends_with("run \"karmadactl resume m1\""));
    cluster.status.conditions = vec![resumed(since)];
    assert_eq!(pending_since(&cluster), None);
    for (now, newest, ended, expected) in [(5, None, None, 5), (5, Some(9), Some(3), 9), (5, Some(2), Some(5), 6)] {
        assert_eq!(begins(time(now), newest.map(time), ended.map(time)), time(expected));
    }
    assert!(is_newer(Some(time(2)), time(1)) && !is_newer(Some(time(1)), time(1)) && !is_newer(None, time(1)));
}
