package server

// operation is one request that leafd answers. The OpenAPI document, the tables of
// docs/API.md and the list of GET / are made from operations; each answer of the tests is
// held against the document.
type operation struct {
	methods string // the first is the one to use
	path    string // as the router has it
	id      string // operationId; a method further on adds its name
	summary string // a line of GET /
	more    string // in Markdown, for the page and the document
	params  []param
	body    any  // a value of its type; nil: none
	auth    bool // it needs the admin token
	ok      []reply
	codes   string // of its errors, beside commonCodes
}

// param is a parameter of the query; those of the path are known by their names.
type param struct {
	name, what string
	schema     jsonObject
}

// reply is an answer that is no error.
type reply struct {
	status  int
	what    string
	content []media
}

// media is one content type of a reply, with a value of the body's type or a jsonObject.
type media struct {
	kind    string
	body    any
	example any
}

type jsonObject = map[string]any

// commonCodes are the errors that any request may get: its query has a parameter that the path
// doesn't have (without n and as the two get paths have any), it can't be read whole, the daemon
// has too many connections, or it failed.
const commonCodes = "bad_query bad_request tls_required request_timeout body_too_large header_too_large internal overloaded"

const (
	starts = " starting draining"
	gates  = " host_refused overloaded draining"
	tokens = "unauthorized not_found mode_disabled segment_unavailable" + starts
)

var (
	// idsText is the body of IDs in text: one alone, or each, or each range, on a line.
	idsText = jsonObject{"type": "string", "pattern": `^([0-9]{1,19}|([0-9]{1,19}\n)+|([0-9]{1,19}-[0-9]{1,19}\n)+)$`}
	idsJSON = jsonObject{"oneOf": []any{
		jsonObject{"type": "integer", "format": "int64", "minimum": 0, "description": "Without `n`: the bare number, as the Java Leaf answers."},
		jsonObject{
			"type": "object", "required": []any{"ids"}, "description": "With `n`: strings, because JavaScript's numbers end at 2^53.",
			"properties": jsonObject{"ids": jsonObject{"type": "array", "items": idString}},
		},
		jsonObject{
			"type": "object", "required": []any{"ranges"}, "description": "With `as=ranges`.",
			"properties": jsonObject{"ranges": jsonObject{"type": "array", "items": jsonObject{
				"type": "object", "required": []any{"first", "last"}, "properties": jsonObject{"first": idString, "last": idString},
			}}},
		},
	}}
	idString = jsonObject{"type": "string", "pattern": "^[0-9]{1,19}$"}
	anyText  = jsonObject{"type": "string"}
	anyBody  = jsonObject{} // of any type
	positive = jsonObject{"type": "integer", "minimum": 1}
	tagRow   = rowJSON{}

	paramN     = param{"n", "how many IDs, at most `--max-batch` (10000): growing, one a line, or `{\"ids\":[…]}` with `Accept: application/json`", positive}
	paramAs    = param{"as", "`ranges`, with `n`: a line for each run of IDs, `first-last`, both among them, or `{\"ranges\":[{\"first\":\"1\",\"last\":\"1000\"}]}`; of a tag at most `--max-range` (100000)", jsonObject{"type": "string", "enum": []any{"ranges"}}}
	paramAfter = param{"after", "the `next` of the page before; nothing for the first page", anyText}
	paramLimit = param{"limit", "how many entries a page has, at most 1000", positive}
	paramTag   = param{"tag", "only tags whose names contain this part, in either case", anyText}

	repliesIDs = []reply{{200, "the IDs", []media{
		{contentText, idsText, "6992094512734208001"}, {contentJSON, idsJSON, jsonObject{"ids": []any{"6992094512734208001", "6992094512734208002"}}},
	}}}
	repliesChange = []reply{{200, "with `Accept: application/json`, the row", []media{{contentJSON, tagRow, nil}}}, {204, "it is changed", nil}}
	repliesPage   = []reply{{200, "a page for people", []media{{contentHTML, anyText, nil}}}}
)

// replyOf is a reply with one type of body.
func replyOf(status int, what, kind string, body, example any) []reply {
	return []reply{{status, what, []media{{kind, body, example}}}}
}

// onAdmin is said of what Config.AdminApart moves.
const (
	onAdmin = "On the admin surface where there is one."
	apart   = " " + onAdmin
)

var operations = []operation{
	{
		methods: "GET POST", path: "/api/snowflake/get/{key}", id: "nextSnowflake", summary: "a snowflake ID; ?n=1000 for many",
		more:   "The key is free: it names the caller. POST serves as GET does, for an ID is not a safe method's result.",
		params: []param{paramN, paramAs}, ok: repliesIDs,
		codes: "bad_key bad_count mode_disabled not_found unauthorized rate_limited clock_backwards ceiling_reached worker_fenced" + starts,
	},
	{
		methods: "GET POST", path: "/api/segment/get/{key}", id: "nextSegment", summary: "an ID of the tag {key}; ?n=1000 for many",
		more:   "The tag is a row of `leaf_alloc`.",
		params: []param{paramN, paramAs}, ok: repliesIDs,
		codes: "bad_key bad_count unknown_key mode_disabled not_found unauthorized rate_limited segment_unavailable" + starts,
	},
	{
		methods: "GET", path: "/api/snowflake/decode/{id}", id: "decodeSnowflake", summary: "what a snowflake ID is made of",
		more: "Its time, worker ID and sequence.",
		ok: replyOf(200, "its parts", contentJSON, decoded{}, jsonObject{
			"id": "1209416549790674986", "timestamp": 1577182350000, "time": "2019-12-24T10:12:30.000Z", "worker": 7, "sequence": 42, "layout": "41+10+12",
		}),
		codes: "bad_id mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/decodeSnowflakeId", id: "decodeSnowflakeAsJava", summary: "the same of ?snowflakeId=, as the Java Leaf answers",
		more:   "What is no ID of this cluster's layout gets 200 with `errorMsg`, as from the Java Leaf.",
		params: []param{{"snowflakeId", "the ID", anyText}},
		ok: replyOf(200, "its parts", contentJSON, jsonObject{"oneOf": []any{
			decodedAsJava{}, jsonObject{"type": "object", "required": []any{"errorMsg"}, "properties": jsonObject{"errorMsg": anyText}},
		}}, nil),
		codes: "mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/api/clock", id: "getClock", summary: "this machine's clock",
		more: "It tells also under which worker ID of which cluster this daemon issues, and since when. Daemons ask each other here; what they say of a clock is in `/api/overview`.",
		ok:   replyOf(200, "the clock", contentJSON, clockAnswer{}, nil), codes: "host_refused",
	},
	{
		methods: "GET", path: "/api/worker", id: "getWorker", summary: "who this daemon is",
		more: "Its worker ID, its data directory (`instance`), its life (`owner`: another one after it was displaced), and the piece of time from `floor` to `limit` in which it may issue.",
		ok:   replyOf(200, "this worker", contentJSON, WorkerInfo{}, nil), codes: "host_refused mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/api/workers", id: "listWorkers", summary: "the workers, a page of 1000; ?after=ID the next",
		more:   "They are all workers of the cluster, live or not, by worker ID, as ZooKeeper had them at `as_of`, with the clock offsets of the live ones; `free_from` tells when a new daemon may take the worker ID." + apart,
		params: []param{paramAfter, paramLimit},
		ok:     replyOf(200, "a page of workers", contentJSON, workerPage{}, nil), codes: "not_found registry_unavailable" + starts + gates,
	},
	{
		methods: "GET", path: "/api/segments", id: "listSegments", summary: "the tags in memory, a page of 1000; ?after=TAG the next",
		more:   "Each with what is in memory, step, highest ID seen, IDs issued, rate, seconds that memory lasts." + apart,
		params: []param{paramAfter, paramLimit},
		ok:     replyOf(200, "a page of tags", contentJSON, segmentPage{}, nil), codes: "not_found mode_disabled" + starts + gates,
	},
	{
		methods: "GET", path: "/api/overview", id: "getOverview", summary: "what the dashboard shows: a browser gets it at /",
		more:   "It is one bounded answer." + apart,
		params: []param{paramTag}, ok: replyOf(200, "what the dashboard shows", contentJSON, Overview{}, nil), codes: "not_found bad_key" + gates,
	},
	{
		methods: "GET", path: "/api/history", id: "getHistory", summary: "IDs and errors per second of the last hour",
		more: onAdmin,
		ok:   replyOf(200, "a sample every 10 s, the oldest first", contentJSON, History{}, nil), codes: "not_found" + gates,
	},
	{
		methods: "GET", path: "/api/summary", id: "getSummary", summary: "this daemon in a few lines: rates, readiness, version, an hour",
		more: "Daemons ask each other here, for `/api/cluster`.",
		ok:   replyOf(200, "this daemon", contentJSON, Summary{}, nil), codes: gates[1:],
	},
	{
		methods: "GET", path: "/api/cluster", id: "getCluster", summary: "all live daemons, each as it answers /api/summary",
		more: "They are asked in the background, at most once in 5 s, and only while this is asked for: the first answer has this daemon alone, and no `as_of`." + apart,
		ok:   replyOf(200, "the live daemons, this one first", contentJSON, Cluster{}, nil), codes: "not_found" + gates,
	},
	{
		methods: "POST", path: "/api/segments", id: "createSegment", summary: "add a tag",
		body: newTag{}, auth: true, ok: replyOf(201, "the new row", contentJSON, tagRow, nil), codes: "bad_key bad_step tag_exists max_id_low max_id_unknown " + tokens,
	},
	{
		methods: "PATCH", path: "/api/segments/{key}", id: "updateSegment", summary: "change a tag",
		body: tagChange{}, auth: true, ok: repliesChange, codes: "bad_key bad_step unknown_key " + tokens,
	},
	{
		methods: "DELETE", path: "/api/segments/{key}", id: "deleteSegment", summary: "remove a tag",
		auth: true, ok: repliesChange, codes: "bad_key unknown_key registry_unavailable " + tokens,
	},
	{
		methods: "GET", path: "/", id: "getRoot", summary: "the dashboard for browsers, this list for others",
		ok: []reply{{200, "the list; with `Accept: text/html` the dashboard", []media{{contentText, anyText, nil}, {contentHTML, anyText, nil}}}}, codes: gates,
	},
	{
		methods: "GET", path: "/cache", id: "getCachePage", summary: "the tags in memory, for people",
		more: "The Java Leaf's page and columns; the first 1000." + apart, params: []param{paramTag}, ok: repliesPage, codes: "not_found mode_disabled" + starts + gates,
	},
	{
		methods: "GET", path: "/db", id: "getTablePage", summary: "the table leaf_alloc, for people",
		more: "The Java Leaf's page and columns; the first 1000." + apart, params: []param{paramTag}, ok: repliesPage, codes: "not_found mode_disabled segment_unavailable" + starts + gates,
	},
	{
		methods: "GET", path: "/openapi.json", id: "getOpenAPI", summary: "this API as an OpenAPI 3.1 document",
		ok: replyOf(200, "the document", contentJSON, jsonObject{"type": "object"}, nil), codes: "overloaded draining",
	},
	{
		methods: "GET", path: "/healthz", id: "getHealth", summary: "200 while the process serves",
		ok: replyOf(200, "it serves", contentJSON, Readiness{}, jsonObject{"status": "ok"}),
	},
	{
		methods: "GET", path: "/readyz", id: "getReadiness", summary: "200 while IDs can be issued, else 503 with the reason",
		more: "`status` is `ready`, `degraded` (200) or `not_ready` (503); `conditions` has all that is wrong, the worst first, with its cause and what to do.",
		ok: append(replyOf(200, "IDs can be issued", contentJSON, Readiness{}, jsonObject{"status": "ready"}),
			reply{503, "not ready: the code of the worst condition", []media{{contentJSON, Readiness{}, nil}}}),
	},
	{
		methods: "GET", path: "/metrics", id: "getMetrics", summary: "Prometheus text format",
		more: onAdmin,
		ok: []reply{{200, "the metrics, in the format that Accept prefers", []media{
			{"text/plain", anyText, nil}, {"application/openmetrics-text", anyText, nil}, {"application/vnd.google.protobuf", anyBody, nil},
		}}}, codes: "not_found overloaded draining",
	},
	{
		methods: "GET", path: "/debug/pprof/{profile}", id: "getProfile", summary: "a Go profile: heap, goroutine, profile (of processor time), trace, …",
		more: "On the admin surface (`--admin-listen`) only, and where there is an admin token.",
		params: []param{
			{"seconds", "how long profile and trace look, at most 10", positive},
			{"debug", "1 or 2 for text", jsonObject{"type": "integer", "minimum": 0}},
			{"gc", "1: collect garbage before a heap profile", jsonObject{"type": "integer", "minimum": 0}},
		},
		auth: true, ok: []reply{{200, "text or a profile", []media{{"*/*", anyBody, nil}}}}, codes: "unauthorized not_found",
	},
}

// The bodies that the server writes without a type of theirs.

// typeNames are the names in the document of types that have another one here.
var typeNames = map[string]string{"rowJSON": "Tag", "clockAnswer": "Clock"}

// advice tells what to do about each error: a row of the table in docs/API.md each.
var advice = []struct{ codes, what string }{
	{"bad_key bad_count bad_query bad_id bad_request bad_step", "Fix the request."},
	{"tls_required", "The port speaks TLS: use `https://`."},
	{"unauthorized", "Send a token that may do this: the admin token, or one of `--tokens-file`."},
	{"host_refused", "A page or list was asked by a name that is not this daemon's: ask by its address, or set `--allow-host`."},
	{"unknown_key mode_disabled not_found", "Create the tag; see `--modes`."},
	{"method_not_allowed request_timeout tag_exists body_too_large header_too_large", "Fix the request."},
	{"max_id_low max_id_unknown", "The tag was there before, or ZooKeeper is away, or daemons share a database without ZooKeeper: give the `max_id` that the message names, or ask again once ZooKeeper answers."},
	{"rate_limited", "This client asks for more IDs of this key than `--rate-limit` gives it; ask again after `Retry-After`."},
	{"internal", "Read leafd's log."},
	{"clock_backwards", "This machine's clock is behind the last ID; ask another daemon, this one resumes by itself."},
	{"ceiling_reached", "The ceiling cannot be recorded (disk), the clock jumped ahead, or ZooKeeper was away for the whole `--lease`, or lost data near its end; see the alarm."},
	{"worker_fenced", "The daemon was displaced: another has its data directory or its worker ID. It comes back by itself, within seconds, under a worker ID of its own; see the alarm."},
	{"clock_refused identity_held workers_exhausted workers_closed", "Readiness only: why a displaced daemon is not back yet; the condition of that name says what to do."},
	{"clock_offset", "Readiness only: most daemons have another time; IDs are still issued."},
	{"not_ready", "Readiness only: a condition without an answer of its own; the body has its code."},
	{"registry_unavailable", "`/api/workers` and the deletion of a tag: ZooKeeper does not answer; a daemon with a worker ID issues without it."},
	{"segment_unavailable", "No range is in memory and none is to be had: the database is gone, the row is unusable or has gone backwards."},
	{"overloaded", "Too many requests wait already; ask again, or ask another daemon."},
	{"starting draining", "Ask again, or ask another daemon."},
}
