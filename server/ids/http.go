package ids

import (
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/conn"
)

const (
	bodyBytes = 64 << 10 // of a change with the token; more gets 413
	smallBody = 1 << 10  // of any other request
)

// HTTP returns the HTTP server of one listener; changes tells whether it takes changes of tags.
func (s *Server) HTTP(handle fasthttp.RequestHandler, changes bool) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:            handle,
		ErrorHandler:       s.Broken,
		HeaderReceived:     s.headerReceived(changes),
		Logger:             debugLog{s.cfg.Log},
		MaxRequestBodySize: smallBody,
		ReadBufferSize:     conn.HeaderBytes,
		// admission refuses earlier, and with our own answer.
		Concurrency:                  max(s.cfg.MaxConns, conn.AdminConns, conn.Guests) + 1024,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true, // headers carry tokens
		NoDefaultServerHeader:        true,
		// fasthttp formats the Date of every answer once a second. Its default content
		// type is that of IDs, and costs less than setting it in each response.
		NoDefaultDate:        false,
		NoDefaultContentType: false,
		// conn has the time-outs, for an eighth less CPU.
	}
}

// debugLog receives fasthttp's messages about clients' mistakes.
type debugLog struct{ log zerolog.Logger }

// Printf logs at debug level.
func (d debugLog) Printf(format string, args ...any) { d.log.Debug().Msgf("http: "+format, args...) }
