package server

import (
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

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
	ok      []good
	codes   string // of its errors, beside commonCodes
}

// param is a parameter of the query; those of the path are known by their names.
type param struct {
	name, what string
	schema     jsonObject
}

// good is an answer that is no error.
type good struct {
	status  int
	what    string
	content []media
}

// media is one content type of a good answer, with a value of the body's type or a jsonObject.
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
	starts         = " starting draining"
	gates          = " host_refused overloaded draining"
	snowflakeCodes = "clock_backwards clock_jumped time_exhausted ceiling_reached lease_over worker_fenced clock_refused workers_closed"
	segmentCodes   = "segment_unavailable segment_store segment_mark segment_unguarded segment_bad_row row_missing"
	tokens         = "unauthorized not_found mode_disabled segment_store" + starts
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
	tagRow   = views.ShownTag{}

	paramN     = param{"n", "how many IDs, at most `--max-batch` (10000): growing, one a line, or `{\"ids\":[…]}` with `Accept: application/json`", positive}
	paramAs    = param{"as", "`ranges`, with `n`: a line for each run of IDs, `first-last`, both included, or `{\"ranges\":[{\"first\":\"1\",\"last\":\"1000\"}]}`; of a tag at most `--max-range` (100000)", jsonObject{"type": "string", "enum": []any{"ranges"}}}
	paramAfter = param{"after", "the `next` of the page before", anyText}
	paramLimit = param{"limit", "how many entries a page has, at most 1000", positive}
	paramKind  = param{"kind", "one kind of IDs: snowflake or segment", jsonObject{"type": "string", "enum": []any{"snowflake", "segment"}}}
	paramTag   = param{"tag", "tags whose names contain this, in either case", anyText}

	repliesIDs = []good{{200, "the IDs", []media{
		{reply.ContentText, idsText, "6992094512734208001"}, {reply.ContentJSON, idsJSON, jsonObject{"ids": []any{"6992094512734208001", "6992094512734208002"}}},
	}}}
	repliesChange = []good{{200, "with `Accept: application/json`, the row", []media{{reply.ContentJSON, tagRow, nil}}}, {204, "it is changed", nil}}
	repliesPage   = []good{{200, "a page for people", []media{{reply.ContentHTML, anyText, nil}}}}
)

// replyOf is a good with one type of body.
func replyOf(status int, what, kind string, body, example any) []good {
	return []good{{status, what, []media{{kind, body, example}}}}
}

// onAdmin is said of what Config.AdminApart moves.
const (
	onAdmin = "On the admin surface where there is one."
	apart   = " " + onAdmin
)

var operations = []operation{
	{
		methods: "GET POST", path: "/api/snowflake/get/{key}", id: "nextSnowflake", summary: "a snowflake ID; ?n=1000 for many",
		more:   "The key is free: it names the caller.",
		params: []param{paramN, paramAs}, ok: repliesIDs,
		codes: "bad_key bad_count mode_disabled not_found unauthorized rate_limited " + snowflakeCodes + starts,
	},
	{
		methods: "GET POST", path: "/api/segment/get/{key}", id: "nextSegment", summary: "an ID of the tag {key}; ?n=1000 for many",
		more:   "The tag is a row of `leaf_alloc`.",
		params: []param{paramN, paramAs}, ok: repliesIDs,
		codes: "bad_key bad_count unknown_key mode_disabled not_found unauthorized rate_limited " + segmentCodes + starts,
	},
	{
		methods: "POST", path: "/api/snowflake/lend/{key}", id: "lendSlice", summary: "sequence numbers for a time, of which a process makes snowflake IDs by itself",
		more:   "With `--lend`. Not on the admin surface.",
		params: []param{{"slice", "a name that no other process guesses, of 16 to 64 letters, digits and -: repeated, it gets the same slice", anyText}},
		ok: replyOf(200, "the slice: sequences `first` to `last` of the milliseconds from `from` on and below `until`", reply.ContentJSON, ids.Lent{}, jsonObject{
			"slice": "7RC2QW5XMJ3ZK4VD", "worker": 7, "datacenter": 0, "first": 2064, "last": 2079, "from": 1577182350000, "until": 1577182950000, "now": 1577182350001, "epoch": 1288834974657, "layout": "41+10+12",
		}),
		codes: "bad_key mode_disabled not_found unauthorized rate_limited " + snowflakeCodes + " peers_disagree not_ready" + starts,
	},
	{
		methods: "DELETE", path: "/api/snowflake/lend/{key}", id: "giveSliceBack", summary: "give a slice back: {key} is its name",
		more:   "From the address, or with the token, that it was asked for.",
		params: []param{{"used", "the last millisecond, since 1970, that an ID was made for", jsonObject{"type": "integer", "minimum": 0}}},
		ok:     replyOf(200, "whether there was such a slice", reply.ContentJSON, ids.GivenBack{}, nil), codes: "bad_key not_found" + starts,
	},
	{
		methods: "GET", path: "/api/snowflake/decode/{id}", id: "decodeSnowflake", summary: "what a snowflake ID is made of",
		ok: replyOf(200, "its parts", reply.ContentJSON, ids.Decoded{}, jsonObject{
			"id": "1209416549790674986", "timestamp": 1577182350000, "time": "2019-12-24T10:12:30.000Z", "worker": 7, "sequence": 42, "layout": "41+10+12",
		}),
		codes: "bad_id mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/decodeSnowflakeId", id: "decodeSnowflakeAsJava", summary: "the same of ?snowflakeId=, as the Java Leaf answers",
		more:   "What is no ID of the layout gets 200 with `errorMsg`.",
		params: []param{{"snowflakeId", "the ID", anyText}},
		ok: replyOf(200, "its parts", reply.ContentJSON, jsonObject{"oneOf": []any{
			ids.DecodedAsJava{}, jsonObject{"type": "object", "required": []any{"errorMsg"}, "properties": jsonObject{"errorMsg": anyText}},
		}}, nil),
		codes: "mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/api/clock", id: "getClock", summary: "this machine's clock",
		more: "It also has the worker ID and the cluster, and since when this daemon issues. Daemons ask each other here.",
		ok:   replyOf(200, "the clock", reply.ContentJSON, views.ClockAnswer{}, nil), codes: "host_refused",
	},
	{
		methods: "GET", path: "/api/worker", id: "getWorker", summary: "the worker that this daemon is",
		more: "Its worker ID, data directory (`instance`), life (`owner`), and the time from `floor` to `limit` in which it may issue.",
		ok:   replyOf(200, "this worker", reply.ContentJSON, views.WorkerInfo{}, nil), codes: "host_refused mode_disabled" + starts,
	},
	{
		methods: "GET", path: "/api/workers", id: "listWorkers", summary: "the workers, a page of 1000; ?after=ID the next",
		more:   "They are all workers of the cluster, live or not, as ZooKeeper had them at `as_of`; from `free_from` on a new daemon may take the worker ID." + apart,
		params: []param{paramAfter, paramLimit},
		ok:     replyOf(200, "a page of workers", reply.ContentJSON, views.WorkerPage{}, nil), codes: "not_found registry_unreachable" + starts + gates,
	},
	{
		methods: "GET", path: "/api/segments", id: "listSegments", summary: "the tags in memory, a page of 1000; ?after=TAG the next",
		more:   "Each has what is in memory, and how many seconds that lasts." + apart,
		params: []param{paramAfter, paramLimit},
		ok:     replyOf(200, "a page of tags", reply.ContentJSON, views.SegmentPage{}, nil), codes: "not_found mode_disabled" + starts + gates,
	},
	{
		methods: "GET", path: "/api/overview", id: "getOverview", summary: "what the dashboard shows: a browser gets it at /",
		more:   onAdmin,
		params: []param{paramTag}, ok: replyOf(200, "what the dashboard shows", reply.ContentJSON, views.Overview{}, nil), codes: "not_found bad_key" + gates,
	},
	{
		methods: "GET", path: "/api/history", id: "getHistory", summary: "IDs and errors per second of the last hour",
		more: onAdmin,
		ok:   replyOf(200, "a sample every 10 s, the oldest first", reply.ContentJSON, views.History{}, nil), codes: "not_found" + gates,
	},
	{
		methods: "GET", path: "/api/summary", id: "getSummary", summary: "this daemon in a few lines: rates, readiness, version, an hour",
		more: "Daemons ask each other here.",
		ok:   replyOf(200, "this daemon", reply.ContentJSON, views.Summary{}, nil), codes: gates[1:],
	},
	{
		methods: "GET", path: "/api/cluster", id: "getCluster", summary: "all live daemons, each as it answers /api/summary",
		more: "They are asked in the background, at most once in 5 s: the first answer has this daemon alone, and no `as_of`." + apart,
		ok:   replyOf(200, "the live daemons, this one first", reply.ContentJSON, views.Cluster{}, nil), codes: "not_found" + gates,
	},
	{
		methods: "POST", path: "/api/segments", id: "createSegment", summary: "add a tag",
		body: views.NewTag{}, auth: true, ok: replyOf(201, "the new row", reply.ContentJSON, tagRow, nil), codes: "bad_key bad_step tag_exists max_id_low max_id_unknown " + tokens,
	},
	{
		methods: "PATCH", path: "/api/segments/{key}", id: "updateSegment", summary: "change a tag",
		body: views.TagChange{}, auth: true, ok: repliesChange, codes: "bad_key bad_step unknown_key " + tokens,
	},
	{
		methods: "DELETE", path: "/api/segments/{key}", id: "deleteSegment", summary: "remove a tag",
		auth: true, ok: repliesChange, codes: "bad_key unknown_key registry_unreachable " + tokens,
	},
	{
		methods: "GET", path: "/", id: "getRoot", summary: "the dashboard for browsers, this list for others",
		ok: []good{{200, "the list; with `Accept: text/html` the dashboard", []media{{reply.ContentText, anyText, nil}, {reply.ContentHTML, anyText, nil}}}}, codes: gates,
	},
	{
		methods: "GET", path: "/cache", id: "getCachePage", summary: "the tags in memory, for people",
		more: "The first 1000, in the Java Leaf's columns." + apart, params: []param{paramTag}, ok: repliesPage, codes: "not_found mode_disabled" + starts + gates,
	},
	{
		methods: "GET", path: "/db", id: "getTablePage", summary: "the table leaf_alloc, for people",
		more: "The first 1000, in the Java Leaf's columns." + apart, params: []param{paramTag}, ok: repliesPage, codes: "not_found mode_disabled segment_store" + starts + gates,
	},
	{
		methods: "GET", path: "/openapi.json", id: "getOpenAPI", summary: "this API as an OpenAPI 3.1 document",
		ok: replyOf(200, "the document", reply.ContentJSON, jsonObject{"type": "object"}, nil), codes: "overloaded draining",
	},
	{
		methods: "GET", path: "/healthz", id: "getHealth", summary: "200 while the process serves",
		ok: replyOf(200, "it serves", reply.ContentJSON, views.Readiness{}, jsonObject{"status": "ok"}),
	},
	{
		methods: "GET", path: "/readyz", id: "getReadiness", summary: "200 while this daemon should get requests, else 503 with the reason", params: []param{paramKind}, codes: "bad_query mode_disabled",
		more: "503 tells of this daemon's own trouble; what all share, such as the database, is 200 once it has been reached. Without `kind`, of daemons with both kinds, segment IDs count only where the data directory takes no marks. `status` is `ready`, `degraded` (200) or `not_ready` (503); `conditions` has all that is wrong, the worst first, with its cause and what to do.",
		ok: append(replyOf(200, "IDs can be issued", reply.ContentJSON, views.Readiness{}, jsonObject{"status": "ready"}),
			good{503, "not ready: the code of the worst condition", []media{{reply.ContentJSON, views.Readiness{}, nil}}}),
	},
	{
		methods: "GET", path: "/metrics", id: "getMetrics", summary: "Prometheus text format",
		more: onAdmin,
		ok: []good{{200, "the metrics, in the format that Accept prefers", []media{
			{"text/plain", anyText, nil}, {"application/openmetrics-text", anyText, nil}, {"application/vnd.google.protobuf", anyBody, nil},
		}}}, codes: "not_found overloaded draining",
	},
	{
		methods: "GET", path: "/debug/pprof/{profile}", id: "getProfile", summary: "a Go profile: heap, goroutine, profile (of processor time), trace, …",
		more: "On `--admin-listen` only.",
		params: []param{
			{"seconds", "how long profile and trace look, at most 10", positive},
			{"debug", "1 or 2 for text", jsonObject{"type": "integer", "minimum": 0}},
			{"gc", "1: collect garbage before a heap profile", jsonObject{"type": "integer", "minimum": 0}},
		},
		auth: true, ok: []good{{200, "text or a profile", []media{{"*/*", anyBody, nil}}}}, codes: "unauthorized not_found",
	},
}

// The bodies that the server writes without a type of theirs.

// typeNames are the names in the document of types that have another one here.
var typeNames = map[string]string{"ShownTag": "Tag", "ClockAnswer": "Clock", "Status": "SegmentStatus", "SpanStatus": "SegmentBuffer"}

// advice tells what to do about each error: a row of the table in docs/API.md each.
var advice = []struct{ codes, what string }{
	{"bad_key bad_count bad_query bad_id bad_request bad_step", "Fix the request."},
	{"tls_required", "The port speaks TLS: use `https://`."},
	{"unauthorized", "Send a token that may do this."},
	{"host_refused", "Ask for pages and lists by address, or set `--allow-host`."},
	{"unknown_key mode_disabled not_found", "Create the tag; see `--modes`, for slices `--lend`."},
	{"method_not_allowed request_timeout tag_exists body_too_large header_too_large", "Fix the request."},
	{"max_id_low max_id_unknown", "Give the `max_id` that the message names, or ask again once ZooKeeper answers."},
	{"rate_limited", "More than `--rate-limit`, or than the key's own of `rate-limits`: ask again after `Retry-After`."},
	{"internal", "Read leafd's log."},
	{"clock_backwards", "The clock was set back. Ask another daemon; this one resumes by itself."},
	{"clock_jumped", "The clock jumped ahead, and nothing confirms it. Ask another daemon."},
	{"time_exhausted", "This machine's clock is outside the times of the layout, which may be used up; ask another daemon, and see the alarm."},
	{"ceiling_reached", "The disk takes no ceiling; see the alarm."},
	{"lease_over", "ZooKeeper was away for the whole `--lease`; IDs resume once it answers."},
	{"worker_fenced", "Another daemon has the data directory or the worker ID. This one comes back within seconds under another worker ID; see the alarm."},
	{"clock_refused workers_closed", "Why a daemon that starts, or was fenced, has no worker ID yet; see the condition."},
	{"peers_disagree", "Readiness only: most daemons have another time; IDs are still issued."},
	{"not_ready", "Snowflake IDs are refused for a reason without a code of its own."},
	{"registry_unreachable", "ZooKeeper does not answer; daemons with a worker ID go on issuing."},
	{"segment_unavailable", "A fetch is merely slow; ask again."},
	{"segment_store", "No range is in memory, and the database gives none, or the tag's row is locked."},
	{"segment_mark", "No range is in memory, and the data directory takes no record of a new one."},
	{"segment_unguarded", "No range is in memory, and ZooKeeper, which `--segment-guard require` wants, is away."},
	{"segment_bad_row row_missing", "No range is in memory, and the tag's row can't be used, or is gone; see the condition."},
	{"overloaded", "Too many requests wait, or no slot is free to lend; ask again, or ask another daemon."},
	{"starting draining", "Ask again, or ask another daemon."},
}
