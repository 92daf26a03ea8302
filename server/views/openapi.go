package views

import (
	"bytes"
	_ "embed"

	"github.com/leafd/leafd/server/reply"

	"github.com/valyala/fasthttp"
)

// The description of the HTTP API, and the list of its paths that GET / answers. `make api`
// writes both, and the lists of docs/API.md, from the operations in api_test.go; each
// answer of this package's tests is held against the document.
var (
	//go:embed api/openapi.json
	openapiFile []byte
	//go:embed api/endpoints.txt
	endpoints string
)

// openapiOf returns the OpenAPI document of a daemon.
func openapiOf(version string) []byte {
	return bytes.Replace(openapiFile, []byte(`"version": "unreleased"`), []byte(`"version": `+reply.QuoteJSON(version)), 1)
}

// serveOpenAPI answers GET /openapi.json. Like health it is for every Host: it tells nothing
// of this daemon but its version.
func (s *Server) serveOpenAPI(ctx *fasthttp.RequestCtx) error {
	return s.answerReady(ctx, reply.ContentJSON, s.openapi)
}
