package server

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leafd/leafd/server/reply"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// documented is the document that leafd serves, for readAnswer.
var documented = newContract()

// embedded returns a file that package views has in it.
func embedded(name string) []byte {
	text, err := os.ReadFile("views/" + name)
	if err != nil {
		panic(err)
	}
	return text
}

// contract holds answers against an OpenAPI document.
type contract struct {
	doc    any
	paths  map[string]map[string]any
	match  map[string]*regexp.Regexp // by path
	status map[string]int            // by code

	mu       sync.Mutex
	compiler *jsonschema.Compiler          // mu protects
	schemas  map[string]*jsonschema.Schema // mu protects; by pointer
}

func newContract() *contract {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(embedded("api/openapi.json"))))
	if err != nil {
		panic(err)
	}
	// Clients have to take members that a later version adds; this version has no other
	// members than those that it documents.
	closeObjects(doc)
	c := &contract{
		doc: doc, paths: make(map[string]map[string]any), match: make(map[string]*regexp.Regexp), status: make(map[string]int),
		compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema),
	}
	for _, e := range reply.All() {
		c.status[e.Code] = e.Status
	}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource("leafd.json", doc); err != nil {
		panic(err)
	}
	paths, _ := member(doc, "paths").(jsonObject)
	for path, item := range paths {
		c.paths[path], _ = item.(jsonObject)
		segment := "[^/]+"
		if strings.HasPrefix(path, snowflakePrefix) || strings.HasPrefix(path, segmentPrefix) {
			segment = "[^/]*" // no key is a bad one
		}
		c.match[path] = regexp.MustCompile("^" + pathParam.ReplaceAllString(path, segment) + "/?$")
	}
	return c
}

func closeObjects(v any) {
	switch v := v.(type) {
	case jsonObject:
		if v["type"] == "object" && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, m := range v {
			closeObjects(m)
		}
	case []any:
		for _, m := range v {
			closeObjects(m)
		}
	}
}

// member follows names from object to object; nil where one has no such member.
func member(v any, names ...string) any {
	for _, name := range names {
		o, _ := v.(jsonObject)
		v = o[name]
	}
	return v
}

// schema returns the schema at a place of the document.
func (c *contract) schema(t testing.TB, pointer ...string) *jsonschema.Schema {
	t.Helper()
	var fragment strings.Builder
	for _, name := range pointer {
		fragment.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.schemas[fragment.String()]
	if s == nil {
		var err error
		s, err = c.compiler.Compile("leafd.json#" + fragment.String())
		require.NoError(t, err)
		c.schemas[fragment.String()] = s
	}
	return s
}

// check returns what is wrong with the answer to a request: a path, status, header, content type
// or body that the document hasn't. An empty target is a request that the test doesn't
// know: the answer has to be one that some operation gives.
func (c *contract) check(t testing.TB, method, target string, a answer) error {
	if method == http.MethodOptions && a.status == http.StatusNoContent {
		return nil // as info says
	}
	if target == "" {
		var err error
		for path, item := range c.paths {
			for m := range item {
				if err = c.response(t, a, false, c.answerTo(path, m, a)...); err == nil {
					return nil
				}
			}
		}
		return err
	}
	path := c.pathOf(target)
	head := method == http.MethodHead
	asked := strings.ToLower(strings.Replace(method, http.MethodHead, http.MethodGet, 1))
	switch {
	case path == "" && a.status == http.StatusNotFound:
		return c.response(t, a, head, "components", "responses", "OtherPath")
	case path == "":
		return c.response(t, a, head, "components", "responses", "AnyRequest")
	case c.paths[path][asked] == nil && a.status == http.StatusMethodNotAllowed:
		return c.response(t, a, head, "components", "responses", "OtherMethod")
	case c.paths[path][asked] == nil:
		return c.response(t, a, head, "components", "responses", "AnyRequest")
	}
	return c.response(t, a, head, c.answerTo(path, asked, a)...)
}

// answerTo points to the response that an operation has for the status of an answer.
func (c *contract) answerTo(path, method string, a answer) []string {
	status := strconv.Itoa(a.status)
	if member(c.paths[path][method], "responses", status) == nil {
		status = "default"
	}
	return []string{"paths", path, method, "responses", status}
}

// response holds an answer against the response that pointer points to.
func (c *contract) response(t testing.TB, a answer, head bool, pointer ...string) error {
	follow := func(pointer []string) []string {
		if ref, ok := member(c.doc, append(pointer, "$ref")...).(string); ok {
			return strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		}
		return pointer
	}
	pointer = follow(pointer)
	under := func(names ...string) []string { return append(slices.Clone(pointer), names...) }
	headers, _ := member(c.doc, under("headers")...).(jsonObject)
	for name := range headers {
		if err := c.schema(t, append(follow(under("headers", name)), "schema")...).Validate(a.header.Get(name)); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	content, _ := member(c.doc, under("content")...).(jsonObject)
	if content == nil {
		if a.body != "" {
			return fmt.Errorf("%v: no body is documented: %q", pointer, a.body)
		}
		return nil
	}
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if content[kind] == nil && content["*/*"] == nil {
		return fmt.Errorf("%v: the content type %q is not documented", pointer, kind)
	}
	if head || content["*/*"] != nil {
		return nil
	}
	var body any = a.body
	if kind == reply.ContentJSON {
		var err error
		if body, err = jsonschema.UnmarshalJSON(strings.NewReader(a.body)); err != nil {
			return err
		}
		if code, ok := member(body, "code").(string); ok && c.status[code] != a.status {
			return fmt.Errorf("%s has the status %d", code, c.status[code])
		}
	}
	return c.schema(t, under("content", kind, "schema")...).Validate(body)
}

// pathOf returns the path of the document that a target is of; empty: none.
func (c *contract) pathOf(target string) string {
	var u fasthttp.URI
	if err := u.Parse(nil, []byte(target)); err != nil {
		return ""
	}
	found := ""
	for path, match := range c.match {
		if match.Match(u.PathOriginal()) || match.Match(u.Path()) {
			if found == "" || strings.Contains(found, "{") { // the literal one comes first
				found = path
			}
		}
	}
	return found
}
