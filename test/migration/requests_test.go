package migration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// How a Java Leaf and leafd differ: the first cells of the table in docs/MIGRATION.md.
const (
	same       = ""
	methods    = "an ID by other methods than GET and POST"
	counts     = "an ID with `n` or `as` in the query"
	accepted   = "an answer with an `Accept` for pages, pictures, junk"
	dots       = "a dot in the last part: `/api/segment/get/a.b`, `/cache.html`"
	dotted     = "`/./` or `/../` in the path, or `%61pi` for `api`"
	parameters = "`;` in the path: `/api/…/get/x;jsessionid=1`"
	unescaped  = "`\"`, `<`, `{`, `[`, `^`, `#` or bytes beyond ASCII as they are; `%2F`, `%5C`; the keys `.`, `..`"
	strange    = "a snowflake key of over 128 bytes, or not of UTF-8"
	modeOff    = "an ID of a kind that is off"
	failure    = "a failure"
	decode     = "`/decodeSnowflakeId` without an ID, with a sign, with two"
	pages      = "`/cache`, `/db`"
	queries    = "`/decodeSnowflakeId`, `/cache`, `/db` with another parameter"
	posts      = "the same by other methods than GET and HEAD"
)

const (
	order = " /api/segment/get/order"
	flake = "GET /api/snowflake/get/"
	form  = "\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 13\n\nsnowflakeId=1"
)

// requests are what a Java Leaf and leafd are asked, and their answers in words; leafd's is empty where it is the
// same. Both have the tags order, a and a.b, and a thousand more. "off: " is for two whose kinds of IDs are off.
var requests = []struct{ ask, java, leafd, differs string }{
	{flake + "x", "200 an ID", "", same},
	{flake + "%E8%AE%A2", "200 an ID", "", same},
	{flake + "order.json/", "200 an ID", "", same},
	{"GET" + order, "200 an ID of order", "", same},
	{"GET" + order + "/", "200 an ID of order", "", same},
	{"GET //api//segment///get//order//?x=1", "200 an ID of order", "", same},
	{"GET" + order + "?", "200 an ID of order", "", same},
	{"GET" + order + "?x=%zz&&=", "200 an ID of order", "", same},
	{"GET /api/segment/get/%6frder", "200 an ID of order", "", same},
	{"GET /api/segment/get/a.b/", "200 an ID of a.b", "", same},
	{"GET http://localhost" + order[1:], "200 an ID of order", "", same},
	{"GET" + order + "\nAccept: */*", "200 an ID of order", "", same},
	{"GET" + order + "\nAccept: application/json", "200 an ID of order as application/json", "", same},
	{"POST" + order + "\nContent-Length: 3\n\nn=2", "200 an ID of order", "", same},

	{"HEAD" + order, "200, an ID used", "200", methods},
	{"PUT" + order + "\nContent-Length: 0", "200 an ID of order", "405 method_not_allowed", methods},
	{"DELETE" + order, "200 an ID of order", "405 method_not_allowed", methods},
	{"get" + order, "200 an ID of order", "405 method_not_allowed", methods},
	{"OPTIONS" + order, "200", "204", methods},
	{"TRACE" + order, "405", "405 method_not_allowed", methods},

	{"GET" + order + "?n=3", "200 an ID of order", "200 3 lines, 3 IDs used", counts},
	{"GET" + order + "?n=3&as=ranges", "200 an ID of order", "200 1 lines, 3 IDs used", counts},
	{"GET" + order + "?as=ranges", "200 an ID of order", "400 bad_count", counts},
	{"GET" + order + "?n=0", "200 an ID of order", "400 bad_count", counts},
	{"GET" + order + "?n=2&x=1", "200 an ID of order", "400 bad_query", counts},

	{"GET" + order + "\nAccept: text/html", "200 an ID of order as text/html", "200 an ID of order", accepted},
	{"GET" + order + "\nAccept: image/png", "200 an ID of order as image/png", "200 an ID of order", accepted},
	{"GET" + order + "\nAccept: junk", "406, an ID used", "200 an ID of order", accepted},
	{"GET /decodeSnowflakeId?snowflakeId=1\nAccept: text/html", "406 a page", "200 decoded", accepted},

	{"GET /api/segment/get/a.b", "200 an ID of a", "200 an ID of a.b", dots},
	{"GET" + order + ".json", "200 an ID of order as application/json", "404 unknown_key", dots},
	{"GET" + order + ".", "200 an ID of order", "404 unknown_key", dots},
	{flake + "x.xml", "200 an ID as application/xml", "200 an ID", dots},
	{"GET /decodeSnowflakeId.json?snowflakeId=1", "200 decoded", "404 not_found", dots},
	{"GET /cache.html", "200 all tags", "404 not_found", dots},

	{"GET /./api/segment/get/order", "200 an ID of order", "404 not_found", dotted},
	{"GET /api/./segment/get/order", "200 an ID of order", "404 not_found", dotted},
	{"GET /api/segment/get/x/../order", "200 an ID of order", "404 not_found", dotted},
	{"GET /%61pi/segment/get/order", "200 an ID of order", "404 not_found", dotted},

	{"GET" + order + ";jsessionid=1", "200 an ID of order", "404 unknown_key", parameters},
	{"GET /api;x/segment/get/order", "200 an ID of order", "404 not_found", parameters},
	{flake + ";x", "404 Spring", "200 an ID", parameters},

	{flake + "a\"b", "400", "200 an ID", unescaped},
	{flake + "a<b", "400", "200 an ID", unescaped},
	{flake + "a{b}", "400", "200 an ID", unescaped},
	{flake + "a[b]", "400", "200 an ID", unescaped},
	{flake + "a^b", "400", "200 an ID", unescaped},
	{flake + "x?{}", "400", "200 an ID", unescaped},
	{flake + "订单", "400", "200 an ID", unescaped},
	{"GET" + order + "#x", "400", "200 an ID of order", unescaped},
	{flake + "a%2Fb", "400", "200 an ID", unescaped},
	{flake + "a%5Cb", "400", "200 an ID", unescaped},
	{flake + ".", "404 Spring", "200 an ID", unescaped},
	{flake + "%2e%2e", "404 Spring", "200 an ID", unescaped},

	{flake + strings.Repeat("k", 129), "200 an ID", "400 bad_key", strange},
	{flake + "%ff", "200 an ID", "400 bad_key", strange},

	{"off: " + flake + "x", "200 0", "404 mode_disabled", modeOff},
	{"off: GET" + order, "200 0", "404 mode_disabled", modeOff},

	{"GET /api/segment/get/nosuch", "500 Spring", "404 unknown_key", failure},
	{"GET /api/segment/get/nosuch\nAccept: text/html", "500 a page", "404 unknown_key", failure},
	{"GET /api/segment/get/ORDER", "500 Spring", "404 unknown_key", failure},
	{"GET /api/segment/get/" + strings.Repeat("k", 129), "500 Spring", "400 bad_key", failure},
	{"GET /api/segment/get", "404 Spring", "404 not_found", failure},
	{"GET /api/segment/get/", "404 Spring", "400 bad_key", failure},
	{"GET" + order + "/x", "404 Spring", "404 not_found", failure},
	{"GET /API/segment/get/order", "404 Spring", "404 not_found", failure},
	{"GET /../api/segment/get/order", "400", "404 not_found", failure},
	{flake + "%zz", "400", "400 bad_key", failure},
	{flake + "%00", "400", "400 bad_key", failure},
	{flake + "%0A", "404 Spring", "400 bad_key", failure},
	{"off: GET /db", "500 Spring", "404 mode_disabled", failure},

	{"GET /decodeSnowflakeId?snowflakeId=1234567890123456789", "200 decoded", "", same},
	{"GET /decodeSnowflakeId/?snowflakeId=9223372036854775807", "200 decoded", "", same},
	{"GET /decodeSnowflakeId?snowflakeId=001", "200 decoded", "", same},
	{"HEAD /decodeSnowflakeId?snowflakeId=1", "200", "", same},
	{"GET /decodeSnowflakeId?snowflakeId=", "200 errorMsg", "", same},
	{"GET /decodeSnowflakeId?snowflakeId=x", "200 errorMsg", "", same},
	{"GET /decodeSnowflakeId?snowflakeId=+1", "200 errorMsg", "", same},
	{"GET /decodeSnowflakeId?snowflakeId=9223372036854775808", "200 errorMsg", "", same},
	{"GET /decodeSnowflakeId", "400 Spring", "200 errorMsg", decode},
	{"GET /decodeSnowflakeId?snowflakeId=-1", "200 decoded", "200 errorMsg", decode},
	{"GET /decodeSnowflakeId?snowflakeId=%2B1", "200 decoded", "200 errorMsg", decode},
	{"GET /decodeSnowflakeId?snowflakeId=1&snowflakeId=2", "200 errorMsg", "200 decoded", decode},

	{"GET /cache", "200 all tags", "200 2 tags", pages},
	{"GET /cache/", "200 all tags", "200 2 tags", pages},
	{"GET /db", "200 all tags", "200 1000 tags", pages},
	{"GET /db?tag=Ord", "200 all tags", "200 1 tags", pages},
	{"HEAD /db", "200", "", same},

	{"GET /decodeSnowflakeId?snowflakeId=1&x=2", "200 decoded", "400 bad_query", queries},
	{"GET /db?x=1", "200 all tags", "400 bad_query", queries},
	{"POST /decodeSnowflakeId" + form, "200 decoded", "405 method_not_allowed", posts},
	{"PUT /cache\nContent-Length: 0", "200 all tags", "405 method_not_allowed", posts},
}

// Each row of the table in docs/MIGRATION.md has a request by which it is held, and each difference a row.
func TestDifferences(t *testing.T) {
	page, err := os.ReadFile("../../docs/MIGRATION.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| .* \| .* \|$`).FindAllStringSubmatch(table, -1) {
		rows[row[1]] = true
	}
	require.Len(t, rows, strings.Count(table, "\n")+1)
	asked := map[string]bool{}
	for _, r := range requests {
		if r.differs != same {
			asked[r.differs] = true
		}
		require.Equal(t, r.differs == same, r.leafd == "", r.ask)
		require.NotEqual(t, r.java, r.leafd, r.ask)
	}
	require.Equal(t, rows, asked)
}
