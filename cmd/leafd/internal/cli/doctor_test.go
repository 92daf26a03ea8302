package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/worker"
)

// What doctor says to do first is about the worst finding, that of the exit code, and not about
// the one that a start meets first.
func TestDoctorsFirstIsTheWorst(t *testing.T) {
	t.Parallel()
	findings := examination{
		{Check: "zookeeper", Status: doctor.OK},
		{Check: "record", Status: doctor.Warn, Do: "nothing, where power was lost"},
		{Check: "access", Status: doctor.Warn, Do: "give all daemons one"},
		{Check: "zk-node", Status: doctor.Warn, Do: "see that --zk-root is right"},
		{Check: "alarm-webhook", Status: doctor.Fail, Do: "correct it"},
		{Check: "peers", Status: doctor.Fail, Do: "leafd clock check", Err: worker.ErrClockRefused},
	}
	require.Nil(t, findings[:1].first())
	require.Nil(t, findings[:2].first())
	for n := 3; n <= len(findings); n++ {
		require.Equal(t, findings[n-1].Check, findings[:n].first().Check)
	}
	require.Equal(t, doctor.OK, findings[:1].json().Status)
	require.Equal(t, doctor.Warn, findings[:4].json().Status)
	require.Equal(t, doctor.Fail, findings.json().Status)
	require.Equal(t, ExitOK, ExitCode(findings[:4].verdict()))
	require.Equal(t, ExitFailure, ExitCode(findings[:5].verdict()))
	require.Equal(t, ExitClock, ExitCode(findings.verdict()))
	require.ErrorContains(t, findings.verdict(), "see peers")
}
