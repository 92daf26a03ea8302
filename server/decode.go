package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// decoded is the body of GET /api/snowflake/decode/{id}.
type decoded struct {
	ID         wide         `json:"id"`
	Timestamp  clock.Millis `json:"timestamp"` // ms since the Unix epoch
	Time       string       `json:"time"`      // the same, RFC 3339
	Datacenter *int64       `json:"datacenter,omitempty"`
	Worker     int64        `json:"worker"`
	Sequence   int64        `json:"sequence"`
	Layout     string       `json:"layout"`
}

// decode answers GET /api/snowflake/decode/{id}.
func (s *Server) decode(ctx *fasthttp.RequestCtx) error {
	text, _ := ctx.UserValue("id").(string)
	d, err := s.decoded(text)
	if err != nil {
		return err
	}
	return writeJSON(ctx, http.StatusOK, d)
}

// decoded returns what an ID in decimal is made of; errors as decodeID.
func (s *Server) decoded(text string) (*decoded, error) {
	id, parts, layout, err := s.decodeID(text)
	if err != nil {
		return nil, err
	}
	d := &decoded{
		ID:        wide(id),
		Timestamp: parts.Time,
		Time:      parts.Time.String(),
		Worker:    parts.Worker,
		Sequence:  parts.Sequence,
		Layout:    layout.String(),
	}
	if layout.HasDatacenter() {
		d.Datacenter = &parts.Datacenter
	}
	return d, nil
}

// decodedAsJava is what the Java Leaf answers: all strings.
type decodedAsJava struct {
	Timestamp  string `json:"timestamp"` // ms(yyyy-MM-dd HH:mm:ss.SSS), local time
	SequenceID string `json:"sequenceId"`
	WorkerID   string `json:"workerId"`
}

// javaDecodeError is the Java Leaf's answer, with 200, to an ID that can't be decoded.
const javaDecodeError = `{"errorMsg":"snowflake Id反解析发生异常!"}`

// decodeAsJava answers GET /decodeSnowflakeId as the Java Leaf does.
func (s *Server) decodeAsJava(ctx *fasthttp.RequestCtx) error {
	_, parts, layout, err := s.decodeID(strings.TrimSpace(string(ctx.QueryArgs().Peek("snowflakeId"))))
	if err != nil && answerTo(err).code == errBadID.code {
		noStore(&ctx.Response, contentJSON)
		ctx.SetBodyString(javaDecodeError)
		return nil
	}
	if err != nil {
		return err
	}
	ms := strconv.FormatInt(int64(parts.Time), 10)
	return writeJSON(ctx, http.StatusOK, decodedAsJava{
		Timestamp:  ms + "(" + parts.Time.Time().In(s.cfg.Location).Format("2006-01-02 15:04:05.000") + ")",
		SequenceID: strconv.FormatInt(parts.Sequence, 10),
		// The Java Leaf has no datacenter: its ten bits are the worker's.
		WorkerID: strconv.FormatInt(parts.Datacenter<<layout.WorkerBits|parts.Worker, 10),
	})
}

// decodeID decodes an ID in decimal. It returns errBadID, errModeDisabled, errStarting
// or errDraining.
func (s *Server) decodeID(text string) (int64, snowflake.Parts, snowflake.Layout, error) {
	b, err := s.ready()
	if err != nil {
		return 0, snowflake.Parts{}, snowflake.Layout{}, err
	}
	if b.Layout == (snowflake.Layout{}) {
		return 0, snowflake.Parts{}, snowflake.Layout{}, errModeDisabled
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] < '0' { // no ID is printed with a sign
		return 0, snowflake.Parts{}, snowflake.Layout{}, errBadID.with("a snowflake ID is a decimal number from 0 to 9223372036854775807")
	}
	parts, err := b.Layout.Decode(id)
	return id, parts, b.Layout, err
}
