package reply

import (
	"context"
	"errors"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
)

type translation struct {
	is     error
	answer *Error
}

// translations maps the sentinels of the packages below to answers. The first match
// counts: a tag without a range before why it has none, which may be that the guard in
// ZooKeeper is away; then the states of the daemon, in their order.
var translations = append(append([]translation{{segment.ErrUnavailable, ErrSegmentUnavailable}}, conditionTranslations()...), //nolint:gochecknoglobals // never written to
	translation{snowflake.ErrStopped, ErrDraining},
	translation{snowflake.ErrBadID, ErrBadID},
	translation{segment.ErrUnknownTag, errUnknownKey},
	translation{segment.ErrTagExists, errTagExists},
	translation{segment.ErrBadRow, ErrBadStep},
	translation{context.Canceled, ErrDraining},
	translation{context.DeadlineExceeded, ErrOverloaded},
)

func conditionTranslations() (all []translation) {
	for _, row := range condition.Answers() {
		if answer := rowAnswer(row); row.Is != nil && row.Message != "" {
			all = append(all, translation{row.Is, answer})
		}
	}
	return all
}

// To returns the answer to err; ErrInternal when translations has none.
func To(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	for i := range translations {
		if errors.Is(err, translations[i].is) {
			return translations[i].answer
		}
	}
	return ErrInternal
}

// toBroken returns the answer to a request that fasthttp could not read.
func toBroken(err error) *Error {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.As(err, &small):
		return errHeaderTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return errRequestTimeout
	}
	return ErrBadRequest
}
