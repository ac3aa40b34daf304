use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn engine() -> Engine {
    Engine::new(Arc::new(|| Timestamp::UNIX_EPOCH), Budget::default())
}

/// The value of an expression, in a function that receives one object.
fn eval(expression: &str) -> Result<Value, String> {
    let source = format!("function F(o)\n {expression}\nend");
    let engine = engine();
    let script = engine.compile(&source).map_err(|e| e.to_string())?;
    let call =
        Call { function: "F", arguments: &[&json!({"a": {"b": [1, 2]}})], shape: Shape::Object, references: &[] };
    let mut values = engine.call(&script, &call).map_err(|e| e.to_string())?;
    Ok(match values.len() {
        0 => Value::Null,
        1 => values.remove(0),
        _ => Value::Array(values),
    })
}

#[test]
fn the_language_and_its_libraries() {
    for (source, expected) in [
        ("return o.a.b[2] + 0.5", json!(2.5)),
        ("return 7 / 2 * 2", json!(7)),
        ("return #o.a.b, o.x == nil", json!([2, true])),
        ("return ('AbC'):lower() .. string.upper('x')", json!("abcX")),
        ("return ('aöß\\255'):upper() .. ('AÖẞİ'):lower()", json!("AÖß\u{fffd}aößi")),
        ("return string.find('key=value', '(%w+)=(%w+)')", json!([1, 9, "key", "value"])),
        ("return string.find('a.b', '.', 1, true)", json!([2, 2])),
        ("return string.match('v1.27.3', '^v(%d+)%.(%d+)')", json!(["1", "27"])),
        ("return string.match('hello', '()ll()')", json!([3, 5])),
        ("return string.match('THE (quick) fox', '%((%a+)%)')", json!("quick")),
        ("return string.match('f(a(b)c)d', '%b()')", json!("(a(b)c)")),
        ("return string.match('THE quick', '%f[%l]%l+')", json!("quick")),
        ("return string.match('aa', '(a)%1')", json!("a")),
        ("return string.match('x', 'a?b*x-$')", json!("x")),
        ("return string.match('[]', '[]]')", json!("]")),
        ("local t = {} for w in string.gmatch('one two', '%a+') do t[#t+1] = w end return t", json!(["one", "two"])),
        ("local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n", json!(4)),
        ("return string.sub('hello', -3, -2), string.sub('hello', 2), string.sub('x', 5)", json!(["ll", "ello", ""])),
        (
            "return string.byte('A'), string.char(72, 105), string.reverse('abc'), string.len('\\0x')",
            json!([65, "Hi", "cba", 2]),
        ),
        ("return string.format('%d %5.2f %s %%', 3.0, 1.239, 'x')", json!("3  1.24 x %")),
        ("return string.format('%05d|%-4s|%+d|%x', 42, 'ab', 7, 255)", json!("00042|ab  |+7|ff")),
        ("local t = {3,1,2} table.sort(t) return table.concat(t, ',')", json!("1,2,3")),
        ("local t = {1,2} table.insert(t, 1, 0) table.insert(t, 9) table.remove(t, 2) return t", json!([0, 2, 9])),
        ("return math.floor(2.7), math.max(1, 5), math.huge > 1", json!([2, 5, true])),
        ("return select('#', 1, 2), tonumber('0x10'), tostring(12), type(nil)", json!([2, 16, "12", "nil"])),
        ("return pcall(error, 'no', 0)", json!([false, "no"])),
        ("local ok, e = xpcall(function() error('x', 0) end, function(e) return e .. '!' end) return e", json!("x!")),
        (
            "return os.time(), os.date('!%Y-%m-%d %H:%M', 86400), os.date('*t', 0).year",
            json!([0, "1970-01-02 00:00", 1970]),
        ),
        ("return os.time{year=1970, month=1, day=2, hour=0}", json!(86400)),
        ("return select('#', pcall(function() return unpack({}, 5, 100) end)), unpack({1, 2})", json!([97, 1, 2])),
        ("return tostring({})", json!("table")),
        ("return math.random(10) == math.random(10), require('string').upper('a')", json!([false, "A"])),
        ("return _VERSION, _G == _G._G, io, debug, coroutine", json!(["Lua 5.1", true, null, null, null])),
        ("return 2^53 + 1 == 2^53, 0.1 + 0.2", json!([true, 0.1 + 0.2])),
        (
            "return assert(1), next({7}), tonumber('x'), tonumber(' 12 '), type(print)",
            json!([1, 1, null, 12, "function"]),
        ),
        ("return pcall(string.upper, nil) == false, select(-1, 1, 2), print('x')", json!([true, 2])),
        ("local n = 0 for w in string.gfind('a b c', '%a') do n = n + 1 end return n", json!(3)),
        (
            "package.preload.mine = function(name) seen = (seen or 0) + 1 return {name = name} end \
             return require('mine').name, require('mine') == require('mine'), seen, package.loaded.mine.name",
            json!(["mine", true, 1, "mine"]),
        ),
        ("package.preload.none = function() end return require('none')", json!(true)),
        (
            "return os.date('!%a %A %b %B %d %F %H %I %m %M %p %P %S %X %y %Y %z %Z %w', 3661)",
            json!("Thu Thursday Jan January 01 1970-01-01 01 01 01 01 AM am 01 01:01:01 70 1970 +0000 UTC 4"),
        ),
        ("return os.clock, os.execute, os.getenv, os.exit", json!([null, null, null, null])),
        // Arguments with which Lua's own library exhausts its memory, or takes hours.
        (
            "return pcall(unpack, {}, -2^31, 2^31 - 1), pcall(unpack, {}, 0/0, 2^31 - 1), pcall(unpack, {}, -1e300, 5)",
            json!([false, false, false, "too many results to unpack"]),
        ),
        (
            "return select('#', unpack({}, 1e300, 5)), select('#', unpack({}, 2, 1)), select('#', unpack({}, -1, 1))",
            json!([0, 0, 3]),
        ),
        ("local t = {1, 2} table.insert(t, -2^30, 9) return t[-2^30], #t, t[1]", json!([9, 2, 1])),
        (
            "local t = {1, 2} table.insert(t, 5, 9) return t[5], pcall(table.insert, t, {}, 1) == false",
            json!([9, true]),
        ),
        // Errors of our own functions are caught as strings, like all others.
        ("local ok, e = pcall(string.upper) return type(e), ok", json!(["string", false])),
        (
            "local ok, e = pcall(require('kube').resourceAdd, {}) return 'x: ' .. e",
            json!("x: expect a quantity string, got table"),
        ),
        (
            "local ok, e = xpcall(function() string.upper() end, function(e) return type(e) end) return e",
            json!("string"),
        ),
        ("return pcall(error, {code = 5})", json!([false, {"code": 5}])),
        // Numbers as Go prints them.
        (
            "return tostring(1e15), tostring(2^62), tostring(-0), tostring(0.1 + 0.2), tostring(1234567.5), tostring(1e-7)",
            json!(["1000000000000000", "4611686018427387904", "0", "0.30000000000000004", "1.2345675e+06", "1e-07"]),
        ),
        ("return tostring(1/0), tostring(-1/0), tostring(0/0) == 'NaN'", json!(["+Inf", "-Inf", true])),
        (
            "return string.format('%g %g %g %.3g %.3g %.10g %G', 1e20, 100000, 1234567, 1234.5, 0.00012345, 1234567, 1e-9)",
            json!("1e+20 100000 1.234567e+06 1.23e+03 0.000123 1234567 1E-09"),
        ),
        ("return string.format('%s %v %E', 1e15, 2.5, 12.5)", json!("1000000000000000 2.5 1.250000E+01")),
    ] {
        assert_eq!(eval(source).as_ref(), Ok(&expected), "{source}");
    }
}

#[test]
fn the_kube_library() {
    for (source, expected) in [
        ("return kube.resourceAdd('100m', '1', nil)", json!("1100m")),
        ("return kube.resourceAdd(nil)", json!("0")),
        ("return kube.getResourceQuantity('1.5Gi'), kube.getResourceQuantity(nil)", json!([1_610_612_736, 0])),
        (
            "return kube.accuratePodRequirements({spec={containers={{resources={limits={cpu=1},requests={memory='1Gi'}}}}}})",
            json!({"resourceRequest": {"cpu": "1", "memory": "1Gi"}}),
        ),
        ("return kube.accuratePodRequirements({spec={containers={{}}}})", json!(null)),
        (
            "return kube.getPodDependencies({spec={serviceAccountName='sa'}}, 'ns')",
            json!([{"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "ns", "name": "sa"}]),
        ),
        ("return kube.getPodDependencies({spec={}}, nil)", json!(null)),
        (
            "return pcall(kube.resourceAdd, 'much') == false, pcall(kube.getResourceQuantity, '-1') == false",
            json!([true, true]),
        ),
        ("return kube.resourceAdd('1Gi', nil, '512Mi'), kube.resourceAdd('0.5', '500m')", json!(["1536Mi", "1"])),
        (
            "return pcall(kube.getResourceQuantity, 5) == false, pcall(kube.getResourceQuantity, {}) == false, \
             pcall(kube.getResourceQuantity) == false, pcall(kube.getResourceQuantity, '1', '2') == false",
            json!([true, true, true, true]),
        ),
        (
            "return kube.resourceAdd('0', '1Gi'), kube.resourceAdd('0Gi', '1000'), kube.resourceAdd()",
            json!(["1Gi", "1k", "0"]),
        ),
        (
            "return pcall(kube.resourceAdd, {}) == false, pcall(kube.resourceAdd, true) == false, pcall(kube.resourceAdd, '1', 2) == false",
            json!([true, true, true]),
        ),
        (
            "return pcall(kube.accuratePodRequirements) == false, pcall(kube.accuratePodRequirements, {}, {}) == false, \
             pcall(kube.accuratePodRequirements, 'x') == false, pcall(kube.getPodDependencies, {}) == false, \
             pcall(kube.getPodDependencies, {}, 'ns', 1) == false",
            json!([true, true, true, true, true]),
        ),
        (
            "return kube.getPodDependencies({spec={serviceAccountName='sa'}}, 5)[1].namespace, \
             pcall(kube.getPodDependencies, {}, true) == false",
            json!(["5", true]),
        ),
        (
            "return kube.getPodDependencies({spec={volumes={{configMap={name='c'}}}}}, nil)",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "c"}]),
        ),
    ] {
        assert_eq!(eval(&format!("local kube = require('kube') {source}")).as_ref(), Ok(&expected), "{source}");
    }
}

#[test]
fn results_are_documents() {
    for (source, expected) in [
        ("return {[1]='a',[2]='b'}", Ok(json!(["a", "b"]))),
        ("return {a={}, b={{}}}", Ok(json!({"b": [{}]}))),
        ("return {}", Ok(json!({}))),
        ("return {[1]=1,[3]=3}", Err("cannot encode sparse array")),
        ("return {1, a=2}", Err("cannot encode mixed or invalid key types")),
        ("return {f=print}", Err("cannot encode function to JSON")),
        ("local t = {1} return {a=t, b=t}", Err("cannot encode recursively nested tables to JSON")),
        ("local t = {} t.t = t return t", Err("cannot encode recursively nested tables to JSON")),
        ("return 0/0", Err("cannot encode NaN to JSON")),
        ("local t = {} for i = 1, 500 do t = {t} end return t", Err("cannot encode tables nested so deeply to JSON")),
    ] {
        assert_eq!(eval(source), expected.map_err(str::to_owned), "{source}");
    }
}

#[test]
fn empty_tables_keep_their_type() {
    let engine = engine();
    let script = engine.compile("function F(o) o.spec.new = {} return o end").unwrap();
    let object = json!({"spec": {"object": {}, "list": [], "items": [{"env": []}, {"env": [1]}]}});
    let call = Call { function: "F", arguments: &[&object], shape: Shape::Object, references: &[&object] };
    assert_eq!(engine.call(&script, &call), Ok(vec![object.clone()]));
}

#[test]
fn unsupported_functions() {
    for (source, expected) in [
        ("return string.rep('x', 10)", "call function rep is not supported in karmada customized resourceinterpreter."),
        ("return setmetatable({}, {})", "call function setmetatable is not supported"),
        ("return loadstring('return 1')()", "call function loadstring is not supported"),
        ("return ('x'):rep(3)", "call function rep is not supported"),
        ("return string.gsub('a', 'a', 'b')", "call function gsub is not supported"),
        ("return string.dump(print)", "call function dump is not supported"),
        ("return dofile('x')", "call function dofile is not supported"),
        ("return load(print)", "call function load is not supported"),
        ("return loadfile('x')", "call function loadfile is not supported"),
        ("return rawequal(1, 1)", "call function rawequal is not supported"),
        ("return rawget({}, 1)", "call function rawget is not supported"),
        ("return module('x')", "call function module is not supported"),
        ("local s = 'x' for i = 1, 20 do s = s .. s end return string.upper(s)", "string is longer than 1000000 bytes"),
        ("return require('kube').resourceAdd(1)", "expect a quantity string, got number"),
        ("return require('io')", "module io not found"),
        ("return package.loadlib('x', 'y')", "loadlib is not supported"),
        ("return o.nothing.there", "attempt to index field 'nothing' (a nil value)"),
        ("return coroutine.wrap(function() end)", "attempt to index global 'coroutine' (a nil value)"),
        (
            "local t = {} for i = 1, 1e6 do t[i] = coroutine.create(function() end) end",
            "global 'coroutine' (a nil value)",
        ),
        ("return getmetatable('').__index", "call function getmetatable is not supported"),
        ("('').upper = print", "attempt to index a string value"),
        ("rawset(string, 'upper', print)", "call function rawset is not supported"),
        ("return setfenv(1, {})", "call function setfenv is not supported"),
        ("return getfenv(0).io", "call function getfenv is not supported"),
        ("return newproxy(true)", "call function newproxy is not supported"),
        ("return collectgarbage('stop')", "call function collectgarbage is not supported"),
        ("return debug.sethook()", "attempt to index global 'debug' (a nil value)"),
    ] {
        let error = eval(source).unwrap_err();
        assert!(error.contains(expected), "{source}: {error}");
    }
    let engine = engine();
    assert!(engine.compile("function F(").unwrap_err().to_string().contains("expected near"));
    let call = |function| Call { function, arguments: &[], shape: Shape::Object, references: &[] };
    let script = engine.compile("G = 5").unwrap();
    assert_eq!(engine.call(&script, &call("F")).unwrap_err().to_string(), "not found function F");
    assert_eq!(engine.call(&script, &call("G")).unwrap_err().to_string(), "G is not a function: number");
}

#[test]
fn no_state_between_calls() {
    let engine = engine();
    let script = engine
        .compile(
            "function F() count = (count or 0) + 1; local was = string.upper('a'); string.upper = nil; table.concat = nil; \
             return count, was, os.extra, math.pi end",
        )
        .unwrap();
    let other = engine.compile("function G() return type(F), type(table.concat) end").unwrap();
    let call = |function| Call { function, arguments: &[], shape: Shape::Object, references: &[] };
    for _ in 0..3 {
        assert_eq!(engine.call(&script, &call("F")).unwrap()[..2], [json!(1), json!("A")]);
        assert_eq!(engine.call(&other, &call("G")).unwrap(), [json!("nil"), json!("function")]);
    }
}

/// All state that a script can access and change belongs to its call: globals, libraries, modules, and arguments.
#[test]
fn scripts_cannot_change_other_calls() {
    let engine = engine();
    let spoil = "function F(o) \
        for _, lib in pairs({string, table, math, os, package, package.loaded, require('kube'), _G}) do \
            for name in pairs(lib) do if name ~= 'F' and name ~= '_G' then lib[name] = 1 end end \
            lib.left = 'behind' \
        end \
        o.left = 'behind' \
        return o end";
    let look = "function F(o) \
        local found = {} \
        for _, lib in pairs({string, table, math, os, package, package.loaded, require('kube'), _G}) do \
            if lib.left then found[#found + 1] = lib.left end \
        end \
        return #found, ('x'):upper(), o.left, type(require('kube').resourceAdd), left end";
    let (spoil, look) = (engine.compile(spoil).unwrap(), engine.compile(look).unwrap());
    let object = json!({"a": 1});
    let call = Call { function: "F", arguments: &[&object], shape: Shape::Object, references: &[] };
    for _ in 0..3 {
        assert_eq!(engine.call(&spoil, &call).unwrap(), [json!({"a": 1, "left": "behind"})]);
        let seen = engine.call(&look, &call).unwrap();
        assert_eq!(seen, [json!(0), json!("X"), json!(null), json!("function"), json!(null)]);
    }
}

/// Scripts that would run forever or exhaust memory, with a clock that advances a microsecond per reading, so that the
/// test does not depend on the machine's load.
const HOSTILE: &[&str] = &[
    "while true do end",
    "local function f() return f() end return f()",
    "local function f() return 1 + f() end return f()",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(pcall, pcall, error) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local s = 'x' while true do s = s .. s end",
    "local s = 'x' while true do pcall(function() s = s .. s end) end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 0) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) table.insert(t, 1) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function() return true end) end",
    "local t = {} for i = 1, 1e5 do t[i] = 'xxxxxxxx' end while true do local s = table.concat(t) end",
    "local s = 'a' for i = 1, 15 do s = s .. s end while true do string.find(s, 'a*a*a*a*a*b') end",
    "return string.find('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-b')",
    "local s = 'a' for i = 1, 18 do s = s .. s end while true do string.find(s, 'ab', 1, true) end",
    "local s = 'a' for i = 1, 18 do s = s .. s end while true do string.reverse(s) end",
    "while true do string.format('%99d%99d%99d%99d', 1, 2, 3, 4) end",
    "for w in ('x'):gmatch('') do while true do end end",
    "local s = 'x' for i = 1, 20 do s = s .. s end local t = {} for i = 1, 1e5 do t[i] = s end return t",
    "local f = function() end while true do f = (function(g) return function() return g() end end)(f) end",
    "while true do require('kube').resourceAdd('1', '2') end",
    "for i = 1, 1e9 do print(i) end",
    "error(setmetatable)",
];

/// Scripts whose instructions are slow: only the clock ends them in time.
const SLOW: &[&str] = &[
    "local t = {} for i = 1, 2e5 do t[i] = i end for i = 1, 2e5 do t[i] = nil end while true do next(t) end",
    "local s = '1' for i = 1, 19 do s = s .. s end while true do local x = -s end",
    "local s = '1' for i = 1, 18 do s = s .. s end while true do for i = s, 1 do end end",
    "local s = '\\0' for i = 1, 18 do s = s .. s end local a, b = s .. 'a', s .. 'b' while true do local x = a < b end",
];

#[test]
fn hostile_scripts_end() {
    let time = Arc::new(AtomicI64::new(0));
    let reads = time.clone();
    let clock: Clock = Arc::new(move || Timestamp::from_microsecond(reads.fetch_add(25, Ordering::Relaxed)).unwrap());
    let engine = Engine::new(clock, Budget { instructions: 4_000_000, ..Budget::default() });
    let good = engine.compile("function F() return 'good' end").unwrap();
    let call = Call { function: "F", arguments: &[], shape: Shape::Object, references: &[] };
    for source in HOSTILE {
        for source in [format!("function F() {source}\nend"), format!("{source}\n")] {
            let script = engine.compile(&source).unwrap();
            let error = engine.call(&script, &call).unwrap_err().to_string();
            let known = [
                "context deadline exceeded",
                "not enough memory",
                "stack overflow",
                "too large",
                "too complex",
                "script:",
                "error in error handling",
                "invalid order function for sorting",
                "longer than",
                "not found function",
                "the error is a function",
            ];
            assert!(known.iter().any(|text| error.contains(text)), "{source}: {error}");
            assert_eq!(engine.call(&good, &call).unwrap(), [json!("good")]);
        }
    }
}

/// The budget in seconds, by the processor time of this thread: the machine's load does not matter.
#[test]
fn hostile_scripts_end_within_a_second() {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Timestamp::new(time.tv_sec, time.tv_nsec as i32).expect("a thread runs for seconds, not for ages")
    };
    // A fifth of a second keeps the test short; only the delay of the stop matters.
    let time = jiff::SignedDuration::from_millis(200);
    let engine = Engine::new(Arc::new(now), Budget { instructions: u64::MAX, time, ..Budget::default() });
    let call = Call { function: "F", arguments: &[], shape: Shape::Object, references: &[] };
    let mut slowest = (jiff::SignedDuration::ZERO, "");
    for source in HOSTILE.iter().chain(SLOW).copied() {
        let script = engine.compile(&format!("function F() {source}\nend")).unwrap();
        let start = now();
        engine.call(&script, &call).unwrap_err();
        slowest = slowest.max((now().duration_since(start), source));
    }
    let late = jiff::SignedDuration::from_secs(1) - Budget::default().time;
    assert!(slowest.0 < time + late, "{slowest:?}");
}

/// Comparisons in the library are metered: some orders take a quadratic number of them.
#[test]
fn sorting_is_counted() {
    const SIZE: usize = 2000;
    let call = Call { function: "F", arguments: &[], shape: Shape::List, references: &[] };
    // The values are fixed while they are compared, each as late and as unfavourably as possible.
    let worst = format!(
        "function F() local size, settled, last, values, places = {SIZE}, 0, 0, {{}}, {{}} \
         for i = 1, size do values[i], places[i] = size, i end \
         table.sort(places, function(x, y) \
             if values[x] == size and values[y] == size then \
                 if x == last then values[x] = settled else values[y] = settled end \
                 settled = settled + 1 \
             end \
             if values[x] == size then last = x elseif values[y] == size then last = y end \
             return values[x] < values[y] \
         end) \
         return values end"
    );
    let patient =
        Engine::new(Arc::new(|| Timestamp::UNIX_EPOCH), Budget { instructions: u64::MAX, ..Budget::default() });
    let values = patient.call(&patient.compile(&worst).unwrap(), &call).unwrap().remove(0);
    assert_eq!(values.as_array().map(Vec::len), Some(SIZE));
    let engine =
        Engine::new(Arc::new(|| Timestamp::UNIX_EPOCH), Budget { instructions: 1_000_000, ..Budget::default() });
    let sort = engine.compile("function F(t) table.sort(t) return t end").unwrap();
    let with = |list: &Value| {
        engine.call(&sort, &Call { function: "F", arguments: &[list], shape: Shape::List, references: &[] })
    };
    let easy = Value::from_iter((0..SIZE).map(|i| i * 7919 % SIZE));
    assert_eq!(with(&easy).unwrap(), [Value::from_iter(0..SIZE)]);
    assert_eq!(with(&values).unwrap_err().to_string(), "context deadline exceeded");
}

#[test]
fn errors_are_short() {
    let error = eval("local s = '\u{e4}' for i = 1, 16 do s = s .. s end error(s)").unwrap_err();
    assert!(error.len() < 5000 && error.starts_with("script:2: \u{e4}") && error.ends_with("\u{e4}..."), "{error}");
}

/// A script that exhausts its budget does not get another one for every object.
#[test]
fn scripts_that_exhaust_their_budget_wait() {
    let time = Arc::new(AtomicI64::new(0));
    let reads = time.clone();
    let clock: Clock = Arc::new(move || Timestamp::from_microsecond(reads.fetch_add(10, Ordering::Relaxed)).unwrap());
    let engine = Engine::new(clock, Budget::default());
    let bad = engine.compile("function F(o) while o.bad do end return o end").unwrap();
    let other = engine.compile("function F(o) while o.bad do end return 'other' end").unwrap();
    let with = |script: &Script, bad: bool| {
        let object = json!({ "bad": bad });
        let call = Call { function: "F", arguments: &[&object], shape: Shape::Object, references: &[] };
        let from = time.load(Ordering::Relaxed);
        let answer = engine.call(script, &call).map_err(|error| error.to_string());
        (answer, time.load(Ordering::Relaxed) - from)
    };
    let (late, waits) =
        ("context deadline exceeded", "context deadline exceeded recently; the script runs again later");
    let second = 1_000_000;
    let (answer, took) = with(&bad, true);
    assert_eq!(answer.unwrap_err(), late);
    assert!(took > second / 2 && took < second, "{took}");
    // It runs neither for this nor for another object, while other scripts run.
    for object in [true, false] {
        let (answer, took) = with(&bad, object);
        assert_eq!(answer.unwrap_err(), waits);
        assert!(took < 1000, "{took}");
    }
    assert_eq!(with(&other, false).0.unwrap(), [json!("other")]);
    // Two of them take turns.
    assert_eq!(with(&other, true).0.unwrap_err(), late);
    time.fetch_add(2 * second, Ordering::Relaxed);
    assert_eq!(with(&bad, true).0.unwrap_err(), waits);
    time.fetch_add(2 * second, Ordering::Relaxed);
    assert_eq!(with(&bad, true).0.unwrap_err(), late);
    assert_eq!(with(&other, true).0.unwrap_err(), waits);
    // A script that ends in time is like any other.
    time.fetch_add(4 * second, Ordering::Relaxed);
    assert_eq!(with(&bad, false).0.unwrap(), [json!({"bad": false})]);
    assert_eq!(with(&bad, false).0.unwrap(), [json!({"bad": false})]);
}

#[test]
fn scripts_run_where_configured() {
    let runs = Arc::new(AtomicI64::new(0));
    let counted = runs.clone();
    let aside: Aside = Arc::new(move |run: &mut dyn FnMut()| {
        counted.fetch_add(1, Ordering::Relaxed);
        run();
    });
    let engine = Engine::running_aside(Arc::new(|| Timestamp::UNIX_EPOCH), Budget::default(), aside, false);
    let script = engine.compile("function F() return 1 end").unwrap();
    let call = Call { function: "F", arguments: &[], shape: Shape::Object, references: &[] };
    assert_eq!(engine.call(&script, &call).unwrap(), [json!(1)]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn priority_classes_are_required_with_quotas() {
    let source = "function F(pod) return require('kube').accuratePodRequirements(pod) end";
    let pod = json!({"spec": {"priorityClassName": "high", "containers": [{"resources": {"requests": {"cpu": 1}}}]}});
    let call = Call { function: "F", arguments: &[&pod], shape: Shape::Object, references: &[] };
    for (quotas, expected) in [
        (true, json!({"resourceRequest": {"cpu": "1"}, "priorityClassName": "high"})),
        (false, json!({"resourceRequest": {"cpu": "1"}})),
    ] {
        let aside: Aside = Arc::new(|run: &mut dyn FnMut()| run());
        let engine = Engine::running_aside(Arc::new(|| Timestamp::UNIX_EPOCH), Budget::default(), aside, quotas);
        assert_eq!(engine.call(&engine.compile(source).unwrap(), &call).unwrap(), [expected]);
    }
}
