//! The declared functions: the language's own, cel-go's extensions that Kubernetes enables, Kubernetes' libraries. One
//! function per line, overloads separated by bars; capital letters are type parameters.

pub const LIBRARIES: [&str; 10] =
    [OPERATORS, CONVERSIONS, TIMES, STRINGS, LISTS, MATH, SETS, OPTIONALS, KUBERNETES, AUTHORIZATION];

const AUTHORIZATION: &str = "
    serviceAccount: Authorizer.(string, string) Authorizer
    path: Authorizer.(string) PathCheck
    group: Authorizer.(string) GroupCheck
    resource: GroupCheck.(string) ResourceCheck
    subresource: ResourceCheck.(string) ResourceCheck
    namespace: ResourceCheck.(string) ResourceCheck
    name: ResourceCheck.(string) ResourceCheck
    fieldSelector: ResourceCheck.(string) ResourceCheck
    labelSelector: ResourceCheck.(string) ResourceCheck
    check: PathCheck.(string) Decision | ResourceCheck.(string) Decision
    jsonpatch.escapeKey: (string) string
    allowed: Decision.() bool
    errored: Decision.() bool
    error: Decision.() string
    reason: Decision.() string
";

const OPERATORS: &str = "
    _?_:_: (bool, A, A) A
    _&&_: (bool, bool) bool
    _||_: (bool, bool) bool
    !_: (bool) bool
    _==_: (A, A) bool
    _!=_: (A, A) bool
    @in: (A, list(A)) bool | (A, map(A, B)) bool
    _<_: (bool, bool) bool | (int, int) bool | (int, double) bool | (int, uint) bool | (uint, uint) bool | (uint, double) bool | (uint, int) bool | (double, double) bool | (double, int) bool | (double, uint) bool | (string, string) bool | (bytes, bytes) bool | (timestamp, timestamp) bool | (duration, duration) bool
    _<=_: (bool, bool) bool | (int, int) bool | (int, double) bool | (int, uint) bool | (uint, uint) bool | (uint, double) bool | (uint, int) bool | (double, double) bool | (double, int) bool | (double, uint) bool | (string, string) bool | (bytes, bytes) bool | (timestamp, timestamp) bool | (duration, duration) bool
    _>_: (bool, bool) bool | (int, int) bool | (int, double) bool | (int, uint) bool | (uint, uint) bool | (uint, double) bool | (uint, int) bool | (double, double) bool | (double, int) bool | (double, uint) bool | (string, string) bool | (bytes, bytes) bool | (timestamp, timestamp) bool | (duration, duration) bool
    _>=_: (bool, bool) bool | (int, int) bool | (int, double) bool | (int, uint) bool | (uint, uint) bool | (uint, double) bool | (uint, int) bool | (double, double) bool | (double, int) bool | (double, uint) bool | (string, string) bool | (bytes, bytes) bool | (timestamp, timestamp) bool | (duration, duration) bool
    _+_: (int, int) int | (uint, uint) uint | (double, double) double | (string, string) string | (bytes, bytes) bytes | (list(A), list(A)) list(A) | (timestamp, duration) timestamp | (duration, timestamp) timestamp | (duration, duration) duration
    _-_: (int, int) int | (uint, uint) uint | (double, double) double | (timestamp, timestamp) duration | (timestamp, duration) timestamp | (duration, duration) duration
    _*_: (int, int) int | (uint, uint) uint | (double, double) double
    _/_: (int, int) int | (uint, uint) uint | (double, double) double
    _%_: (int, int) int | (uint, uint) uint
    -_: (int) int | (double) double
    _[_]: (list(A), int) A | (map(A, B), A) B | (optional(list(A)), int) optional(A) | (optional(map(A, B)), A) optional(B)
    _[?_]: (list(A), int) optional(A) | (map(A, B), A) optional(B) | (optional(list(A)), int) optional(A) | (optional(map(A, B)), A) optional(B)
    size: (string) int | (bytes) int | (list(A)) int | (map(A, B)) int | string.() int | bytes.() int | list(A).() int | map(A, B).() int
";

const CONVERSIONS: &str = "
    type: (A) type(A)
    dyn: (A) dyn
    bool: (bool) bool | (string) bool
    int: (int) int | (uint) int | (double) int | (string) int | (timestamp) int | (duration) int
    uint: (uint) uint | (int) uint | (double) uint | (string) uint
    double: (double) double | (int) double | (uint) double | (string) double
    string: (string) string | (bool) string | (int) string | (uint) string | (double) string | (bytes) string | (timestamp) string | (duration) string | (IP) string | (CIDR) string
    bytes: (bytes) bytes | (string) bytes
    timestamp: (timestamp) timestamp | (string) timestamp | (int) timestamp
    duration: (duration) duration | (string) duration | (int) duration
";

const TIMES: &str = "
    getFullYear: timestamp.() int | timestamp.(string) int
    getMonth: timestamp.() int | timestamp.(string) int
    getDayOfYear: timestamp.() int | timestamp.(string) int
    getDayOfMonth: timestamp.() int | timestamp.(string) int
    getDate: timestamp.() int | timestamp.(string) int
    getDayOfWeek: timestamp.() int | timestamp.(string) int
    getHours: timestamp.() int | timestamp.(string) int | duration.() int
    getMinutes: timestamp.() int | timestamp.(string) int | duration.() int
    getSeconds: timestamp.() int | timestamp.(string) int | duration.() int
    getMilliseconds: timestamp.() int | timestamp.(string) int | duration.() int
";

const STRINGS: &str = "
    contains: string.(string) bool
    endsWith: string.(string) bool
    startsWith: string.(string) bool
    matches: (string, string) bool | string.(string) bool
    charAt: string.(int) string
    indexOf: string.(string) int | string.(string, int) int | list(A).(A) int
    lastIndexOf: string.(string) int | string.(string, int) int | list(A).(A) int
    lowerAscii: string.() string
    upperAscii: string.() string
    replace: string.(string, string) string | string.(string, string, int) string
    split: string.(string) list(string) | string.(string, int) list(string)
    join: list(string).() string | list(string).(string) string
    substring: string.(int) string | string.(int, int) string
    trim: string.() string
    reverse: string.() string | list(A).() list(A)
    format: string.(list(dyn)) string
    strings.quote: (string) string
    find: string.(string) string
    findAll: string.(string) list(string) | string.(string, int) list(string)
";

const LISTS: &str = "
    isSorted: list(int).() bool | list(uint).() bool | list(double).() bool | list(bool).() bool | list(duration).() bool | list(timestamp).() bool | list(string).() bool | list(bytes).() bool
    sum: list(int).() int | list(uint).() uint | list(double).() double | list(duration).() duration
    min: list(int).() int | list(uint).() uint | list(double).() double | list(bool).() bool | list(duration).() duration | list(timestamp).() timestamp | list(string).() string | list(bytes).() bytes
    max: list(int).() int | list(uint).() uint | list(double).() double | list(bool).() bool | list(duration).() duration | list(timestamp).() timestamp | list(string).() string | list(bytes).() bytes
    slice: list(A).(int, int) list(A)
    flatten: list(list(A)).() list(A) | list(dyn).() list(dyn) | list(dyn).(int) list(dyn)
    distinct: list(A).() list(A)
    sort: list(int).() list(int) | list(uint).() list(uint) | list(double).() list(double) | list(bool).() list(bool) | list(duration).() list(duration) | list(timestamp).() list(timestamp) | list(string).() list(string) | list(bytes).() list(bytes)
    @sortByAssociatedKeys: list(A).(list(int)) list(A) | list(A).(list(uint)) list(A) | list(A).(list(double)) list(A) | list(A).(list(bool)) list(A) | list(A).(list(duration)) list(A) | list(A).(list(timestamp)) list(A) | list(A).(list(string)) list(A) | list(A).(list(bytes)) list(A)
    lists.range: (int) list(int)
    first: list(A).() optional(A)
    last: list(A).() optional(A)
";

const MATH: &str = "
    math.greatest: (int) int | (uint) uint | (double) double | (int, int) int | (uint, uint) uint | (double, double) double | (int, uint) dyn | (int, double) dyn | (uint, int) dyn | (uint, double) dyn | (double, int) dyn | (double, uint) dyn | (list(int)) int | (list(uint)) uint | (list(double)) double | (list(dyn)) dyn
    math.least: (int) int | (uint) uint | (double) double | (int, int) int | (uint, uint) uint | (double, double) double | (int, uint) dyn | (int, double) dyn | (uint, int) dyn | (uint, double) dyn | (double, int) dyn | (double, uint) dyn | (list(int)) int | (list(uint)) uint | (list(double)) double | (list(dyn)) dyn
    math.ceil: (double) double
    math.floor: (double) double
    math.round: (double) double
    math.trunc: (double) double
    math.isInf: (double) bool
    math.isNaN: (double) bool
    math.isFinite: (double) bool
    math.abs: (int) int | (uint) uint | (double) double
    math.sign: (int) int | (uint) uint | (double) double
    math.sqrt: (int) double | (uint) double | (double) double
    math.bitAnd: (int, int) int | (uint, uint) uint
    math.bitOr: (int, int) int | (uint, uint) uint
    math.bitXor: (int, int) int | (uint, uint) uint
    math.bitNot: (int) int | (uint) uint
    math.bitShiftLeft: (int, int) int | (uint, int) uint
    math.bitShiftRight: (int, int) int | (uint, int) uint
";

const SETS: &str = "
    sets.contains: (list(A), list(A)) bool
    sets.equivalent: (list(A), list(A)) bool
    sets.intersects: (list(A), list(A)) bool
";

const OPTIONALS: &str = "
    optional.of: (A) optional(A)
    optional.ofNonZeroValue: (A) optional(A)
    optional.none: () optional(A)
    optional.unwrap: (list(optional(A))) list(A)
    unwrapOpt: list(optional(A)).() list(A)
    value: optional(A).() A
    hasValue: optional(A).() bool
    or: optional(A).(optional(A)) optional(A)
    orValue: optional(A).(A) A
";

const KUBERNETES: &str = "
    url: (string) URL
    isURL: (string) bool
    getScheme: URL.() string
    getHost: URL.() string
    getHostname: URL.() string
    getPort: URL.() string
    getEscapedPath: URL.() string
    getQuery: URL.() map(string, list(string))
    quantity: (string) Quantity
    isQuantity: (string) bool
    sign: Quantity.() int
    isInteger: Quantity.() bool
    asInteger: Quantity.() int
    asApproximateFloat: Quantity.() double
    add: Quantity.(Quantity) Quantity | Quantity.(int) Quantity
    sub: Quantity.(Quantity) Quantity | Quantity.(int) Quantity
    isGreaterThan: Quantity.(Quantity) bool | Semver.(Semver) bool
    isLessThan: Quantity.(Quantity) bool | Semver.(Semver) bool
    compareTo: Quantity.(Quantity) int | Semver.(Semver) int
    ip: (string) IP | CIDR.() IP
    isIP: (string) bool | (string, int) bool
    ip.isCanonical: (string) bool
    family: IP.() int
    isUnspecified: IP.() bool
    isLoopback: IP.() bool
    isLinkLocalMulticast: IP.() bool
    isLinkLocalUnicast: IP.() bool
    isGlobalUnicast: IP.() bool
    cidr: (string) CIDR
    isCIDR: (string) bool
    containsIP: CIDR.(string) bool | CIDR.(IP) bool
    containsCIDR: CIDR.(string) bool | CIDR.(CIDR) bool
    prefixLength: CIDR.() int
    masked: CIDR.() CIDR
    format.named: (string) optional(Format)
    format.dns1123Label: () Format
    format.dns1123Subdomain: () Format
    format.dns1035Label: () Format
    format.qualifiedName: () Format
    format.dns1123LabelPrefix: () Format
    format.dns1123SubdomainPrefix: () Format
    format.dns1035LabelPrefix: () Format
    format.labelValue: () Format
    format.uri: () Format
    format.uuid: () Format
    format.byte: () Format
    format.date: () Format
    format.datetime: () Format
    validate: Format.(string) optional(list(string))
    semver: (string) Semver | (string, bool) Semver
    isSemver: (string) bool | (string, bool) bool
    major: Semver.() int
    minor: Semver.() int
    patch: Semver.() int
";
