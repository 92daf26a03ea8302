package ids

import (
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/snowflake"
)

// Decoded is what an ID is made of: the body of GET /api/snowflake/decode/{id}.
type Decoded struct {
	ID         reply.Wide   `json:"id"`
	Timestamp  clock.Millis `json:"timestamp"` // ms since the Unix epoch
	Time       string       `json:"time"`      // the same, RFC 3339
	Datacenter *int64       `json:"datacenter,omitempty"`
	Worker     int64        `json:"worker"`
	Sequence   int64        `json:"sequence"`
	Layout     string       `json:"layout"`
}

// Decode returns what an ID in decimal is made of under layout. It returns reply.ErrBadID if text is no ID,
// and snowflake.ErrBadID if the layout has none such.
func Decode(text string, layout snowflake.Layout) (Decoded, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] < '0' { // no ID is printed with a sign
		return Decoded{}, reply.ErrBadID.With("a snowflake ID is a decimal number from 0 to 9223372036854775807")
	}
	parts, err := layout.Decode(id)
	if err != nil {
		return Decoded{}, err
	}
	d := Decoded{
		ID:        reply.Wide(id),
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

// decoded decodes an ID in decimal by the layout that it also returns: errors as Decode, reply.ErrModeDisabled,
// reply.ErrStarting or reply.ErrDraining.
func (s *Server) decoded(text string) (Decoded, snowflake.Layout, error) {
	b := s.backend.Load()
	if b == nil {
		return Decoded{}, snowflake.Layout{}, s.NotStarted()
	}
	if b.Layout == (snowflake.Layout{}) {
		return Decoded{}, snowflake.Layout{}, reply.ErrModeDisabled
	}
	d, err := Decode(text, b.Layout)
	return d, b.Layout, err
}

// Decode answers GET /api/snowflake/decode/{id}.
func (s *Server) Decode(ctx *fasthttp.RequestCtx) error {
	text, _ := ctx.UserValue("id").(string)
	d, _, err := s.decoded(text)
	if err != nil {
		return err
	}
	return reply.WriteJSON(ctx, http.StatusOK, d)
}

// DecodedAsJava is what the Java Leaf answers: all strings.
type DecodedAsJava struct {
	Timestamp  string `json:"timestamp"` // ms(yyyy-MM-dd HH:mm:ss.SSS), local time
	SequenceID string `json:"sequenceId"`
	WorkerID   string `json:"workerId"`
}

// javaDecodeError is the Java Leaf's answer, with 200, to an ID that can't be decoded.
const javaDecodeError = `{"errorMsg":"snowflake Id反解析发生异常!"}`

// DecodeAsJava answers GET /decodeSnowflakeId as the Java Leaf does.
func (s *Server) DecodeAsJava(ctx *fasthttp.RequestCtx) error {
	d, layout, err := s.decoded(string(ctx.QueryArgs().Peek("snowflakeId")))
	if err != nil && reply.To(err).Code == reply.ErrBadID.Code {
		reply.NoStore(&ctx.Response, reply.ContentJSON)
		ctx.SetBodyString(javaDecodeError)
		return nil
	}
	if err != nil {
		return err
	}
	worker := d.Worker
	if d.Datacenter != nil { // the Java Leaf has none: its ten bits are the worker's
		worker |= *d.Datacenter << layout.WorkerBits
	}
	ms := strconv.FormatInt(int64(d.Timestamp), 10)
	return reply.WriteJSON(ctx, http.StatusOK, DecodedAsJava{
		Timestamp:  ms + "(" + d.Timestamp.Time().In(s.cfg.Location).Format("2006-01-02 15:04:05.000") + ")",
		SequenceID: strconv.FormatInt(d.Sequence, 10),
		WorkerID:   strconv.FormatInt(worker, 10),
	})
}
