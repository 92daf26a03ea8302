package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
)

// writeAPI is set by `make api`.
const writeAPI = "LEAFDTEST_WRITE_API"

// TestAPIIsCurrent compares the document, the list of GET / and the lists of docs/API.md
// with what operations make them.
func TestAPIIsCurrent(t *testing.T) {
	doc, err := json.MarshalIndent(openapiDocument(t), "", " ")
	require.NoError(t, err)
	doc = shortList.ReplaceAllFunc(doc, func(lines []byte) []byte { return lineBreak.ReplaceAll(lines, nil) })
	page, err := os.ReadFile("../docs/API.md")
	require.NoError(t, err)
	for block, table := range map[string]string{"requests": requestList(), "parameters": parameterList(), "errors": errorList(t)} {
		begin, end := "<!-- "+block+": written by make api -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(string(page), begin)
		require.True(t, ok, "docs/API.md has no %s", begin)
		_, rest, ok = strings.Cut(rest, end)
		require.True(t, ok)
		page = []byte(before + begin + table + end + rest)
	}
	for path, want := range map[string][]byte{"views/api/openapi.json": append(doc, '\n'), "views/api/endpoints.txt": []byte(endpointList()), "../docs/API.md": page} {
		if os.Getenv(writeAPI) != "" {
			require.NoError(t, os.WriteFile(path, want, 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is not what the operations in api_test.go and the types of the bodies make it: run make api", path)
	}
}

// Lists of texts, and references, are on one line.
var (
	shortList = regexp.MustCompile(`\[\s+"[^"\]]*"(,\s+"[^"\]]*")*\s+\]|\{\s+"\$ref": "[^"]*"\s+\}`)
	lineBreak = regexp.MustCompile(`\n\s*`)
)

// TestOpenAPIDocument holds the document that is served to the schema of OpenAPI 3.1, which is
// as the OpenAPI Initiative publishes it (2022-10-07, Apache-2.0), and its examples to theirs.
func TestOpenAPIDocument(t *testing.T) {
	r := start(t, func(c *Config) { c.AdminApart = true })
	a := r.get("/openapi.json", "Host: somebody.example")
	require.Equal(t, 200, a.status)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(a.body))
	require.NoError(t, err)
	require.NoError(t, jsonschema.NewCompiler().MustCompile("testdata/openapi-3.1.json").Validate(doc))
	info, _ := member(doc, "info").(jsonObject)
	require.Equal(t, "1.2.3", info["version"])

	examples := 0
	for path, item := range documented.paths {
		for method, op := range item {
			for status, response := range member(op, "responses").(jsonObject) {
				content, _ := member(response, "content").(jsonObject)
				for kind, m := range content {
					pointer := []string{"paths", path, method, "responses", status, "content", kind, "schema"}
					schema := documented.schema(t, pointer...) // every one compiles
					if example := member(m, "example"); example != nil {
						examples++
						require.NoError(t, schema.Validate(example), pointer)
					}
				}
			}
		}
	}
	require.Greater(t, examples, 5)
}

// TestEachRouteIsAnOperation: no route without an operation, and none without a route.
func TestEachRouteIsAnOperation(t *testing.T) {
	s, err := New(func() Config { c := testConfig(t.Output()); c.AdminApart = true; return c }())
	require.NoError(t, err)
	routed := []string{"GET " + snowflakePrefix + "{key}", "POST " + snowflakePrefix + "{key}", "GET " + segmentPrefix + "{key}", "POST " + segmentPrefix + "{key}"}
	for surface := range conn.Surface(conn.Surfaces) {
		for method, paths := range s.views.Routes(surface).List() {
			for _, path := range paths {
				if method != "HEAD" {
					routed = append(routed, method+" "+path)
				}
			}
		}
	}
	var listed []string
	for _, op := range operations {
		for method := range strings.FieldsSeq(op.methods) {
			listed = append(listed, method+" "+op.path)
		}
	}
	slices.Sort(routed)
	slices.Sort(listed)
	require.Equal(t, slices.Compact(routed), listed)
}

// statusOf returns the status of each code.
func statusOf(t testing.TB) map[string]int {
	all := make(map[string]int)
	for _, e := range reply.All() {
		if status := all[e.Code]; status != 0 {
			require.Equal(t, status, e.Status, e.Code)
		}
		all[e.Code] = e.Status
	}
	return all
}

// openapiDocument makes the document of operations.
func openapiDocument(t testing.TB) any {
	status := statusOf(t)
	d := documenter{t: t, comments: commentsOf(t, "views", "ids", "../segment"), schemas: jsonObject{}, status: status}
	var codes []any
	for _, a := range advice {
		for code := range strings.FieldsSeq(a.codes) {
			require.NotZero(t, status[code], code)
			codes = append(codes, jsonObject{"const": code, "description": a.what})
		}
	}
	require.Len(t, codes, len(status), "each code has its advice")
	d.schemas["Error"] = jsonObject{
		"type": "object", "required": []string{"code", "message"},
		"properties": jsonObject{
			"code":    jsonObject{"type": "string", "oneOf": codes, "description": "stable: compare it"},
			"message": jsonObject{"type": "string", "description": "for people: it may change"},
		},
	}
	paths := jsonObject{}
	for _, op := range operations {
		item, _ := paths[op.path].(jsonObject)
		if item == nil {
			item = jsonObject{}
			paths[op.path] = item
		}
		for i, method := range strings.Fields(op.methods) {
			id := op.id
			if i > 0 {
				id += "By" + strings.ToUpper(method[:1]) + strings.ToLower(method[1:])
			}
			item[strings.ToLower(method)] = d.operation(op, id)
		}
	}
	header := func(description, pattern string) jsonObject {
		return jsonObject{"description": description, "required": true, "schema": jsonObject{"type": "string", "pattern": pattern}}
	}
	return struct {
		OpenAPI    string       `json:"openapi"`
		Info       jsonObject   `json:"info"`
		Servers    []jsonObject `json:"servers"`
		Paths      jsonObject   `json:"paths"`
		Components jsonObject   `json:"components"`
	}{
		"3.1.0",
		jsonObject{
			"title": "leafd", "version": "unreleased", "license": jsonObject{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "leafd hands out 64-bit IDs. What needs the admin token, `/metrics` and `/debug/pprof` are on the admin surface only where there is one (`--admin-listen`). " +
				"HEAD is answered as GET is, without a body, and uses no ID; OPTIONS with 204. A method that a path does not take gets 405 `method_not_allowed`, another path " +
				"404 `not_found`. The `default` of an operation is for what can be answered to any: a request that cannot be read whole, too many connections, a failure. " +
				"Numbers that may exceed 2^53, where JavaScript's end, are strings, but for one ID alone in JSON, which is the bare number that the Java Leaf answers. " +
				"Objects may get further members, and errors further codes. A `traceparent` (W3C Trace Context) is logged with errors.",
		},
		[]jsonObject{{"url": "/"}},
		paths,
		jsonObject{
			"schemas": d.schemas,
			"responses": jsonObject{
				"AnyRequest":  d.failure(strings.Fields(commonCodes)),
				"OtherPath":   d.failure([]string{"not_found"}),
				"OtherMethod": d.failure([]string{"method_not_allowed"}),
			},
			"headers": jsonObject{
				"RetryAfter":   header("seconds until it is of use to ask again", "^[1-9][0-9]*$"),
				"NoStore":      header("a cached ID would be a duplicate", "^no-store$"),
				"Authenticate": header("the scheme of tokens", "^Bearer$"),
				"Allow":        header("the methods of this path", "."),
			},
			"securitySchemes": jsonObject{"adminToken": jsonObject{"type": "http", "scheme": "bearer", "description": "the token of `--admin-token-file`, or a caller's of `--tokens-file`"}, "callerToken": jsonObject{"type": "http", "scheme": "bearer", "description": "a caller's token of `--tokens-file`, where there is one"}},
		},
	}
}

// errors returns the codes of op, each once.
func (op operation) errors() (all []string) {
	for code := range strings.FieldsSeq(op.codes) {
		if !slices.Contains(all, code) {
			all = append(all, code)
		}
	}
	return all
}

// documenter makes parts of the document.
type documenter struct {
	t        testing.TB
	comments map[string]string
	schemas  jsonObject
	status   map[string]int
}

func (d *documenter) operation(op operation, id string) jsonObject {
	o := jsonObject{"operationId": id, "summary": op.summary, "responses": d.responses(op)}
	if op.more != "" {
		o["description"] = op.more
	}
	var params []jsonObject
	for _, name := range pathParam.FindAllStringSubmatch(op.path, -1) {
		params = append(params, jsonObject{"name": name[1], "in": "path", "required": true, "description": pathParams[name[1]], "schema": anyText})
	}
	for _, p := range op.params {
		params = append(params, jsonObject{"name": p.name, "in": "query", "description": p.what, "schema": p.schema})
	}
	if params != nil {
		o["parameters"] = params
	}
	if op.body != nil {
		o["requestBody"] = jsonObject{"required": true, "content": jsonObject{reply.ContentJSON: jsonObject{"schema": d.schema(op.body)}}}
	}
	if op.auth {
		o["security"] = []jsonObject{{"adminToken": []string{}}}
	} else if strings.Contains(op.codes, "unauthorized") {
		o["security"] = []jsonObject{{}, {"callerToken": []string{}}}
	}
	return o
}

var (
	pathParam  = regexp.MustCompile(`\{(\w+)\}`)
	pathParams = map[string]string{
		"key": "1 to 128 characters (a snowflake key: bytes) of UTF-8 without control characters, percent-encoded where needed",
		"id":  "an ID in decimal", "profile": "its name",
	}
)

func (d *documenter) responses(op operation) jsonObject {
	all := jsonObject{"default": jsonObject{"$ref": "#/components/responses/AnyRequest"}}
	byStatus := make(map[int][]string)
	for _, code := range op.errors() {
		require.NotZero(d.t, d.status[code], code)
		byStatus[d.status[code]] = append(byStatus[d.status[code]], code)
	}
	for code := range strings.FieldsSeq(commonCodes) {
		if own := byStatus[d.status[code]]; own != nil && !slices.Contains(own, code) {
			byStatus[d.status[code]] = append(own, code)
		}
	}
	for status, codes := range byStatus {
		all[strconv.Itoa(status)] = d.failure(codes)
	}
	for _, r := range op.ok {
		o := jsonObject{"description": r.what}
		content := jsonObject{}
		for _, m := range r.content {
			entry := jsonObject{"schema": d.schema(m.body)}
			if m.example != nil {
				entry["example"] = m.example
			}
			kind, _, _ := strings.Cut(m.kind, ";")
			content[kind] = entry
		}
		if len(content) > 0 {
			o["content"] = content
			o["headers"] = d.headers(r.status)
		}
		all[strconv.Itoa(r.status)] = o
	}
	return all
}

// failure is the response with one of codes. Where these have several statuses, only headers
// of all of them are required.
func (d *documenter) failure(codes []string) jsonObject {
	statuses := make(map[int]bool)
	for _, code := range codes {
		statuses[d.status[code]] = true
	}
	status := 0
	if len(statuses) == 1 {
		status = d.status[codes[0]]
	}
	return jsonObject{
		"description": "`" + strings.Join(codes, "`, `") + "`", "headers": d.headers(status),
		"content": jsonObject{reply.ContentJSON: jsonObject{"schema": jsonObject{
			"$ref": "#/components/schemas/Error", "properties": jsonObject{"code": jsonObject{"enum": codes}},
		}}},
	}
}

func (*documenter) headers(status int) jsonObject {
	all := jsonObject{"Cache-Control": jsonObject{"$ref": "#/components/headers/NoStore"}}
	switch status {
	case 401:
		all["WWW-Authenticate"] = jsonObject{"$ref": "#/components/headers/Authenticate"}
	case 405:
		all["Allow"] = jsonObject{"$ref": "#/components/headers/Allow"}
	case 429, 503:
		all["Retry-After"] = jsonObject{"$ref": "#/components/headers/RetryAfter"}
	}
	return all
}

// schema returns the schema of a body: a jsonObject that is one, but for the values in its
// oneOf, or a value of the body's type.
func (d *documenter) schema(body any) any {
	o, ok := body.(jsonObject)
	if !ok {
		return d.typed(reflect.TypeOf(body))
	}
	choices, ok := o["oneOf"].([]any)
	if !ok {
		return o
	}
	o = maps.Clone(o)
	var all []any
	for _, c := range choices {
		all = append(all, d.schema(c))
	}
	o["oneOf"] = all
	return o
}

var int64Text = jsonObject{"type": "string", "pattern": "^-?[0-9]+$"}

// typed returns the schema of a type as encoding/json writes it. A struct is among the
// components; its fields are described by their comments.
func (d *documenter) typed(t reflect.Type) jsonObject {
	switch t {
	case reflect.TypeFor[reply.Wide]():
		return int64Text
	case reflect.TypeFor[reply.Milliseconds]():
		return jsonObject{"type": "number"}
	case reflect.TypeFor[clock.Millis]():
		return jsonObject{"type": "integer", "format": "int64"}
	case reflect.TypeFor[time.Time]():
		return jsonObject{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.typed(t.Elem())
	case reflect.Slice:
		return jsonObject{"type": "array", "items": d.typed(t.Elem())}
	case reflect.Map:
		return jsonObject{"type": "object", "additionalProperties": d.typed(t.Elem())}
	case reflect.Struct:
		return d.object(t)
	case reflect.String:
		return jsonObject{"type": "string"}
	case reflect.Bool:
		return jsonObject{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return jsonObject{"type": "integer"}
	case reflect.Float64:
		return jsonObject{"type": "number"}
	default:
		d.t.Fatalf("a body has a %s", t)
		return nil
	}
}

func (d *documenter) object(t reflect.Type) jsonObject {
	name := cmp.Or(typeNames[t.Name()], t.Name())
	ref := jsonObject{"$ref": "#/components/schemas/" + name}
	if d.schemas[name] != nil {
		return ref
	}
	words := map[string]string{"nil": "absent", t.Name(): name} // of the comments, as the document calls them
	for f := range t.Fields() {
		jsonName, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		words[f.Name] = "`" + jsonName + "`"
	}
	said := func(comment string) string {
		return aWord.ReplaceAllStringFunc(comment, func(word string) string { return cmp.Or(words[word], word) })
	}
	properties, required := jsonObject{}, []string{}
	d.schemas[name] = jsonObject{"type": "object", "properties": properties, "description": said(d.comments[t.Name()])}
	for f := range t.Fields() {
		jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if jsonName == "-" {
			continue
		}
		s := maps.Clone(d.typed(f.Type))
		if strings.Contains(options, "string") {
			s = maps.Clone(int64Text)
		}
		if comment := d.comments[t.Name()+"."+f.Name]; comment != "" {
			s["description"] = said(comment)
		}
		properties[jsonName] = s
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			required = append(required, jsonName)
		}
	}
	if len(required) > 0 {
		d.schemas[name].(jsonObject)["required"] = required
	}
	return ref
}

var aWord = regexp.MustCompile(`\w+`)

// commentsOf returns the comments of the types of the packages in dirs, by Type and by
// Type.Field.
func commentsOf(t testing.TB, dirs ...string) map[string]string {
	all := make(map[string]string)
	oneLine := func(groups ...*ast.CommentGroup) string {
		var text string
		for _, g := range groups {
			text += " " + g.Text()
		}
		return strings.Join(strings.Fields(text), " ")
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, path := range files {
			file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				decl, ok := n.(*ast.GenDecl)
				if !ok || len(decl.Specs) != 1 {
					return true
				}
				spec, ok := decl.Specs[0].(*ast.TypeSpec)
				if !ok {
					return false
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					all[spec.Name.Name] = oneLine(decl.Doc)
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							all[spec.Name.Name+"."+name.Name] = oneLine(f.Doc, f.Comment)
						}
					}
				}
				return false
			})
		}
	}
	return all
}

// endpointList is what GET / answers.
func endpointList() string {
	var b strings.Builder
	b.WriteString("leafd\n\n")
	for _, op := range operations {
		if strings.HasPrefix(op.path, "/debug/") {
			continue
		}
		method, _, _ := strings.Cut(op.methods, " ")
		needs := ""
		if op.auth {
			needs = " (admin token)"
		}
		fmt.Fprintf(&b, "%-6s %-33s %s%s\n", method, op.path, op.summary, needs)
	}
	return b.String()
}

func requestList() string {
	var b strings.Builder
	for _, op := range operations {
		text := op.summary
		if op.more != "" {
			text += ". " + strings.TrimSuffix(strings.ReplaceAll(op.more, onAdmin, "*Admin surface.*"), ".")
		}
		if op.auth {
			text += "; with the admin token"
		}
		fmt.Fprintf(&b, "- `%s %s`: %s\n", strings.ReplaceAll(op.methods, " ", ", "), op.path, text)
	}
	fmt.Fprintf(&b, "\nAny request may also get `%s`.\n",
		strings.Join(strings.Fields(commonCodes), "`, `"))
	return b.String()
}

// parameterList has a line for each parameter, and names the paths that have it.
func parameterList() string {
	var lines []string
	paths := map[string][]string{}
	for _, op := range operations {
		for _, p := range op.params {
			line := fmt.Sprintf("`%s`: %s", p.name, p.what)
			if paths[line] == nil {
				lines = append(lines, line)
			}
			paths[line] = append(paths[line], "`"+op.path+"`")
		}
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "- %s (%s)\n", line, strings.Join(paths[line], ", "))
	}
	return b.String()
}

func errorList(t testing.TB) string {
	status := statusOf(t)
	var b strings.Builder
	for _, a := range advice {
		codes := strings.Fields(a.codes)
		var statuses []string
		for _, code := range codes {
			statuses = append(statuses, strconv.Itoa(status[code]))
		}
		fmt.Fprintf(&b, "- %s `%s`: %s\n", strings.Join(slices.Compact(statuses), ", "), strings.Join(codes, "`, `"), a.what)
	}
	return b.String()
}
