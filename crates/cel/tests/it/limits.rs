//! No expression and no document makes an evaluation long, large or deep.

use std::time::Duration;

use cel::budget::{EXPRESSION_LIMIT, EvalError, Meter};
use cel::types::{ANY, Identity, Kind};
use cel::{Env, Type, Value};
use serde_json::json;

use crate::printing::{leaf, list};

/// Generous, because debug builds and loaded machines are slow: an unbounded evaluation takes minutes.
const SOON: Duration = Duration::from_secs(20);

fn eval(source: &str, document: &serde_json::Value) -> (Result<String, EvalError>, u64) {
    let env = Env::new().with("self", Type::Dyn);
    let program = env.compile(source).unwrap_or_else(|issues| panic!("{source}: {issues}"));
    let this = Value::from_json(document, &ANY).expect("any document");
    let mut meter = Meter::new(EXPRESSION_LIMIT);
    let value = program.eval(&[Some(this)], &mut meter).map(|value| crate::printing::print(&value));
    (value, meter.cost())
}

/// Runs on a thread with the stack size of a runtime's worker, and stops waiting after [`SOON`].
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(move || sender.send(work())).expect("a thread");
    receiver.recv_timeout(SOON).expect("ends soon")
}

#[test]
fn expensive_expressions_are_aborted() {
    let numbers: Vec<i64> = (0..100_000).collect();
    // The same numbers, written differently.
    let floats: Vec<f64> = (0..100_000).map(f64::from).collect();
    let map: serde_json::Map<_, _> = (0..50_000).map(|number| (format!("k{number}"), json!(number))).collect();
    let mut other = map.clone();
    other.insert("k0".into(), json!("another"));
    let document = json!({
        "l": numbers, "f": floats, "m": map, "n": other, "o": vec![json!({}); 50_000], "s": "a".repeat(1_000_000),
        "digits": "1".repeat(1_000_000), "dots": "1.".repeat(300_000) + "1", "t": vec!["x".repeat(1000); 200],
    });
    for source in [
        "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
        "self.l.map(a, self.l.map(b, b)).size() > 0",
        "self.l.map(a, self.l + self.l).size() > 0",
        "self.l.map(a, self.s + self.s).size() > 0",
        "self.l.all(a, self.s.matches('(a*)*b|' + string(a)) || true)",
        "self.l.map(a, self.s.replace('a', self.s)).size() > 0",
        "self.l.map(a, self.s.split('')).size() > 0",
        "self.s.replace('', self.s).size() > 0",
        "self.l.all(a, size(self.s) > 0)",
        "self.l.all(a, self.s == self.s)",
        "self.l.all(a, self.l == self.l)",
        "self.l.all(a, self.l == self.f)",
        "self.l.all(a, self.o == self.o)",
        "self.l.all(a, self.m == self.m)",
        "self.l.all(a, self.m != self.n)",
        "self.l.all(a, self.l in [self.l])",
        "self.l.all(a, int(self.s) == 0 || true)",
        "self.l.all(a, double(self.digits) > 0.0)",
        "self.l.all(a, duration(self.s) > duration('1s') || true)",
        "self.l.all(a, timestamp(self.s) == timestamp(self.s) || true)",
        "self.l.all(a, self.m[self.s] == 0 || true)",
        "self.l.all(a, self.s in self.m || true)",
        "self.l.all(a, self.l[self.s] == 0 || true)",
        "cel.bind(u, url('https://a/' + self.digits), self.l.all(a, u.getEscapedPath() != ''))",
        "cel.bind(u, url('https://a/?' + self.digits), self.l.all(a, u.getQuery().size() > 0))",
        "cel.bind(v, semver('1.0.0-' + self.dots), self.l.all(a, v.compareTo(v) == 0))",
        "self.l.all(a, self.s.matches('(a?){1000}b') || true)",
        "self.l.all(a, 'a'.matches('[[:^alpha:]]{' + string(a % 1000) + '}') || true)",
        "self.l.all(a, self.l.sort().size() > 0)",
        "self.l.all(a, self.l.isSorted())",
        "self.l.all(a, self.l.map(b, string(b)).join(',') != '')",
        "self.l.all(a, self.l.flatten().size() > 0)",
        "self.l.all(a, self.s.indexOf('b') < 0)",
        "self.l.all(a, self.m.exists(k, true))",
        "sets.contains(self.l, self.l)",
        "self.l.distinct().size() > 0",
        "lists.range(1000000000000).size() > 0",
        "self.l.all(a, '%s'.format([self.l]) != '')",
        "self.l.all(a, 'a'.matches('((a{100}){100}){' + string(a) + '}') || true)",
        "cel.bind(a, self.l + self.l, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, cel.bind(e, d + d, e + e))))).size() > 0",
    ] {
        let (source, document) = (source.to_owned(), document.clone());
        let shown = source.clone();
        let (outcome, cost) = soon(move || eval(&source, &document));
        assert_eq!(outcome, Err(EvalError::CostExceeded), "{shown} at {cost}");
    }
}

#[test]
fn costs_are_of_the_order_of_upstreams() {
    let document = json!({"l": [1, 2, 3], "s": "a".repeat(100)});
    for (source, least, most) in [
        ("1 + 1 == 2", 2, 2),
        ("self.l.size() == 3", 3, 4),
        ("self.l.all(a, a > 0)", 10, 20),
        ("self.s.contains('b')", 12, 14),
        ("self.s.matches('^a+$')", 12, 16),
        ("[1, 2].size() == 2", 2, 2),
        ("[self.l.size(), 2].size() == 2", 14, 16),
        ("{'a': 1}.size() == 1", 2, 2),
        ("{'a': self.s}.size() == 1", 33, 35),
        ("2 in self.l", 5, 6),
        // Constants are planned: literals, conversions and membership in lists of them are free.
        ("self.s in ['a', 'b', 'c']", 2, 2),
        ("self.l[0] in [dyn(1), self.l[1]]", 17, 19),
        ("duration('1h') == duration('2h')", 1, 1),
        ("has(self.s)", 1, 1),
        ("optional.of(self.l).orValue([1, 2].map(x, x))", 3, 3),
    ] {
        let (_, cost) = eval(source, &document);
        assert!((least..=most).contains(&cost), "{source} costs {cost}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let env = Env::new().with("self", Type::Dyn);
    for source in [
        format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000)),
        "1".to_owned() + &" + 1".repeat(5_000),
        "self".to_owned() + &".a".repeat(5_000),
        "self".to_owned() + &"[0]".repeat(5_000),
        "true ? 1 : ".repeat(5_000),
        "!(".repeat(5_000),
        "a".repeat(200_000),
    ] {
        let start = source[..20].to_owned();
        let env = env.clone();
        let text = soon(move || env.compile(&source).expect_err("too much").to_string());
        assert!(text.contains("exceeded") || text.contains("exceeds"), "{start}: {text}");
    }
    // The deepest accepted expressions fit a worker's stack, in debug builds too.
    let deep = "1".to_owned() + &" + 1".repeat(240) + " == 241";
    assert_eq!(soon(move || eval(&deep, &json!({}))).0, Ok("true".to_owned()));
    let nested = format!("{}1{}.size() == 1", "[".repeat(120), "]".repeat(120));
    assert_eq!(soon(move || eval(&nested, &json!({}))).0, Ok("true".to_owned()));
    let chain = "true".to_owned() + &" && true".repeat(5_000);
    assert_eq!(soon(move || eval(&chain, &json!({}))).0, Ok("true".to_owned()));
}

#[test]
fn large_sets_are_compared_within_the_budget() {
    let items: Vec<String> = (0..20_000).map(|number| format!("item-{number}")).collect();
    let shape = list(leaf(Kind::String), Identity::Set);
    let env = Env::new().with_document("self", &shape, false);
    let program = env.compile("self + self == self").expect("well typed");
    let document = json!(items);
    let this = Value::from_json(&document, &shape).expect("of its shape");
    let outcome = program.eval(&[Some(this)], &mut Meter::new(EXPRESSION_LIMIT)).map(|_| ());
    assert_eq!(outcome, Err(EvalError::CostExceeded));
}

#[test]
fn checking_stays_linear() {
    let long = "1 == 1".to_owned() + &" && [1] == [1]".repeat(5_000);
    assert_eq!(soon(move || eval(&long, &json!({}))).0, Ok("true".to_owned()));
    // Each level would double the type of a map if it were kept as written.
    let mut doubling = "dyn(v99) != null".to_owned();
    for level in (1..100).rev() {
        doubling = format!("cel.bind(v{level}, {{v{0}: v{0}}}, {doubling})", level - 1);
    }
    let doubling = format!("cel.bind(v0, {{1: 1}}, {doubling})");
    assert!(soon(move || eval(&doubling, &json!({}))).0.is_err(), "a map is no key");
}
