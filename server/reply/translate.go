package reply

import (
	"context"
	"errors"
	"net"
	"slices"

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
// counts: the states of the daemon in their order, the worst first.
var translations = append(conditionTranslations(), //nolint:gochecknoglobals // never written to
	translation{snowflake.ErrStopped, ErrDraining},
	translation{snowflake.ErrBadID, ErrBadID},
	translation{segment.ErrUnknownTag, errUnknownKey},
	translation{segment.ErrTagExists, errTagExists},
	translation{segment.ErrBadRow, ErrBadStep},
	translation{context.Canceled, ErrDraining},
	translation{context.DeadlineExceeded, ErrOverloaded},
)

// refusals are the answers to a tag without a range, by why it has none; the first match counts.
var refusals = segmentTranslations() //nolint:gochecknoglobals // never written to

func conditionTranslations() (all []translation) {
	for _, row := range condition.Answers() {
		answer := rowAnswer(row)                                                    // also GET /readyz's alone has its counter
		if row.Is != nil && row.Message != "" && row.Is != segment.ErrUnavailable { //nolint:errorlint // a row's
			answer.snowflake = row.Stops&condition.Snowflake != 0
			all = append(all, translation{row.Is, answer})
		}
	}
	return all
}

func segmentTranslations() (all []translation) {
	rows := condition.Answers()
	for _, reason := range segment.Reasons() {
		if i := slices.IndexFunc(rows, func(row condition.Info) bool { return row.Is != nil && errors.Is(reason.Is, row.Is) }); i >= 0 {
			all = append(all, translation{reason.Is, rowAnswer(rows[i])})
		}
	}
	return all
}

// To returns the answer to err; ErrInternal when translations has none. A tag without a range has the code of what is wrong with it,
// and ErrSegmentUnavailable where its fetch is merely slow.
func To(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	among := translations
	other := ErrInternal
	if errors.Is(err, segment.ErrUnavailable) {
		among, other = refusals, ErrSegmentUnavailable
	}
	for i := range among {
		if errors.Is(err, among[i].is) {
			return among[i].answer
		}
	}
	return other
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
